"""A deployed run as the server and all workers know it: a file that Flower carries to them, and its meaning."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from enlist import __version__, own_file
from enlist.algorithms.core import Algorithm, data_and_schedules
from enlist.algorithms.work import LocalWork
from enlist.errors import BadInput
from enlist.launch import methods
from enlist.launch.problem import model
from enlist.options import RunOptions, unflatten
from enlist.options.deploy import ExchangeOptions
from enlist.problem.models import Model

NAME = "job.json"


@dataclass(frozen=True)
class Job:
    """What is to be done.

    Args:
        token: names this run for good: a server that is started again goes on with the same.
        config: the options, as `config.yaml` holds them.
        workers: m.
        classes: how many the labels have, None where numbers are predicted; all must agree on it.
        out: where the server leaves what it makes.
    """

    token: str
    config: Mapping[str, Any]
    exchange: ExchangeOptions
    workers: int
    classes: int | None
    out: str
    version: str = __version__

    def write(self, folder: Path) -> None:
        """For `read_job`."""
        (folder / NAME).write_text(json.dumps(asdict(self), indent=1))


@dataclass(frozen=True)
class Problem:
    """The job with its names become things.

    Args:
        rates: the numbers among the algorithm's rates, by name.
        schedules: the functions among them.
    """

    options: RunOptions
    algorithm: Algorithm
    model: Model
    work: LocalWork
    rates: dict[str, Any]
    schedules: dict[str, Any]


def read_job(folder: Path) -> Job:
    """What `write` left. Refused where another enlist wrote it: then bits, and perhaps messages, would differ."""
    told = json.loads((folder / NAME).read_text())
    if told["version"] != __version__:
        raise BadInput(
            f"the server runs enlist {told['version']}, this machine {__version__}: install the same"
        )
    return Job(**(told | {"exchange": ExchangeOptions(**told["exchange"])}))


def problem(job: Job, folder: Path) -> Problem:
    """The algorithm, model and work of a job.

    Args:
        folder: where a person's own files lie that its options name.
    """
    own = {name: own_file.moved(str(job.config[name]), name, folder) for name in ("model", "algorithm")}
    options = unflatten(RunOptions, dict(job.config) | own)
    algorithm = methods.algorithm(options.rule, options.method)
    return Problem(
        options,
        algorithm._replace(rates={}),
        model(options.problem, job.classes),
        methods.local_work(options.method),
        *data_and_schedules(algorithm.rates),
    )
