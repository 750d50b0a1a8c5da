"""Runs on real machines: which loss is known of them, and which replies came late or were refused."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from enlist.report.record import Outcome, RunRecord, labels, number, short, whole

if TYPE_CHECKING:
    from rich.table import Table

# A summary lists no more refused replies than this.
MOST_REFUSED = 50
# What is counted, in words.
_COUNTS = {
    "sittings": "times the server was started",
    "abandoned": "rounds abandoned",
    "enlisted": "workers asked, over all rounds",
    "used": "replies used",
    "late": "replies too late",
    "doubled": "replies sent twice",
    "unsolicited": "replies nobody asked for",
}
# Rounds that are named for one worker and one cause.
_MOST_ROUNDS = 8

LOCAL = " (local)"
# What a run's losses are called where one run is told of.
LOSSES = {"train_loss": "training loss", "local_loss": "local loss"}


def losses(runs: Sequence[RunRecord]) -> set[str]:
    """Which losses are known of the runs: see `RunRecord.loss_key`."""
    return {run.loss_key for run in runs}


def loss_text(run: RunRecord, end: Outcome, marked: bool = False) -> str:
    """The last training loss; of a run whose server saw no training row, that of its local steps, marked if asked."""
    if run.loss_key == "train_loss":
        return short(end.train_loss)
    return short(end.local_loss) + LOCAL * marked


def loss_words(runs: Sequence[RunRecord]) -> str:
    """The name of the loss for an axis that all runs share."""
    keys = losses(runs)
    if len(keys) > 1:
        return "training loss f(x), or of the local steps"
    return {"train_loss": "training loss f(x)", "local_loss": "mean loss of the local steps"}[keys.pop()]


def seconds_words(runs: Sequence[RunRecord]) -> str:
    """Whether the runs' seconds are simulated or real."""
    kinds = {"real" if run.is_deployed else "simulated" for run in runs}
    return f"{' or '.join(sorted(kinds, reverse=True))} seconds"


def deployed(runs: Sequence[RunRecord]) -> bool:
    """Whether there is anything to tell: one of the runs was carried out by real machines and has ended."""
    return any(_facts(run) is not None for run in runs)


def deployment_rows(runs: Sequence[RunRecord]) -> tuple[list[str], list[list[str]]]:
    """The runs that were deployed; and a row for each fact: its name, then the figure of each of these runs."""
    told = [(label, _facts(run)) for label, run in zip(labels(runs), runs, strict=True)]
    facts = [each for _, each in told if each is not None]
    rows = [[words, *(_count(each.get(key)) for each in facts)] for key, words in _COUNTS.items()]
    rows.append(["replies refused", *(_refused_count(each) for each in facts)])
    rows.append(["seconds a round", *(short(number(each.get("seconds_a_round"))) for each in facts)])
    known = [row for row in rows if any(cell != "–" for cell in row[1:])]
    return [label for label, each in told if each is not None], known


def refusals(runs: Sequence[RunRecord]) -> tuple[list[str], list[list[str]]]:
    """Refused replies, as far as they are listed, by worker and cause: heads of the columns, and rows."""
    heads = ["worker", "cause", "replies", "in rounds"]
    rows = []
    for label, run in zip(labels(runs), runs, strict=True):
        for (worker, cause), rounds in _by_worker_and_cause(_facts(run) or {}):
            named = ", ".join(rounds[:_MOST_ROUNDS]) + (", ..." if len(rounds) > _MOST_ROUNDS else "")
            rows.append([label, worker, cause, str(len(rounds)), named])
    if len(runs) > 1:
        return ["run", *heads], rows
    return heads, [row[1:] for row in rows]


def deployment_tables(runs: Sequence[RunRecord]) -> "list[Table]":
    """The same for a terminal; empty where all runs were simulated."""
    if not deployed(runs):
        return []
    names, facts = deployment_rows(runs)
    shown = [_table(["deployment", *(names if len(runs) > 1 else [""])], facts)]
    heads, rows = refusals(runs)
    return [*shown, _table(["refused: " + heads[0], *heads[1:]], rows)] if rows else shown


def _facts(run: RunRecord) -> dict[str, Any] | None:
    found = run.summary.get("deployment")
    return found if isinstance(found, dict) else None


def _refused(facts: dict[str, Any]) -> list[dict[str, Any]]:
    listed = facts.get("refused")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _refused_count(facts: dict[str, Any]) -> str:
    if "refused" not in facts:
        return "–"
    listed, all_of_them = len(_refused(facts)), whole(facts.get("refusals"))
    if all_of_them is not None:
        return f"{all_of_them:,}"
    return f"{listed} or more" if listed >= MOST_REFUSED else str(listed)


def _by_worker_and_cause(facts: dict[str, Any]) -> list[tuple[tuple[str, str], list[str]]]:
    found: dict[tuple[str, str], list[str]] = {}
    for each in _refused(facts):
        worker, cause = _count(each.get("worker")), str(each.get("cause") or "not recorded")
        found.setdefault((worker, cause), []).append(_count(each.get("round")))
    return sorted(found.items(), key=lambda item: -len(item[1]))


def _count(value: object) -> str:
    amount = whole(value)
    return "–" if amount is None else f"{amount:,}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for index, head in enumerate(heads):
        table.add_column(
            Text(head), justify="right" if index and head != "cause" else "left", overflow="fold"
        )
    for row in rows:
        # Text, not str: a cause may hold what rich would read as markup.
        table.add_row(*(Text(cell) for cell in row))
    return table
