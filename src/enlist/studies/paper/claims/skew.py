"""What few digits a worker do: claims 1, 2, 3 and 7, of figures 1 and 2."""

from functools import partial
from itertools import combinations, product

from enlist.studies.paper.claims.judging import GRADED, Claim, Finding, Part, Verdict, judged, listed, spanned
from enlist.studies.paper.raw import Curve, Raw
from enlist.studies.paper.recipe import DEGREES, FULL_COHORT, MODELS, PARTIAL_COHORT, THREE
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.statistics.seeds import (
    ACCURACY,
    CLEAR,
    GUESSED,
    accuracy,
    curves,
    ending,
    finding,
    loss,
    mean,
    median,
    minus,
    per_seed,
    rounded,
)

COHORTS = (FULL_COHORT, PARTIAL_COHORT)
EPOCHS = 5
# A run has converged below this part of the loss of guessing, above this accuracy.
LOSS_PART, LEAST_ACCURACY = 0.5, 0.5
# Speeds are compared at this part of what ten digits a worker end with.
LEVEL = 0.95
# The verdict goes by that one alone; what others would say stands beside it.
OTHER_LEVELS = (0.9, 0.97, 0.99)
COMPARABLE, CLEARLY_SLOWER = 1.5, 2.0

CONVERGES = Claim(
    1,
    "FedAvg converges with worker rate 0.1 and server rate 1 for 1, 2, 5 and 10 digits a worker, with all workers "
    "and with 10 of 100, for LR, 2NN and CNN.",
    "A run converges when it does not diverge and its last tenth of rounds has a mean training loss below half of "
    "what guessing gives (ln 10) and a mean test accuracy above 0.5 (guessing: 0.1); a cell is clearly so when all "
    f"its seeds converge, clearly opposite when none does; {GRADED}.",
    ("fig2",),
    shown=("fig1",),
)
COMPARES = Claim(
    2,
    "Five digits a worker are about as fast as ten, with all workers and with 10 of 100.",
    "Median rounds to 95% of the test accuracy that ten digits end with (mean over their last tenth of rounds): five "
    "digits may take 1.5 times as many, or one round more; over twice as many, and never, are clearly opposite; "
    f"{GRADED}.",
    ("fig2",),
    shown=("fig1",),
)
SLOWS = Claim(
    3,
    "The fewer digits a worker holds, the slower: training loss is higher and test accuracy lower.",
    "Mean over all rounds of training loss and of test accuracy (what a diverged run lacks counts as guessing), for "
    f"every two of p = 1, 2, 5, 10; {CLEAR}; {GRADED}.",
    ("fig2",),
    shown=("fig1",),
)
SUFFERS = Claim(
    7,
    "One digit a worker costs complex models most: the CNN more than the 2NN, and that more than LR.",
    f"{ACCURACY} at p = 10 less that at p = 1, for every two models and both numbers of workers a round; {CLEAR}; "
    f"{GRADED}.",
    ("fig2",),
)


def converges(raw: Raw, scale: Scale) -> Verdict:
    """Claim 1."""
    findings = [
        _converged(MODELS[model], f"{MODELS[model]}, n = {n}, p = {p}", _runs(raw, scale, model, n, p))
        for model, n, p in product(THREE, COHORTS, DEGREES)
    ]
    part = Part("All seeds of a setting converge", findings)
    more = [
        spanned("Means over seeds at the end, training loss:", part.values("loss"), "{:.3g}"),
        spanned("Test accuracy:", part.values("accuracy"), "{:.3f}"),
        _did_not(findings),
    ]
    return judged(CONVERGES, [part], " ".join(filter(None, more)))


def compares(raw: Raw, scale: Scale) -> Verdict:
    """Claim 2."""

    def at(level: float) -> Part:
        findings = [
            _compared(
                MODELS[model],
                f"{MODELS[model]}, n = {n}",
                *(_runs(raw, scale, model, n, p) for p in (5, 10)),
                part=level,
            )
            for model, n in product(THREE, COHORTS)
        ]
        return Part("Five digits comparable to ten", findings)

    part, others = at(LEVEL), {level: at(level) for level in OTHER_LEVELS}
    counts = [
        f"{other.signs.count(1)} of {len(other.signs)} at {level:.0%}" for level, other in others.items()
    ]
    more = [
        spanned("Rounds of five over rounds of ten:", part.values("ratio")),
        listed("At other levels clearly so:", counts),
    ]
    verdict = judged(COMPARES, [part], " ".join(filter(None, more)))
    told = {f"{level:g}": [other.signs.count(1), other.signs.count(-1)] for level, other in others.items()}
    return verdict._replace(numbers=verdict.numbers | {"other_levels": told})


