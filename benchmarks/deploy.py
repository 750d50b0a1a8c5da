"""What a round on real workers costs, beside Flower's engine alone: `python benchmarks/deploy.py`.

On one machine over loopback, with TLS and keys. There is a deployment for each number of workers. On it take turns:
FedAvg with all workers on a few rows, and a Flower app without enlist or jax, whose server polls as ours does and
whose workers answer at once. The messages of that app are empty; beside a large model, which the fewest workers alone
are sent, they hold as many random bytes each way, in one array (with --same-arrays also in arrays like the model's).
Seconds of a round are those that the server counts; the first round of each run stands apart; medians of the others.
CPU seconds are those of all processes of the deployment, from the end of one round to the end of the next.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import deploy_cpu
import deploy_share
from deploy_processes import MODELS, Deployment, Mark, deployed, run_bare, run_enlist, start_local
from deploy_tables import BARE, MB, Facts, Run, compared, of_marks, report, row

from enlist.deploy.all_up import ROWS
from enlist.errors import BadInput, EnlistError

LARGE = "resnet18"
# Above this a round takes long.
MANY = 5
TURNS, REPEATS = 2, 4
IDLE_SECONDS = 4.0


class Case(NamedTuple):
    """enlist with this model, and beside it the engine alone."""

    workers: int
    model: str

    @property
    def slow(self) -> bool:
        """Whether a round takes so long that fewer of them must do."""
        return self.model == LARGE or self.workers > MANY


def main() -> int:
    """Measures and prints; with --json also writes the numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", default="3,10", help="several with commas")
    parser.add_argument("--models", default=f"two_nn,{LARGE}", help=f"of {', '.join(MODELS)}")
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help="of each kind, beside the first of each run; 3/5 of that where they are slow",
    )
    parser.add_argument(
        "--same-arrays",
        action="store_true",
        help="also the engine alone with as many arrays as the large model has",
    )
    parser.add_argument("--json", type=Path, help="a .json file for the numbers")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _leave)
    try:
        if options.rounds < 1:
            raise BadInput(f"rounds = {options.rounds}: must be 1 or more")
        facts = measure(cases(options.workers, options.models), options.rounds, options.same_arrays)
        print(f"\n{report(facts)}")
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(facts, indent=2) + "\n")
    except (EnlistError, OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        print(f"deploy: {' '.join(str(error).split()) or type(error).__name__}", file=sys.stderr)
        return 2 if isinstance(error, BadInput) else 1
    except KeyboardInterrupt:
        return 130
    return 0


def cases(workers: str, models: str) -> dict[int, list[Case]]:
    """By number of workers. Large messages go to the fewest workers alone."""
    try:
        counts = sorted({int(text) for text in workers.split(",")})
    except ValueError:
        raise BadInput(f"workers = {workers}: must be numbers with commas between, such as 3,10") from None
    names = list(dict.fromkeys(models.split(",")))
    if unknown := [name for name in names if name not in MODELS]:
        raise BadInput(f"models = {unknown[0]}: must be of {', '.join(MODELS)}")
    if counts[0] < 1:
        raise BadInput(f"workers = {counts[0]}: must be 1 or more")
    made = {m: [Case(m, name) for name in names if name != LARGE or m == counts[0]] for m in counts}
    return {m: some for m, some in made.items() if some}


def shares(rounds: int, slow: bool = False, turns: int = TURNS) -> list[int]:
    """Rounds of each turn, as even as can be, and none without a round."""
    wanted = -(-3 * rounds // 5) if slow else rounds
    return [max(1, len(range(turn, wanted, turns))) for turn in range(turns)]


def measure(plan: dict[int, list[Case]], rounds: int, same_arrays: bool) -> Facts:
    """Everything, in a folder that does not stay."""
    began = time.monotonic()
    rows: list[Facts] = []
    idle, share = {}, {}
    with tempfile.TemporaryDirectory(prefix="enlist-deploy-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # A cache of its own: what compiling costs is to be seen.
        os.environ["ENLIST_CACHE"] = str(folder / "cache")
        os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
        for workers, some in plan.items():
            say(f"starting a server and {workers} of its workers")
            with deployed(folder / f"m{workers}", workers) as up:
                idle[workers] = idling(up)
                rows += in_turns(up, some, rounds, same_arrays)
        for case in next(iter(plan.values())):
            say(f"{case.model}: where the time of a worker's process goes")
            run = folder / f"m{case.workers}" / f"{case.model}-0"
            rows_of = folder / f"m{case.workers}" / f"{case.model}-{ROWS}"
            home = folder / f"share-{case.model}"
            share[case.model] = deploy_share.measure(run / "app" / "enlist_run", rows_of, home, REPEATS)
        starts = starting(folder, min(plan))
    return {
        "command": typed(sys.argv[1:]),
        "machine": machine(),
        "rows": compared(rows),
        "idle_cpu_seconds_a_second": idle,
        "worker_process_seconds": share,
        "start_seconds": starts,
        "measured_in_seconds": time.monotonic() - began,
    }


def in_turns(up: Deployment, some: Sequence[Case], rounds: int, same_arrays: bool) -> list[Facts]:
    """The lines of the table for one deployment."""
    seen: dict[tuple[str, int], list[Run]] = {}

    def note(who: str, nbytes: int, marks: list[Mark]) -> None:
        run = of_marks(marks)
        seen.setdefault((who, nbytes), []).append(run)
        told = ", ".join(f"{seconds:.1f}" for seconds in run.seconds)
        say(f"  {who}, {nbytes / MB:.1f} MB: first {run.first:.1f} s, then {told} s")

    for turn in range(TURNS):
        for case in some:
            again, out = 1 + shares(rounds, case.slow)[turn], up.folder / f"{case.model}-{turn}"
            marks = run_enlist(up, out, again, case.model)
            _keep_rows(up, case.model)
            sizes = array_sizes(out / "model.safetensors")
            note(f"enlist, {case.model}", sum(sizes), marks)
            for who, like in engines(case, sizes, same_arrays).items():
                # Several small models have one engine to stand beside.
                if len(seen.get((who, sum(like)), [])) <= turn:
                    bare = up.folder / f"bare-{sum(like)}-{len(like)}-{turn}"
                    note(who, sum(like), run_bare(up, bare, again, like))
    return [row(up.place.workers, who, nbytes, runs) for (who, nbytes), runs in seen.items()]


def engines(case: Case, sizes: list[int], same_arrays: bool) -> dict[str, list[int]]:
    """The engine alone, and the bytes of the arrays in its messages."""
    if case.model != LARGE:
        return {BARE: []}
    return {BARE: [sum(sizes)]} | ({f"{BARE}, {len(sizes)} arrays": sizes} if same_arrays else {})


def array_sizes(path: Path) -> list[int]:
    """Bytes of each array of a model, which are those of its messages."""
    from safetensors.numpy import load_file

    return [array.nbytes for array in load_file(path).values()]


def _keep_rows(up: Deployment, model: str) -> None:
    """Worker 0's, which another model's will replace."""
    own = up.place.worker(0).folder / ROWS
    (up.folder / f"{model}-{ROWS}").write_bytes(own.read_bytes())


def idling(up: Deployment) -> float:
    """CPU seconds a second of a deployment that has nothing to do."""
    # What it did to come up is not idling.
    time.sleep(IDLE_SECONDS / 2)
    before = deploy_cpu.spent([up.keeper.pid])
    began = time.monotonic()
    time.sleep(IDLE_SECONDS)
    after = deploy_cpu.spent([up.keeper.pid])
    return (sum(after.values()) - sum(before.values())) / (time.monotonic() - began)


def starting(folder: Path, workers: int) -> list[Facts]:
    """`enlist deploy local`, when nothing is compiled for it yet, and again."""
    found: list[Facts] = []
    for number, cache in enumerate(("empty", "filled")):
        say(f"enlist deploy local with {workers} workers, cache {cache}")
        found.append({"cache": cache, "workers": workers} | start_local(folder / f"local-{number}", workers))
    return found


def typed(words: Sequence[str]) -> str:
    """The command, less where the numbers went."""
    kept = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if before != "--json" and word != "--json" and not word.startswith("--json=")
    ]
    return " ".join(["python benchmarks/deploy.py", *kept])


def machine() -> Facts:
    """Where this ran."""
    from importlib.metadata import version

    from rounds import machine as described

    found = described()
    return found | {"versions": found["versions"] | {"flwr": version("flwr")}}


def say(line: str) -> None:
    """What is being done."""
    print(line, flush=True)


def _leave(*_: object) -> NoReturn:
    """So that everything is cleaned up."""
    raise SystemExit(143)


if __name__ == "__main__":
    sys.exit(main())
