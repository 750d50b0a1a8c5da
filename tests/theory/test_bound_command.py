"""`enlist bound`: what it prints, and what it refuses in one line."""

import json
import re
import shlex

import pytest

from enlist.cli import main
from enlist.theory.bounds import theorem_2_without_replacement
from enlist.theory.conditions import Constants, Rates

PROBLEM = "bound --smoothness 2 --sigma-local 1.5 --sigma-global 0.7 --gap 3 --local-steps 5 --rounds 400"
INSIDE = f"{PROBLEM} --workers 20 --cohort 4 --worker-lr 0.006 --server-lr 3"
TABLE = "bound --table --local-steps 4 --rounds 10000"


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def said(words, capsys):
    main(shlex.split(words))
    return capsys.readouterr().out


def refused(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(words))
    out, error = capsys.readouterr()
    assert (stop.value.code, out, error.count("\n")) == (2, "", 1)
    return error


def test_json_has_the_theorem(capsys, tmp_path):
    found = json.loads(said(f"{INSIDE} --json", capsys))
    assert list(found)[:6] == ["bound", "vanishing", "phi", "c", "conditions", "parts"]
    assert (found["cohort"], found["worker_lr"], found["server_lr"]) == (4, 0.006, 3.0)
    expected = theorem_2_without_replacement(
        Constants(2.0, 1.5, 0.7, 3.0), Rates(0.006, 3.0), local_steps=5, rounds=400, cohort=4, workers=20
    )
    assert found["bound"] == expected.bound
    assert found["parts"] == expected.parts._asdict()
    assert [list(each) for each in found["conditions"]] == [["name", "value", "limit", "margin", "holds"]] * 3
    assert all(each["holds"] for each in found["conditions"])
    assert list(tmp_path.iterdir()) == []


def test_a_person_gets_tables_and_a_sentence(capsys):
    out = said(INSIDE, capsys)
    assert "vanishing" in out
    assert "sampling drift global" in out
    assert re.search(
        r"In 400 rounds at worker-lr 0.006 and server-lr 3, some round's E\|grad f\|\^2 is at most", out
    )


def test_a_cohort_with_replacement_may_be_larger_than_all_workers(capsys):
    many = INSIDE.replace("--cohort 4", "--cohort 40 --sampling with-replacement")
    few = INSIDE.replace("--cohort 4", "--cohort 20 --sampling with-replacement")
    bounds = [json.loads(said(f"{each} --json", capsys))["bound"] for each in (few, many)]
    assert bounds[1] < bounds[0]


def test_no_limit_is_null_and_a_dash(capsys):
    one = INSIDE.replace("--cohort 4", "--cohort 1 --sampling with-replacement")
    step = json.loads(said(f"{one} --json", capsys))["conditions"][1]
    assert (step["limit"], step["margin"], step["holds"]) == (None, None, True)
    assert re.search(r"g L = eta eta_L K L +│ 0.18 +│ - +│ - ", said(one, capsys))


def test_out_keeps_it_with_what_was_given(capsys, tmp_path):
    shown = json.loads(said(f"{PROBLEM} --out kept --json", capsys))
    kept = json.loads((tmp_path / "kept" / "bound.json").read_text())
    assert {name: kept.get(name, kept["given"].get(name)) for name in shown} == shown
    # The corollary's rates, since none were given.
    assert kept["given"]["worker_lr"] == pytest.approx(1 / (20 * 5 * 2))
    assert kept["given"]["server_lr"] == pytest.approx(50**0.5)
    assert kept["given"]["cohort"] == 10
    said(f"{TABLE} --out kept", capsys)
    assert len(json.loads((tmp_path / "kept" / "table1.json").read_text())["rows"]) == 11
    (tmp_path / "kept/metrics.jsonl").touch()
    with pytest.raises(SystemExit) as stop:
        said(f"{PROBLEM} --out kept", capsys)
    assert stop.value.code == 2


def test_beside_a_worker_rate_the_server_rate_is_one(capsys):
    short = INSIDE.replace(" --server-lr 3", "")
    assert said(f"{short} --json", capsys) == said(f"{short} --server-lr 1 --json", capsys)


