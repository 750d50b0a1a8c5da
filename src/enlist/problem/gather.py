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

    Pages of a mapped file are let go of afterwards: what a process holds does not grow to the whole file.
    """
    made = aligned((capacity, *source.shape[1:]), source.dtype)
    step = max(1, PIECE_BYTES // max(1, source[:1].nbytes))
    cuts = range(0, len(rows), step)

    def copy(start: int) -> None:
        some = rows[start : start + step]
        # "clip" lets NumPy write straight into the array; rows are known to lie inside.
        np.take(source, some, axis=0, out=made[start : start + len(some)], mode="clip")

    if len(cuts) > 1 and (threads := min(THREADS, (os.cpu_count() or 1) // 2)) > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(copy, cuts))
    else:
        for start in cuts:
            copy(start)
    release(source)
    return made


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
