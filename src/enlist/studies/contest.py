"""Several methods to one target: each with its best rates by the same budget of short runs, then over the seeds."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from enlist.engine.folder import finished
from enlist.engine.progress import Shown, silent
from enlist.engine.task import Room, Task, room_for
from enlist.engine.timing import worker_seconds
from enlist.engine.together import Job, simulate_together
from enlist.errors import BadInput
from enlist.report import record
from enlist.report.comparison.files import folder_name
from enlist.report.comparison.outcome import Comparison, Contender
from enlist.studies.grid import refuse_others

# Of a short run this share of its evaluated rounds, the last ones, is averaged: single rounds are noisy.
SCORED_SHARE = 0.25
SCORED_ROUNDS = 8


class Candidate(NamedTuple):
    """A method with its rates.

    Args:
        rates: what is to be tuned, by name.
        task: `task(seed)`: the run, for a seed.
        config: `config(seed)`: what its `config.yaml` shall say; None for a description of the task.
    """

    rates: Mapping[str, float]
    task: Callable[[int], Task]
    config: Callable[[int], dict[str, Any] | None]


class Entrant(NamedTuple):
    """A method as typed, and the rates it may take."""

    label: str
    candidates: Sequence[Candidate]


class Plan(NamedTuple):
    """What is compared over.

    Args:
        target: the value of the test metric that is to be reached.
        seeds: of the runs that count.
        tune_seed: of the short runs that choose the rates; none of the others.
        tune_rounds: their length.
        measure: whether to measure what a worker computes in a round, where it is not given.
    """

    target: float
    seeds: Sequence[int]
    tune_seed: int
    tune_rounds: int
    measure: bool = True


def short_run(rounds: int, asked: int | None = None) -> int:
    """Rounds of the short runs that choose the rates: as asked for, or a quarter of the long ones."""
    return asked or max(1, rounds // 4)


def contest(
    entrants: Sequence[Entrant],
    plan: Plan,
    out: Path,
    display: Callable[[str], Shown] = lambda label: silent,
) -> Comparison:
    """Runs everything that is not yet in `out`, a folder for each run, and returns what there is to compare.

    Args:
        display: `display(label)`: how progress of what the label says is shown.
    """
    # One room for all, so that short runs and long ones share a program.
    any_task = entrants[0].candidates[0].task
    room = room_for([any_task(seed).federation for seed in (*plan.seeds, plan.tune_seed)])
    seconds = _computing(entrants, plan, out) if plan.measure else {}
    contenders = []
    for entrant in entrants:
        chosen = _best(entrant, plan, out, room, display)
        jobs = _jobs(entrant, chosen, plan, out, seconds.get(entrant.label))
        waiting = [job for job in jobs if not finished(job.out)]
        refuse_others([(job.out, job.task) for job in jobs if job.out is not None and finished(job.out)])
        if waiting:
            words = f"{entrant.label}, {len(waiting)} seed{'s' if len(waiting) > 1 else ''}"
            simulate_together(waiting, room=room, display=display(words))
        runs = [record.load(job.out) for job in jobs if job.out is not None]
        contenders.append(Contender(entrant.label, runs, chosen.rates, len(entrant.candidates)))
    return Comparison(plan.target, contenders, _tuning_words(entrants, contenders, plan))


def _computing(entrants: Sequence[Entrant], plan: Plan, out: Path) -> dict[str, float]:
    """What a worker of each method computes in a round, measured side by side and kept; rates do not matter."""

    def measured() -> dict[str, float]:
        tasks = [entrant.candidates[0].task(plan.seeds[0]) for entrant in entrants]
        return dict(zip([entrant.label for entrant in entrants], worker_seconds(tasks), strict=True))

    return dict(_remembered(out / "worker_seconds.json", measured))


def _jobs(entrant: Entrant, chosen: Candidate, plan: Plan, out: Path, measured: float | None) -> list[Job]:
    """A run for each seed."""
    place = out / "runs" / folder_name(entrant.label)
    tasks = [chosen.task(seed) for seed in plan.seeds]
    seconds = tasks[0].settings.worker_seconds if measured is None else measured
    jobs = []
    for seed, task in zip(plan.seeds, tasks, strict=True):
        settings = replace(task.settings, worker_seconds=seconds, target=plan.target)
        config = chosen.config(seed)
        if config is not None:
            config = config | {"worker_seconds": seconds, "target": plan.target}
        jobs.append(Job(task._replace(settings=settings), place / f"seed-{seed}", config))
    return jobs


def _best(
    entrant: Entrant,
    plan: Plan,
    out: Path,
    room: Room,
    display: Callable[[str], Shown],
) -> Candidate:
    """The candidate whose short run ends at the lowest training loss; what was tried is kept in a file."""
    if len(entrant.candidates) == 1:
        return entrant.candidates[0]

    def scores() -> list[float]:
        every = max(1, plan.tune_rounds // (SCORED_ROUNDS * 4))
        jobs = []
        for candidate in entrant.candidates:
            task = candidate.task(plan.tune_seed)
            short = replace(task.settings, rounds=plan.tune_rounds, eval_every=every, target=None)
            jobs.append(Job(task._replace(settings=short)))
        runs = simulate_together(jobs, room=room, display=display(f"{entrant.label}, {len(jobs)} rates"))
        return [score(run.metrics, run.summary["status"]) for run in runs]

    path = out / "tuning" / f"{folder_name(entrant.label)}.json"
    rates = [dict(candidate.rates) for candidate in entrant.candidates]
    kept = _remembered(
        path, lambda: {"rounds": plan.tune_rounds, "rates": rates, "loss": [_plain(s) for s in scores()]}
    )
    if kept.get("rates") != rates or kept.get("rounds") != plan.tune_rounds:
        raise BadInput(f"{path}: holds other rates than are asked for now; begin anew in another folder")
    losses = [math.inf if loss is None else loss for loss in kept["loss"]]
    return entrant.candidates[losses.index(min(losses))]


def score(metrics: Sequence[Mapping[str, Any]], status: str = "done") -> float:
    """The training loss that a short run came to, averaged over its last looks; infinite if it diverged."""
    if status != "done" or not metrics:
        return math.inf
    last = metrics[-max(1, round(SCORED_SHARE * len(metrics))) :]
    mean = sum(float(line["train_loss"]) for line in last) / len(last)
    return mean if math.isfinite(mean) else math.inf


def _tuning_words(entrants: Sequence[Entrant], contenders: Sequence[Contender], plan: Plan) -> str:
    tried = {entrant.label: len(entrant.candidates) for entrant in entrants}
    if max(tried.values()) == 1:
        return ""
    counts = ", ".join(f"{label} {count}" for label, count in tried.items())
    return (
        f"Rates were chosen for each method by its lowest training loss after {plan.tune_rounds} round"
        f"{'s' if plan.tune_rounds > 1 else ''} on a seed "
        f"({plan.tune_seed}) that is not among those reported; candidates tried: {counts}."
        f"{_edges(entrants, contenders)}"
    )


def _edges(entrants: Sequence[Entrant], contenders: Sequence[Contender]) -> str:
    """Which rates were chosen from the edge of what was tried: a better one may lie beyond."""
    found = []
    for entrant, contender in zip(entrants, contenders, strict=True):
        for name, rate in contender.rates.items():
            tried = {candidate.rates[name] for candidate in entrant.candidates if name in candidate.rates}
            if len(tried) > 1 and rate in (min(tried), max(tried)):
                found.append(f"{entrant.label} {name.replace('_', '-')} {rate:g}")
    if not found:
        return ""
    return f" At the edge of what was tried, so that a better rate may lie beyond: {', '.join(found)}."


def _remembered(path: Path, make: Callable[[], Any]) -> Any:
    """What the file holds; made and kept first where there is none."""
    if path.exists():
        try:
            return json.loads(path.read_text())
        except ValueError as error:
            raise BadInput(f"{path}: damaged; remove it, and it is made again") from error
    made = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(json.dumps(made))
    os.replace(draft, path)
    return made


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
