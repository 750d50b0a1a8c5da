"""The run: blocks of rounds, evaluated, logged, checkpointed; taken up again where it stopped."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from enlist.algorithms.core import Algorithm
from enlist.algorithms.work import Epochs, LocalWork
from enlist.engine import platform
from enlist.engine.checkpoint import Checkpoints
from enlist.engine.execution import Execution
from enlist.engine.folder import RunFolder, refuse_if_used
from enlist.engine.loop import blocks
from enlist.engine.metrics import look
from enlist.engine.progress import Display, Screen, silent
from enlist.engine.run import Run
from enlist.engine.session import Session, open_session
from enlist.engine.summary import Times, describe, summarize
from enlist.errors import BadInput, Diverged
from enlist.options import Settings
from enlist.participation import sampling as strategies
from enlist.participation.sampling import Sampling
from enlist.problem.adapters import as_model
from enlist.problem.federation import Federation

# What may differ from the options that a run was begun with.
MAY_CHANGE = {"rounds", "target", "devices"}


def simulate(
    algorithm: Algorithm,
    model: Any,
    federation: Federation,
    *,
    cohort: Any = 10,
    local: Any = Epochs(5, batch=10),
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
    strategy = cohort if isinstance(cohort, Sampling) else strategies.without_replacement(_whole(cohort))
    if not isinstance(local, LocalWork):
        raise BadInput(f"local = {local!r}: give Epochs(E, batch) or Steps(K, batch)")
    folder = RunFolder(Path(out)) if out is not None else None
    if folder is not None and not resume:
        refuse_if_used(folder.path)
    began = time.perf_counter()
    session = open_session(algorithm, model, federation, strategy, local, options)
    config = describe(session, options) if config is None else config | _resolved(session)
    metrics: list[dict[str, Any]] = []
    if folder is not None and resume:
        _refuse_changes(folder, config)
        metrics = _take_up(folder, session, options)
        folder.rewrite_config(config)
        _complete(folder, session, options, metrics)
    elif folder is not None:
        folder.create(config, federation)
    first = int(session.state.t)
    session.advance(0, False)
    compiled = time.perf_counter() - began
    with display(options.rounds) as show, _tracker(folder, tensorboard) as track:
        stopped = _carry_out(session, options, folder, metrics, show, track)
    final = metrics[-1] if metrics else look(session, options)
    times = Times(time.perf_counter() - began, compiled, int(session.state.t) - first)
    facts = summarize(session, options, metrics, final, _status(stopped), times)
    run = Run(session.params(), metrics, facts, config, session, folder.path if folder else None)
    if folder is not None:
        folder.finish(facts, run.params)
    if stopped is not None:
        raise stopped
    return run


def _carry_out(
    session: Session,
    options: Settings,
    folder: RunFolder | None,
    metrics: list[dict[str, Any]],
    show: Screen,
    track: Callable[[dict[str, Any]], None],
) -> Diverged | KeyboardInterrupt | None:
    """Runs to the end, adding to `metrics`; returns what ended it early, if anything did."""
    show.start(int(session.state.t), metrics[-1] if metrics else None)
    try:
        for block in blocks(session, options, folder):
            if block.line is not None:
                metrics.append(block.line)
                track(block.line)
            show.update(block.t, block.line)
    except (Diverged, KeyboardInterrupt) as stop:
        return stop
    return None


def _status(stopped: Diverged | KeyboardInterrupt | None) -> str:
    if stopped is None:
        return "done"
    return "diverged" if isinstance(stopped, Diverged) else "interrupted"


def _take_up(folder: RunFolder, session: Session, options: Settings) -> list[dict[str, Any]]:
    """Puts the newest checkpoint's state into the session and drops what was logged after it.

    Also the line of what was to be the last round, where a longer run would not have evaluated it.
    """
    checkpoints = Checkpoints(folder.checkpoints)
    try:
        done = checkpoints.latest()
        if done is None:
            return folder.rewind(0)
        if done > options.rounds:
            raise BadInput(
                f"resume {folder.path}: {done} rounds are done already, more than rounds = {options.rounds}"
            )
        session.put(checkpoints.restore(session.state))
        return folder.rewind(done, lambda t: t % options.eval_every == 0 or t == options.rounds)
    finally:
        checkpoints.close()


def _complete(folder: RunFolder, session: Session, options: Settings, metrics: list[dict[str, Any]]) -> None:
    """Evaluates a last round that became the last only now, and so was not evaluated when it was run."""
    t = int(session.state.t)
    if t == options.rounds > 0 and (not metrics or metrics[-1]["round"] != t):
        cohort = sorted(one.worker for one in session.drawn(t - 1))
        metrics.append(look(session, options) | {"cohort": cohort, "delta_norm": None})
        folder.append(metrics[-1])


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
    """What `auto` came to: kept, so that a resumed or repeated run is cut the same way, on however many devices."""
    chosen = Execution(session.plan.lanes, session.plan.devices)
    return {"execution": chosen.name(session.plan.sampling.places(session.plan.workers))}


def _whole(cohort: Any) -> int:
    if isinstance(cohort, bool) or not isinstance(cohort, Integral):
        raise BadInput(f"cohort = {cohort!r}: give a whole number, or a strategy of enlist.sampling")
    return int(cohort)


def _settings(given: dict[str, Any]) -> Settings:
    try:
        plain = {
            name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()
        }
        return replace(Settings(), **plain)
    except TypeError:
        known = Settings.__dataclass_fields__
        raise TypeError(f"simulate() has no argument {next(k for k in given if k not in known)!r}") from None


@contextmanager
def _tracker(folder: RunFolder | None, tensorboard: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    if folder is None or not tensorboard:
        yield lambda line: None
        return
    from enlist.engine.tracking import tensorboard_writer

    with tensorboard_writer(folder.path) as write:
        yield write
