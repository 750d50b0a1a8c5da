"""The outer loop of runs: blocks of rounds on the device; between them the host logs, saves and listens."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from enlist.engine import hosts, metrics
from enlist.engine.crew import Crew, Look
from enlist.engine.diagnosis import why_diverged
from enlist.engine.progress import Screen
from enlist.engine.undertaking import Undertaking
from enlist.errors import Diverged
from enlist.options import Settings

# How long the device may be left to itself: the longest that Ctrl-C and the progress line wait.
BLOCK_SECONDS = 1.0
CHECKPOINT_SECONDS = 15.0
# Where saving takes long (many workers with states): at least so many times as long as the last one took.
CHECKPOINT_SHARE = 20


def carry_out(
    crew: Crew,
    runs: Sequence[Undertaking],
    show: Screen,
    track: Callable[[dict[str, Any]], None] = lambda line: None,
    until: int | None = None,
) -> None:
    """Takes runs, all at the same round, to their last one or to `until`.

    A run that ends early says so in `stopped`. Lines are on disk before a checkpoint that includes them.
    """
    settings = runs[0].settings
    last = settings.rounds if until is None else until
    t = int(runs[0].session.state.t)
    show.start(t, runs[0].metrics[-1] if runs[0].metrics else None)
    pace, kept_at, kept_t, saving = 1, time.perf_counter(), t, 0.0
    try:
        with _interruptible() as interrupted:
            while t < last and _going(runs):
                goal = min((t // settings.eval_every + 1) * settings.eval_every, settings.rounds)
                unsaved = settings.checkpoint_every - (t - kept_t) if settings.checkpoint_every else goal - t
                rounds = min(goal - t, pace, unsaved, last - t)
                start = time.perf_counter()
                looks = crew.advance(rounds, evaluate=t + rounds == goal)
                now = time.perf_counter()
                pace, due, ended = hosts.notices(
                    hosts.Notice(
                        max(1, int(BLOCK_SECONDS * rounds / (now - start))),
                        _due(settings, t + rounds - kept_t, now - kept_at, saving),
                        interrupted.is_set(),
                    )
                )
                t += rounds
                for each in runs:
                    each.device += (now - start) / len(runs)
                _note(crew, runs, looks)
                for line in (each.metrics[-1] for each in runs if t == goal and each.stopped is None):
                    track(line)
                show.update(t, runs[0].metrics[-1] if t == goal and runs[0].metrics else None)
                if ended:
                    _keep(crew, runs)
                    for i in _going(runs):
                        runs[i].stopped = KeyboardInterrupt()
                elif due:
                    start = time.perf_counter()
                    _keep(crew, runs)
                    kept_at, kept_t = time.perf_counter(), t
                    saving = kept_at - start
            _keep(crew, runs)
    finally:
        for each in runs:
            each.close()


def _going(runs: Sequence[Undertaking]) -> list[int]:
    return [i for i, each in enumerate(runs) if each.stopped is None]


def _note(crew: Crew, runs: Sequence[Undertaking], looks: Sequence[Look]) -> None:
    """Writes down what was seen of the runs that go on, and ends those that diverged."""
    for i in _going(runs):
        run, look = runs[i], looks[i]
        if not look.alive or (look.seen is not None and not np.isfinite(look.seen.train_loss)):
            crew.settle([i])
            _end(run, look)
        elif look.seen is not None:
            run.note(metrics.line(run.session, look.t, look.info, look.seen))


def _end(run: Undertaking, look: Look) -> None:
    """Of a run that diverged: it is left with the state of its last good round, where there is one."""
    session = run.session
    if look.alive:
        assert look.seen is not None
        said = f"diverged in round {look.t}: the training loss is {look.seen.train_loss}"
        run.stopped = Diverged(_explained(run, said), look.t)
        return
    session.state = session.state._replace(alive=~session.state.alive)
    said = f"diverged in round {look.t + 1}: its update is not finite"
    run.stopped = Diverged(_explained(run, said), look.t + 1)
    run.keep()


def _explained(run: Undertaking, said: str) -> str:
    return f"{said}; {why_diverged(run.session)}" if run.explain else said


def _keep(crew: Crew, runs: Sequence[Undertaking]) -> None:
    going = _going(runs)
    crew.settle(going)
    for i in going:
        runs[i].keep()


def _due(settings: Settings, rounds: int, seconds: float, saving: float) -> bool:
    """Whether to save, so many rounds and seconds after the last time, which took `saving`."""
    if settings.checkpoint_every:
        return rounds >= settings.checkpoint_every
    return seconds > max(CHECKPOINT_SECONDS, CHECKPOINT_SHARE * saving)


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
