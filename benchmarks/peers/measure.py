"""Starting the peers, finding each one's best way, and timing them in turns."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from checks import check_counts, check_losses
from lineup import Way
from process import Peer
from serve import Setup
from workloads import Workload, workload

# A pace is taken from this part of a repeat's seconds, or from one round if that takes longer.
PACE_SHARE = 0.2
Start = Callable[[str, Way], Peer]


class Plan(NamedTuple):
    """How much to measure: rounds of a repeat, or seconds from which each peer's own number follows."""

    repeats: int
    rounds: int | None
    seconds: float


class Contender(NamedTuple):
    """A peer that runs, warm, in its best way."""

    peer: Peer
    way: Way
    rounds: int
    record: dict[str, Any]


def measure(
    name: str, ways: dict[str, list[Way]], start: Start, device: str, plan: Plan
) -> list[dict[str, Any]]:
    """One workload: the peers in turns, the order reversed each time. Raises `UnequalWork` if they are not alike."""
    work = workload(name)
    contenders: dict[str, Contender] = {}
    try:
        for peer, possible in ways.items():
            contenders[peer] = _best(peer, possible, start, name, device, plan)
        check_losses({peer: each.record["loss"] for peer, each in contenders.items()}, work.warm_up)
        for turn in range(plan.repeats):
            order = list(contenders.values())
            for each in order if turn % 2 == 0 else reversed(order):
                _repeat(each, work)
    finally:
        for each in contenders.values():
            each.peer.close()
    return [each.record for each in contenders.values()]


def _best(
    name: str, ways: Sequence[Way], start: Start, workload_name: str, device: str, plan: Plan
) -> Contender:
    """Tries the ways one after the other and keeps the quickest."""
    best: Contender | None = None
    tried: dict[str, float] = {}
    try:
        for way in ways:
            found = _warm(name, way, start(name, way), Setup(workload_name, device, *way), plan)
            tried[str(way)] = found.record["pace"]
            if best is None:
                best = found
                continue
            best, slower = sorted((best, found), key=lambda each: each.record["pace"])
            slower.peer.close()
    except BaseException:
        if best is not None:
            best.peer.close()
        raise
    assert best is not None
    best.record["tried"] = tried
    return best


def _warm(name: str, way: Way, peer: Peer, setup: Setup, plan: Plan) -> Contender:
    """Set up, warmed up, judged, and its pace taken."""
    work = setup.work
    try:
        versions = peer.ask(f"setup {json.dumps(asdict(setup))}")["versions"]
        first = peer.ask(f"go {work.warm_up}")
        check_counts(name, work, work.warm_up, first)
        loss = peer.ask("loss")["loss"]
        pace = _pace(peer, plan.seconds)
    except BaseException:
        peer.close()
        raise
    record = {
        "peer": name,
        "versions": versions,
        "way": str(way),
        "loss": loss,
        "pace": pace,
        "warm_up_seconds": first["wall"],
        "wall": [],
        "cpu": [],
        "steps": first["steps"] // work.warm_up,
        "examples": first["examples"] // work.warm_up,
    }
    rounds = plan.rounds or max(1, math.ceil(plan.seconds / pace))
    return Contender(peer, way, rounds, record | {"rounds": rounds})


def _pace(peer: Peer, seconds: float) -> float:
    """Seconds a round: the best of a few tries, since other work on the machine only ever adds to them."""
    first = peer.ask("go 1")["wall"]
    rounds = max(1, int(PACE_SHARE * seconds / first))
    return min(first, *(peer.ask(f"go {rounds}")["wall"] / rounds for _ in range(1 if rounds == 1 else 3)))


def _repeat(each: Contender, work: Workload) -> None:
    answer = each.peer.ask(f"go {each.rounds}")
    check_counts(each.peer.name, work, each.rounds, answer)
    each.record["wall"].append(answer["wall"] / each.rounds)
    each.record["cpu"].append(answer["cpu"] / each.rounds)
