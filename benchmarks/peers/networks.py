"""The four networks in NumPy: the shapes of their weights, how these start, and the forward pass.

Weights are a flat dict. A dense layer's are `[outputs, inputs]`; a convolution's are height, width, inputs, outputs;
images are flattened channel by channel before a dense layer. Every peer turns them into its own form and back.
"""

from collections.abc import Callable

import numpy as np

Params = dict[str, np.ndarray]
# name, channels in, channels out, stride of ResNet-18's eight blocks
BLOCKS = [
    (
        f"stage{stage}_block{block}",
        inside if block == 1 else outside,
        outside,
        2 if stage > 1 and block == 1 else 1,
    )
    for stage, inside, outside in ((1, 64, 64), (2, 64, 128), (3, 128, 256), (4, 256, 512))
    for block in (1, 2)
]
GROUPS, EPSILON = 32, 1e-5


def shapes(model: str) -> dict[str, tuple[int, ...]]:
    """The weights of a model by name, in order."""
    if model == "two_nn":
        return _dense("dense1", 784, 200) | _dense("dense2", 200, 200) | _dense("out", 200, 10)
    if model == "cnn":
        convs = _conv("conv1", 5, 1, 32) | _conv("conv2", 5, 32, 64)
        return convs | _dense("dense", 1024, 512) | _dense("out", 512, 10)
    if model == "pfl_cnn":
        convs = _conv("conv1", 3, 3, 32) | _conv("conv2", 3, 32, 64)
        return convs | _dense("dense", 14 * 14 * 64, 128) | _dense("out", 128, 10)
    if model == "resnet18":
        found = _conv_norm("stem", 3, 3, 64)
        for name, inside, outside, _ in BLOCKS:
            found |= _conv_norm(f"{name}.conv1", 3, inside, outside)
            found |= _conv_norm(f"{name}.conv2", 3, outside, outside)
            if inside != outside:
                found |= _conv_norm(f"{name}.shortcut", 1, inside, outside)
        return found | _dense("out", 512, 10)
    raise ValueError(f"model {model!r}: there are two_nn, cnn, pfl_cnn and resnet18")


def start(model: str, seed: int = 0) -> Params:
    """He's normal weights (variance 1 / inputs in the last layer), scales 1, biases 0: the same for every peer."""
    rng = np.random.default_rng(seed)

    def draw(name: str, shape: tuple[int, ...]) -> np.ndarray:
        if name.endswith(".scale"):
            return np.ones(shape, np.float32)
        if len(shape) == 1:
            return np.zeros(shape, np.float32)
        inputs = shape[1] if len(shape) == 2 else int(np.prod(shape[:3]))
        gain = 1.0 if name == "out.w" else 2.0
        return (np.sqrt(gain / inputs) * rng.standard_normal(shape)).astype(np.float32)

    return {name: draw(name, shape) for name, shape in shapes(model).items()}


def logits(model: str, params: Params, x: np.ndarray) -> np.ndarray:
    """The forward pass on images `[batch, height, width, channels]`."""
    forward: dict[str, Callable[[Params, np.ndarray], np.ndarray]] = {
        "two_nn": _two_nn,
        "cnn": _cnn,
        "pfl_cnn": _pfl_cnn,
        "resnet18": _resnet18,
    }
    return forward[model](params, x)


def _two_nn(p: Params, x: np.ndarray) -> np.ndarray:
    x = _relu(_linear(p, "dense1", x.reshape(len(x), -1)))
    return _linear(p, "out", _relu(_linear(p, "dense2", x)))


def _cnn(p: Params, x: np.ndarray) -> np.ndarray:
    for name in ("conv1", "conv2"):
        x = _pool(_relu(_convolve(x, p[f"{name}.w"]) + p[f"{name}.b"]))
    return _linear(p, "out", _relu(_linear(p, "dense", _flat(x))))


def _pfl_cnn(p: Params, x: np.ndarray) -> np.ndarray:
    for name in ("conv1", "conv2"):
        x = _relu(_convolve(x, p[f"{name}.w"]) + p[f"{name}.b"])
    return _linear(p, "out", _relu(_linear(p, "dense", _flat(_pool(x)))))


def _resnet18(p: Params, x: np.ndarray) -> np.ndarray:
    x = _relu(_normed(p, "stem", x, stride=1, padding=1))
    for name, inside, outside, stride in BLOCKS:
        y = _relu(_normed(p, f"{name}.conv1", x, stride, padding=1))
        y = _normed(p, f"{name}.conv2", y, stride=1, padding=1)
        x = _normed(p, f"{name}.shortcut", x, stride, padding=0) if inside != outside else x
        x = _relu(x + y)
    return _linear(p, "out", x.mean(axis=(1, 2)))


def _linear(p: Params, name: str, x: np.ndarray) -> np.ndarray:
    return x @ p[f"{name}.w"].T + p[f"{name}.b"]


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def _flat(x: np.ndarray) -> np.ndarray:
    return x.transpose(0, 3, 1, 2).reshape(len(x), -1)


def _pool(x: np.ndarray) -> np.ndarray:
    batch, height, width, channels = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))


def _convolve(x: np.ndarray, w: np.ndarray, stride: int = 1, padding: int = 0) -> np.ndarray:
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    views = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], axis=(1, 2))[:, ::stride, ::stride]
    # [batch, height, width, channels, rows, columns] by [rows, columns, channels, filters]
    return np.tensordot(views, w, axes=((4, 5, 3), (0, 1, 2)))


def _normed(p: Params, name: str, x: np.ndarray, stride: int, padding: int) -> np.ndarray:
    x = _convolve(x, p[f"{name}.w"], stride, padding)
    grouped = x.reshape(*x.shape[:3], GROUPS, -1)
    mean = grouped.mean(axis=(1, 2, 4), keepdims=True)
    spread = grouped.var(axis=(1, 2, 4), keepdims=True)
    normal = ((grouped - mean) / np.sqrt(spread + EPSILON)).reshape(x.shape)
    return normal * p[f"{name}.scale"] + p[f"{name}.bias"]


def _dense(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.w": (outputs, inputs), f"{name}.b": (outputs,)}


def _conv(name: str, side: int, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.w": (side, side, inputs, outputs), f"{name}.b": (outputs,)}


def _conv_norm(name: str, side: int, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{name}.w": (side, side, inputs, outputs),
        f"{name}.scale": (outputs,),
        f"{name}.bias": (outputs,),
    }
