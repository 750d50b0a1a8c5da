"""A deployment on loopback, and runs on it that are watched from the outside: Flower's engine alone, or enlist."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import deploy_cpu
import numpy as np

from enlist.deploy import control
from enlist.deploy import place as places
from enlist.deploy.all_up import ROWS
from enlist.deploy.link import is_up
from enlist.deploy.post import ORDER_SECONDS, POLL_SECONDS
from enlist.errors import EnlistError

BARE = Path(__file__).parent / "bare_app"
# Few rows and little work: what computing costs is not the question.
EXAMPLES, CLASSES = 20, 10
MNIST_LIKE = ((28, 28, 1), ("--local-epochs", "1", "--batch", "10"))
MODELS = {
    "logistic": MNIST_LIKE,
    "two_nn": MNIST_LIKE,
    "cnn": MNIST_LIKE,
    "resnet18": ((32, 32, 3), ("--local-steps", "1", "--batch", "2")),
}
UP_SECONDS, FIRST_SECONDS, ROUND_SECONDS, STOP_SECONDS = 180.0, 400.0, 300.0, 30.0
LOOK_SECONDS = 0.05


class Mark(NamedTuple):
    """The end of a round, as it was seen: its line, when, and what had been spent by then."""

    line: dict[str, Any]
    at: float
    spent: dict[str, float]


class Deployment(NamedTuple):
    """One that is up."""

    place: places.ServerPlace
    keeper: subprocess.Popen[bytes]
    folder: Path


@contextlib.contextmanager
def deployed(folder: Path, workers: int) -> Iterator[Deployment]:
    """While inside, a server and its workers are up, and all of them have joined; afterwards none is left."""
    folder.mkdir()
    place = places.init(folder / "deployment", "localhost", _free_port(), workers)
    deal(place, "two_nn", folder)
    words = [sys.executable, "-m", "enlist.deploy.all_up", str(place.root)]
    keeper = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        _until(lambda: is_up(place) and _joined(place), keeper, f"{workers} workers did not come up")
        yield Deployment(place, keeper, folder)
    finally:
        _end(keeper, signal.SIGTERM)
        refuse_left(folder)


def deal(place: places.ServerPlace, model: str, folder: Path) -> Path:
    """Gives every worker random examples of the model's shape, and returns the file of the server's."""
    shape, _ = MODELS[model]
    for worker in range(place.workers):
        own = place.worker(worker).folder / ROWS
        draft = own.with_name(f"draft-{ROWS}")
        x, y = examples(shape, worker)
        np.savez(draft, x_train=x, y_train=y)
        os.replace(draft, own)
    path = folder / f"{model}.npz"
    x, y = examples(shape, place.workers)
    np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y)
    return path


def examples(shape: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random ones, with every label."""
    x = np.random.default_rng(seed).random((EXAMPLES, *shape), dtype=np.float32)
    return x, np.arange(EXAMPLES, dtype=np.int32) % CLASSES


def run_bare(up: Deployment, out: Path, rounds: int, sizes: list[int]) -> list[Mark]:
    """Rounds of the engine alone, with messages of arrays of so many bytes each way."""
    out.mkdir()
    lines = out / "rounds.jsonl"
    shutil.copytree(BARE, out / "app", ignore=shutil.ignore_patterns("__pycache__"))
    asked = {"workers": up.place.workers, "rounds": rounds, "sizes": sizes, "out": str(lines)}
    asked |= {"poll": POLL_SECONDS, "ttl": ORDER_SECONDS}
    (out / "app" / "bare" / "asked.json").write_text(json.dumps(asked))
    control.submit(up.place, out / "app")
    marks = follow(lines, rounds, lambda: _died(lines), lambda: deploy_cpu.spent([up.keeper.pid]))
    pid = json.loads(lines.read_text().splitlines()[0])["pid"]
    _until(lambda: not _runs(pid), up.keeper, "the bare server app did not end")
    return marks


def run_enlist(up: Deployment, out: Path, rounds: int, model: str) -> list[Mark]:
    """Rounds of FedAvg with all workers; its folder is `out`."""
    data = deal(up.place, model, up.folder)
    command = ["enlist", "deploy", "run", str(up.place.root), "--out", str(out), "--rounds", str(rounds)]
    command += ["--dataset", str(data), "--model", model, "--sampling", "full", "--worker-lr", "0.001"]
    with running([*command, *MODELS[model][1]], out.with_suffix(".log")) as process:
        roots = [up.keeper.pid, process.pid]
        complaint = lambda: _complaint(process, out.with_suffix(".log"))
        marks = follow(out / "cohorts.jsonl", rounds, complaint, lambda: deploy_cpu.spent(roots))
        process.wait(ROUND_SECONDS)
        if said := _complaint(process, out.with_suffix(".log")):
            raise EnlistError(said)
    return marks


