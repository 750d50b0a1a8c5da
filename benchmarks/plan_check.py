"""What `enlist plan` predicts beside what the simulator needs, on three problems: the table of docs/plan.md.

Rounds to a thousandth (quadratic) or a tenth of the first ||grad f||^2, at the rates that the theory recommends for
the rounds it predicts, and at the usual rates 0.1 and 1. Measured is the first round, of those looked at, whose
||grad f||^2 is at the goal, for each seed.

    python benchmarks/plan_check.py [PROBLEM ...] [--seeds 3]
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import enlist
from enlist.engine import platform
from enlist.engine.session import open_session
from enlist.engine.simulate import make_task
from enlist.engine.summary import versions
from enlist.problem.quadratic import quadratic
from enlist.theory.conditions import Constants, Rates
from enlist.theory.constants import estimate
from enlist.theory.plan import Setting, rates_table, rounds_of

WORKERS, COHORT, STEPS, BATCH = 20, 10, 5, 10
USUAL = Rates(0.1, 1.0)
# Rounds between two looks, as a part of those predicted; and rounds at the usual rates, at most.
LOOK, MOST_USUAL = 20_000, 5000


def known_quadratic() -> tuple[Any, Any, Constants]:
    """Ten dimensions, curvatures from 0.1 to 1; the constants are exact."""
    problem = quadratic(np.linspace(0.1, 1, 10).tolist(), WORKERS, rows=40, distance=3.0)
    constants = Constants(problem.smoothness, problem.sigma_local(BATCH), problem.sigma_global, problem.gap)
    return problem.model, problem.federation, constants


def digits(model: Callable[[], Any]) -> tuple[Any, Any, None]:
    """Handwritten digits, two classes a worker; the constants are measured."""
    data = enlist.datasets.digits()
    return model(), enlist.partition.digits(data, per_worker=2, workers=WORKERS, seed=0), None


# Each with its goal, as a part of the first ||grad f||^2.
PROBLEMS = {
    "quadratic": (known_quadratic, 0.001),
    "logistic": (lambda: digits(enlist.models.logistic), 0.1),
    "2nn": (lambda: digits(enlist.models.two_nn), 0.1),
}


def task_at(model: Any, federation: Any, rates: Rates, seed: int) -> Any:
    """The run at these rates."""
    algorithm = enlist.fedavg(worker_lr=float(rates.worker_lr), server_lr=float(rates.server_lr))
    work = enlist.Steps(STEPS, BATCH)
    return make_task(algorithm, model, federation, COHORT, work, {"seed": seed, "grad_norm": True})


def measured(task: Any, goal: float, most: int, look: int) -> int | None:
    """The first round looked at whose ||grad f||^2 is at the goal; None where none is."""
    session = open_session(task)
    for done in range(look, most + look, look):
        _, seen = session.advance(look, True)
        if seen is not None and float(seen.grad_norm_sq) <= goal:
            return done
    return None


def check(name: str, seeds: int) -> dict[str, Any]:
    """One problem: its constants, what is predicted, what is measured."""
    problem, part = PROBLEMS[name]
    model, federation, exact = problem()
    found = estimate(task_at(model, federation, USUAL, 0))
    constants = found.constants if exact is None else exact
    setting = Setting(
        constants, WORKERS, COHORT, STEPS, "without-replacement", part * found.points[0].grad_norm_sq
    )
    predicted = int(rounds_of(setting, float(COHORT), STEPS))
    rows = rates_table(setting, USUAL, predicted)
    best = Rates(rows["recommended"]["worker_lr"], rows["recommended"]["server_lr"])
    began = time.perf_counter()
    look = max(1, predicted // LOOK)
    needed = [
        measured(task_at(model, federation, best, seed), setting.goal, predicted, look)
        for seed in range(seeds)
    ]
    usual = [
        measured(task_at(model, federation, USUAL, seed), setting.goal, MOST_USUAL, 1)
        for seed in range(seeds)
    ]
    return {
        "problem": name,
        "constants": {each: float(value) for each, value in constants._asdict().items()},
        "estimated": {each: float(value) for each, value in found.constants._asdict().items()},
        "goal": setting.goal,
        "recommended": {each: float(value) for each, value in best._asdict().items()},
        "corollary": rows["corollary"]["rounds_to_goal"],
        "server rate 1": rows["server rate 1"]["rounds_to_goal"],
        "predicted": predicted,
        "looked_every": look,
        "measured": needed,
        "measured_at_usual_rates": usual,
        "seconds": round(time.perf_counter() - began, 1),
    }


def main() -> None:
    """Measures and prints a line of JSON for each problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", default=list(PROBLEMS), help=", ".join(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    platform.prepare()
    for name in asked.problems:
        print(json.dumps(check(name, asked.seeds)), flush=True)
    print(json.dumps({"device": platform.describe(), "versions": versions()}))


if __name__ == "__main__":
    main()
