"""How many digits a round sees: claim 13. It takes no runs, only the deal and the sampler."""

from collections.abc import Mapping
from fractions import Fraction

from enlist.studies.paper.claims.judging import FAILS, HOLDS, IN_PART, Claim, Verdict
from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import PARTIAL_COHORT
from enlist.studies.paper.setting import WORKERS, Scale
from enlist.studies.paper.statistics.digits_seen import DEALS, DIGITS, ROUNDS, exactly, measured

# What the paper names, how often that would have to be, and how often a digit would have to be missing.
NAMED, LIKELY, NEARLY_ALWAYS = (4, 5), 0.5, 0.95

SEES = Claim(
    13,
    "With one digit a worker and 10 of 100 workers a round, a round sees few of the ten digits: 4 or 5.",
    "Exact probabilities of the number of distinct digits (inclusion and exclusion over cohorts drawn without "
    "replacement): it holds where 4 or 5 have more than half of the probability, in part where a round at least "
    "misses some digit with probability 0.95, else not; the sampler's own cohorts stand beside them.",
    (),
    shown=("fig1",),
)


def sees(raw: Raw, scale: Scale) -> Verdict:
    """Claim 13."""
    exact = exactly(DIGITS, WORKERS // DIGITS, PARTIAL_COHORT)
    one, five = (measured(degree, WORKERS, PARTIAL_COHORT) for degree in (1, 5))
    return judged_by(exact, one, five)


def judged_by(
    exact: Mapping[int, Fraction], drawn: Mapping[int, float], five: Mapping[int, float]
) -> Verdict:
    """The verdict from the distribution of the number of digits.

    Args:
        drawn: that of cohorts that were drawn.
        five: that of cohorts whose workers hold five digits each.
    """
    named = float(sum(exact.get(k, 0) for k in NAMED))
    at_most_five = float(sum(chance for k, chance in exact.items() if k <= max(NAMED)))
    missed = float(1 - exact.get(DIGITS, 0))
    verdict = HOLDS if named > LIKELY else IN_PART if missed >= NEARLY_ALWAYS else FAILS
    mean = float(sum(k * chance for k, chance in exact.items()))
    likeliest = max(exact, key=exact.__getitem__)
    drawn_mean = sum(k * share for k, share in drawn.items())
    all_ten = five.get(DIGITS, 0.0)
    said = (
        f"A round sees {mean:.2f} digits on average, most likely {likeliest} ({float(exact[likeliest]):.1%}); 4 or 5 "
        f"with probability {named:.1%}, at most 5 with {at_most_five:.1%}, not all ten with {missed:.2%}. In "
        f"{DEALS * ROUNDS} rounds that the sampler drew: {drawn_mean:.2f} on average, 4 or 5 in "
        f"{sum(drawn.get(k, 0.0) for k in NAMED):.1%}. With five digits a worker, {all_ten:.1%} of such rounds "
        "see all ten."
    )
    numbers = {
        "exact": {str(k): str(chance) for k, chance in exact.items()},
        "probability": {str(k): float(chance) for k, chance in exact.items()},
        "measured": {str(k): share for k, share in drawn.items()},
        "mean": mean,
        "measured_mean": drawn_mean,
        "most_likely": likeliest,
        "four_or_five": named,
        "at_most_five": at_most_five,
        "not_all": missed,
        "rounds_drawn": DEALS * ROUNDS,
        "all_ten_with_five_a_worker": all_ten,
    }
    return Verdict(SEES.number, SEES.words, verdict, said, SEES.rule, numbers, shown=SEES.shown)
