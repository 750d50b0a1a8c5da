"""Whether the parts of a run fit each other: what does not is refused in one line before anything is set up."""

import jax
import numpy as np

from enlist.algorithms.core import Algorithm, Decaying, PerStep, is_schedule
from enlist.cost import RoundCost
from enlist.engine.rehearsal import rehearse
from enlist.engine.task import Task
from enlist.engine.traffic import cost_of
from enlist.errors import BadInput
from enlist.options import Settings
from enlist.participation.sampling import Sampling
from enlist.problem.dataset import Dataset
from enlist.problem.federation import Federation
from enlist.problem.models import Model, accuracy, cross_entropy
from enlist.problem.objective import inputs

EXACT_IN_BF16, LOOKED_AT = 256, 10_000


def check(task: Task) -> RoundCost:
    """Refuses parts that do not fit each other, and says what a round of them sends."""
    check_cohorts(task)
    data = task.federation.data
    check_parts(task.algorithm, task.model, data, task.sampling, task.settings)
    _check_worker_accuracy(task.settings, task.federation)
    # What a message cannot hold (more entries than the model has) shows when its shape is asked for.
    sent = rehearse(
        task.algorithm,
        task.model,
        data.x_train[0],
        data.y_train[0],
        task.work,
        task.settings.precision,
        task.federation.workers,
    )
    return cost_of(task.algorithm, sent, task.federation.shared_bytes)


def check_parts(
    algorithm: Algorithm, model: Model, data: Dataset, sampling: Sampling, settings: Settings
) -> None:
    """Refuses parts that do not fit each other, whoever holds the data."""
    _check_rates(algorithm)
    _check_parts_of(model)
    _check_model(model, data)
    _check_augment(model, data)
    _check_precision(settings, data)
    _check_target(settings, model)
    _check_state(algorithm, model, data, sampling)


def _check_rates(algorithm: Algorithm) -> None:
    for name, rate in algorithm.rates.items():
        if name == "server_lr" and isinstance(rate, PerStep):
            raise BadInput(
                "server-lr: the server takes one step a round, so its rate depends on the round alone"
            )
        if is_schedule(rate):
            continue
        for number in rate if isinstance(rate, Decaying) else (rate,):
            if isinstance(number, bool | str):
                raise BadInput(f"{name.replace('_', '-')} = {rate!r}: a rate must be a number or a function")
            if not name.endswith("_lr"):
                continue
            # As the float32 that it will be: 1e-60 is none.
            if not 0 < np.float32(number) < np.inf:  # type: ignore[arg-type]
                raise BadInput(f"{name.replace('_', '-')} = {rate}: a learning rate must be a number above 0")


def check_cohorts(task: Task) -> None:
    """There are as many workers, and as many rounds, as the cohorts ask for."""
    task.sampling.places(task.federation.workers)
    known, asked = task.sampling.rounds, task.settings.rounds
    if known is not None and asked > known:
        raise BadInput(f"rounds = {asked}: the record of cohorts ends after {known}; choose 0 to {known}")


def _check_precision(settings: Settings, data: Dataset) -> None:
    """bfloat16 tells whole numbers apart up to 256 alone, so that tokens beyond would become others."""
    if settings.precision == "bf16" and data.x_train.dtype.kind == "f":
        some = np.asarray(data.x_train[:LOOKED_AT])
        if (np.abs(some) > EXACT_IN_BF16).any() and (some == np.round(some)).all():
            raise BadInput(
                f"precision = bf16: {data.name} has whole numbers above {EXACT_IN_BF16} as inputs, which bfloat16 "
                "rounds: use float32, or scale them"
            )


def _check_target(settings: Settings, model: Model) -> None:
    if settings.target is not None and model.metric is accuracy and not 0 < settings.target <= 1:
        raise BadInput(
            f"target = {settings.target:g}: an accuracy is above 0 and at most 1, for instance 0.95"
        )


def _check_worker_accuracy(settings: Settings, federation: Federation) -> None:
    own = federation.test
    if settings.worker_accuracy and (own is None or not own.sizes.any()):
        raise BadInput(
            f"worker-accuracy: {federation.name} by {federation.partition} leaves the workers no test rows of "
            "their own (a .npz names their holders in worker_test)"
        )


def _check_state(algorithm: Algorithm, model: Model, data: Dataset, sampling: Sampling) -> None:
    """A worker drawn twice in a round would have two new states and one place to keep them."""
    params = jax.eval_shape(model.init, jax.random.key(0), data.x_train[:1])
    own = jax.tree.leaves(jax.eval_shape(algorithm.init_worker, params))
    # What is addressed to one worker is a state of its own that the server keeps.
    if sampling.repeats and (own or algorithm.address is not Algorithm._field_defaults["address"]):
        raise BadInput(
            f"algorithm {algorithm.name} keeps a state for each worker, which sampling {sampling.name} leaves "
            f"undefined when a worker is drawn twice in a round: use without-replacement"
        )


def _check_parts_of(model: Model) -> None:
    """Compiled programs are found again by the functions that they were made of."""
    for name, part in model._asdict().items():
        try:
            hash(part)
        except TypeError as error:
            raise BadInput(
                f"model {model.name}: its {name} is {type(part).__name__}, which cannot be hashed; give a function"
            ) from error


def _check_model(model: Model, data: Dataset) -> None:
    """The model takes these examples, and its outputs suit these labels."""
    if data.classes is None and model.loss is cross_entropy:
        raise BadInput(
            f"{data.name} has numbers to predict, not classes, but model {model.name} predicts classes: give "
            "one whose loss is for numbers, as examples/regression.py does, or integer labels"
        )
    x = jax.ShapeDtypeStruct((2, *data.x_train.shape[1:]), data.x_train.dtype)
    y = jax.ShapeDtypeStruct((2, *data.y_train.shape[1:]), data.y_train.dtype)
    try:
        params = jax.eval_shape(model.init, jax.random.key(0), x)
        out = jax.eval_shape(model.apply, params, x)
        loss, metric = jax.eval_shape(model.loss, out, y), jax.eval_shape(model.metric, out, y)
    except BadInput:
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadInput(
            f"model {model.name} does not fit {data.name} (examples {data.x_train.shape[1:]}, "
            f"targets {y.dtype} {y.shape[1:]}): {reason[:200]}"
        ) from error
    if not any(leaf.size for leaf in jax.tree.leaves(params)):
        raise BadInput(f"model {model.name} has no parameters: there is nothing to learn")
    for name, given in (("loss", loss), ("metric", metric)):
        if getattr(given, "shape", None) != (2,):
            raise BadInput(
                f"model {model.name}: its {name} must give one number an example, but gives {given}"
            )
    if data.classes is not None and getattr(out, "ndim", 0) == 2 and out.shape[1] < data.classes:
        raise BadInput(
            f"model {model.name} has {out.shape[1]} outputs but {data.name} has {data.classes} classes"
        )


def _check_augment(model: Model, data: Dataset) -> None:
    """What is varied at random stays what the model takes."""
    if model.augment is None:
        return
    rows = jax.ShapeDtypeStruct((2, *data.x_train.shape[1:]), data.x_train.dtype)
    x = jax.eval_shape(inputs, rows)
    try:
        got = jax.eval_shape(model.augment, jax.random.key(0), x)
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadInput(f"augment does not fit {data.name}: {reason[:200]}") from error
    if (getattr(got, "shape", None), getattr(got, "dtype", None)) != (x.shape, x.dtype):
        raise BadInput(f"augment must give what it was given, {x.dtype}{list(x.shape)}, but gives {got}")
