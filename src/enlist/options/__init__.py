"""Every option there is, once: the command line is made from these classes, and Python checks by them too.

Nothing here imports jax, so that `enlist --help` answers at once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from enlist.errors import BadInput
from enlist.limits import LEAST_RATE, MOST_PLACES, MOST_RATE, check_rate, of_kind, within

T = TypeVar("T")


# Kept in config.yaml beside the options: the SHA-256 of the files that these name.
HASHES = {
    "algorithm_sha256": "algorithm",
    "algorithms_sha256": "algorithms",
    "dataset_sha256": "dataset",
    "model_sha256": "model",
    "profile_sha256": "profile",
    "sampling_sha256": "sampling",
}


@dataclass(frozen=True)
class ProblemOptions:
    """What is learned, and who holds which examples."""

    dataset: str = "mnist"
    """mnist, fashion, cifar10, digits, synthetic:ALPHA,BETA, or FILE.npz with x_train, y_train, x_test, y_test
    (and `worker`, the holder of each training row, for --partition by-key). mnist:standard, fashion:standard:
    pixels standardised as those of cifar10 are, instead of from 0 to 1; cifar10:unit the other way round."""
    partition: str | None = None
    """iid, digits:P (P classes a worker), shards:S, dirichlet:ALPHA, quantity:POWER, or by-key. By default by-key
    where the data names holders; where it has ten classes digits:2, or shards:2 for workers that cannot share
    these evenly; else iid."""
    workers: int | None = None
    """m, how many workers there are (default 100; by-key: as many as the data names)."""
    model: str = "two_nn"
    """logistic, two_nn, cnn, resnet18, or FILE.py:FACTORY, a function that returns a flax or equinox module,
    a pair of functions or a Model. Parameters may follow: two_nn+hidden=100, FILE.py:FACTORY+width=64, or
    cnn+start=uniform, weights that are drawn as PyTorch's layers do (default he; logistic: zeros)."""
    augment: str | None = None
    """How training images are varied at random before each local step: none, crop (moved by up to an eighth of their
    side: 4 pixels of 32; by one of 4 to 7), flip (half of them mirrored: for photographs, not for digits), or
    crop-flip (default: as the model has it, which for those named above is none)."""
    share_data: float = 0.0
    """Part of the training rows, equally many of each class, that is held out and given to all workers, such as
    0.05 (Zhao et al., 2018)."""
    share_portion: float = 1.0
    """Part of the rows held out by --share-data that each worker receives, drawn for each."""

    def __post_init__(self) -> None:
        within("workers", self.workers, 1)
        within("share-data", self.share_data, 0, 1)
        within("share-portion", self.share_portion, 0, 1)
        if self.share_portion != 1 and not self.share_data:
            raise BadInput(
                f"share-portion = {self.share_portion:g} belongs to --share-data, which is not given"
            )


@dataclass(frozen=True)
class ParticipationOptions:
    """Who takes part in a round."""

    cohort: int | None = None
    """n, workers a round (default 10, or all where there are fewer; full: all; recorded: left out)."""
    sampling: str = "without-replacement"
    """full, with-replacement (Strategy 1), without-replacement (Strategy 2), at-least, or recorded:FILE, the cohorts
    of a run as its cohorts.jsonl has them, round by round. Beside --config this replaces its cohort too."""
    cohort_most: int | None = None
    """The largest cohort under at-least (default: twice the cohort, at most all)."""

    def __post_init__(self) -> None:
        within("cohort", self.cohort, 1, MOST_PLACES)
        within("cohort-most", self.cohort_most, 1, MOST_PLACES)


