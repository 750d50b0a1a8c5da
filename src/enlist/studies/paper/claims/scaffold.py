"""FedAvg beside SCAFFOLD: claims 10 and 11, of table 2."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from enlist.studies.paper.claims.judging import (
    GRADED,
    UNREACHABLE,
    Claim,
    Finding,
    Part,
    Verdict,
    judged,
    spanned,
)
from enlist.studies.paper.raw import Curve, Raw
from enlist.studies.paper.recipe import MODELS
from enlist.studies.paper.recipes import scaffold as study
from enlist.studies.paper.recipes import starts
from enlist.studies.paper.recipes.table2 import METHODS, NAMES, ROWS, SKEWS, TARGETS, Row, model_of, rows
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.statistics.race import Race, costed, raced
from enlist.studies.paper.statistics.seeds import (
    CLEAR_RATIO,
    ONE_SEED_RATIO,
    PerSeed,
    finding,
    mean,
    median,
    minus,
    rounded,
)
from enlist.studies.paper.statistics.table2 import Cell, cost, row_runs, table2_cells

SKEWED, CIFAR = "shards:2", "CIFAR-10"
# Rounds are similar up to this factor, or one round more; clearly more beyond the other.
SIMILAR, CLEARLY_MORE = 1.2, 2.0
COSTLIER = 1.5

ROUNDS = Claim(
    10,
    "Table 2: on MNIST FedAvg needs similar or fewer rounds than SCAFFOLD; on skewed CIFAR-10 SCAFFOLD needs fewer "
    "rounds, but over 1.5 times the traffic and the time.",
    "On MNIST, median rounds over seeds to the target, which most runs of a method may miss, or, where those of both "
    "do, to 99% of the best accuracy that all runs which do not diverge come to, if it is above 1.5 times guessing: "
    "FedAvg may take 1.2 times SCAFFOLD's or one more (over twice, or never, is clearly opposite). On skewed "
    "CIFAR-10, seed by seed to the target, or, where most runs of a method miss it, to that accuracy: SCAFFOLD takes "
    "fewer rounds, and its MiB "
    "and its seconds are over 1.5 times FedAvg's. A run that diverges never arrives unless it was there before; "
    f"{CLEAR_RATIO}. Each part by itself: {GRADED}; the whole holds "
    "where all parts do, and does not where none does.",
    ("table2",),
    shown=("fig7", "goals", "scaffold", "starts"),
)
TWICE = Claim(
    11,
    "SCAFFOLD sends exactly twice as much as FedAvg in a round.",
    "Bytes that one worker sends and receives in a round, counted from the messages: SCAFFOLD's are twice FedAvg's, "
    f"to the byte, for every row of table 2; {GRADED}.",
    ("table2",),
)


def fewer_rounds(raw: Raw, scale: Scale) -> Verdict:
    """Claim 10."""
    mnist = [row for row in rows(scale) if row.dataset == "mnist"]
    skewed = next(row for row in ROWS if row.partition == SKEWED)
    race = costed(raw, scale, skewed)
    run = all(row_runs(raw, scale, skewed, method) for method in METHODS)
    parts = [
        Part("MNIST, FedAvg needs similar or fewer rounds", [_similar(raw, scale, row) for row in mnist]),
        Part("Skewed CIFAR-10, SCAFFOLD needs fewer rounds", [_fewer(race, run)]),
        Part("Skewed CIFAR-10, SCAFFOLD costs over 1.5 times as much", _costlier(raw, race, run)),
    ]
    cells = table2_cells(raw, scale)
    more = [
        spanned("On MNIST FedAvg's rounds over SCAFFOLD's:", parts[0].values("ratio")),
        _missed(parts[0]),
        _cifar(race, parts[2], run),
        _impossible(cells),
        _own_table(mnist),
        _other_starts(raw, scale),
        _other_batches(raw, scale),
    ]
    verdict = judged(ROUNDS, parts, " ".join(filter(None, more)), alike=True)
    counts = Counter(cell.verdict for cell in cells)
    return verdict._replace(numbers=verdict.numbers | {"cells_of_the_table": dict(counts)})


def twice(raw: Raw, scale: Scale) -> Verdict:
    """Claim 11."""
    findings = [_twice(raw, scale, row) for row in rows(scale)]
    part = Part("Twice the bytes", findings)
    return judged(TWICE, [part], spanned("SCAFFOLD's bytes over FedAvg's:", part.values("ratio"), "{:.6g}"))


def _similar(raw: Raw, scale: Scale, row: Row) -> Finding:
    group = MODELS[row.model]
    cell = f"{group}, {SKEWS[row.partition]}, n = {row.cohort}"
    if (race := raced(raw, scale, row)) is None:
        return Finding(group, cell, None)
    if math.isinf(race.fedavg) and math.isinf(race.scaffold):
        return Finding(group, cell, 0, race.facts())
    both = math.isfinite(race.fedavg + race.scaffold)
    facts = race.facts() | {"ratio": rounded(race.fedavg / race.scaffold) if both else None}
    return Finding(group, cell, similar(race.fedavg, race.scaffold), facts)


def _missed(part: Part) -> str:
    """Where a method misses a target that the other reaches."""
    said = []
    for method, other, meaning in (("scaffold", "fedavg", "so"), ("fedavg", "scaffold", "opposite")):
        rows = [each for each in part.findings if each.facts.get(other) and each.facts.get(method) is None]
        if rows:
            where = f"in {len(rows)} of {len(part.signs)} rows, which count as {meaning}"
            said.append(f"{NAMES[method]} misses what {NAMES[other]} reaches {where}.")
    return " ".join(said)


def similar(fedavg: float, scaffold: float) -> int:
    """Whether FedAvg's rounds are as many as SCAFFOLD's, or fewer: 1, 0 or -1.

    Example:
        >>> similar(3, 3), similar(8, 5), similar(17, 7)
        (1, 0, -1)
    """
    if fedavg <= max(SIMILAR * scaffold, scaffold + 1):
        return 1
    return -1 if fedavg > CLEARLY_MORE * scaffold else 0


def _fewer(race: Race | None, run: bool) -> Finding:
    """`run`: whether both methods were; without an accuracy that both come to, nothing can be told."""
    cell = "rounds"
    if race is None:
        return Finding(CIFAR, cell, 0 if run else None)
    values = _log_ratios(race.per_seed("fedavg"), race.per_seed("scaffold"))
    return finding(CIFAR, cell, values, math.log(ONE_SEED_RATIO), **race.facts())


def _costlier(raw: Raw, race: Race | None, run: bool) -> list[Finding]:
    if race is None:
        return [Finding(CIFAR, cell, 0 if run else None) for cell in ("MiB", "seconds")]
    costs = {
        method: {
            seed: cost(raw, race.runs[method][0], rounds) for seed, rounds in race.per_seed(method).items()
        }
        for method in METHODS
    }
    mib = {method: {seed: each.mib for seed, each in own.items()} for method, own in costs.items()}
    seconds = {
        method: {seed: each.seconds for seed, each in own.items() if each.seconds is not None}
        for method, own in costs.items()
    }
    return [_over("MiB", CIFAR, mib), _over("seconds", "measured seconds", seconds)]


def _over(cell: str, group: str, costs: Mapping[str, PerSeed]) -> Finding:
    """Whether SCAFFOLD's cost is clearly over so many times FedAvg's, or clearly below."""
    ratios = _log_ratios(costs["scaffold"], costs["fedavg"])
    beyond = {seed: value - math.log(COSTLIER) for seed, value in ratios.items()}
    typical = mean(ratios)
    ratio = None if typical is None else rounded(math.exp(typical))
    return finding(group, cell, beyond, math.log(ONE_SEED_RATIO), ratio=ratio)


def _log_ratios(one: PerSeed, other: PerSeed) -> dict[int, float]:
    return minus(*({seed: math.log(value) for seed, value in each.items()} for each in (one, other)))


def _cifar(race: Race | None, costs: Part, run: bool) -> str:
    if race is None:
        return "On skewed CIFAR-10 there is no accuracy that all runs come to." if run else ""
    rounds = " and ".join(
        f"{name} {rounds:g}" if math.isfinite(rounds) else f"{name} more than were run"
        for name, rounds in (("SCAFFOLD", race.scaffold), ("FedAvg", race.fedavg))
    )
    times = [
        f"{each.cell} {each.facts['ratio']:.2f} times" for each in costs.findings if each.facts.get("ratio")
    ]
    said = f"On skewed CIFAR-10 rounds to {race.level:.1%}: {rounds}"
    return f"{said}; SCAFFOLD's {', '.join(times)} FedAvg's." if times else f"{said}."


def _impossible(cells: Sequence[Cell]) -> str:
    """Which model's target the ceiling rules out."""
    ceilings = {
        (MODELS[cell.model], cell.target): cell.ceiling for cell in cells if cell.verdict == UNREACHABLE
    }
    return " ".join(
        f"{model} cannot reach {target:.0%}: trained in one place it comes to {most:.1%}."
        for (model, target), most in ceilings.items()
    )


