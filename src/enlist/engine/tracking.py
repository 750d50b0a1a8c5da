"""Metrics for other tools: TensorBoard event files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from enlist.errors import MissingExtra


def require_tensorboard() -> None:
    """Says what to install where the writer is missing."""
    try:
        import tensorboardX  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "--tensorboard needs one more package: pip install 'enlist[tensorboard]'"
        ) from None


@contextmanager
def tensorboard_writer(folder: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that writes one line of metrics, every number under its own name."""
    require_tensorboard()
    from tensorboardX import SummaryWriter

    with SummaryWriter(str(folder / "tensorboard")) as writer:

        def write(line: dict[str, Any]) -> None:
            for name, value in line.items():
                if name != "round" and isinstance(value, int | float):
                    writer.add_scalar(name, value, line["round"])

        yield write
