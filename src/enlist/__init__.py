"""Federated learning where only some workers take part in each round and their data differ.

    >>> import enlist
    >>> data = enlist.datasets.digits()
    >>> fed = enlist.partition.digits(data, per_worker=2, workers=20, seed=0)
    >>> algo = enlist.fedavg(worker_lr=0.1, server_lr=1.0)
    >>> run = enlist.simulate(algo, enlist.models.logistic(), fed, cohort=5, rounds=3)
    >>> [line["round"] for line in run.metrics]
    [1, 2, 3]

Names are loaded when first used: `import enlist` itself costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from enlist.algorithms import encoding as encoding
    from enlist.algorithms.adaptive import adaptive as adaptive
    from enlist.algorithms.compressed import compressed as compressed
    from enlist.algorithms.cooperative import cooperative as cooperative
    from enlist.algorithms.cooperative import elastic as elastic
    from enlist.algorithms.core import Algorithm as Algorithm
    from enlist.algorithms.core import Decaying as Decaying
    from enlist.algorithms.core import PerStep as PerStep
    from enlist.algorithms.fedavg import fedavg as fedavg
    from enlist.algorithms.feddyn import feddyn as feddyn
    from enlist.algorithms.fednova import fednova as fednova
    from enlist.algorithms.fedopt import fedadagrad as fedadagrad
    from enlist.algorithms.fedopt import fedadam as fedadam
    from enlist.algorithms.fedopt import fedavgm as fedavgm
    from enlist.algorithms.fedopt import fedyogi as fedyogi
    from enlist.algorithms.fedprox import fedprox as fedprox
    from enlist.algorithms.loadaboost import loadaboost as loadaboost
    from enlist.algorithms.local_momentum import local_momentum as local_momentum
    from enlist.algorithms.mime import mime as mime
    from enlist.algorithms.mime import mimelite as mimelite
    from enlist.algorithms.scaffold import scaffold as scaffold
    from enlist.algorithms.slowmo import slowmo as slowmo
    from enlist.algorithms.work import Epochs as Epochs
    from enlist.algorithms.work import Steps as Steps
    from enlist.engine.run import Run as Run
    from enlist.engine.simulate import simulate as simulate
    from enlist.errors import BadInput as BadInput
    from enlist.errors import Diverged as Diverged
    from enlist.errors import EnlistError as EnlistError
    from enlist.options import Settings as Settings
    from enlist.participation import sampling as sampling
    from enlist.problem import augment as augment
    from enlist.problem import datasets as datasets
    from enlist.problem import models as models
    from enlist.problem import partition as partition
    from enlist.problem.adapters import as_model as as_model
    from enlist.problem.dataset import Dataset as Dataset
    from enlist.problem.federation import Federation as Federation
    from enlist.problem.federation import federation as federation
    from enlist.problem.models import Model as Model
    from enlist.studies.compare import compare as compare
    from enlist.studies.plan import plan as plan
    from enlist.studies.sweep import sweep as sweep
    from enlist.studies.tune import tune as tune

_HOME = {
    "Algorithm": "algorithms.core",
    "BadInput": "errors",
    "Dataset": "problem.dataset",
    "Decaying": "algorithms.core",
    "Diverged": "errors",
    "EnlistError": "errors",
    "Epochs": "algorithms.work",
    "Federation": "problem.federation",
    "Model": "problem.models",
    "PerStep": "algorithms.core",
    "Run": "engine.run",
    "Settings": "options",
    "Steps": "algorithms.work",
    "adaptive": "algorithms.adaptive",
    "as_model": "problem.adapters",
    "compare": "studies.compare",
    "compressed": "algorithms.compressed",
    "cooperative": "algorithms.cooperative",
    "elastic": "algorithms.cooperative",
    "fedadagrad": "algorithms.fedopt",
    "fedadam": "algorithms.fedopt",
    "fedavg": "algorithms.fedavg",
    "fedavgm": "algorithms.fedopt",
    "feddyn": "algorithms.feddyn",
    "federation": "problem.federation",
    "fednova": "algorithms.fednova",
    "fedprox": "algorithms.fedprox",
    "fedyogi": "algorithms.fedopt",
    "loadaboost": "algorithms.loadaboost",
    "local_momentum": "algorithms.local_momentum",
    "mime": "algorithms.mime",
    "mimelite": "algorithms.mime",
    "plan": "studies.plan",
    "scaffold": "algorithms.scaffold",
    "simulate": "engine.simulate",
    "slowmo": "algorithms.slowmo",
    "sweep": "studies.sweep",
    "tune": "studies.tune",
}
_ROOMS = {
    "augment": "problem.augment",
    "datasets": "problem.datasets",
    "encoding": "algorithms.encoding",
    "models": "problem.models",
    "partition": "problem.partition",
    "sampling": "participation.sampling",
}
__all__ = [*_HOME, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        found: Any = import_module(f"enlist.{_ROOMS[name]}")
    elif name in _HOME:
        found = getattr(import_module(f"enlist.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'enlist' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
