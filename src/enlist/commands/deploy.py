"""`enlist deploy init | server | worker | run | local`."""

import contextlib
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from enlist.commands.run import show
from enlist.commands.shared import hush, no_loose_words, plain_name, quiet, read_options, stop, unused
from enlist.errors import BadInput
from enlist.options import unflatten
from enlist.options.deploy import DeployRunOptions, InitOptions, LocalOptions, ServerOptions, WorkerOptions

MOST_SHOWN = 20
# Enough to see that it works: every round takes seconds, since Flower starts a process for each message.
LOCAL_ROUNDS = 5


def init(given: dict[str, Any], words: list[str]) -> None:
    """Makes the folder of a deployment, and says what to type."""
    if not words:
        raise BadInput(
            "deploy init: name the folder to make, for instance: enlist deploy init DIR --workers 3"
        )
    options = unflatten(InitOptions, given | _folder("init", words))
    _require_flower()
    from enlist.deploy import place

    made = place.init(Path(options.dir), options.host, options.port, options.workers)
    print(f"{made.root} holds a deployment of {made.workers} workers with the server at {made.address}.\n")
    print(_commands(Path(options.dir), made.workers))


def _commands(folder: Path, workers: int) -> str:
    """What to type, and where."""
    there = shlex.quote(str(folder))
    lines = [
        "On the server's machine:",
        f"  enlist deploy server {there}",
        f"On each worker's machine, where its own folder was copied to ({there}/workers/ID, and no other):",
    ]
    for id in range(min(workers, MOST_SHOWN)):
        lines.append(f"  enlist deploy worker {there}/workers/{id} --id {id} --data ROWS.npz")
    if workers > MOST_SHOWN:
        lines.append(f"  ... and so on, to --id {workers - 1}")
    lines += ["Then, on the server's machine:", f"  enlist deploy run {there} --rounds 50"]
    return "\n".join(lines)


def server(given: dict[str, Any], words: list[str]) -> None:
    """Starts the server and keeps it up."""
    options = unflatten(ServerOptions, given | _folder("server", words))
    _require_flower()
    from enlist.deploy import link, place, supervise

    found = place.server_place(Path(options.dir))

    def ready() -> None:
        say(f"ready at {found.address} for {found.workers} workers; Ctrl-C stops it")

    with supervise.ended_by_signals():
        link.serve(found, say, ready)


def worker(given: dict[str, Any], words: list[str]) -> None:
    """Starts a worker and keeps it up."""
    if missing := next((name for name in ("id", "data") if name not in given), None):
        raise BadInput(
            f"deploy worker: --{missing} is missing, as in: enlist deploy worker DIR --id 0 --data ROWS.npz"
        )
    options = unflatten(WorkerOptions, given | _folder("worker", words))
    _require_flower()
    from enlist.deploy import node, place, supervise

    found = place.worker_place(Path(options.dir), options.id)
    with supervise.ended_by_signals():
        node.work(found, Path(options.data), say)


def run(given: dict[str, Any], words: list[str]) -> None:
    """Runs an algorithm on the workers of a deployment."""
    _require_flower()
    options, hashes = read_options(DeployRunOptions, _exchange_of(given) | given | _folder("run", words))
    out = _out(options)
    hush()
    from enlist.deploy import operate, place

    found = place.server_place(Path(options.dir))
    with quiet(options.output.json), _interruptible(f"enlist deploy run {options.dir} --resume {out}", out):
        job = operate.prepare(operate.Asked.of(options), found.workers, out, hashes)
        ended = operate.run_deployed(found, job, say)
    _conclude(ended, out, options.output.json)


def local(given: dict[str, Any], words: list[str]) -> None:
    """Runs an algorithm on workers that are all on this machine."""
    no_loose_words("deploy local", words)
    _require_flower()
    if not given.keys() & {"resume", "config", "rounds"}:
        given = given | {"rounds": LOCAL_ROUNDS}
    options, hashes = read_options(LocalOptions, _exchange_of(given) | given)
    out = _out(options)
    hush()
    from enlist.deploy.local import run_locally
    from enlist.deploy.operate import Asked

    keep = None if options.output.keep is None else Path(options.output.keep)
    again = f"enlist deploy local --resume {out}" + (f" --keep {keep}" if keep else "")
    with quiet(options.output.json), _interruptible(again, out):
        ended = run_locally(Asked.of(options), hashes, out, keep, say)
    _conclude(ended, out, options.output.json)


def _exchange_of(given: dict[str, Any]) -> dict[str, Any]:
    """How messages were exchanged in a run that is to go on."""
    from enlist.deploy.operate import kept_exchange

    return kept_exchange(Path(given["resume"])) if "resume" in given else {}


@contextlib.contextmanager
def _interruptible(again: str, out: Path) -> Iterator[None]:
    """Ctrl-C, SIGTERM and a lost terminal end all that was started; the run can go on."""
    from enlist.deploy.supervise import ending_signals_handled

    with ending_signals_handled(signal.default_int_handler):
        try:
            yield
        except KeyboardInterrupt:
            begun = (out / "config.yaml").exists()
            stop(f"interrupted; go on with: {again}" if begun else "interrupted", 130)


def _conclude(ended: dict[str, Any], out: Path, as_json: bool) -> None:
    """Shows what the run came to, and leaves with the exit code for it."""
    if (out / "summary.json").exists():
        show(out, as_json)
    if ended["status"] != "done":
        stop(str(ended["reason"]), int(ended["exit"]))


def say(line: str) -> None:
    """A line of progress, at once."""
    print(line, flush=True)


def _folder(command: str, words: list[str]) -> dict[str, str]:
    """DIR, where it was typed."""
    no_loose_words(f"deploy {command}", words[1:])
    return {"dir": words[0]} if words else {}


def _out(options: DeployRunOptions | LocalOptions) -> Path:
    asked, problem = options.output, options.problem
    names = [options.rule.algorithm, Path(problem.model.partition(":")[0]).stem, Path(problem.dataset).stem]
    return Path(asked.resume or asked.out or unused("-".join(["deploy", *map(plain_name, names)])))


def _require_flower() -> None:
    from enlist.deploy.environment import require_flower

    require_flower()
