"""Models of others, taken as they are: plain functions, flax modules (linen, nnx) and equinox modules.

Whatever comes in, a `Model` goes out whose parameters are a tree of float arrays and nothing else. A library
is imported only when something of it is given, so enlist works without any of them.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from enlist import own_file
from enlist.errors import BadInput, unknown
from enlist.own_file import cause
from enlist.problem import models
from enlist.problem.models import Model, Outputs, Params
from enlist.problem.modules import DROPOUT, STATE, family, open_module

ACCEPTED = (
    "a Model, a pair of functions (init, apply), a flax linen module, a flax nnx or equinox module, "
    "or a function that makes one of the last two from `rngs` or `key`"
)
# Parameters of a person's own function that are not typed after its name.
SET_ELSEWHERE = {"classes": "the data set", "rngs": "--seed", "key": "--seed"}


class _Parts(NamedTuple):
    init: Callable[[Any, Any], Params]
    apply: Callable[[Params, Any], Outputs]
    name: str


def as_model(
    thing: Any,
    *,
    loss: Callable | None = None,
    metric: Callable | None = None,
    metric_name: str | None = None,
    name: str | None = None,
    augment: Callable | None = None,
) -> Model:
    """A `Model` of what somebody already has.

    - a `Model`: itself, with what is given here replaced;
    - `(init, apply)`: `init(key)` or `init(key, x)` gives parameters, `apply(params, x)` outputs for a batch;
    - a flax linen module: initialised by its own `init`, parameters are its `params` collection;
    - a flax nnx or equinox module: it already has parameters, so `init` returns those whatever the key. Its
      `nnx.Param`s (nnx) or float arrays (equinox) are trained, named by their path as in "layers.0.weight";
      all else is kept fixed. An equinox module is applied to single examples, as is usual there;
    - a class or function with an argument `rngs` or `key` that makes such a module: `init` calls it anew with
      each key. What is not trained is taken from one made beforehand.

    Refused, because they would go wrong silently: modules with batch statistics or other state that changes
    while training, and active dropout. `init` also tries the model on its inputs' shape and explains what
    does not fit.

    Args:
        thing: what is to be learned.
        loss: per-example loss `(outputs, y) -> [batch]`; cross-entropy unless given.
        metric: per-example metric, larger being better; accuracy unless given (minus the squared error where
            the loss is `squared_error`).
        metric_name: how tables call it; the metric's own name unless given.
        name: how tables call the model.
        augment: how training batches are varied at random, such as `enlist.augment.crop_flip`.

    Example:
        >>> model = as_model((lambda key: {"w": jnp.zeros((4, 2))}, lambda params, x: x @ params["w"]))
        >>> model.apply(model.init(jax.random.key(0), jnp.ones((1, 4))), jnp.ones((3, 4))).shape
        (3, 2)
    """
    if isinstance(thing, Model):
        model = thing
    else:
        parts = _parts(thing)
        model = Model(_checked(parts), parts.apply, name=parts.name)
    if metric is None and loss is models.squared_error:
        metric = models.negative_squared_error
    if metric is not None and metric_name is None:
        metric_name = getattr(metric, "__name__", "metric")
    given: dict[str, Any] = {
        "loss": loss,
        "metric": metric,
        "metric_name": metric_name,
        "name": name,
        "augment": augment,
    }
    return model._replace(**{key: value for key, value in given.items() if value is not None})


def from_spec(text: str, classes: int | None = None) -> Model:
    """The model a person named on the command line.

    Args:
        text: `logistic`, `two_nn`, `cnn`, `resnet18`, or `FILE.py:FUNCTION`, after which parameters may follow as
            `+NAME=VALUE`. A function of one's own is called with `classes=` if it has such an argument, and may
            return anything that `as_model` takes. The file stands alone: modules beside it are not found, so that
            its hash says all.
        classes: number of classes of the data set, where it has any.

    Example:
        >>> from_spec("two_nn+start=uniform", classes=62).classes
        62
    """
    built_in: dict[str, Callable] = {
        "logistic": models.logistic,
        "two_nn": models.two_nn,
        "cnn": models.cnn,
        "resnet18": models.resnet18,
    }
    name, _ = own_file.parted(text, "model")
    if name in built_in:
        factory = own_file.with_parameters(built_in[name], text, "model", SET_ELSEWHERE)
        return factory() if classes is None else factory(classes=classes)
    make = own_file.function(text, "model", SET_ELSEWHERE)
    if make is None:
        raise unknown("model", text, [*built_in, "FILE.py:FUNCTION"])
    told = {"classes": classes} if classes is not None and "classes" in _arguments(make) else {}
    try:
        if _arguments(make) & {"rngs", "key"}:
            model = as_model(functools.partial(make, **told))
        else:
            model = as_model(make(**told))
    except Exception as error:
        raise BadInput(f"{text} failed: {cause(error)}") from error
    return model._replace(classes=model.classes or classes) if told else model


def spec_hash(text: str) -> str | None:
    """The SHA-256 of the file that `text` names, to be kept with a run; None for a built-in model."""
    return own_file.digest(text, "model")


def _parts(thing: Any) -> _Parts:
    library = family(type(thing))
    if library == "linen":
        return _linen(thing)
    if library in ("nnx", "equinox"):
        trained, build = open_module(thing, library)
        # Copies, since whoever trains may give the memory of its parameters away.
        return _Parts(
            lambda key, x: jax.tree.map(jnp.copy, trained), _apply(build, library), type(thing).__name__
        )
    if isinstance(thing, tuple) and len(thing) == 2:
        if all(callable(part) for part in thing):
            return _functions(*thing)
        if family(type(thing[0])) == "equinox":
            raise BadInput(f"{type(thing[0]).__name__} came with a state: {STATE}")
    if isinstance(thing, type) and family(thing) == "linen":
        raise BadInput(f"{thing.__name__} is a linen class: give an instance, {thing.__name__}(...)")
    if callable(thing) and _arguments(thing) & {"rngs", "key"}:
        return _factory(thing)
    raise BadInput(f"{_short(thing)} cannot be used as a model: give {ACCEPTED}")


def _functions(init: Callable, apply: Callable) -> _Parts:
    needed = [p for p in _parameters(init) if p.default is p.empty and p.kind is not p.KEYWORD_ONLY]
    key_alone = len(needed) == 1 and needed[0].kind is not needed[0].VAR_POSITIONAL
    full = (lambda key, x: init(key)) if key_alone else init
    return _Parts(full, apply, _name(apply))


def _linen(module: Any) -> _Parts:
    name = type(module).__name__

    def init(key: Any, x: Any) -> Params:
        variables = module.init(key, x)
        others = sorted(set(variables) - {"params"})
        if others:
            raise BadInput(f"{name} has the variable collections {', '.join(others)}: {STATE}")
        return variables.get("params", {})

    return _Parts(init, lambda params, x: module.apply({"params": params}, x), name)


def _factory(make: Callable) -> _Parts:
    argument = "rngs" if "rngs" in _arguments(make) else "key"

    def module(key: Any) -> Any:
        if argument == "key":
            return make(key=key)
        from flax import nnx

        return make(rngs=nnx.Rngs(key))

    name = _name(make)
    try:
        sample = module(jax.random.key(0))
    except Exception as error:
        raise BadInput(f"{name}({argument}=...) failed: {cause(error)}") from error
    library = family(type(sample))
    if library not in ("nnx", "equinox"):
        raise BadInput(f"{name}({argument}=...) gave {_short(sample)}, not an nnx or equinox module")
    _, build = open_module(sample, library)
    return _Parts(lambda key, x: open_module(module(key), library)[0], _apply(build, library), name)


def _apply(build: Callable[[Params], Any], library: str) -> Callable[[Params, Any], Outputs]:
    if library == "equinox":
        return lambda params, x: jax.vmap(build(params))(x)
    return lambda params, x: build(params)(x)


def _checked(parts: _Parts) -> Callable[[Any, Any], Params]:
    """`init` that says in one line what does not fit, while a person can still tell where it comes from."""

    def init(key: Any, x: Any) -> Params:
        shape = tuple(x.shape)
        x = jnp.zeros(shape, x.dtype)  # initial parameters may depend on the shape, never on somebody's data
        try:
            params = parts.init(key, x)
            out = jax.eval_shape(parts.apply, params, x)
        except BadInput:
            raise
        except Exception as error:
            hint = f" ({DROPOUT})" if "rng" in type(error).__name__.lower() + str(error).lower() else ""
            raise BadInput(f"{parts.name} fails on inputs of shape {shape}: {cause(error)}{hint}") from error
        for path, leaf in jax.tree.leaves_with_path(params):
            if not jnp.issubdtype(getattr(leaf, "dtype", None) or type(leaf), jnp.floating):
                where = jax.tree_util.keystr(path)
                raise BadInput(f"{parts.name}: parameter {where} is no float array; all of them must be")
        if not isinstance(out, jax.ShapeDtypeStruct) or out.shape[:1] != shape[:1]:
            got = getattr(out, "shape", type(out).__name__)
            raise BadInput(
                f"{parts.name} gives {got} for inputs of shape {shape}: one array is needed, a row each"
            )
        return jax.tree.map(jnp.asarray, params)

    return init


def _parameters(function: Callable) -> list[inspect.Parameter]:
    try:
        if isinstance(
            function, type
        ):  # the metaclasses of these libraries hide the arguments of their classes
            init = function.__init__  # type: ignore[misc]
            return list(inspect.signature(init).parameters.values())[1:]
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def _arguments(function: Callable) -> set[str]:
    return {p.name for p in _parameters(function)}


def _name(function: Any) -> str:
    inner = function.func if isinstance(function, functools.partial) else function
    return getattr(inner, "__name__", "model").strip("<>")


def _short(thing: Any) -> str:
    text = " ".join(repr(thing).split())
    return text if len(text) <= 60 else f"{type(thing).__name__} {text[:57]}..."
