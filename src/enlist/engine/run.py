"""What a run leaves: its metrics, its model, and the questions people ask of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enlist.engine.folder import describe_partition
from enlist.engine.session import LocalDraw, Session
from enlist.errors import BadInput
from enlist.report.record import RunRecord
from enlist.report.target import reaches


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run.

    Args:
        params: the final global model.
        metrics: a dict for each evaluated round, as in `metrics.jsonl`.
        summary: the outcome, as in `summary.json`.
        config: the options, as in `config.yaml`.
        folder: where its files are; None when nothing was written.
    """

    params: Any
    metrics: list[dict[str, Any]]
    summary: dict[str, Any]
    config: dict[str, Any]
    session: Session
    folder: Path | None = None

    def rounds_to(self, **goal: float) -> int | None:
        """The first evaluated round whose test metric reaches a value, for instance `rounds_to(accuracy=0.95)`.

        `loss=` and `train_loss=` are reached from above. None where it was not reached.
        """
        if len(goal) != 1:
            raise BadInput("rounds_to takes one goal, for instance rounds_to(accuracy=0.95)")
        ((name, value),) = goal.items()
        key = name if name == "train_loss" else f"test_{name}"
        if self.metrics and key not in self.metrics[0]:
            raise BadInput(
                f"rounds_to({name}=...): this run has {', '.join(k for k in self.metrics[0] if 'test_' in k)}"
            )
        return first_round(self.metrics, key, value, falling=name.endswith("loss"))

    def drawn(self, t: int) -> list[LocalDraw]:
        """What round t (from 0) drew: the cohort and the rows of every batch."""
        return self.session.drawn(t)

    def record(self) -> RunRecord:
        """What the report works from."""
        name = self.folder.name if self.folder else str(self.config.get("algorithm", "run"))
        return RunRecord(
            name,
            self.config,
            self.metrics,
            self.summary,
            describe_partition(self.session.federation),
            self.folder,
        )

    def plot(self, path: str | Path = "curves.png") -> Path:
        """Draws the curves."""
        from enlist.report import figures

        figures.curves([self.record()], Path(path))
        return Path(path)

    def report(self, folder: str | Path) -> Path:
        """Writes `curves.png` and `report.html` into a folder and returns the page's path."""
        from enlist.report import page

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.plot(folder / "curves.png")
        page.write_page([self.record()], folder / "report.html")
        return folder / "report.html"


def first_round(metrics: list[dict[str, Any]], key: str, value: float, falling: bool = False) -> int | None:
    """The first evaluated round at which a metric has reached a value."""
    for line in metrics:
        seen = line.get(key)
        if seen is not None and reaches(seen, value, falling):
            return int(line["round"])
    return None
