"""How the hosts of a run find each other: a list of names, one machine, or what the cluster says."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from enlist.errors import BadInput

PORT = 9911
ADDRESS, COUNT, INDEX = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
# What a cluster calls the number of processes and which of them one is.
CLUSTERS = {
    "SLURM": ("SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_NODELIST"),
    "Open MPI": ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK"),
}
# Seconds to wait for the others at the start, and for a sign of life later.
START_SECONDS, SILENCE_SECONDS = 120, 20


class Meeting(NamedTuple):
    """Where the hosts meet, how many they are, and which of them this is; None is left to jax to find out."""

    address: str | None = None
    count: int | None = None  # type: ignore[assignment]
    index: int | None = None  # type: ignore[assignment]


def meeting(hosts: str | None, host_id: int | None) -> Meeting | None:
    """What was asked for, or what the environment says; None for a run on this host alone.

    Args:
        hosts: `alpha,beta:9000` (the first is where they meet), `auto`, or None.
        host_id: which of them this is, where its name does not say.
    """
    if hosts is None or hosts == "auto":
        if host_id is not None:
            raise BadInput(f"host-id = {host_id} belongs to --hosts NAME,NAME,...")
        return _from_environment(required=hosts == "auto")
    names = [name.strip() for name in hosts.split(",")]
    if len(names) < 2 or not all(names):
        raise BadInput(
            f"hosts = {hosts[:60]}: give their names with commas (the first is where they meet), local:N for N "
            "processes on this machine, or auto under SLURM, mpirun or Kubernetes"
        )
    index = _own_index(names) if host_id is None else host_id
    if not 0 <= index < len(names):
        raise BadInput(f"host-id = {index}: with {len(names)} hosts choose 0 to {len(names) - 1}")
    name, _, port = names[0].partition(":")
    if port and not (port.isdigit() and 0 < int(port) < 2**16):
        raise BadInput(f"hosts = {hosts[:60]}: {port!r} is no port; type for instance {name}:{PORT}")
    return Meeting(f"{name}:{port or PORT}", len(names), index)


def refuse_several(command: str) -> None:
    """For what runs on one host: started on several by a cluster, each would do all of it."""
    if _from_environment(required=False) is not None:
        raise BadInput(
            f"{command}: it runs on one host, but this is one of several processes; start it alone"
        )


def _from_environment(required: bool) -> Meeting | None:
    if os.environ.get(ADDRESS):
        index = os.environ.get(INDEX, os.environ.get("JOB_COMPLETION_INDEX"))
        return Meeting(os.environ[ADDRESS], _number(COUNT, os.environ.get(COUNT)), _number(INDEX, index))
    for count, index, _ in CLUSTERS.values():
        if index in os.environ and _number(count, os.environ.get(count)) > 1:
            return Meeting()
    if "KUBERNETES_SERVICE_HOST" in os.environ and "JOB_COMPLETION_INDEX" in os.environ and required:
        return Meeting()
    if required:
        raise BadInput(
            "hosts = auto: neither SLURM nor mpirun nor Kubernetes started this; start it by one of them, set "
            f"{ADDRESS}, {COUNT} and {INDEX}, or give the hosts' names"
        )
    return None


def _number(name: str, text: str | None) -> int:
    if text is None or not text.isdigit():
        raise BadInput(f"{name} is {text!r}: it must be a whole number, since this is one of several hosts")
    return int(text)


def _own_index(names: list[str]) -> int:
    """Which of the names is this machine's."""
    own = {socket.gethostname(), socket.getfqdn(), socket.gethostname().split(".")[0]}
    found = [i for i, name in enumerate(names) if name.partition(":")[0] in own]
    if len(found) != 1:
        raise BadInput(
            f"hosts = {','.join(names)[:60]}: this machine is called {socket.gethostname()}, which is "
            f"{'not' if not found else 'more than once'} among them; say which it is with --host-id 0, 1, ..."
        )
    return found[0]


def join(where: Meeting | None) -> None:
    """Waits until all hosts are there. Before anything else starts jax."""
    if where is None:
        return
    import jax

    try:
        jax.distributed.initialize(
            where.address,
            where.count,
            where.index,
            initialization_timeout=START_SECONDS,
            heartbeat_timeout_seconds=SILENCE_SECONDS,
            shutdown_timeout_seconds=SILENCE_SECONDS,
        )
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
        place = where.address or "the cluster's address"
        raise BadInput(
            f"hosts: not all of them met within {START_SECONDS} s at {place} ({reason})"
        ) from error
    with _nothing_printed():
        _greet()


def _greet() -> None:
    """A first exchange between all devices. The library underneath prints when it connects them."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from enlist.engine import hosts

    hosts.agree(0)
    mesh = Mesh(np.array(jax.devices()), ("host",))
    local = [jax.device_put(np.zeros(1, np.float32), device) for device in jax.local_devices()]
    whole = NamedSharding(mesh, PartitionSpec("host"))
    ones = jax.make_array_from_single_device_arrays((mesh.size,), whole, local)
    jax.jit(lambda a: a.sum(), out_shardings=NamedSharding(mesh, PartitionSpec()))(ones).block_until_ready()


@contextmanager
def _nothing_printed() -> Iterator[None]:
    """Whatever is written to standard output meanwhile, also by libraries, is thrown away."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
