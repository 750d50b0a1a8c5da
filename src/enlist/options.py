"""Every option there is, once: the command line is made from these classes, and Python checks by them too.

Nothing here imports jax, so that `enlist --help` answers at once.
"""

import math
from dataclasses import dataclass, fields
from typing import Any

from enlist.errors import BadInput


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise BadInput(f"{name} = {value}: must be {least} or more")


def _number(name: str, value: float, *, least: float | None = None, above: float | None = None) -> None:
    if not math.isfinite(value):
        raise BadInput(f"{name} = {value}: must be a finite number")
    if least is not None and value < least:
        raise BadInput(f"{name} = {value:g}: must be {least:g} or more")
    if above is not None and value <= above:
        raise BadInput(f"{name} = {value:g}: must be above {above:g}")


@dataclass(frozen=True)
class ProblemOptions:
    """What is learned, and who holds which examples."""

    dataset: str = "mnist"
    """mnist, fashion, cifar10, digits, synthetic:ALPHA,BETA, or FILE.npz with x_train, y_train, x_test, y_test
    (and `worker`, the holder of each training row, for --partition by-key)."""
    partition: str | None = None
    """iid, digits:P (P classes a worker), shards:S, dirichlet:ALPHA, quantity:POWER, or by-key. By default by-key
    where the data names holders, digits:2 where it has ten classes, else iid."""
    workers: int = 100
    """m, how many workers there are (by-key: as many as the data names)."""
    model: str = "two_nn"
    """logistic, two_nn, cnn, resnet18, or FILE.py:FACTORY, a function that returns a flax or equinox module,
    a pair of functions or a Model."""


@dataclass(frozen=True)
class ParticipationOptions:
    """Who takes part in a round."""

    cohort: int = 10
    """n, workers a round."""
    sampling: str = "without-replacement"
    """full, with-replacement (Strategy 1), without-replacement (Strategy 2) or at-least."""
    cohort_most: int | None = None
    """The largest cohort under at-least (default: twice the cohort, at most all)."""


@dataclass(frozen=True)
class AlgorithmOptions:
    """How a round moves the model."""

    algorithm: str = "fedavg"
    """fedavg."""
    worker_lr: float = 0.1
    """eta_L, the workers' learning rate."""
    server_lr: float = 1.0
    """eta, the server's learning rate."""
    worker_optimizer: str = "sgd"
    """The workers' optimizer, by its name in optax: sgd, adam, adagrad, ..."""
    server_optimizer: str = "sgd"
    """The server's optimizer, likewise."""
    weighting: str = "uniform"
    """uniform (1/n each, as in the paper) or examples (by the worker's number of rows)."""
    local_epochs: int | None = None
    """E, passes over its own rows that a worker makes in a round (default 5)."""
    local_steps: int | None = None
    """K, local steps on independently drawn batches, instead of epochs."""
    batch: int = 10
    """Examples in a local step; 0 for the full gradient."""


@dataclass(frozen=True)
class Settings:
    """How the run is carried out. These are also keyword arguments of `enlist.simulate`."""

    rounds: int = 50
    """T, communication rounds."""
    seed: int = 0
    """Of everything that is drawn."""
    eval_every: int = 1
    """Rounds from one evaluation to the next; the last round is always evaluated."""
    target: float | None = None
    """A value of the test metric: the summary says how many rounds, MiB and seconds it took."""
    precision: str = "float32"
    """float32, bf16 (for compute; parameters and sums stay float32) or highest (no TF32 on GPUs)."""
    execution: str = "auto"
    """How many workers a device runs at once: auto, batch (all), one-by-one, or chunk:N."""
    devices: int = 0
    """Devices to share the cohort (0: as many as help). On a CPU each core is a device."""
    grad_norm: bool = False
    """Also evaluate ||grad f||^2, the quantity of the theorems."""
    worker_accuracy: bool = False
    """Also evaluate the metric of each worker on its own test rows."""
    bandwidth: float = 20.0
    """MB/s of a worker's link, up and down, for the simulated seconds."""
    worker_seconds: float = 0.0
    """Seconds of computing that one worker needs in a round, for the simulated seconds."""
    checkpoint_every: int = 0
    """Rounds from one checkpoint to the next (0: about every 15 seconds). One is always made at the end."""
    deterministic: bool = False
    """On a GPU, only operations that give the same bits each time (slower). A CPU always does."""

    def __post_init__(self) -> None:
        _at_least("rounds", self.rounds, 0)
        _at_least("seed", self.seed, 0)
        if self.seed >= 2**32:
            raise BadInput(f"seed = {self.seed}: must be below 4294967296")
        _at_least("eval-every", self.eval_every, 1)
        _at_least("devices", self.devices, 0)
        _at_least("checkpoint-every", self.checkpoint_every, 0)
        _number("bandwidth", self.bandwidth, above=0)
        _number("worker-seconds", self.worker_seconds, least=0)
        if self.target is not None:
            _number("target", self.target)


@dataclass(frozen=True)
class OutputOptions:
    """What is left behind."""

    out: str | None = None
    """The folder to write (default: a new dated one under runs/)."""
    json: bool = False
    """Print the summary as JSON and nothing else."""
    config: str | None = None
    """Take all options from this config.yaml; options given beside it win."""
    resume: str | None = None
    """Go on with the run in this folder; --rounds may ask for more."""
    tensorboard: bool = False
    """Also write TensorBoard event files."""


@dataclass(frozen=True)
class RunOptions:
    """Simulates one run: an algorithm, a model, a federation."""

    problem: ProblemOptions = ProblemOptions()
    participation: ParticipationOptions = ParticipationOptions()
    method: AlgorithmOptions = AlgorithmOptions()
    settings: Settings = Settings()
    output: OutputOptions = OutputOptions()


def flatten(options: Any) -> dict[str, Any]:
    """All options by name, without the groups.

    Example:
        >>> flatten(RunOptions())["worker_lr"]
        0.1
    """
    flat: dict[str, Any] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        flat |= flatten(value) if hasattr(value, "__dataclass_fields__") else {field.name: value}
    return flat


def unflatten(kind: type, flat: dict[str, Any]) -> Any:
    """The inverse of `flatten`: options not named keep their defaults."""
    values = {}
    for field in fields(kind):
        inner = field.type
        if hasattr(inner, "__dataclass_fields__"):
            values[field.name] = unflatten(inner, flat)  # type: ignore[arg-type]
        elif field.name in flat:
            values[field.name] = flat[field.name]
    return kind(**values)
