"""What an operator asks of a server that is up: to start a run, how it is doing, to stop it."""

import json
import subprocess
from pathlib import Path
from typing import Any

from enlist.deploy.environment import environment, program
from enlist.deploy.link import is_up
from enlist.deploy.place import ServerPlace
from enlist.deploy.registration import CONNECTION
from enlist.errors import EnlistError

SECONDS = 120.0


def submit(place: ServerPlace, app: Path) -> int:
    """Starts a run of the Flower app in this folder, and returns its number."""
    answer = _ask(place, "the run was not started", "run", str(app.absolute()), CONNECTION)
    return int(answer["run-id"])


def status(place: ServerPlace, run_id: int) -> str:
    """Of a run: pending, starting, running, finished:completed, finished:failed or finished:stopped."""
    refused = f"run {run_id} was not found"
    answer = _ask(place, refused, "list", CONNECTION, "--run-id", str(run_id))
    runs = answer.get("runs") or []
    if not runs:
        raise EnlistError(refused)
    return str(runs[0]["status"])


def stop(place: ServerPlace, run_id: int) -> None:
    """Stops a run."""
    _ask(place, f"run {run_id} was not stopped", "stop", str(run_id), CONNECTION)


def _ask(place: ServerPlace, refused: str, *words: str) -> dict[str, Any]:
    """One of Flower's own commands, and its answer."""
    if not is_up(place):
        raise EnlistError(
            f"{refused}: the server is not up; start it with: enlist deploy server {place.root}"
        )
    try:
        done = subprocess.run(
            [program("flwr"), *words, "--format", "json"],
            env=environment(place.home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise EnlistError(f"{refused}: no answer within {SECONDS:g} s") from None
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {"error-message": done.stderr or done.stdout}
    if not isinstance(answer, dict) or not answer.get("success"):
        raise EnlistError(f"{refused}: {_last_line(answer)}")
    return answer


def _last_line(answer: Any) -> str:
    message = str(answer.get("error-message") or "") if isinstance(answer, dict) else str(answer)
    # Flower draws boxes around some complaints.
    lines = [line.strip(" │╰╯─-") for line in message.splitlines()]
    lines = [line for line in lines if line]
    return lines[-1] if lines else "Flower gave no reason"
