"""What a worker does in Flower. An actor process keeps the examples and the network between messages."""

import functools

import problem
import torch
import torch_models
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor, nn
from torch.nn import functional
from workloads import workload

app = ClientApp()


@functools.cache
def held(name: str, device: str) -> tuple[Tensor, Tensor, nn.Module]:
    """The examples of all workers and a network, made once in a process."""
    work = workload(name)
    x, y = problem.examples(work)
    where = torch.device("cuda" if device == "gpu" else "cpu")
    net = torch_models.MODULES[work.model]().to(where)
    return torch_models.images(x).to(where), torch_models.labels(y).to(where), net


@app.train()
def train(message: Message, context: Context) -> Message:
    """The local epochs from the model that was sent."""
    told = message.content["config"]
    torch.set_num_threads(int(told["threads"]))
    work = workload(told["workload"])
    x, y, net = held(told["workload"], told["device"])
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    first = int(context.node_config["partition-id"]) * work.rows
    optimizer = torch.optim.SGD(net.parameters(), lr=work.worker_lr)
    steps = examples = 0
    for _ in range(work.epochs):
        for batch in (first + torch.randperm(work.rows, device=x.device)).split(work.batch):
            optimizer.zero_grad()
            functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
            steps, examples = steps + 1, examples + len(batch)
    counts = MetricRecord({"num-examples": work.rows, "steps": steps, "examples": examples})
    reply = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": counts})
    return Message(content=reply, reply_to=message)
