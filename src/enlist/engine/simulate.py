"""The run: blocks of rounds, evaluated, logged, checkpointed; taken up again where it stopped."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from enlist.algorithms.core import Algorithm
from enlist.algorithms.work import Epochs, LocalWork
from enlist.engine import platform
from enlist.engine.checkpoint import Checkpoints
from enlist.engine.diagnosis import why_diverged
from enlist.engine.evaluation import Evaluation
from enlist.engine.execution import Execution
from enlist.engine.folder import RunFolder, refuse_if_used
from enlist.engine.program import RoundInfo
from enlist.engine.progress import Display, silent
from enlist.engine.run import Run
from enlist.engine.session import Session, open_session
from enlist.engine.summary import describe, summarize
from enlist.errors import BadInput, Diverged
from enlist.options import Settings
from enlist.participation import sampling as strategies
from enlist.participation.sampling import Sampling
from enlist.problem.adapters import as_model
from enlist.problem.federation import Federation

# How long the device may be left to itself: the longest that Ctrl-C and the progress line wait.
BLOCK_SECONDS = 1.0
CHECKPOINT_SECONDS = 15.0
# What may differ from the options that a run was begun with.
MAY_CHANGE = {"rounds", "target", "devices"}


class Block(NamedTuple):
    """What one block of rounds gave: the rounds done so far, and the metrics if it ended in an evaluation."""

    t: int
    line: dict[str, Any] | None


def simulate(
    algorithm: Algorithm,
    model: Any,
    federation: Federation,
    *,
    cohort: int | Sampling = 10,
    local: LocalWork = Epochs(5, batch=10),
    out: str | Path | None = None,
    resume: bool = False,
    config: dict[str, Any] | None = None,
    display: Callable[[int], Display] = silent,
    tensorboard: bool = False,
    **settings: Any,
) -> Run:
    """Trains a model over a federation with an algorithm, simulated.

    Args:
        algorithm: for instance `enlist.fedavg(worker_lr=0.1, server_lr=1.0)`.
        model: a `Model`, a flax or equinox module, or a pair of functions (see `enlist.as_model`).
        federation: who holds which examples.
        cohort: n, workers a round drawn without replacement, or a strategy of `enlist.sampling`.
        local: what a worker does in a round, `Epochs(E, batch)` or `Steps(K, batch)`.
        out: a folder to leave everything in; nothing is written without one.
        resume: go on with the run that `out` holds.
        config: what `config.yaml` shall say; by default a description of the arguments.
        display: how progress is shown; `enlist.engine.progress.live` draws it on a terminal.
        tensorboard: also write TensorBoard event files into `out`.
        settings: `rounds`, `seed`, `eval_every`, `target`, `precision`, `execution`, ...: see `Settings`.

    Returns:
        The finished run. Raises `Diverged` if it turned non-finite, `KeyboardInterrupt` after Ctrl-C; the last
        good state is then in `out/checkpoints`.
    """
    options = _settings(settings)
    platform.prepare(options.deterministic)
    model = as_model(model)
    strategy = strategies.without_replacement(cohort) if isinstance(cohort, int) else cohort
    folder = RunFolder(Path(out)) if out is not None else None
    if folder is not None and not resume:
        refuse_if_used(folder.path)
    began = time.perf_counter()
    session = open_session(algorithm, model, federation, strategy, local, options)
    config = describe(session, options) if config is None else config | _resolved(session)
    metrics: list[dict[str, Any]] = []
    if folder is not None and resume:
        _refuse_changes(folder, config)
        metrics = _take_up(folder, session)
        folder.rewrite_config(config)
    elif folder is not None:
        folder.create(config, federation)
    session.advance(0, False)
    compiled = time.perf_counter() - began
    stopped: Diverged | KeyboardInterrupt | None = None
    status = "done"
    try:
        with display(options.rounds) as show, _tracker(folder, tensorboard) as track:
            show.start(int(session.state.t), metrics[-1] if metrics else None)
            for block in _blocks(session, options, folder):
                if block.line is not None:
                    metrics.append(block.line)
                    track(block.line)
                show.update(block.t, block.line)
    except Diverged as stop:
        stopped, status = stop, "diverged"
    except KeyboardInterrupt as stop:
        stopped, status = stop, "interrupted"
    final = metrics[-1] if metrics else _look(session, options)
    facts = summarize(session, options, metrics, final, status, time.perf_counter() - began, compiled)
    run = Run(session.params(), metrics, facts, config, session, folder.path if folder else None)
    if folder is not None:
        folder.finish(facts, run.params)
    if stopped is not None:
        raise stopped
    return run


def _blocks(session: Session, options: Settings, folder: RunFolder | None) -> Iterator[Block]:
    """Runs to the last round, a block at a time; lines are on disk before the checkpoint that includes them."""
    checkpoints = Checkpoints(folder.checkpoints) if folder else None
    saved, pace, t = time.perf_counter(), 1, int(session.state.t)
    last_saved = t
    try:
        with _interruptible() as interrupted:
            while t < options.rounds:
                goal = min((t // options.eval_every + 1) * options.eval_every, options.rounds)
                rounds = min(goal - t, pace)
                evaluate = t + rounds == goal
                start = time.perf_counter()
                info, seen = session.advance(rounds, evaluate)
                pace = max(1, int(BLOCK_SECONDS * rounds / (time.perf_counter() - start)))
                t = int(session.state.t)
                _stop_if_diverged(session, seen)
                line = None if seen is None else _line(session, options, t, info, seen)
                if folder is not None and line is not None:
                    folder.append(line)
                yield Block(t, line)
                due = (
                    t - last_saved >= options.checkpoint_every
                    if options.checkpoint_every
                    else time.perf_counter() - saved > CHECKPOINT_SECONDS
                )
                if checkpoints and due:
                    checkpoints.save(session.state)
                    saved, last_saved = time.perf_counter(), t
                if interrupted.is_set():
                    raise KeyboardInterrupt
    finally:
        # Whatever ended the loop: the state is that of the last good round.
        if checkpoints:
            checkpoints.save(session.state)
            checkpoints.close()


def _line(session: Session, options: Settings, t: int, info: RoundInfo, seen: Evaluation) -> dict[str, Any]:
    taken = info.weights > 0
    line: dict[str, Any] = {
        "round": t,
        "train_loss": float(seen.train_loss),
        "test_loss": float(seen.test_loss),
        f"test_{session.plan.model.metric_name}": float(seen.test_metric),
        "delta_norm": float(info.delta_norm),
        "cohort": sorted(info.ids[taken].tolist()),
        "uplink_bytes": session.cost.uplink,
        "downlink_bytes": session.cost.downlink,
        "comm_mib": session.cost.mebibytes(t),
        "seconds": session.cost.seconds(t, options.bandwidth, options.worker_seconds),
    }
    if session.plan.passes.gradient:
        line["grad_norm_sq"] = float(seen.grad_norm_sq)
    if len(seen.by_worker):
        # A worker without test rows of its own has no accuracy.
        assert session.federation.test is not None
        own = seen.by_worker[session.federation.test.sizes > 0]
        quantiles = {"min": own.min(), "p10": np.quantile(own, 0.1), "median": np.median(own)}
        spread = quantiles | {"mean": own.mean(), "max": own.max()}
        line[f"worker_{session.plan.model.metric_name}"] = {k: float(v) for k, v in spread.items()}
    return line


def _look(session: Session, options: Settings) -> dict[str, Any]:
    """The metrics of the state as it is, for a run without an evaluated round."""
    info, seen = session.advance(0, True)
    assert seen is not None
    return _line(session, options, int(session.state.t), info, seen)


def _stop_if_diverged(session: Session, seen: Evaluation | None) -> None:
    t = int(session.state.t)
    if not bool(session.state.alive):
        session.state = session.state._replace(alive=~session.state.alive)
        raise Diverged(f"diverged in round {t + 1}: its update is not finite; {why_diverged(session)}", t + 1)
    if seen is not None and not np.isfinite(seen.train_loss):
        raise Diverged(
            f"diverged in round {t}: the training loss is {seen.train_loss}; {why_diverged(session)}", t
        )


def _take_up(folder: RunFolder, session: Session) -> list[dict[str, Any]]:
    """Puts the newest checkpoint's state into the session and drops what was logged after it."""
    checkpoints = Checkpoints(folder.checkpoints)
    try:
        if checkpoints.latest() is None:
            return folder.rewind(0)
        session.put(checkpoints.restore(session.state))
        return folder.rewind(int(session.state.t))
    finally:
        checkpoints.close()


