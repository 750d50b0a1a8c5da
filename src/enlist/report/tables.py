"""A run in words and in rows: what the command prints at its end, and what figures and page say about it."""

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from enlist.report.deployment import LOCAL, LOSSES, deployment_tables, loss_text, losses, seconds_words
from enlist.report.record import Outcome, RunRecord, differing, labels, number, outcome, plain, short, whole

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def summary_rows(runs: Sequence[RunRecord]) -> tuple[list[str], list[list[str]]]:
    """The outcome of each run as text: the heads of the columns, and one row a run (its label first)."""
    ends = [outcome(run) for run in runs]
    metric = metric_words(runs).removeprefix("test ").removesuffix(" (%)")
    goals = {end.target for end in ends}
    goal = goals.pop() if len(goals) == 1 else None
    to_goal = f"rounds to {round_text(runs[0], goal)}" if goal else "rounds to target"
    loss = "local loss" if losses(runs) == {"local_loss"} else "train loss"
    heads = ["run", "rounds", loss, "test loss", metric, f"best {metric}", to_goal, "MiB a worker"]
    rows = []
    for run, label, end in zip(runs, labels(runs), ends, strict=True):
        best = metric_text(run, end.best)
        rows.append(
            [
                label if end.status == "done" else f"{label} ({end.status})",
                str(end.rounds),
                loss_text(run, end, marked=loss != "local loss"),
                short(end.test_loss),
                metric_text(run, end.final),
                best if end.best_round is None else f"{best} (round {end.best_round})",
                target_text(end),
                short(end.comm_mib),
                short(end.wall_seconds),
                short(end.rounds_per_second),
            ]
        )
    return [*heads, "wall seconds", "rounds/s"], rows


def summary_table(runs: Sequence[RunRecord]) -> "Table":
    """The outcome for a terminal: up to three runs side by side, more of them a row each; fits 80 columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    heads, rows = summary_rows(runs)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0) if len(runs) <= 3 else 0)
    if len(runs) <= 3:
        lines = [[head, *(row[index] for row in rows)] for index, head in enumerate(heads)]
        for index, cell in enumerate(lines.pop(0)):
            table.add_column(Text(cell), justify="right" if index else "left")
    else:
        # The round of the best value, and words in the heads, are what a narrow terminal can spare.
        lines = [[cell.split(" (round")[0].replace(LOCAL, "*") for cell in row] for row in rows]
        if any(LOCAL in row[2] for row in rows):
            table.caption, table.caption_justify = "* mean loss of the local steps", "left"
        table.add_column("run", min_width=10, overflow="fold")
        for head in [*heads[1:5], "best", heads[6], "MiB", "wall s", "rounds/s"]:
            table.add_column(head.replace(" ", "\n", 1), justify="right", no_wrap=True)
    for line in lines:
        # Text, not str: a run's name may hold what rich would read as markup.
        table.add_row(*(Text(cell) for cell in line))
    return table


def print_outcome(run: RunRecord, console: "Console") -> None:
    """Prints how a run ended and where its page, picture and other files lie."""
    from rich.text import Text

    for table in (summary_table([run]), *deployment_tables([run])):
        console.print(table)
    if run.folder is None:
        return
    for name, what in (("report.html", "page"), ("curves.png", "picture"), ("", "folder")):
        path = run.folder / name
        if path.exists():
            # Never wrapped: a path broken over two lines cannot be clicked or copied.
            console.print(Text(f"{what:<8}", style="dim") + Text(str(path)), soft_wrap=True)


def phrases(run: RunRecord) -> list[str]:
    """What was run, in phrases that read on from one another; what is not configured is left out."""
    given = {key: value for key, value in run.config.items() if value is not None}
    said = []
    if "model" in given and "dataset" in given:
        said.append(f"{given['model']} on {given['dataset']}")
    if "algorithm" in given:
        said.append(f"trained by {given['algorithm']}")
    if "partition" in given:
        said.append(_partition_words(str(given["partition"])))
    if "workers" in given:
        said.append(_cohort_words(given))
    if "worker_lr" in given:
        said.append(f"worker rate {plain(given['worker_lr'])}")
    if "server_lr" in given:
        said.append(f"server rate {plain(given['server_lr'])}")
    for key, unit in (("local_epochs", "epoch"), ("local_steps", "step")):
        if key in given:
            batch = given.get("batch")
            size = "" if batch is None else " on all its rows" if batch == 0 else f" of batch {batch}"
            said.append(f"{plain(given[key])} local {unit}{'' if given[key] == 1 else 's'}{size}")
    return said


def sentence(runs: Sequence[RunRecord]) -> str:
    """What the runs have in common, in one line; of a single run, everything."""
    shared = shared_phrases(runs)
    lead = "" if len(runs) == 1 else f"{len(runs)} runs: " if shared else f"{len(runs)} runs"
    return (lead + ", ".join(shared)) or runs[0].name


def shared_phrases(runs: Sequence[RunRecord]) -> list[str]:
    """The phrases that are true of all the runs."""
    told = [phrases(run) for run in runs]
    return [phrase for phrase in told[0] if all(phrase in others for others in told[1:])]


def cost_rows(runs: Sequence[RunRecord]) -> list[list[str]]:
    """What the runs cost, a row for each kind of cost: its name, then every run's figure."""
    last = [run.metrics[-1] if run.metrics else {} for run in runs]
    return [
        ["model parameters", *(_count(run.summary.get("parameters")) for run in runs)],
        ["up a round, one worker", *(_bytes(line.get("uplink_bytes")) for line in last)],
        ["down a round, one worker", *(_bytes(line.get("downlink_bytes")) for line in last)],
        ["both so far, one worker", *(_with_unit(number(line.get("comm_mib")), "MiB") for line in last)],
        [f"{seconds_words(runs)} so far", *(short(number(line.get("seconds"))) for line in last)],
        ["wall seconds", *(short(number(run.summary.get("wall_seconds"))) for run in runs)],
        ["of which compilation", *(short(number(run.summary.get("compile_seconds"))) for run in runs)],
        ["rounds a second", *(short(number(run.summary.get("rounds_per_second"))) for run in runs)],
    ]


