"""Flower on this machine: whether it is there, where its programs are, and what surrounds its processes."""

import os
import re
import shutil
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from enlist.errors import MissingExtra

SERIES = "1.41"
INSTALL = "pip install 'enlist[deploy]'"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
ERROR_LINE = re.compile(r"[\w.]+(Error|Exception): |.* ERROR \[uvicorn\.error\] ")


def require_flower() -> None:
    """Refuses to go on without the release of Flower that enlist is built on."""
    try:
        found = version("flwr")
    except PackageNotFoundError:
        raise MissingExtra(f"deploy needs Flower {SERIES}, which is not installed; type: {INSTALL}") from None
    if not found.startswith(f"{SERIES}."):
        raise MissingExtra(f"deploy needs Flower {SERIES}, not {found}; type: {INSTALL}")


def program(name: str) -> str:
    """The path of one of Flower's programs."""
    found = shutil.which(name, path=_search_path())
    if found is None:
        raise MissingExtra(f"{name}: not found beside {sys.executable}; type: {INSTALL}")
    return found


def environment(home: Path) -> dict[str, str]:
    """The environment of a Flower process: nothing is told, looked up or fetched outside.

    Args:
        home: the folder in which Flower keeps its own files.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLWR_")}
    # Flower's processes on one machine speak over loopback, which no proxy knows.
    direct = [word for word in (kept.get("NO_PROXY") or kept.get("no_proxy") or "").split(",") if word]
    no_proxy = ",".join(dict.fromkeys([*direct, "localhost", "127.0.0.1"]))
    return kept | {
        "PATH": _search_path(),
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
        # A log is read while it is written.
        "PYTHONUNBUFFERED": "1",
    }


def _search_path() -> str:
    """Where programs are looked for: first beside the Python that runs."""
    folders = [str(Path(sys.executable).parent), sysconfig.get_path("scripts"), os.environ.get("PATH", "")]
    return os.pathsep.join(folder for folder in folders if folder)


def reason(log: str) -> str | None:
    """Why a Flower process ended, by its own log, in one line.

    Example:
        >>> reason("INFO: Starting\\nERROR: Exit Code: 305\\nFailed to connect.\\nRefused.\\n\\nFor more, visit:")
        'Failed to connect. Refused.'
    """
    plain = COLOURS.sub("", log)
    _, found, after = plain.rpartition("Exit Code: ")
    if found:
        lines = after.partition("\n\n")[0].splitlines()[1:]
        return " ".join(line.strip() for line in lines)[:300] or None
    errors = [line.strip() for line in plain.splitlines() if ERROR_LINE.match(line)]
    return errors[-1][:300] if errors else None
