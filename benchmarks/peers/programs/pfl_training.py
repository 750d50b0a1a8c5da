"""FedAvg in pfl as its own benchmarks write it: tensors on the device, `SimulatedBackend`, every worker weighs 1."""

import numpy as np
import problem
import torch
import torch_models
from networks import Params
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByUser
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.internal.ops.pytorch_ops import get_default_device
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from serve import Setup, Work
from torch import Tensor, nn
from torch.nn import functional
from workloads import Workload

NEVER = 10**9


class Counted(nn.Module):
    """A network with the two methods that pfl asks for. Each local step calls `loss` once."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.steps = self.examples = 0

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.net(x)

    def loss(self, x: Tensor, y: Tensor, eval: bool = False) -> Tensor:
        """What a step descends on."""
        self.steps, self.examples = self.steps + 1, self.examples + len(y)
        return functional.cross_entropy(self(x), y)

    @torch.no_grad()
    def metrics(self, x: Tensor, y: Tensor, eval: bool = False) -> dict[str, Weighted]:
        """What pfl reports of an evaluation."""
        z = self(x)
        loss = functional.cross_entropy(z, y, reduction="sum").item()
        hits = (z.argmax(1) == y).sum().item()
        return {"loss": Weighted(loss, len(y)), "accuracy": Weighted(hits, len(y))}


class PflTraining:
    """pfl's own loop, called again and again."""

    def __init__(self, setup: Setup) -> None:
        torch.set_num_threads(setup.threads)
        np.random.seed(0)  # noqa: NPY002 (pfl draws from it)
        self.work = setup.work
        self.net = Counted(torch_models.module(self.work.model)).to(get_default_device())
        self.model = pfl_model(self.net, self.work)
        self.backend = backend(*problem.examples(self.work), self.work, "minimize_reuse")
        self.algorithm = FederatedAveraging()
        self.rounds, self.before = 0, Work(0, 0)

    def advance(self, rounds: int) -> None:
        """On from the round it had come to; pfl evaluates in its first round, which is one of the warm-up."""
        self.before = Work(self.net.steps, self.net.examples)
        self.rounds += rounds
        self.algorithm.run(
            algorithm_params(self.work, self.rounds, NEVER),
            self.backend,
            self.model,
            train_params(self.work),
            send_metrics_to_platform=False,
        )
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def done(self) -> Work:
        """As counted in `loss`."""
        return Work(self.net.steps - self.before.steps, self.net.examples - self.before.examples)

    def params(self) -> Params:
        """The global model."""
        return torch_models.unload(self.net.net.state_dict(), self.net.net, self.work.model)


def pfl_model(net: Counted, work: Workload) -> PyTorchModel:
    """SGD on both sides."""
    server = torch.optim.SGD(net.parameters(), work.server_lr)
    return PyTorchModel(model=net, local_optimizer_create=torch.optim.SGD, central_optimizer=server)


def backend(x: np.ndarray, y: np.ndarray, work: Workload, sampling: str) -> SimulatedBackend:
    """All workers' tensors on the device from the start."""
    where = get_default_device()
    images, labels = torch_models.images(x).to(where), torch_models.labels(y).to(where)
    held = {
        worker: (images[at : at + work.rows], labels[at : at + work.rows])
        for worker, at in enumerate(range(0, work.workers * work.rows, work.rows))
    }
    workers = FederatedDataset.from_slices(held, get_user_sampler(sampling, list(held)))
    return SimulatedBackend(workers, workers, [WeightByUser()])


def algorithm_params(work: Workload, rounds: int, evaluate_every: int) -> NNAlgorithmParams:
    """The outer loop."""
    return NNAlgorithmParams(
        central_num_iterations=rounds,
        evaluation_frequency=evaluate_every,
        train_cohort_size=work.cohort,
        val_cohort_size=0,
    )


def train_params(work: Workload) -> NNTrainHyperParams:
    """The local work."""
    return NNTrainHyperParams(
        local_batch_size=work.batch, local_num_epochs=work.epochs, local_learning_rate=work.worker_lr
    )
