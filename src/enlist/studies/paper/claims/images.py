"""What workers a round and local steps do on CIFAR-10: claims 8 and 9, of figures 5 and 6."""

from itertools import combinations

from enlist.studies.paper.claims.judging import GRADED, Claim, Finding, Part, Verdict, judged, listed, span
from enlist.studies.paper.raw import Curve, Raw
from enlist.studies.paper.recipe import EPOCHS, FULL_COHORT, PARTIAL_COHORT
from enlist.studies.paper.recipes.fig5 import COHORTS, PARTITIONS
from enlist.studies.paper.recipes.table2 import ROWS
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.statistics.seeds import (
    ACCURACY,
    CLEAR,
    PerSeed,
    averaged,
    curves,
    finding,
    mean,
    minus,
    per_seed,
    rounded,
)

EVEN, SKEWED = PARTITIONS
USUAL = 5
FEWEST, LARGEST = min(EPOCHS), max(EPOCHS)
# A drop is dramatic from so much accuracy on, and where it is so many times that on i.i.d. data.
DRAMATIC, TIMES = 0.1, 2.0

GROWS = Claim(
    8,
    "CIFAR-10: accuracy grows with the workers a round, and drops dramatically for few workers on skewed data.",
    f"{ACCURACY} for every two of n = 10, 50, 100 on both partitions; {CLEAR}; {GRADED}; and n = 100 less n = 10 is "
    "at least 0.1 on two shards a worker, and at least twice that on i.i.d. data (only one of these: neither as "
    "claimed nor opposite); the whole holds where both parts do, and does not where the first does not.",
    ("fig5",),
)
STEPS = Claim(
    9,
    "CIFAR-10: local steps help, i.i.d. and skewed, and matter less than skew and workers a round.",
    f"{ACCURACY}, 10 of 100 workers: 5 and 10 local epochs less 1 on both partitions; and what 10 epochs instead of "
    "1 change is less than what i.i.d. instead of skewed data and n = 100 instead of 10 change at 5 epochs, whatever "
    f"the direction; {CLEAR}; {GRADED}; the whole holds where both parts do, and does not where the first does not.",
    ("fig6", "fig5"),
)


def grows(raw: Raw, scale: Scale) -> Verdict:
    """Claim 8."""
    measured = {
        (partition, n): _accuracy(raw, scale, partition, n, USUAL)
        for partition in PARTITIONS
        for n in COHORTS
    }
    growing = Part(
        "More workers are better",
        [
            finding(
                PARTITIONS[partition],
                f"{PARTITIONS[partition]}, n = {many} against {few}",
                minus(measured[partition, many], measured[partition, few]),
            )
            for partition in PARTITIONS
            for few, many in combinations(COHORTS, 2)
        ],
    )
    drops = {
        partition: mean(minus(measured[partition, FULL_COHORT], measured[partition, PARTIAL_COHORT]))
        for partition in PARTITIONS
    }
    said = [f"{PARTITIONS[name]} {100 * drop:.1f}" for name, drop in drops.items() if drop is not None]
    more = listed("Points of accuracy lost from n = 100 to n = 10:", said)
    more = " ".join(filter(None, (more, _beside_the_table(raw, scale))))
    dramatic = Part("The drop on skewed data is dramatic", [_dramatic(drops[EVEN], drops[SKEWED])])
    return judged(GROWS, [growing, dramatic], more)


def _beside_the_table(raw: Raw, scale: Scale) -> str:
    """How much harder skewed images are than table 2 has it: in how many rounds i.i.d. ones come as far."""
    papers = {row.partition: row.fedavg[0] for row in ROWS if row.dataset == "cifar10"}
    even, skewed = (
        {run.setting.seed: run for run in _runs(raw, scale, partition, PARTIAL_COHORT, USUAL)}
        for partition in PARTITIONS
    )
    reached = []
    for seed in sorted(even.keys() & skewed.keys()):
        if skewed[seed].setting.rounds < papers[SKEWED]:
            return ""
        best = skewed[seed].within(papers[SKEWED]).best_accuracy()
        rounds = None if best is None else even[seed].rounds_to(best)
        if rounds is None:
            return ""
        reached.append(rounds)
    if not reached:
        return ""
    seeds = f"{len(reached)} seed{'s' * (len(reached) > 1)}"
    return (
        f"Table 2 has n = {PARTIAL_COHORT} come to 75% in {papers[SKEWED]} rounds on two shards a worker and in "
        f"{papers[EVEN]} on i.i.d. data; here i.i.d. data come in {span(reached, '{:g}')} ({seeds}) to the best of "
        f"two shards' first {papers[SKEWED]}."
    )


def steps(raw: Raw, scale: Scale) -> Verdict:
    """Claim 9."""
    by_epochs = {
        (partition, epochs): _accuracy(raw, scale, partition, PARTIAL_COHORT, epochs)
        for partition in PARTITIONS
        for epochs in EPOCHS
    }
    better = Part(
        "More local epochs are better than one",
        [
            finding(
                PARTITIONS[partition],
                f"{PARTITIONS[partition]}, K = {epochs} against {FEWEST}",
                minus(by_epochs[partition, epochs], by_epochs[partition, FEWEST]),
            )
            for partition in PARTITIONS
            for epochs in EPOCHS[1:]
        ],
    )
    own = _sizes([minus(by_epochs[each, LARGEST], by_epochs[each, FEWEST]) for each in PARTITIONS])
    others = {
        "skew": _sizes([minus(by_epochs[EVEN, USUAL], by_epochs[SKEWED, USUAL])]),
        "workers a round": _sizes(
            [
                minus(*(_accuracy(raw, scale, each, n, USUAL) for n in (FULL_COHORT, PARTIAL_COHORT)))
                for each in PARTITIONS
            ]
        ),
    }
    slighter = Part(
        "They change less than skew and workers a round do",
        [finding(name, f"K against {name}", minus(values, own)) for name, values in others.items()],
    )
    sizes = {name: mean(values) for name, values in ({"K": own} | others).items()}
    said = [f"{name} {100 * size:.1f}" for name, size in sizes.items() if size is not None]
    return judged(STEPS, [better, slighter], listed("Points of accuracy that each changes:", said))


def _accuracy(raw: Raw, scale: Scale, partition: str, cohort: int, epochs: int) -> dict[int, float]:
    return per_seed(_runs(raw, scale, partition, cohort, epochs))


def _runs(raw: Raw, scale: Scale, partition: str, cohort: int, epochs: int) -> list[Curve]:
    return curves(raw, scale, scale.image_model, partition, cohort, epochs, "cifar10")


def _sizes(changes: list[dict[int, float]]) -> PerSeed:
    """The mean size of those changes that were measured, seed by seed."""
    known = [{seed: abs(value) for seed, value in each.items()} for each in changes if each]
    return averaged(known)


def _dramatic(even: float | None, skewed: float | None) -> Finding:
    group, cell = "the drop on both partitions", "n = 100 less n = 10"
    if even is None or skewed is None:
        return Finding(group, cell, None)
    large, larger = skewed >= DRAMATIC, skewed >= TIMES * even
    facts = {PARTITIONS[EVEN]: rounded(even), PARTITIONS[SKEWED]: rounded(skewed)}
    return Finding(group, cell, 1 if large and larger else 0 if large or larger else -1, facts)
