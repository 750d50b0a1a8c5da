"""Where a run's rows come from: all of them on the devices, or each cohort's as the rounds come to it.

A federation that the devices cannot hold stays in the host's memory or in memory-mapped files. Who takes part in a
round does not depend on the rounds before it, so the rows of the next rounds are gathered and sent while the devices
compute. A device is sent the rows of the workers that it runs, each worker's once a delivery; with several hosts each
reads only those of its own devices.
"""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from enlist.engine import platform
from enlist.engine.cohort import seating
from enlist.engine.lookahead import Lookahead
from enlist.engine.plan import AXIS, Delivered, Held, Members, Plan
from enlist.problem.federation import Federation, Holding
from enlist.problem.gather import gathered

# Of one delivery to one device: enough rounds to hide what starting a program costs.
DELIVERY_BYTES = {"cpu": 2**26, "gpu": 2**29}
# A delivery holds at least this many times what a round needs, since rounds differ.
SPARE = 1.5
MOST_ROUNDS = 512
LOOKED_AT = 16
# Waiting for rows longer than this part of the time means that they are what a run waits for.
NOTICED = 0.1


class Resident(NamedTuple):
    """All rows, on every device."""

    held: Held

    def portions(self, t: int, rounds: int) -> Iterator[tuple[Held, int]]:
        """Rows, and for how many of the rounds from t on they are good."""
        yield self.held, rounds

    def facts(self) -> dict[str, Any]:
        """What is worth knowing about them afterwards."""
        return {"rows": "device"}


class Delivery(NamedTuple):
    """Rows for the rounds from `first` up to, not including, `end`."""

    held: Delivered
    first: int
    end: int


@dataclass
class Flow:
    """How the time went: gathering and sending, waiting for that, computing meanwhile."""

    gathering: float = 0.0
    waiting: float = 0.0
    computing: float = 0.0
    sent: int = 0

    @property
    def bound(self) -> str:
        """What the rounds mostly waited for."""
        return "transfer" if self.waiting > NOTICED * (self.waiting + self.computing) else "compute"


class Supply:
    """Rows as they are needed. One delivery is in use while the next is on its way."""

    def __init__(self, plan: Plan, federation: Federation, key: Any, capacity: int | None = None):
        self._plan, self._federation = plan, federation
        self._ahead = Lookahead(plan.draws, federation.sizes, key)
        self._device = devices_of(plan)
        self._capacity, self._rounds = _room(plan, federation, self._ahead, self._device, capacity)
        self._now: Delivery | None = None
        self._next: tuple[int, Future[Delivery]] | None = None
        # One alone, so that deliveries come in their order.
        self._thread = ThreadPoolExecutor(1, "enlist-rows")
        self.flow = Flow()

    def portions(self, t: int, rounds: int) -> Iterator[tuple[Delivered, int]]:
        """Rows, and for how many of the rounds from t on they are good.

        The caller asks for the next when it is done with these.
        """
        while True:
            now = self._at(t, rounds)
            some = min(rounds, now.end - t)
            began = time.perf_counter()
            yield now.held, some
            self.flow.computing += time.perf_counter() - began
            t, rounds = t + some, rounds - some
            if rounds == 0:
                return

    def facts(self) -> dict[str, Any]:
        """What is worth knowing about them afterwards."""
        return {
            "rows": "host",
            "bound": self.flow.bound,
            "delivered_mib": round(self.flow.sent / 2**20, 3),
            "gather_seconds": round(self.flow.gathering, 3),
            "wait_seconds": round(self.flow.waiting, 3),
            "compute_seconds": round(self.flow.computing, 3),
        }

    def _at(self, t: int, rounds: int) -> Delivery:
        """The delivery that has round t; for no rounds at all, any will do."""
        now = self._now
        if now is not None and (rounds == 0 or now.first <= t < now.end):
            return now
        expected = self._next is not None and self._next[0] == t
        began = time.perf_counter()
        coming = self._next[1] if expected and self._next else self._thread.submit(self._deliver, t)
        self._now = None  # before the next is there: only two at a time have room
        self._now = now = coming.result()
        if expected:
            self.flow.waiting += time.perf_counter() - began
        self._next = now.end, self._thread.submit(self._deliver, now.end)
        return now

    def _deliver(self, t: int) -> Delivery:
        began = time.perf_counter()
        packed = self._packed(t)
        if packed.rounds == 0:
            # One round needs more than there is room for: from here on there is more.
            self._capacity = int(SPARE * packed.needed)
            packed = self._packed(t)
        delivered = self._send(packed, t)
        self.flow.gathering += time.perf_counter() - began
        return Delivery(delivered, t, t + packed.rounds)

    def _packed(self, t: int) -> "Packed":
        cohorts, devices = self._ahead.rounds(t, self._rounds), self._plan.devices
        return pack(cohorts, self._device, devices, self._federation, self._capacity)

    def _send(self, packed: "Packed", t: int) -> Delivered:
        data, mesh = self._federation.data, self._plan.mesh
        local = [
            i for i, device in enumerate(mesh.devices.flat) if device.process_index == jax.process_index()
        ]
        rows = [rows_of(self._federation.train, packed.workers[i]) for i in local]
        parts = []
        for source in (data.x_train, data.y_train):
            buffers = [gathered(source, each, self._capacity) for each in rows]
            self.flow.sent += sum(source[:1].nbytes * len(each) for each in rows)
            shape = (mesh.size * self._capacity, *source.shape[1:])
            put = [
                jax.device_put(buffer, mesh.devices.flat[i]) for i, buffer in zip(local, buffers, strict=True)
            ]
            split = NamedSharding(mesh, PartitionSpec(AXIS))
            parts.append(jax.make_array_from_single_device_arrays(shape, split, put))
        cohorts = platform.replicate((np.int32(t), packed.cohorts), mesh)
        return jax.block_until_ready(Delivered(parts[0], parts[1], *cohorts))


