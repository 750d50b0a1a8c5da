"""Names of methods, optimizers and encodings become algorithms here, and amounts of work local work."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import optax

from enlist import own_file
from enlist.algorithms import encoding
from enlist.algorithms.adaptive import adaptive
from enlist.algorithms.compressed import compressed
from enlist.algorithms.cooperative import cooperative, elastic
from enlist.algorithms.core import Algorithm, Decaying
from enlist.algorithms.fedavg import Optimizer, fedavg
from enlist.algorithms.feddyn import feddyn
from enlist.algorithms.fednova import fednova
from enlist.algorithms.fedopt import fedadagrad, fedadam, fedavgm, fedyogi
from enlist.algorithms.fedprox import fedprox
from enlist.algorithms.loadaboost import loadaboost
from enlist.algorithms.local_momentum import local_momentum
from enlist.algorithms.mime import mime, mimelite
from enlist.algorithms.scaffold import scaffold
from enlist.algorithms.slowmo import slowmo
from enlist.algorithms.work import Epochs, LocalWork, Steps, parse_schedule
from enlist.errors import BadInput, unknown
from enlist.options import AlgorithmOptions, MethodOptions, RunOptions, flatten

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "fedavg": fedavg,
    "fedprox": fedprox,
    "scaffold": scaffold,
    "fedavgm": fedavgm,
    "fedadagrad": fedadagrad,
    "fedadam": fedadam,
    "fedyogi": fedyogi,
    "slowmo": slowmo,
    "local-momentum": local_momentum,
    "fednova": fednova,
    "feddyn": feddyn,
    "mime": mime,
    "mimelite": mimelite,
    "cooperative": cooperative,
    "elastic": elastic,
    "adaptive": adaptive,
    "loadaboost": loadaboost,
}
# Options that are handed to a method under the same name.
METHOD_OPTIONS = (
    "worker_lr",
    "server_lr",
    "weighting",
    "mu",
    "variates",
    "momentum",
    "buffers",
    "alpha",
    "beta1",
    "beta2",
    "tau",
    "mixing",
    "elasticity",
    "step_seconds",
    "round_seconds",
    "budget",
    "phi",
)
# Options of the command line that any method takes.
COMMON_OPTIONS = (
    "worker_decay",
    "compress",
    "compress_down",
    "error_feedback",
    "local_epochs",
    "local_steps",
    "local_schedule",
    "batch",
)
DEFAULT_EPOCHS = 5
# Parameters of a person's own function that options set.
SET_ELSEWHERE = {
    **{name: f"--{name.replace('_', '-')}" for name in METHOD_OPTIONS},
    **{side: f"--{side}-optimizer" for side in ("worker", "server")},
}


def maker(name: str) -> Callable[..., Algorithm]:
    """What makes the method of that name, or of a person's own file."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    own = own_file.function(name, "algorithm", SET_ELSEWHERE)
    plain, *pairs = own_file.PAIR.split(name)
    if plain in ALGORITHMS:
        raise BadInput(
            f"algorithm {name}: type --algorithm {plain} {' '.join(f'--{pair}' for pair in pairs)}"
        )
    if own is None:
        raise unknown("algorithm", name, [*ALGORITHMS, "FILE.py:FUNCTION"])
    return own


def parted(label: str) -> tuple[str, list[str]]:
    """A method of several that are named, and the options that follow it: fedprox+mu=0.1.

    What is no option of a run stays with the method: it is a parameter of a function of a person's own.
    """
    name, *pairs = own_file.PAIR.split(label)
    if own_file.named(name, "algorithm") is None:
        return name, pairs
    options = flatten(RunOptions())
    mine = [pair for pair in pairs if pair.partition("=")[0].replace("-", "_") not in options]
    return "+".join([name, *mine]), [pair for pair in pairs if pair not in mine]


def takes(name: str) -> set[str]:
    """The options, by their names on the command line, that a method has; unknown methods are refused."""
    parameters = inspect.signature(maker(name)).parameters
    sides = {f"{side}_optimizer" for side in ("worker", "server") if side in parameters}
    return {*COMMON_OPTIONS, *sides, *(each for each in METHOD_OPTIONS if each in parameters)}


