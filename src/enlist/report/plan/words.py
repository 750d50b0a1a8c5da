"""A plan in rows and sentences, for the terminal and the page. A plan is what its plan.json holds."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from enlist.report.record import short

Plan = Mapping[str, Any]
CONFIG_FILE = "config.yaml"


class Measure(NamedTuple):
    """What a map shows: its key in the plan, its head and its words."""

    key: str
    head: str
    words: str


MEASURES = (
    Measure("rounds", "rounds", "rounds to the goal"),
    Measure("mib", "MiB of a worker", "MiB up and down, of a worker that takes part in every round"),
    Measure("total_mib", "MiB of all", "MiB up and down, of all workers together"),
    Measure("seconds", "seconds", "simulated seconds: each round waits for the slowest of its cohort"),
)
RATES = {
    "recommended": "the largest worker rate within {slack:.0%} of the infimum, with its best server rate",
    "infimum": "eta_L -> 0 with eta eta_L K L = {step}: approached, never reached",
    "server rate 1": "plain FedAvg, at its best worker rate",
    "corollary": "eta_L = 1/(sqrt(T) K L), eta = sqrt(K n)",
    "given": "what was typed, or usual",
}
MEANINGS = {
    "u = K L eta_L": "local steps stay near the model they start from",
    "g L = eta eta_L K L": "the server does not overshoot",
    "1 - 2c": "c > 0: a round gains more than its cohort loses by chance",
}
PARTS = {
    "vanishing": "gap / (c g T): falls as rounds go on",
    "local_noise": "gradient noise, averaged over the cohort",
    "drift_local": "workers drift apart by noise",
    "drift_global": "workers drift apart because their data differ",
    "sampling": "a cohort is not all workers",
    "sampling_drift_local": "nor is its drift by noise",
    "sampling_drift_global": "nor is its drift by data",
}
CONSERVATIVE = (
    "Worst-case numbers: they hold for every problem with such constants, so they are conservative, often by orders "
    "of magnitude."
)


def problem_words(plan: Plan) -> str:
    """What is planned, in one sentence without its stop."""
    of = plan["problem"]
    batch = f"batches of {of['batch']}" if of["batch"] else "full gradients"
    return (
        f"fedavg, {of['model']} on {of['dataset']} ({of['partition']}), {of['cohort']} of {of['workers']} workers a "
        f"round ({of['sampling']}), {of['local_steps']:.4g} local steps on {batch}"
    )


def number(value: float | None) -> str:
    """To four digits; a dash for what is not known, in words what never comes."""
    return "–" if value is None else short(value)


def count(value: float | None) -> str:
    """A number of rounds, whole where it is not astronomical."""
    if value is None:
        return "never"
    return f"{value:,.0f}" if value < 1e9 else f"{value:.3g}"


def constant_rows(plan: Plan) -> tuple[list[str], list[list[str]]]:
    """Each constant with its interval."""
    rows = []
    for name, each in plan["constants"].items():
        interval = f"{number(each['low'])} to {'?' if each['high'] is None else number(each['high'])}"
        least = "at least " if each["lower_bound"] else ""
        rows.append([name, least + number(each["value"]), interval, str(each["round"]), each["meaning"]])
    return ["constant", "value", "95% interval or bounds", "largest in round", "what it is"], rows


def rate_rows(plan: Plan) -> tuple[list[str], list[list[str]]]:
    """The theory's rates and those given, the bound after T rounds and the rounds to the goal."""
    rows = []
    for name, each in plan["rates"].items():
        words = RATES[name].format(slack=plan["slack"], step=number(each["step"]))
        if not each["holds"]:
            least = each.get("least_rounds")
            words += f"; needs {least:,.0f} rounds" if least else "; breaks a condition"
        rates = [
            "-> 0" if name == "infimum" else number(each["worker_lr"]),
            "-> infinity" if name == "infimum" else number(each["server_lr"]),
        ]
        bound = number(each["bound"]) if each["holds"] else "none"
        rows.append([name, *rates, bound, count(each["rounds_to_goal"]), words])
    after = f"bound after {plan['rounds']:,} rounds"
    needed = "rounds to the goal, with rates for those" if _for_other_rounds(plan) else "rounds to the goal"
    return ["rates", "worker-lr", "server-lr", after, needed, "what they are"], rows


