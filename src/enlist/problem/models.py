"""What is learned: a model is a few pure functions, and the four built-in ones are made here.

A model is applied to one worker's batch with that worker's weights; the engine maps it over workers. Inputs
are `[batch, ...]` with the channel last; weights are nested dicts of float32 arrays, so that every part of
enlist can name, save and send them without knowing the model.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer, PRNGKeyArray, Shaped

from enlist.errors import BadInput, unknown
from enlist.problem import layers

Params = Any
Outputs = Any
T = TypeVar("T")
# No machine holds a layer with more units.
MOST_UNITS = 1_000_000
RESNET_WIDTHS = (64, 64, 128, 256, 512)
# Name, channels in, channels out, stride of the eight basic blocks.
RESNET_BLOCKS = [
    (
        f"stage{s}_block{b}",
        RESNET_WIDTHS[s - 1] if b == 1 else RESNET_WIDTHS[s],
        RESNET_WIDTHS[s],
        2 if s > 1 and b == 1 else 1,
    )
    for s in (1, 2, 3, 4)
    for b in (1, 2)
]


def cross_entropy(
    outputs: Float[Array, " batch *more classes"], y: Integer[Array, " batch *more"]
) -> Float[Array, " batch"]:
    """Cross-entropy of logits with integer labels, in float32, one number an example.

    $$\\ell(z, y) = \\log \\sum_c e^{z_c} - z_y$$, averaged over an example's positions where it has several.

    Example:
        >>> print(cross_entropy(jnp.zeros((2, 4)), jnp.array([0, 3])))  # log 4
        [1.3862944 1.3862944]
    """
    z = outputs.astype(jnp.float32)
    # A comparison instead of an index: its gradient is a comparison too, not a scatter.
    hit = jnp.expand_dims(y, -1) == jax.lax.broadcasted_iota(y.dtype, z.shape, z.ndim - 1)
    loss = jax.nn.logsumexp(z, axis=-1) - jnp.where(hit, z, 0.0).sum(axis=-1)
    return loss.reshape(loss.shape[0], -1).mean(axis=1)


def accuracy(
    outputs: Float[Array, " batch *more classes"], y: Integer[Array, " batch *more"]
) -> Float[Array, " batch"]:
    """1 where the largest logit is the label's, else 0 (a share, where an example has several positions)."""
    hit = (outputs.argmax(axis=-1) == y).astype(jnp.float32)
    return hit.reshape(hit.shape[0], -1).mean(axis=1)


def squared_error(
    outputs: Float[Array, " batch *out"], y: Shaped[Array, " batch *target"]
) -> Float[Array, " batch"]:
    """Squared error, in float32, averaged over an example's outputs. `[batch, 1]` and `[batch]` are the same.

    Example:
        >>> squared_error(jnp.array([[1.0], [2.0]]), jnp.array([1.0, 4.0])).tolist()
        [0.0, 4.0]
    """
    if outputs.size != y.size:
        raise BadInput(f"squared error of outputs {outputs.shape} with targets {y.shape}: as many are needed")
    batch = outputs.shape[0]
    error = outputs.astype(jnp.float32).reshape(batch, -1) - y.astype(jnp.float32).reshape(batch, -1)
    return jnp.square(error).mean(axis=1)


def negative_squared_error(
    outputs: Float[Array, " batch *out"], y: Shaped[Array, " batch *target"]
) -> Float[Array, " batch"]:
    """Minus the squared error: a metric for regression, larger being better as with accuracy."""
    return -squared_error(outputs, y)


class Model(NamedTuple):
    """A model as enlist sees it: pure functions over a pytree of float arrays.

    Args:
        init: `(key, x) -> params`; `x` is a batch of inputs of which only the shape and dtype matter.
        apply: `(params, x) -> outputs`, a batch `[batch, ...]` to `[batch, ...]`.
        loss: `(outputs, y) -> [batch]`, what is minimised, one float32 an example.
        metric: `(outputs, y) -> [batch]`; its mean is reported, larger being better.
        metric_name: how the metric is called in tables.
        name: how the model is called in tables.
        classes: number of outputs, where known.
        augment: `(key, x) -> x`: how a batch is varied at random before each local step (`enlist.augment`); as it
            is unless given. For a gradient of all rows it gets each row as a batch of one. Evaluations take rows as
            they are.
    """

    init: Callable[[Any, Any], Params]
    apply: Callable[[Params, Any], Outputs]
    loss: Callable[[Outputs, Any], Float[Array, " batch"]] = cross_entropy
    metric: Callable[[Outputs, Any], Float[Array, " batch"]] = accuracy
    metric_name: str = "accuracy"
    name: str = "model"
    classes: int | None = None
    augment: Callable[[Any, Any], Any] | None = None

    def once_started(self) -> "Model":
        """What a program of rounds needs of it: equal for models that differ in how their parameters start alone."""
        return self._replace(init=_started)


def _started(key: Any, x: Any) -> Params:
    raise AssertionError("this model has started")


