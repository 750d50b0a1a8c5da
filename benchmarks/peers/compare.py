"""The same federated training in enlist and in its peers, in one run: `python benchmarks/peers/compare.py --help`.

Every peer is a process of its own in an environment of its own. Warm-up is left out, repeats are in turns, and equal
work is checked: steps, examples, and the training loss from common first weights. Exit code 1 if it is not equal.
"""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import endtoend
import machine
import report
from checks import UnequalWork, unknown
from environments import HERE, REPOSITORY, folder_for, python_of
from lineup import PEERS, Way, environment, ways
from measure import Plan, measure
from process import Peer, PeerFailed
from workloads import PFL_CIFAR_EVERY, workload


def main() -> int:
    """Measures, prints, writes."""
    options = arguments()
    if options.report:
        report.rewrite(options.out)
        return 0
    slug, described = machine.describe(options.device)
    plan = Plan(options.repeats, options.rounds, options.seconds)
    try:
        pythons = {name: python(name, options) for name in options.peers}
        for name in options.workloads:
            result = one(name, options, plan, pythons)
            print(
                f"\n{report.described(name, workload(name))}\n{described}\n\n{report.table(result['rows'])}",
                flush=True,
            )
            if result.get("end_to_end"):
                print(f"\n{report.end_to_end(result['end_to_end'])}", flush=True)
            report.write(options.out, slug, described, {name: result})
    except (UnequalWork, PeerFailed) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"compare: {shlex.join(map(str, error.cmd))} failed", file=sys.stderr)
        return 1
    return 0


def arguments() -> argparse.Namespace:
    """What was asked for; a name that nobody has is refused."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--workloads",
        type=listed,
        default="two_nn:10,two_nn:100,cnn:10",
        help="MODEL:COHORT with two_nn, cnn or resnet18 (minutes a round on a CPU), or pfl_cifar",
    )
    parser.add_argument("--peers", type=listed, help=f"of {', '.join(PEERS)} (all; on a GPU all but flower)")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="of each repeat, about, and at least one round"
    )
    parser.add_argument("--rounds", type=int, help="of each repeat, instead of --seconds")
    parser.add_argument("--environments", type=Path, default=REPOSITORY / ".venv-peers")
    parser.add_argument(
        "--no-install", action="store_true", help="this Python for all, with what is on its path"
    )
    parser.add_argument("--patience", type=float, default=1800.0, help="seconds that one answer may take")
    parser.add_argument(
        "--cifar-rounds", type=int, help="of enlist end to end (pfl_cifar; 1500, on a CPU 20)"
    )
    parser.add_argument("--pfl-rounds", type=int, help="of pfl end to end (pfl_cifar; 100, on a CPU 20)")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "results" / "peers.md")
    parser.add_argument("--report", action="store_true", help="only write the page anew from the .json files")
    options = parser.parse_args()
    if options.peers is None:
        options.peers = [name for name in PEERS if options.device == "cpu" or name != "flower"]
    if wrong := unknown(options.peers, list(PEERS)):
        parser.error(f"peers {', '.join(wrong)}: there are {', '.join(PEERS)}")
    if min(options.repeats, options.rounds or 1) < 1 or options.seconds <= 0:
        parser.error("repeats, rounds and seconds must be positive")
    if (options.cifar_rounds or 0) % PFL_CIFAR_EVERY or (options.pfl_rounds or 0) % PFL_CIFAR_EVERY:
        parser.error(
            f"cifar-rounds and pfl-rounds must be multiples of {PFL_CIFAR_EVERY}, one evaluation each"
        )
    for name in options.workloads:
        try:
            workload(name)
        except ValueError as error:
            parser.error(str(error))
    return options


def listed(text: str) -> list[str]:
    """Names between commas."""
    return [name for name in text.split(",") if name]


def python(name: str, options: argparse.Namespace) -> str:
    """The Python that runs a peer."""
    if options.no_install:
        return sys.executable
    return str(python_of(PEERS[name].requirements, folder_for(options.environments)))


def one(name: str, options: argparse.Namespace, plan: Plan, pythons: dict[str, str]) -> dict[str, Any]:
    """One workload, measured."""
    possible = {peer: ways(peer, options.device, machine.cores()) for peer in options.peers}
    rows = measure(name, possible, starter(options, pythons), options.device, plan)
    result: dict[str, Any] = {"command": command(), "rows": rows}
    if name == "pfl_cifar":
        rounds = {"enlist": options.cifar_rounds, "pfl": options.pfl_rounds}
        result["end_to_end"] = [
            endtoend.run(
                row["peer"],
                pythons[row["peer"]],
                variables(row["peer"], options.device, alone(row["tried"])),
                options.device,
                rounds[row["peer"]],
            )
            for row in rows
            if row["peer"] in rounds
        ]
    return result


def alone(tried: dict[str, float]) -> Way:
    """The quickest of the ways that need one process."""
    ways = [Way(*map(int, text.split(" x "))) for text in sorted(tried, key=lambda text: tried[text])]
    return next(way for way in ways if way.processes == 1)


def starter(options: argparse.Namespace, pythons: dict[str, str]) -> Callable[[str, Way], Peer]:
    """How a peer's process is started."""
    logs = folder_for(options.environments) / "logs"
    logs.mkdir(exist_ok=True)

    def start(name: str, way: Way) -> Peer:
        print(f"starting {PEERS[name].title}, {way}", file=sys.stderr)
        program = str(HERE / "programs" / PEERS[name].program)
        log = logs / f"{name}.log"
        return Peer(
            name, [pythons[name], program], variables(name, options.device, way), log, options.patience
        )

    return start


def variables(name: str, device: str, way: Way) -> dict[str, str]:
    """A peer's whole environment: this one's, the peer's own settings, and where the shared modules are."""
    path = [str(HERE), *([str(REPOSITORY / "src")] if name == "enlist" else [])]
    path += [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    return dict(os.environ) | environment(name, device, way) | {"PYTHONPATH": os.pathsep.join(path)}


def command() -> str:
    """What was typed, less where things lie on this machine."""
    words, kept = iter(sys.argv[1:]), []
    for word in words:
        if word in ("--out", "--environments"):
            next(words, None)
        else:
            kept.append(word)
    return shlex.join(["python", "benchmarks/peers/compare.py", *kept])


if __name__ == "__main__":
    sys.exit(main())
