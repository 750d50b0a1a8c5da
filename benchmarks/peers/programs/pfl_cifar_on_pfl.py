"""pfl's published CIFAR-10 benchmark in pfl itself, as its train.py and baseline.yaml say, but for dropout."""

import argparse
import json
import os

os.environ.setdefault("PFL_PYTORCH_DEVICE", "cpu" if os.environ.get("CUDA_VISIBLE_DEVICES") == "" else "cuda")

import numpy as np
import pfl_training
import torch
import torch_models
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.central_evaluation import CentralEvaluationCallback
from pfl.data.dataset import Dataset
from pfl.hyperparam import NNEvalHyperParams
from pfl.internal.ops.pytorch_ops import get_default_device
from pfl_cifar import process_age, random_arrays
from workloads import PFL_CIFAR, PFL_CIFAR_EVERY, PFL_CIFAR_ROUNDS


def main() -> None:
    """Trains, prints one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=PFL_CIFAR_ROUNDS)
    parser.add_argument(
        "--synthetic", action="store_true", help="always: random examples of CIFAR-10's shape"
    )
    parser.add_argument("--json", action="store_true", help="always")
    options = parser.parse_args()
    np.random.seed(0)  # noqa: NPY002 (pfl draws from it)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    x, y, x_test, y_test = random_arrays()
    where = get_default_device()
    net = pfl_training.Counted(torch_models.module(PFL_CIFAR.model)).to(where)
    model = pfl_training.pfl_model(net, PFL_CIFAR)
    backend = pfl_training.backend(x, y, PFL_CIFAR, "random")
    test = Dataset([torch_models.images(x_test).to(where), torch_models.labels(y_test).to(where)])
    look_at = NNEvalHyperParams(local_batch_size=10_000)
    look = CentralEvaluationCallback(test, model_eval_params=look_at, frequency=PFL_CIFAR_EVERY)
    began = process_age()
    FederatedAveraging().run(
        pfl_training.algorithm_params(PFL_CIFAR, options.rounds, PFL_CIFAR_EVERY),
        backend,
        model,
        pfl_training.train_params(PFL_CIFAR),
        look_at,
        [look],
        send_metrics_to_platform=False,
    )
    if where.type == "cuda":
        torch.cuda.synchronize()
    ended = process_age()
    hits = model.evaluate(test, eval_params=look_at).to_simple_dict()
    print(
        json.dumps(
            {
                "total_seconds": ended,
                "start_seconds": began,
                "rounds": options.rounds,
                "accuracy": float(hits["Accuracy"]),
            }
        )
    )


if __name__ == "__main__":
    main()
