"""What a figure or table of the paper is made of: its runs, and how they are drawn."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from enlist.studies.paper.setting import SERVER_LR, WORKER_LR, WORKERS, Scale, Setting

DATASETS = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
MODELS = {"logistic": "LR", "two_nn": "2NN", "cnn": "CNN", "resnet18": "ResNet-18"}
THREE = ("logistic", "two_nn", "cnn")
DEGREES = (1, 2, 5, 10)
EPOCHS = (1, 5, 10)
FULL_COHORT, PARTIAL_COHORT = 100, 10


class Line(NamedTuple):
    """A curve with a band over seeds.

    Args:
        where: the fields of the settings that it is drawn from.
        color: its place among the colours.
    """

    label: str
    where: Mapping[str, Any]
    color: int
    dashed: bool = False


class Panel(NamedTuple):
    """A column of a figure."""

    title: str
    lines: Sequence[Line]


class Recipe(NamedTuple):
    """One figure, table or study.

    Args:
        name: as it is typed.
        title: what it shows.
        runs: those it needs.
        panels: its columns, where it is a figure of curves.
        metrics: the rows of such a figure.
        timed: whether it needs to know what a worker computes in a round.
    """

    name: str
    title: str
    runs: Callable[[Scale], Sequence[Setting]]
    panels: Callable[[Scale], Sequence[Panel]] | None = None
    metrics: Sequence[str] = ("train_loss", "test_accuracy")
    timed: bool = False


def where(model: str, partition: str, cohort: int, epochs: int, dataset: str = "mnist") -> dict[str, Any]:
    """The paper's setting: what all seeds of a curve have in common."""
    return {
        "dataset": dataset,
        "model": model,
        "partition": partition,
        "cohort": cohort,
        "local_epochs": epochs,
        "worker_lr": WORKER_LR,
        "server_lr": SERVER_LR,
        "algorithm": "fedavg",
        "workers": WORKERS,
    }


def on_mnist(scale: Scale, models: Sequence[str] = THREE, **axes: Any) -> list[Setting]:
    """Every combination of the axes for each of the models."""
    return [setting for model in models for setting in scale.settings("mnist", model, **axes)]


def by_degree(model: str, cohorts: Sequence[int] = (FULL_COHORT, PARTIAL_COHORT)) -> list[Line]:
    """Digits a worker; all workers drawn through, fewer dashed."""
    return [
        Line(f"p = {p}, n = {n}", where(model, f"digits:{p}", n, 5), color, dashed=n != FULL_COHORT)
        for n in cohorts
        for color, p in enumerate(DEGREES)
    ]


def by_epochs(model: str, cohorts: Sequence[int], degrees: Sequence[int]) -> list[Line]:
    """Local epochs; the first cohort and degree drawn through, others dashed."""
    several = [(n, p) for n in cohorts for p in degrees]
    return [
        Line(
            f"K = {epochs}, n = {n}, p = {p}",
            where(model, f"digits:{p}", n, epochs),
            color,
            (n, p) != several[0],
        )
        for n, p in several
        for color, epochs in enumerate(EPOCHS)
    ]
