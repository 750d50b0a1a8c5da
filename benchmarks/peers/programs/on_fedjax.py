"""FedJAX with its own FedAvg, batches, sampler and optimizers, on its default backend."""

import haiku_models
import jax
import networks
import numpy as np
import problem
from serve import Line, Setup, Work, serve

jax.tree_map = jax.tree.map  # type: ignore[attr-defined]  # the released FedJAX calls it by its old name

import fedjax  # noqa: E402
from fedjax.algorithms import fed_avg  # noqa: E402


class FedJaxTraining:
    """FedJAX's algorithm object and the state it hands around."""

    def __init__(self, setup: Setup) -> None:
        self.work = work = setup.work
        self.steps = self.examples = 0
        x, y = problem.examples(work)
        held = {
            f"{at // work.rows}": {"x": x[at : at + work.rows], "y": y[at : at + work.rows]}
            for at in range(0, len(y), work.rows)
        }
        workers = fedjax.InMemoryFederatedData(held).preprocess_batch(self.count)
        model = fedjax.create_model_from_haiku(
            haiku_models.transformed(work.model),
            {"x": x[: work.batch], "y": y[: work.batch]},
            lambda batch, z: fedjax.metrics.unreduced_cross_entropy_loss(batch["y"], z),
        )
        self.algorithm = fed_avg.federated_averaging(
            fedjax.model_grad(model),
            fedjax.optimizers.sgd(work.worker_lr),
            fedjax.optimizers.sgd(work.server_lr),
            fedjax.ShuffleRepeatBatchHParams(batch_size=work.batch, num_epochs=work.epochs),
        )
        self.sampler = fedjax.client_samplers.UniformGetClientSampler(workers, work.cohort, seed=0)
        self.state = self.algorithm.init(haiku_models.load(work.model, networks.start(work.model)))

    def count(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Sees every batch on its way to a step."""
        self.steps, self.examples = self.steps + 1, self.examples + len(batch["y"])
        return batch

    def advance(self, rounds: int) -> None:
        """Rounds as in FedJAX's own examples."""
        self.steps = self.examples = 0
        for _ in range(rounds):
            self.state, _ = self.algorithm.apply(self.state, self.sampler.sample())
        jax.block_until_ready(self.state.params)

    def done(self) -> Work:
        """As counted in `count`."""
        return Work(self.steps, self.examples)

    def params(self) -> networks.Params:
        """The global model."""
        return haiku_models.unload(self.work.model, self.state.params)


if __name__ == "__main__":
    line = Line()
    setup = line.setup()
    serve(line, setup, FedJaxTraining(setup), ["fedjax", "jax"])
