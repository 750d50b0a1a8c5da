"""The networks in Haiku, which FedJAX's own models are written in, and their weights from and to the common form."""

from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import networks
import numpy as np

HaikuParams = dict[str, dict[str, Any]]
# Height and width of the images that a dense layer flattens: Haiku's run over the channels last, ours first.
FLATTENED = {"cnn": (4, 4), "pfl_cnn": (14, 14)}


def transformed(model: str) -> hk.Transformed:
    """The forward pass of a batch `{"x": images}`."""
    forward: dict[str, Callable[[Any], Any]] = {
        "two_nn": _two_nn,
        "cnn": _cnn,
        "pfl_cnn": _pfl_cnn,
        "resnet18": _resnet18,
    }
    return hk.transform(lambda batch: forward[model](batch["x"]))


def load(model: str, params: networks.Params) -> HaikuParams:
    """Weights of the common form as Haiku's."""
    found: HaikuParams = {}
    for name, value in params.items():
        layer, leaf = _place(name)
        found.setdefault(layer, {})[leaf] = jax.numpy.asarray(_turned(model, name, value))
    return found


def unload(model: str, params: HaikuParams) -> networks.Params:
    """The way back."""
    found = {}
    for name in networks.shapes(model):
        layer, leaf = _place(name)
        found[name] = _turned_back(model, name, np.asarray(params[layer][leaf]))
    return found


def _two_nn(x: Any) -> Any:
    x = jax.nn.relu(hk.Linear(200, name="dense1")(hk.Flatten()(x)))
    return hk.Linear(10, name="out")(jax.nn.relu(hk.Linear(200, name="dense2")(x)))


def _cnn(x: Any) -> Any:
    for name, channels in (("conv1", 32), ("conv2", 64)):
        x = jax.nn.relu(hk.Conv2D(channels, 5, padding="VALID", name=name)(x))
        x = hk.MaxPool((2, 2, 1), (2, 2, 1), padding="VALID")(x)
    x = jax.nn.relu(hk.Linear(512, name="dense")(hk.Flatten()(x)))
    return hk.Linear(10, name="out")(x)


def _pfl_cnn(x: Any) -> Any:
    for name, channels in (("conv1", 32), ("conv2", 64)):
        x = jax.nn.relu(hk.Conv2D(channels, 3, padding="VALID", name=name)(x))
    x = hk.MaxPool((2, 2, 1), (2, 2, 1), padding="VALID")(x)
    x = jax.nn.relu(hk.Linear(128, name="dense")(hk.Flatten()(x)))
    return hk.Linear(10, name="out")(x)


def _resnet18(x: Any) -> Any:
    x = jax.nn.relu(_normed(x, "stem", 3, 64))
    for name, inside, outside, stride in networks.BLOCKS:
        y = jax.nn.relu(_normed(x, f"{name}.conv1", 3, outside, stride))
        y = _normed(y, f"{name}.conv2", 3, outside)
        x = _normed(x, f"{name}.shortcut", 1, outside, stride) if inside != outside else x
        x = jax.nn.relu(x + y)
    return hk.Linear(10, name="out")(x.mean(axis=(1, 2)))


def _normed(x: Any, name: str, side: int, channels: int, stride: int = 1) -> Any:
    # Padding by hand: with a stride, Haiku's "SAME" would put it on other sides than the rest of the peers.
    pad = (side // 2, side // 2)
    layer = name.replace(".", "_")
    x = hk.Conv2D(channels, side, stride, padding=(pad, pad), with_bias=False, name=layer)(x)
    return hk.GroupNorm(networks.GROUPS, eps=networks.EPSILON, name=f"{layer}_norm")(x)


def _place(name: str) -> tuple[str, str]:
    """Haiku's layer and leaf of a weight."""
    layer, _, leaf = name.rpartition(".")
    layer = layer.replace(".", "_")
    return (
        (f"{layer}_norm", {"scale": "scale", "bias": "offset"}[leaf])
        if leaf in ("scale", "bias")
        else (layer, leaf)
    )


def _turned(model: str, name: str, value: np.ndarray) -> np.ndarray:
    if value.ndim != 2:
        return value
    if name == "dense.w":
        height, width = FLATTENED[model]
        by_channel = value.reshape(len(value), -1, height, width)
        value = by_channel.transpose(0, 2, 3, 1).reshape(len(value), -1)
    return value.T


def _turned_back(model: str, name: str, value: np.ndarray) -> np.ndarray:
    if value.ndim != 2:
        return value
    value = value.T
    if name == "dense.w":
        height, width = FLATTENED[model]
        by_pixel = value.reshape(len(value), height, width, -1)
        value = by_pixel.transpose(0, 3, 1, 2).reshape(len(value), -1)
    return value
