"""One process at a time for the folder of a run: two would write into the same files."""

import contextlib
import errno
import os
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None  # type: ignore[assignment]

from enlist.errors import BadInput

LOCK = ".lock"
# The system knows by process who holds a file: this one may come back to it.
_held: dict[Path, IO[str]] = {}


def hold(folder: Path) -> None:
    """Holds the folder until `release`, or until this process ends; refuses where another process holds it."""
    place = folder.resolve()
    if place in _held or fcntl is None or not place.is_dir():
        return
    file = (place / LOCK).open("a+")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = _read(file)
        file.close()
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise BadInput(
                f"{folder}: another process{holder} is at this run; wait until it ends, or end it first"
            ) from None
        return  # a file system without locks
    file.seek(0)
    file.truncate()
    file.write(f"{os.getpid()}\n")
    file.flush()
    _held[place] = file


def release(folder: Path) -> None:
    """Lets go of a folder; does nothing where it is not held."""
    place = folder.resolve()
    if (file := _held.pop(place, None)) is not None:
        with contextlib.suppress(OSError):
            (place / LOCK).unlink()
        file.close()


def _read(file: IO[str]) -> str:
    """Who holds it, in words; nothing where that is not known."""
    file.seek(0)
    number = file.read().strip()
    return f" ({number})" if number.isdigit() else ""
