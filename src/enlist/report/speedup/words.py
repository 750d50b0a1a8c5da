"""What came out of `enlist speedup`, in sentences."""

from typing import Any

# The terms of the bound: what each is, and whether it falls as n grows, at the corollary's rates and a given T.
TERMS = {
    "vanishing": ("the vanishing term gap/(c g T)", True),
    "local_noise": ("the gradient noise of the cohort, L eta eta_L sigma_L^2/(2n)", True),
    "drift_local": ("the workers' drift by noise, 5/2 sigma_L^2/(K T)", False),
    "drift_global": ("the workers' drift by their data, 15 sigma_G^2/T", False),
    "sampling": ("the chance of who takes part, 3/2 L K eta eta_L q sigma_G^2", True),
    "sampling_drift_local": ("sampling with the drift by noise", True),
    "sampling_drift_global": ("sampling with the drift by data", True),
}
LETTERS = {"cohort": "n", "local_steps": "K"}
# T over Kn below which the step g L = sqrt(Kn/T) is large enough to cost slope by itself.
FAR = 20
# An interval that has -1 in it and also this slope is too wide to call a speedup linear.
HALF = -0.5


def kind(slope: dict[str, float] | None) -> str:
    """What an interval of slopes says about speedup."""
    if slope is None:
        return "too few points"
    low, high = slope["low"] - 1e-9, slope["high"] + 1e-9
    if low <= -1 <= high:
        return "undecided" if high >= HALF else "linear"
    if high < -1:
        return "steeper than linear"
    if low > 0:
        return "slowdown"
    return "no speedup" if high >= 0 else "less than linear"


def linear_up_to(first: list[dict[str, float]]) -> int | None:
    """The largest n up to which the slope through the first points has -1, and not -1/2, in its interval, or is
    steeper."""
    found = None
    for each in first:
        if each["low"] - 1e-9 > -1:
            break
        if each["high"] < HALF:
            found = int(each["up_to"])
    return found


def verdict(facts: dict[str, Any]) -> dict[str, Any]:
    """The verdict: in a few words, up to which n the speedup is linear, and in sentences."""
    over_n = facts["axis"] == "cohort"
    said = _over_n(facts) if over_n else _over_steps(facts)
    found: dict[str, Any] = {"kind": kind(facts["slope"]) if over_n else helped(facts["slope"])}
    if over_n:
        found["linear_up_to"] = linear_up_to(facts["first"])
    return found | {"verdict": [*said, *_left_out(facts)]}


def slope_words(slope: dict[str, float], interval: str) -> str:
    """The slope and its interval."""
    return f"{slope['value']:.2f} ({interval}: {slope['low']:.2f} to {slope['high']:.2f})"


def largest_term(point: dict[str, Any]) -> tuple[str, float] | None:
    """The largest term of the bound in a point, and its share."""
    if point["terms"] is None:
        return None
    name = max(point["terms"], key=lambda each: point["terms"][each])
    return name, point["terms"][name] / point["bound"]


def _over_n(facts: dict[str, Any]) -> list[str]:
    slope, word = facts["slope"], kind(facts["slope"])
    if slope is None:
        return ["Too few points: fewer than two n have a T that was searched, so there is no slope."]
    used = [point for point in facts["points"] if point["cohort"] not in facts["left_out"]]
    told = f"over n = {used[0]['cohort']} to {used[-1]['cohort']} rounds go with slope "
    told += slope_words(slope, facts["interval"])
    up_to = linear_up_to(facts["first"])
    if word == "undecided":
        return [
            f"The seeds cannot tell: {told}, which holds -1 (linear) and also {HALF:g}. Take more --seeds."
        ]
    if word in ("linear", "steeper than linear"):
        head = (
            f"Linear within the interval up to n = {used[-1]['cohort']}, the largest in the fit"
            if word == "linear"
            else "Steeper than linear"
        )
        return [f"{head}: {told}; ideal is -1.", *_about(used[-1], "At the largest n")]
    if word in ("no speedup", "slowdown"):
        head = "No speedup" if word == "no speedup" else "More workers need more rounds"
        return [f"{head}: {told}; ideal is -1.", *_because(used[-1])]
    if up_to is None or up_to == used[-1]["cohort"]:
        return [f"Less than linear: {told}; ideal is -1.", *_because(used[-1])]
    beyond = next(point for point in used if point["cohort"] > up_to)
    return [
        f"Linear within the interval up to n = {up_to}, saturating beyond: {told}; ideal is -1.",
        *_because(beyond),
    ]


