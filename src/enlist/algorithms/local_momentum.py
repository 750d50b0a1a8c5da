"""Local momentum: SGD with momentum on the workers, the momentum averaged too (Yu, Jin and Yang, 2019).

    worker i, from x_t and u_t, for k = 0 ... K-1:
        u_{t,k+1}^i = beta u_{t,k}^i + g_{t,k}^i                  u_{t,0}^i = u_t
        x_{t,k+1}^i = x_{t,k}^i - eta_L u_{t,k+1}^i               x_{t,0}^i = x_t
        sends (Delta_t^i, u_{t,K}^i)
    server:
        x_{t+1} = x_t + eta mean Delta_t^i
        u_{t+1} = mean u_{t,K}^i

Twice FedAvg's traffic in both directions. beta = 0 is FedAvg; eta = 1 is the paper's algorithm 1 (option I).
"""

from functools import lru_cache

import optax

from enlist.algorithms.buffers import with_buffers
from enlist.algorithms.checks import check_fractions
from enlist.algorithms.core import Algorithm, Rate
from enlist.algorithms.fedavg import Optimizer, fedavg


def local_momentum(
    worker_lr: Rate = 0.1,
    server_lr: Rate = 1.0,
    momentum: float = 0.9,
    server: Optimizer = optax.sgd,
) -> Algorithm:
    """Momentum SGD on the workers, whose momentum is averaged as the model is.

    Args:
        worker_lr: eta_L, a number or a function of the round.
        server_lr: eta, for x; the momentum is averaged as it is.
        momentum: beta.
        server: an optax constructor, as in `fedavg`.
    """
    check_fractions(momentum=momentum)
    rates = {"worker_lr": worker_lr, "server_lr": server_lr, "momentum": momentum}
    return _local_momentum(server)._replace(rates=rates)


@lru_cache
def _local_momentum(server: Optimizer) -> Algorithm:
    base = fedavg(server=server)._replace(name="local-momentum")
    return with_buffers(base, "average", optax.sgd, numbers=("momentum",))