def _own_table(rows: Sequence[Row]) -> str:
    signs = [similar(row.fedavg[0], row.scaffold[0]) for row in rows]
    return (
        f"By the same rule the paper's own numbers for MNIST are so in {signs.count(1)} of {len(signs)} rows."
    )


def _other_starts(raw: Raw, scale: Scale) -> str:
    """What first weights that the paper may have had would have said."""
    said = []
    for each in (scale, starts.otherwise(scale)):
        own = starts.rows(each)
        signs = [found.sign for row in own if (found := _similar(raw, each, row)).sign is not None]
        runs = [run for row in own for run in row_runs(raw, each, row, "scaffold")]
        if not signs:
            return ""
        gone = sum(run.status == "diverged" for run in runs)
        name = starts.STARTS[starts.of(each)]
        said.append(
            f"{name} {signs.count(1)} of {len(signs)}, SCAFFOLD diverging in {gone} of {len(runs)} runs"
        )
    return f"MNIST without LR, rows that are so, by first weights: {'; '.join(said)}."


def _other_batches(raw: Raw, scale: Scale) -> str:
    """What other batches would have said, by the runs of the study of SCAFFOLD, of rows in which either arrives."""
    tries = [each for each in study.tries(scale) if each.option in (None, study.USUAL)]
    said = []
    for batch in sorted({each.batch for each in tries}):
        by_method = {each.method: each for each in tries if each.batch == batch}
        signs = []
        for row in study.rows(scale):
            runs = [study.found(raw, scale, row, by_method[method]) for method in ("fedavg", "scaffold")]
            fedavg, scaffold = (_median_to_target(own) for own in runs)
            if all(runs) and math.isfinite(min(fedavg, scaffold)):
                signs.append(similar(fedavg, scaffold))
        said += [f"{batch}: {signs.count(1)} of {len(signs)}"] if signs else []
    if len(said) < 2:
        return ""
    return (
        "To the target with 10 workers a round, rows of the 2NN and the CNN that are so, by batch (one seed but of "
        f"that in use): {', '.join(said)}."
    )


def _median_to_target(runs: Sequence[Curve]) -> float:
    return median([run.rounds_to(TARGETS[run.setting.dataset]) for run in runs]) or math.inf


def _twice(raw: Raw, scale: Scale, row: Row) -> Finding:
    group = MODELS[model_of(scale, row)]
    cell = f"{row.dataset}, {group}, {row.partition}, n = {row.cohort}"
    sent = {
        method: {run.uplink_bytes + run.downlink_bytes for run in row_runs(raw, scale, row, method)}
        for method in METHODS
    }
    if not all(sent.values()):
        return Finding(group, cell, None)
    exact = sent["scaffold"] == {2 * each for each in sent["fedavg"]}
    facts = {method: max(each) for method, each in sent.items()}
    ratio = rounded(facts["scaffold"] / facts["fedavg"]) if facts["fedavg"] else None
    return Finding(group, cell, 1 if exact else -1, facts | {"ratio": ratio})
