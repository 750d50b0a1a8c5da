"""A tune in words and rows: for a terminal, for the page, and as JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from enlist.report.record import short
from enlist.report.sweep.outcome import word
from enlist.report.sweep.tables import value_text
from enlist.report.tables import phrases
from enlist.report.tune.outcome import Entry, Rung, Tuned

if TYPE_CHECKING:
    from rich.table import Table

# A terminal shows so many candidates, the best ones.
SHOWN = 12


def summary(tuned: Tuned) -> dict[str, Any]:
    """What `tune.json` holds."""
    cost = tuned.cost
    return {
        "winner": dict(tuned.winner),
        "score": tuned.best.mean,
        "measure": tuned.measure.key,
        "candidates": len(tuned.candidates),
        "diverged": tuned.diverged,
        "seeds": list(tuned.seeds),
        "eta": tuned.eta,
        "axes": tuned.axes,
        "at_edge": tuned.edges,
        "cost": {**cost._asdict(), "full_runs": cost.full_runs},
        "rungs": [_rung_facts(tuned, rung) for rung in tuned.rungs],
        "curves": [run.folder.name for run in tuned.runs if run.folder is not None],
        "config": None if tuned.config is None else dict(tuned.config),
    }


def _rung_facts(tuned: Tuned, rung: Rung) -> dict[str, Any]:
    told = [
        {
            **tuned.candidates[entry.candidate],
            "score": entry.mean,
            "scores": list(entry.scores),
            "test_metric": entry.then,
            "diverged": entry.diverged,
            "kept": entry.kept,
        }
        for entry in rung.entries
    ]
    return rung._asdict() | {"kept": sum(entry.kept for entry in rung.entries), "entries": told}


def rung_rows(tuned: Tuned) -> tuple[list[str], list[list[str]]]:
    """The rungs as text: the heads of the columns, and a row each."""
    rows = []
    for place, rung in enumerate(tuned.rungs, 1):
        first = rung.entries[0]
        kept = sum(entry.kept for entry in rung.entries)
        out = sum(entry.diverged > 0 for entry in rung.entries)
        rows.append(
            [
                str(place),
                str(rung.rounds),
                str(len(rung.entries)),
                str(out),
                str(kept) if place < len(tuned.rungs) else "winner",
                score_text(tuned, first),
                short(rung.device_seconds),
            ]
        )
    heads = ["rung", "to round", "candidates", "diverged", "go on", f"best {tuned.measure.head}", "device s"]
    return heads, rows


def candidate_rows(tuned: Tuned, most: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Candidates as text, the best first: those that came further before those that did not."""
    rows = []
    for candidate, (number, entry) in list(tuned.reached.items())[:most]:
        values = [word(tuned.candidates[candidate][name]) for name in tuned.axes]
        rounds = str(tuned.rungs[number - 1].rounds)
        rows.append([*values, str(number), rounds, score_text(tuned, entry), remark(tuned, entry)])
    return [*tuned.axes, "rung", "to round", tuned.measure.head, "remarks"], rows


def score_text(tuned: Tuned, entry: Entry) -> str:
    """The mean over the seeds, and the standard deviation where there are several."""
    if entry.mean is None:
        return "–"
    percent = tuned.measure.is_percent
    mean = value_text(entry.mean, percent)
    if entry.deviation is None:
        return mean
    if percent:
        return f"{mean.removesuffix('%')} ± {100 * entry.deviation:.2f}%"
    return f"{mean} ± {entry.deviation:.2g}"


def remark(tuned: Tuned, entry: Entry) -> str:
    """Why a candidate has no score, or what it lacks."""
    count = len(entry.scores)
    if entry.diverged:
        return "diverged" if count == 1 else f"{entry.diverged} of {count} diverged"
    if missed := count - len(entry.known):
        return f"{missed} of {count} not there yet" if count > 1 else "not there yet"
    return "winner" if entry is tuned.best else ""


def problem_words(tuned: Tuned) -> str:
    """What all candidates have in common, in one line."""
    heads = {"worker rate": "worker_lr", "server rate": "server_lr"}
    varied = [words for words, name in heads.items() if name in tuned.axes]
    amounts = {"local", "local_epochs", "local_steps"} & tuned.axes.keys()
    said = [
        phrase
        for phrase in phrases(tuned.runs[0])
        if not phrase.startswith(tuple(varied)) and not (amounts and " local " in phrase)
    ]
    return ", ".join(said) or f"{len(tuned.candidates)} candidates"


def cost_sentences(tuned: Tuned) -> list[str]:
    """What it took."""
    cost = tuned.cost
    return [
        f"{len(tuned.candidates)} candidates, {len(tuned.seeds)} seed{'s' * (len(tuned.seeds) > 1)}: {cost.runs} "
        f"runs, {cost.rounds:,} rounds in all.",
        f"{short(cost.device_seconds)} s of rounds ({short(cost.wall_seconds)} s with compiling and files), "
        f"{cost.full_runs:.2f} times one full run of the winner ({short(cost.full_run_seconds)} s, {cost.measured}).",
    ]


def notes(tuned: Tuned) -> list[str]:
    """What is to be known of the result, in sentences."""
    said = [f"{tuned.diverged} candidate{'s' * (tuned.diverged > 1)} diverged."] if tuned.diverged else []
    if tuned.edges:
        names = ", ".join(f"{name} {word(tuned.winner[name])}" for name in tuned.edges)
        said.append(f"At the edge of what was tried, so that a better one may lie beyond: {names}.")
    return said


def rungs_table(tuned: Tuned) -> "Table":
    """The rungs for a terminal."""
    return _table(f"By {tuned.measure.words}", *rung_rows(tuned), " ".join(cost_sentences(tuned)))


def candidates_table(tuned: Tuned) -> "Table":
    """The best candidates for a terminal."""
    heads, rows = candidate_rows(tuned, SHOWN)
    said = notes(tuned)
    if len(tuned.candidates) > SHOWN:
        said.append(f"{len(tuned.candidates) - SHOWN} more candidates are on the page.")
    return _table("The best candidates", heads, rows, " ".join(said))


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], said: str) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title_justify="left")
    table.title = Text(title, style="bold")
    table.caption, table.caption_justify = Text(said, style="dim"), "left"
    for head in heads:
        # Text, not str: a value may hold what rich would read as markup.
        table.add_column(Text(head), justify="right", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