def _because(point: dict[str, Any]) -> list[str]:
    """Why the slope is less steep than -1, as far as the bound knows."""
    largest = largest_term(point)
    if largest is None:
        unknown = "Which term of the bound dominates is not known: only the smoothness was given."
        return [unknown, *_near(point)]
    name, share = largest
    what, falls = TERMS[name]
    where = f"at n = {point['cohort']}, T = {point['rounds']}"
    if not falls:
        return [
            f"Because {what} dominates there ({share:.0%} of the bound {where}), and it does not fall with n.",
            *_near(point),
        ]
    return [
        f"The bound does not say why: {where} its largest term is {what} ({share:.0%}), which falls with n.",
        *_near(point),
    ]


def _about(point: dict[str, Any], where: str) -> list[str]:
    largest = largest_term(point)
    if largest is None:
        return []
    name, share = largest
    what, falls = TERMS[name]
    said = (
        "which falls with n"
        if falls
        else "which does not fall with n: the bound, a worst case, promises less"
    )
    return [f"{where} the largest term of the bound is {what} ({share:.0%}), {said}."]


def _near(point: dict[str, Any]) -> list[str]:
    ratio = point["rounds_over_kn"]
    if ratio >= FAR:
        return []
    where = f"n = {point['cohort']}, K = {point['local_steps']}"
    return [
        f"T is only {ratio:.3g} Kn there ({where}): the step g L = sqrt(Kn/T) is {ratio**-0.5:.2g}, no longer small, "
        "which costs slope by itself."
    ]


def helped(slope: dict[str, float] | None) -> str:
    """What an interval of slopes over K says about local steps."""
    if slope is None:
        return "too few points"
    if slope["high"] < 0:
        return "local steps help"
    return "local steps hurt" if slope["low"] > 0 else "no difference"


def _over_steps(facts: dict[str, Any]) -> list[str]:
    slope, word = facts["slope"], helped(facts["slope"])
    if slope is None:
        return ["Too few points: fewer than two K have a T that was searched, so there is no slope."]
    head = {
        "local steps help": "Local steps help: more of them need fewer rounds",
        "local steps hurt": "Local steps hurt: more of them need more rounds",
        "no difference": "Local steps make no difference that these seeds can tell",
    }[word]
    used = [point for point in facts["points"] if point["local_steps"] not in facts["left_out"]]
    ends = [point["local_steps"] for point in used]
    return [
        f"{head}; over K = {ends[0]} to {ends[-1]} rounds go with slope {slope_words(slope, facts['interval'])}.",
        _against_rates(facts, slope),
        *_near(max(used, key=lambda point: point["local_steps"])),
    ]


def _against_rates(facts: dict[str, Any], slope: dict[str, float]) -> str:
    """What was seen beside what both rates say of K."""
    full = facts["sampling"] == "full"
    own = (
        "the rate for all workers, 1/sqrt(mKT), says that they help (slope -1)"
        if full
        else "the rate for some workers, sqrt(K)/sqrt(nT), says that they hurt (slope +1)"
    )
    other = (
        "the rate for some workers, sqrt(K)/sqrt(nT), would say that they hurt (slope +1)"
        if full
        else "the rate for all workers, 1/sqrt(mKT), would say that they help (slope -1)"
    )
    expected = -1.0 if full else 1.0
    agrees = slope["low"] <= expected <= slope["high"]
    # Both rates are upper bounds: fewer rounds than they say do not contradict them.
    seen = (
        "Seen is what its own rate says"
        if agrees
        else "The slope seen is below that, which an upper bound allows"
        if slope["high"] < expected
        else "The slope seen is above that: other terms of the bound have a part in it"
    )
    return f"Here {own}; {other}. {seen}."


def _left_out(facts: dict[str, Any]) -> list[str]:
    letter, said = LETTERS[facts["axis"]], []
    points = {point[facts["axis"]]: point for point in facts["points"]}
    far = [each for each in facts["left_out"] if points[each]["rounds"] is None]
    soon = [each for each in facts["left_out"] if points[each]["rounds"] is not None]
    if far:
        said.append(f"Left out, goal not reached within --most-rounds: {letter} = {_listed(far)}.")
    if soon:
        said.append(
            f"Left out, goal already reached with the fewest rounds that the conditions allow (take a harder "
            f"--goal): {letter} = {_listed(soon)}."
        )
    return said


def _listed(values: list[int]) -> str:
    return ", ".join(map(str, values))
