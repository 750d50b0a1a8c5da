"""Figure 1: what skew, the number of workers and local steps do to the 2NN on MNIST.

100 workers, p digits each, worker rate 0.1, server rate 1: (a) p = 1, 2, 5, 10 with 5 local epochs, all workers and
10 of them; (b) n = 10, 50, 100 at p = 1 and 5; (c) 1, 5 and 10 local epochs at p = 5. The paper sees convergence
everywhere, p = 5 next to p = 10, smaller p slower, ten workers zigzagging and slower, local steps helping.

Found: all converge; p = 5 ends near p = 10, smaller p is slower, and ten workers zigzag. Five epochs are faster than
one at p = 5, ten hardly faster than five. 70 runs, 5 seeds: 2.2 device minutes on one H200.
"""

from enlist.studies.paper.recipe import (
    DEGREES,
    EPOCHS,
    FULL_COHORT,
    PARTIAL_COHORT,
    Line,
    Panel,
    Recipe,
    by_degree,
    by_epochs,
    where,
)
from enlist.studies.paper.setting import Scale, Setting

COHORTS = (PARTIAL_COHORT, 50, FULL_COHORT)
SHOWN_DEGREES = (5, 1)


def runs(scale: Scale) -> list[Setting]:
    """(a), (b) and (c), with what they share once."""
    degrees = [f"digits:{p}" for p in DEGREES]
    shown = [f"digits:{p}" for p in SHOWN_DEGREES]
    both = (FULL_COHORT, PARTIAL_COHORT)
    return [
        *scale.settings("mnist", "two_nn", partition=degrees, cohort=both, local_epochs=5),
        *scale.settings("mnist", "two_nn", partition=shown, cohort=COHORTS, local_epochs=5),
        *scale.settings("mnist", "two_nn", partition="digits:5", cohort=both, local_epochs=EPOCHS),
    ]


def panels(scale: Scale) -> list[Panel]:
    """Three columns."""
    by_cohort = [
        Line(f"n = {n}, p = {p}", where("two_nn", f"digits:{p}", n, 5), color, dashed=p == 1)
        for p in SHOWN_DEGREES
        for color, n in enumerate(COHORTS)
    ]
    return [
        Panel("(a) digits a worker", by_degree("two_nn")),
        Panel("(b) workers a round", by_cohort),
        Panel("(c) local epochs", by_epochs("two_nn", (FULL_COHORT, PARTIAL_COHORT), (5,))),
    ]


RECIPE = Recipe("fig1", "2NN on MNIST: skew, workers a round, local epochs", runs, panels)
