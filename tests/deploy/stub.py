"""Flower's Grid in a few lines: the workers' app is called in this process, and can be made to misbehave."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import jax
import numpy as np
from safetensors.numpy import load_file

from enlist.deploy import coordinator, halves, keeping
from enlist.deploy.job import Job
from enlist.deploy.messages import packed
from enlist.deploy.server_app import serve
from enlist.deploy.worker_app import answer
from enlist.engine import traffic
from enlist.engine.folder import RunFolder
from enlist.engine.run import Run
from enlist.engine.undertaking import DEPLOYMENT
from enlist.launch.problem import cohort, deal
from enlist.launch.run import complete_config, launch
from enlist.options import OutputOptions, RunOptions, unflatten
from enlist.options.deploy import ExchangeOptions

# The smallest problem that there is, and one way of computing it for all.
SMALL = {"dataset": "digits", "workers": 5, "cohort": 2, "rounds": 3, "model": "logistic"}
SMALL |= {"local_steps": 2, "batch": 10, "execution": "one-by-one", "devices": 1}
Work = Callable[[], Any]
Fault = Callable[[Any, Work], Any]


class Killed(BaseException):
    """What nobody catches, as little as a kill."""


class StubGrid:
    """Every worker answers at once, unless `faults[worker]` says otherwise.

    Args:
        faults: `fault(order, work)` returns what comes back: a record, an Error, or None for nothing (yet).
        offline: workers that cannot be reached.
        doubled: workers whose replies come twice.
        strangers: names of other nodes that are there.
        watch: called with what is asked of the grid: nodes, push, pull.
        sent: who was sent which order.
    """

    def __init__(self, nodes: dict[int, dict[str, Any]], folder: Path):
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self.nodes, self.folder = nodes, folder
        self.faults: dict[int, Fault] = {}
        self.offline: set[int] = set()
        self.doubled: set[int] = set()
        self.strangers: list[str] = []
        self.watch: Callable[[str], None] = lambda what: None
        self.sent: list[tuple[int, Any]] = []
        self.extra: list[Any] = []
        self._open: dict[str, Any] = {}

    def get_nodes(self) -> list[Any]:
        self.watch("nodes")
        known = {1000 + worker: f"worker-{worker}" for worker in self.nodes if worker not in self.offline}
        known |= {2000 + i: name for i, name in enumerate(self.strangers)}
        return [SimpleNamespace(node_id=node, name=name) for node, name in known.items()]

    def push_messages(self, messages: list[Any]) -> list[str]:
        self.watch("push")
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
        self.watch("pull")
        came, self.extra = self.extra, []
        for name in [name for name in ids if name in self._open]:
            worker, message = self._open[name]
            reply = self._reply(worker, message)
            if reply is not None:
                del self._open[name]
                came += [reply] * (1 + (worker in self.doubled))
        return came

    def _reply(self, worker: int, message: Any) -> Any:
        from flwr.app import Error

        work = lambda: answer(message.content, self.nodes[worker], self.folder)
        try:
            fault = self.faults.get(worker)
            made = work() if fault is None else fault(message.content, work)
        except Exception as error:
            made = Error(2, f"{type(error)}:<'{error}'>")
        return None if made is None else reply_to(message, made, 1000 + worker)

    def orders(self, worker: int | None = None) -> list[dict[str, Any]]:
        """The plain part of every order, or of those of one worker."""
        return [dict(record["order"]) for one, record in self.sent if worker in (None, one)]


def reply_to(message: Any, content: Any, node: int) -> Any:
    """What Flower makes of a worker's reply."""
    from flwr.app import Message

    made = Message(content, reply_to=message)
    made.metadata.__dict__["_src_node_id"] = node
    made.metadata.__dict__["_reply_to_message_id"] = message.metadata.message_id
    return made


def deployment(tmp: Path, exchange: dict[str, Any] | None = None, **flat: Any) -> tuple[StubGrid, Job, Path]:
    """A job with its workers' rows on disk, and the grid to run it on. Where it was begun it is taken up."""
    options = unflatten(RunOptions, SMALL | flat)
    problem, federation = deal(options.problem, options.settings.seed)
    participation, _ = cohort(options.participation, federation.workers)
    config = complete_config(replace(options, problem=problem, participation=participation))
    app, out = tmp / "app", tmp / "out"
    app.mkdir(parents=True, exist_ok=True)
    nodes = {}
    for worker in range(federation.workers):
        home = tmp / "workers" / str(worker)
        home.mkdir(parents=True, exist_ok=True)
        rows, data = federation.train.rows(worker), federation.data
        np.savez(home / "rows.npz", x_train=data.x_train[rows], y_train=data.y_train[rows])
        nodes[worker] = {"id": worker, "data": str(home / "rows.npz"), "home": str(home)}
    asked = {"over_enlist": 1.0, "deadline": 20.0, "join_seconds": 0.2} | (exchange or {})
    job = Job("t0", config, ExchangeOptions(**asked), federation.workers, federation.classes, str(out))
    job.write(app)
    if not out.exists():
        RunFolder(out).create(config, federation)
        (out / DEPLOYMENT).write_text(json.dumps({"token": "t0", "exchange": asked}))
    RunFolder(out).rewrite_config(config)
    return StubGrid(nodes, app), job, app


