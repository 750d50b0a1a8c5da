"""Successive halving: all candidates run for a few rounds, the best go on from there, and so on to the end."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

from enlist.engine.board import board
from enlist.engine.run import first_round
from enlist.errors import BadInput, EnlistError
from enlist.report.comparison.outcome import falls
from enlist.report.record import RunRecord, number, write_whole
from enlist.report.sweep.files import RUNS
from enlist.report.sweep.outcome import Measure
from enlist.report.tune.outcome import Cost, Entry, Rung, Tuned, measure_of, ranked
from enlist.studies.climb import Climb, Stretch, one_by_one, seconds_a_round
from enlist.studies.contest import SCORED_SHARE
from enlist.studies.grid import Point
from enlist.studies.halving import Candidate, Plan, candidates_of, estimate, lengths, sizes

RUNGS = "rungs"


def halve(points: Sequence[Point], plan: Plan, out: Path, *, live: bool = False) -> Tuned:
    """Runs what is not yet in `out`, a folder for each run and a file for each rung, and returns what came of it.

    Args:
        plan: with the length of its first rung.
        live: whether to draw progress.
    """
    assert plan.first is not None
    field, climb = candidates_of(points), Climb(points, out)
    by_rung = sizes(len(field), plan.eta)
    ends = lengths(len(by_rung), plan.first, plan.rounds)
    seeds = [points[place].task.settings.seed for place in field[0].places]
    going, rungs = list(range(len(field))), list[Rung]()
    with board(climb.tally(by_rung, ends, len(seeds)), live) as shown:
        for k, end in enumerate(ends):
            # Where all others diverged, the one that is left has nothing to wait for.
            if len(going) == 1 and end < plan.rounds:
                continue
            path = out / RUNGS / f"{k + 1}.json"
            if not path.exists():
                words = f"rung {k + 1}/{len(ends)} ({len(going)} candidate{'s' * (len(going) > 1)})"
                took = climb.up([place for i in going for place in field[i].places], end, shown, words)
                entries = [_entry(i, climb.records(field[i].places), plan) for i in going]
                order = ranked(entries, _measure(points, plan), falls(_metric(points)))
                _keep(path, _rung(end, order, by_rung[k + 1] if end < plan.rounds else 1, took))
            rungs.append(_read(path))
            going = [entry.candidate for entry in rungs[-1].entries if entry.kept]
            if not going:
                raise EnlistError(
                    f"tune: every candidate diverged within {end} round{'s' * (end > 1)}; lower --worker-lr or "
                    f"--server-lr. The runs are in {out / RUNS}"
                )
    best = field[rungs[-1].entries[0].candidate]
    cost = _cost(points, plan, climb, rungs, best)
    furthest = dict.fromkeys(entry.candidate for rung in rungs[-1:-3:-1] for entry in rung.entries)
    runs = climb.records([place for i in furthest for place in field[i].places])
    return Tuned([each.values for each in field], seeds, _measure(points, plan), plan.eta, rungs, cost, runs)


def _metric(points: Sequence[Point]) -> str:
    return points[0].task.model.metric_name


def _measure(points: Sequence[Point], plan: Plan) -> Measure:
    return measure_of(plan.by, _metric(points), plan.target)


def _entry(candidate: int, runs: Sequence[RunRecord], plan: Plan) -> Entry:
    """How a candidate stands."""
    diverged = sum(run.summary.get("status") == "diverged" for run in runs)
    if plan.by == "rounds":
        assert plan.target is not None
        target, key = plan.target, runs[0].metric_key
        scores: list[float | None] = [first_round(run.metrics, key, target, falls(key)) for run in runs]
        ends = [_last(run, key) for run in runs]
        known = [end for end in ends if end is not None]
        return Entry(candidate, scores, sum(known) / len(known) if known else None, diverged)
    scores = [_last(run, "train_loss" if plan.by == "train_loss" else run.metric_key) for run in runs]
    # A loss that overflowed without ending the run counts as one that diverged.
    return Entry(candidate, scores, None, max(diverged, scores.count(None)))


def _last(run: RunRecord, key: str) -> float | None:
    """The mean over the last looks at a run: single rounds are noisy."""
    if run.summary.get("status") == "diverged":
        return None
    lines = run.metrics[-max(1, round(SCORED_SHARE * len(run.metrics))) :]
    values = [number(line.get(key)) for line in lines]
    mean = sum(values) / len(values) if values else math.nan
    return mean if math.isfinite(mean) else None


def _rung(end: int, entries: Sequence[Entry], keep: int, took: Stretch) -> Rung:
    """With those marked that go on: never one that diverged."""
    marked = [each._replace(kept=i < keep and not each.diverged) for i, each in enumerate(entries)]
    return Rung(end, marked, round(took.device, 4), round(took.wall, 4), took.advanced)


def _keep(path: Path, rung: Rung) -> None:
    facts = rung._asdict() | {"entries": [entry._asdict() for entry in rung.entries]}
    write_whole(path, (json.dumps(facts, allow_nan=False) + "\n").encode())


def _read(path: Path) -> Rung:
    try:
        facts = json.loads(path.read_text())
        return Rung(**facts | {"entries": [Entry(**entry) for entry in facts["entries"]]})
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"{path}: damaged; remove it, and that rung is judged again") from error


def _cost(points: Sequence[Point], plan: Plan, climb: Climb, rungs: Sequence[Rung], best: Candidate) -> Cost:
    place, last = best.places[0], rungs[-1]
    task = points[place].task
    if one_by_one(task) and last.advanced:
        each, how = last.device_seconds / last.advanced, "from its last rung, where runs went one by one"
    else:
        each, how = seconds_a_round(task, climb.room(place)), "from some rounds that it ran alone"
    return Cost(
        len(points),
        climb.rounds(),
        sum(rung.wall_seconds for rung in rungs),
        sum(rung.device_seconds for rung in rungs),
        plan.rounds * each,
        how,
        estimate(points, plan, plan.first or 1),
    )
