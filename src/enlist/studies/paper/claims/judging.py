"""What a verdict is, and how comparisons become one.

A claim is taken apart into comparisons. Each is clearly as claimed, clearly opposite, or neither; their shares make
the verdict, by one rule for all claims.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"
UNREACHABLE, NOT_RUN = "cannot be reached", "not run"
# The share of comparisons that must be clearly as claimed.
MOST, HALF = 0.9, 0.5
# Facts that a sentence lists.
AT_ONCE = 6
GRADED = (
    "it holds where nine tenths of the comparisons are clearly so, none is clearly opposite and all were run, "
    "in part where half are clearly so"
)


class Verdict(NamedTuple):
    """What became of a claim.

    Args:
        number: its place in the list of claims.
        claim: what is claimed.
        verdict: one of `HOLDS`, `IN_PART`, `FAILS`, `UNREACHABLE`, `NOT_RUN`.
        statistic: the numbers that say so.
        rule: how the verdict comes from them.
        numbers: all of them, as JSON has it.
        recipes: those whose runs it is about.
        shown: others that show it too.
    """

    number: int
    claim: str
    verdict: str
    statistic: str
    rule: str
    numbers: dict[str, Any]
    recipes: Sequence[str] = ()
    shown: Sequence[str] = ()

    def bears_on(self, recipe: str) -> bool:
        """Whether it is to be read beside that recipe."""
        return recipe in (*self.recipes, *self.shown)


class Claim(NamedTuple):
    """What is claimed, how it is judged, which recipes make the runs for that, and which others show it."""

    number: int
    words: str
    rule: str
    recipes: Sequence[str]
    shown: Sequence[str] = ()


class Finding(NamedTuple):
    """One comparison.

    Args:
        group: what is named where runs are missing, a model for instance.
        cell: the settings that are compared.
        sign: 1 clearly as claimed, -1 clearly opposite, 0 neither; None where runs are missing.
        facts: its numbers.
    """

    group: str
    cell: str
    sign: int | None
    facts: Mapping[str, Any] = {}


class Part(NamedTuple):
    """A part of a claim: what is claimed in a few words, and its comparisons."""

    words: str
    findings: Sequence[Finding]

    @property
    def signs(self) -> list[int]:
        """Of the comparisons that could be made."""
        return [each.sign for each in self.findings if each.sign is not None]

    @property
    def verdict(self) -> str:
        """By the rule for all claims.

        Where comparisons are missing it holds at most in part; where more than half are, it counts as not run.
        """
        if 2 * len(self.signs) < len(self.findings):
            return NOT_RUN
        verdict, whole = graded(self.signs), len(self.signs) == len(self.findings)
        return verdict if whole or verdict != HOLDS else IN_PART

    def values(self, fact: str) -> list[float]:
        """A number of every comparison that has it."""
        return [each.facts[fact] for each in self.findings if each.facts.get(fact) is not None]


def graded(signs: Sequence[int]) -> str:
    """What comparisons amount to.

    Example:
        >>> graded([1, 1, 1]), graded([1, 1, 0]), graded([1, -1, -1]), graded([])
        ('holds', 'holds in part', 'does not hold', 'not run')
    """
    if not signs:
        return NOT_RUN
    share = signs.count(1) / len(signs)
    if share >= MOST and -1 not in signs:
        return HOLDS
    return IN_PART if share >= HALF else FAILS


def combined(verdicts: Iterable[str]) -> str:
    """Of a claim whose parts count alike; of which one was not run, it holds at most in part.

    Example:
        >>> combined([HOLDS, NOT_RUN]), combined([HOLDS, FAILS]), combined([FAILS, NOT_RUN])
        ('holds in part', 'holds in part', 'does not hold')
    """
    all_ = set(verdicts)
    known = all_ - {NOT_RUN}
    if not known:
        return NOT_RUN
    if len(known) > 1 or all_ == {HOLDS, NOT_RUN}:
        return IN_PART
    return known.pop()


def led(verdicts: Sequence[str]) -> str:
    """Of a claim whose first part is its core: where that does not hold, or was not run, nothing else saves it.

    Example:
        >>> led([FAILS, HOLDS]), led([HOLDS, FAILS]), led([NOT_RUN, HOLDS])
        ('does not hold', 'holds in part', 'not run')
    """
    return verdicts[0] if verdicts[0] in (FAILS, NOT_RUN) else combined(verdicts)


def judged(claim: Claim, parts: Sequence[Part], more: str = "", *, alike: bool = False) -> Verdict:
    """The verdict on a claim.

    Args:
        parts: the first is the core of the claim.
        more: what is to be said beside how many comparisons are as claimed.
        alike: whether all parts count alike.
    """
    verdicts = [part.verdict for part in parts]
    verdict = combined(verdicts) if alike else led(verdicts)
    findings = [each for part in parts for each in part.findings]
    numbers = {"parts": {part.words: _numbers(part) for part in parts}, "not_run": _without_runs(findings)}
    known = (claim.number, claim.words, verdict)
    if verdict == NOT_RUN:
        sentences = [*_so_far(parts, more), _to_run(claim, "the others" if parts[0].signs else "them")]
    else:
        sentences = [*map(counted, parts), more, _seeds(findings), _missing(claim, findings)]
    said = " ".join(sentence for sentence in sentences if sentence)
    return Verdict(*known, said, claim.rule, numbers, claim.recipes, claim.shown)


def counted(part: Part) -> str:
    """How many comparisons of a part are as claimed."""
    return f"{part.words}: {_few(part)}." if part.verdict == NOT_RUN else tallied(part)


def tallied(part: Part) -> str:
    """How many comparisons of a part are as claimed, of however few."""
    signs = part.signs
    opposite = f", clearly opposite in {signs.count(-1)}" if -1 in signs else ""
    return f"{part.words}: clearly so in {signs.count(1)} of {len(signs)}{opposite}."


def span(values: Sequence[float], pattern: str = "{:.2g}") -> str:
    """From the least to the largest of some numbers.

    Example:
        >>> span([1.5, 3.0, 1.2]), span([2.0])
        ('1.2 to 3', '2')
    """
    least, largest = pattern.format(min(values)), pattern.format(max(values))
    return least if least == largest else f"{least} to {largest}"


def spanned(words: str, values: Sequence[float], pattern: str = "{:.2g}") -> str:
    """A sentence with the least and the largest of some numbers; nothing where there is none."""
    return f"{words} {span(values, pattern)}." if values else ""


def listed(words: str, items: Sequence[str], between: str = ", ") -> str:
    """A sentence with some facts, the first of many; nothing where there is none."""
    shown = [*items[:AT_ONCE], *([f"and {len(items) - AT_ONCE} more"] if len(items) > AT_ONCE else [])]
    return f"{words} {between.join(shown)}." if items else ""


def _few(part: Part) -> str:
    """That too little was run to say anything."""
    return f"{len(part.signs)} of {len(part.findings)} comparisons run" if part.signs else "not run"


def _so_far(parts: Sequence[Part], more: str) -> list[str]:
    """What comparisons say that are too few for a verdict."""
    if not parts[0].signs:
        return ["Its runs are not there."]
    told = [tallied(part) for part in parts if part.signs]
    return [f"Only {_few(parts[0])}, less than half, so there is no verdict.", *told, more]


def _to_run(claim: Claim, what: str) -> str:
    commands = " and ".join(f"`enlist reproduce {name}`" for name in claim.recipes)
    return f"To make {what}: {commands}, with `--out` this folder."


def _numbers(part: Part) -> dict[str, Any]:
    signs = part.signs
    return {
        "verdict": part.verdict,
        "as_claimed": signs.count(1),
        "opposite": signs.count(-1),
        "comparisons": len(signs),
        "cells": {
            each.cell: {**each.facts, "sign": each.sign} for each in part.findings if each.sign is not None
        },
    }


def _without_runs(findings: Sequence[Finding]) -> list[str]:
    return list(dict.fromkeys(f"{each.group}: {each.cell}" for each in findings if each.sign is None))


def _seeds(findings: Sequence[Finding]) -> str:
    counts = [each.facts["seeds"] for each in findings if each.sign is not None and "seeds" in each.facts]
    if not counts:
        return ""
    least, most = min(counts), max(counts)
    if least == most:
        return f"{most} seed{'s' * (most > 1)}."
    return f"{least} to {most} seeds."


def _missing(claim: Claim, findings: Sequence[Finding]) -> str:
    """Groups that were not run, or not all of them."""
    groups = dict.fromkeys(each.group for each in findings if each.sign is None)
    if not groups:
        return ""
    there = {each.group for each in findings if each.sign is not None}
    words = [f"some of {group}" if group in there else group for group in groups]
    return f"Judged without {', '.join(words)}, whose runs are not there ({', '.join(claim.recipes)})."
