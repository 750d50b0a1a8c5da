"""Flower's simulation on Ray: a ServerApp with Flower's own FedAvg, a ClientApp as in its PyTorch quickstart."""

import os

os.environ.update(FLWR_TELEMETRY_ENABLED="0", FLWR_DISABLE_UPDATE_CHECK="1", RAY_USAGE_STATS_ENABLED="0")

import logging

import flower_app
import torch_models
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from networks import Params
from serve import Line, Setup, Work, serve


class FlowerTraining:
    """Calls the strategy again and again, each time from the model that the last one left."""

    def __init__(self, setup: Setup, grid: Grid) -> None:
        self.work, self.grid = setup.work, grid
        self.told = ConfigRecord(
            {"workload": setup.workload, "threads": setup.threads, "device": setup.device}
        )
        self.net = torch_models.module(self.work.model)
        self.arrays = ArrayRecord(self.net.state_dict())
        self.strategy = FedAvg(
            fraction_train=self.work.cohort / self.work.workers,
            fraction_evaluate=0.0,
            min_train_nodes=self.work.cohort,
            min_available_nodes=self.work.workers,
            train_metrics_aggr_fn=added,
        )
        self.counted = Work(0, 0)

    def advance(self, rounds: int) -> None:
        """Rounds of the strategy."""
        result = self.strategy.start(self.grid, self.arrays, num_rounds=rounds, train_config=self.told)
        self.arrays = result.arrays
        seen = result.train_metrics_clientapp.values()
        self.counted = Work(
            int(sum(each["steps"] for each in seen)), int(sum(each["examples"] for each in seen))
        )

    def done(self) -> Work:
        """As the workers' replies counted it."""
        return self.counted

    def params(self) -> Params:
        """The global model."""
        return torch_models.unload(self.arrays.to_torch_state_dict(), self.net, self.work.model)


def added(replies: list[RecordDict], weighted_by: str) -> MetricRecord:
    """The sum of the replies' metrics."""
    records = [record for reply in replies for record in reply.metric_records.values()]
    return MetricRecord({name: sum(record[name] for record in records) for name in ("steps", "examples")})


def main() -> None:
    """Serves from inside the ServerApp, so that Ray's actors stay."""
    line = Line()
    setup = line.setup()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    server = ServerApp()

    @server.main()
    def serve_rounds(grid: Grid, context: Context) -> None:
        serve(line, setup, FlowerTraining(setup, grid), ["flwr", "ray", "torch"])

    gpus = 1 / setup.processes if setup.device == "gpu" else 0
    run_simulation(
        server_app=server,
        client_app=flower_app.app,
        num_supernodes=setup.work.workers,
        backend_config={
            "init_args": {"num_cpus": setup.processes * setup.threads, "include_dashboard": False},
            "client_resources": {"num_cpus": setup.threads, "num_gpus": gpus},
        },
    )


if __name__ == "__main__":
    main()
