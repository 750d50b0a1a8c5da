"""Tables 1 and 3, and what was chosen where the paper is silent, as plain tables."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from enlist.report.paper.figures import NOT_RUN
from enlist.report.paper.tables import Table
from enlist.studies.paper.raw import Curve, Raw
from enlist.studies.paper.recipe import MODELS, THREE
from enlist.studies.paper.recipes import table3
from enlist.studies.paper.setting import SERVER_LR, WORKER_LR, Scale
from enlist.studies.paper.shown.drawing import warning
from enlist.studies.paper.statistics.seeds import GUESSED, ending, rounded
from enlist.studies.paper.statistics.table3 import Best, best_rates, diverged_by_server_rate
from enlist.theory import table1 as theory


def table1() -> Table:
    """The rates of eleven analyses."""
    records, rows, formulas = [], [], []
    for row in theory.ROWS:
        partial = row.partial
        words = ", ".join(filter(None, (row.convexity, row.assumes)))
        record = {
            "data": row.data,
            "analysis": row.name,
            "citation": row.citation,
            "convexity": row.convexity,
            "assumes": row.assumes,
            "partial_participation": "yes" if partial else "no",
            "rate_full": row.full.rate.text,
            "rounds_full": row.full.complexity.text,
            "rate_partial": partial.rate.text if partial else "",
            "rounds_partial": partial.complexity.text if partial else "",
        }
        records.append(record)
        orders = [record[f"{what}_{who}"] for who in ("full", "partial") for what in ("rate", "rounds")]
        rows.append([row.name, row.data, words, *(order or "–" for order in orders)])
        formulas.append(
            [row.name, row.data, words.replace("^", r"\textasciicircum{}"), *map(_formula, orders)]
        )
    caption = (
        "Orders of convergence after T rounds, and rounds to an accuracy of eps, of eleven analyses: m workers, n "
        "(or S) of them a round, K local steps. Two of the complexities are misprinted in the paper and stand here "
        "as they follow from their rates: Khaled's second term and that of Karimireddy's FedAvg."
    )
    heads = [
        "analysis",
        "data",
        "assumes",
        "rate, all workers",
        "rounds",
        "rate, some of them",
        "rounds, some",
    ]
    return Table("table1", caption, heads, rows, len(heads), records, formulas)


def _formula(order: str) -> str:
    """An order in LaTeX.

    Example:
        >>> _formula("1/(mK eps^2) + M/sqrt(SKT) + 1/T^(2/3)")
        '$1/(mK \\\\epsilon^2) + M/\\\\sqrt{SKT} + 1/T^{2/3}$'
    """
    if not order:
        return "--"
    found = re.sub(r"sqrt\(([^()]*)\)", r"\\sqrt{\1}", order)
    found = re.sub(r"\^\(([^()]*)\)", r"^{\1}", found)
    return f"${found.replace('eps', chr(92) + 'epsilon')}$"


def table3_of(raw: Raw, scale: Scale) -> Table:
    """The grid: every run in the CSV file; as text, the best rates of each cell."""
    wanted = list(dict.fromkeys(table3.RECIPE.runs(scale)))
    found = [raw.curves[setting] for setting in wanted if setting in raw.curves]
    best = best_rates(raw, scale)
    epochs = sorted({setting.local_epochs for setting in wanted})
    places = dict.fromkeys((setting.model, setting.cohort, setting.partition) for setting in wanted)
    rows = []
    for model, cohort, partition in sorted(places, key=lambda place: (THREE.index(place[0]), place[1])):
        each_where = [
            {"model": model, "cohort": cohort, "partition": partition, "local_epochs": k} for k in epochs
        ]
        cells = [
            _cell(
                next((each for each in best if each.setting.matches(where)), None),
                [setting in raw.curves for setting in wanted if setting.matches(where)],
            )
            for where in each_where
        ]
        rows.append([MODELS[model], f"{cohort}", partition.removeprefix("digits:"), *cells])
    heads = ["model", "n", "p", *(f"K = {k}" for k in epochs)]
    rounds = " or ".join(str(t) for t in sorted({setting.rounds for setting in wanted}))
    caption = (
        "Best of the grid: the worker rate and the server rate with the lowest training loss over the last tenth of "
        f"{rounds} rounds, and the test accuracy there; beside, where others were better, that at the "
        f"paper's rates, {rates_words()}. Seed 0. {len(found)} of {len(wanted)} runs. {diverged_words(raw, scale)}"
    )
    small = warning(scale, wanted)
    if small:
        caption += f" {small[0].upper()}{small[1:]}."
    return Table("table3", caption.strip(), heads, rows, 3, [_record(curve) for curve in found])


def diverged_words(raw: Raw, scale: Scale) -> str:
    """How many runs diverged, by server rate."""
    counts = diverged_by_server_rate(raw, scale)
    said = [f"{gone} of {count} at server rate {rate:g}" for rate, (gone, count) in sorted(counts.items())]
    return f"Diverged (no longer finite): {', '.join(said)}." if said else ""


def divergence_rows(raw: Raw, scale: Scale) -> tuple[list[str], list[list[str]]]:
    """Diverged runs, and those that end worse than guessing, by model and rates: heads and rows."""
    wanted = [setting for setting in dict.fromkeys(table3.RECIPE.runs(scale)) if setting in raw.curves]
    pairs = [(eta, eta_l) for eta in table3.SERVER_LRS for eta_l in table3.WORKER_LRS]
    rows = []
    for model in THREE:
        own = [raw.curves[setting] for setting in wanted if setting.model == model]
        if own:
            rows.append([MODELS[model], *(_gone(own, *pair) for pair in pairs)])
    return ["diverged", *(f"η = {eta:g}, η_L = {eta_l:g}" for eta, eta_l in pairs)], rows


def _gone(curves: Sequence[Curve], server_lr: float, worker_lr: float) -> str:
    rates = {"server_lr": server_lr, "worker_lr": worker_lr}
    own = [curve for curve in curves if curve.setting.matches(rates)]
    if not own:
        return NOT_RUN
    gone = sum(curve.status == "diverged" for curve in own)
    lost = sum(
        curve.status == "done" and ending(curve, "train_loss") > GUESSED["train_loss"] for curve in own
    )
    return f"{gone} of {len(own)}" + (f"\n{lost} end worse than guessing" if lost else "")


def _cell(best: Best | None, run: Sequence[bool]) -> str:
    """The best rates of a cell, what they came to, and what the paper's did; or how many pairs were run."""
    if best is None:
        some = "diverged" if all(run) else f"{sum(run)} of {len(run)} pairs of rates run"
        return some if any(run) else NOT_RUN
    rates = f"at {best.setting.worker_lr:g}, {best.setting.server_lr:g}"
    if not best.is_papers:
        papers = "none" if best.paper_accuracy is None else f"{100 * best.paper_accuracy:.2f}%"
        rates += f"; paper's {papers}"
    return f"{100 * best.accuracy:.2f}%\n{rates}"


