"""Options of `enlist tune`, beside those of a run."""

from dataclasses import dataclass

from enlist.errors import BadInput
from enlist.limits import LEAST_RATE, MOST_RATE, check_rate, numbers
from enlist.options import MethodOptions, ParticipationOptions, ProblemOptions, Settings

# The length of a full run, where none is given.
ROUNDS = 100
MOST_VALUES = 1000


@dataclass(frozen=True)
class CandidateOptions:
    """What is tried. Besides the rates, --local-epochs or --local-steps below may have several values, with commas
    between them (default: --local-epochs 1,5). The candidates are all combinations."""

    algorithm: str = "fedavg"
    """As in enlist run."""
    worker_lr: str | None = None
    """eta_L: values with commas between them, or LOW:HIGH:COUNT, equally far apart on a log scale (default
    0.003,0.01,0.03,0.1,0.3,1,3)."""
    server_lr: str | None = None
    """eta, likewise (default: 0.1,0.3,1,3,10 times the method's own; methods without one have none)."""


@dataclass(frozen=True)
class HalvingOptions:
    """How the best is found: all candidates run for a few rounds, one in --eta goes on, and so on to --rounds."""

    seeds: int = 2
    """Runs of each candidate, the same seeds for all: --seed + 1, --seed + 2, ... (--seed itself stays unseen)."""
    eta: int = 3
    """One candidate in so many goes on from a rung to the next."""
    first_rounds: int | None = None
    """Rounds of the first rung (default: as many as let all rungs together cost an estimated 2.5 full runs of
    device time, side by side on an accelerator; at least 1)."""
    by: str = "train_loss"
    """What decides: train_loss (no test row is looked at for the choice), test_metric, or rounds (to --target)."""


@dataclass(frozen=True)
class TuneOutput:
    """What is left behind."""

    out: str | None = None
    """The folder to write (default: a new dated one under runs/)."""
    json: bool = False
    """Print tune.json and nothing else."""
    config: str | None = None
    """Take the options of a run's config.yaml, except its rates, or all of a tune's tune.yaml; options given beside
    it win."""
    resume: str | None = None
    """Go on with the tune in this folder: rungs that are finished there are not run again."""


@dataclass(frozen=True)
class TuneOptions:
    """Finds the best worker rate, server rate and amount of local work by successive halving. Leaves a config.yaml
    for enlist run, a table of the rungs, heat maps and a page."""

    candidates: CandidateOptions = CandidateOptions()
    halving: HalvingOptions = HalvingOptions()
    problem: ProblemOptions = ProblemOptions()
    participation: ParticipationOptions = ParticipationOptions()
    method: MethodOptions = MethodOptions()
    settings: Settings = Settings(rounds=ROUNDS)
    output: TuneOutput = TuneOutput()


def rates(name: str, text: str) -> list[float]:
    """Rates with commas between them, or a range.

    Example:
        >>> rates("worker-lr", "0.01:1:3"), rates("worker-lr", "0.1,0.3")
        ([0.01, 0.1, 1.0], [0.1, 0.3])
    """
    if ":" not in text:
        return numbers(name, text)
    try:
        low, high, number = text.split(":")
        first, last, count = float(low), float(high), int(number)
    except ValueError:
        raise BadInput(
            f"{name} = {text[:60]}: a range is typed as LOW:HIGH:COUNT, such as 0.01:1:5; values have commas"
        ) from None
    for rate in (first, last):
        check_rate(name, rate)
    if not LEAST_RATE <= first < last <= MOST_RATE:
        raise BadInput(f"{name} = {text[:60]}: the range must go from a lower to a higher rate")
    if not 2 <= count <= MOST_VALUES:
        raise BadInput(f"{name} = {text[:60]}: the range must have 2 to {MOST_VALUES} values")
    step = (last / first) ** (1 / (count - 1))
    # Four digits: nobody types, or means, more of them.
    found = [float(f"{first * step**i:.4g}") for i in range(count)]
    if len({*found}) < count:
        raise BadInput(f"{name} = {text[:60]}: so many values lie too close together; take fewer")
    return found
