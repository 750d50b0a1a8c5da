"""Options of the commands that answer by theory."""

from dataclasses import dataclass

from enlist.errors import BadInput, unknown
from enlist.limits import LEAST_RATE, MOST_RATE, check_rate, within

STRATEGIES = ("full", "with-replacement", "without-replacement")
DEFAULT_COHORT = 10


@dataclass(frozen=True)
class ConstantsOptions:
    """The problem."""

    smoothness: float | None = None
    """L, the Lipschitz constant of every worker's gradient."""
    sigma_local: float | None = None
    """sigma_L, the root of the variance of a worker's stochastic gradient."""
    sigma_global: float | None = None
    """sigma_G, how far a worker's gradient is from that of all; 0 for i.i.d. data."""
    gap: float | None = None
    """f(x_0) - f*, how far there is to go."""

    def __post_init__(self) -> None:
        if self.smoothness is not None and self.smoothness <= 0:
            raise BadInput(f"smoothness = {self.smoothness:g}: must be above 0")
        within("smoothness", self.smoothness, LEAST_RATE, MOST_RATE)
        within("sigma-local", self.sigma_local, 0, MOST_RATE)
        within("sigma-global", self.sigma_global, 0, MOST_RATE)
        within("gap", self.gap, 0, MOST_RATE)


@dataclass(frozen=True)
class RoundOptions:
    """What a round is, and how many there are."""

    local_steps: int | None = None
    """K, local steps of a worker in a round."""
    rounds: int | None = None
    """T, communication rounds."""
    workers: int = 100
    """m, how many workers there are."""
    cohort: int | None = None
    """n, workers a round (default 10, or all where there are fewer; full: all)."""
    sampling: str = "without-replacement"
    """full (Theorem 1), with-replacement (Theorem 2, Strategy 1) or without-replacement (Strategy 2)."""

    def __post_init__(self) -> None:
        within("local-steps", self.local_steps, 1)
        within("rounds", self.rounds, 1)
        within("workers", self.workers, 1)
        within("cohort", self.cohort, 1)
        if self.sampling not in STRATEGIES:
            raise unknown("sampling", self.sampling, STRATEGIES)
        repeats = self.sampling == "with-replacement"
        if self.cohort is not None and self.cohort > self.workers and not repeats:
            raise BadInput(
                f"cohort = {self.cohort}: there are {self.workers} workers; choose 1 to {self.workers}"
            )
        if self.sampling == "full" and self.cohort not in (None, self.workers):
            raise BadInput(
                f"cohort = {self.cohort}: with --sampling full all {self.workers} workers take part; leave --cohort "
                "out"
            )

    @property
    def size(self) -> int:
        """n, also where it was left out."""
        usual = self.workers if self.sampling == "full" else min(DEFAULT_COHORT, self.workers)
        return self.cohort or usual


@dataclass(frozen=True)
class RateOptions:
    """The two learning rates."""

    worker_lr: float | None = None
    """eta_L, the workers' learning rate (default: the corollary's, 1 / (sqrt(T) K L))."""
    server_lr: float | None = None
    """eta, the server's learning rate (default: 1 beside --worker-lr; without it the corollary's, sqrt(K n))."""

    def __post_init__(self) -> None:
        check_rate("worker-lr", self.worker_lr)
        check_rate("server-lr", self.server_lr)


@dataclass(frozen=True)
class TableOptions:
    """Table 1 instead of the bound."""

    table: bool = False
    """Print the paper's Table 1, rates and rounds of eleven analyses, for K, T, m, n and epsilon. These are orders:
    no other option enters them."""
    epsilon: float | None = None
    """What E|grad f|^2 shall be, for the table's rounds (default 0.01)."""

    def __post_init__(self) -> None:
        if self.epsilon is not None and not self.table:
            raise BadInput(f"epsilon = {self.epsilon:g} belongs to --table, which is not given")
        if self.epsilon is not None and self.epsilon <= 0:
            raise BadInput(f"epsilon = {self.epsilon:g}: must be above 0")
        within("epsilon", self.epsilon, LEAST_RATE, MOST_RATE)


@dataclass(frozen=True)
class BoundOutput:
    """What is left behind."""

    out: str | None = None
    """The folder to write bound.json (with --table: table1.json) into (default: nothing is written)."""
    json: bool = False
    """Print as JSON and nothing else."""


@dataclass(frozen=True)
class BoundOptions:
    """The theorems as numbers: what the smallest E|grad f|^2 of T rounds is at most, and whether that holds."""

    constants: ConstantsOptions = ConstantsOptions()
    round: RoundOptions = RoundOptions()
    rates: RateOptions = RateOptions()
    comparison: TableOptions = TableOptions()
    output: BoundOutput = BoundOutput()