def carry_out(grid: StubGrid, job: Job) -> dict[str, Any]:
    """Runs the server app to its end, and returns how it ended."""
    (Path(job.out) / "ended.json").unlink(missing_ok=True)
    with ExitStack() as patched:
        patched.enter_context(patch.object(coordinator, "POLL_SECONDS", 0.002))
        for remembered in REMEMBERED:
            patched.enter_context(patch.object(*remembered))
        serve(grid, grid.folder)
    return json.loads((Path(job.out) / "ended.json").read_text())


def _remembering(make: Callable[..., Any]) -> Callable[..., Any]:
    """Real workers start anew for every message; here what was compiled once need not be again."""
    known: dict[Any, Any] = {}

    def remembered(problem: Any, *rest: Any) -> Any:
        options = problem.options
        key = (options.problem, options.rule, options.method, options.settings.precision, *rest)
        if key not in known:
            known[key] = make(problem, *rest)
        return known[key]

    return remembered


def _travelling(algorithm: Any, model: Any, x: Any, y: Any, *rest: Any, up: bool = True) -> Any:
    """Shapes need no second look either."""
    key = (algorithm._replace(rates=None), model, x.shape, y.shape, *rest, up)
    if key not in _TRAVELLING:
        _TRAVELLING[key] = _look(algorithm, model, x, y, *rest, up=up)
    return _TRAVELLING[key]


_TRAVELLING: dict[Any, Any] = {}
_look = traffic.travelling
REMEMBERED = [(halves, name, _remembering(getattr(halves, name))) for name in ("worker_half", "server_half")]
REMEMBERED += [(traffic, "travelling", _travelling), (keeping, "travelling", _travelling)]


def simulated(out: Path, **flat: Any) -> Run:
    """The same on the simulator."""
    return launch(unflatten(RunOptions, SMALL | flat), out, live=False)


def resumed(out: Path, **flat: Any) -> Run:
    """What was deployed goes on on the simulator."""
    options = unflatten(RunOptions, RunFolder(out).config() | flat)
    return launch(replace(options, output=OutputOptions(resume=str(out))), out, live=False)


def replayed(job: Job, out: Path, **flat: Any) -> Run:
    """The simulator with the cohorts that the deployed run used."""
    asked = SMALL | flat | {"sampling": f"recorded:{job.out}/cohorts.jsonl", "cohort": None}
    return simulated(out, **asked)


def model(folder: Path) -> dict[str, np.ndarray]:
    """What a run left."""
    return load_file(folder / "model.safetensors")


def same(one: Any, other: Any) -> bool:
    """Whether two trees hold the same bits."""
    a, b = jax.tree.leaves(one), jax.tree.leaves(other)
    return len(a) == len(b) and all(
        np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(a, b, strict=True)
    )


def lines(job: Job, name: str) -> list[dict[str, Any]]:
    """Of a file of JSON lines in the run's folder."""
    path = Path(job.out) / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def events(job: Job, what: str) -> list[dict[str, Any]]:
    """What was out of the ordinary."""
    return [line for line in lines(job, "events.jsonl") if line["what"] == what]


def cohorts(job: Job) -> list[list[int]]:
    """Who took part, round by round; each round is there once."""
    found = lines(job, "cohorts.jsonl")
    assert [line["round"] for line in found] == list(range(len(found)))
    return [line["ids"] for line in found]


def summary(job: Job) -> dict[str, Any]:
    """How the run ended, for its reports."""
    return json.loads((Path(job.out) / "summary.json").read_text())


def changed(**facts: Any) -> Fault:
    """A worker that says something else in its answer."""
    from flwr.app import ConfigRecord

    def fault(order: Any, work: Work) -> Any:
        record = work()
        record["answer"] = ConfigRecord(dict(record["answer"]) | facts)
        return record

    return fault


def unpacked(part: Any) -> list[np.ndarray]:
    """The leaves of a packed tree."""
    layout = json.loads(part["layout"].numpy().tobytes())
    whole, found = part["bytes"].numpy().tobytes(), []
    for kind, shape in layout:
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        found.append(np.frombuffer(whole[:size], kind).reshape(shape).copy())
        whole = whole[size:]
    return found


def spoiled(spoil: Callable[[np.ndarray], np.ndarray]) -> Fault:
    """A worker whose messages are not what it computed."""

    def fault(order: Any, work: Work) -> Any:
        record = work()
        for name in [name for name in record if name.startswith("message-")]:
            record[name] = packed([spoil(leaf) for leaf in unpacked(record[name])])
        return record

    return fault


def silent(order: Any, work: Work) -> None:
    """A worker that never replies."""


def raising(order: Any, work: Work) -> Any:
    """A worker that fails."""
    raise ValueError("no such luck")


def lost(order: Any, work: Work) -> Any:
    """A worker that did its work, whose reply is lost on the way."""
    from flwr.app import Error

    work()
    return Error(7, "the reply is not there any more")


def late(polls: int, fault: Fault = lambda order, work: work()) -> Fault:
    """A worker that lets the server look in vain so many times, for each order anew."""
    waited: dict[int, int] = {}

    def delayed(order: Any, work: Work) -> Any:
        waited[id(order)] = waited.get(id(order), 0) + 1
        return None if waited[id(order)] <= polls else fault(order, work)

    return delayed


def in_rounds(rounds: set[int], fault: Fault) -> Fault:
    """A fault in some rounds (from 0) alone."""
    return lambda order, work: fault(order, work) if order["order"]["t"] in rounds else work()