def slows(raw: Raw, scale: Scale) -> Verdict:
    """Claim 3."""
    findings = [each for is_loss in (True, False) for each in _ordered(raw, scale, is_loss)]
    pairs = _by_pair(findings)
    said = [f"p = {pair}: {so} of {all_}" for pair, (so, all_) in pairs.items() if all_]
    part = Part("Fewer digits have a higher loss or a lower accuracy", findings)
    verdict = judged(SLOWS, [part], listed("Of these,", said))
    numbers = verdict.numbers | {"pairs": pairs}
    return verdict._replace(numbers=numbers)


def suffers(raw: Raw, scale: Scale) -> Verdict:
    """Claim 7."""
    rounds = min(scale.extents[model].rounds for model in THREE)
    drops = {
        (model, n): minus(
            *(per_seed(_runs(raw, scale, model, n, p), partial(accuracy, rounds=rounds)) for p in (10, 1))
        )
        for model, n in product(THREE, COHORTS)
    }
    findings = [
        finding(
            f"{MODELS[complex_]} against {MODELS[simple]}",
            f"{MODELS[complex_]} against {MODELS[simple]}, n = {n}",
            minus(drops[complex_, n], drops[simple, n]),
        )
        for n in COHORTS
        for simple, complex_ in combinations(THREE, 2)
    ]
    known = {key: mean(values) for key, values in drops.items()}
    said = [
        f"{MODELS[model]} {100 * drop:.1f} (n = {n})"
        for (model, n), drop in known.items()
        if drop is not None
    ]
    more = listed("Points of accuracy that p = 1 costs:", said)
    verdict = judged(SUFFERS, [Part("The more complex model loses more", findings)], more)
    costs = {f"{MODELS[model]}, n = {n}": rounded(drop) for (model, n), drop in known.items()}
    return verdict._replace(numbers=verdict.numbers | {"drops": costs})


def _runs(raw: Raw, scale: Scale, model: str, cohort: int, degree: int) -> list[Curve]:
    return curves(raw, scale, model, f"digits:{degree}", cohort, EPOCHS)


def _converged(group: str, cell: str, runs: list[Curve]) -> Finding:
    if not runs:
        return Finding(group, cell, None)
    losses, accuracies = (
        per_seed(runs, partial(ending, name=name)) for name in ("train_loss", "test_accuracy")
    )
    done = [
        run.status == "done"
        and losses[run.setting.seed] < LOSS_PART * GUESSED["train_loss"]
        and accuracies[run.setting.seed] > LEAST_ACCURACY
        for run in runs
    ]
    facts = {
        "loss": rounded(mean(losses)),
        "accuracy": rounded(mean(accuracies)),
        "converged": sum(done),
        "diverged": sum(run.status != "done" for run in runs),
        "seeds": len(runs),
    }
    return Finding(group, cell, 1 if all(done) else 0 if any(done) else -1, facts)


def _did_not(findings: list[Finding]) -> str:
    cells = [each.cell for each in findings if each.sign in (0, -1)]
    return listed("Not all seeds:", cells, "; ")


def _compared(group: str, cell: str, five: list[Curve], ten: list[Curve], *, part: float) -> Finding:
    if not five or not ten:
        return Finding(group, cell, None)
    ends = per_seed(ten, partial(ending, name="test_accuracy"))
    level = part * sum(ends.values()) / len(ends)
    slow, fast = (median([run.rounds_to(level) for run in runs]) for runs in (five, ten))
    facts = {"level": rounded(level), "rounds_five": slow, "rounds_ten": fast}
    seeds = {"seeds": min(len(five), len(ten))}
    if fast is None:
        return Finding(group, cell, 0 if slow is None else 1, facts | {"ratio": None} | seeds)
    if slow is None:
        return Finding(group, cell, -1, facts | {"ratio": None} | seeds)
    similar = slow <= max(COMPARABLE * fast, fast + 1)
    sign = 1 if similar else -1 if slow > CLEARLY_SLOWER * fast else 0
    return Finding(group, cell, sign, facts | {"ratio": rounded(slow / fast)} | seeds)


def _ordered(raw: Raw, scale: Scale, is_loss: bool) -> list[Finding]:
    findings = []
    for model, n in product(THREE, COHORTS):
        measured = {
            p: per_seed(_runs(raw, scale, model, n, p), loss if is_loss else accuracy) for p in DEGREES
        }
        for few, many in combinations(DEGREES, 2):
            higher, lower = (few, many) if is_loss else (many, few)
            cell = f"{MODELS[model]}, n = {n}, p = {few} and {many}, {'loss' if is_loss else 'accuracy'}"
            values = minus(measured[higher], measured[lower])
            findings.append(finding(MODELS[model], cell, values, pair=f"{few} and {many}"))
    return findings


def _by_pair(findings: list[Finding]) -> dict[str, tuple[int, int]]:
    """For every two degrees how many comparisons are clearly so, and how many there are."""
    counts = {}
    for few, many in combinations(DEGREES, 2):
        pair = f"{few} and {many}"
        signs = [each.sign for each in findings if each.facts.get("pair") == pair]
        counts[pair] = (signs.count(1), len(signs))
    return counts