def partition_facts(part: dict[str, Any]) -> str:
    """How the rows were dealt out, in one line."""
    sizes = part.get("sizes") or {}
    said = [f"{_count(part.get('rows'))} rows held by {_count(part.get('workers'))} workers"]
    if sizes:
        low, high = sizes.get("min"), sizes.get("max")
        among = f"{plain(low)} to {plain(high)} each, median {plain(sizes.get('median'))}"
        said.append(f"{plain(low)} each" if low == high else among)
    if part.get("shared_rows"):
        said.append(f"{_count(part['shared_rows'])} of each worker's are shared")
    said.append(f"{_count(part['left_over'])} rows left over" if part.get("left_over") else "none left over")
    shown = len(part.get("class_counts") or part.get("worker_sizes") or [])
    more = f" The first {shown:,} workers are drawn." if shown < number(part.get("workers")) else ""
    return "; ".join(said) + "." + more


def config_rows(runs: Sequence[RunRecord]) -> list[list[str]]:
    """Every option and what each run gave it; first what sets the runs apart."""
    apart = differing(runs)
    keys = dict.fromkeys([*apart, *(key for run in runs for key in run.config)])
    return [[key, *(plain(run.config.get(key)) for run in runs)] for key in keys]


def tiles(run: RunRecord) -> list[tuple[str, str, str]]:
    """The few numbers a run is judged by: what it is, the number, a remark."""
    end = outcome(run)
    metric = metric_words([run]).removesuffix(" (%)")
    best_round = "" if end.best_round is None else f"in round {end.best_round}"
    goal = "no target was set" if end.target is None else f"target {round_text(run, end.target)}"
    of_steps = "mean of the local steps; " if run.loss_key == "local_loss" else ""
    return [
        (f"final {metric}", metric_text(run, end.final), f"after {end.rounds:,} rounds"),
        (f"best {metric}", metric_text(run, end.best), best_round),
        ("rounds to target", target_text(end), goal),
        (f"final {LOSSES[run.loss_key]}", loss_text(run, end), f"{of_steps}test loss {short(end.test_loss)}"),
        ("sent, one worker", _with_unit(end.comm_mib, "MiB"), "up and down, so far"),
        ("wall time", _with_unit(end.wall_seconds, "s"), _with_unit(end.rounds_per_second, "rounds/s")),
    ]


