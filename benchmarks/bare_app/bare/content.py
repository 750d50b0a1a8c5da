"""What the bare app sends: nothing, or random numbers that are new each time, since equal arrays are sent once."""

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict


def numbers(sizes: list[int]) -> list[np.ndarray]:
    """Arrays of float32, of so many bytes each."""
    rng = np.random.default_rng()
    return [rng.standard_normal(size // 4, dtype=np.float32) for size in sizes]


def record(arrays: list[np.ndarray]) -> RecordDict:
    """As Flower carries them."""
    if not arrays:
        return RecordDict()
    return RecordDict({"content": ArrayRecord({str(i): Array(each) for i, each in enumerate(arrays)})})


def sizes_of(content: RecordDict) -> list[int]:
    """Bytes of each array in a record."""
    return [array.numpy().nbytes for part in content.array_records.values() for array in part.values()]
