"""CPU seconds of a deployment: of all its processes, also of those that have ended, by what they are for."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

# What a process and all that it starts is for, by a word of its command line.
PURPOSES = {
    "link": "enlist.deploy.gate",
    "workers": "flower-supernode",
    "server app": "flower-superexec",
    "deploy run": "enlist deploy run",
}
# Looking after the others.
REST = "supervision"
TICK = 1 / os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """One process: who started it, its CPU seconds with those of the children it has buried, its command line."""

    parent: int
    seconds: float
    words: str


def parse(stat: str) -> tuple[int, float]:
    """Parent and CPU seconds from a line of /proc/PID/stat.

    Example:
        >>> parse("7 (a (b) c) S 3 " + "0 " * 9 + "100 20 300 4 0") == (3, 424 * TICK)
        True
    """
    fields = stat.rpartition(")")[2].split()
    return int(fields[1]), sum(map(int, fields[11:15])) * TICK


def processes() -> dict[int, Process]:
    """All of this machine."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            folder = Path("/proc") / name
            try:
                words = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
                found[int(name)] = Process(*parse((folder / "stat").read_text()), words)
            except OSError:
                continue  # it has just ended
    return found


def by_purpose(found: Mapping[int, Process], roots: Iterable[int]) -> dict[str, float]:
    """CPU seconds of the roots and all that descends from them."""
    children: dict[int, list[int]] = {}
    for pid, process in found.items():
        children.setdefault(process.parent, []).append(pid)
    spent = dict.fromkeys([*PURPOSES, REST], 0.0)
    left = [(pid, REST) for pid in roots if pid in found]
    while left:
        pid, purpose = left.pop()
        if purpose == REST:
            purpose = _purpose(found[pid].words)
        spent[purpose] += found[pid].seconds
        left += [(child, purpose) for child in children.get(pid, [])]
    return spent


def spent(roots: Iterable[int]) -> dict[str, float]:
    """CPU seconds so far, by purpose."""
    return by_purpose(processes(), roots)


def _purpose(words: str) -> str:
    return next((purpose for purpose, word in PURPOSES.items() if word in words), REST)