@dataclass(frozen=True)
class AlgorithmOptions:
    """How a round moves the model."""

    algorithm: str = "fedavg"
    """fedavg, fedprox, scaffold, fedavgm, fedadagrad, fedadam, fedyogi, slowmo, local-momentum, fednova, feddyn,
    mime, mimelite, cooperative, elastic, adaptive, loadaboost, or FILE.py:FUNCTION, a function that returns an
    Algorithm; its own parameters may follow: FILE.py:FUNCTION+bound=0.5."""
    worker_lr: float = 0.1
    """eta_L, the workers' learning rate."""
    server_lr: float | None = None
    """eta, the server's learning rate (default 1; fedadagrad 0.1, fedadam and fedyogi 0.01; feddyn, cooperative,
    elastic and adaptive have none)."""

    def __post_init__(self) -> None:
        for name, rate in (("worker-lr", self.worker_lr), ("server-lr", self.server_lr)):
            check_rate(name, rate)


@dataclass(frozen=True)
class MethodOptions:
    """What a method leaves to be chosen, and what a worker does in a round."""

    worker_decay: float | None = None
    """Rounds after which eta_L has fallen to half: eta_L DECAY / (DECAY + t) (default: it stays)."""
    worker_optimizer: str | None = None
    """The workers' optimizer, by its name in optax: sgd (default), adam, adagrad, ..."""
    server_optimizer: str | None = None
    """The server's optimizer, likewise."""
    weighting: str | None = None
    """uniform (1/n each, as in the paper; default) or examples (by the worker's number of rows). fedavg,
    fednova."""
    mu: float | None = None
    """The weight of the proximal term (default 0.01). fedprox."""
    variates: str | None = None
    """How control variates are renewed: option I or II (default). scaffold."""
    momentum: float | None = None
    """Of the server: fedavgm (default 0.9), slowmo (0.7), mime and mimelite (0.9). Of the workers: local-momentum
    (0.9), fednova (0)."""
    buffers: str | None = None
    """What becomes of the worker optimizer's state after a round: reset (default), maintain (stays with the worker)
    or average (is sent and averaged). slowmo."""
    alpha: float | None = None
    """The weight of the dynamic regulariser (default 0.01). feddyn."""
    beta1: float | None = None
    """Memory of the mean update (default 0.9; fedadagrad 0). fedadagrad, fedadam, fedyogi."""
    beta2: float | None = None
    """Memory of its square (default 0.99). fedadam, fedyogi."""
    tau: float | None = None
    """Added to the root of the square (default 0.001). fedadagrad, fedadam, fedyogi."""
    mixing: str | None = None
    """How the cohort's models are mixed: average (default) or ring. cooperative."""
    elasticity: float | None = None
    """How much of the way a worker's model and the anchor are drawn to each other (default 0.05). elastic."""
    step_seconds: float | None = None
    """Seconds that a local step costs (default 0.013). adaptive."""
    round_seconds: float | None = None
    """Seconds that a round costs besides its local steps (default 0.13). adaptive."""
    budget: float | None = None
    """Seconds that may be spent in all (default 15). adaptive."""
    phi: float | None = None
    """The control parameter in the choice of the local steps (default 0.025). adaptive."""
    compress: str | None = None
    """How workers' messages are shortened: topk:K, randk:K, ternary:K (K entries, or a share of them such as 0.01),
    sign, qsgd:BITS or none (default). With any algorithm."""
    compress_down: str | None = None
    """How the server's broadcast is shortened, likewise."""
    error_feedback: str | None = None
    """on: what a message leaves out is added to the worker's next one; off: it is lost (default: on, but off for
    qsgd, which is right on average)."""
    local_epochs: int | None = None
    """E, passes over its own rows that a worker makes in a round (default 5)."""
    local_steps: int | None = None
    """K, local steps on independently drawn batches, instead of epochs."""
    local_schedule: str | None = None
    """Another amount of steps or epochs from some round on, as ROUND:AMOUNT,...: 50:16 (post-local SGD)."""
    batch: int = 10
    """Examples in a local step; 0 for the full gradient."""

    def __post_init__(self) -> None:
        if self.worker_decay is not None and self.worker_decay <= 0:
            raise BadInput(f"worker-decay = {self.worker_decay:g}: must be above 0")
        within("worker-decay", self.worker_decay, LEAST_RATE, MOST_RATE)
        within("local-epochs", self.local_epochs, 1)
        within("local-steps", self.local_steps, 1)
        within("batch", self.batch, 0)


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
    """MiB/s of a worker's link, up and down, for the simulated seconds."""
    uplink: float | None = None
    """MiB/s from a worker to the server, where it is not --bandwidth."""
    downlink: float | None = None
    """MiB/s from the server to a worker, where it is not --bandwidth."""
    latency: float = 0.0
    """Seconds until the first byte arrives, one way, for the simulated seconds."""
    worker_seconds: float = 0.0
    """Seconds of computing in the first round, for a worker with the average number of local steps; others are in
    proportion to their steps."""
    profile: str | None = None
    """How workers' links and devices differ: FILE.csv with a row for each worker and any of the columns uplink,
    downlink, latency, slowness (and worker), or lognormal:SIGMA, random factors on up- and downlink and speed."""
    rows: str = "auto"
    """Where training rows lie: device (all of them), host (sent to the devices as rounds need them; also from files
    larger than memory), or auto."""
    eval_rows: int | None = None
    """Training rows that the training loss is estimated from, drawn once, each worker equally likely (default: all
    rows; 10000 where rows stay on the host)."""
    checkpoint_every: int = 0
    """Rounds from one checkpoint to the next (0: every 15 seconds or so, or after 20 times as long as
    saving took, where that is more). One is always made at the end."""
    deterministic: bool = False
    """On a GPU, only operations that give the same bits each time (slower). A CPU always does."""

    def __post_init__(self) -> None:
        for field in fields(self):
            of_kind(field.name, getattr(self, field.name), str(field.type))
        within("rounds", self.rounds, 0)
        within("seed", self.seed, 0, 2**32 - 1)
        within("eval-every", self.eval_every, 1)
        within("devices", self.devices, 0)
        within("eval-rows", self.eval_rows, 1)
        within("checkpoint-every", self.checkpoint_every, 0)
        within("worker-seconds", self.worker_seconds, 0, MOST_RATE)
        within("target", self.target, -math.inf, math.inf)
        within("latency", self.latency, 0, MOST_RATE)
        for name in ("bandwidth", "uplink", "downlink"):
            speed = getattr(self, name)
            if speed is not None and speed <= 0:
                raise BadInput(f"{name} = {speed:g}: must be above 0")
            within(name, speed, LEAST_RATE, MOST_RATE)


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
class HostOptions:
    """Several machines for one run."""

    hosts: str | None = None
    """Names of the machines with commas, typed alike on each (the first is where they meet, NAME:PORT); local:N for N
    processes on this one; or auto (default: this one alone, unless SLURM or mpirun started several)."""
    host_id: int | None = None
    """Which of --hosts this machine is, from 0 (default: by its name)."""

    def __post_init__(self) -> None:
        within("host-id", self.host_id, 0)


@dataclass(frozen=True)
class RunOptions:
    """Simulates one run: an algorithm, a model, a federation."""

    problem: ProblemOptions = ProblemOptions()
    participation: ParticipationOptions = ParticipationOptions()
    rule: AlgorithmOptions = AlgorithmOptions()
    method: MethodOptions = MethodOptions()
    settings: Settings = Settings()
    machines: HostOptions = HostOptions()
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


def unflatten(group: type[T], flat: Mapping[str, Any]) -> T:
    """The inverse of `flatten`: options not named keep their defaults.

    Example:
        >>> unflatten(RunOptions, {"rounds": 3}).settings.rounds
        3
    """
    hints = get_type_hints(group)
    parts: dict[str, Any] = {
        name: unflatten(hint, flat)  # type: ignore[arg-type]
        for name, hint in hints.items()
        if is_dataclass(hint)
    }
    return group(**parts, **{name: flat[name] for name in hints if name in flat})
