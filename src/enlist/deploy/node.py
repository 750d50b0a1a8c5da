"""A worker's process: it joins the server, and starts the worker app for each message that comes."""

from collections.abc import Sequence
from pathlib import Path

from enlist.deploy.environment import environment, program, reason
from enlist.deploy.link import toml_text
from enlist.deploy.place import WorkerPlace
from enlist.deploy.supervise import Child, Say, Supervisor, alone
from enlist.launch.local_hosts import free_port

# What Flower says, and what that means here.
MEANINGS = (
    (
        "[code: 2004]",
        "not let in: the server holds an earlier connection of it, for up to a minute, or has no such key",
    ),
    ("CERTIFICATE_VERIFY_FAILED", "the server's certificate is not of this deployment"),
)
# A server lets a worker that was killed in again after a minute: that moment should not be missed by much.
MOST_WAIT = 8.0


def work(place: WorkerPlace, data: Path, say: Say) -> None:
    """Starts a worker and keeps it up. Returns never; what interrupts it ends all processes.

    Args:
        place: the worker's folder.
        data: FILE.npz with its own rows.
        say: takes a line about what comes up and what had to be started again.
    """
    from enlist.deploy.rows import read_rows

    read_rows(data)
    with alone(place.lock, f"{place.folder}: worker {place.id} is already up on this machine"):
        for folder in (place.home, place.state):
            folder.mkdir(exist_ok=True)
        say(f"worker {place.id} joins the server at {place.address}; Ctrl-C stops it")
        with Supervisor(say) as supervisor:
            supervisor.start(_node(place, data.absolute()))
            supervisor.keep()


def _node(place: WorkerPlace, data: Path) -> Child:
    facts = f"id={place.id} data={toml_text(str(data))} home={toml_text(str(place.folder))}"

    def command() -> Sequence[str]:
        return [
            program("flower-supernode"),
            *("--superlink", place.address, "--root-certificates", str(place.ca)),
            *("--auth-supernode-private-key", str(place.key)),
            *("--host", "127.0.0.1", "--port", str(free_port())),
            *("--node-config", facts),
        ]

    return Child(
        name=f"worker {place.id}",
        command=command,
        environment=environment(place.home),
        log=place.log,
        sign="SuperNode ID:",
        reason=_reason,
        most_wait=MOST_WAIT,
    )


def _reason(log: str) -> str | None:
    return next((meaning for words, meaning in MEANINGS if words in log), None) or reason(log)
