"""Table 2 and figure 7: rounds, MiB and seconds to a target, the paper's numbers beside ours."""

from typing import Any

from enlist.report.paper.bars import Bar
from enlist.report.paper.figures import NOT_RUN
from enlist.report.paper.page import Grid
from enlist.report.paper.tables import Table, latex_cell
from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import DATASETS, MODELS
from enlist.studies.paper.recipes import table2
from enlist.studies.paper.recipes.fig5 import PARTITIONS
from enlist.studies.paper.recipes.table2 import BANDWIDTH, METHODS, NAMES, TARGETS, Row
from enlist.studies.paper.setting import Scale, Setting, Way
from enlist.studies.paper.shown.drawing import setting_words, warning
from enlist.studies.paper.statistics.race import SHARED, Race, costed
from enlist.studies.paper.statistics.seeds import rounded
from enlist.studies.paper.statistics.table2 import CLOSE, Cell, best_accuracy, cost, row_runs, table2_cells

SPLITS = {**table2.SKEWS, **PARTITIONS}
PRINTED = ("rounds", "MiB", "seconds")
LATEX_NOTE = "In square brackets: the paper. --: fewer than half of the seeds got there."


def table2_of(raw: Raw, scale: Scale) -> Table:
    """All rows, the paper's numbers as remarks below ours."""
    by_row: dict[Row, list[Cell]] = {}
    for cell in table2_cells(raw, scale):
        by_row.setdefault(cell.row, []).append(cell)
    asked = {_of(setting) for setting in table2.runs(scale)}
    rows, latex = [], []
    for cells in by_row.values():
        left_out = NOT_RUN if _place(cells[0]) in asked else f"not at {scale.name} scale"
        numbers = [text for cell in cells for text in _texts(cell, _best(raw, scale, cell), left_out)]
        top = "–" if cells[0].ceiling is None else f"{100 * cells[0].ceiling:.2f}%"
        first = _named(cells[0])
        rows.append([*first, *numbers, top])
        short = [latex_cell(text) for cell in cells for text in _brackets(cell)]
        latex.append([*map(latex_cell, first), *short, latex_cell(top)])
    heads = ["data", "n", "model"]
    heads += [f"{NAMES[method]} {what}" for method in METHODS for what in PRINTED]
    records = [
        _record(cell, scale.ways[row.dataset], _best(raw, scale, cell))
        for row, cells in by_row.items()
        for cell in cells
    ]
    return Table("table2", _caption(scale), [*heads, "ceiling"], rows, 3, records, latex, LATEX_NOTE)


def method_rows(raw: Raw, scale: Scale) -> Grid:
    """A row for each method in each of them that was run, narrow enough for a terminal: heads and rows."""
    heads = ["data", "n", "model", "method", *(f"{what} [paper]" for what in PRINTED)]
    rows = []
    for cell in (each for each in table2_cells(raw, scale) if each.rounds):
        rounds, *costs = _brackets(cell)
        if cell.reached < len(cell.rounds):
            best = _best(raw, scale, cell) if cell.median is None else None
            rounds = "\n".join([rounds, *_short_of(cell, best)])
        rows.append([*_named(cell), NAMES[cell.method], rounds, *costs])
    return heads, rows


def _named(cell: Cell) -> list[str]:
    data = f"{DATASETS[cell.row.dataset]}, {SPLITS[cell.row.partition]}"
    return [data, f"{cell.row.cohort}", MODELS[cell.model]]


def _of(setting: Setting) -> tuple[Any, ...]:
    return setting.dataset, setting.partition, setting.cohort, setting.model


def _place(cell: Cell) -> tuple[Any, ...]:
    return cell.row.dataset, cell.row.partition, cell.row.cohort, cell.model


