"""What a worker keeps from round to round, on its own disk.

A state is kept under the round whose reply it belongs to. It counts only once the server says that this reply was
used: every order names the round to go on from. So a reply that was lost, or a server that went back to an earlier
checkpoint, never leaves a worker ahead.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from enlist.errors import EnlistError

Tree = Any
NONE = -1
# States that were used and are kept: one more than the server keeps checkpoints.
KEEP = 3
SUFFIX = ".safetensors"


class Versions:
    """The states of one worker in one run."""

    def __init__(self, folder: Path):
        self.folder = folder

    def load(self, version: int, first: Callable[[], Tree], like: Tree) -> Tree:
        """The state, of the shapes of `like`, after the reply of that round; `first()` where none was used so far."""
        from safetensors.numpy import load_file

        leaves, structure = jax.tree.flatten(like)
        if not leaves:
            return like
        if version == NONE:
            return first()
        path = self._path(version)
        if not path.exists():
            kept = ", ".join(map(str, self.kept())) or "none"
            raise EnlistError(
                f"the state of round {version} is not on this worker's disk (kept: {kept}): was {self.folder} "
                "removed, or does the worker run elsewhere?"
            )
        try:
            held = load_file(path)
            found = [held[str(i)].reshape(leaf.shape) for i, leaf in enumerate(leaves)]
        except Exception as error:
            reason = " ".join(str(error).split())[:80]
            raise EnlistError(f"{path}: cannot be read ({type(error).__name__}: {reason})") from error
        return jax.tree.unflatten(structure, found)

    def keep(self, version: int, state: Tree) -> None:
        """Keeps a state; it is whole on disk when this returns."""
        from safetensors.numpy import save

        leaves = jax.tree.leaves(jax.device_get(state))
        if not leaves:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".{version}.draft"
        with draft.open("wb") as file:
            file.write(save({str(i): np.asarray(leaf, order="C") for i, leaf in enumerate(leaves)}))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self._path(version))

    def settle(self, acknowledged: int) -> None:
        """Removes what was never used, and all but the last few that were."""
        kept = self.kept()
        used = [version for version in kept if version <= acknowledged]
        for version in (*(each for each in kept if each > acknowledged), *used[:-KEEP]):
            self._path(version).unlink(missing_ok=True)

    def kept(self) -> list[int]:
        """The rounds whose states are here, in order."""
        if not self.folder.is_dir():
            return []
        return sorted(int(path.stem) for path in self.folder.glob(f"*{SUFFIX}"))

    def _path(self, version: int) -> Path:
        return self.folder / f"{version}{SUFFIX}"
