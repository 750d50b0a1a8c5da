"""Strict everywhere: shapes and types checked at run time, no silent broadcasting, several CPU devices."""

import gc
import os
import signal
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
# Tracing makes much that stays: looking through all of it every 700 objects is a twentieth of the tests' time.
gc.set_threshold(50_000, 20, 20)
# Who starts tests in the background ignores Ctrl-C for them, nohup a terminal's end, and their children would too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
# A cache of the tests' own: they must not find, or leave, anything in the user's.
os.environ.setdefault("ENLIST_CACHE", str(Path(__file__).parent.parent / ".pytest_cache" / "enlist"))

# Tests compile much and compute little; processes that they start inherit this.
QUICK_TO_COMPILE = (
    "--xla_backend_optimization_level=0 --xla_cpu_opt_preset=CPU_OPT_PRESET_FAST_COMPILE "
    "--xla_cpu_parallel_codegen_split_count=1"
)
if version("jaxlib").startswith("0.10."):
    # Later ones do not know it, and end at a flag that they do not know.
    QUICK_TO_COMPILE += " --xla_cpu_use_fusion_emitters=false"
if "xla_backend_optimization_level" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_TO_COMPILE}".strip()

from jaxtyping import install_import_hook

install_import_hook(
    [
        "enlist.algorithms",
        "enlist.engine",
        "enlist.participation",
        "enlist.problem.federation",
        "enlist.problem.objective",
        "enlist.problem.partition",
        "enlist.problem.sharing",
        "enlist.problem.models",
        "enlist.problem.layers",
        "enlist.cost",
        "enlist.links",
    ],
    "beartype.beartype",
)

import hypothesis
import jax
import numpy as np
import pytest

from enlist.engine import execution, platform
from enlist.problem.dataset import Dataset

jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_numpy_rank_promotion", "raise")
platform.prepare()

hypothesis.settings.register_profile("house", deadline=None, max_examples=40, derandomize=True)
hypothesis.settings.load_profile("house")


@pytest.fixture(autouse=True)
def unmeasured(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `auto` chooses must not depend on how busy the machine is, nor be compiled twice to find out."""
    if "test_execution" not in request.node.nodeid:
        monkeypatch.setattr(execution, "_measured", lambda load, candidates, seconds: candidates[0])


def make_dataset(
    rows: int = 600, features: int = 12, classes: int = 10, seed: int = 0, test: int = 200
) -> Dataset:
    """A small problem that can be learned: Gaussian blobs, every class equally often."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, features)) * 1.5

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(count) % classes
        x = centres[y] + rng.normal(size=(count, features))
        return x.astype(np.float32), y.astype(np.int32)

    x, y = draw(rows)
    x_test, y_test = draw(test)
    return Dataset(x, y, x_test, y_test, classes=classes, name="blobs")


@pytest.fixture
def blobs() -> Dataset:
    return make_dataset()
