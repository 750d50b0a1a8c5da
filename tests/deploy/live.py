"""A real deployment on loopback for tests: every process as a person would start it, and ways to hurt it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from enlist.deploy import link
from enlist.deploy import place as places
from enlist.launch.problem import deal
from enlist.options import ProblemOptions

WORKERS = 4
# Every wait ends as soon as what it waits for is there; on a busy machine a process takes a minute to come up.
PATIENCE = 600.0
# Every process says whom it looks up and whom it calls.
HOOK = """
import os, socket
_log = os.environ.get("ENLIST_TEST_CALLS")
if _log:
    def _note(kind, host):
        with open(_log, "a") as file:
            file.write(f"{kind} {host}\\n")
    _look_up, _connect = socket.getaddrinfo, socket.socket.connect
    def getaddrinfo(host, *args, **kwargs):
        _note("lookup", host)
        return _look_up(host, *args, **kwargs)
    def connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            _note("connect", address[0])
        return _connect(self, address)
    socket.getaddrinfo, socket.socket.connect = getaddrinfo, connect
"""


class Live:
    """A server and its workers."""

    def __init__(self, folder: Path):
        self.folder, self.calls = folder, folder / "calls.txt"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.place = places.init(folder / "dir", "localhost", port, WORKERS)
        hook = folder / "hook"
        hook.mkdir()
        (hook / "sitecustomize.py").write_text(HOOK)
        self._environment = os.environ | {
            "PYTHONPATH": f"{hook}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            "ENLIST_TEST_CALLS": str(self.calls),
        }
        problem = ProblemOptions(dataset="digits", partition="dirichlet:1", workers=WORKERS)
        _, federation = deal(problem, seed=0)
        self.data = {worker: folder / f"rows-{worker}.npz" for worker in range(WORKERS)}
        for worker, path in self.data.items():
            rows = federation.train.rows(worker)
            np.savez(path, x_train=federation.data.x_train[rows], y_train=federation.data.y_train[rows])

    def start_server(self) -> None:
        """Returns once it answers: `deploy run` refuses where nobody does."""
        self._start("server", "deploy", "server", str(self.place.root))
        until(lambda: link.is_up(self.place))

    def start_worker(self, worker: int, data: Path | None = None) -> None:
        own = self.place.worker(worker).folder
        words = ("deploy", "worker", str(own), "--id", str(worker), "--data", str(data or self.data[worker]))
        self._start(f"worker {worker}", *words)

    def stop(self, name: str) -> None:
        """As Ctrl-C does."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)

    def stop_all(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGINT)
        for process in self._processes.values():
            process.wait(PATIENCE)
        self._processes.clear()

    def joined(self, worker: int) -> bool:
        log = self.place.worker(worker).log
        return log.exists() and "SuperNode ID" in log.read_text()

    def run(self, out: Path, *words: str) -> subprocess.CompletedProcess[str]:
        with self.running(out, *words) as process:
            said, complained = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(process.args, process.returncode, said, complained)

    @contextlib.contextmanager
    def running(self, out: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
        """`enlist deploy run`, under way."""
        command = [sys.executable, "-m", "enlist", "deploy", "run", str(self.place.root)]
        process = subprocess.Popen(
            [*command, *([] if "--resume" in words else ["--out", str(out)]), *words],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def app_of(self, worker: int) -> int | None:
        """The process that works for this worker on a message, if one does."""
        return find("flwr-clientapp", f"FLWR_HOME={self.place.worker(worker).home}")

    def node_of(self, worker: int) -> int | None:
        return find("flower-supernode", f"FLWR_HOME={self.place.worker(worker).home}")

    def link(self) -> int | None:
        return find("enlist.deploy.gate", f"FLWR_HOME={self.place.home}")

    def left(self) -> list[int]:
        """Processes of this deployment that are still there."""
        return processes_of(self.place.root)

    def _start(self, name: str, *words: str) -> None:
        log = (self.folder / f"{name.replace(' ', '-')}.txt").open("ab")
        self._processes[name] = subprocess.Popen(
            [sys.executable, "-m", "enlist", *words], env=self._environment, stdout=log, stderr=log
        )


def find(program: str, variable: str) -> int | None:
    """A process by its command line and its environment."""
    for pid in _pids():
        if program in _text(pid, "cmdline") and variable in _text(pid, "environ").split("\0"):
            return pid
    return None


def processes_of(folder: Path) -> list[int]:
    """Those whose words or environment name a folder; a process that is dead but not buried names nothing."""
    return [pid for pid in _pids() if str(folder) in _text(pid, "cmdline") + _text(pid, "environ")]


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _text(pid: int, what: str) -> str:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def until(holds: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Waits for something, and returns it."""
    by = time.monotonic() + seconds
    while time.monotonic() < by:
        if found := holds():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {holds}")


def status(out: Path) -> dict[str, Any]:
    try:
        return json.loads((out / "status.json").read_text())
    except (OSError, ValueError):
        return {"round": -1, "doing": "", "pid": None}


def summary(out: Path) -> dict[str, Any]:
    return json.loads((out / "summary.json").read_text())


def cohorts(out: Path) -> list[list[int]]:
    return [json.loads(line)["ids"] for line in (out / "cohorts.jsonl").read_text().splitlines()]
