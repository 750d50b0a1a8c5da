"""Flower's Grid in a few lines: the workers' app is called in this process, and can be made to misbehave."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from enlist.deploy.job import Job
from enlist.deploy.worker_app import answer
from enlist.deploy_options import ExchangeOptions
from enlist.launch.problem import cohort, deal
from enlist.launch.run import complete_config
from enlist.options import RunOptions, unflatten


class StubGrid:
    """Every worker answers at once, unless `faults[worker]` says otherwise.

    Args:
        faults: `fault(record, answer)` returns what comes back: a record, an Exception, or None for nothing (yet).
        offline: workers that cannot be reached.
    """

    def __init__(self, nodes: dict[int, dict[str, Any]], folder: Path):
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self.nodes, self.folder = nodes, folder
        self.faults: dict[int, Callable[[Any, Callable[[], Any]], Any]] = {}
        self.offline: set[int] = set()
        self.sent: list[tuple[int, Any]] = []
        self.extra: list[Any] = []
        self._open: dict[str, Any] = {}

    def get_nodes(self) -> list[Any]:
        return [
            SimpleNamespace(node_id=1000 + worker, name=f"worker-{worker}")
            for worker in self.nodes
            if worker not in self.offline
        ]

    def push_messages(self, messages: list[Any]) -> list[str]:
        ids = []
        for message in messages:
            name = f"m{len(self.sent)}"
            message.metadata.__dict__["_message_id"] = name
            worker = message.metadata.dst_node_id - 1000
            self.sent.append((worker, message.content))
            self._open[name] = (worker, message)
            ids.append(name)
        return ids

    def pull_messages(self, ids: list[str]) -> list[Any]:
        came, self.extra = self.extra, []
        for name in [name for name in ids if name in self._open]:
            worker, message = self._open[name]
            reply = self._reply(worker, message)
            if reply is not None:
                del self._open[name]
                came.append(reply)
        return came

    def _reply(self, worker: int, message: Any) -> Any:
        from flwr.app import Error, Message

        work = lambda: answer(message.content, self.nodes[worker], self.folder)
        try:
            fault = self.faults.get(worker)
            made = work() if fault is None else fault(message.content, work)
        except Exception as error:
            made = Error(2, f"{type(error)}:<'{error}'>")
        if made is None:
            return None
        return self.reply(message, made, 1000 + worker)

    def reply(self, message: Any, content: Any, node: int) -> Any:
        from flwr.app import Message

        made = Message(content, reply_to=message)
        made.metadata.__dict__["_src_node_id"] = node
        made.metadata.__dict__["_reply_to_message_id"] = message.metadata.message_id
        return made


def deployment(
    tmp: Path, exchange: dict[str, Any] | None = None, **flat: Any
) -> tuple[StubGrid, Job, Path]:
    """A job with its workers' rows on disk, and the grid to run it on."""
    from enlist.engine.folder import RunFolder

    options = unflatten(RunOptions, flat)
    problem, federation = deal(options.problem, options.settings.seed)
    participation, _ = cohort(options.participation, federation.workers)
    config = complete_config(replace(options, problem=problem, participation=participation))
    app, out = tmp / "app", tmp / "out"
    app.mkdir(exist_ok=True)
    nodes = {}
    for worker in range(federation.workers):
        home = tmp / "workers" / str(worker)
        home.mkdir(parents=True, exist_ok=True)
        rows = federation.train.rows(worker)
        np.savez(home / "rows.npz", x_train=federation.data.x_train[rows], y_train=federation.data.y_train[rows])
        nodes[worker] = {"id": worker, "data": str(home / "rows.npz"), "home": str(home)}
    asked = ExchangeOptions(**({"over_enlist": 1.0, "deadline": 5.0, "join_seconds": 1.0} | (exchange or {})))
    job = Job("t0", config, asked, federation.workers, federation.classes, str(out))
    job.write(app)
    if not out.exists():
        RunFolder(out).create(config, federation)
    return StubGrid(nodes, app), job, app


def ended(job: Job) -> dict[str, Any]:
    return json.loads((Path(job.out) / "ended.json").read_text())


def events(job: Job, what: str) -> list[dict[str, Any]]:
    path = Path(job.out) / "events.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if line["what"] == what]
