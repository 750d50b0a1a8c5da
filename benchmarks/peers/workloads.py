"""What is measured: a row a workload. Every peer gets the same numbers from here."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Workload:
    """FedAvg of one model over equal workers, uniform averaging, plain SGD on both sides.

    Args:
        model: a name of `networks.MODELS`.
        cohort: n, workers a round.
        workers: m.
        rows: examples that each worker holds; a multiple of the batch, so that an epoch is whole batches.
        shape: of one example, channels last.
        epochs, batch: local work.
        worker_lr, server_lr: rates.
        warm_up: rounds from the common start that nobody times; the losses they lead to are compared.
        judged: training examples on which that loss is taken.
        contrast: how far the classes stand apart, in units of a pixel's noise: so that the loss falls fast there.
    """

    model: str
    cohort: int
    workers: int = 100
    rows: int = 600
    shape: tuple[int, ...] = (28, 28, 1)
    epochs: int = 5
    batch: int = 60
    worker_lr: float = 0.1
    server_lr: float = 1.0
    warm_up: int = 2
    judged: int = 2000
    contrast: float = 0.25

    @property
    def steps(self) -> int:
        """Local steps of a round, all workers together."""
        return self.cohort * self.epochs * (self.rows // self.batch)

    @property
    def examples(self) -> int:
        """Examples that a round's steps read."""
        return self.cohort * self.epochs * self.rows


MODELS = {
    "two_nn": Workload("two_nn", 10),
    "cnn": Workload("cnn", 10, judged=1000, contrast=0.2),
    # A tenth of the others' rate: at 0.1 its first rounds diverge, and losses could not be compared.
    "resnet18": Workload(
        "resnet18",
        10,
        rows=500,
        shape=(32, 32, 3),
        epochs=1,
        batch=50,
        worker_lr=0.01,
        judged=200,
        contrast=2.0,
    ),
}
# What pfl-research publishes: benchmarks/image_classification/configs/baseline.yaml of its repository.
PFL_CIFAR = Workload(
    "pfl_cnn",
    50,
    workers=1000,
    rows=50,
    shape=(32, 32, 3),
    epochs=1,
    batch=10,
    warm_up=10,
    judged=500,
)
PFL_CIFAR_ROUNDS, PFL_CIFAR_EVERY = 1500, 10


def workload(name: str) -> Workload:
    """`two_nn:10`, any model with any cohort, or `pfl_cifar`.

    Example:
        >>> workload("two_nn:100").steps
        5000
    """
    if name == "pfl_cifar":
        return PFL_CIFAR
    model, _, cohort = name.partition(":")
    if model not in MODELS or not cohort.isdecimal() or not 1 <= int(cohort) <= MODELS[model].workers:
        known = ", ".join(f"{model}:COHORT" for model in MODELS)
        raise ValueError(f"workload {name!r}: give {known} (a cohort from 1 to 100) or pfl_cifar")
    return replace(MODELS[model], cohort=int(cohort))
