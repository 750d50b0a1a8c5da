"""Telling the link whose keys to accept.

`python -m enlist.deploy.registration CONNECTION` reads lines `NAME KEY.PUB` and prints an answer to each: one process
for all keys, because Flower's command takes a second to start.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from enlist.deploy.environment import environment
from enlist.deploy.place import ServerPlace
from enlist.errors import EnlistError

CONNECTION = "enlist"
ALREADY = "already in use"
SECONDS = 120.0


def register(place: ServerPlace) -> None:
    """Registers the keys of all workers under their names, and keeps Flower's numbers for them.

    A link with a database knows the keys from before; that is as good.
    """
    workers = [place.worker(id) for id in range(place.workers)]
    if missing := next((worker.public_key for worker in workers if not worker.public_key.is_file()), None):
        raise EnlistError(f"{missing}: is missing, so that this worker cannot join")
    answers = _ask([f"{worker.name} {worker.public_key}" for worker in workers], place)
    numbers = _known(place)
    for worker, answer in zip(workers, answers, strict=True):
        message = str(answer.get("error-message", "no reason given"))
        if answer.get("success"):
            numbers[str(worker.id)] = answer["node-id"]
        elif ALREADY not in message:
            raise EnlistError(f"the key of {worker.name} was not registered: {message.splitlines()[-1]}")
    draft = place.nodes.with_suffix(".draft")
    draft.write_text(json.dumps(numbers, indent=2) + "\n")
    os.replace(draft, place.nodes)


def _ask(lines: list[str], place: ServerPlace) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "enlist.deploy.registration", CONNECTION]
    asked = "".join(f"{line}\n" for line in lines)
    try:
        done = subprocess.run(
            command,
            env=environment(place.home),
            input=asked,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise EnlistError(f"the keys were not registered within {SECONDS:g} s") from None
    answers = list(_documents(done.stdout))
    if len(answers) != len(lines):
        said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise EnlistError(f"the keys were not registered: {said[-1]}")
    return answers


def _documents(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects, one after the other."""
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        try:
            found, end = decoder.raw_decode(text)
        except ValueError:
            return
        yield found
        text = text[end:]


def _known(place: ServerPlace) -> dict[str, Any]:
    try:
        found = json.loads(place.nodes.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def main(connection: str) -> None:
    """Registers what is read, by Flower's own command."""
    from flwr.cli.app import app

    for line in sys.stdin:
        name, key = line.rstrip("\n").split(" ", 1)
        words = ["supernode", "register", str(Path(key)), connection, "--name", name, "--format", "json"]
        app(words, standalone_mode=False)


if __name__ == "__main__":
    main(sys.argv[1])
