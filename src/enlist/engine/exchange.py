"""Messages between devices: every device gets a slice of each, adds its slices up, and all share the sum.

Additions go element by element, so slices added up in cohort order give the bits that whole messages would. Of n
messages over d devices, each device receives n / d messages' worth of bytes, and the sum, instead of all n.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

Tree = Any
Slices = dict[str, Any]


def slices_of(message: Tree, devices: int) -> Slices:
    """The shapes of one message's slices: its leaves of one type in a row, cut into equal parts."""
    made: Slices = {}
    for name, leaves in _by_type(message).items():
        length = sum(math.prod(leaf.shape) for leaf in leaves)
        made[name] = jax.ShapeDtypeStruct((-(-length // devices),), leaves[0].dtype)
    return made


def slices(messages: Tree, devices: int, axis: str) -> Slices:
    """From a stack of own messages to this device's slice of everybody's, device after device."""

    def exchange(leaves: list[Array]) -> Array:
        rows = jnp.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)
        padded = jnp.pad(rows, ((0, 0), (0, -rows.shape[1] % devices)))
        return lax.all_to_all(padded, axis, split_axis=1, concat_axis=0, tiled=True)

    return {name: exchange(leaves) for name, leaves in _by_type(messages).items()}


def whole(mine: Slices, like: Tree, axis: str) -> Tree:
    """From every device's slice of a sum to all of it, on all devices."""
    rows = {name: lax.all_gather(part, axis, tiled=True) for name, part in mine.items()}
    places, leaves = dict.fromkeys(rows, 0), []
    for leaf in jax.tree.leaves(like):
        name, size = str(leaf.dtype), math.prod(leaf.shape)
        leaves.append(rows[name][places[name] : places[name] + size].reshape(leaf.shape))
        places[name] += size
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _by_type(tree: Tree) -> dict[str, list[Any]]:
    """Leaves in their order, those of one type together."""
    found: dict[str, list[Any]] = {}
    for leaf in jax.tree.leaves(tree):
        found.setdefault(str(np.dtype(leaf.dtype)), []).append(leaf)
    return found