def test_full_takes_all_workers(capsys):
    full = INSIDE.replace("--cohort 4", "--sampling full")
    assert said(f"{full} --json", capsys) == said(f"{full} --cohort 20 --json", capsys)
    assert said(f"{full} --json", capsys) == said(f"{INSIDE} --cohort 20 --json", capsys)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("bound", "--smoothness, --sigma-local, --sigma-global, --gap, --local-steps, --rounds are missing"),
        (PROBLEM.replace("--gap 3", ""), "bound: --gap is missing, as in: enlist bound --smoothness 1"),
        ("bound --table --rounds 3", "bound: --local-steps is missing, as in: enlist bound --table"),
        (f"{INSIDE} --smoothness 0", "smoothness = 0: must be above 0"),
        (f"{INSIDE} --sigma-local -1", "sigma-local = -1: must be 0 or more"),
        (f"{INSIDE} --sigma-global -0.1", "sigma-global = -0.1: must be 0 or more"),
        (f"{INSIDE} --gap -3", "gap = -3: must be 0 or more"),
        (f"{INSIDE} --gap nan", "gap = nan: must be a finite number"),
        (f"{INSIDE} --cohort 21", "cohort = 21: there are 20 workers; choose 1 to 20"),
        (f"{INSIDE} --sampling full", "cohort = 4: with --sampling full all 20 workers take part"),
        (f"{INSIDE} --sampling ful", "unknown sampling 'ful': did you mean 'full'?"),
        (f"{INSIDE} --worker-lr 0", "worker-lr = 0: a learning rate must be above 0"),
        (f"{INSIDE} --server-lr -1", "server-lr = -1: a learning rate must be above 0"),
        (f"{INSIDE} --epsilon 0.1", "epsilon = 0.1 belongs to --table"),
        (f"{TABLE} --epsilon 0", "epsilon = 0: must be above 0"),
        (f"{INSIDE} there", "'there' belongs to no option"),
        (
            f"{INSIDE} --gap 1e37 --worker-lr 1e-37 --server-lr 1e-300",
            "server-lr = 1e-300: must be 1e-37 or more",
        ),
        (f"{INSIDE} --worker-lr 1e37 --server-lr 1e37", "no rate that can be typed is low enough"),
    ],
)
def test_bad_input_is_refused_in_one_line(words, says, capsys):
    assert says in refused(words, capsys)


BROKEN = [
    # Full with g L = 1.5.
    (
        "--sampling full --workers 4 --worker-lr 0.01 --server-lr 15",
        "Theorem 1 .* g L = eta eta_L K L = 1.5 is above 1;",
    ),
    ("--worker-lr 0.02 --server-lr 0.1", "u = K L eta_L = 0.2 is above 0.125, c = -0.106.* is not above 0;"),
    (
        "--cohort 1 --sampling with-replacement --worker-lr 0.01 --server-lr 5",
        "rates: c = -0.625 is not above 0;",
    ),
    ("--workers 20 --cohort 4 --worker-lr 0.001 --server-lr 150", "g L = .* = 1.5 is above 1.267"),
    ("--cohort 10 --worker-lr 0.0125 --server-lr 30", "c = -.* is not above 0;"),
]


@pytest.mark.parametrize(("rates", "says"), BROKEN)
def test_rates_outside_the_conditions_are_refused_with_those_inside(rates, says, capsys):
    line = refused(f"{PROBLEM} {rates}", capsys)
    assert re.search(says, line)
    advised = dict(re.findall(r"--(worker-lr|server-lr) to (\S+)", line))
    assert "worker-lr" in advised
    for name, rate in advised.items():
        assert said(f"{PROBLEM} {rates} --{name} {rate} --json", capsys)
        # The next number of four digits is too large.
        refused(f"{PROBLEM} {rates} --{name} {float(rate) * 1.0011}", capsys)


def test_no_server_rate_helps_where_the_workers_rate_is_too_large(capsys):
    assert "--server-lr" not in refused(f"{PROBLEM} --worker-lr 0.02 --server-lr 0.1", capsys)


def test_the_corollarys_rates_say_how_many_rounds_they_need(capsys):
    line = refused(f"{PROBLEM} --rounds 50", capsys)
    least = re.search(r"the corollary's rates need --rounds (\d+) or more", line).group(1)
    assert said(f"{PROBLEM} --rounds {least} --json", capsys)
    refused(f"{PROBLEM} --rounds {int(least) - 1}", capsys)


def test_table_as_json(capsys):
    rows = json.loads(said(f"{TABLE} --sampling full --epsilon 0.1 --json", capsys))
    assert len(rows) == 11
    assert rows[5]["name"] == "Khaled"
    assert (rows[5]["rate"], rows[5]["complexity"]) == (pytest.approx(0.011), pytest.approx(1001))
    assert rows[10]["rate_formula"] == "1/T + 1/sqrt(mKT)"
    some = json.loads(said(f"{TABLE} --cohort 25 --epsilon 0.1 --json", capsys))
    assert some[10]["rate_formula"] == "1/T + sqrt(K)/sqrt(nT)"
    assert some[10]["complexity"] == pytest.approx(26)


def test_table_for_a_person(capsys):
    out = said(TABLE, capsys)
    assert "Orders, for m = 100, n = 10, K = 4, T = 10000 and epsilon = 0.01" in out
    assert all(name in out for name in ("Stich1", "Yu1", "Wang", "Khaled", "Li", "SCAFFOLD", "This paper"))


def test_the_answer_needs_no_jax():
    import subprocess
    import sys

    code = f"import sys; from enlist.cli import main; main({shlex.split(INSIDE)!r}); assert 'jax' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
