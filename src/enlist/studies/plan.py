"""Planning from Python."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enlist.algorithms.fedavg import fedavg
from enlist.algorithms.work import Epochs, LocalWork
from enlist.engine.folder import refuse_if_used
from enlist.engine.simulate import make_task
from enlist.errors import BadInput
from enlist.limits import check_rate, of_kind
from enlist.options import Settings
from enlist.options.plan import EstimateOptions, GoalOptions
from enlist.problem.federation import Federation
from enlist.report.plan import files as plan_files
from enlist.theory.conditions import Constants, Rates
from enlist.theory.plan import Setting, conditions_of
from enlist.theory.planned import check_sampling, planned

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, repr=False)
class Planned:
    """What the theory says about a problem; `print` shows it in words.

    Args:
        setting: what was planned, with the constants as they were measured.
        facts: all of it, as plan.json holds it: intervals of the constants, a map over n and K, the bound's terms.
    """

    setting: Setting
    facts: Mapping[str, Any]

    @property
    def constants(self) -> Constants:
        """`smoothness`, `sigma_local`, `sigma_global` and `gap`."""
        return self.setting.constants

    @property
    def goal(self) -> float:
        """The value of E||grad f||^2 that is to be reached."""
        return self.setting.goal

    @property
    def rates(self) -> dict[str, Rates]:
        """The rates recommended, those of the corollary, plain FedAvg's ("server rate 1") and those given.

        `enlist.fedavg(*planned.rates["recommended"])` has them.
        """
        told = {name: each for name, each in self.facts["rates"].items() if name != "infimum"}
        return {name: Rates(each["worker_lr"], each["server_lr"]) for name, each in told.items()}

    @property
    def rounds(self) -> int:
        """To the goal, at the rates recommended for so many."""
        return int(self.facts["predicted"]["rounds"])

    @property
    def mib(self) -> float:
        """Up and down until then, of a worker that takes part in every round."""
        return float(self.facts["predicted"]["mib"])

    @property
    def seconds(self) -> float:
        """Simulated, until then."""
        return float(self.facts["predicted"]["seconds"])

    @property
    def advice(self) -> list[str]:
        """What to change, in sentences."""
        return list(self.facts["advice"])

    @property
    def warnings(self) -> list[str]:
        """What is to be known of the plan, in sentences."""
        return list(self.facts["warnings"])

    def conditions(self, worker_lr: float, server_lr: float = 1.0) -> dict[str, Any]:
        """Whether these rates keep the theorems' conditions (`hold`), every margin, and the largest rates that do."""
        return conditions_of(self.setting, _rates(worker_lr, server_lr))

    def table(self) -> "Table":
        """The rates, the bound there and the rounds they need, for a terminal or a notebook."""
        return plan_files.rates_table(self.facts)

    def __repr__(self) -> str:
        return f"<Planned: {self.rounds:,} rounds to E||grad f||^2 = {self.goal:.4g}>"

    def __str__(self) -> str:
        return plan_files.as_text(self.facts)


def plan(
    model: Any,
    federation: Federation,
    *,
    cohort: Any = 10,
    local: Any = Epochs(5, batch=10),
    worker_lr: float = 0.1,
    server_lr: float = 1.0,
    goal: float | None = None,
    rounds: int = 0,
    cohorts: Iterable[int] | None = None,
    steps: Iterable[int] | None = None,
    points: int = EstimateOptions.points,
    estimate_rounds: int = EstimateOptions.estimate_rounds,
    estimate_workers: int = EstimateOptions.estimate_workers,
    estimate_rows: int = EstimateOptions.estimate_rows,
    iterations: int = EstimateOptions.iterations,
    out: str | Path | None = None,
    say: Callable[[str], None] | None = None,
    **settings: Any,
) -> Planned:
    """Measures the constants of a problem, and answers by theory: which rates, how many rounds, MiB and seconds.

    The theorems are about `enlist.fedavg` with plain sgd, equal weights, fixed rates and a fixed amount of work.

    Args:
        model, federation, cohort, local: as in `enlist.simulate`; of the strategies of `enlist.sampling` those that
            draw cohorts of one size.
        worker_lr, server_lr: the rates of the short run along which constants are measured; the plan says whether
            they keep the theorems' conditions.
        goal: the value of E||grad f||^2 to be reached, by default a tenth of the first.
        rounds: T, for which the rates are; 0 for as many as the goal needs.
        cohorts, steps: n and K of the map, by default around those of the run.
        points: models along the short run that are looked at, the first and the last included.
        estimate_rounds: rounds of it.
        estimate_workers, estimate_rows: workers looked at, and rows of each, at most.
        iterations: products with a Hessian for one eigenvalue, at most.
        out: a folder for the page, the heat map and `plan.json`; nothing is written without one.
        say: is told about each model looked at.
        settings: as in `enlist.simulate`. `worker_seconds` is measured unless given.

    Example:
        >>> found = enlist.plan(enlist.models.logistic(), fed, local=enlist.Steps(5, batch=10))  # doctest: +SKIP
        >>> found.rounds, found.rates["recommended"]  # doctest: +SKIP
        (116250, Rates(worker_lr=0.0001835, server_lr=4.56))
    """
    if stranger := next((name for name in settings if name not in Settings.__dataclass_fields__), None):
        raise TypeError(f"plan() has no argument {stranger!r}")
    wanted = _wanted(goal, cohorts, steps)
    effort = _effort(points, estimate_rounds, estimate_workers, estimate_rows, iterations)
    given = _rates(worker_lr, server_lr)
    if out is not None:
        refuse_used(Path(out))
    task = make_task(fedavg(*given), model, federation, cohort, local, {**settings, "rounds": rounds})
    check_sampling(task.sampling.name)
    _check_work(task.work)
    found = planned(task, federation.name, wanted, effort, timed="worker_seconds" not in settings, say=say)
    made = Planned(found.setting, found.facts | {"config": None})
    if out is not None:
        plan_files.write_all(made.facts, Path(out))
    return made


def refuse_used(out: Path) -> None:
    """A plan has nothing to go on with: a folder that holds something is another's."""
    if out.is_dir() and any(out.iterdir()):
        raise BadInput(f"out = {out}: that folder is not empty; name a new one")
    refuse_if_used(out)


def _wanted(goal: Any, cohorts: Any, steps: Any) -> GoalOptions:
    of_kind("goal", goal, "float | None")
    return GoalOptions(goal, _listed(cohorts), _listed(steps))


def _listed(values: Any) -> str | None:
    """As they are typed: whoever reads them says what is wrong with them."""
    if values is None or isinstance(values, str):
        return values
    return ",".join(map(str, values if isinstance(values, Iterable) else [values]))


def _effort(*given: Any) -> EstimateOptions:
    for name, value in zip(EstimateOptions.__dataclass_fields__, given, strict=True):
        of_kind(name, value, "int")
    return EstimateOptions(*given)


def _rates(worker_lr: Any, server_lr: Any) -> Rates:
    for name, rate in (("worker-lr", worker_lr), ("server-lr", server_lr)):
        of_kind(name, rate, "float")
        check_rate(name, rate)
    return Rates(float(worker_lr), float(server_lr))


def _check_work(work: LocalWork) -> None:
    if work.later:
        raise BadInput(
            f"local = {work}: the theorems want the same local steps in every round; leave out later"
        )
