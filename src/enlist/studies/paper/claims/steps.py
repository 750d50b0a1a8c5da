"""What local steps do on MNIST: claim 6, of figures 1, 3 and 4, and claim 12, of a study of our own."""

from collections.abc import Mapping, Sequence
from itertools import product

from enlist.studies.paper.claims.judging import (
    GRADED,
    HOLDS,
    IN_PART,
    Claim,
    Finding,
    Part,
    Verdict,
    counted,
    judged,
    listed,
)
from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import EPOCHS, FULL_COHORT, MODELS, PARTIAL_COHORT, THREE
from enlist.studies.paper.recipes.unbalanced import DEALT
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.statistics.seeds import (
    ACCURACY,
    CLEAR,
    PerSeed,
    averaged,
    curves,
    finding,
    mean,
    minus,
    per_seed,
)

COHORTS = (FULL_COHORT, PARTIAL_COHORT)
DEGREES = (5, 1)
# The digits of the paper's figure on local steps.
SHOWN = 5
USUAL = 5
FEWEST, LARGEST = min(EPOCHS), max(EPOCHS)
EQUAL = "digits:2"

HELPS = Claim(
    6,
    "Local steps help, with all workers and with 10 of 100, and matter less than the digits a worker and the workers "
    "a round.",
    f"{ACCURACY}: 5 and 10 local epochs less 1, at p = 5, the paper's (what p = 1 gives is said beside it); and, "
    "model by model, what 10 epochs instead of 1 change is less than what p = 10 instead of 1 and n = 100 instead of "
    f"10 change at 5 epochs (means over the other settings, whatever the direction); {CLEAR}; {GRADED}; the whole "
    "holds where both parts do, and does not where the first does not.",
    ("fig2", "fig3", "fig4"),
    shown=("fig1",),
)
HURTS = Claim(
    12,
    "Local steps hurt where workers hold unequal numbers of rows, and it is that, not the local steps alone.",
    f"{ACCURACY}, 2NN, 10 of 100 workers: 1 local epoch less 5 and 10, for both unequal "
    f"ways to deal the rows; {CLEAR}; {GRADED}; only in part where 5 or 10 local epochs clearly hurt with equal "
    "workers too.",
    ("unbalanced",),
)


def helps(raw: Raw, scale: Scale) -> Verdict:
    """Claim 6."""
    by_degree = {p: _steps_compared(raw, scale, p) for p in DEGREES}
    better = Part("More local epochs are better than one", by_degree[SHOWN])
    changes = {model: _changes(raw, scale, model) for model in THREE}
    slighter = Part(
        "They change less than p and n do",
        [
            finding(MODELS[model], f"{MODELS[model]}, K against {other}", minus(changed[other], changed["K"]))
            for model, changed in changes.items()
            for other in ("p", "n")
        ],
    )
    known = {
        MODELS[model]: {name: size for name, values in changed.items() if (size := mean(values)) is not None}
        for model, changed in changes.items()
    }
    said = [
        f"{model}: {', '.join(f'{name} {100 * size:.1f}' for name, size in sizes.items())}"
        for model, sizes in known.items()
        if sizes
    ]
    beside = {p: some for p, some in by_degree.items() if p != SHOWN}
    more = f"{_told_by_degree(beside)} {listed('Points of accuracy that each changes:', said, '; ')}"
    verdict = judged(HELPS, [better, slighter], more.strip())
    return verdict._replace(numbers=verdict.numbers | {"changes": known})


def _steps_compared(raw: Raw, scale: Scale, p: int) -> list[Finding]:
    """More local epochs against the fewest, where workers hold p digits."""
    return [
        finding(
            MODELS[model],
            f"{MODELS[model]}, n = {n}, p = {p}, K = {epochs} against {FEWEST}",
            minus(*(per_seed(curves(raw, scale, model, f"digits:{p}", n, k)) for k in (epochs, FEWEST))),
        )
        for model, n, epochs in product(THREE, COHORTS, EPOCHS[1:])
    ]


def _told_by_degree(compared: Mapping[int, Sequence[Finding]]) -> str:
    """How many comparisons are clearly so, and clearly opposite, by the digits a worker holds."""
    signs = {p: [each.sign for each in some if each.sign is not None] for p, some in compared.items()}
    said = [
        f"at p = {p}: better in {those.count(1)} of {len(those)}, worse in {those.count(-1)}"
        for p, those in signs.items()
        if those
    ]
    return listed("More local epochs", said, "; ")


def hurts(raw: Raw, scale: Scale) -> Verdict:
    """Claim 12."""
    harm = {
        (dealt, epochs): minus(
            *(per_seed(curves(raw, scale, "two_nn", dealt, PARTIAL_COHORT, k)) for k in (FEWEST, epochs))
        )
        for dealt, epochs in product(DEALT, EPOCHS[1:])
    }
    findings = {
        key: finding(DEALT[key[0]], f"{DEALT[key[0]]}, K = {key[1]} against {FEWEST}", values)
        for key, values in harm.items()
    }
    unequal = Part("Local epochs hurt unequal workers", [findings[key] for key in harm if key[0] != EQUAL])
    equal = Part("Local epochs hurt equal workers", [findings[key] for key in harm if key[0] == EQUAL])
    said = [
        f"{DEALT[dealt]}, K = {epochs}: {-100 * lost:+.1f}"
        for (dealt, epochs), values in harm.items()
        if (lost := mean(values)) is not None
    ]
    more = f"{counted(equal)} {listed('Points of accuracy that they bring:', said, '; ')}"
    verdict = judged(HURTS, [unequal], more)
    numbers = verdict.numbers | {"equal": {each.cell: dict(each.facts) for each in equal.findings}}
    if verdict.verdict == HOLDS and 1 in equal.signs:
        return verdict._replace(verdict=IN_PART, numbers=numbers)
    return verdict._replace(numbers=numbers)


def _changes(raw: Raw, scale: Scale, model: str) -> dict[str, dict[int, float]]:
    """How much K, p and n change the accuracy, seed by seed: from their least to their largest value."""

    def change(one: tuple[int, int, int], other: tuple[int, int, int]) -> dict[int, float]:
        both = [per_seed(curves(raw, scale, model, f"digits:{p}", n, k)) for p, n, k in (one, other)]
        return {seed: abs(value) for seed, value in minus(*both).items()}

    def mean_of(changes: Sequence[PerSeed]) -> dict[int, float]:
        return averaged([each for each in changes if each])

    by_epochs = {p: mean_of([change((p, n, LARGEST), (p, n, FEWEST)) for n in COHORTS]) for p in DEGREES}
    # The same settings for n as for K, where only some of them were run.
    shown = [p for p, values in by_epochs.items() if values]
    return {
        "K": mean_of(list(by_epochs.values())),
        "p": mean_of([change((10, n, USUAL), (1, n, USUAL)) for n in COHORTS]),
        "n": mean_of([change((p, FULL_COHORT, USUAL), (p, PARTIAL_COHORT, USUAL)) for p in shown]),
    }
