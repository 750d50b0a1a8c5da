"""Which goal and which batch table 2's rounds on MNIST fit, as plain tables and in words."""

from enlist.report.paper.figures import NOT_RUN
from enlist.report.paper.page import Grid
from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import MODELS
from enlist.studies.paper.recipes import goals
from enlist.studies.paper.recipes.table2 import METHODS, NAMES, SKEWS
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.statistics.goals import (
    PERCENTS,
    PRINTED,
    Fit,
    distance,
    fits,
    nearest,
    rounds_to,
    within_factor,
)
from enlist.studies.paper.statistics.table2 import CLOSE

# Goals that the table has, and the nearest; the others are looked at too.
SHOWN = (0.8, 0.85, 0.88, 0.89, 0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97)


def goal_grids(raw: Raw, scale: Scale) -> list[Grid]:
    """How far each goal and batch is from the paper, and the rounds of each row where it is nearest."""
    return [distance_rows(raw, scale), round_rows(raw, scale)]


def distance_rows(raw: Raw, scale: Scale) -> Grid:
    """A row for each goal, a column for each batch; the nearest of all is marked."""
    best = nearest(fits(raw, scale))
    rows = []
    for goal in sorted({*SHOWN, *([] if best is None else [best.goal])}):
        texts = []
        for batch in goals.batches(scale):
            far = distance(raw, scale, goal, batch)
            mark = " nearest" if best is not None and (goal, batch) == best[:2] else ""
            texts.append(NOT_RUN if far is None else f"{far:.2f}{mark}")
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
        ours = [rounds_to(raw, scale, cell, *pair) for pair in pairs]
        by_row.setdefault(place, {})[cell.method] = [
            f"{cell.paper}",
            *("–" if t is None else f"{t}" for t in ours),
        ]
    nothing = [""] * (1 + len(pairs))
    rows = [
        [*place, *(text for method in METHODS for text in own.get(method, nothing))]
        for place, own in by_row.items()
    ]
    return heads, rows


def _pairs(raw: Raw, scale: Scale) -> list[tuple[float, int]]:
    best = nearest(fits(raw, scale))
    usual = (PRINTED, scale.ways["mnist"].batch)
    return list(dict.fromkeys([usual, *([] if best is None else [(best.goal, best.batch)])]))


def goal_words(raw: Raw, scale: Scale) -> str:
    """Which pair is nearest, beside the printed goal with the batch that is used and with its own best one."""
    known = fits(raw, scale)
    best, printed = nearest(known), nearest([fit for fit in known if fit.goal == PRINTED])
    used = next((fit for fit in known if (fit.goal, fit.batch) == (PRINTED, scale.ways["mnist"].batch)), None)
    if best is None or printed is None or used is None:
        return "Not all runs are there yet."
    said = f"To the printed {100 * PRINTED:g}%, {_told(raw, scale, used)}"
    if printed != used:
        said += f"; {_told(raw, scale, printed)}, the nearest to that goal"
    if best == printed:
        return f"{said}: of all goals from {PERCENTS[0]} to {PERCENTS[-1]}% the nearest."
    of_batches = {fit.batch: nearest([each for each in known if each.batch == fit.batch]) for fit in known}
    percents = sorted({round(100 * fit.goal) for fit in of_batches.values() if fit is not None})
    span = " to ".join(str(percent) for percent in dict.fromkeys((percents[0], percents[-1])))
    return (
        f"{said}. Of all goals from {PERCENTS[0]} to {PERCENTS[-1]}% those of {span}% are the nearest, whatever the "
        f"batch; of all pairs that is {100 * best.goal:g}%, {_told(raw, scale, best)}: what the paper counted its "
        "rounds to may not be what it printed."
    )


def _told(raw: Raw, scale: Scale, fit: Fit) -> str:
    near, of = within_factor(raw, scale, fit, CLOSE)
    return (
        f"with batches of {fit.batch} our rounds are {fit.distance:.2f} doublings from the paper's on average, in "
        f"{near} of {of} cells within a factor {CLOSE:g}"
    )