def _refuse_changes(folder: RunFolder, config: dict[str, Any]) -> None:
    before = folder.config()
    for name in sorted(before.keys() | config.keys()):
        if name not in MAY_CHANGE and before.get(name) != config.get(name):
            option = name.replace("_", "-")
            raise BadInput(
                f"resume {folder.path}: {option} is {config.get(name)!r} now but was {before.get(name)!r}; "
                f"only {' and '.join(sorted(MAY_CHANGE))} may change"
            )


def _resolved(session: Session) -> dict[str, Any]:
    """What `auto` came to: kept, so that a resumed or repeated run is cut the same way."""
    chosen = Execution(session.plan.lanes, session.plan.mesh.size)
    return {
        "execution": chosen.name(session.plan.sampling.places(session.plan.workers)),
        "devices": chosen.devices,
    }


def _settings(given: dict[str, Any]) -> Settings:
    try:
        return replace(Settings(), **given)
    except TypeError:
        known = Settings.__dataclass_fields__
        raise TypeError(f"simulate() has no argument {next(k for k in given if k not in known)!r}") from None


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


@contextmanager
def _tracker(folder: RunFolder | None, tensorboard: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    if folder is None or not tensorboard:
        yield lambda line: None
        return
    from enlist.engine.tracking import tensorboard_writer

    with tensorboard_writer(folder.path) as write:
        yield write