def condition_rows(plan: Plan) -> tuple[list[str], list[list[str]]]:
    """Of the rates given."""
    rows = [
        [
            each["name"],
            number(each["value"]),
            number(each["limit"]),
            number(each["margin"]),
            "yes" if each["holds"] else "no",
            MEANINGS[each["name"]],
        ]
        for each in plan["given"]["conditions"]
    ]
    return ["condition on", "value", "limit", "margin", "holds", "why"], rows


def part_rows(plan: Plan) -> tuple[list[str], list[list[str]]]:
    """The bound at the recommended rates, term by term."""
    parts = plan["parts"]
    total = math.fsum(parts.values()) or 1.0
    rows = [
        [name.replace("_", " "), number(value), f"{value / total:.1%}", PARTS[name]]
        for name, value in parts.items()
    ]
    return ["term", "value", "share", "what it is"], [*rows, ["bound", number(total), "", "the sum"]]


def allowed_words(plan: Plan) -> str:
    """How large the rates given may be."""
    given, of = plan["given"], plan["rates"]["given"]
    said = (
        "keep all conditions"
        if given["hold"]
        else "break a condition, so the theorems say nothing about them"
    )
    server = given["most_server_lr"]
    most = (
        "no server-lr is low enough at that worker-lr"
        if server == 0
        else f"at that worker-lr, server-lr may be up to {number(server)}"
    )
    return (
        f"The rates given (worker-lr {number(of['worker_lr'])}, server-lr {number(of['server_lr'])}) {said}. At that "
        f"server-lr, worker-lr may be up to {number(given['most_worker_lr'])}; {most}."
    )


def infimum_words(plan: Plan) -> str:
    """Why there are no best rates, and why these are recommended."""
    return (
        "At a fixed product eta eta_L K the bound only falls as eta_L falls and eta rises: all that is left of eta_L "
        "alone are the drift terms, which grow with eta_L^2. So no rates are the best; eta_L -> 0 gives the infimum "
        f"{number(plan['rates']['infimum']['bound'])}. Recommended is the largest worker rate that costs at most "
        f"{plan['slack']:.0%} more. A smaller one gains next to nothing."
    )


def recommended_words(plan: Plan) -> str:
    """The rates recommended."""
    best = plan["rates"]["recommended"]
    rates = f"worker-lr {best['worker_lr']:g}, server-lr {best['server_lr']:g}"
    return f"Recommended: {rates}, {plan['rounds']:,} rounds."


def config_of(plan: Plan) -> str | None:
    """The file with which to run it; None for a plan made from Python, whose model no file can name."""
    found = plan.get("config", CONFIG_FILE)
    return None if found is None else str(found)


def predicted_words(plan: Plan) -> str:
    """Rounds, traffic and seconds at the rates recommended for so many rounds."""
    found = plan["predicted"]
    low, high = found["rounds_range"]
    ends = f"{count(low)} to {'?' if high is None else count(high)}"
    return (
        f"To E||grad f||^2 = {number(plan['goal'])}: {count(found['rounds'])} rounds ({ends} by the intervals), "
        f"{number(found['mib'])} MiB of a worker, {number(found['seconds'])} simulated seconds."
        + (
            f" That takes rates for so many rounds, which a plan without --rounds gives; those above are for "
            f"{plan['rounds']:,}."
            if _for_other_rounds(plan)
            else ""
        )
    )


def _for_other_rounds(plan: Plan) -> bool:
    """Whether rates were asked for that are for another number of rounds than the goal needs."""
    return bool(plan["rounds"] != plan["predicted"]["rounds"])
