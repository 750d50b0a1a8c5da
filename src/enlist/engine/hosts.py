"""Several hosts that carry out one run together, each a process with its own devices.

All of them run the same program on the same numbers; what one host alone knows (a clock, a signal, a file) is shared
before anything depends on it. The lead, host 0, writes the folder of the run and speaks for all.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils

from enlist.errors import BadInput, EnlistError


def count() -> int:
    """How many hosts there are."""
    return jax.process_count()


def lead() -> bool:
    """Whether this host speaks for all."""
    return jax.process_index() == 0


def agree(*numbers: int) -> list[int]:
    """The lead's numbers, on all hosts."""
    if count() == 1:
        return list(numbers)
    return np.asarray(multihost_utils.broadcast_one_to_all(np.array(numbers, np.int32))).tolist()


class Notice(NamedTuple):
    """What a host alone knows after a block of rounds, from its clock and its signals."""

    pace: int
    due: bool
    interrupted: bool


def notices(own: Notice) -> Notice:
    """What all hosts go by: the lead's clock, and a signal that any of them got."""
    if count() == 1:
        return own
    all_ = np.asarray(multihost_utils.process_allgather(np.array(own, np.int32)))
    return Notice(int(all_[0, 0]), bool(all_[0, 1]), bool(all_[:, 2].any()))


def shared(tree: Any) -> Any:
    """The lead's arrays, on all hosts. The others give arrays of the same shapes."""
    return tree if count() == 1 else multihost_utils.broadcast_one_to_all(tree)


def from_lead(call: Callable[[], Any]) -> Any:
    """What a call gives on the lead, on all hosts; what it refuses is refused on all.

    Args:
        call: returns what JSON can hold. Only the lead makes it.
    """
    if count() == 1:
        return call()
    told: dict[str, Any] = {}
    if lead():
        try:
            told = {"found": call()}
        except EnlistError as error:
            told = {"kind": "bad" if isinstance(error, BadInput) else "failed", "refused": str(error)}
    text = np.frombuffer(json.dumps(told).encode(), np.uint8)
    (length,) = agree(len(text))
    room = np.zeros(length, np.uint8)
    if lead():
        room[:] = text
    told = json.loads(np.asarray(shared(room)).astype(np.uint8).tobytes())
    if "refused" in told:
        raise (BadInput if told["kind"] == "bad" else EnlistError)(told["refused"])
    return told["found"]


@contextmanager
def losses_explained(resume: str) -> Iterator[None]:
    """While inside, the loss of another host ends this one with one line.

    Leaving as usual would first wait for those that are gone, so this leaves at once.

    Args:
        resume: what to type then.
    """
    try:
        yield
    except (EnlistError, KeyboardInterrupt):
        raise
    except Exception as error:
        if count() == 1 or not _lost(error):
            raise
        reason = " ".join(str(error).split())[:160]
        said = f"enlist: host {jax.process_index()} of {count()} lost another one ({reason}); {resume}"
        print(said, file=sys.stderr, flush=True)
        os._exit(1)


def _lost(error: Exception) -> bool:
    """Whether an error is about the way to another host. Their kinds differ; their words do not."""
    words = ("Gloo", "gloo", "NCCL", "coordination service", "Connection", "peer", "heartbeat", "UNAVAILABLE")
    return any(word in str(error) for word in words)
