"""Our own studies of table 2's rows as plain tables: what first weights do, what SCAFFOLD's option and batches do."""

from collections.abc import Sequence

from enlist.report.paper.figures import NOT_RUN
from enlist.report.paper.page import Grid
from enlist.studies.paper.raw import Curve, Raw
from enlist.studies.paper.recipe import MODELS
from enlist.studies.paper.recipes import scaffold, starts
from enlist.studies.paper.recipes.table2 import NAMES, SKEWS, TARGETS
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.statistics.seeds import median
from enlist.studies.paper.statistics.table2 import best_accuracy, row_runs

METHODS = ("fedavg", "scaffold")
TARGET = TARGETS["mnist"]


def start_rows(raw: Raw, scale: Scale) -> Grid:
    """Rounds to the target of each row by both methods, from both first weights, beside the paper's."""
    scales = {starts.of(each): each for each in (scale, starts.otherwise(scale))}
    heads = ["data", "n", "model"]
    for method in METHODS:
        heads += [f"{NAMES[method]}, {words}" for words in starts.STARTS.values()] + ["paper"]
    table = []
    for row in starts.rows(scale):
        texts = [f"MNIST, {SKEWS[row.partition]}", f"{row.cohort}", MODELS[row.model]]
        for method in METHODS:
            texts += [_rounds(row_runs(raw, scales[start], row, method)) for start in starts.STARTS]
            texts.append(f"{row.printed(method)[0]}")
        table.append(texts)
    return heads, table


def scaffold_rows(raw: Raw, scale: Scale) -> Grid:
    """Rounds to the target by option and batch, a column for each row of table 2, whose numbers stand below."""
    rows = scaffold.rows(scale)
    heads = ["method", "batch", *(f"{MODELS[row.model]}, {SKEWS[row.partition]}" for row in rows)]
    table = [
        [_method(each), f"{each.batch}", *(_rounds(scaffold.found(raw, scale, row, each)) for row in rows)]
        for each in scaffold.tries(scale)
    ]
    table += [
        [f"paper, {NAMES[method]}", "–", *(f"{row.printed(method)[0]}" for row in rows)]
        for method in METHODS[::-1]
    ]
    return heads, table


def option_words(raw: Raw, scale: Scale) -> str:
    """Which option the rule chooses."""
    counts = [scaffold.arrived(raw, scale, option) for option in (scaffold.USUAL, scaffold.OTHER)]
    best = scaffold.chosen(raw, scale)
    if best is None:
        return f"Not all runs of both options are there yet; option {scaffold.USUAL} is used."
    (usual, of), (other, of_other) = (each for each in counts if each is not None)
    said = (
        f"Option {scaffold.USUAL} comes to the target in {usual} of {of} runs, option {scaffold.OTHER} in {other} of "
        f"{of_other}"
    )
    if scale.name != "full":
        return f"{said}; at {scale.name} scale option {scaffold.USUAL} is used, whatever comes out here."
    if best == scaffold.USUAL:
        return f"{said}: the rule chooses {best}, as in all other runs of SCAFFOLD here."
    return f"{said}: the rule chooses {best}; all other runs of SCAFFOLD here have {scaffold.USUAL}."


def _method(each: scaffold.Try) -> str:
    return NAMES[each.method] if each.option is None else f"{NAMES[each.method]}, {each.option}"


def _rounds(runs: Sequence[Curve]) -> str:
    """The median, the lowest seed and the highest; how many did not get there, and how far any came."""
    if not runs:
        return NOT_RUN
    rounds = [run.rounds_to(TARGET) for run in runs]
    reached, middle = [each for each in rounds if each is not None], median(rounds)
    gone = sum(run.status != "done" for run in runs)
    said = ["–" if middle is None else f"{middle:g}"]
    if reached and min(reached) < max(reached):
        said.append(f"{min(reached)}–{max(reached)}")
    if len(reached) < len(runs):
        said.append(f"{len(reached)} of {len(runs)} seeds")
    if gone:
        said.append(f"{gone} diverged")
    best = best_accuracy(runs)
    if middle is None and best is not None:
        said.append(f"best {100 * best:.1f}%")
    return "\n".join(said)
