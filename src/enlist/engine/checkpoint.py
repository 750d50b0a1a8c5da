"""Saving a run's state so that a kill at any moment loses only the rounds since, and taking it up again."""

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from enlist.engine.program import RunState
from enlist.errors import BadInput

KEEP = 2


class Facts(NamedTuple):
    """What is kept beside a state.

    Args:
        options: those of its run; none where they were not kept.
        wall_seconds: that the run had taken by then, all sittings together.
    """

    options: dict[str, Any] | None = None
    wall_seconds: float = 0.0


class Checkpoints:
    """The states of one run under `folder`, the newest few kept. Each is whole or not there at all."""

    def __init__(self, folder: Path):
        import orbax.checkpoint as ocp  # late: half a second that `--help` and bad input need not pay

        self.folder = folder
        options = ocp.CheckpointManagerOptions(
            max_to_keep=KEEP,
            create=False,
            enable_async_checkpointing=False,
            cleanup_tmp_directories=True,
            # Whoever keeps a run does so alone, also where it runs on several hosts.
            multiprocessing_options=_alone(),
        )
        self._orbax = ocp
        folder.mkdir(parents=True, exist_ok=True)
        self._manager = ocp.CheckpointManager(folder.absolute(), options=options)

    def save(self, state: RunState, facts: Facts | None = None) -> None:
        """Keeps the state after round t, and what is to be known of it; returns when it is on disk.

        Raises:
            OSError: the disk does not take it.
        """
        t = int(state.t)
        if t in self._manager.all_steps():
            return
        try:
            kept = self._orbax.args.StandardSave(_to_host(state))
            self._manager.save(
                t, args=kept, force=True, custom_metadata=None if facts is None else facts._asdict()
            )
            self._manager.wait_until_finished()
        except Exception as error:
            # What fails beneath Orbax says so in words alone.
            code = re.search(r"os_error_code='(\d+)'", str(error))
            if code is None:
                raise
            raise OSError(int(code[1]), os.strerror(int(code[1])), str(self.folder)) from error

    def latest(self) -> int | None:
        """The newest round that can be taken up."""
        return self._manager.latest_step()

    def facts(self) -> Facts:
        """What is known of the newest state."""
        found = self._manager.metadata(self.latest()).custom_metadata or {}
        return Facts(**{name: found[name] for name in Facts._fields if name in found})

    def restore(self, like: RunState) -> RunState:
        """The newest state, with the shapes of `like`."""
        t = self._manager.latest_step()
        assert t is not None
        shapes = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), _to_host(like))
        try:
            kept = self._manager.restore(t, args=self._orbax.args.StandardRestore(shapes))
        except Exception as error:
            raise BadInput(
                f"{self.folder / str(t)}: this checkpoint cannot be read ({_first_line(error)}); "
                f"remove that folder to go on from an earlier one"
            ) from error
        return jax.tree.map(lambda leaf, was: jax.numpy.asarray(leaf, was.dtype), kept, like)

    def close(self) -> None:
        """Lets go of the folder."""
        self._manager.close()


def _alone() -> Any:
    """Orbax waits for nobody: this process alone reads and writes."""
    import jax
    from orbax.checkpoint.options import MultiprocessingOptions

    if jax.process_count() == 1:
        return MultiprocessingOptions()
    me = jax.process_index()
    return MultiprocessingOptions(primary_host=me, active_processes={me}, barrier_sync_key_prefix="enlist")


def _to_host(state: RunState) -> Any:
    return jax.tree.map(np.asarray, jax.device_get(state))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