def made_with(runs: Sequence[RunRecord]) -> list[str]:
    """Versions, device and execution: one line where all runs share them, else a line for each run."""
    told = []
    for run in runs:
        versions = run.summary.get("versions") or {}
        said = [", ".join(f"{name} {version}" for name, version in versions.items())]
        said += [str(run.summary.get(key) or "") for key in ("device", "execution")]
        told.append(f"Made with {'; '.join(filter(None, said))}" if any(said) else "Versions not recorded")
    if len(set(told)) == 1:
        return told[:1]
    return [f"{label}: {line}" for label, line in zip(labels(runs), told, strict=True)]


def html_facts(rows: Sequence[Sequence[str]]) -> str:
    """Pairs of a name and a value as an HTML list, escaped."""
    pairs = (f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>" for name, value in rows)
    return f'<dl class="facts">{"".join(pairs)}</dl>'


def html_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], strong: int = 0, sortable: bool = False
) -> str:
    """The rows as an HTML table, everything in them escaped; the first `strong` rows are set off.

    Lines after the first of a cell are remarks, set smaller.
    """
    lines = []
    for index, (first, *rest) in enumerate(rows):
        cells = "".join(f"<td>{_html_cell(cell)}</td>" for cell in rest)
        mark = ' class="apart"' if index < strong else ""
        lines.append(f"<tr{mark}><th>{_html_cell(first)}</th>{cells}</tr>")
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heads)
    top = f"<thead><tr>{head}</tr></thead>" if heads else ""
    kind = "wide sortable" if sortable else "wide"
    return f'<div class="{kind}"><table>{top}<tbody>{"".join(lines)}</tbody></table></div>'


def _html_cell(cell: str) -> str:
    first, *remarks = html.escape(cell).split("\n")
    return first + "".join(f"<small>{remark}</small>" for remark in remarks)


def target_text(end: Outcome) -> str:
    """The rounds it took to the target, or why there is no such number."""
    if end.target is None:
        return "–"
    return "not reached" if end.target_rounds is None else str(end.target_rounds)


def metric_text(run: RunRecord, value: float | None) -> str:
    """A value of the run's test metric, in percent where that is how it is read."""
    if value is None or math.isnan(value):
        return "–"
    return f"{100 * value:.2f}%" if run.is_percent else f"{value:.4g}"


def round_text(run: RunRecord, value: float) -> str:
    """A target: like `metric_text`, but 90% where it would say 90.00%."""
    return f"{100 * value:g}%" if run.is_percent else f"{value:g}"


def metric_words(runs: Sequence[RunRecord]) -> str:
    """The name of the test metric with its unit, for an axis that all runs share."""
    keys = {run.metric_key for run in runs}
    if len(keys) > 1:
        return "test metric"
    words = keys.pop().replace("_", " ")
    return f"{words} (%)" if runs[0].is_percent else words


def _partition_words(spec: str) -> str:
    kind, _, value = spec.partition(":")
    words = {
        "iid": "split iid",
        "digits": f"{value} class{'' if value == '1' else 'es'} a worker",
        "shards": f"{value} shard{'' if value == '1' else 's'} a worker",
        "dirichlet": f"Dirichlet({value}) split",
        "quantity": f"quantity skew {value}",
        "by-key": "split by key",
    }
    return words.get(kind, f"partition {spec}") if value or kind in ("iid", "by-key") else f"partition {spec}"


def _cohort_words(given: dict[str, Any]) -> str:
    cohort, workers, sampling = given.get("cohort"), given["workers"], given.get("sampling")
    if cohort is None or sampling == "full":
        return f"all {workers} workers every round"
    if str(sampling).startswith("recorded:"):
        return f"recorded cohorts, at most {cohort} of {workers} workers a round"
    least = "at least " if sampling == "at-least" else ""
    again = ", drawn with replacement" if sampling == "with-replacement" else ""
    return f"{least}{cohort} of {workers} workers a round{again}"


def _count(value: object) -> str:
    amount = whole(value)
    return "–" if amount is None else f"{amount:,}"


def _bytes(value: object) -> str:
    return "–" if whole(value) is None else f"{_count(value)} bytes"


def _with_unit(value: float, unit: str) -> str:
    return "–" if math.isnan(value) else f"{short(value)} {unit}"
