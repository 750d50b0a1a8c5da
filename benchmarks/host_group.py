"""Processes that carry out one run together over loopback, and take rounds when told to."""

import json
import os
import socket
import subprocess
from collections.abc import Sequence
from typing import Any

MEETING = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")


class Hosts:
    """Processes that carry out one run, each on its part of the cores."""

    def __init__(self, count: int, words: Sequence[str]):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        self._processes = [self._start(words, address, count, index) for index in range(count)]
        self.facts = self._answers()[0]

    @staticmethod
    def _start(words: Sequence[str], address: str, count: int, index: int) -> subprocess.Popen[str]:
        meeting = (address, str(count), str(index)) if count > 1 else ()
        given = {"JAX_PLATFORMS": "cpu"} | dict(zip(MEETING, meeting, strict=False))
        process = subprocess.Popen(
            words, env=os.environ | given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        cores = sorted(os.sched_getaffinity(0))
        # Before jax counts the cores, which takes longer than this.
        os.sched_setaffinity(process.pid, cores[index::count] or [cores[index % len(cores)]])
        return process

    def run(self, rounds: int) -> tuple[float, float]:
        """Wall seconds of the lead, CPU seconds of all."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{rounds}\n")
            process.stdin.flush()
        answers = self._answers()
        return answers[0]["wall"], sum(each["cpu"] for each in answers)

    def _answers(self) -> list[dict[str, Any]]:
        return [json.loads(process.stdout.readline()) for process in self._processes if process.stdout]

    def close(self) -> None:
        """Lets them end, together."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            process.wait()
