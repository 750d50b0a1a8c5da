"""The bare server: a message to every worker, answers polled for; a line for each round says how long that took.

`asked.json` beside this file: workers, rounds, sizes (bytes of each array), poll, ttl and out, the file of the lines.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, MessageType
from flwr.serverapp import Grid, ServerApp

from bare.content import numbers, record, sizes_of

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """All rounds."""
    asked = json.loads((Path(__file__).parent / "asked.json").read_text())
    note(asked, pid=os.getpid())
    try:
        while len(list(grid.get_nodes())) < asked["workers"]:
            time.sleep(asked["poll"])
        for t in range(asked["rounds"]):
            content = numbers(asked["sizes"])
            note(asked, round=t, seconds=exchange(grid, asked, t, content))
    except Exception as error:
        note(asked, failed=f"{type(error).__name__}: {error}")
        raise


def exchange(grid: Grid, asked: dict[str, Any], t: int, content: Any) -> float:
    """One round's seconds."""
    began = time.monotonic()
    shared = record(content)
    sent = [
        Message(shared, node.node_id, MessageType.TRAIN, ttl=asked["ttl"], group_id=f"{t}")
        for node in grid.get_nodes()
    ]
    waiting = set(grid.push_messages(sent))
    if len(waiting) != asked["workers"]:
        raise RuntimeError(f"{len(waiting)} of {asked['workers']} messages were taken")
    while True:
        for reply in grid.pull_messages(list(waiting)):
            if reply.has_error():
                raise RuntimeError(reply.error.reason)
            if sizes_of(reply.content) != asked["sizes"]:
                raise RuntimeError("a reply is not of the size that was sent")
            waiting.discard(reply.metadata.reply_to_message_id)
        if not waiting:
            return time.monotonic() - began
        time.sleep(asked["poll"])


def note(asked: dict[str, Any], **facts: Any) -> None:
    """A line for whoever watches."""
    with open(asked["out"], "a") as file:
        file.write(json.dumps(facts) + "\n")
