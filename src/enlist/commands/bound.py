"""`enlist bound`."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enlist.commands.shared import no_loose_words, print_json
from enlist.errors import BadInput
from enlist.limits import LEAST_RATE
from enlist.options import flatten, unflatten
from enlist.options.theory import BoundOptions, RoundOptions

if TYPE_CHECKING:
    from enlist.theory.bounds import Bound
    from enlist.theory.conditions import Constants, Rates, Strategy

FILES = ("bound.json", "table1.json")
NEEDED = ("smoothness", "sigma_local", "sigma_global", "gap", "local_steps", "rounds")
NEEDED_BY_TABLE = ("local_steps", "rounds")
EXAMPLE = "--smoothness 1 --sigma-local 1 --sigma-global 1 --gap 1 --local-steps 5 --rounds 10000"
EPSILON = 0.01
# What the conditions are on, by their names in the theory.
CONDITIONS = {"drift": "u = K L eta_L", "step": "g L = eta eta_L K L", "progress": "1 - 2c"}
MEANINGS = {
    "drift": "local steps stay near the model they start from",
    "step": "the server does not overshoot",
    "progress": "c > 0: a round gains more than its cohort loses by chance",
}
PARTS = {
    "local_noise": "gradient noise, averaged over the cohort",
    "drift_local": "workers drift apart by noise",
    "drift_global": "workers drift apart because their data differ",
    "sampling": "a cohort is not all workers",
    "sampling_drift_local": "nor is its drift by noise",
    "sampling_drift_global": "nor is its drift by data",
}


def act(given: dict[str, Any], words: list[str]) -> None:
    """Prints the theorem of the strategy, or Table 1, for the numbers that were typed."""
    no_loose_words("bound", words)
    options = unflatten(BoundOptions, given)
    needed = NEEDED_BY_TABLE if options.comparison.table else NEEDED
    typed = flatten(options)
    if missing := [f"--{name.replace('_', '-')}" for name in needed if typed[name] is None]:
        are = "is" if len(missing) == 1 else "are"
        example = "--table --local-steps 5 --rounds 1000" if options.comparison.table else EXAMPLE
        raise BadInput(f"bound: {', '.join(missing)} {are} missing, as in: enlist bound {example}")
    if options.comparison.table:
        _table(options)
    else:
        _bound(options)


def _bound(options: BoundOptions) -> None:
    import numpy as np

    from enlist.theory import bounds
    from enlist.theory.conditions import Constants

    asked, typed = options.round, options.constants
    constants = Constants(typed.smoothness, typed.sigma_local, typed.sigma_global, typed.gap)
    strategy, rates = _strategy(asked), _rates(options)
    with np.errstate(all="ignore"):
        found = bounds.bound(constants, rates, strategy, local_steps=asked.local_steps, rounds=asked.rounds)
        if not found.conditions.hold:
            raise BadInput(_refusal(options, constants, rates, strategy, found))
    if not math.isfinite(found.bound):
        raise BadInput("bound: these numbers are too large for the bound to be computed; choose other units")
    facts = _facts(found)
    used = {"cohort": asked.size} | {name: float(rate) for name, rate in rates._asdict().items()}
    _write(options, FILES[0], {"given": _given(options) | used} | facts)
    if options.output.json:
        print_json(facts | used)
    else:
        _show(facts, asked, rates)


def _strategy(asked: RoundOptions) -> "Strategy":
    from enlist.theory import conditions

    if asked.sampling == "full":
        return conditions.full(asked.workers)
    if asked.sampling == "with-replacement":
        return conditions.with_replacement(asked.size)
    return conditions.without_replacement(asked.size, asked.workers)


def _rates(options: BoundOptions) -> "Rates":
    """The rates that were typed, the corollary's where they were not."""
    from enlist.theory.conditions import Rates, real
    from enlist.theory.corollaries import corollary_rates

    asked, typed = options.round, options.rates
    usual = corollary_rates(
        options.constants.smoothness, local_steps=asked.local_steps, rounds=asked.rounds, cohort=asked.size
    )
    server_lr = usual.server_lr if typed.worker_lr is None else 1.0
    return Rates(
        real(usual.worker_lr if typed.worker_lr is None else typed.worker_lr),
        real(server_lr if typed.server_lr is None else typed.server_lr),
    )


def _refusal(
    options: BoundOptions, constants: "Constants", rates: "Rates", strategy: "Strategy", found: "Bound"
) -> str:
    """Which conditions are broken, and which rates would keep them all."""
    broken = [
        f"c = {found.c:.4g} is not above 0"
        if name == "progress"
        else f"{CONDITIONS[name]} = {each.value:.4g} is above {each.limit:.4g}"
        for name, each in found.conditions._asdict().items()
        if not each.holds
    ]
    advice = _advice(options, constants, rates, strategy)
    if options.rates.worker_lr is None and options.rates.server_lr is None:
        from enlist.theory.corollaries import least_rounds

        least = least_rounds(strategy, local_steps=options.round.local_steps).whole
        advice = f"the corollary's rates need --rounds {int(least)} or more; or {advice}"
    theorem = "Theorem 1" if options.round.sampling == "full" else "Theorem 2"
    return f"{theorem} does not hold at these rates: {', '.join(broken)}; {advice}"