def _caption(scale: Scale) -> str:
    small = warning(scale, table2.runs(scale))
    tried = sorted({setting.worker_lr for setting in table2.ceilings(scale)})
    rates = ", ".join(f"{rate:g}" for rate in tried)
    return (
        f"To {100 * TARGETS['mnist']:g}% test accuracy on MNIST and {100 * TARGETS['cifar10']:g}% on CIFAR-10, 100 "
        "workers, 5 local epochs, rates 0.1 and 1: the median over seeds, the lowest and the highest of them, and "
        "last the paper's number. MiB: one worker, up and down, of the messages really sent. Seconds: rounds times "
        f"one worker's computing, measured, and MiB / {BANDWIDTH:g}; the paper's computing is that of a V100. "
        "Ceiling: the best test accuracy of training in one place on all rows, one seed, worker rates "
        f"{rates}, so that others may come out a few hundredths above. Reached: within a factor {CLOSE:g} of the "
        "paper's rounds; slower, faster: not; cannot be reached: the ceiling, at full scale, is below the target. "
        f"{_ways(scale)}" + (f" {small[0].upper()}{small[1:]}." if small else "")
    )


def _ways(scale: Scale) -> str:
    """What the paper does not state, as it is done here: with the workers, and in one place."""
    everything = table2.runs(scale)
    said = []
    for dataset, title in DATASETS.items():
        own = [setting for setting in everything if setting.dataset == dataset]
        spread, alone = (
            " or ".join(
                dict.fromkeys(setting.way.words() for setting in own if (setting.workers == 1) == at_once)
            )
            for at_once in (False, True)
        )
        said.append(f"{title}: {spread}" + (f" (in one place {alone})" if alone not in ("", spread) else ""))
    return f"{'; '.join(said)}."


def _best(raw: Raw, scale: Scale, cell: Cell) -> float | None:
    """The best test accuracy of any run of a cell."""
    return best_accuracy(row_runs(raw, scale, cell.row, cell.method))


def _texts(cell: Cell, best: float | None, left_out: str) -> list[str]:
    """Rounds, MiB and seconds as text, the paper's below; `left_out` where there are no runs."""
    paper = [f"paper {cell.paper[0]}", *(f"paper {value:,.2f}" for value in cell.paper[1:])]
    if not cell.rounds:
        ours = [left_out, "–", "–"]
    elif cell.cost is None:
        ours = ["\n".join(["–", cell.verdict, *_short_of(cell, best)]), "–", "–"]
    else:
        ours = [_spread(cell), _number(cell.cost.mib), _number(cell.cost.seconds)]
    return [f"{own}\n{said}" for own, said in zip(ours, paper, strict=True)]


def _brackets(cell: Cell) -> list[str]:
    """Rounds, MiB and seconds on one line each, the paper's in brackets."""
    paper = [str(cell.paper[0]), *(f"{value:.2f}" for value in cell.paper[1:])]
    reached = [rounds for rounds in cell.rounds if rounds is not None]
    ours = ["–", "–", "–"]
    if cell.cost is not None:
        over = f" ({min(reached)}–{max(reached)})" if min(reached) < max(reached) else ""
        ours = [f"{cell.median:g}{over}", _number(cell.cost.mib), _number(cell.cost.seconds)]
    return [f"{own} [{said}]" for own, said in zip(ours, paper, strict=True)]


def _short_of(cell: Cell, best: float | None) -> list[str]:
    """How far a cell came that did not get there."""
    said = [f"{cell.reached} of {len(cell.rounds)} seeds" if cell.reached else ""]
    said += [f"{cell.diverged} diverged" if cell.diverged else ""]
    return [*filter(None, said), *([] if best is None else [f"best {100 * best:.2f}%"])]


