"""What shapes a compiled program, and the data that it is handed."""

from typing import Any, NamedTuple

from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from enlist.algorithms.core import Algorithm, Rate
from enlist.algorithms.work import LocalWork
from enlist.engine.evaluation import Passes
from enlist.participation.sampling import Sampling
from enlist.problem.models import Model

# Of the devices that share a cohort, and of runs that advance side by side.
AXIS, RUNS = "cohort", "runs"


class Draws(NamedTuple):
    """What decides who takes part in a round, and in which order they are added up."""

    sampling: Sampling
    workers: int
    rows: int | None
    work: LocalWork


class Plan(NamedTuple):
    """All that shapes the compiled program, apart from the shapes of arrays. Equal plans share one program.

    Args:
        algorithm: its code; the rates are data and left out.
        schedules: the rates that are functions, by name.
        rows: what every worker holds where all hold equally many rows, else None.
        capacity: the most rows that a worker holds.
        lanes: workers that one device runs side by side.
        turns: how often a device does so before the devices exchange what they have.
        mesh: the devices that share the cohort.
        passes: what an evaluation looks at.
        streamed: whether rows come to the devices with the cohorts that use them, or all lie there.
        together: whether other runs advance beside this one, mapped over the axis `RUNS`.
    """

    algorithm: Algorithm
    schedules: tuple[tuple[str, Rate], ...]
    model: Model
    precision: str
    work: LocalWork
    sampling: Sampling
    workers: int
    rows: int | None
    capacity: int
    lanes: int
    turns: int
    mesh: Mesh
    passes: Passes
    streamed: bool = False
    together: bool = False

    @property
    def draws(self) -> Draws:
        """What decides the cohorts."""
        return Draws(self.sampling, self.workers, self.rows, self.work)

    @property
    def devices(self) -> int:
        """How many devices share the cohort."""
        return self.mesh.size

    @property
    def group(self) -> int:
        """Workers from one exchange between the devices to the next."""
        return self.lanes * self.turns * self.devices


class Held(NamedTuple):
    """A federation's training rows on the device."""

    x: Array
    y: Array
    order: Int[Array, " held"]
    offsets: Int[Array, " m"]
    sizes: Int[Array, " m"]


class Cohort(NamedTuple):
    """S_t, in the order in which it is added up; a weight of 0 marks an empty place."""

    ids: Int[Array, " places"]
    draws: Int[Array, " places"]
    weights: Float[Array, " places"]


class Members(NamedTuple):
    """A cohort, or some or one of it, with where the rows of each begin and how many they are."""

    ids: Any
    draws: Any
    weights: Any
    offsets: Any
    sizes: Any


class Delivered(NamedTuple):
    """The rows that some rounds need, each device's own: those of the workers that it runs.

    Args:
        x, y: device by device, worker after worker.
        first: the round of the first cohort.
        cohorts: round by round; offsets count from the first row of the device that runs the worker.
    """

    x: Array
    y: Array
    first: Int[Array, ""]
    cohorts: Members
