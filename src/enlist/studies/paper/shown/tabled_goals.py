"""Which goal and which batch table 2's rounds on MNIST fit, as plain tables and in words."""

from collections.abc import Mapping, Sequence

from enlist.report.paper.figures import NOT_RUN
from enlist.report.paper.page import Grid
from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import MODELS, THREE
from enlist.studies.paper.recipes import goals
from enlist.studies.paper.recipes.table2 import METHODS, NAMES, SKEWS
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.statistics.goals import (
    PERCENTS,
    PRINTED,
    Fit,
    diverged,
    fits,
    nearest,
    nearest_by_batch,
    rounds_to,
    within_factor,
)
from enlist.studies.paper.statistics.table2 import CLOSE

# Those that can come to the printed goal.
REST = THREE[1:]
# Goals that the table has, and the nearest; the others are looked at too.
SHOWN = (0.8, 0.85, 0.88, 0.89, 0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97)


def goal_grids(raw: Raw, scale: Scale) -> list[Grid]:
    """How far each goal and batch is from the paper, and the rounds of each row where it is nearest."""
    return [distance_rows(raw, scale), round_rows(raw, scale)]


def distance_rows(raw: Raw, scale: Scale) -> Grid:
    """A row for each goal, a column for each batch; the nearest of all is marked."""
    known = fits(raw, scale)
    best, by_pair = nearest(known), {(fit.goal, fit.batch): fit for fit in known}
    rows = []
    for goal in sorted({*SHOWN, *([] if best is None else [best.goal])}):
        texts = []
        for batch in goals.batches(scale):
            fit = by_pair.get((goal, batch))
            mark = " nearest" if fit == best else ""
            texts.append(NOT_RUN if fit is None else f"{fit.distance:.2f}{mark}")
        rows.append([f"{100 * goal:g}%{' (printed)' * (goal == PRINTED)}", *texts])
    return ["goal", *(f"batches of {batch}" for batch in goals.batches(scale))], rows


def round_rows(raw: Raw, scale: Scale) -> Grid:
    """The paper's rounds beside ours, to the printed goal with the batch that is used and to the nearest pair."""
    pairs = _pairs(raw, scale)
    heads = ["data", "n", "model"]
    for method in METHODS:
        heads += [f"{NAMES[method]} paper", *(f"{100 * goal:g}%, batch {batch}" for goal, batch in pairs)]
    by_row: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for cell in goals.cells(scale):
        row = cell.row
        place = (f"MNIST, {SKEWS[row.partition]}", f"{row.cohort}", MODELS[row.model])
        ours = [_rounds(raw, scale, cell, *pair) for pair in pairs]
        by_row.setdefault(place, {})[cell.method] = [f"{cell.paper}", *ours]
    nothing = [""] * (1 + len(pairs))
    rows = [
        [*place, *(text for method in METHODS for text in own.get(method, nothing))]
        for place, own in by_row.items()
    ]
    return heads, rows


def _rounds(raw: Raw, scale: Scale, cell: goals.Cell, goal: float, batch: int) -> str:
    if goals.found(raw, scale, cell, batch) is None:
        return NOT_RUN
    rounds = rounds_to(raw, scale, cell, goal, batch)
    return "–" if rounds is None else f"{rounds}"


def _pairs(raw: Raw, scale: Scale) -> list[tuple[float, int]]:
    best = nearest(fits(raw, scale))
    usual = (PRINTED, scale.ways["mnist"].batch)
    return list(dict.fromkeys([usual, *([] if best is None else [(best.goal, best.batch)])]))


def goal_words(raw: Raw, scale: Scale) -> str:
    """Which goal is nearest with each batch, and how far the printed one is, with LR and without it."""
    known = fits(raw, scale)
    best, by_batch = nearest(known), nearest_by_batch(known)
    if best is None or set(by_batch) != set(goals.batches(scale)):
        return "Not all runs are there yet."
    used = _fit(known, PRINTED, scale.ways["mnist"].batch)
    said = [
        "Mean distance from the paper's rounds, in doublings: "
        + "; ".join(_told(raw, scale, f) for f in (used, best)),
        f"Of all goals from {PERCENTS[0]} to {PERCENTS[-1]}% the nearest with batches of "
        f"{_listed([str(batch) for batch in by_batch])}: {_goals(by_batch)}",
    ]
    if rest := fits(raw, scale, REST):
        said.append(
            f"Without LR, which cannot come to {_percent(PRINTED)}: {_goals(nearest_by_batch(rest))}; "
            + "; ".join(_told(raw, scale, _fit(rest, *fit[:2]), REST) for fit in (used, best))
        )
    gone = [(batch, diverged(raw, scale, batch)) for batch in goals.batches(scale)]
    lost = [f"{count} with batches of {batch}" for batch, count in gone if count]
    said += [f"Runs that diverge, which count with what they came to before: {_listed(lost)}"] if lost else []
    said += [] if scale.name == "full" else [f"At {scale.name} scale this says nothing of the paper"]
    return " ".join(f"{each}." for each in said)


def _goals(by_batch: Mapping[int, Fit]) -> str:
    return _listed([_percent(fit.goal) for fit in by_batch.values()])


def _fit(known: Sequence[Fit], goal: float, batch: int) -> Fit:
    return next(fit for fit in known if (fit.goal, fit.batch) == (goal, batch))


def _told(raw: Raw, scale: Scale, fit: Fit, models: Sequence[str] = THREE) -> str:
    near, of = within_factor(raw, scale, fit, CLOSE, models)
    where = f"{_percent(fit.goal)} with batches of {fit.batch}"
    return f"{fit.distance:.2f} to {where}, {near} of {of} cells within a factor {CLOSE:g}"


def _percent(goal: float) -> str:
    return f"{100 * goal:g}%"


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
