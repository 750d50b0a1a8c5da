"""Orders out, replies in: Flower's Grid as the server uses it.

Who has an order without a reply is busy, also with an old round, and gets no other. A reply that nobody waits for any
more is counted and dropped, after which its worker is free again.
"""

import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from enlist.errors import EnlistError

NAME = re.compile(r"worker-(\d+)")
POLL_SECONDS = 0.1
# How long Flower may be away, for instance while it is started again.
LINK_SECONDS = 180.0
# Orders live as long as Flower lets them: a slow worker must be known to be busy, not thought to be free.
ORDER_SECONDS = 12 * 3600.0


class Reply(NamedTuple):
    """What came back for an order of the exchange that is under way.

    Args:
        content: a record, or None where Flower says in `error` why there is none.
    """

    worker: int
    content: Any
    error: str = ""


class Counts(NamedTuple):
    """Replies that were dropped: to orders of earlier exchanges, given twice, to no order, or from another node."""

    late: int = 0
    doubled: int = 0
    unsolicited: int = 0


class _Sent(NamedTuple):
    worker: int
    node: int
    exchange: int


class Post:
    """The server's way to the workers."""

    def __init__(self, grid: Any):
        self.counts = Counts()
        self._grid = grid
        self._open: dict[str, _Sent] = {}
        self._answered: set[str] = set()
        self._exchange = 0

    def reachable(self) -> dict[int, int]:
        """The nodes of the workers that are online, by worker. Flower knows them by their keys."""
        found = {}
        for node in self._patiently(self._grid.get_nodes):
            if (match := NAME.fullmatch(node.name)) is not None:
                found[int(match[1])] = int(node.node_id)
        return dict(sorted(found.items()))

    def busy(self) -> set[int]:
        """Workers that have an order and have not replied."""
        return {sent.worker for sent in self._open.values()}

    def send(self, orders: Mapping[int, Any], nodes: Mapping[int, int], group: str) -> None:
        """Begins an exchange: an order to each of these workers."""
        from flwr.app import Message, MessageType

        self._exchange += 1
        workers = list(orders)
        made = [
            Message(orders[worker], nodes[worker], MessageType.TRAIN, ttl=ORDER_SECONDS, group_id=group)
            for worker in workers
        ]
        ids = self._patiently(lambda: list(self._grid.push_messages(made)))
        if len(ids) != len(workers):
            raise EnlistError(f"Flower took {len(ids)} of {len(workers)} orders: are they too large for it?")
        for worker, name in zip(workers, ids, strict=True):
            if name:
                self._open[name] = _Sent(worker, nodes[worker], self._exchange)

    def close(self) -> None:
        """Ends the exchange: what still comes for it is late."""
        self._exchange += 1

    def waiting(self) -> set[int]:
        """Workers of this exchange that have not replied."""
        return {sent.worker for sent in self._open.values() if sent.exchange == self._exchange}

    def receive(self) -> list[Reply]:
        """What has come for this exchange since the last call; everything else is counted and dropped."""
        if not self._open:
            return []
        found = []
        for message in self._patiently(lambda: list(self._grid.pull_messages(list(self._open)))):
            reply = self._sort(message)
            if reply is not None:
                found.append(reply)
        return found

    def _sort(self, message: Any) -> Reply | None:
        name = message.metadata.reply_to_message_id
        sent = self._open.get(name)
        if sent is None:
            self._count("doubled" if name in self._answered else "unsolicited")
            return None
        if not message.has_error() and message.metadata.src_node_id != sent.node:
            self._count("unsolicited")
            return None
        del self._open[name]
        self._answered.add(name)
        if sent.exchange != self._exchange:
            self._count("late")
            return None
        if message.has_error():
            return Reply(sent.worker, None, _reason(message.error))
        return Reply(sent.worker, message.content)

    def _count(self, what: str) -> None:
        self.counts = self.counts._replace(**{what: getattr(self.counts, what) + 1})

    def _patiently(self, call: Any) -> Any:
        """Flower's link may be started again meanwhile: what fails is tried anew for a while."""
        since = time.monotonic()
        while True:
            try:
                return call()
            except Exception as error:
                if time.monotonic() - since > LINK_SECONDS:
                    raise EnlistError(
                        f"Flower's link does not answer for {LINK_SECONDS:.0f} s ({type(error).__name__}: {error})"
                    ) from error
                time.sleep(1.0)


def _reason(error: Any) -> str:
    """Flower wraps what a worker said: "<class 'X'>:<'words'>"."""
    words = " ".join(str(error.reason or f"error {error.code}").split())
    match = re.fullmatch(r"<class '[^']*'>:<'(.*)'>", words)
    return (match[1] if match else words)[:200]
