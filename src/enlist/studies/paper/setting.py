"""One run of the paper's experiments, in words and numbers, and what is chosen where the paper is silent."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

# What the paper states for every figure and table: workers, rates.
WORKERS = 100
WORKER_LR, SERVER_LR = 0.1, 1.0


class Way(NamedTuple):
    """What the paper does not state and what decides how many rounds a target takes.

    Args:
        augment: how training images are varied at random; None where they are taken as they are.
        pixels: how they are scaled, unit or standard; None where as the data set usually has them.
        start: how weights are drawn before the first round; None where as the model usually does.
    """

    batch: int
    augment: str | None = None
    pixels: str | None = None
    start: str | None = None

    def words(self) -> str:
        """What is done.

        Example:
            >>> Way(10).words(), Way(50, "crop-flip").words()
            ('batches of 10', 'batches of 50, images varied (crop-flip)')
            >>> Way(10, pixels="standard", start="uniform").words()
            'batches of 10, pixels standard, weights start uniform'
        """
        return ", ".join([f"batches of {self.batch}", *self.beside()])

    def beside(self) -> list[str]:
        """What is not as usual, besides the batch."""
        said = {
            "images varied ({})": self.augment,
            "pixels {}": self.pixels,
            "weights start {}": self.start,
        }
        return [words.format(value) for words, value in said.items() if value is not None]


# Chosen by a search; `choices.py` says how.
CHOSEN = {"mnist": Way(10), "cifar10": Way(50)}


class Setting(NamedTuple):
    """What tells one run from another; names and meanings are those of `enlist run`.

    Args:
        dataset: mnist or cifar10.
        augment, pixels, start: as in `Way`.
        rows: training rows that are used, drawn once; 0 for all of them.
        partition: digits:P, iid, shards:2, ...; `workers` = 1 is training in one place.
        eval_rows: training rows that the training loss is estimated from; None for all of them.
        variates: SCAFFOLD's option, I or II; None as usual.
    """

    dataset: str
    model: str
    partition: str
    cohort: int
    local_epochs: int
    rounds: int
    seed: int
    batch: int
    worker_lr: float = WORKER_LR
    server_lr: float = SERVER_LR
    algorithm: str = "fedavg"
    workers: int = WORKERS
    rows: int = 0
    precision: str = "float32"
    eval_rows: int | None = None
    augment: str | None = None
    pixels: str | None = None
    start: str | None = None
    variates: str | None = None

    @property
    def is_papers(self) -> bool:
        """Whether workers and rates are the paper's: neither training in one place nor at other rates."""
        return (self.workers, self.worker_lr, self.server_lr) == (WORKERS, WORKER_LR, SERVER_LR)

    @property
    def way(self) -> Way:
        """What the paper does not state, as it is done here."""
        return Way(*(getattr(self, name) for name in Way._fields))

    def options(self) -> dict[str, Any]:
        """As options of `enlist run`.

        Example:
            >>> one = Setting("mnist", "cnn", "iid", 10, 5, 40, 0, 10, pixels="standard", start="uniform")
            >>> one.options()["dataset"], one.options()["model"]
            ('mnist:standard', 'cnn+start=uniform')
        """
        own = {
            "dataset": self.dataset if self.pixels is None else f"{self.dataset}:{self.pixels}",
            "model": self.model if self.start is None else f"{self.model}+start={self.start}",
        }
        inside = ("rows", "pixels", "start")
        return {name: value for name, value in self._asdict().items() if name not in inside} | own

    def group(self) -> str:
        """What runs that advance together have in common, in words."""
        varied = "" if self.augment is None else f" {self.augment}"
        option = "" if self.variates is None else f" {self.variates}"
        return (
            f"{self.dataset} {self.model} {self.algorithm}{option} n={self.cohort} of {self.workers} "
            f"K={self.local_epochs} batch={self.batch}{varied} T={self.rounds}"
        )

    def matches(self, wanted: Mapping[str, Any]) -> bool:
        """Whether it has these values."""
        return all(getattr(self, name) == value for name, value in wanted.items())


class Extent(NamedTuple):
    """How long and how often a model is run.

    Args:
        seeds: runs with the seeds 0, 1, ...
    """

    rounds: int
    seeds: int


class Scale(NamedTuple):
    """How large the experiments are.

    Args:
        name: full or small.
        extents: by model.
        rows: training rows that are used of each data set; 0 for all.
        ways, precision, eval_rows: by data set.
        image_model: what learns CIFAR-10.
    """

    name: str
    extents: Mapping[str, Extent]
    rows: int
    ways: Mapping[str, Way]
    precision: Mapping[str, str]
    eval_rows: Mapping[str, int | None]
    image_model: str

    def settings(
        self, dataset: str, model: str, *, seeds: int | None = None, **axes: Sequence[Any] | Any
    ) -> Iterator[Setting]:
        """Every combination of the axes, with every seed.

        Args:
            seeds: fewer of them than this scale has.
            axes: other fields of a setting, each with one value or several.
        """
        extent = self.extents[model]
        usual = {
            **self.ways[dataset]._asdict(),
            "rounds": extent.rounds,
            "precision": self.precision[dataset],
            "eval_rows": self.eval_rows[dataset],
        }
        several = {
            name: value if isinstance(value, list | tuple) else (value,)
            for name, value in (usual | axes).items()
        }
        count = extent.seeds if seeds is None else min(seeds, extent.seeds)
        for *chosen, seed in product(*several.values(), range(count)):
            values = dict(zip(several, chosen, strict=True))
            yield Setting(dataset=dataset, model=model, seed=seed, rows=self.rows, **values)


FULL = Scale(
    "full",
    {
        "logistic": Extent(rounds=100, seeds=5),
        "two_nn": Extent(rounds=100, seeds=5),
        "cnn": Extent(rounds=100, seeds=3),
        "resnet18": Extent(rounds=100, seeds=2),
    },
    rows=0,
    ways=CHOSEN,
    precision={"mnist": "float32", "cifar10": "bf16"},
    # No figure shows the training loss on CIFAR-10, and all rows each round take long to look at.
    eval_rows={"mnist": None, "cifar10": 10_000},
    image_model="resnet18",
)
# 10 rows a worker instead of 600, and the 2NN for CIFAR-10, of which the CNN learns nothing from so few: an ordinary
# computer has an answer in minutes.
SMALL = Scale(
    "small",
    {
        "logistic": Extent(rounds=12, seeds=2),
        "two_nn": Extent(rounds=12, seeds=2),
        "cnn": Extent(rounds=5, seeds=1),
    },
    rows=1000,
    ways={"mnist": Way(10), "cifar10": Way(10)},
    precision={"mnist": "float32", "cifar10": "float32"},
    eval_rows={"mnist": None, "cifar10": None},
    image_model="two_nn",
)
SCALES = {scale.name: scale for scale in (FULL, SMALL)}
