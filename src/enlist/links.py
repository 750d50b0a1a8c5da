"""The workers' links and devices: how fast each of them sends, receives and computes.

All alike by default. A profile makes them differ: a table with a row for each worker, or factors drawn at random.
"""

import csv
import difflib
import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from enlist.errors import BadInput

PerWorker = Float64[np.ndarray, " m"]
# Beyond these, sums over the rounds of a run overflow.
LEAST, MOST = 1e-37, 1e37
MOST_SIGMA = 10.0
# The stream of the drawn factors, beside those that deal rows to the workers.
STREAM = 5
EXAMPLES = "write lognormal:SIGMA, for instance lognormal:0.5, or name a FILE.csv"


class Links(NamedTuple):
    """What each worker has.

    Args:
        uplink: MiB/s from it to the server.
        downlink: MiB/s from the server to it.
        latency: seconds before the first byte arrives, one way.
        slowness: of its device; 1 is the reference, 2 takes twice as long for a step.
    """

    uplink: PerWorker
    downlink: PerWorker
    latency: PerWorker
    slowness: PerWorker


def resolve(
    workers: int,
    seed: int,
    *,
    bandwidth: float = 20.0,
    uplink: float | None = None,
    downlink: float | None = None,
    latency: float = 0.0,
    profile: str | Mapping[str, Any] | None = None,
) -> Links:
    """The links and devices of all workers from the options of a run.

    Args:
        bandwidth: MiB/s both ways, where `uplink` or `downlink` does not say otherwise.
        profile: `lognormal:SIGMA`, a FILE.csv, or a mapping of arrays; see `parse`.
    """
    given = {"uplink": uplink, "downlink": downlink, "latency": latency or None}
    both = bandwidth if uplink is None else uplink, bandwidth if downlink is None else downlink
    plain = Links(*(np.full(workers, value, np.float64) for value in (*both, latency, 1.0)))
    return parse(profile)(plain, seed, [name for name, value in given.items() if value is not None])


def parse(profile: Any) -> Callable[[Links, int, list[str]], Links]:
    """A profile as `vary(plain, seed, given)`; `given` are the columns that options have set already.

    `lognormal:SIGMA` multiplies every worker's uplink, downlink and speed by factors of its own, independent and
    log-normal with median 1. A FILE.csv has a row for each worker and a header that names any of uplink, downlink,
    latency and slowness, and optionally worker (0, 1, ...) where the rows are in another order; a mapping has the
    same columns as arrays. Columns that are not there stay as they are.
    """
    if profile is None:
        return lambda plain, seed, given: plain
    if isinstance(profile, Mapping):
        return partial(_listed, "profile", columns(profile))
    text = str(profile)
    kind, _, sigma = text.partition(":")
    if kind == "lognormal":
        return partial(_drawn, _sigma(text, sigma))
    if not text.lower().endswith(".csv"):
        meant = f"did you mean lognormal:{sigma or '0.5'}? " if _like(kind, ["lognormal"]) else ""
        raise BadInput(f"profile {text[:60]!r}: {meant}{EXAMPLES}")
    return partial(_listed, text, _read(Path(text)))


def columns(given: Mapping[str, Any]) -> dict[str, PerWorker]:
    """A mapping of arrays as checked columns, in the order of the workers."""
    _check_header("profile", list(given))
    found = {}
    for name, values in given.items():
        try:
            found[str(name)] = np.array(values, np.float64)
        except (TypeError, ValueError):
            raise BadInput(f"profile: {name} must be an array of numbers, one for each worker") from None
        if found[str(name)].ndim != 1:
            raise BadInput(f"profile: {name} must be an array with one number for each worker")
    if len({len(values) for values in found.values()}) > 1:
        sizes = ", ".join(f"{name} {len(values)}" for name, values in found.items())
        raise BadInput(
            f"profile: its columns must be equally long, one number for each worker; given: {sizes}"
        )
    return _in_order("profile", found, lambda row: f"entry {row}")


def digest(given: Mapping[str, Any]) -> str:
    """A short name for a mapping of arrays: the same for the same numbers."""
    hashed = hashlib.sha256()
    for name, values in sorted(columns(given).items()):
        hashed.update(name.encode() + values.tobytes())
    return hashed.hexdigest()[:16]


