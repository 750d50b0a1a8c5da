"""The command `enlist`. Thin: it finds the command and its words, and turns errors into one line.

Nothing heavy is imported before it is needed, so that help and complaints come at once.
"""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tyro

from enlist.commands import (
    bound,
    compare,
    data,
    deploy,
    plan,
    report,
    reproduce,
    run,
    speedup,
    study,
    sweep,
    tune,
)
from enlist.commands.data import DataOptions
from enlist.commands.report import ReportOptions
from enlist.commands.shared import stop
from enlist.errors import BadInput, EnlistError, unknown
from enlist.options import RunOptions
from enlist.options.deploy import DeployRunOptions, InitOptions, LocalOptions, ServerOptions, WorkerOptions
from enlist.options.plan import PlanOptions
from enlist.options.project import BoundStudyOptions
from enlist.options.reproduce import ReproduceOptions
from enlist.options.speedup import SpeedupOptions
from enlist.options.study import CompareOptions, SweepOptions
from enlist.options.theory import BoundOptions
from enlist.options.tune import TuneOptions
from enlist.words import typed


class Command(NamedTuple):
    """What a command is for, the options it has, how its words are read, and what it does with them."""

    purpose: str
    options: type
    act: Callable[[Any, list[str]], None]
    read: Callable[..., tuple[dict[str, Any], list[str]]] = typed


COMMANDS = {
    "run": Command("simulate one run", RunOptions, run.act),
    "compare": Command(
        "several algorithms to one target, with their best rates, over seeds", CompareOptions, compare.act
    ),
    "sweep": Command(
        "a grid of options: runs of one shape in one program", SweepOptions, sweep.act, sweep.read
    ),
    "tune": Command("the best rates and local work, by successive halving", TuneOptions, tune.act, tune.read),
    "report": Command(
        "a page and pictures from runs, or anew from a comparison, sweep, tune, plan or study",
        ReportOptions,
        report.act,
    ),
    "plan": Command("which rates, how many rounds, MiB and seconds: by theory", PlanOptions, plan.act),
    "speedup": Command(
        "do n workers need n times fewer rounds? searched, with an interval", SpeedupOptions, speedup.act
    ),
    "reproduce": Command(
        "the paper's figures and tables, with a verdict on each of its claims",
        ReproduceOptions,
        reproduce.act,
    ),
    "bound": Command("the theorems, and Table 1, as numbers", BoundOptions, bound.act),
    "study bound": Command(
        "does the bound hold? measured on problems with known constants", BoundStudyOptions, study.bound
    ),
    "data": Command("list | fetch NAME | where NAME: the data sets", DataOptions, data.act),
    "deploy init": Command("keys and certificates for real machines", InitOptions, deploy.init),
    "deploy server": Command("start the server, on its machine", ServerOptions, deploy.server),
    "deploy worker": Command("start a worker, on the machine with its rows", WorkerOptions, deploy.worker),
    "deploy run": Command("one run on the workers that have joined", DeployRunOptions, deploy.run),
    "deploy local": Command("all of that on this machine, to try it", LocalOptions, deploy.local),
}
EPILOGUE = (
    "Each command has its own --help. Exit codes: 0 done, 1 ran and failed, 2 bad input, 130 interrupted."
)
HELP = ("-h", "--help")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command and exits with its code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _command(given)
    except EnlistError as error:
        stop(str(error), error.exit_code)
    except KeyboardInterrupt:
        stop("interrupted", 130)
    except BrokenPipeError:
        # Whoever read our output has gone away; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        stop(f"{error.filename or 'the system'}: {error.strerror or error}", 1)


def _command(given: list[str]) -> None:
    if not given or given[0] in (*HELP, "help"):
        print(_usage(list(COMMANDS)))
        return
    if given[0] in ("-V", "--version"):
        from importlib.metadata import version

        print(f"enlist {version('enlist')}")
        return
    if family := [name for name in COMMANDS if name.startswith(f"{given[0]} ")]:
        if given[1:2] and given[1] in (*HELP, "help"):
            print(_usage(family))
            return
        given = [_of_family(family, given), *given[2:]]
    if given[0] not in COMMANDS:
        raise unknown("command", given[0], dict.fromkeys(name.split()[0] for name in COMMANDS))
    command = COMMANDS[given[0]]
    if any(word in HELP for word in given):
        _help(command.options, given[0])
    command.act(*command.read(command.options, given[1:]))


def _of_family(family: list[str], given: list[str]) -> str:
    """The command of two words that was typed."""
    seconds = [name.split()[1] for name in family]
    if len(given) == 1:
        raise BadInput(
            f"{given[0]}: say which: {', '.join(seconds)}; for instance: enlist {family[-1]} --help"
        )
    if given[1] not in seconds:
        raise unknown(f"{given[0]} command", given[1], seconds)
    return " ".join(given[:2])


def _usage(names: list[str]) -> str:
    width = max(map(len, names))
    rows = "\n".join(f"  enlist {name:<{width}}  {COMMANDS[name].purpose}" for name in names)
    return f"usage: enlist COMMAND [OPTIONS]\n\n{rows}\n\n{EPILOGUE}"


def _help(options: type, command: str) -> None:
    """The options with their groups, defaults and meaning; exits."""
    config = (tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff)
    tyro.cli(options, args=["--help"], prog=f"enlist {command}", config=config)


if __name__ == "__main__":
    main()
