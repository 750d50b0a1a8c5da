"""The measuring end of the line: one process a peer, asked in turns."""

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SHOWN = 15


class PeerFailed(Exception):
    """A peer that ended, or answered nothing that can be read; the message ends with its last words."""


class Peer:
    """A peer's process. Its standard error goes to a file, whose end is shown if the process fails.

    Args:
        name: how messages call it.
        command: the program, which speaks the protocol of `serve`.
        environment: its whole environment.
        log: where its standard error goes.
        patience: seconds that an answer may take.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path, patience: float
    ) -> None:
        self.name, self.log, self.patience = name, log, patience
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
                start_new_session=True,
            )
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def ask(self, command: str) -> dict[str, Any]:
        """Sends one command and waits for its answer."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(command + "\n")
            line = self.lines.get(timeout=self.patience)
            return dict(json.loads(line))
        except queue.Empty:
            raise self._failed(f"did not answer within {self.patience:g} s") from None
        except (BrokenPipeError, json.JSONDecodeError):
            raise self._failed("ended or answered nonsense") from None

    def close(self) -> None:
        """Lets the process end; what has not ended by then is killed, with everything in its session."""
        try:
            assert self.process.stdin is not None
            self.process.stdin.write("quit\n")
            self.process.stdin.close()
        except (BrokenPipeError, ValueError):
            pass
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("the peer has ended")

    def _failed(self, how: str) -> PeerFailed:
        said = self.log.read_text(errors="replace").strip().splitlines()[-SHOWN:]
        return PeerFailed("\n".join([f"{self.name} {how}; the end of {self.log}:", *said]))
