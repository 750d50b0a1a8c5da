"""enlist, with everything left to itself: the engine's own choice of devices and of workers side by side."""

from typing import Any

import networks
import numpy as np
import problem
from models import pfl_cnn
from serve import Line, Setup, Work, serve

from enlist import Epochs, Model, fedavg, federation, models
from enlist.engine import platform
from enlist.engine.session import open_session
from enlist.engine.simulate import make_task


class Engine:
    """A compiled run."""

    def __init__(self, setup: Setup) -> None:
        platform.prepare()
        self.work = setup.work
        x, y = problem.examples(self.work)
        task = make_task(
            fedavg(worker_lr=self.work.worker_lr, server_lr=self.work.server_lr),
            model(self.work.model),
            federation(x, y, x[:1000], y[:1000], worker=np.arange(len(y)) // self.work.rows),
            self.work.cohort,
            Epochs(self.work.epochs, self.work.batch),
            {},
        )
        self.session = open_session(task)
        self.session.advance(0, False)
        self.rounds = 0

    def advance(self, rounds: int) -> None:
        """A block of rounds, one program."""
        self.session.advance(rounds, False)
        self.rounds = rounds

    def done(self) -> Work:
        """The batches of the last round, drawn again; every round draws equally many."""
        last = self.session.drawn(int(self.session.state.t) - 1)
        batches = [batch for local in last for batch in local.batches]
        return Work(self.rounds * len(batches), self.rounds * sum(map(len, batches)))

    def params(self) -> networks.Params:
        """The global model."""
        return flat(self.session.params())


def model(name: str) -> Model:
    """The model with the common first weights."""
    plain = pfl_cnn() if name == "pfl_cnn" else getattr(models, name)()
    return plain._replace(init=lambda key, x: nested(networks.start(name)))


def nested(params: networks.Params) -> dict[str, Any]:
    """`{"a.b.w": ...}` as dicts in dicts, which is how enlist's own models keep theirs."""
    tree: dict[str, Any] = {}
    for name, value in params.items():
        *path, leaf = name.split(".")
        place = tree
        for part in path:
            place = place.setdefault(part, {})
        place[leaf] = value
    return tree


def flat(tree: dict[str, Any], prefix: str = "") -> networks.Params:
    """The way back."""
    found: networks.Params = {}
    for name, value in tree.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


if __name__ == "__main__":
    line = Line()
    setup = line.setup()
    serve(line, setup, Engine(setup), ["enlist", "jax"])
