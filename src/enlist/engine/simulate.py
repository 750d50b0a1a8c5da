"""The run, simulated: what a person hands in is checked and set up, carried out, and handed back."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from enlist.algorithms.core import Algorithm
from enlist.algorithms.work import Epochs, LocalWork
from enlist.engine import platform
from enlist.engine.crew import Alone
from enlist.engine.loop import carry_out
from enlist.engine.progress import Display, silent
from enlist.engine.run import Run
from enlist.engine.session import links_of
from enlist.engine.task import Task
from enlist.engine.undertaking import Undertaking, undertake
from enlist.errors import BadInput
from enlist.links import digest
from enlist.options import Settings
from enlist.participation import sampling as strategies
from enlist.participation.sampling import Sampling
from enlist.problem.adapters import as_model
from enlist.problem.federation import Federation


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
        settings: `rounds`, `seed`, `eval_every`, `target`, `precision`, `execution`, ...: see `Settings`. `profile`
            may also be a mapping of arrays over the workers; `config.yaml` then keeps a digest of it.

    Returns:
        The finished run. Raises `Diverged` if it turned non-finite, `KeyboardInterrupt` after Ctrl-C; the last
        good state is then in `out/checkpoints`.
    """
    task = make_task(algorithm, model, federation, cohort, local, settings)
    run = undertake(task, None if out is None else Path(out), resume=resume, config=config)
    return conclude(run, display, tensorboard)


def make_task(
    algorithm: Algorithm,
    model: Any,
    federation: Federation,
    cohort: Any,
    local: Any,
    settings: Mapping[str, Any],
) -> Task:
    """What a person handed in, checked: see `simulate`. Sets jax up for it."""
    given = dict(settings)
    profile = _own_profile(given)
    options = _settings(given)
    platform.prepare(options.deterministic)
    strategy = cohort if isinstance(cohort, Sampling) else strategies.without_replacement(_whole(cohort))
    if not isinstance(local, LocalWork):
        raise BadInput(f"local = {local!r}: give Epochs(E, batch) or Steps(K, batch)")
    links = links_of(options, federation.workers, profile)
    return Task(algorithm, as_model(model), federation, strategy, local, options, links)


def conclude(run: Undertaking, display: Callable[[int], Display] = silent, tensorboard: bool = False) -> Run:
    """Takes one run to its end; raises what stopped it, after writing down how far it came."""
    crew = Alone(run.session)
    crew.advance(0, False)
    run.compiled = time.perf_counter() - run.began
    with display(run.settings.rounds) as show, _tracker(run, tensorboard) as track:
        carry_out(crew, [run], show, track)
    made = run.finish()
    if run.stopped is not None:
        raise run.stopped
    return made


def _whole(cohort: Any) -> int:
    if isinstance(cohort, bool) or not isinstance(cohort, Integral):
        raise BadInput(f"cohort = {cohort!r}: give a whole number, or a strategy of enlist.sampling")
    return int(cohort)


def _own_profile(settings: dict[str, Any]) -> Mapping[str, Any] | None:
    """Takes a profile of arrays out of the settings and leaves its digest, which a configuration can hold."""
    profile = settings.get("profile")
    if not isinstance(profile, Mapping):
        return None
    settings["profile"] = f"given:{digest(profile)}"
    return profile


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
def _tracker(run: Undertaking, tensorboard: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    if run.folder is None or not tensorboard:
        yield lambda line: None
        return
    from enlist.engine.tracking import tensorboard_writer

    with tensorboard_writer(run.folder.path) as write:
        yield write
