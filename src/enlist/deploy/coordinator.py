"""One round across machines: enlist, send, collect until enough or too late, add up as the simulator does, step."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from enlist.algorithms import core
from enlist.algorithms.round import Stepped
from enlist.deploy import enlistment, messages
from enlist.deploy.checks import NOT_FINITE, checked
from enlist.deploy.enlistment import Enlisted
from enlist.deploy.halves import ServerHalf
from enlist.deploy.job import Job, Problem
from enlist.deploy.ledger import Ledger
from enlist.deploy.messages import LOCAL, PROBE, Malformed, Order
from enlist.deploy.post import POLL_SECONDS, Counts, Post
from enlist.engine.traffic import Sent
from enlist.errors import EnlistError

Tree = Any


class Abandoned(Exception):
    """A round that does not count: x_t stays."""


class Taken(NamedTuple):
    """One local run whose message is used."""

    worker: int
    draw: int
    rows: int
    seconds: float
    weight: float
    loss: float
    message: Tree


class Round(NamedTuple):
    """A round that counts: the server's new state, who took part, and how long the slowest of them computed."""

    stepped: Stepped
    ids: list[int]
    enlisted: int
    attempt: int
    seconds: float
    slowest: float


@dataclass
class Coordinator:
    """Carries out rounds.

    Args:
        sent: the shapes of what travels.
        say: told what it is waiting for.
    """

    job: Job
    problem: Problem
    half: ServerHalf
    sent: Sent
    post: Post
    ledger: Ledger
    say: Callable[[str], None]
    begun: bool = False
    _counted: Counts = field(default_factory=Counts)
    _refused: list[str] = field(default_factory=list)
    _asked: int = 0

    def round(self, t: int, server: Tree) -> Round:
        """Round t, tried until it counts; gives up after as many abandoned attempts in a row as patience allows."""
        patience = self.job.exchange.patience
        for attempt in range(patience):
            began = time.monotonic()
            self._refused, self._asked = [], 0
            try:
                taken, probe = self._attempt(t, attempt, server)
            except Abandoned as abandoned:
                why = f"{abandoned}{self._advice()}"
                spent = round(time.monotonic() - began, 3)
                self.ledger.event("abandoned", t, cause=why, enlisted=self._asked, seconds=spent)
                last = why
                continue
            finally:
                self._note_dropped(t)
            stepped = self._step(t, server, taken, probe)
            ids = sorted(one.worker for one in taken)
            slowest = max(one.seconds for one in taken)
            return Round(stepped, ids, self._asked, attempt, time.monotonic() - began, slowest)
        raise EnlistError(
            f"round {t + 1} was abandoned {patience} times in a row, at last because {last}; the model is that of "
            f"round {t}"
        )

    def _attempt(self, t: int, attempt: int, server: Tree) -> tuple[list[Taken], Tree]:
        nodes = self._gather(t)
        options, settings = self.problem.options.participation, self.problem.options.settings
        over = self.job.exchange.over_enlist
        enlisted = enlistment.enlist(options, settings.seed, t, attempt, list(nodes), self.job.workers, over)
        self._asked = sum(enlisted.draws.values())
        payload, replica = self.half.payload(server)
        probe: Tree = ()
        if self.problem.algorithm.probe is not None:
            probed = self._exchange(PROBE, t, enlisted, nodes, payload, replica, self.sent.probe)
            probe = core.mean(
                self._total(self.half.add_probe, t, probed, self.sent.probe), self.job.workers
            ).mean
            # Those whose probes are in the mean are the cohort, all of them: so the record of who took part says all.
            draws = dict(sorted(Counter(one.worker for one in probed).items()))
            enlisted = Enlisted(draws, len(probed), len(probed))
            payload = core.Probed(payload, probe)
        return self._exchange(LOCAL, t, enlisted, nodes, payload, replica, self.sent.up), probe

    def _gather(self, t: int) -> dict[int, int]:
        """The nodes of those who can be reached and are free; all are waited for before the first round."""
        workers, options = self.job.workers, self.problem.options.participation
        least = enlistment.needed(options, workers)
        until = time.monotonic() + self.job.exchange.join_seconds
        hoped = least if self.begun else workers
        while True:
            self.post.receive()  # late replies make their workers free again
            online = {worker: node for worker, node in self.post.reachable().items() if worker < workers}
            free = {worker: node for worker, node in online.items() if worker not in self.post.busy()}
            if len(free) >= hoped or (time.monotonic() > until and len(free) >= least):
                self.begun = True
                return free
            if time.monotonic() > until:
                raise Abandoned(
                    f"{len(free)} workers are there and free ({len(online)} reachable), {least} are needed"
                )
            self.say(f"waiting for workers: {len(free)} of {hoped} are there")
            time.sleep(5 * POLL_SECONDS)

    def _exchange(
        self,
        kind: str,
        t: int,
        enlisted: Enlisted,
        nodes: dict[int, int],
        payload: Tree,
        replica: Tree,
        like: Tree,
    ) -> list[Taken]:
        """Orders to those enlisted, and the replies that are used, in the order in which they came."""
        self.post.send(self._orders(kind, t, enlisted.draws, payload, replica), nodes, f"{t}")
        try:
            return self._collect(kind, t, enlisted, like)
        finally:
            self.post.close()

    def _collect(self, kind: str, t: int, enlisted: Enlisted, like: Tree) -> list[Taken]:
        """The replies that are used: enough of them, or those that come in time."""
        exchange = self.job.exchange
        until = time.monotonic() + exchange.deadline
        taken: list[Taken] = []
        while True:
            for reply in self.post.receive():
                taken += self._valid(reply, kind, t, enlisted.draws[reply.worker], like)
            if exchange.take == "first" and len(taken) >= enlisted.wanted:
                return taken[: enlisted.wanted]
            waiting = self.post.waiting()
            possible = len(taken) + sum(enlisted.draws[worker] for worker in waiting)
            late = time.monotonic() > until
            if not waiting or late or possible < enlisted.least:
                break
            self.say(f"{len(taken)} of {enlisted.wanted} replies")
            time.sleep(POLL_SECONDS)
        if len(taken) >= enlisted.least:
            return taken
        missing = f", none from {_listed(waiting)}" if waiting else ""
        after = f" within {exchange.deadline:g} s" if late else ""
        raise Abandoned(f"{len(taken)} valid replies came{after} where {enlisted.least} are needed{missing}")

    def _orders(
        self, kind: str, t: int, draws: dict[int, int], payload: Tree, replica: Tree
    ) -> dict[int, Any]:
        """What each worker is sent; what is the same for all is packed once."""
        same = self.problem.algorithm.address is core.Algorithm._field_defaults["address"]
        shared, held = messages.packed(payload) if same else None, messages.packed(replica)

        def order(worker: int) -> Any:
            mine = shared if same else self.half.addressed(payload, worker)
            known = self.ledger.acknowledged(worker)
            return messages.order_record(
                Order(self.job.token, kind, t, worker, draws[worker], known, mine, held)
            )

        return {worker: order(worker) for worker in draws}

    def _valid(self, reply: Any, kind: str, t: int, draws: int, like: Tree) -> list[Taken]:
        """The local runs in a reply; none where something is wrong with it, which is noted."""
        try:
            if reply.content is None:
                raise Malformed(reply.error)
            got = checked(
                reply.content,
                self.job.token,
                kind,
                t,
                reply.worker,
                draws,
                like,
                self.job.exchange.norm_bound,
                self.half.decode,
            )
        except Malformed as why:
            self.ledger.event("refused", t, worker=reply.worker, cause=str(why))
            self._refused.append(str(why))
            return []
        each = zip(got.weights, got.losses, got.messages, strict=True)
        return [Taken(reply.worker, draw, got.rows, got.seconds, *one) for draw, one in enumerate(each)]

    def _in_order(self, t: int, taken: Sequence[Taken]) -> list[Taken]:
        """As the simulator adds up: most local steps first, then by id."""
        steps = {one.worker: int(self.problem.work.count(one.rows, t)) for one in taken}
        return sorted(taken, key=lambda one: (-steps[one.worker], one.worker, one.draw))

    def _total(
        self, add: Callable[..., core.Total], t: int, taken: Sequence[Taken], like: Tree
    ) -> core.Total:
        summand = like if add is self.half.add_probe else jax.eval_shape(self.problem.algorithm.decode, like)
        total = core.empty_total(summand)
        for one in self._in_order(t, taken):
            total = add(total, one.message, np.float32(one.weight), np.float32(one.loss))
        return total

    def _step(self, t: int, server: Tree, taken: Sequence[Taken], probe: Tree) -> Stepped:
        total = self._total(self.half.add, t, taken, self.sent.up)
        stack = self._stack(t, taken) if self.problem.algorithm.reduce == "stack" else None
        return self.half.step(server, total, self.problem.options.settings.seed, t, stack, probe)

    def _stack(self, t: int, taken: Sequence[Taken]) -> core.Stack:
        ordered = self._in_order(t, taken)
        summands = [self.half.decode(one.message) for one in ordered]
        return core.Stack(
            jax.tree.map(lambda *leaves: jnp.stack(leaves), *summands),
            jnp.asarray([one.weight for one in ordered], jnp.float32),
            jnp.asarray([one.worker for one in ordered], jnp.int32),
            jnp.asarray([one.loss for one in ordered], jnp.float32),
        )

    def _advice(self) -> str:
        """Where every reply of an attempt was refused for the same reason, which is the run's and not a worker's."""
        if self._refused and all(NOT_FINITE in cause for cause in self._refused):
            return "; the workers' updates are not finite, as with too large a worker-lr"
        return ""

    def _note_dropped(self, t: int) -> None:
        """Writes down what was dropped since the last time."""
        now, before = self.post.counts, self._counted
        new = {name: getattr(now, name) - getattr(before, name) for name in Counts._fields}
        if any(new.values()):
            self.ledger.event("dropped", t, **new)
        self._counted = now


def _listed(workers: set[int]) -> str:
    some = sorted(workers)
    words = ", ".join(map(str, some[:5]))
    return f"worker{'s' if len(some) > 1 else ''} {words}{' and others' if len(some) > 5 else ''}"
