"""What the grid of table 3 came to: the best rates of every setting, and where runs diverged."""

from collections.abc import Sequence
from typing import NamedTuple

from enlist.studies.paper.raw import Curve, Raw
from enlist.studies.paper.recipes.table3 import runs as grid_runs
from enlist.studies.paper.setting import Scale, Setting
from enlist.studies.paper.statistics.seeds import ending


class Best(NamedTuple):
    """The best rates of one setting, such as a model's with one p, n and K.

    Args:
        setting: of the run with the lowest training loss in its last tenth of rounds; its rates are the best.
        loss, accuracy: means over that tenth.
        paper_loss, paper_accuracy: the same at worker rate 0.1 and server rate 1; None where that diverged or was
            not run.
        tried, diverged: how many pairs of rates.
    """

    setting: Setting
    loss: float
    accuracy: float
    paper_loss: float | None
    paper_accuracy: float | None
    tried: int
    diverged: int

    @property
    def is_papers(self) -> bool:
        """Whether the best rates are the paper's."""
        return self.setting.is_papers


def best_rates(raw: Raw, scale: Scale) -> list[Best]:
    """For every model, p, n and K of the grid whose pairs of rates were all run, in the grid's order."""
    cells: dict[Setting, list[Setting]] = {}
    for setting in dict.fromkeys(grid_runs(scale)):
        cells.setdefault(setting._replace(worker_lr=0.0, server_lr=0.0), []).append(setting)
    runs = [[raw.curves[setting] for setting in own] for own in cells.values() if not raw.missing(own)]
    return [best for own in runs if (best := best_of(own)) is not None]


def diverged_by_server_rate(raw: Raw, scale: Scale, model: str | None = None) -> dict[float, tuple[int, int]]:
    """For each server rate of the grid: how many runs diverged, and of how many; of one model, or of all."""
    counts: dict[float, tuple[int, int]] = {}
    for setting in dict.fromkeys(grid_runs(scale)):
        if setting in raw.curves and model in (None, setting.model):
            diverged, all_ = counts.get(setting.server_lr, (0, 0))
            counts[setting.server_lr] = (diverged + _diverged(raw.curves[setting]), all_ + 1)
    return counts


def best_of(runs: Sequence[Curve]) -> Best | None:
    """Of runs that differ in their rates alone; None where all diverged."""
    done = [run for run in runs if not _diverged(run)]
    if not done:
        return None
    first = min(done, key=lambda run: ending(run, "train_loss"))
    papers = [run for run in done if run.setting.is_papers]
    return Best(
        first.setting,
        ending(first, "train_loss"),
        ending(first, "test_accuracy"),
        ending(papers[0], "train_loss") if papers else None,
        ending(papers[0], "test_accuracy") if papers else None,
        len(runs),
        len(runs) - len(done),
    )


def _diverged(run: Curve) -> bool:
    return run.status != "done"