class Packed(NamedTuple):
    """What a delivery holds.

    Args:
        rounds: how many rounds of those asked for find room.
        needed: rows that the first round alone needs on the device that needs most.
        workers: for each device those whose rows it gets, in order.
        cohorts: round by round, with zeros after the last that found room.
    """

    rounds: int
    needed: int
    workers: list[np.ndarray]
    cohorts: Members


def devices_of(plan: Plan) -> np.ndarray:
    """For each place of a cohort the device that runs who sits there."""
    each = plan.lanes * plan.turns
    in_a_group = np.empty(plan.group, np.int64)
    in_a_group[seating(plan)] = np.repeat(np.arange(plan.devices), each)
    places = plan.sampling.places(plan.workers)
    return np.resize(in_a_group, places)


def pack(cohorts: Any, device: np.ndarray, devices: int, federation: Federation, capacity: int) -> Packed:
    """As many of these rounds as find room in `capacity` rows a device; a worker's rows count once a device."""
    ids, draws, weights = cohorts
    workers = federation.workers
    who = np.where(weights > 0, device * workers + ids, -1).ravel()
    known, first, index = np.unique(who, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    order = order[known[order] >= 0]
    sizes, offsets = np.zeros(len(known), np.int64), np.zeros(len(known), np.int64)
    sizes[order] = federation.sizes[known[order] % workers]
    round_of = first // ids.shape[1]
    on = known[order] // workers
    mine = np.split(order[np.argsort(on, kind="stable")], np.cumsum(np.bincount(on, minlength=devices))[:-1])
    need = np.zeros((devices, len(ids)), np.int64)
    for each, entries in enumerate(mine):
        offsets[entries] = np.cumsum(sizes[entries]) - sizes[entries]
        need[each] = np.cumsum(np.bincount(round_of[entries], sizes[entries], len(ids)))
    rounds = int((need <= capacity).all(axis=0).sum())
    kept = [entries[round_of[entries] < rounds] for entries in mine]
    placed = Members(ids, draws, weights, offsets[index].reshape(ids.shape), sizes[index].reshape(ids.shape))
    inside = (np.arange(len(ids)) < rounds)[:, None]
    types = Members(np.int32, np.int32, np.float32, np.int32, np.int32)
    return Packed(
        rounds,
        int(need[:, 0].max()),
        [known[entries] % workers for entries in kept],
        Members(*(np.where(inside, a, 0).astype(kind) for a, kind in zip(placed, types, strict=True))),
    )


def rows_of(held: Holding, workers: np.ndarray) -> np.ndarray:
    """The rows of these workers, one worker after the other."""
    sizes = held.sizes[workers].astype(np.int64)
    begin = held.offsets[workers].astype(np.int64)
    skipped = np.cumsum(sizes) - sizes
    return held.order[np.repeat(begin - skipped, sizes) + np.arange(sizes.sum())]


def _room(
    plan: Plan, federation: Federation, ahead: Lookahead, device: np.ndarray, capacity: int | None
) -> tuple[int, int]:
    """How many rows and rounds a delivery has place for."""
    data = federation.data
    row = data.x_train[:1].nbytes + data.y_train[:1].nbytes
    needs = [pack(ahead.rounds(t, 1), device, plan.devices, federation, 0).needed for t in range(LOOKED_AT)]
    kind = "cpu" if plan.mesh.devices.flat[0].platform == "cpu" else "gpu"
    wanted = max(int(SPARE * max(needs)), DELIVERY_BYTES[kind] // row) if capacity is None else capacity
    # More than all workers once finds no use.
    capacity = max(1, min(wanted, int(federation.sizes.sum(dtype=np.int64))))
    return capacity, max(1, min(MOST_ROUNDS, int(2 * capacity / max(1.0, float(np.mean(needs))))))


Source = Resident | Supply
