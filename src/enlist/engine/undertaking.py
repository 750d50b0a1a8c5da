"""One run from its folder to its outcome: begun or taken up again, noted down as it goes, finished."""

import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax

from enlist.engine import gathered, hosts
from enlist.engine.checkpoint import Checkpoints, Facts
from enlist.engine.execution import Execution
from enlist.engine.folder import RunFolder, refuse_if_used
from enlist.engine.metrics import look
from enlist.engine.program import RunState
from enlist.engine.rehearsal import digest
from enlist.engine.run import Run
from enlist.engine.session import Session, open_session
from enlist.engine.summary import Times, describe, summarize
from enlist.engine.task import Room, Task
from enlist.errors import BadInput, Diverged
from enlist.options import Settings
from enlist.problem.federation import Federation

# What may differ from the options that a run was begun with.
MAY_CHANGE = {"rounds", "target", "devices", "rows"}
# In the description of a run begun from Python: stands for what its algorithm and its model compute.
PROGRAM = "program"
# In the folder of a run that was deployed.
DEPLOYMENT = "deployment.json"


@dataclass
class Undertaking:
    """A run under way.

    Args:
        metrics: a line for each evaluated round so far, those of earlier sittings included.
        first: the round that this sitting began with.
        before: seconds that earlier sittings took, up to that round.
        device: seconds in which the devices were at its rounds and evaluations; its share, if others ran beside it.
        explain: whether it is to be said why it diverged, which takes compiling.
        stopped: what ended it before its last round.
    """

    session: Session
    settings: Settings
    config: dict[str, Any]
    folder: RunFolder | None
    metrics: list[dict[str, Any]]
    first: int
    began: float
    before: float = 0.0
    compiled: float = 0.0
    device: float = 0.0
    explain: bool = True
    stopped: Diverged | KeyboardInterrupt | None = None
    _checkpoints: Checkpoints | None = field(default=None, repr=False)

    def note(self, line: dict[str, Any]) -> None:
        """Keeps the metrics of a round; they are on disk when this returns."""
        self.metrics.append(line)
        if self.folder is not None:
            self.folder.append(line)

    def keep(self) -> None:
        """Saves the session's state."""
        if self.folder is None:
            return
        if self._checkpoints is None:
            self._checkpoints = Checkpoints(self.folder.checkpoints)
        self._checkpoints.save(self.session.state, Facts(self.config, self.before + self._wall()))

    def _wall(self) -> float:
        return time.perf_counter() - self.began

    def close(self) -> None:
        """Lets go of the folder."""
        if self._checkpoints is not None:
            self._checkpoints.close()
            self._checkpoints = None

    def finish(self) -> Run:
        """Writes down how it ended."""
        session = self.session
        final = self.metrics[-1] if self.metrics else look(session)
        rounds = int(session.state.t) - self.first
        times = Times(self._wall(), self.compiled, self.device, rounds, self.before)
        facts = summarize(session, self.settings, self.metrics, final, self._status(), times)
        place = None if self.folder is None else self.folder.path
        run = Run(session.params(), self.metrics, facts, self.config, session, place)
        if self.folder is not None:
            self.folder.finish(facts, run.params)
            self.folder.release()
        return run

    def _status(self) -> str:
        if self.stopped is None:
            return "done"
        return "diverged" if isinstance(self.stopped, Diverged) else "interrupted"


def undertake(
    task: Task,
    out: Path | None = None,
    *,
    resume: bool = False,
    config: dict[str, Any] | None = None,
    room: Room | None = None,
    like: Session | None = None,
) -> Undertaking:
    """Sets a run up, in a new folder or in the one that it left.

    Args:
        config: what `config.yaml` shall say; by default a description of the task.
        room, like: see `open_session`.
    """
    folder = RunFolder(out) if out is not None else None
    if folder is not None and not resume:
        hosts.from_lead(partial(refuse_if_used, folder.path))
    began = time.perf_counter()
    session = open_session(task, room, like)
    if config is None:
        config = describe(session, task.settings) | ({} if folder is None else {PROGRAM: _program(task)})
    config = config | _resolved(session)
    metrics: list[dict[str, Any]] = []
    before = 0.0
    if folder is not None and resume:
        hosts.from_lead(folder.hold)
        try:
            hosts.from_lead(partial(_refuse_if_other, folder, session, config))
            metrics, before = _take_up(folder, session, task.settings, config)
            hosts.from_lead(partial(folder.rewrite_config, config))
            _complete(folder, session, task.settings, metrics)
        except BaseException:
            folder.release()
            raise
    elif folder is not None:
        hosts.from_lead(partial(folder.create, config, task.federation))
        hosts.from_lead(folder.hold)
    folder = folder if hosts.lead() else None
    # Where workers differ this compiles: part of setting up, not of the rounds.
    session.clock.spent(min(1, task.settings.rounds))
    return Undertaking(session, task.settings, config, folder, metrics, int(session.state.t), began, before)


def _take_up(
    folder: RunFolder, session: Session, options: Settings, config: dict[str, Any]
) -> tuple[list[dict[str, Any]], float]:
    """Puts the newest checkpoint's state into the session and drops what was logged after it.

    Also the line of what was to be the last round, where a longer run would not have evaluated it.

    Returns:
        The metrics that stay, and the seconds that the run had taken.
    """
    kept = [session.state]

    def take_up() -> tuple[bool, list[dict[str, Any]], float]:
        checkpoints = Checkpoints(folder.checkpoints)
        try:
            done = checkpoints.latest()
            if done is None:
                return False, folder.rewind(0), 0.0
            if done > options.rounds:
                raise BadInput(
                    f"resume {folder.path}: {done} rounds are done already, more than rounds = {options.rounds}"
                )
            known = checkpoints.facts()
            if known.options is not None:
                # As `config.yaml` may have been edited.
                _refuse_changes(folder, known.options, config)
            kept[0] = _restored(folder, checkpoints, session, done)
            _refuse_gaps(folder, range(options.eval_every, done, options.eval_every))
            lines = folder.rewind(done, lambda t: t % options.eval_every == 0 or t == options.rounds)
            return True, lines, known.wall_seconds
        finally:
            checkpoints.close()

    found, metrics, before = hosts.from_lead(take_up)
    if found:
        session.put(hosts.shared(jax.device_get(kept[0])))
    return metrics, before


