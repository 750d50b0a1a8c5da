"""Comparing algorithms from Python, a person's own among them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from enlist.algorithms.core import Algorithm
from enlist.algorithms.work import Epochs
from enlist.engine.fit import check
from enlist.engine.folder import refuse_if_used
from enlist.engine.simulate import make_task
from enlist.engine.task import Task
from enlist.errors import BadInput
from enlist.problem.adapters import as_model
from enlist.problem.federation import Federation
from enlist.report.comparison.files import write_all
from enlist.report.comparison.outcome import Comparison
from enlist.studies.contest import Candidate, Entrant, Plan, contest, short_run


def compare(
    algorithms: Mapping[str, Algorithm | Sequence[Algorithm]],
    model: Any,
    federation: Federation | Callable[[int], Federation],
    *,
    target: float,
    out: str | Path,
    seeds: int = 3,
    cohort: Any = 10,
    local: Any = Epochs(5, batch=10),
    tune_rounds: int | None = None,
    resume: bool = False,
    **settings: Any,
) -> Comparison:
    """Runs several algorithms to one target, each with several seeds.

    Args:
        algorithms: by the label that tables and figures give them. Of a list, the one that short runs on a seed of
            their own find best takes part: `[enlist.fedavg(worker_lr=rate) for rate in (0.01, 0.1)]`.
        model, cohort, local: as in `enlist.simulate`.
        federation: the same for all seeds, or a function of the seed.
        target: a value of the test metric.
        out: the folder for every run, and for tables, figures and the page.
        seeds: runs of each algorithm, with the seeds `seed`, `seed` + 1, ...
        tune_rounds: the length of the short runs, by default a quarter of `rounds`.
        resume: go on with the comparison that `out` holds.
        settings: as in `enlist.simulate`. `worker_seconds` is measured unless given.

    Example:
        >>> def mine(**rates):
        ...     return enlist.fedprox(mu=1.0, **rates)._replace(name="mine")
        >>> enlist.compare(
        ...     {"fedavg": enlist.fedavg(), "mine": mine()}, model, fed, target=0.9, out="runs/mine"
        ... )  # doctest: +SKIP
    """
    if not algorithms:
        raise BadInput("compare: name at least one algorithm")
    place = Path(out)
    if not resume:
        refuse_if_used(place)
    own, first = as_model(model), int(settings.pop("seed", 0))
    dealt = federation if callable(federation) else lambda seed: federation
    federations = {seed: dealt(seed) for seed in range(first, first + seeds + 1)}

    def candidate(algorithm: Algorithm) -> Candidate:
        def task(seed: int) -> Task:
            return make_task(
                algorithm, own, federations[seed], cohort, local, {**settings, "seed": seed, "target": target}
            )

        rates = {name: rate for name, rate in algorithm.rates.items() if isinstance(rate, int | float)}
        lrs = {name: float(rate) for name, rate in rates.items() if name.endswith("_lr")}
        return Candidate(lrs, task, lambda seed: None)

    field = [
        Entrant(label, [candidate(each) for each in ([given] if isinstance(given, Algorithm) else given)])
        for label, given in algorithms.items()
    ]
    for entrant in field:
        check(entrant.candidates[0].task(first))
    rounds = field[0].candidates[0].task(first).settings.rounds
    plan = Plan(
        target,
        range(first, first + seeds),
        first + seeds,
        short_run(rounds, tune_rounds),
        measure="worker_seconds" not in settings,
    )
    comparison = contest(field, plan, place)
    write_all(comparison, place)
    return comparison
