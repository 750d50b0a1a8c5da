"""What was chosen where the paper is silent, as plain tables and in words."""

from collections.abc import Mapping, Sequence

from enlist.report.paper.figures import NOT_RUN
from enlist.report.paper.page import Grid
from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import DATASETS
from enlist.studies.paper.recipes import beginnings, choices
from enlist.studies.paper.recipes.beginnings import Nearness
from enlist.studies.paper.recipes.starts import STARTS
from enlist.studies.paper.setting import Scale, Way
from enlist.studies.paper.statistics.seeds import mean

USED = "used here"
PIXELS = {None: "from 0 to 1", beginnings.STANDARD: "standardised"}
# Eighty columns hold no more.
SHORT = {None: "0 to 1", beginnings.STANDARD: "standard"}


def choice_grids(raw: Raw, scale: Scale) -> list[Grid]:
    """All that is compared."""
    return [choice_rows(raw, scale), beginning_rows(raw, scale)]


def choice_rows(raw: Raw, scale: Scale) -> tuple[list[str], list[list[str]]]:
    """Each way to train and how far its rounds are from table 2's: heads and rows."""
    rows = []
    for dataset, title in DATASETS.items():
        found, used = choices.outcomes(raw, scale, dataset), scale.ways[dataset]
        tried = choices.tried(scale, dataset)
        best, word = choices.chosen(found, tried), "chosen" if scale.name == "full" else "best here"
        for way in tried:
            marks = [name for name, own in ((word, best), (USED, used)) if own and _alike(own, way)]
            measures = [NOT_RUN, "", ""] if way not in found else _measured(found[way])
            rows.append([title, way.words(), *measures, ", ".join(marks)])
    return ["data", "how", "cells that arrive", "distance from the paper", "best of each cell", ""], rows


def _measured(outcome: choices.Outcome) -> list[str]:
    reached, cells, distance, accuracies = outcome
    lowest, highest = min(accuracies), max(accuracies)
    return [f"{reached} of {cells}", f"{distance:.3f}", f"{100 * lowest:.1f} to {100 * highest:.1f}%"]


def choice_words(raw: Raw, scale: Scale) -> str:
    """What the rule chose, and what is used."""
    return " ".join(
        _chosen(choices.outcomes(raw, scale, dataset), scale, dataset, title)
        for dataset, title in DATASETS.items()
    )


def _chosen(found: Mapping[Way, choices.Outcome], scale: Scale, dataset: str, title: str) -> str:
    way, tried = scale.ways[dataset], choices.tried(scale, dataset)
    used = Way(way.batch, way.augment).words()
    if not found:
        return f"{title}: the runs that choose are not there yet; {used} are used."
    so_far = f" of the {len(found)} of {len(tried)} ways that were run" if len(found) < len(tried) else ""
    if scale.name != "full":
        return f"{title}: at {scale.name} scale {used} are used, whatever comes out here."
    if (best := choices.chosen(found, tried)) is None:
        return f"{title}: none{so_far} reaches the target; until all are run, {used} are used."
    said = f"{title}: the rule chooses {best.words()}{so_far}"
    if not found[best].reached:
        said = f"{title}: none reaches the target, and the rule chooses what comes farthest, {best.words()}"
    if _alike(best, way):
        return f"{said}, as in all other runs here."
    return f"{said}; all other runs here have {used}."


def _alike(one: Way, other: Way) -> bool:
    """Whether they have the same batch and vary images alike, which is what this search is about."""
    return (one.batch, one.augment) == (other.batch, other.augment)


def beginning_rows(raw: Raw, scale: Scale) -> Grid:
    """MNIST's pixels and first weights: heads and rows."""
    found = beginnings.compared(raw, scale)
    best = beginnings.chosen(found)
    word = "chosen" if scale.name == "full" else "best here"
    rows = []
    for each in found:
        marks = [name for name, own in ((word, best), (USED, scale.ways["mnist"])) if own == each.way]
        names = [SHORT[each.way.pixels], STARTS[each.way.start]]
        rows.append([*names, *_nearness(each), ", ".join(marks)])
    heads = ["pixels", "first weights", "runs that arrive", "distance from the paper", "nearer by"]
    return [*heads, "clear above", ""], rows


def _nearness(each: Nearness) -> list[str]:
    if not each.runs:
        return [NOT_RUN, "", "", ""]
    known = list(each.distances.values())
    spread = f"{mean(each.distances):.3f}" if known else "–"
    if known and min(known) < max(known):
        spread += f" ({min(known):.3f} to {max(known):.3f})"
    gain = ["–", "–"] if each.gain is None else [f"{each.gain.mean:.3f}", f"{each.gain.bound:.3f}"]
    so_far = f" run of {each.wanted}" if each.runs < each.wanted else ""
    return [f"{each.reached} of {each.runs}{so_far}", spread, *gain]


def beginning_words(raw: Raw, scale: Scale) -> str:
    """What the rule chose, and what is used."""
    used, found = scale.ways["mnist"], beginnings.compared(raw, scale)
    if (best := beginnings.chosen(found)) is None:
        return f"Pixels and first weights: not all ways are run yet; {_begun(used)} are used."
    said = f"Pixels and first weights: the rule chooses {_begun(best)}{_too_little(found)}"
    if scale.name != "full":
        return f"{said}; at {scale.name} scale {_begun(used)} are used, whatever comes out here."
    if (best.pixels, best.start) == (used.pixels, used.start):
        return f"{said}, as in all other runs on MNIST here."
    return f"{said}; all other runs on MNIST here have {_begun(used)}."


def _too_little(found: Sequence[Nearness]) -> str:
    """Who is nearer clearly, but not by enough."""
    return "".join(
        f" ({_begun(each.way)} are clearly nearer, by {each.gain.mean:.3f}, less than {beginnings.WORTH:g})"
        for each in found
        if each.gain is not None and each.gain.sign > 0 and not each.is_worth_it
    )


def _begun(way: Way) -> str:
    return f"pixels {PIXELS[way.pixels]} and {STARTS[way.start]} first weights"