def count(params: Params) -> int:
    """How many numbers the parameters are. Shapes are enough, so `jax.eval_shape` of an `init` will do.

    Example:
        >>> count({"w": jnp.zeros((3, 4)), "b": jnp.zeros(4)})
        16
    """
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))


def logistic(classes: int = 10, start: str = "zeros") -> Model:
    """Multinomial logistic regression on the flattened input: z = W x + b. 7,850 parameters on 28 x 28 x 1.

    Starts at zero: the problem is convex, and from there every class is equally likely. The key is not used then.

    Args:
        start: `zeros`, `he` or `uniform`; the last two as in `two_nn`.

    Example:
        >>> model = logistic()
        >>> count(model.init(jax.random.key(0), jnp.zeros((1, 28, 28, 1))))
        7850
    """
    known = {"zeros": None, **layers.STARTS}
    return _logistic(_positive("logistic", "classes", classes), _one_of("logistic", "start", start, known))


def two_nn(classes: int = 10, hidden: int = 200, start: str = "he") -> Model:
    """The "2NN": two layers of `hidden` relu units on the flattened input. 199,210 parameters on 28 x 28 x 1.

    Args:
        start: how weights are drawn. `he`: normal, of variance 2 / inputs (He) in the hidden layers and 1 / inputs
            (LeCun) in the last one; biases zero. `uniform`: weights and biases within 1 / sqrt(inputs) of zero, as
            PyTorch's layers start.

    Example:
        >>> two_nn() is two_nn(classes=10)  # the same object, so that compiled programs are found again
        True

    References:
        McMahan et al., `Communication-Efficient Learning of Deep Networks from Decentralized Data
        <https://arxiv.org/abs/1602.05629>`_, 2017
    """
    sizes = _positive("two_nn", "classes", classes), _positive("two_nn", "hidden", hidden)
    return _two_nn(*sizes, _one_of("two_nn", "start", start, layers.STARTS))


def cnn(classes: int = 10, start: str = "he") -> Model:
    """The CNN of the FedAvg paper for 28 x 28 x 1 images: 582,026 parameters.

    5 x 5 convolution to 32 channels, relu, 2 x 2 max-pool, 5 x 5 convolution to 64, relu, 2 x 2 max-pool, 512
    relu units, linear; convolutions without padding. Images of other sizes will do, from 16 x 16 on.

    Args:
        start: as in `two_nn`; a convolution's output has 25 inputs for each channel.

    References:
        McMahan et al., `Communication-Efficient Learning of Deep Networks from Decentralized Data
        <https://arxiv.org/abs/1602.05629>`_, 2017
    """
    return _cnn(_positive("cnn", "classes", classes), _one_of("cnn", "start", start, layers.STARTS))


def resnet18(classes: int = 10, start: str = "he") -> Model:
    """ResNet-18 for 32 x 32 x 3 images, with group normalisation: 11,173,962 parameters.

    A 3 x 3 stem of 64 without pooling, stages of 64, 128, 256 and 512 channels of two basic blocks each with
    strides 1, 2, 2, 2, shortcuts by 1 x 1 convolution and norm where shapes change, global average, linear.
    Group norm stands where the paper has batch norm, whose running statistics do not average over workers: 32
    groups, as its authors propose, with scale (from 1) and bias (from 0). Convolutions have no bias.

    Args:
        start: as in `two_nn`.

    References:
        He et al., `Deep Residual Learning for Image Recognition <https://arxiv.org/abs/1512.03385>`_, 2015
        Wu and He, `Group Normalization <https://arxiv.org/abs/1803.08494>`_, 2018
    """
    return _resnet18(
        _positive("resnet18", "classes", classes), _one_of("resnet18", "start", start, layers.STARTS)
    )


# The factories above only bring their arguments into one form; these build, once for each. How a model is applied
# does not depend on its arguments, so those of one kind whose parameters have one shape share compiled programs.


@functools.cache
def _logistic(classes: int, start: layers.Start | None) -> Model:
    def init(key: PRNGKeyArray, x: Any) -> Params:
        if start is not None:
            return start.dense(key, _features(x), classes, last=True)
        return {"w": jnp.zeros((classes, _features(x))), "b": jnp.zeros(classes)}

    return Model(init, _apply_logistic, name="logistic", classes=classes)


def _apply_logistic(params: Params, x: Any) -> Outputs:
    return layers.dense(params, _like(params, x).reshape(len(x), -1))


@functools.cache
def _two_nn(classes: int, hidden: int, start: layers.Start) -> Model:
    def init(key: PRNGKeyArray, x: Any) -> Params:
        first, second, last = jax.random.split(key, 3)
        return {
            "dense1": start.dense(first, _features(x), hidden),
            "dense2": start.dense(second, hidden, hidden),
            "out": start.dense(last, hidden, classes, last=True),
        }

    return Model(init, _apply_two_nn, name="two_nn", classes=classes)


def _apply_two_nn(params: Params, x: Any) -> Outputs:
    x = jax.nn.relu(layers.dense(params["dense1"], _like(params["dense1"], x).reshape(len(x), -1)))
    x = jax.nn.relu(layers.dense(params["dense2"], x))
    return layers.dense(params["out"], x)


