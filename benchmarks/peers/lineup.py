"""Who is compared: a row a peer, and the ways in which each may use a machine's cores."""

from collections.abc import Callable
from typing import NamedTuple


class Way(NamedTuple):
    """How many processes do the work, and how many threads each has."""

    processes: int
    threads: int

    def __str__(self) -> str:
        return f"{self.processes} x {self.threads}"


class Entry(NamedTuple):
    """A peer.

    Args:
        title: how tables call it.
        program: the file in `programs` that speaks for it.
        requirements: the file in `requirements` that its environment is made from.
        ways: the ways worth trying on a CPU of so many cores; the quickest is measured.
        jax: whether it computes with jax, else with PyTorch.
    """

    title: str
    program: str
    requirements: str
    ways: Callable[[int], list[Way]]
    jax: bool


def _one_process(cores: int) -> list[Way]:
    return _distinct([Way(1, cores), Way(1, 1)])


def _distinct(ways: list[Way]) -> list[Way]:
    return list(dict.fromkeys(ways))


PEERS = {
    # It chooses for itself, so there is nothing to try.
    "enlist": Entry("enlist", "on_enlist.py", "enlist.txt", lambda cores: [Way(1, cores)], jax=True),
    "fedjax": Entry("FedJAX", "on_fedjax.py", "fedjax.txt", _one_process, jax=True),
    "pfl": Entry(
        "pfl",
        "on_pfl.py",
        "pfl.txt",
        lambda cores: _distinct([Way(cores, 1), *_one_process(cores)]),
        jax=False,
    ),
    "torch": Entry("PyTorch loop", "on_torch.py", "torch.txt", _one_process, jax=False),
    "flower": Entry(
        "Flower",
        "on_flower.py",
        "flower.txt",
        lambda cores: _distinct([Way(cores, 1), Way(1, cores)]),
        jax=False,
    ),
}


def ways(name: str, device: str, cores: int) -> list[Way]:
    """What to try: on a GPU one process, since the peers' processes cannot share one."""
    return PEERS[name].ways(cores) if device == "cpu" else [Way(1, cores)]


def environment(name: str, device: str, way: Way) -> dict[str, str]:
    """Variables of a peer's process: no thread waits by spinning, and no jax takes the whole GPU for itself."""
    found = {
        "OMP_WAIT_POLICY": "PASSIVE",
        "OMP_NUM_THREADS": str(way.threads),
        "MKL_NUM_THREADS": str(way.threads),
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.3",
    }
    if device == "cpu":
        found |= {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
        if PEERS[name].jax and name != "enlist" and way.threads == 1:
            found["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    return found
