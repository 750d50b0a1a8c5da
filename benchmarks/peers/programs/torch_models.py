"""The networks in PyTorch, for the three peers that run on it, and their weights from and to the common form."""

from collections.abc import Iterable

import networks
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


class TwoNN(nn.Module):
    """Two layers of 200 relu units."""

    def __init__(self) -> None:
        super().__init__()
        self.dense1, self.dense2, self.out = nn.Linear(784, 200), nn.Linear(200, 200), nn.Linear(200, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = functional.relu(self.dense1(x.flatten(1)))
        return self.out(functional.relu(self.dense2(x)))


class CNN(nn.Module):
    """The CNN of the FedAvg paper."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 5), nn.Conv2d(32, 64, 5)
        self.dense, self.out = nn.Linear(1024, 512), nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        return self.out(functional.relu(self.dense(x.flatten(1))))


class PflCNN(nn.Module):
    """The small CNN of pfl's benchmark, without its dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 32, 3), nn.Conv2d(32, 64, 3)
        self.dense, self.out = nn.Linear(14 * 14 * 64, 128), nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = functional.relu(self.conv2(functional.relu(self.conv1(x))))
        return self.out(functional.relu(self.dense(functional.max_pool2d(x, 2).flatten(1))))


class ConvNorm(nn.Module):
    """A convolution without bias, then group norm."""

    def __init__(self, side: int, inside: int, outside: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, side, stride, padding=side // 2, bias=False)
        self.norm = nn.GroupNorm(networks.GROUPS, outside, eps=networks.EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """Normalised."""
        return self.norm(self.conv(x))


class Block(nn.Module):
    """A basic block of ResNet-18."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = ConvNorm(3, inside, outside, stride), ConvNorm(3, outside, outside)
        self.shortcut = ConvNorm(1, inside, outside, stride) if inside != outside else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both ways."""
        return functional.relu(self.conv2(functional.relu(self.conv1(x))) + self.shortcut(x))


class ResNet18(nn.Module):
    """ResNet-18 for 32 x 32 images with group norm."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.out = ConvNorm(3, 3, 64), nn.Linear(512, 10)
        for name, inside, outside, stride in networks.BLOCKS:
            self.add_module(name, Block(inside, outside, stride))

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = functional.relu(self.stem(x))
        for name, *_ in networks.BLOCKS:
            x = self.get_submodule(name)(x)
        return self.out(x.mean((2, 3)))


MODULES: dict[str, type[nn.Module]] = {"two_nn": TwoNN, "cnn": CNN, "pfl_cnn": PflCNN, "resnet18": ResNet18}


def module(model: str) -> nn.Module:
    """The network with the common first weights."""
    net = MODULES[model]()
    load(net, networks.start(model))
    return net


def load(net: nn.Module, params: networks.Params) -> None:
    """Takes weights of the common form."""
    names = dict(zip(params, _names(net, params), strict=True))
    net.load_state_dict({names[name]: torch.from_numpy(_turned(value)) for name, value in params.items()})


def unload(state: dict[str, Tensor], net: nn.Module, model: str) -> networks.Params:
    """A state dict in the common form."""
    wanted = networks.shapes(model)
    names = _names(net, wanted)
    found = {name: state[own].detach().cpu().numpy() for name, own in zip(wanted, names, strict=True)}
    return {name: value.transpose(2, 3, 1, 0) if value.ndim == 4 else value for name, value in found.items()}


def images(x: np.ndarray) -> Tensor:
    """Images with the channels first."""
    return torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))


def labels(y: np.ndarray) -> Tensor:
    """Classes as PyTorch wants them."""
    return torch.from_numpy(y.astype(np.int64))


def _turned(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(value.transpose(3, 2, 0, 1) if value.ndim == 4 else value)


def _names(net: nn.Module, params: Iterable[str]) -> list[str]:
    """PyTorch's name of each weight."""
    own = net.state_dict()

    def renamed(name: str) -> str:
        layer, _, leaf = name.rpartition(".")
        if f"{layer}.conv.weight" not in own:
            return f"{layer}.{'weight' if leaf == 'w' else 'bias'}"
        part = {"w": "conv.weight", "scale": "norm.weight", "bias": "norm.bias"}[leaf]
        return f"{layer}.{part}"

    return [renamed(name) for name in params]
