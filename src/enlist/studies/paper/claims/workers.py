"""What few workers a round do: claims 4 and 5, of figures 1 and 2."""

import math
from itertools import product

from enlist.studies.paper.claims.judging import (
    GRADED,
    Claim,
    Finding,
    Part,
    Verdict,
    judged,
    listed,
    span,
    spanned,
)
from enlist.studies.paper.raw import Curve, Raw
from enlist.studies.paper.recipe import DEGREES, FULL_COHORT, MODELS, PARTIAL_COHORT, THREE
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.statistics.seeds import (
    ACCURACY,
    CLEAR,
    CLEAR_RATIO,
    ONE_SEED_RATIO,
    curves,
    finding,
    mean,
    minus,
    per_seed,
    rounded,
    zigzag,
)

EPOCHS = 5
# Less than one test row in ten thousand: no change.
STILL = 1e-5

ZIGZAGS = Claim(
    4,
    "With 10 of 100 workers a round curves zigzag more than with all of them.",
    "Mean change of the test accuracy from one round to the next, up or down, in the second half of the rounds: the "
    f"logarithm of that with 10 workers over that with all; {CLEAR_RATIO}; {GRADED}.",
    ("fig2",),
    shown=("fig1",),
)
BEATS = Claim(
    5,
    "All workers beat 10 of 100, and by more where workers hold fewer digits.",
    f"{ACCURACY}, all workers less 10 of them: above 0 for every model and p, and larger at p = 1 than at p = 10 for "
    f"every model; {CLEAR}; {GRADED}; the whole holds where both parts do, and does not "
    "where the first does not.",
    ("fig2",),
    shown=("fig1",),
)


def zigzags(raw: Raw, scale: Scale) -> Verdict:
    """Claim 4."""
    findings = [
        _zigzag(MODELS[model], f"{MODELS[model]}, p = {p}", *_both(raw, scale, model, p))
        for model, p in product(THREE, DEGREES)
    ]
    part = Part("10 workers zigzag more", findings)
    more = spanned("Their change over that of all workers:", part.values("ratio"), "{:.3g}")
    return judged(ZIGZAGS, [part], more)


def beats(raw: Raw, scale: Scale) -> Verdict:
    """Claim 5."""
    gaps = {
        (model, p): minus(*map(per_seed, _both(raw, scale, model, p))) for model, p in product(THREE, DEGREES)
    }
    better = Part(
        "All workers are better",
        [finding(MODELS[model], f"{MODELS[model]}, p = {p}", values) for (model, p), values in gaps.items()],
    )
    wider = Part(
        "By more at p = 1 than at p = 10",
        [finding(MODELS[model], MODELS[model], minus(gaps[model, 1], gaps[model, 10])) for model in THREE],
    )
    points = {p: [100 * gap for model in THREE if (gap := mean(gaps[model, p])) is not None] for p in (1, 10)}
    said = [f"{span(own)} at p = {p}" for p, own in points.items() if own]
    return judged(BEATS, [better, wider], listed("Points of accuracy, model by model:", said))


def _both(raw: Raw, scale: Scale, model: str, degree: int) -> tuple[list[Curve], list[Curve]]:
    """With all workers, and with some."""
    full, some = (
        curves(raw, scale, model, f"digits:{degree}", n, EPOCHS) for n in (FULL_COHORT, PARTIAL_COHORT)
    )
    return full, some


def _zigzag(group: str, cell: str, full: list[Curve], some: list[Curve]) -> Finding:
    more = minus(*(per_seed(runs, lambda run: math.log(max(zigzag(run), STILL))) for runs in (some, full)))
    middle = mean(more)
    ratio = None if middle is None else rounded(math.exp(middle))
    return finding(group, cell, more, one_seed=math.log(ONE_SEED_RATIO), ratio=ratio)
