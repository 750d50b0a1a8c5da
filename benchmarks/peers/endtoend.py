"""pfl's published benchmark as a whole: a process that starts, trains, evaluates every tenth round, and ends."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from environments import HERE
from process import PeerFailed
from workloads import PFL_CIFAR_ROUNDS

PROGRAMS = {"enlist": HERE / "pfl_cifar.py", "pfl": HERE / "programs" / "pfl_cifar_on_pfl.py"}
# On two cores a round takes seconds.
SHORT = {"enlist": {"cpu": 20, "gpu": PFL_CIFAR_ROUNDS}, "pfl": {"cpu": 20, "gpu": 100}}


def run(
    peer: str, python: str, variables: Mapping[str, str], device: str, rounds: int | None
) -> dict[str, Any]:
    """One run on random examples of CIFAR-10's shape; the program's last line is what it came to."""
    rounds = rounds or SHORT[peer][device]
    print(f"{peer} end to end, {rounds} rounds", file=sys.stderr)
    asked = [python, str(PROGRAMS[peer]), "--rounds", str(rounds), "--synthetic", "--json"]
    made = subprocess.run(asked, env=dict(variables), capture_output=True, text=True, check=False)
    if made.returncode:
        raise PeerFailed(f"{peer} end to end failed:\n{made.stderr[-2000:]}")
    return {"peer": peer, **json.loads(made.stdout.strip().splitlines()[-1])}
