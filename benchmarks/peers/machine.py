"""The machine in a few words."""

import os
import platform
import subprocess
from pathlib import Path


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe(device: str) -> tuple[str, str]:
    """A short name for files, and a line for people."""
    python = f"Python {platform.python_version()}"
    if device == "gpu":
        name = _gpu()
        return name.split()[-1].lower(), f"{name}, {cores()} cores, {python}"
    return f"cpu{cores()}", f"{cores()} cores of {_cpu()}, {python}"


def _gpu() -> str:
    asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
