"""What is kept of the full scale: verdicts are those of the raw metrics, the document says what they say."""

import json
import re
from pathlib import Path

import pytest

from enlist.studies.paper import raw
from enlist.studies.paper.catalogue import RECIPES
from enlist.studies.paper.claims.verdicts import FAILS, HOLDS, IN_PART, verdicts
from enlist.studies.paper.setting import FULL

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "results/paper"
LARGEST = 20e6


@pytest.fixture(scope="module")
def kept():
    return raw.read(KEPT / "raw")


def test_kept_verdicts_are_those_of_the_kept_metrics(kept):
    written = {each["number"]: each for each in json.loads((KEPT / "verdicts.json").read_text())["verdicts"]}
    judged = verdicts(kept, FULL)
    assert {each.number: (each.verdict, each.statistic, each.rule) for each in judged} == {
        number: (each["verdict"], each["statistic"], each["rule"]) for number, each in written.items()
    }


def test_every_kept_run_is_one_that_a_recipe_asks_for(kept):
    asked = {setting for recipe in RECIPES.values() for setting in recipe.runs(FULL)}
    assert not set(kept.curves) - asked


def test_results_are_small_enough_to_keep():
    assert sum(path.stat().st_size for path in KEPT.rglob("*") if path.is_file()) < LARGEST


def test_the_document_shows_the_verdicts_table_2_and_every_figure():
    document, page = (
        (ROOT / name).read_text() for name in ("docs/reproduction.md", "results/paper/reproduction.md")
    )
    for head in ("## Verdicts", "## Table 2."):
        table = re.search(r"(^\|.*\n)+", page[page.index(f"\n{head}") :], re.MULTILINE)
        assert table
        assert table[0] in document
    for figure in (KEPT / "figures").glob("*.png"):
        assert f"(../results/paper/figures/{figure.name})" in document
    assert f"{sum(1 for _ in raw.read(KEPT / 'raw')):,} runs" in document
    judged = [each["verdict"] for each in json.loads((KEPT / "verdicts.json").read_text())["verdicts"]]
    counts = [judged.count(each) for each in (HOLDS, IN_PART, FAILS)]
    said = "of {} claims {} hold, {} hold in part, {} do not".format(sum(counts), *counts)
    assert said in document
    assert said in (ROOT / "README.md").read_text()