def _refuse_gaps(folder: RunFolder, rounds: range) -> None:
    """Metrics are on disk before a checkpoint that comes after them: what is missing was taken away since."""
    if missing := set(rounds).difference(line["round"] for line in folder.lines()):
        raise BadInput(
            f"resume {folder.path}: metrics.jsonl lacks round {min(missing)}, which comes before the last "
            "checkpoint: put it back as it was, or begin a new run"
        )


def _complete(folder: RunFolder, session: Session, options: Settings, metrics: list[dict[str, Any]]) -> None:
    """Evaluates a last round that became the last only now, and so was not evaluated when it was run."""
    t = int(session.state.t)
    if t == options.rounds > 0 and (not metrics or metrics[-1]["round"] != t):
        cohort = sorted(worker for worker, _ in session.cohort(t - 1))
        metrics.append(look(session) | {"cohort": cohort, "delta_norm": None})
        if hosts.lead():
            folder.append(metrics[-1])


def _restored(folder: RunFolder, checkpoints: Checkpoints, session: Session, done: int) -> RunState:
    """The newest checkpoint's state. Where workers were machines, what they keep lies beside it or elsewhere."""
    like, place = session.state, folder.path
    if not jax.tree.leaves(like.workers) or not (place / DEPLOYMENT).exists():
        return checkpoints.restore(like)
    known = gathered.rounds(place)
    if known is None or known > done:
        name = session.plan.algorithm.name
        raise BadInput(
            f"resume {place}: that run was deployed, and what {name} keeps from round to round is on "
            f"its workers' disks, not here; go on with: enlist deploy run DIR --resume {place}"
        )
    if known < done:
        return checkpoints.restore(like)  # simulated since
    server = checkpoints.restore(like._replace(workers=()))
    return server._replace(workers=jax.tree.map(jax.numpy.asarray, gathered.load(place, like.workers)))


def _refuse_if_other(folder: RunFolder, session: Session, config: dict[str, Any]) -> None:
    """What a folder holds must be this run."""
    _refuse_changes(folder, folder.config(), config)
    kept = session.plan.algorithm.name if jax.tree.leaves(session.state.workers) else None
    _refuse_other_rows(folder, session.federation, kept)


def refuse_if_other(out: Path, task: Task) -> None:
    """A finished run, begun from Python, must be one of this algorithm, model and federation to be taken for it."""
    folder = RunFolder(out)
    before = folder.config().get(PROGRAM)
    if before is not None:
        _refuse_other_program(folder, before, _program(task))
        _refuse_other_rows(folder, task.federation)


def _refuse_changes(folder: RunFolder, before: dict[str, Any], config: dict[str, Any]) -> None:
    for name in sorted(before.keys() | config.keys()):
        if name not in MAY_CHANGE and before.get(name) not in (config.get(name), *_left_open(name)):
            if name == PROGRAM:
                _refuse_other_program(folder, before[name], config[name])
                continue
            option = name.replace("_", "-")
            raise BadInput(
                f"resume {folder.path}: {option} is {config.get(name)!r} now but was {before.get(name)!r}; "
                f"only {' and '.join(sorted(MAY_CHANGE))} may change"
            )


def _program(task: Task) -> str:
    data, workers = task.federation.data, task.federation.workers
    x, y = data.x_train[0], data.y_train[0]
    return digest(task.algorithm, task.model, x, y, task.work, task.settings.precision, workers)


def _refuse_other_program(folder: RunFolder, before: str, now: str) -> None:
    """Another jax or another kind of machine traces otherwise: of those nothing can be said."""
    if before != now and before.partition(":")[0] == now.partition(":")[0]:
        raise BadInput(
            f"resume {folder.path}: the algorithm or the model computes something else now than when this run was "
            "begun; give the same ones, or another folder"
        )


def _left_open(name: str) -> tuple[Any, ...]:
    """What stands for a choice that was not made yet: a run that was deployed so far had none to make."""
    return {"execution": ("auto",), "eval_rows": (None,), PROGRAM: (None,)}.get(name, ())


def _refuse_other_rows(folder: RunFolder, federation: Federation, kept: str | None = None) -> None:
    """`kept` names an algorithm that keeps something with the workers."""
    if folder.fingerprint() in (None, federation.fingerprint()):
        return
    reason = "its rows, or who holds them, are others"
    if kept is not None:
        reason = f"the states that {kept} kept with the workers belong to rows that they no longer hold"
    raise BadInput(
        f"resume {folder.path}: the federation is not the one that this run was begun with: {reason}; give the same "
        "one, or begin a new run"
    )


def _resolved(session: Session) -> dict[str, Any]:
    """What was left to us came to this: kept, so that a resumed or repeated run is the same on any machine."""
    chosen = Execution(session.plan.lanes, session.plan.devices)
    return {
        "execution": chosen.name(session.plan.sampling.places(session.plan.workers)),
        "rows": session.settings.rows,
        "eval_rows": session.settings.eval_rows,
    }
