"""pfl-research. With several processes this one starts the others, as pfl's own variables describe them."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import asdict

from serve import Line, Setup, Work, serve

RANK, ADDRESSES = "PFL_WORKER_RANK", "PFL_WORKER_ADDRESSES"


class Helpers:
    """The processes of rank 1 and up. They speak the same protocol, and do every round together with this one."""

    def __init__(self, setup: Setup) -> None:
        self.processes: list[subprocess.Popen[str]] = []
        if setup.processes == 1 or RANK in os.environ:
            return
        os.environ[ADDRESSES] = ",".join(f"127.0.0.1:{free_port()}" for _ in range(setup.processes))
        for rank in range(1, setup.processes):
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, __file__],
                    env=os.environ | {RANK: str(rank)},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    bufsize=1,
                )
            )
        os.environ[RANK] = "0"
        self.tell(f"setup {json.dumps(asdict(setup))}")

    def tell(self, command: str) -> None:
        """The same command to all of them."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(command + "\n")

    def hear(self) -> list[dict]:
        """An answer from each."""
        return [json.loads(process.stdout.readline()) for process in self.processes if process.stdout]


class Together:
    """The training of this process and of its helpers as one."""

    def __init__(self, setup: Setup) -> None:
        self.helpers = Helpers(setup)
        # Importing pfl joins the group of processes, so the helpers must have been started.
        from pfl_training import PflTraining

        self.own = PflTraining(setup)
        self.helpers.hear()
        self.theirs: list[dict] = []

    def advance(self, rounds: int) -> None:
        """Rounds, each process with its share of the cohort."""
        self.helpers.tell(f"go {rounds}")
        self.own.advance(rounds)
        self.theirs = self.helpers.hear()

    def done(self) -> Work:
        """All processes' together."""
        steps, examples = self.own.done()
        steps += sum(answer["steps"] for answer in self.theirs)
        return Work(steps, examples + sum(answer["examples"] for answer in self.theirs))

    def params(self) -> dict:
        """The global model, which every process has."""
        return self.own.params()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


if __name__ == "__main__":
    line = Line()
    setup = line.setup()
    os.environ["PFL_PYTORCH_DEVICE"] = "cuda" if setup.device == "gpu" else "cpu"
    serve(line, setup, Together(setup), ["pfl", "torch"])