@functools.cache
def _cnn(classes: int, start: layers.Start) -> Model:
    def init(key: PRNGKeyArray, x: Any) -> Params:
        height, width, channels = _image("cnn", x, smallest=16)
        first, second, third, last = jax.random.split(key, 4)
        # A side of s leaves ((s - 4) // 2 - 4) // 2 after both convolutions and pools: 4 of 28.
        left = (((height - 4) // 2 - 4) // 2) * (((width - 4) // 2 - 4) // 2)
        return {
            "conv1": start.filters(first, 5, channels, 32),
            "conv2": start.filters(second, 5, 32, 64),
            "dense": start.dense(third, left * 64, 512),
            "out": start.dense(last, 512, classes, last=True),
        }

    return Model(init, _apply_cnn, name="cnn", classes=classes)


def _apply_cnn(params: Params, x: Any) -> Outputs:
    _image("cnn", x, smallest=16)
    x = layers.to_planes(_like(params["conv1"], x))
    for layer in ("conv1", "conv2"):
        # Bias and relu are monotone, so they may follow the pool, where a quarter of the work is left.
        x = layers.conv_pool(x, params[layer]["w"])
        x = jax.nn.relu(x + params[layer]["b"].reshape(-1, 1, 1, 1))
    x = jax.nn.relu(layers.dense(params["dense"], layers.to_rows(x)))
    return layers.dense(params["out"], x)


@functools.cache
def _resnet18(classes: int, start: layers.Start) -> Model:
    def init(key: PRNGKeyArray, x: Any) -> Params:
        _, _, channels = _image("resnet18", x, smallest=8)
        stem, last, *keys = jax.random.split(key, 2 + len(RESNET_BLOCKS))
        params: Params = {"stem": _init_conv_norm(start, stem, 3, channels, 64)}
        for k, (name, inside, outside, _) in zip(keys, RESNET_BLOCKS, strict=True):
            first, second, third = jax.random.split(k, 3)
            params[name] = {
                "conv1": _init_conv_norm(start, first, 3, inside, outside),
                "conv2": _init_conv_norm(start, second, 3, outside, outside),
            }
            if inside != outside:
                params[name]["shortcut"] = _init_conv_norm(start, third, 1, inside, outside)
        return params | {"out": start.dense(last, RESNET_WIDTHS[-1], classes, last=True)}

    return Model(init, _apply_resnet18, name="resnet18", classes=classes)


def _apply_resnet18(params: Params, x: Any) -> Outputs:
    _image("resnet18", x, smallest=8)
    x = _conv_norm(params["stem"], _like(params["stem"], x), stride=1, padding=1, relu=True)
    for name, _, _, stride in RESNET_BLOCKS:
        block = params[name]
        y = _conv_norm(block["conv1"], x, stride, padding=1, relu=True)
        x = _conv_norm(block["shortcut"], x, stride, padding=0) if "shortcut" in block else x
        x = _conv_norm(block["conv2"], y, stride=1, padding=1, relu=True, added=x)
    return layers.dense(params["out"], x.mean(axis=(1, 2)))


def _init_conv_norm(
    start: layers.Start, key: PRNGKeyArray, side: int, inputs: int, outputs: int
) -> dict[str, Array]:
    w = start.filters(key, side, inputs, outputs)["w"]
    return {"w": w, "scale": jnp.ones(outputs), "bias": jnp.zeros(outputs)}


def _conv_norm(
    params: dict[str, Array],
    x: Array,
    stride: int,
    padding: int,
    relu: bool = False,
    added: Array | None = None,
) -> Array:
    y = layers.conv(x, params["w"], stride, padding)
    return layers.group_norm(y, params["scale"], params["bias"], added=added, relu=relu)


def _like(params: dict[str, Array], x: Any) -> Array:
    # Inputs follow the weights' dtype, so that lower precision is the caller's choice of weights alone.
    return jnp.asarray(x).astype(params["w"].dtype)


def _features(x: Any) -> int:
    return math.prod(x.shape[1:])


def _image(model: str, x: Any, smallest: int) -> tuple[int, int, int]:
    if len(x.shape) != 4 or min(x.shape[1:3]) < smallest:
        raise BadInput(
            f"{model} was given examples of shape {tuple(x.shape[1:])}: it needs images [height, width, "
            f"channels] of at least {smallest} x {smallest}; logistic and two_nn take any shape"
        )
    return x.shape[1], x.shape[2], x.shape[3]


def _positive(model: str, option: str, given: int) -> int:
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise BadInput(f"{model}({option}={given!r}): a whole number is needed")
    if not 1 <= given <= MOST_UNITS:
        raise BadInput(f"{model}({option}={given}): must be from 1 to {MOST_UNITS}")
    return int(given)


def _one_of(model: str, option: str, given: str, known: Mapping[str, T]) -> T:
    if given not in known:
        raise unknown(f"{option} of {model}", str(given), [*known])
    return known[given]
