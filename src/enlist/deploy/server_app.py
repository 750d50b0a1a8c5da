"""The server's side: from the job, or from where it was left, round by round to the end.

After every round the cohort, the metrics and then the state are on disk, in this order: a kill at any moment loses at
most the round under way, and whoever starts it again goes on to the same bits.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from enlist.deploy.supervise import die_with_parent
from enlist.errors import BadInput, EnlistError

STATUS, ENDED = "status.json", "ended.json"


def server_app(folder: Path) -> Any:
    """The Flower app of the server; `folder` is where the job and its files lie."""
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        die_with_parent()
        serve(grid, folder)

    return app


def serve(grid: Any, folder: Path) -> None:
    """Carries a job out; how it ended stands in the run's folder, also where it failed."""
    from enlist.deploy.job import read_job
    from enlist.engine import platform

    platform.prepare()
    job = read_job(folder)
    out = Path(job.out)
    status = Status(out)
    try:
        ended = _carry_out(grid, job, folder, status)
    except (EnlistError, OSError) as error:
        ended = {"status": "failed", "reason": _in_words(error), "exit": getattr(error, "exit_code", 1)}
    status.end(ended)


@dataclass
class Status:
    """What the server is about, in a small file for whoever watches."""

    out: Path
    facts: dict[str, Any] = field(
        default_factory=lambda: {"pid": os.getpid(), "round": 0, "doing": "starting"}
    )

    def __post_init__(self) -> None:
        self._write(STATUS, self.facts)

    def say(self, doing: str) -> None:
        """Says what it is about, where that is new."""
        if doing != self.facts["doing"]:
            self.facts["doing"] = doing
            self._write(STATUS, self.facts)

    def round(self, t: int) -> None:
        """So many rounds are done."""
        self.facts |= {"round": t, "doing": "a new round"}
        self._write(STATUS, self.facts)

    def end(self, ended: dict[str, Any]) -> None:
        """Says how it ended; this time it did not die."""
        self._write(ENDED, ended | {"pid": os.getpid()})

    def _write(self, name: str, facts: dict[str, Any]) -> None:
        try:
            draft = self.out / f".{name}.draft"
            draft.write_text(json.dumps(facts))
            os.replace(draft, self.out / name)
        except OSError:
            pass  # a full disk: whoever watches sees by the process that it is over


def _carry_out(grid: Any, job: Any, folder: Path, status: Status) -> dict[str, Any]:
    """Runs all rounds that are left."""
    from enlist.deploy.keeping import Keeping
    from enlist.errors import Diverged

    run = Keeping(job, folder)
    coordinator = _coordinator(grid, run, status)
    stopped: EnlistError | None = None
    status.round(run.t)
    try:
        while run.t < run.rounds:
            made = coordinator.round(run.t, run.server)
            run.take(made)
            status.round(run.t)
    except Diverged as error:
        stopped, name = error, "diverged"
    except EnlistError as error:
        if isinstance(error, BadInput):
            raise
        stopped, name = error, "abandoned"
    finally:
        run.close()
    run.finish("done" if stopped is None else name)
    if stopped is None:
        return {"status": "done"}
    return {"status": name, "reason": str(stopped), "exit": stopped.exit_code}


def _coordinator(grid: Any, run: Any, status: Status) -> Any:
    from enlist.deploy.coordinator import Coordinator
    from enlist.deploy.halves import server_half
    from enlist.deploy.post import Post

    half = server_half(run.problem, run.job.workers)
    return Coordinator(run.job, run.problem, half, run.sent, Post(grid), run.ledger, status.say, begun=False)


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'the disk'}: {error.strerror or error}"
    return str(error)