def algorithm(rule: AlgorithmOptions, options: MethodOptions) -> Algorithm:
    """The algorithm by its name, with the options that are its own; others are refused."""
    known = takes(rule.algorithm)
    if "worker_lr" not in known:
        raise BadInput(f"{rule.algorithm}: its function must take worker_lr, which --worker-lr sets")
    given = vars(rule) | vars(options)
    for name, value in given.items():
        if name != "algorithm" and value is not None and name not in known:
            raise BadInput(
                f"{name.replace('_', '-')} = {value}: {rule.algorithm} has no such option; leave it out"
            )
    arguments = {name: given[name] for name in METHOD_OPTIONS if given[name] is not None}
    if options.worker_decay is not None:
        arguments["worker_lr"] = Decaying(rule.worker_lr, options.worker_decay)
    for side in ("worker", "server"):
        if (typed := given[f"{side}_optimizer"]) is not None:
            arguments[side] = optimizer(f"{side}-optimizer", typed)
    return _compressed(options, _made(rule.algorithm, arguments))


def _made(name: str, arguments: dict[str, Any]) -> Algorithm:
    try:
        made = maker(name)(**arguments)
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"{name} failed: {own_file.cause(error)}") from error
    if not isinstance(made, Algorithm):
        raise BadInput(f"{name}: must return an enlist.Algorithm, not {type(made).__name__}")
    return made


def _compressed(options: MethodOptions, plain: Algorithm) -> Algorithm:
    """The algorithm with its messages shortened as asked for."""
    if options.error_feedback not in (None, "on", "off"):
        raise unknown("error-feedback", options.error_feedback, ("on", "off"))
    # Without feedback nothing makes up for a bias, so randk is scaled to have none.
    up = encoding.parse(options.compress or "none", scaled=options.error_feedback == "off")
    down = encoding.parse(options.compress_down or "none")
    if options.error_feedback is not None and up is encoding.identity():
        raise BadInput(
            f"error-feedback = {options.error_feedback}: workers' messages leave nothing out; give --compress too"
        )
    feedback = None if options.error_feedback is None else options.error_feedback == "on"
    return compressed(plain, None if up is encoding.identity() else up, down, feedback)


def optimizer(option: str, name: str) -> Optimizer:
    """An optax constructor by its name: any that needs nothing but a learning rate."""
    known = {}
    for each, made in vars(optax).items():
        if inspect.isfunction(made) and (parameters := list(inspect.signature(made).parameters.values())):
            first, *rest = parameters
            needed = [p for p in rest if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
            if first.name == "learning_rate" and not needed:
                known[each] = made
    if name not in known:
        raise unknown(option, name, sorted(known))
    return known[name]


def local_work(options: MethodOptions) -> LocalWork:
    """Epochs unless steps are asked for."""
    if options.local_steps is not None and options.local_epochs is not None:
        raise BadInput("local-steps and local-epochs are both given: choose one of them")
    later = () if options.local_schedule is None else parse_schedule(options.local_schedule)
    if options.local_steps is not None:
        return Steps(options.local_steps, options.batch, later)
    epochs = DEFAULT_EPOCHS if options.local_epochs is None else options.local_epochs
    return Epochs(epochs, options.batch, later)


def amount(work: LocalWork) -> dict[str, Any]:
    """The work as an option."""
    return {"local_steps": work.steps} if isinstance(work, Steps) else {"local_epochs": work.epochs}


def complete(rule: AlgorithmOptions, options: MethodOptions) -> tuple[AlgorithmOptions, MethodOptions]:
    """With what the method takes where nothing was given: a configuration that is complete repeats a run for good."""
    parameters = inspect.signature(maker(rule.algorithm)).parameters
    plain = (int, float, str)
    unset = {
        name: parameters[name].default
        for name in METHOD_OPTIONS
        if name in parameters and isinstance(parameters[name].default, plain)
    }
    for side in ("worker", "server"):
        if side in parameters and parameters[side].default is optax.sgd:
            unset[f"{side}_optimizer"] = "sgd"
    unset |= amount(local_work(options))
    codec = encoding.parse(options.compress or "none")
    if codec is not encoding.identity():
        unset["error_feedback"] = "off" if codec.unbiased else "on"

    def filled(group: Any) -> Any:
        return replace(
            group,
            **{name: unset[name] for name, value in vars(group).items() if value is None and name in unset},
        )

    return filled(rule), filled(options)
