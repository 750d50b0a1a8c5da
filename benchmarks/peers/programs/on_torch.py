"""Plain PyTorch, the loop that people write: one worker after the other, batches by index from tensors in memory."""

import numpy as np
import problem
import torch
import torch_models
from networks import Params
from serve import Line, Setup, Work, serve
from torch.nn import functional


class PlainLoop:
    """FedAvg by hand."""

    def __init__(self, setup: Setup) -> None:
        torch.set_num_threads(setup.threads)
        self.work = setup.work
        self.device = torch.device("cuda" if setup.device == "gpu" else "cpu")
        x, y = problem.examples(self.work)
        self.x = torch_models.images(x).to(self.device)
        self.y = torch_models.labels(y).to(self.device)
        self.net = torch_models.module(self.work.model).to(self.device)
        self.shared = {name: value.clone() for name, value in self.net.state_dict().items()}
        self.rng = np.random.default_rng(0)
        self.counted = Work(0, 0)

    def advance(self, rounds: int) -> None:
        """Rounds; on a GPU the clock stops when the last one has arrived."""
        self.counted = Work(0, 0)
        for _ in range(rounds):
            self.one_round()
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def one_round(self) -> None:
        """The cohort, one after the other, then the mean."""
        cohort = self.rng.choice(self.work.workers, self.work.cohort, replace=False)
        total = {name: torch.zeros_like(value) for name, value in self.shared.items()}
        for worker in cohort:
            self.train(int(worker))
            for name, value in self.net.state_dict().items():
                total[name] += value
        self.shared = {name: value / len(cohort) for name, value in total.items()}

    def train(self, worker: int) -> None:
        """A worker's epochs from the shared model on."""
        self.net.load_state_dict(self.shared)
        optimizer = torch.optim.SGD(self.net.parameters(), lr=self.work.worker_lr)
        rows = slice(worker * self.work.rows, (worker + 1) * self.work.rows)
        x, y = self.x[rows], self.y[rows]
        steps, examples = self.counted
        for _ in range(self.work.epochs):
            for batch in torch.randperm(len(x), device=self.device).split(self.work.batch):
                optimizer.zero_grad()
                functional.cross_entropy(self.net(x[batch]), y[batch]).backward()
                optimizer.step()
                steps, examples = steps + 1, examples + len(batch)
        self.counted = Work(steps, examples)

    def done(self) -> Work:
        """As counted in the loop."""
        return self.counted

    def params(self) -> Params:
        """The shared model."""
        return torch_models.unload(self.shared, self.net, self.work.model)


if __name__ == "__main__":
    line = Line()
    setup = line.setup()
    serve(line, setup, PlainLoop(setup), ["torch"])
