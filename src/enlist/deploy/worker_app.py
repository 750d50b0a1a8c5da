"""The worker's side: an order comes in, the algorithm's `local` runs on the worker's own rows, the answer goes out.

Flower starts a new process for every message, so nothing is imported or compiled that the order does not need, and
compiled programs are taken from the cache on disk.
"""

import time
from pathlib import Path
from typing import Any

from enlist.deploy.supervise import die_with_parent
from enlist.errors import BadInput


def worker_app(folder: Path) -> Any:
    """The Flower app of the workers; `folder` is where the job and its files lie."""
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        die_with_parent()
        return Message(answer(message.content, context.node_config, folder), reply_to=message)

    return app


def answer(record: Any, node: Any, folder: Path) -> Any:
    """Does what an order asks for.

    Args:
        node: what `enlist deploy worker` says of this worker: `id`, `data` and `home`.
    """
    from enlist.engine import platform

    platform.prepare()
    platform.cache_everything()
    from enlist.deploy import messages
    from enlist.deploy.halves import worker_half
    from enlist.deploy.job import problem, read_job
    from enlist.deploy.rows import read_rows
    from enlist.deploy.worker_state import Versions
    from enlist.engine.traffic import travelling

    job = read_job(folder)
    it = problem(job, folder)
    rows = read_rows(Path(str(node["data"])))
    _check_classes(rows.classes, job.classes, str(node["data"]))
    settings = it.options.settings
    algorithm = it.algorithm._replace(rates=it.rates | it.schedules)
    sent = travelling(
        algorithm, it.model, rows.x[0], rows.y[0], it.work, settings.precision, job.workers, up=False
    )
    probing = messages.kind_of(record) == messages.PROBE
    order = messages.read_order(record, sent.first if probing else sent.down, sent.before)
    _check_order(order, job.token, int(node["id"]))
    versions = Versions(Path(str(node["home"])) / "state" / job.token)
    versions.settle(order.acknowledged)
    state = versions.load(order.acknowledged, lambda: _first_state(it, rows.x[:1]), sent.state)
    began = time.perf_counter()
    run = worker_half(it, len(rows.x), probing)
    given = (order.payload, order.replica, state)
    ran = [
        run(rows.x, rows.y, settings.seed, order.t, order.worker, draw, *given) for draw in range(order.draws)
    ]
    got = _on_host(ran)
    if not probing:
        versions.keep(order.t, got[-1].state)
    return messages.answer_record(
        messages.Answer(
            token=job.token,
            kind=order.kind,
            t=order.t,
            worker=order.worker,
            rows=len(rows.x),
            seconds=time.perf_counter() - began,
            weights=[float(each.weight) for each in got],
            losses=[float(each.loss) for each in got],
            messages=[each.message for each in got],
        )
    )


def _on_host(ran: list[Any]) -> list[Any]:
    import jax

    return jax.device_get(ran)


def _first_state(it: Any, x: Any) -> Any:
    """What a worker has before its first round: made of the initial parameters, which the seed decides."""
    import jax

    from enlist.algorithms import keys
    from enlist.problem.objective import initial

    run = jax.random.key(it.options.settings.seed)
    return it.algorithm.init_worker(initial(it.model, keys.init_key(run), jax.numpy.asarray(x)))


def _check_classes(held: int | None, agreed: int | None, path: str) -> None:
    if (held is None) != (agreed is None):
        kinds = {True: "numbers to predict", False: "class labels"}
        raise BadInput(f"{path}: holds {kinds[held is None]}, but the run is about {kinds[agreed is None]}")
    if held is not None and agreed is not None and held > agreed:
        raise BadInput(f"{path}: has a label {held - 1}, but the run has the classes 0 to {agreed - 1}")


def _check_order(order: Any, token: str, worker: int) -> None:
    if order.token != token or order.worker != worker:
        raise BadInput(f"an order for worker {order.worker} came to worker {worker}: its key is another's")
