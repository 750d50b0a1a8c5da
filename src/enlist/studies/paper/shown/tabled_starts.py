"""What first weights do to the rows of table 2, as a plain table."""

from enlist.report.paper.figures import NOT_RUN
from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import MODELS
from enlist.studies.paper.recipes import starts
from enlist.studies.paper.recipes.table2 import NAMES, SKEWS, Row
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.statistics.table2 import best_accuracy, cell, row_runs

METHODS = ("fedavg", "scaffold")


def start_rows(raw: Raw, scale: Scale) -> tuple[list[str], list[list[str]]]:
    """Rounds to the target of each row by both methods, from both first weights, beside the paper's."""
    scales = {starts.of(each): each for each in (scale, starts.otherwise(scale))}
    heads = ["data", "n", "model"]
    for method in METHODS:
        heads += [f"{NAMES[method]}, {words}" for words in starts.STARTS.values()] + ["paper"]
    table = []
    for row in starts.rows(scale):
        texts = [f"MNIST, {SKEWS[row.partition]}", f"{row.cohort}", MODELS[row.model]]
        for method in METHODS:
            texts += [_text(raw, scales[start], row, method) for start in starts.STARTS]
            texts.append(f"{getattr(row, method)[0]}")
        table.append(texts)
    return heads, table


def _text(raw: Raw, scale: Scale, row: Row, method: str) -> str:
    """The median, the lowest seed and the highest; how many did not get there, and how far any came."""
    found = cell(raw, scale, row, method)
    if not found.rounds:
        return NOT_RUN
    reached = [rounds for rounds in found.rounds if rounds is not None]
    said = ["–" if found.median is None else f"{found.median:g}"]
    if reached and min(reached) < max(reached):
        said.append(f"{min(reached)}–{max(reached)}")
    if len(reached) < len(found.rounds):
        said.append(f"{len(reached)} of {len(found.rounds)} seeds")
    if found.diverged:
        said.append(f"{found.diverged} diverged")
    best = best_accuracy(row_runs(raw, scale, row, method))
    if found.median is None and best is not None:
        said.append(f"best {100 * best:.1f}%")
    return "\n".join(said)
