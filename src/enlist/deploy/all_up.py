"""A server and all its workers on one machine: `python -m enlist.deploy.all_up DIR` keeps them up until it is ended.

Each is started by the command that a person would type. Nothing heavy is imported here.
"""

import os
import sys
from pathlib import Path

from enlist.deploy.place import ServerPlace, server_place
from enlist.deploy.supervise import Child, Supervisor, ended_by_signals

# Within a worker's folder.
ROWS = "rows.npz"


def keep_up(place: ServerPlace) -> None:
    """Until this process is ended, or the one that started it is gone."""
    parent = os.getppid()
    with ended_by_signals(), Supervisor(_say_nothing) as supervisor:
        supervisor.start(_command("server", place.folder / "server.log", str(place.root)))
        for worker in range(place.workers):
            own = place.worker(worker).folder
            words = (str(own), "--id", str(worker), "--data", str(own / ROWS))
            supervisor.start(_command("worker", own / "worker.log", *words))
        supervisor.keep(lambda: os.getppid() != parent)


def _command(name: str, log: Path, *words: str) -> Child:
    return Child(
        name=name,
        command=lambda: [sys.executable, "-m", "enlist", "deploy", name, *words],
        environment=dict(os.environ) | {"PYTHONUNBUFFERED": "1"},
        log=log,
        sign="\n",
    )


def _say_nothing(line: str) -> None:
    """The commands say it in their own logs."""


if __name__ == "__main__":
    keep_up(server_place(Path(sys.argv[1])))
