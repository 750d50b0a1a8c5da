"""Modules of flax nnx and equinox, opened: their trained arrays by name, and the way back.

Nothing of either library is imported before one of its modules is given.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from enlist.errors import BadInput

Params = Any

STATE = (
    "running statistics and other state written while training do not average over workers: use GroupNorm or "
    "LayerNorm instead of BatchNorm"
)
DROPOUT = "Dropout needs fresh random keys, which a model here is not given: leave it out, or turn it off"


def family(kind: type) -> str | None:
    """Which library's module a class is, read off the names of its bases: asking imports nothing."""
    for base in kind.__mro__:
        root, _, rest = base.__module__.partition(".")
        if base.__name__ == "Module" and root == "equinox":
            return "equinox"
        if base.__name__ == "Module" and root == "flax":
            return "nnx" if rest.startswith("nnx") else "linen"
    return None


def open_module(module: Any, family: str) -> tuple[dict[str, Any], Callable[[Params], Any]]:
    """A module's trained arrays by name, and the function that puts others in their place."""
    trained, close = (_open_nnx if family == "nnx" else _open_equinox)(module)
    entries, tree = jax.tree.flatten_with_path(trained)
    # An nnx variable holds its array as `.value`: no part of the name that people know.
    names = [
        jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".value") for path, _ in entries
    ]
    params = {name: jnp.asarray(leaf) for name, (_, leaf) in zip(names, entries, strict=True)}
    return params, lambda params: close(jax.tree.unflatten(tree, [params[name] for name in names]))


def _open_nnx(module: Any) -> tuple[Any, Callable[[Any], Any]]:
    from flax import nnx

    parts: Any = nnx.split(module, nnx.Param, nnx.RngState, ...)
    graph, trained, random, state = parts
    if jax.tree.leaves(state):
        kinds = sorted({type(variable).__name__ for _, variable in nnx.to_flat_state(state)})
        raise BadInput(f"{type(module).__name__} has variables of kind {', '.join(kinds)}: {STATE}")
    for _, part in nnx.iter_modules(module):
        if isinstance(part, nnx.Dropout) and part.rate > 0 and not part.deterministic:
            raise BadInput(f"{type(module).__name__}: {DROPOUT} with module.eval()")
    return trained, lambda trained: nnx.merge(graph, trained, random, state)


def _open_equinox(module: Any) -> tuple[Any, Callable[[Any], Any]]:
    import equinox as eqx

    special = (eqx.nn.StateIndex, eqx.nn.Dropout)
    for part in jax.tree.leaves(module, is_leaf=lambda node: isinstance(node, special)):
        if isinstance(part, eqx.nn.StateIndex):
            raise BadInput(f"{type(module).__name__} has state: {STATE}")
        if isinstance(part, eqx.nn.Dropout) and not part.inference and part.p > 0:
            raise BadInput(f"{type(module).__name__}: {DROPOUT} with eqx.nn.inference_mode(module)")
    is_float = lambda leaf: eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.floating)
    trained, fixed = eqx.partition(module, is_float)
    return trained, lambda trained: eqx.combine(trained, fixed)
