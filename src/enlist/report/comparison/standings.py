"""A comparison in words and rows: for a terminal, for other programs (CSV), for a paper (LaTeX)."""

import csv
import io
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from enlist.report.comparison.outcome import (
    COMPARED,
    COSTS,
    Comparison,
    Contender,
    Standing,
    outcomes,
    resolution,
    summary,
)
from enlist.report.record import plain, short, write_whole
from enlist.report.tables import metric_text, metric_words, round_text

if TYPE_CHECKING:
    from rich.table import Table

# The paper's symbols for the rates that every method has.
_SYMBOLS = {"worker_lr": r"$\eta_L$", "server_lr": r"$\eta$"}
# "[" and "*" mean something after the end of a row.
_LATEX = {char: f"\\{char}" for char in "&%$#_{}"} | {char: f"{{{char}}}" for char in "[]*"}
_LATEX |= {char: f"${char}$" for char in "<>"} | {"–": "--", "∞": r"$\infty$", "×": r"$\times$"}
_LATEX |= {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
}


def terminal_table(comparison: Comparison) -> "Table":
    """The outcome for a terminal, two lines a contender; fits 80 columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    title = f"Rounds, MiB (one worker) and simulated seconds to {goal_words(comparison)}"
    said: dict[str, Any] = {"title_justify": "left", "caption_justify": "left", "title_style": "bold"}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title=Text(title), **said)
    table.caption = Text(" ".join(notes(comparison)), style="dim")
    table.add_column("method", min_width=14, overflow="fold")
    for head in ("reached", "rounds", "MiB", "seconds"):
        table.add_column(head, justify="right", no_wrap=True)
    for standing in outcomes(comparison):
        cells = [
            (standing.contender.label, rates_text(comparison, standing.contender)),
            _reached_cell(standing),
        ]
        cells += [_terminal_cell(comparison, standing, name) for name in COMPARED]
        # Text, not str: a label may hold what rich would read as markup.
        table.add_row(*(Text.assemble(first, "\n", (second, "dim")) for first, second in cells))
    return table


def outcome_rows(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """The outcome of each contender as text: the heads of the columns, and a row each; lines after a cell's first
    are remarks."""
    metric = metric_words([comparison.example]).removeprefix("test ").removesuffix(" (%)")
    rows = []
    for standing in outcomes(comparison):
        row = [f"{standing.contender.label}\n{rates_text(comparison, standing.contender)}"]
        row.append("\n".join(filter(None, _reached_cell(standing))))
        for name in COMPARED:
            remark = f"\n{ratio_text(standing, name)}" if len(comparison.contenders) > 1 else ""
            row.append(cost_text(comparison, standing, name) + remark)
        rows.append([*row, _final_text(comparison, standing)])
    return ["method", "reached", "rounds", "MiB", "seconds", f"final {metric}"], rows


def seed_rows(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Every seed of every contender as text: the heads of the columns, and a row each."""
    heads = [
        "method",
        "seed",
        "target",
        "rounds",
        "MiB",
        "seconds",
        "computing",
        "communicating",
        "best",
        "final",
    ]
    rows = []
    for standing in outcomes(comparison):
        for seed in standing.seeds:
            after = "" if seed.status == "reached" else f"\nended after {seed.spent['rounds']:,} rounds"
            costs = [short(value) if math.isfinite(value) else "–" for value in seed.cost.values()]
            ends = [_metric(comparison, value) for value in (seed.best, seed.final)]
            rows.append([standing.contender.label, plain(seed.seed), seed.status + after, *costs, *ends])
    return heads, rows


