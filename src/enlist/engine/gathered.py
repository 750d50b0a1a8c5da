"""Workers' states beside a checkpoint that has none: those of a deployed run, gathered from its workers' disks."""

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

Tree = Any
NAME = "worker_states.safetensors"


def save(folder: Path, t: int, states: Tree) -> None:
    """Keeps the states of all workers after t rounds, stacked over them."""
    from safetensors.numpy import save_file

    named = {str(i): np.asarray(leaf, order="C") for i, leaf in enumerate(jax.tree.leaves(states))}
    draft = folder / f".{NAME}.draft"
    save_file(named, draft, metadata={"rounds": str(t)})
    os.replace(draft, folder / NAME)


def rounds(folder: Path) -> int | None:
    """After how many rounds the states are that this folder holds; None for no states."""
    from safetensors import safe_open

    path = folder / NAME
    if not path.exists():
        return None
    with safe_open(path, "numpy") as file:
        return int(file.metadata()["rounds"])


def load(folder: Path, like: Tree) -> Tree:
    """The states, with the shapes of `like`."""
    from safetensors.numpy import load_file

    held = load_file(folder / NAME)
    leaves, structure = jax.tree.flatten(like)
    return jax.tree.unflatten(structure, [held[str(i)].reshape(leaf.shape) for i, leaf in enumerate(leaves)])
