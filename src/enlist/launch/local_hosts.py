"""Several hosts on one machine: processes that meet over loopback, started and watched by one."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from enlist.errors import BadInput, EnlistError
from enlist.launch.joining import ADDRESS, COUNT, INDEX

MOST = 64
# How long the others may take to see that one is gone, before they are ended.
GRACE_SECONDS = 30.0


def number(hosts: str) -> int | None:
    """N of `local:N`; None for anything else."""
    kind, colon, text = hosts.partition(":")
    if kind != "local" or not colon:
        return None
    if not text.isdigit() or not 1 <= int(text) <= MOST:
        raise BadInput(f"hosts = {hosts[:60]}: local:N takes N from 1 to {MOST}")
    return int(text)


def supervise(words: Sequence[str], count: int, resume: str) -> int:
    """Runs `enlist` with these words in so many processes, and returns the lead's exit code.

    When one of them is lost the others are ended too, and it is said which and what to type.

    Args:
        resume: what to type then.
    """
    where = f"127.0.0.1:{free_port()}"
    children = [_start(words, where, count, i) for i in range(count)]
    before = signal.signal(signal.SIGTERM, lambda *_: _tell(children, signal.SIGTERM))
    try:
        return _wait(children, resume)
    finally:
        signal.signal(signal.SIGTERM, before)
        _tell(children, signal.SIGKILL)
        for child in children:
            child.wait()


def _start(words: Sequence[str], where: str, count: int, index: int) -> subprocess.Popen[bytes]:
    environment = os.environ | {ADDRESS: where, COUNT: str(count), INDEX: str(index)}
    # The lead speaks for all.
    silent = None if index == 0 else subprocess.DEVNULL
    child = subprocess.Popen(
        [sys.executable, "-m", "enlist", *words], env=environment, stdout=silent, stderr=silent
    )
    if hasattr(os, "sched_setaffinity"):
        # Before jax counts the cores, which takes longer than this.
        os.sched_setaffinity(child.pid, _cores_of(index, count))
    return child


def _cores_of(index: int, count: int) -> set[int]:
    """A fair part of the cores; one each where there are more processes than cores."""
    cores = sorted(os.sched_getaffinity(0))
    return set(cores[index::count]) or {cores[index % len(cores)]}


def free_port() -> int:
    """A port of this machine that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(children: Sequence[subprocess.Popen[bytes]], resume: str) -> int:
    """Until all have ended, or one has failed and the others had time to."""
    first: int | None = None
    since = 0.0
    while any(child.poll() is None for child in children):
        if first is None:
            first = next((i for i, child in enumerate(children) if child.poll()), None)
            since = time.monotonic()
        elif time.monotonic() - since > GRACE_SECONDS:
            _tell(children, signal.SIGTERM)
            break
        try:
            time.sleep(0.05)
        except KeyboardInterrupt:
            continue  # the terminal has told them all, and they stop by themselves
    codes = [child.poll() for child in children]
    killed = next((i for i, code in enumerate(codes) if code is not None and code < 0), None)
    if killed is not None:
        name = signal.Signals(-codes[killed]).name  # type: ignore[operator]
        raise EnlistError(f"host {killed} of {len(children)} was lost (killed by {name}); {resume}")
    return next((code for code in codes if code), 0)


def _tell(children: Sequence[subprocess.Popen[bytes]], number: int) -> None:
    for child in children:
        if child.poll() is None:
            child.send_signal(number)
