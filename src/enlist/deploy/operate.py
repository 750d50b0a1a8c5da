"""`enlist deploy run`: a run is checked, handed to Flower, watched, and started again when its server app died."""

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from enlist.deploy import control
from enlist.deploy.app_folder import make_app, own_files
from enlist.deploy.holdout import as_dataset, read_holdout
from enlist.deploy.job import Job
from enlist.deploy.ledger import EVENTS, parsed
from enlist.deploy.place import ServerPlace
from enlist.deploy.server_app import ENDED, STATUS
from enlist.engine import fit, platform
from enlist.engine.folder import RunFolder
from enlist.engine.progress import metric_words
from enlist.engine.rehearsal import rehearse
from enlist.engine.undertaking import DEPLOYMENT
from enlist.errors import BadInput, EnlistError
from enlist.launch import methods
from enlist.launch.problem import cohort, file_hashes, model
from enlist.launch.run import check_folder, check_names, complete_config
from enlist.options import OutputOptions, RunOptions
from enlist.options.deploy import DeployRunOptions, ExchangeOptions, LocalOptions
from enlist.participation import recorded

# Starts of the server app in a row without a new round, after which there is no sense in another.
MOST_STARTS = 3
START_SECONDS = 120.0
LOOK_SECONDS = 0.25

Say = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What was typed, as a run's options and those of a deployment."""

    run: RunOptions
    exchange: ExchangeOptions

    @staticmethod
    def of(options: DeployRunOptions | LocalOptions) -> "Asked":
        """From the options of either command."""
        run = RunOptions(
            options.problem, options.participation, options.rule, options.method, options.settings
        )
        return Asked(replace(run, output=OutputOptions(resume=options.output.resume)), options.exchange)


def prepare(
    asked: Asked, workers: int, out: Path, hashes: dict[str, Any], facts: dict[str, Any] | None = None
) -> Job:
    """Checks everything, then begins the folder of the run, or takes up the one that was begun.

    Args:
        workers: m.
        facts: of who holds what, where that is known here.
    """
    options, resumed = asked.run, asked.run.output.resume is not None
    platform.prepare()
    check_names(options.problem, options.participation, options.settings)
    if recorded.file_of(options.participation.sampling) is not None:
        raise BadInput(
            f"sampling = {options.participation.sampling}: workers cannot be made to come as recorded; simulate that"
        )
    for name in ("grad_norm", "worker_accuracy"):
        if getattr(options.settings, name):
            raise BadInput(
                f"{name.replace('_', '-')}: the server of a deployment has no rows of the workers; leave it out, or "
                "simulate that"
            )
    if options.problem.share_data and not facts:
        raise BadInput(
            "share-data: the workers of a deployment hold their rows already; leave it out, or simulate that"
        )
    if options.problem.workers not in (None, workers):
        raise BadInput(f"workers = {options.problem.workers}: this deployment has {workers}; leave it out")
    algorithm = methods.algorithm(options.rule, options.method)
    work = methods.local_work(options.method)
    if not resumed:
        check_folder(out)
    named = {"algorithm": options.rule.algorithm}
    found = file_hashes(
        options.problem, options.participation.sampling, options.settings.profile, named, hashes
    )
    participation, strategy = cohort(options.participation, workers)
    strategy.places(workers)
    rows = read_holdout(options.problem.dataset, workers, options.settings.seed)
    data = as_dataset(rows, options.problem.dataset)
    own = model(options.problem, rows.classes)
    fit.check_parts(algorithm, own, data, strategy, options.settings)
    rehearse(algorithm, own, rows.x[0], rows.y[0], work, options.settings.precision, workers)
    problem = replace(options.problem, workers=workers)
    config = complete_config(replace(options, problem=problem, participation=participation)) | found
    own_files(config)
    token = _begin(out, config, asked.exchange, resumed, facts or {"workers": workers})
    absolute = {"dataset": _absolute(options.problem.dataset)}
    return Job(token, config | absolute, asked.exchange, workers, rows.classes, str(out.absolute()))


def run_deployed(place: ServerPlace, job: Job, say: Say) -> dict[str, Any]:
    """Has Flower carry a job out, and returns how it ended."""
    out = Path(job.out)
    make_app(out / "app", job)
    starts, last = 0, 0
    seen = Seen(out, job, say)
    while True:
        for name in (STATUS, ENDED):
            (out / name).unlink(missing_ok=True)
        run_id = control.submit(place, out / "app")
        try:
            ended = _watch(place, run_id, out, seen)
        except BaseException:
            _stop(place, run_id)
            raise
        if ended is not None:
            seen.look()
            return ended
        _stop(place, run_id)
        starts = 0 if seen.t > last else starts + 1
        last = seen.t
        if starts >= MOST_STARTS:
            raise EnlistError(
                f"the server app ended {starts} times in round {seen.t + 1} without saying why: see {place.exec_log}"
            )
        say(f"the server app is gone; it is started again and goes on after round {seen.t}")


