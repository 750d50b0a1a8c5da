"""A tree as a few long vectors, and back: what a codec works on."""

from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from enlist.algorithms.core import Tree

Vectors = tuple[Float[Array, "..."], ...]  # each of its own length
# A message or payload with a field of such a name is cut by its fields, whose numbers may differ in scale.
MAIN_FIELDS = ("delta", "params")


class Layout(NamedTuple):
    """How a tree is cut into vectors: its leaves, and for each part which of them its vector is made of."""

    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]
    parts: tuple[tuple[int, ...], ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        """d of each part's vector."""
        return tuple(sum(prod(self.shapes[i]) for i in part) for part in self.parts)


def layout(tree: Tree) -> Layout:
    """One vector for the whole tree, or one for each field where the fields are parts of their own.

    Numbers that stand alone and whatever is no floating-point number are in no vector.
    """
    leaves, structure = jax.tree.flatten(tree)
    fields = getattr(tree, "_fields", ())
    whole = not any(name in fields for name in MAIN_FIELDS)
    counts = [len(leaves)] if whole else [len(jax.tree.leaves(part)) for part in tree]
    ends = [sum(counts[: i + 1]) for i in range(len(counts))]
    large = [leaf.size > 1 and jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]
    parts = [tuple(i for i in range(end - n, end) if large[i]) for n, end in zip(counts, ends, strict=True)]
    return Layout(
        structure,
        tuple(leaf.shape for leaf in leaves),
        tuple(leaf.dtype for leaf in leaves),
        tuple(part for part in parts if part),
    )


def cut(plan: Layout, tree: Tree) -> tuple[Vectors, tuple[Array, ...]]:
    """The parts' vectors, and the leaves that are in none of them."""
    leaves = jax.tree.leaves(tree)
    inside = {i for part in plan.parts for i in part}
    vectors = tuple(
        jnp.concatenate([leaves[i].reshape(-1).astype(jnp.float32) for i in part]) for part in plan.parts
    )
    return vectors, tuple(leaf for i, leaf in enumerate(leaves) if i not in inside)


def join(plan: Layout, vectors: Vectors, rest: tuple[Array, ...]) -> Tree:
    """The tree again."""
    leaves: dict[int, Array] = {}
    for part, vector in zip(plan.parts, vectors, strict=True):
        start = 0
        for i in part:
            size = prod(plan.shapes[i])
            leaves[i] = vector[start : start + size].reshape(plan.shapes[i]).astype(plan.dtypes[i])
            start += size
    others = iter(rest)
    return plan.structure.unflatten(
        [leaves[i] if i in leaves else next(others) for i in range(len(plan.shapes))]
    )
