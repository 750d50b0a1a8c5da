"""What became of the claims that the paper makes in words, each computed from the raw metrics."""

from enlist.studies.paper.catalogue import RECIPES
from enlist.studies.paper.claims.digits import sees
from enlist.studies.paper.claims.images import grows, steps
from enlist.studies.paper.claims.judging import FAILS as FAILS
from enlist.studies.paper.claims.judging import HOLDS as HOLDS
from enlist.studies.paper.claims.judging import IN_PART as IN_PART
from enlist.studies.paper.claims.judging import NOT_RUN as NOT_RUN
from enlist.studies.paper.claims.judging import UNREACHABLE as UNREACHABLE
from enlist.studies.paper.claims.judging import Verdict as Verdict
from enlist.studies.paper.claims.scaffold import fewer_rounds, twice
from enlist.studies.paper.claims.skew import compares, converges, slows, suffers
from enlist.studies.paper.claims.steps import helps, hurts
from enlist.studies.paper.claims.workers import beats, zigzags
from enlist.studies.paper.raw import Raw
from enlist.studies.paper.setting import Scale

CLAIMS = (
    converges,
    compares,
    slows,
    zigzags,
    beats,
    helps,
    suffers,
    grows,
    steps,
    fewer_rounds,
    twice,
    hurts,
    sees,
)


def verdicts(raw: Raw, scale: Scale) -> list[Verdict]:
    """All claims, in their order."""
    return [_with_diverged(claim(raw, scale), raw, scale) for claim in CLAIMS]


def _with_diverged(verdict: Verdict, raw: Raw, scale: Scale) -> Verdict:
    """Says how many of the runs that a claim is about diverged: what they lack counts as guessing."""
    settings = [
        setting for name in verdict.recipes for setting in RECIPES[name].runs(scale) if setting.is_papers
    ]
    runs = list(raw.only(settings))
    diverged = sum(run.status == "diverged" for run in runs)
    if verdict.verdict == NOT_RUN or not diverged:
        return verdict
    of = " and ".join(verdict.recipes)
    return verdict._replace(
        statistic=f"{verdict.statistic} Of the {len(runs)} runs of {of} at the paper's rates, {diverged} diverged."
    )