def _watch(place: ServerPlace, run_id: int, out: Path, seen: "Seen") -> dict[str, Any] | None:
    """Until the server app has ended: how, or None where it died."""
    since = time.monotonic()
    while True:
        time.sleep(LOOK_SECONDS)
        seen.look()
        status, ended = _read(out / STATUS), _read(out / ENDED)
        if ended is not None:
            return ended
        if status is not None and not _alive(int(status["pid"])):
            # It may have said so between the two looks.
            return _read(out / ENDED)
        if status is None and time.monotonic() - since > START_SECONDS:
            how = control.status(place, run_id)
            raise EnlistError(
                f"the server app did not start within {START_SECONDS:g} s (Flower says {how}): see {place.exec_log}"
            )


class Seen:
    """What has been shown of a run: its rounds, and what was out of the ordinary."""

    def __init__(self, out: Path, job: Job, say: Say):
        self.t = 0
        self._out, self._job, self._say = out, job, say
        self._doing = ""
        self._events = _count_lines(out / EVENTS)

    def look(self) -> None:
        """Shows what is new."""
        self._show_events()
        status = _read(self._out / STATUS)
        if status is None:
            return
        if (t := int(status["round"])) > self.t:
            self.t = t
            self._say(self._round(t))
        doing = str(status["doing"])
        if doing != self._doing and doing.startswith("waiting"):
            self._say(doing)
        self._doing = doing

    def _round(self, t: int) -> str:
        lines = [line for line in RunFolder(self._out).lines() if line["round"] == t]
        words = metric_words(lines[-1]) if lines else ""
        return f"round {t}/{self._job.config['rounds']}  {words}".rstrip()

    def _show_events(self) -> None:
        path = self._out / EVENTS
        if not path.exists():
            return
        lines = path.read_text().splitlines(keepends=True)
        for text in lines[self._events :]:
            if text.endswith("\n"):
                self._events += 1
                if (event := parsed(text)) is not None and (words := in_words(event)):
                    self._say(words)


def in_words(event: dict[str, Any]) -> str:
    """A line of `events.jsonl` for a person; empty for what need not be said.

    Example:
        >>> in_words({"what": "refused", "round": 2, "worker": 1, "cause": "it holds NaN"})
        'round 3: the reply of worker 1 is not used: it holds NaN'
    """
    where = f"round {event['round'] + 1}"
    if event["what"] == "refused":
        return f"{where}: the reply of worker {event['worker']} is not used: {event['cause']}"
    if event["what"] == "abandoned":
        return f"{where} is abandoned: {event['cause']}"
    if event["what"] == "resumed":
        return f"going on after round {event['round']}"
    counts = ", ".join(f"{event[name]} {name}" for name in ("late", "doubled", "unsolicited") if event[name])
    return f"{where}: replies dropped: {counts}"


def _begin(
    out: Path, config: dict[str, Any], exchange: ExchangeOptions, resumed: bool, facts: dict[str, Any]
) -> str:
    """The token of the run whose folder this is."""
    folder, path = RunFolder(out), out / DEPLOYMENT
    if not resumed:
        token = secrets.token_hex(8)
        folder.begin(config, facts)
        path.write_text(json.dumps({"token": token, "exchange": vars(exchange)}, indent=1) + "\n")
        return token
    kept = _read(path)
    if kept is None:
        raise BadInput(f"resume {out}: that run was not deployed; go on with: enlist run --resume {out}")
    # Whoever still runs it is told from one that ended by this.
    folder.hold()
    folder.release()
    _refuse_changes(out, folder.config(), config)
    folder.rewrite_config(config)
    path.write_text(json.dumps(kept | {"exchange": vars(exchange)}, indent=1) + "\n")
    return str(kept["token"])


def _refuse_changes(out: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    for name in sorted(before.keys() | now.keys()):
        if name not in ("rounds", "target") and before.get(name) != now.get(name):
            option = name.replace("_", "-")
            raise BadInput(
                f"resume {out}: {option} is {now.get(name)!r} now but was {before.get(name)!r}; only rounds and "
                "target may change"
            )


def kept_exchange(out: Path) -> dict[str, Any]:
    """How messages were exchanged in the run of this folder; nothing where there is none."""
    kept = _read(out / DEPLOYMENT)
    return {} if kept is None else dict(kept["exchange"])


def _absolute(dataset: str) -> str:
    """Flower's processes work elsewhere."""
    return str(Path(dataset).absolute()) if Path(dataset).exists() else dataset


def _stop(place: ServerPlace, run_id: int) -> None:
    """So that its orders are not worked on any more; a run that is over needs none of it."""
    with contextlib.suppress(EnlistError):
        control.stop(place, run_id)


def _alive(pid: int) -> bool:
    """Whether a process of this machine still runs; one that nobody has buried does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return state != "Z"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _count_lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0
