"""How fast the matrix products of one 2NN step are alone, on one core, against a large product there.

`taskset -c 0 python benchmarks/products.py`: batch 60, each product inside a loop of its own as in a local run; CPU
microseconds, the best of a few. The sum is what a step could take if nothing else did.
"""

import os
import time
from collections.abc import Callable
from typing import Any

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

BATCH, TIMES, SIDE = 60, 500, 2048
LAYERS = ((784, 200), (200, 200), (200, 10))


def main() -> None:
    """Prints a table."""
    rng = np.random.default_rng(0)

    def some(*shape: int) -> jax.Array:
        return jnp.asarray(0.01 * rng.random(shape, dtype=np.float32))

    large = 2 * SIDE**3 / seconds(lambda c: c @ c, some(SIDE, SIDE), 1)
    print(f"{SIDE}^3 product: {large / 1e9:.0f} GFLOP/s\n\n| product | us |\n|---|---|")
    spent, operations = 0.0, 0
    for number, (inputs, outputs) in enumerate(LAYERS):
        x, w, g = some(BATCH, inputs), some(outputs, inputs), some(BATCH, outputs)
        # Each depends on the loop's last result by a number, or it would be computed once.
        cases = {
            "forward": (
                lambda c, x=x, w=w: c + 1e-3 * lax.dot_general(x + c[0, 0], w, (((1,), (1,)), ((), ()))),
                g,
            ),
            "gradient and step": (
                lambda c, x=x, g=g: c - 0.1 * lax.dot_general(g + c[0, 0], x, (((0,), (0,)), ((), ()))),
                w,
            ),
            "input's gradient": (lambda c, g=g, w=w: c + 1e-3 * ((g + c[0, 0]) @ w), x),
        }
        if number == 0:
            del cases["input's gradient"]
        for name, (step, start) in cases.items():
            took = seconds(step, start, TIMES)
            print(f"| {inputs} x {outputs}, {name} | {1e6 * took:.1f} |")
            spent, operations = spent + took, operations + 2 * BATCH * inputs * outputs
    print(f"| all | {1e6 * spent:.0f} |\n\n{operations / spent / large:.2f} of the large product's rate")


def seconds(step: Callable[[Any], Any], start: jax.Array, times: int) -> float:
    """CPU seconds of one step, the best of a few loops."""
    loop = jax.jit(lambda c: lax.fori_loop(0, times, lambda _, c: step(c), c))
    loop(start).block_until_ready()
    best = float("inf")
    for _ in range(5):
        begun = time.process_time()
        loop(start).block_until_ready()
        best = min(best, time.process_time() - begun)
    return best / times


if __name__ == "__main__":
    main()
