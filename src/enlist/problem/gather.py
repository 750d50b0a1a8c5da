"""Rows taken out of an array that may lie in a file."""

import mmap
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

# What one thread copies at a time, and how many copy at once.
PIECE_BYTES, THREADS = 2**23, 8
# From here jax reads without copying.
BOUNDARY = 64


def gathered(source: np.ndarray, rows: np.ndarray, capacity: int) -> np.ndarray:
    """These rows of an array, in a new one with place for `capacity`; what follows them means nothing.

    A mapped file is read, not touched through its map: that would take in what lies around each row too, and keep it.
    """
    made = aligned((capacity, *source.shape[1:]), source.dtype)
    step = max(1, PIECE_BYTES // max(1, source[:1].nbytes))
    cuts = range(0, len(rows), step)

    def copy(start: int) -> None:
        some = rows[start : start + step]
        into = made[start : start + len(some)]
        if isinstance(source, np.memmap) and source.filename is not None and source.flags.c_contiguous:
            _read(source, source.filename, some, into)
        else:
            # "clip" lets NumPy write straight into the array; rows are known to lie inside.
            np.take(source, some, axis=0, out=into, mode="clip")

    if len(cuts) > 1 and (threads := min(THREADS, (os.cpu_count() or 1) // 2)) > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(copy, cuts))
    else:
        for start in cuts:
            copy(start)
    return made


def _read(source: np.memmap, name: str, rows: np.ndarray, into: np.ndarray) -> None:
    """Rows that follow each other in the file are read at once."""
    row = source[:1].nbytes
    begins = np.flatnonzero(np.diff(rows, prepend=rows[:1] - 2) != 1)
    places = (_place(source) + rows[begins].astype(np.int64) * row).tolist()
    edges = (np.append(begins, len(rows)) * row).tolist()
    room = into.reshape(-1).view(np.uint8).data
    with open(name, "rb", buffering=0) as file:
        for place, begin, end in zip(places, edges[:-1], edges[1:], strict=True):
            while begin < end:
                got = os.preadv(file.fileno(), [room[begin:end]], place)
                if got == 0:
                    raise OSError(f"{name} is shorter than it was")
                begin, place = begin + got, place + got


def _place(source: np.memmap) -> int:
    """Where in its file a mapped array, or a part of one, begins."""
    mapped = np.frombuffer(source._mmap, np.uint8).ctypes.data  # type: ignore[attr-defined]
    return source.offset - source.offset % mmap.ALLOCATIONGRANULARITY + source.ctypes.data - mapped


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array at an address from which jax reads without copying; what it holds means nothing yet."""
    size = int(np.prod(shape)) * dtype.itemsize
    room = np.empty(size + BOUNDARY, np.uint8)
    start = -room.ctypes.data % BOUNDARY
    return room[start : start + size].view(dtype).reshape(shape)


def release(source: np.ndarray) -> None:
    """Gives the pages of a mapped file back; they are read again when needed."""
    mapped = getattr(source, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
