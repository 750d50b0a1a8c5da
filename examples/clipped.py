"""An algorithm of one's own: FedAvg whose workers send updates of bounded length.

    enlist run --algorithm examples/clipped.py:clipped --worker-lr 0.1
    enlist run --algorithm examples/clipped.py:clipped+bound=0.5 --worker-lr 0.1
    enlist compare --algorithms fedavg,examples/clipped.py:clipped --target 0.9

    Delta_t^i = (x_{t,K}^i - x_t) min(1, bound / ||x_{t,K}^i - x_t||)

Everything else is FedAvg's. Rates are data: `rates` hands them to the compiled program, which `lru_cache` lets all
rates share.
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import optax

import enlist


def clipped(worker_lr: float = 0.1, server_lr: float = 1.0, bound: float = 1.0) -> enlist.Algorithm:
    """FedAvg with clipped updates; `bound` is the length that an update may have."""
    return _code()._replace(rates={"worker_lr": worker_lr, "server_lr": server_lr, "bound": bound})


@lru_cache
def _code() -> enlist.Algorithm:
    base = enlist.fedavg()

    def local(ctx, key, payload, state, data):
        reply = base.local(ctx, key, payload, state, data)
        length = optax.tree.norm(reply.message)
        scale = jnp.minimum(1.0, ctx.rates["bound"] / jnp.maximum(length, 1e-12))
        return reply._replace(message=jax.tree.map(lambda delta: scale * delta, reply.message))

    return base._replace(name="clipped", local=local)