def _advice(options: BoundOptions, constants: "Constants", rates: "Rates", strategy: "Strategy") -> str:
    """The largest value of each rate that keeps all conditions while the other rate stays as it is."""
    from enlist.theory.conditions import check, drift, largest_server_lr, largest_worker_lr

    steps, smoothness = options.round.local_steps, constants.smoothness

    def hold(tried: "Rates") -> bool:
        u = drift(constants, tried, steps)
        return bool(check(u, tried.server_lr * u, strategy, strategy).hold)

    most_worker = largest_worker_lr(smoothness, rates.server_lr, strategy, local_steps=steps)
    most_server = largest_server_lr(smoothness, rates.worker_lr, strategy, local_steps=steps)
    worker = _short(float(most_worker), lambda rate: hold(rates._replace(worker_lr=rate)))
    server = _short(float(most_server), lambda rate: hold(rates._replace(server_lr=rate)))
    ways = [f"--worker-lr to {worker:.4g} (at server-lr = {rates.server_lr:.4g})"] if worker else []
    ways += [f"--server-lr to {server:.4g} (at worker-lr = {rates.worker_lr:.4g})"] if server else []
    return f"lower {' or '.join(ways)}" if ways else "no rate that can be typed is low enough"


def _short(most: float, holds: Callable[[float], bool]) -> float | None:
    """The largest number of four digits up to `most` that holds; None where there is none that can be typed."""
    if not LEAST_RATE < most < math.inf:
        return None
    unit = 10.0 ** (math.floor(math.log10(most)) - 3)
    tries = (float(f"{(math.floor(most / unit) - down) * unit:.4g}") for down in range(3))
    return next((rate for rate in tries if holds(rate)), None)


def _facts(found: "Bound") -> dict[str, Any]:
    """The bound for other programs. Where there is no limit, it and its margin are null."""
    return {
        "bound": float(found.bound),
        "vanishing": float(found.vanishing),
        "phi": float(found.phi),
        "c": float(found.c),
        "conditions": [
            {
                "name": CONDITIONS[name],
                "value": float(each.value),
                "limit": _finite(each.limit),
                "margin": _finite(each.margin),
                "holds": bool(each.holds),
            }
            for name, each in found.conditions._asdict().items()
        ],
        "parts": {name: float(part) for name, part in found.parts._asdict().items()},
    }


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _show(facts: dict[str, Any], asked: RoundOptions, rates: "Rates") -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    terms = Table("term", "value", "share", "what it is")
    rows = {"vanishing": "gap / (c g T): falls as rounds go on"} | PARTS
    values = {"vanishing": facts["vanishing"]} | facts["parts"]
    whole = facts["bound"] or 1.0
    for name, meaning in rows.items():
        terms.add_row(name.replace("_", " "), f"{values[name]:.4g}", f"{values[name] / whole:.1%}", meaning)
    terms.add_row("bound", f"{facts['bound']:.4g}", "", "the sum")
    console.print(terms)
    limits = Table("condition on", "value", "limit", "margin", "why")
    for each, meaning in zip(facts["conditions"], MEANINGS.values(), strict=True):
        limit, margin = ("-" if each[key] is None else f"{each[key]:.4g}" for key in ("limit", "margin"))
        limits.add_row(each["name"], f"{each['value']:.4g}", limit, margin, meaning)
    console.print(limits)
    largest = max(values, key=lambda name: values[name]).replace("_", " ")
    print(
        f"In {asked.rounds} rounds at worker-lr {rates.worker_lr:.4g} and server-lr {rates.server_lr:.4g}, some "
        f"round's E|grad f|^2 is at most {facts['bound']:.4g} (c = {facts['c']:.4g}; the largest term: {largest})."
    )


def _table(options: BoundOptions) -> None:
    from enlist.theory.table1 import ROWS, Setting

    asked = options.round
    cohort = None if asked.sampling == "full" else asked.size
    epsilon = EPSILON if options.comparison.epsilon is None else options.comparison.epsilon
    setting = Setting(asked.workers, cohort, asked.local_steps, asked.rounds, epsilon)
    rows = [
        {
            "data": row.data,
            "name": row.name,
            "citation": row.citation,
            "convexity": row.convexity,
            "assumes": row.assumes,
            "partial": row.partial is not None,
            "rate_formula": row.orders(setting).rate.text,
            "rate": float(row.rate(setting)),
            "complexity_formula": row.orders(setting).complexity.text,
            "complexity": float(row.complexity(setting)),
        }
        for row in ROWS
    ]
    _write(options, FILES[1], {"given": _given(options) | setting._asdict(), "rows": rows})
    if options.output.json:
        print_json(rows)
    else:
        _show_table(rows, asked, epsilon)


def _show_table(rows: list[dict[str, Any]], asked: RoundOptions, epsilon: float) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("data", "analysis", "partial", "after T rounds", "rounds for epsilon", show_lines=True)
    for row in rows:
        needs = ", ".join(filter(None, (row["convexity"], row["assumes"])))
        table.add_row(
            row["data"],
            f"{row['name']}: {needs}",
            "yes" if row["partial"] else "no",
            f"{row['rate_formula']}\n= {row['rate']:.4g}",
            f"{row['complexity_formula']}\n= {row['complexity']:.4g}",
        )
    Console().print(table)
    print(
        f"Orders, for m = {asked.workers}, n = {asked.size}, K = {asked.local_steps}, T = {asked.rounds} and "
        f"epsilon = {epsilon:g}: hidden constants are taken as 1, so compare how they grow. Rows without partial "
        "participation count all m workers."
    )


def _given(options: BoundOptions) -> dict[str, Any]:
    """The numbers that were typed or usual."""
    return flatten(options.constants) | flatten(options.round)


def _write(options: BoundOptions, name: str, facts: dict[str, Any]) -> None:
    if options.output.out is None:
        return
    out = Path(options.output.out)
    if out.is_dir() and any(path.name not in FILES for path in out.iterdir()):
        raise BadInput(f"out = {out}: that folder holds something else; name a new one")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise BadInput(f"out = {out}: cannot be made a folder ({error}); name another") from error
    (out / name).write_text(json.dumps(facts, indent=2) + "\n")
