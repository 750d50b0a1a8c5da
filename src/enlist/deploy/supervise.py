"""Keeping processes alive, and leaving none behind."""

import contextlib
import ctypes
import fcntl
import functools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn

from enlist.errors import BadInput

# Seconds: from an end to the next start, first and at most; after which a child counts as well; to stop in; between
# two looks.
FIRST_WAIT, MOST_WAIT = 0.5, 30.0
WELL_AFTER = 60.0
GRACE = 5.0
PAUSE = 0.1
MOST_LOG_BYTES = 32 * 2**20
# From linux/prctl.h.
PR_SET_PDEATHSIG = 1

Say = Callable[[str], None]


def nothing_known(log: str) -> str | None:
    """Reads no reason from a log."""
    return None


@dataclass(frozen=True)
class Child:
    """A process to keep alive.

    Args:
        name: how it is called in what is said.
        command: what to start, asked anew each time.
        environment: its environment variables.
        log: the file for what it says; when it grows too long it is moved to one with `.1` at the end.
        sign: words in its log that show that it is up; that is then said.
        reason: why it ended, from what it wrote since it was started; None where that does not say.
        most_wait: seconds between an end and the next start, at most.
    """

    name: str
    command: Callable[[], Sequence[str]]
    environment: Mapping[str, str]
    log: Path
    sign: str
    reason: Callable[[str], str | None] = nothing_known
    most_wait: float = MOST_WAIT


@dataclass
class _Kept:
    """A child, and how it is doing."""

    child: Child
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    log_start: int = 0
    up: bool = False
    failures: int = 0
    due: float = field(default_factory=time.monotonic)


class Supervisor:
    """Starts children, starts them again when they end, and ends them all with itself.

    Each child leads a process group, which is ended as a whole. On Linux a child is also killed when this process
    is, however that happens; so it must be started by a thread that lives as long as it should.
    """

    def __init__(self, say: Say, grace: float = GRACE):
        self._say = say
        self._grace = grace
        self._kept: list[_Kept] = []

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self, child: Child) -> None:
        """Starts a child, and has it looked after."""
        kept = _Kept(child)
        self._kept.append(kept)
        _begin(kept)

    def pids(self) -> dict[str, int]:
        """The processes that are up, by name."""
        return {kept.child.name: kept.process.pid for kept in self._kept if kept.process is not None}

    def is_up(self, name: str) -> bool:
        """Whether a child runs and has shown that it is up."""
        return any(kept.up for kept in self._kept if kept.child.name == name)

    def look(self) -> None:
        """Starts again what has ended and waited long enough, and says what has come up."""
        for kept in self._kept:
            if kept.process is None:
                if time.monotonic() >= kept.due:
                    self._again(kept)
            elif _has_ended(kept.process):
                self._note_end(kept, kept.process)
            else:
                self._note_up(kept)
                _shorten(kept)

    def keep(self, until: Callable[[], bool] = lambda: False) -> None:
        """Looks after the children until something is so; without it, for ever."""
        while not until():
            self.look()
            time.sleep(PAUSE)

    def rest(self, seconds: float) -> None:
        """Looks after the children for so long."""
        by = time.monotonic() + seconds
        self.keep(lambda: time.monotonic() >= by)

    def stop(self) -> None:
        """Ends all children and all that they started; none is left when this returns."""
        with _undisturbed():
            running = [kept.process for kept in self._kept if kept.process is not None]
            self._kept.clear()
            for process in running:
                _tell(process, signal.SIGTERM)
            by = time.monotonic() + self._grace
            while time.monotonic() < by and not all(map(_has_ended, running)):
                time.sleep(0.02)
            for process in running:
                _finish(process)

    def _again(self, kept: _Kept) -> None:
        try:
            _begin(kept)
        except OSError as error:
            self._wait(kept, f"could not be started ({error.strerror})")

    def _note_up(self, kept: _Kept) -> None:
        if not kept.up and kept.child.sign in _said(kept):
            kept.up = True
            self._say(f"{kept.child.name} is up")

    def _note_end(self, kept: _Kept, process: subprocess.Popen[bytes]) -> None:
        # What it started itself is in the way of its successor.
        code = _finish(process)
        kept.process, kept.up = None, False
        if time.monotonic() - kept.started >= WELL_AFTER:
            kept.failures = 0
        why = kept.child.reason(_said(kept)) if code > 0 else None
        self._wait(kept, f"ended ({why or _ending(code)})")

    def _wait(self, kept: _Kept, what: str) -> None:
        wait = min(kept.child.most_wait, FIRST_WAIT * 2**kept.failures)
        kept.failures = min(kept.failures + 1, 10)
        kept.due = time.monotonic() + wait
        self._say(f"{kept.child.name} {what}; starting it again in {wait:g} s. Log: {kept.child.log}")


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM, and SIGHUP unless it is ignored, end the command well: what it holds is let go, exit code 0."""

    def leave(*_: object) -> NoReturn:
        raise SystemExit(0)

    with ending_signals_handled(leave):
        yield


@contextlib.contextmanager
def ending_signals_handled(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Gives SIGTERM, and SIGHUP unless it is ignored, to a handler."""
    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextlib.contextmanager
def alone(lock: Path, complaint: str) -> Iterator[None]:
    """Holds a file that one process can hold; the system lets it go with the process, however that ends."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(complaint) from None
        yield


def die_with_parent(parent: int | None = None) -> None:
    """Has this process killed when the one that started it is, however that happens. On Linux; elsewhere nothing.

    Args:
        parent: the process that started this one, where it is known; it may be gone by now.
    """
    if sys.platform != "linux":
        return
    _c_library().prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != (parent or os.getppid()):
        os._exit(1)


@functools.cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _begin(kept: _Kept) -> None:
    child = kept.child
    command = list(child.command())
    # Loaded here: little may be done between the birth of a process and its own program.
    _c_library()
    with child.log.open("ab") as log:
        kept.log_start = log.tell()
        kept.process = subprocess.Popen(
            command,
            env=dict(child.environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=functools.partial(die_with_parent, os.getpid()),
        )
    kept.started = time.monotonic()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has, without forgetting it: its number stays that of its group until `_finish`."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _finish(process: subprocess.Popen[bytes]) -> int:
    """Kills what is left of the group, and returns the leader's exit code."""
    if process.returncode is None:
        _tell(process, signal.SIGKILL)
    return process.wait()


def _tell(process: subprocess.Popen[bytes], number: int) -> None:
    # Elsewhere than on Linux, a group of which only the dead are left is not permitted instead of not found.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _ending(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _said(kept: _Kept) -> str:
    """What the child wrote since it was started, the end of it."""
    try:
        with kept.child.log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(min(size, max(kept.log_start, size - 16384)))
            return log.read().decode(errors="replace")
    except OSError:
        return ""


def _shorten(kept: _Kept) -> None:
    """Begins the log anew when it is too long: the child goes on writing at its end, wherever that is."""
    log = kept.child.log
    with contextlib.suppress(OSError):
        if log.stat().st_size > MOST_LOG_BYTES:
            shutil.copyfile(log, log.with_name(f"{log.name}.1"))
            os.truncate(log, 0)
            kept.log_start = 0


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """A second signal must not interrupt the ending of processes, which is short."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