def _spread(cell: Cell) -> str:
    """The median rounds; below, the verdict, the lowest seed and the highest, and how many did not get there."""
    reached = [rounds for rounds in cell.rounds if rounds is not None]
    said = [f"{cell.median:g}", cell.verdict]
    if min(reached) < max(reached):
        said.append(f"{min(reached)}–{max(reached)}")
    if len(reached) < len(cell.rounds):
        said.append(f"{len(reached)} of {len(cell.rounds)} seeds")
    return "\n".join(said)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _record(cell: Cell, way: Way, best: float | None) -> dict[str, Any]:
    reached = [rounds for rounds in cell.rounds if rounds is not None]
    cost = cell.cost
    known: dict[str, Any] = {
        "dataset": cell.row.dataset,
        "partition": cell.row.partition,
        "cohort": cell.row.cohort,
        "model": cell.model,
        **way._asdict(),
        "method": cell.method,
        "target": cell.target,
        "seeds": len(cell.rounds),
        "reached": cell.reached,
        "diverged": cell.diverged,
        "rounds_median": cell.median,
        "rounds_min": min(reached, default=None),
        "rounds_max": max(reached, default=None),
        "mib": None if cost is None else rounded(cost.mib),
        "computing_seconds": None if cost is None else rounded(cost.computing),
        "sending_seconds": None if cost is None else rounded(cost.sending),
        "seconds": None if cost is None else rounded(cost.seconds),
        "best_accuracy": rounded(best),
        "ceiling": rounded(cell.ceiling),
        "paper_rounds": cell.paper[0],
        "paper_mb": cell.paper[1],
        "paper_seconds": cell.paper[2],
        "verdict": cell.verdict,
    }
    return {name: "" if value is None else value for name, value in known.items()}


def bars(raw: Raw, scale: Scale) -> tuple[list[Bar], str, str]:
    """Figure 7: a bar for each method and partition of CIFAR-10; what the seconds are to; how to read it."""
    cells = [cell for cell in table2_cells(raw, scale) if cell.row.dataset == "cifar10"]
    drawn = [
        Bar(
            SPLITS[cell.row.partition],
            NAMES[cell.method],
            METHODS[::-1].index(cell.method),
            *_split(cell, costed(raw, scale, cell.row), _best(raw, scale, cell), raw),
        )
        for cell in cells
    ]
    notes = (
        "The median over seeds. Computing: of one worker, measured, times rounds; workers compute at the same time. "
        f"Sending: MiB of one worker / {BANDWIDTH:g}. Where a method misses the target, both are timed to "
        f"{SHARED:.0%} of the best accuracy that every run comes to, which is said. The paper's seconds are to the "
        f"target, its computing that of a V100. {setting_words(table2.cifar_runs(scale))}"
    )
    goal = f"{100 * TARGETS['cifar10']:g}% test accuracy on CIFAR-10"
    missed = any(cell.rounds and cell.median is None for cell in cells)
    return drawn, "what is said beside each bar" if missed else goal, notes


def _split(
    cell: Cell, race: Race | None, best: float | None, raw: Raw
) -> tuple[tuple[float, float] | None, str]:
    """Computing and sending to the target, or to what both methods come to, and the words at the end of the bar."""
    paper = f"paper {cell.paper[2]:.0f} s"
    if not cell.rounds:
        return None, f"{NOT_RUN} ({paper})"
    short = f"not reached{'' if best is None else f', best {100 * best:.1f}%'}"
    if race is None:
        return (
            None,
            f"the other method did not, or was not run ({paper})" if cell.cost else f"{short} ({paper})",
        )
    rounds = race.median(cell.method)
    taken = cost(raw, race.runs[cell.method][0], rounds)
    if taken.computing is None or taken.seconds is None:
        return None, f"computing was not measured ({short if cell.cost is None else 'reached'}; {paper})"
    said = f"{_number(taken.seconds)} s in {rounds:g} round{'' if rounds == 1 else 's'}"
    if race.level < cell.target:
        said += (
            f" to {100 * race.level:.1f}%\n{100 * cell.target:g}% {short if cell.cost is None else 'reached'}"
        )
    return (taken.computing, taken.sending), f"{said} ({paper})"
