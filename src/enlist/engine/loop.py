"""The outer loop of a run: blocks of rounds on the device; between them the host logs, saves and listens."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from enlist.engine import metrics
from enlist.engine.checkpoint import Checkpoints
from enlist.engine.diagnosis import why_diverged
from enlist.engine.evaluation import Evaluation
from enlist.engine.folder import RunFolder
from enlist.engine.session import Session
from enlist.errors import Diverged
from enlist.options import Settings

# How long the device may be left to itself: the longest that Ctrl-C and the progress line wait.
BLOCK_SECONDS = 1.0
CHECKPOINT_SECONDS = 15.0


class Block(NamedTuple):
    """What one block of rounds gave: the rounds done so far, and the metrics if it ended in an evaluation."""

    t: int
    line: dict[str, Any] | None


def blocks(session: Session, options: Settings, folder: RunFolder | None) -> Iterator[Block]:
    """Runs to the last round. Lines are on disk before a checkpoint that includes them."""
    with _keeper(folder) as keep, _interruptible() as interrupted:
        pace, t = 1, int(session.state.t)
        kept_at, kept_t = time.perf_counter(), t
        while t < options.rounds:
            goal = min((t // options.eval_every + 1) * options.eval_every, options.rounds)
            unsaved = options.checkpoint_every - (t - kept_t) if options.checkpoint_every else goal - t
            rounds = min(goal - t, pace, unsaved)
            start = time.perf_counter()
            info, seen = session.advance(rounds, evaluate=t + rounds == goal)
            pace = max(1, int(BLOCK_SECONDS * rounds / (time.perf_counter() - start)))
            t = int(session.state.t)
            if (broken := _diverged(session, seen)) is not None:
                if seen is None or np.isfinite(seen.train_loss):
                    keep(session)
                raise broken
            line = None if seen is None else metrics.line(session, options, info, seen)
            if folder is not None and line is not None:
                folder.append(line)
            yield Block(t, line)
            if interrupted.is_set():
                keep(session)
                raise KeyboardInterrupt
            if _due(options, t - kept_t, time.perf_counter() - kept_at):
                keep(session)
                kept_at, kept_t = time.perf_counter(), t
        keep(session)


def _due(options: Settings, rounds: int, seconds: float) -> bool:
    return rounds >= options.checkpoint_every if options.checkpoint_every else seconds > CHECKPOINT_SECONDS


def _diverged(session: Session, seen: Evaluation | None) -> Diverged | None:
    """Whether the run is over; the session is then left with the state of the last good round."""
    t = int(session.state.t)
    if not bool(session.state.alive):
        session.state = session.state._replace(alive=~session.state.alive)
        return Diverged(
            f"diverged in round {t + 1}: its update is not finite; {why_diverged(session)}", t + 1
        )
    if seen is not None and not np.isfinite(seen.train_loss):
        return Diverged(
            f"diverged in round {t}: the training loss is {seen.train_loss}; {why_diverged(session)}", t
        )
    return None


@contextmanager
def _keeper(folder: RunFolder | None) -> Iterator[Any]:
    """A function that saves the session's state; without a folder it does nothing."""
    if folder is None:
        yield lambda session: None
        return
    checkpoints = Checkpoints(folder.checkpoints)
    try:
        yield lambda session: checkpoints.save(session.state)
    finally:
        checkpoints.close()


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """While inside, the first Ctrl-C (or SIGTERM) only sets the event; a second one acts at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
