"""What shapes a compiled program, and the data that it is handed."""

from typing import NamedTuple

from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from enlist.algorithms.core import Algorithm, Rate
from enlist.algorithms.work import LocalWork
from enlist.engine.evaluation import Passes
from enlist.participation.sampling import Sampling
from enlist.problem.models import Model

AXIS = "cohort"


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
    """S_t or a part of it, in the order in which it is added up; a weight of 0 marks an empty place."""

    ids: Int[Array, " places"] | Int[Array, ""]
    draws: Int[Array, " places"] | Int[Array, ""]
    weights: Float[Array, " places"] | Float[Array, ""]