def file_digest(profile: Any) -> str | None:
    """The SHA-256 of the file that a profile names; None where it names none that can be read."""
    if not isinstance(profile, str) or not profile.lower().endswith(".csv"):
        return None
    try:
        return hashlib.sha256(Path(profile).read_bytes()).hexdigest()
    except (OSError, ValueError):
        return None


def _drawn(sigma: float, plain: Links, seed: int, given: list[str]) -> Links:
    # A row for each worker: what one draws does not depend on how many there are.
    normal = np.random.default_rng([seed, STREAM]).standard_normal((len(plain.uplink), 3))
    uplink, downlink, speed = np.exp(sigma * normal).T
    return Links(plain.uplink * uplink, plain.downlink * downlink, plain.latency, plain.slowness / speed)


def _listed(origin: str, found: Mapping[str, PerWorker], plain: Links, seed: int, given: list[str]) -> Links:
    workers = len(plain.uplink)
    rows = len(next(iter(found.values())))
    if rows != workers:
        raise BadInput(f"{origin}: {rows} rows for {workers} workers: one for each worker is needed")
    if twice := next((name for name in given if name in found), None):
        raise BadInput(f"{twice} is given, but {origin} has a column {twice} too: leave out one of them")
    return plain._replace(**found)


def _sigma(text: str, number: str) -> float:
    try:
        sigma = float(number)
    except ValueError:
        sigma = float("nan")
    if not 0 < sigma <= MOST_SIGMA:
        raise BadInput(
            f"profile {text[:60]!r}: SIGMA must be a number above 0, at most {MOST_SIGMA:g}, "
            "for instance lognormal:0.5"
        )
    return sigma


def _read(path: Path) -> dict[str, PerWorker]:
    """The columns of a table, in the order of the workers."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise BadInput(f"profile {path}: no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise BadInput(f"profile {path}: cannot be read ({reason})") from error
    try:
        cells = csv.reader(text.splitlines())
        lines = [
            (cells.line_num, [cell.strip() for cell in row]) for row in cells if any(map(str.strip, row))
        ]
    except csv.Error as error:
        raise BadInput(f"profile {path}: not a table with commas ({error})") from error
    if not lines:
        raise BadInput(f"{path}: empty; its first line must name columns: {', '.join(Links._fields)}")
    (_, header), *rows = lines
    _check_header(str(path), header)
    for line, row in rows:
        if len(row) != len(header):
            raise BadInput(f"{path}: line {line} has {len(row)} cells for {len(header)} columns")
    table = {name: [_number(path, line, name, row[i]) for line, row in rows] for i, name in enumerate(header)}
    named = {name: np.array(values, np.float64) for name, values in table.items()}
    return _in_order(str(path), named, lambda row: f"line {rows[row][0]}")


def _number(path: Path, line: int, name: str, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise BadInput(f"{path}: line {line}: {name} = {cell[:40]!r}: must be a number") from None


def _check_header(origin: str, names: list[Any]) -> None:
    known = [*Links._fields, "worker"]
    for name in names:
        if name not in known:
            close = _like(str(name), known)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise BadInput(f"{origin}: unknown column {str(name)[:40]!r}: {hint}Known: {', '.join(known)}")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadInput(f"{origin}: two columns are called {twice!r}")
    if not set(names) & set(Links._fields):
        raise BadInput(f"{origin}: says nothing of any worker; name columns: {', '.join(Links._fields)}")


def _in_order(origin: str, found: dict[str, PerWorker], where: Callable[[int], str]) -> dict[str, PerWorker]:
    """Checked values, sorted by worker; `where(row)` says in words where a row was read."""
    for name in found.keys() & set(Links._fields):
        least = 0.0 if name == "latency" else LEAST
        if len(wrong := np.flatnonzero(~((found[name] >= least) & (found[name] <= MOST)))):
            value, wanted = found[name][wrong[0]], "0 or more" if name == "latency" else "above 0"
            raise BadInput(
                f"{origin}: {where(int(wrong[0]))}: {name} = {value:g}: must be a finite number {wanted}"
            )
    if "worker" not in found:
        return found
    worker = found.pop("worker")
    order = np.argsort(worker, kind="stable")
    if not np.array_equal(worker[order], np.arange(len(worker))):
        raise BadInput(f"{origin}: worker must name each of 0 to {len(worker) - 1} once")
    return {name: values[order] for name, values in found.items()}


def _like(given: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(given, list(known), n=1, cutoff=0.5)