def _record(curve: Curve) -> dict[str, Any]:
    setting, done = curve.setting, curve.status == "done"
    best = int(np.nanargmax(curve.test_accuracy)) if np.isfinite(curve.test_accuracy).any() else None
    return {
        "model": setting.model,
        "digits": int(setting.partition.removeprefix("digits:")),
        "cohort": setting.cohort,
        "local_epochs": setting.local_epochs,
        "server_lr": setting.server_lr,
        "worker_lr": setting.worker_lr,
        "seed": setting.seed,
        **{name: "" if value is None else value for name, value in setting.way._asdict().items()},
        "rounds": setting.rounds,
        "status": curve.status,
        "last_round": int(curve.round[-1]) if len(curve.round) else "",
        "final_train_loss": _last(curve.train_loss),
        "final_test_loss": _last(curve.test_loss),
        "final_test_accuracy": _last(curve.test_accuracy),
        "last_tenth_train_loss": rounded(ending(curve, "train_loss")) if done else "",
        "last_tenth_test_accuracy": rounded(ending(curve, "test_accuracy")) if done else "",
        "best_test_accuracy": "" if best is None else float(curve.test_accuracy[best]),
        "best_round": "" if best is None else int(curve.round[best]),
    }


def _last(values: np.ndarray) -> float | str:
    known = values[np.isfinite(values)]
    return float(known[-1]) if len(known) else ""


def rates_words() -> str:
    """The rates of the paper's setting."""
    return f"worker rate {WORKER_LR:g}, server rate {SERVER_LR:g}"
