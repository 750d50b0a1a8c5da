"""The machine underneath: devices, compilation cache, where arrays lie."""

import os
import platform as host
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from enlist.problem.gather import BOUNDARY, aligned

CPU_FLAG = "--xla_cpu_multi_thread_eigen=false"
GPU_FLAG = "--xla_gpu_command_buffer_scheduling_mode=CONCURRENT"
DETERMINISTIC_FLAGS = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"


def prepare(deterministic: bool = False) -> None:
    """Sets jax up for a run. Does nothing to a jax that already runs, or to what was chosen for it.

    On a CPU every core becomes a device of its own that runs one worker after the other: measured on 2 cores,
    that is 1.5 times faster than letting both cores share each small matrix product. On a GPU, kernels of a local
    step that do not wait for each other may run at once: 6 to 8% of a round of ten workers' 2NN on an H200.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if deterministic and DETERMINISTIC_FLAGS not in flags:
        flags = f"{flags} {DETERMINISTIC_FLAGS}"
    if _has_cuda() and "xla_gpu_command_buffer_scheduling_mode" not in flags:
        flags = f"{flags} {GPU_FLAG}"
    try:
        if (
            cores() > 1
            and "host_platform_device_count" not in flags
            and jax.config.values["jax_num_cpu_devices"] < 0
        ):
            jax.config.update("jax_num_cpu_devices", cores())
            if "xla_cpu_multi_thread_eigen" not in flags:
                flags = f"{flags} {CPU_FLAG}"
        os.environ["XLA_FLAGS"] = flags.strip()
    except RuntimeError:
        pass  # jax is running already: then with the devices that it has
    if not jax.config.values["jax_compilation_cache_dir"]:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


def cache_everything() -> None:
    """For a process that does little more than one program has time to compile: nothing is too small to be kept."""
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _has_cuda() -> bool:
    """Whether this jax was installed for GPUs of NVIDIA's; asking it for its devices would start it."""
    try:
        return any(find_spec(f"jax_plugins.xla_cuda{version}") for version in (12, 13))
    except ModuleNotFoundError:
        return False


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cache_folder() -> Path:
    """Where enlist keeps what it can make or fetch again."""
    if own := os.environ.get("ENLIST_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "enlist"


def mesh(devices: int) -> Mesh:
    """The first devices of every host in a row, `devices` in all."""
    each = devices // jax.process_count()
    rows = [jax.local_devices(process_index=host)[:each] for host in range(jax.process_count())]
    return Mesh(np.array(rows).reshape(-1), ("cohort",))


def replicate(tree: Any, where: Mesh) -> Any:
    """Puts a tree of arrays onto every device of a mesh; on a CPU all devices read the same memory."""
    everywhere = NamedSharding(where, PartitionSpec())

    def put(array: Any) -> jax.Array:
        on_cpu = where.devices.flat[0].platform == "cpu"
        if jax.process_count() == 1 and not (on_cpu and isinstance(array, np.ndarray)):
            return jax.device_put(array, everywhere)
        shared = _aligned(np.asarray(array)) if on_cpu else np.asarray(array)
        mine = [device for device in where.devices.flat if device.process_index == jax.process_index()]
        copies = [jax.device_put(shared, device) for device in mine]
        return jax.make_array_from_single_device_arrays(shared.shape, everywhere, copies)

    return jax.tree.map(put, tree)


def _aligned(array: np.ndarray) -> np.ndarray:
    """The array at an address from which jax reads without copying."""
    if array.flags.c_contiguous and array.ctypes.data % BOUNDARY == 0:
        return array
    copy = aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def describe() -> str:
    """The machine in a few words."""
    device = jax.devices()[0]
    if device.platform == "cpu":
        return f"cpu ({cores()} cores, {host.machine()})"
    return f"{device.device_kind} x {jax.local_device_count()}"


def memory_bytes() -> int | None:
    """The memory of one accelerator; None on a CPU."""
    stats = jax.local_devices()[0].memory_stats() or {}
    return stats.get("bytes_limit")
