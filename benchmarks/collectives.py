"""What the devices send each other in a round: `python benchmarks/collectives.py`.

By the formula, and counted in the compiled program of a block of rounds for 2, 4 and 8 CPU devices. A message of P
parameters is cut into d slices. All devices exchange slices of the messages of a group (an all-to-all), add theirs
up, and after the last group share the sum (an all-gather); weights and losses of all workers go to all devices.
"""

import argparse
import json
import math
import re
from typing import Any, NamedTuple

BYTES = 4
# Of a worker, beside its message: weight and loss.
SCALARS = 2
TYPES = {
    "pred": 1,
    "s8": 1,
    "u8": 1,
    "bf16": 2,
    "f16": 2,
    "s32": 4,
    "u32": 4,
    "f32": 4,
    "s64": 8,
    "u64": 8,
    "f64": 8,
}
COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
COLLECTIVE = re.compile(
    r" = (.*) (all-to-all|all-gather|all-reduce|reduce-scatter|collective-permute)(?:-start)?\("
)
CALLED = re.compile(r"(?:body|to_apply)=%?([\w.\-]+)")
TIMES = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
SHAPE = re.compile(r"(\w+)\[([\d,]*)\]")


class Layout(NamedTuple):
    """How a cohort is spread: n workers, d devices, `each` workers on a device between two exchanges."""

    cohort: int
    parameters: int
    devices: int
    each: int

    @property
    def groups(self) -> int:
        """How often the devices exchange messages in a round."""
        return math.ceil(self.cohort / (self.devices * self.each))


def received(layout: Layout) -> dict[str, float]:
    """Bytes that each device receives in a round, by the formula; it sends as many."""
    d, others = layout.devices, (layout.devices - 1) / layout.devices
    message = math.ceil(layout.parameters / d) * d * BYTES
    places = layout.groups * layout.each
    return {
        "all-to-all": others * places * message,
        "all-gather": others * (message + places * d * SCALARS * BYTES),
    }


def counted(text: str, devices: int) -> dict[str, float]:
    """The same from a compiled block: the result shapes of its collectives, as often as their loops run.

    The loop over rounds has no fixed length and counts once; the evaluation, a branch of its own, does not count.
    """
    own: dict[str, dict[str, float]] = {}
    calls: dict[str, list[tuple[str, int]]] = {}
    name, entry = "", ""
    for line in text.splitlines():
        if header := COMPUTATION.match(line):
            name = header[2]
            own[name], calls[name] = {}, []
            entry = name if header[1] else entry
        elif found := COLLECTIVE.search(line):
            kind, size = found[2], _size(found[1])
            own[name][kind] = own[name].get(kind, 0.0) + size * (devices - 1) / devices
        elif (" while(" in line or " call(" in line) and (called := CALLED.search(line)):
            times = TIMES.search(line)
            calls[name].append((called[1], int(times[1]) if times else 1))

    def total(name: str) -> dict[str, float]:
        sums = dict(own[name])
        for inner, times in calls[name]:
            for kind, size in total(inner).items():
                sums[kind] = sums.get(kind, 0.0) + times * size
        return sums

    return total(entry)


def _size(shapes: str) -> int:
    return sum(
        TYPES[kind] * math.prod(int(side) for side in sides.split(",") if side)
        for kind, sides in SHAPE.findall(shapes)
    )


def compiled(session: Any) -> str:
    """The text of a session's block as the compiler leaves it."""
    import jax.numpy as jnp

    held, _ = next(iter(session.read.source.portions(0, 0)))
    given = (held, session.read.examples, session.state, session.rates, session.key)
    return session.program.block.lower(*given, jnp.int32(1), jnp.asarray(False)).compile().as_text()


def compare(devices: int, cohort: int) -> dict[str, Any]:
    """Formula and count for the 2NN."""
    from growth import Point, session_at

    session = session_at(Point(cohort=cohort, steps=2, workers=cohort * 2, devices=devices), "device")
    plan = session.plan
    layout = Layout(cohort, 199_210, devices, plan.lanes * plan.turns)
    facts = {"devices": devices, "cohort": cohort, "groups": layout.groups, "parameters": layout.parameters}
    return facts | {"formula": received(layout), "counted": counted(compiled(session), devices)}


def main() -> None:
    """Prints a line of JSON for each layout."""
    import os

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layouts", default="2:10,2:33,4:10,4:100,8:100", help="DEVICES:COHORT, ...")
    layouts = [tuple(map(int, text.split(":"))) for text in parser.parse_args().layouts.split(",")]
    most = max(devices for devices, _ in layouts)
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={most}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    for devices, cohort in layouts:
        print(json.dumps(compare(devices, cohort)), flush=True)


if __name__ == "__main__":
    main()