def notes(comparison: Comparison, with_ratios: bool = True) -> list[str]:
    """How the numbers are to be read, in sentences; what does not apply is left out."""
    standings = outcomes(comparison)
    counts = {len(standing.seeds) for standing in standings}
    several, every = counts != {1}, resolution(comparison.runs)
    said = []
    if several:
        said.append(f"Median over {counts.pop() if len(counts) == 1 else 'the'} seeds, lowest–highest.")
    if with_ratios and len(standings) > 1:
        said.append(f"×: ratio of the median to that of {comparison.labels[0]}.")
    if several and any(standing.reached < len(standing.seeds) for standing in standings):
        said.append("A seed that did not reach the target counts as infinitely slow.")
    if any(not _is_reached(standing) for standing in standings):
        said.append(f"Best: the best value of a run{', median over the seeds' if several else ''}.")
    if (tried := _tried(comparison)) != {1}:
        same = f"Rates: the best of {max(tried)} tried" + " for each method" * (len(standings) > 1)
        said.append(f"{same}." if len(tried) == 1 else "Rates (of n): the best of n tried.")
    if every > 1:
        said.append(f"Evaluated every {every} rounds, so rounds to the target are known to within {every}.")
    return said


def write_csv(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Writes a row for each contender: its rates, and median, min and max of everything; empty: not reached."""
    rows = []
    for facts in summary(comparison)["contenders"]:
        row = {"label": facts["label"], **_rates(comparison, facts)}
        row |= {name: facts[name] for name in ("tried", "seeds", "reached", "diverged")}
        for name in COSTS:
            row |= _flat(name, facts[name])
        row |= {f"{name}_ratio": ratio for name, ratio in facts["ratio"].items()}
        row |= {"best": facts["best"], **_flat("final", facts["final"])}
        rows.append(row | {name: facts[name] for name in ("uplink_bytes", "downlink_bytes")})
    _write_rows(rows, path)


def write_seeds_csv(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Writes a row for each contender and seed; empty: not reached."""
    contenders = summary(comparison)["contenders"]
    rows = [
        {"label": facts["label"], **_rates(comparison, facts), **run}
        for facts in contenders
        for run in facts["runs"]
    ]
    _write_rows(rows, path)


def write_latex(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Writes a table for a paper, to be read in with `\\input`; it needs the package booktabs."""
    rates = rate_names(comparison)
    heads = ["method", *(_SYMBOLS.get(name, latex_text(name)) for name in rates)]
    lines = []
    for standing in outcomes(comparison):
        given = [plain(standing.contender.rates.get(name)) for name in rates]
        cells = [standing.contender.label, *given, ", ".join(filter(None, _reached_cell(standing)))]
        if _is_reached(standing):
            cells += [cost_text(comparison, standing, name) for name in COMPARED]
            ends = ""
        else:
            ends = rf" & \multicolumn{{3}}{{r}}{{{latex_text(cost_text(comparison, standing, 'rounds'))}}}"
        lines.append("  " + " & ".join(map(latex_text, cells)) + ends + r" \\")
    caption = [f"Cost of reaching {goal_words(comparison)}.", *_latex_notes(comparison)]
    text = "\n".join(
        [
            r"% \usepackage{booktabs}",
            r"\begin{table}[tb]",
            r"\centering",
            rf"\caption{{{latex_text(' '.join(caption))}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(heads) + 3)}}}",
            r"  \toprule",
            "  " + " & ".join([*heads, "reached", "rounds", "MiB", "seconds"]) + r" \\",
            r"  \midrule",
            *lines,
            r"  \bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )
    write_whole(path, f"{text}\n".encode())


def latex_text(text: str) -> str:
    """The text with what LaTeX would read as commands escaped."""
    return "".join(_LATEX.get(char, char) for char in text)


def goal_words(comparison: Comparison) -> str:
    """The target with the name of its metric."""
    run = comparison.example
    words, value = metric_words([run]).removesuffix(" (%)"), round_text(run, comparison.target)
    return f"{value} {words}" if run.is_percent else f"{words} {value}"


def rate_names(comparison: Comparison) -> list[str]:
    """The rates that any contender has."""
    return list(dict.fromkeys(name for contender in comparison.contenders for name in contender.rates))


def rates_text(comparison: Comparison, contender: Contender) -> str:
    """The rates in a few words, and from how many they were chosen where that is not the same for all."""
    said = ", ".join(f"{name.removesuffix('_lr')} {plain(rate)}" for name, rate in contender.rates.items())
    return said if len(_tried(comparison)) == 1 else f"{said} (of {contender.tried})"


def cost_text(comparison: Comparison, standing: Standing, name: str) -> str:
    """The median cost with its range, or how near the contender came: `34 (31–>200)`."""
    cost, over = standing.cost[name], range_text(standing, name)
    if not _is_reached(standing):
        return f"not reached (best {_metric(comparison, standing.best)})" if name == "rounds" else "–"
    if cost is None:
        return "–"
    return f"{amount(name, cost.median)} ({over})" if over else amount(name, cost.median)


def amount(name: str, value: float) -> str:
    """Rounds as they were counted; of what else is measured, three digits are more than seeds agree in."""
    return short(value) if name == "rounds" or value >= 1000 else f"{value:.3g}"


def range_text(standing: Standing, name: str) -> str:
    """From the fastest seed to the slowest; where some did not reach the target, to more than they ran."""
    cost = standing.cost[name]
    if cost is None or len(standing.seeds) == 1:
        return ""
    if math.isfinite(cost.highest):
        return f"{amount(name, cost.lowest)}–{amount(name, cost.highest)}"
    bound = standing.at_least(name)
    return f"{amount(name, cost.lowest)}–{f'>{amount(name, bound)}' if math.isfinite(bound) else '∞'}"


def ratio_text(standing: Standing, name: str) -> str:
    """How many times the first contender's median; empty where there is no such number."""
    ratio = standing.ratio[name]
    if ratio is None:
        return ""
    return f"{ratio:,.0f}×" if ratio >= 10 else f"{ratio:.2f}×" if ratio >= 0.1 else f"{ratio:.2g}×"


def _terminal_cell(comparison: Comparison, standing: Standing, name: str) -> tuple[str, str]:
    cost = standing.cost[name]
    if not _is_reached(standing):
        best = f"best {_metric(comparison, standing.best)}"
        return ("not reached", best) if name == "rounds" else ("–", "")
    if cost is None:
        return "–", ""
    ratio = ratio_text(standing, name) if len(comparison.contenders) > 1 else ""
    return f"{amount(name, cost.median)}  {ratio}".rstrip(), range_text(standing, name)


def _tried(comparison: Comparison) -> set[int]:
    return {contender.tried for contender in comparison.contenders}


def _latex_notes(comparison: Comparison) -> list[str]:
    """The table of a paper has no ratios, and says in words how rates were chosen."""
    said = [note for note in notes(comparison, with_ratios=False) if not note.startswith("Rates")]
    return [*said, comparison.tuning] if comparison.tuning else said


def _reached_cell(standing: Standing) -> tuple[str, str]:
    gone = f"{standing.diverged} diverged" if standing.diverged else ""
    return f"{standing.reached} of {len(standing.seeds)}", gone


def _is_reached(standing: Standing) -> bool:
    """Whether the median seed reached the target."""
    cost = standing.cost["rounds"]
    return cost is not None and math.isfinite(cost.median)


def _final_text(comparison: Comparison, standing: Standing) -> str:
    if standing.final is None:
        return "–"
    median, lowest, highest = (_metric(comparison, value) for value in standing.final)
    return median if lowest == highest else f"{median}\n{lowest}–{highest}"


def _metric(comparison: Comparison, value: float) -> str:
    """A value of the test metric; infinitely bad ones stand for runs that have none."""
    return metric_text(comparison.example, value) if math.isfinite(value) else "none"


def _rates(comparison: Comparison, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: facts["rates"].get(name) for name in rate_names(comparison)}


def _flat(name: str, spread: Mapping[str, Any] | None) -> dict[str, Any]:
    return {f"{name}_{part}": (spread or {}).get(part) for part in ("median", "min", "max")}


def _write_rows(rows: Sequence[Mapping[str, Any]], path: str | os.PathLike[str]) -> None:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, buffer.getvalue().encode())