def start_local(folder: Path, workers: int) -> dict[str, float]:
    """Seconds of `enlist deploy local` until its first round is done, and until it has ended."""
    out, log = folder / "run", folder / "said.log"
    folder.mkdir()
    command = ["enlist", "deploy", "local", "--workers", str(workers), "--rounds", "1", "--out", str(out)]
    began = time.monotonic()
    with running([*command, "--dataset", "digits", "--model", "two_nn"], log) as process:
        marks = follow(out / "cohorts.jsonl", 1, lambda: _complaint(process, log), dict)
        process.wait(ROUND_SECONDS)
        if said := _complaint(process, log):
            raise EnlistError(said)
    ended = time.monotonic() - began
    refuse_left(folder)
    first = marks[0].at - began
    return {"first_round": first, "of_it_round": marks[0].line["seconds"], "end": ended}


def follow(
    lines: Path, rounds: int, complaint: Callable[[], str | None], spent: Callable[[], dict[str, float]]
) -> list[Mark]:
    """Waits for the lines of all rounds.

    Args:
        complaint: says why no more will come, where that is so.
    """
    marks: list[Mark] = []
    by = time.monotonic() + FIRST_SECONDS
    while len(marks) < rounds:
        said = complaint()
        for line in read_lines(lines)[len(marks) :]:
            marks.append(Mark(line, time.monotonic(), spent()))
            by = time.monotonic() + ROUND_SECONDS
        if len(marks) < rounds and said:
            raise EnlistError(said)
        if time.monotonic() > by:
            raise EnlistError(f"round {len(marks) + 1} of {lines.parent.name} did not end in time")
        time.sleep(LOOK_SECONDS)
    return marks


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines that tell of a round, as far as they are whole."""
    if not path.exists():
        return []
    whole = [text for text in path.read_text().splitlines(keepends=True) if text.endswith("\n")]
    return [line for line in map(json.loads, whole) if "seconds" in line]


@contextlib.contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command of enlist's, which does not outlast the block."""
    with log.open("wb") as file:
        words = [sys.executable, "-m", *command]
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    try:
        yield process
    finally:
        _end(process, signal.SIGINT)


def refuse_left(folder: Path) -> None:
    """Whatever still runs of what lies in this folder is ended, and is a failure."""
    left = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_of(pid, folder)]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if left and sys.exc_info()[0] is None:
        raise EnlistError(f"{len(left)} processes were left over")


def _is_of(pid: int, folder: Path) -> bool:
    """Whether a process has to do with a folder, by its command line and environment; the dead have neither."""
    with contextlib.suppress(OSError):
        texts = (Path(f"/proc/{pid}/{what}").read_bytes() for what in ("cmdline", "environ"))
        return pid != os.getpid() and any(os.fsencode(f"{folder}{os.sep}") in text for text in texts)
    return False


def _joined(place: places.ServerPlace) -> bool:
    logs = [place.worker(worker).log for worker in range(place.workers)]
    return all(log.exists() and "SuperNode ID" in log.read_text() for log in logs)


def _until(holds: Callable[[], bool], keeper: subprocess.Popen[bytes], otherwise: str) -> None:
    by = time.monotonic() + UP_SECONDS
    while not holds():
        if keeper.poll() is not None or time.monotonic() > by:
            raise EnlistError(f"{otherwise} within {UP_SECONDS:g} s")
        time.sleep(0.2)


def _end(process: subprocess.Popen[bytes], kindly: signal.Signals) -> None:
    """Ends a process, and in the end all of its group."""
    if process.poll() is None:
        process.send_signal(kindly)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _complaint(process: subprocess.Popen[bytes], log: Path) -> str | None:
    """Why a command of enlist's has failed, if it has."""
    if process.poll() in (None, 0):
        return None
    said = log.read_text(errors="replace").strip().splitlines()
    return f"exit {process.returncode}: {said[-1] if said else 'nothing was said'}"


def _died(lines: Path) -> str | None:
    """Why the bare server app is gone, if it is."""
    if not lines.exists():
        return None
    told = [json.loads(text) for text in lines.read_text().splitlines(keepends=True) if text.endswith("\n")]
    failed = next((line["failed"] for line in told if "failed" in line), None)
    gone = told and not _runs(told[0]["pid"])
    return f"the bare server app: {failed or 'it is gone'}" if failed or gone else None


def _runs(pid: int) -> bool:
    """Whether a process is there and not dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
