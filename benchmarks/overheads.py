"""What of a round does not shrink with more devices: drawing cohorts, adding up messages; and the bytes between them.

Part of `growth.py`: draws, fold, bytes.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from rounds import timed
from turns import Pair, in_turns, middle

# Messages, and how long a slice of one is: of the 2NN on 1,000 and on 8 devices.
FOLDS = ((100, 200), (1000, 200), (10_000, 200), (1000, 24_902))
DRAWS = ((100, 8), (1000, 8), (1000, 1000), (10_000, 1000))


def drawing(cohort: int, devices: int, workers: int = 1_000_000, rounds: int = 16) -> dict[str, Any]:
    """What every host does in a round, for all devices: the cohorts to come, and who of them goes where."""
    import jax

    from enlist import Epochs, sampling
    from enlist.engine import platform
    from enlist.engine.lookahead import Lookahead
    from enlist.engine.plan import Draws
    from enlist.engine.supply import pack

    platform.prepare()
    sizes = np.random.default_rng(0).integers(4, 64, workers).astype(np.int32)
    draws = Draws(sampling.without_replacement(cohort), workers, None, Epochs(1, 10))
    ahead = Lookahead(draws, sizes, jax.random.key(0))
    ahead.rounds(0, 1)
    block = ahead.at_once
    drawn = [timed(lambda k=k: ahead.rounds(k * block, 1)) for k in range(1, 4)]
    federation: Any = SimpleNamespace(workers=workers, sizes=sizes)
    device = np.resize(np.arange(devices), cohort)
    cohorts = ahead.rounds(0, rounds)
    packed = [timed(lambda: pack(cohorts, device, devices, federation, 10**9)) for _ in range(3)]
    return {
        "cohort": cohort,
        "devices": devices,
        "draw_cpu_ms": 1e3 * min(cpu for _, cpu in drawn) / block,
        "pack_cpu_ms": 1e3 * min(cpu for _, cpu in packed) / rounds,
    }


def folding(messages: int, length: int, options: argparse.Namespace) -> dict[str, Any]:
    """Slices of messages added up in order on one device."""
    import jax
    import jax.numpy as jnp

    from enlist.algorithms.core import empty_total, fold
    from enlist.engine import platform

    platform.prepare()
    summands, weights = jnp.ones((messages, length)), jnp.ones(messages)
    add = jax.jit(lambda s, w: fold(empty_total(jax.eval_shape(lambda: s[0])), s, w, w))

    def run(times: int) -> Pair:
        return timed(lambda: [jax.block_until_ready(add(summands, weights)) for _ in range(times)])

    found = middle(in_turns({0: run}, options)[0])
    return {"messages": messages, "length": length} | found


def counting() -> list[dict[str, Any]]:
    """From a process of its own, which has more devices."""
    words = [sys.executable, str(Path(__file__).parent / "collectives.py")]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


APART: dict[str, Callable[[argparse.Namespace], list[dict[str, Any]]]] = {
    "draws": lambda options: [drawing(*pair) for pair in (DRAWS[:2] if options.quick else DRAWS)],
    "fold": lambda options: [folding(*pair, options) for pair in (FOLDS[:2] if options.quick else FOLDS)],
    "bytes": lambda options: counting(),
}
