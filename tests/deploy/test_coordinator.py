"""A round across machines: a bad reply never touches the model, and nobody is waited for without end."""

from collections import Counter
from pathlib import Path

import jax
import numpy as np
import pytest
from stub import (
    carry_out,
    changed,
    cohorts,
    deployment,
    events,
    in_rounds,
    late,
    lines,
    lost,
    model,
    raising,
    replayed,
    same,
    silent,
    spoiled,
    summary,
)

from enlist.deploy.messages import LOCAL, PROBE
from enlist.deploy.worker_state import NONE, Versions

# All five are asked where two are needed.
ALL = {"over_enlist": 2.5}
SOON = {"deadline": 0.05, "join_seconds": 0.05}


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (spoiled(lambda a: a * np.float32(np.nan)), "it holds numbers that are not finite"),
        (spoiled(lambda a: a[:-1]), r"message-0, array 0: float32"),
        (spoiled(lambda a: a.astype(np.float64)), "float64"),
        (spoiled(lambda a: a * np.float32(1e6)), "is above the bound 100"),
        (changed(t=7), "it answers local of round 7, not local of round 0"),
        (changed(token="t1"), "it belongs to another run"),
        (changed(worker=1), "it says that it is worker 1's"),
        (changed(weights=["heavy"]), "weights are not 1 numbers"),
        (changed(rows=2**60), "rows"),
        (raising, "no such luck"),
        (lost, "the reply is not there any more"),
    ],
)
def test_a_bad_reply_is_told_of_and_the_run_goes_on_without_it(tmp_path, fault, cause):
    grid, job, _ = deployment(tmp_path, {**ALL, "norm_bound": 100.0}, rounds=2)
    grid.faults[0] = fault
    assert carry_out(grid, job)["status"] == "done"
    refused = events(job, "refused")
    assert [(line["round"], line["worker"]) for line in refused] == [(0, 0), (1, 0)]
    assert cause in refused[0]["cause"]
    assert cohorts(job) == [[1, 2], [1, 2]]
    assert all(np.isfinite(leaf).all() for leaf in model(Path(job.out)).values())
    told = summary(job)["deployment"]
    assert (told["refusals"], told["refused"][0]["cause"]) == (2, refused[0]["cause"])
    assert (told["abandoned"], told["enlisted"], told["used"]) == (0, 10, 4)


def test_the_reply_of_another_round_is_not_taken(tmp_path):
    grid, job, _ = deployment(tmp_path, ALL)
    first = {}
    grid.faults[0] = lambda order, work: first.setdefault("reply", work())
    assert carry_out(grid, job)["status"] == "done"
    assert cohorts(job)[0] == [0, 1]
    assert all(0 not in ids for ids in cohorts(job)[1:])
    assert [line["cause"] for line in events(job, "refused")] == [
        f"it answers local of round 0, not local of round {t}" for t in (1, 2)
    ]


def test_a_worker_that_is_another_says_so(tmp_path):
    grid, job, _ = deployment(tmp_path, ALL, rounds=1)
    grid.nodes[0] = grid.nodes[0] | {"id": 3}
    (tmp_path / "none.npz").write_bytes(b"")
    grid.nodes[1] = grid.nodes[1] | {"data": str(tmp_path / "none.npz")}
    assert carry_out(grid, job)["status"] == "done"
    causes = {line["worker"]: line["cause"] for line in events(job, "refused")}
    assert causes[0] == "an order for worker 0 came to worker 3: its key is another's"
    assert "none.npz: not a readable .npz" in causes[1]
    assert cohorts(job) == [[2, 3]]


def test_a_reply_that_comes_twice_counts_once(tmp_path):
    once, once_job, _ = deployment(tmp_path / "once", cohort=4)
    grid, job, _ = deployment(tmp_path / "twice", cohort=4)
    grid.doubled = {0, 2}
    assert carry_out(once, once_job)["status"] == carry_out(grid, job)["status"] == "done"
    assert same(model(Path(job.out)), model(Path(once_job.out)))
    drawn = Counter(worker for ids in cohorts(job) for worker in ids)
    assert summary(job)["deployment"]["doubled"] == drawn[0] + drawn[2] > 0


def test_a_worker_that_never_replies_is_done_without(tmp_path):
    grid, job, _ = deployment(tmp_path, ALL)
    grid.faults[0] = silent
    assert carry_out(grid, job)["status"] == "done"
    assert cohorts(job) == [[1, 2]] * 3
    # It is busy with its first order, and so gets no other.
    assert len(grid.orders(0)) == 1
    assert events(job, "abandoned") == events(job, "refused") == []


def test_without_reserve_the_round_is_abandoned_and_tried_without_it(tmp_path):
    grid, job, _ = deployment(tmp_path, SOON)
    quiet = 1
    grid.faults[quiet] = silent
    assert carry_out(grid, job)["status"] == "done"
    (asked,) = grid.orders(quiet)
    t = asked["t"]
    (event,) = events(job, "abandoned")
    assert event["round"] == t
    assert (
        event["cause"] == f"1 valid replies came within 0.05 s where 2 are needed, none from worker {quiet}"
    )
    assert [line["attempt"] for line in lines(job, "cohorts.jsonl")] == [
        int(round_ == t) for round_ in range(3)
    ]
    assert all(quiet not in ids for ids in cohorts(job))
    # x_t was kept: both attempts sent the same.
    sent = [order["payload"] for _, order in grid.sent if order["order"]["t"] == t]
    assert len(sent) == 4
    assert len({tuple(array.data for array in payload.values()) for payload in sent}) == 1
    told = summary(job)["deployment"]
    # Three rounds of two workers, one of them asked twice.
    assert (told["abandoned"], told["enlisted"], told["used"]) == (1, 8, 6)
    spent = [line["seconds"] for line in lines(job, "cohorts.jsonl")]
    assert told["seconds_a_round"] == pytest.approx((sum(spent) + event["seconds"]) / 3, abs=2e-3)


def test_a_late_reply_is_counted_and_its_worker_asked_again(tmp_path):
    grid, job, _ = deployment(tmp_path, {**ALL, "take": "all", **SOON}, rounds=2)
    grid.faults[0] = lambda order, work: work() if lines(job, "cohorts.jsonl") else None
    assert carry_out(grid, job)["status"] == "done"
    assert cohorts(job) == [[1, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert summary(job)["deployment"]["late"] == 1


def test_all_replies_are_taken_where_that_is_asked(tmp_path):
    grid, job, _ = deployment(tmp_path, {**ALL, "take": "all", "deadline": 0.1}, rounds=2)
    grid.faults[3] = in_rounds({1}, silent)
    assert carry_out(grid, job)["status"] == "done"
    assert cohorts(job) == [[0, 1, 2, 3, 4], [0, 1, 2, 4]]


def test_too_few_stop_the_run_with_what_it_has(tmp_path):
    grid, job, _ = deployment(tmp_path, {**SOON, "patience": 2})
    short, short_job, _ = deployment(tmp_path / "short", rounds=2)

    def leave(what):
        if len(lines(job, "cohorts.jsonl")) == 2:
            grid.offline = {0, 1, 2, 4}

    grid.watch = leave
    ended = carry_out(grid, job)
    assert (ended["status"], ended["exit"]) == ("abandoned", 1)
    assert ended["reason"] == (
        "round 3 was abandoned 2 times in a row, at last because 1 workers are there and free (1 reachable), 2 are "
        "needed; the model is that of round 2"
    )
    carry_out(short, short_job)
    assert same(model(Path(job.out)), model(Path(short_job.out)))
    assert (summary(job)["status"], summary(job)["rounds"]) == ("abandoned", 2)
    assert len(events(job, "abandoned")) == 2
    # With all of them back it goes on.
    grid.watch, grid.offline = (lambda what: None), set()
    assert carry_out(grid, job)["status"] == "done"
    assert len(cohorts(job)) == 3


def test_nobody_there_at_all(tmp_path):
    grid, job, _ = deployment(tmp_path, {**SOON, "patience": 1})
    grid.offline = set(range(5))
    assert carry_out(grid, job)["status"] == "abandoned"
    assert summary(job)["rounds"] == 0
    assert summary(job)["final"]["test_accuracy"] >= 0
    assert grid.sent == []


def test_all_are_waited_for_before_the_first_round(tmp_path):
    grid, job, _ = deployment(tmp_path, {"join_seconds": 20.0}, rounds=1, sampling="full", cohort=None)
    grid.offline, looks = {3, 4}, []

    def join(what):
        looks.append(what)
        if looks.count("nodes") == 3:
            grid.offline = set()

    grid.watch = join
    assert carry_out(grid, job)["status"] == "done"
    assert cohorts(job) == [[0, 1, 2, 3, 4]]
    assert looks.count("nodes") == 3


def test_a_worker_that_joins_late_takes_part_from_then_on(tmp_path):
    grid, job, _ = deployment(tmp_path, SOON, cohort=4, rounds=4)
    grid.offline = {4}

    def join(what):
        if len(lines(job, "cohorts.jsonl")) == 1:
            grid.offline = set()

    grid.watch = join
    assert carry_out(grid, job)["status"] == "done"
    assert cohorts(job)[0] == [0, 1, 2, 3]
    assert any(4 in ids for ids in cohorts(job)[1:])


def test_a_worker_drawn_twice_gets_one_order_and_sends_two_messages(tmp_path):
    grid, job, _ = deployment(tmp_path, sampling="with-replacement", cohort=4)
    answers = []

    def note(order, work):
        answers.append((order["order"]["draws"], work()))
        return answers[-1][1]

    grid.faults = dict.fromkeys(range(5), note)
    assert carry_out(grid, job)["status"] == "done"
    for t, ids in enumerate(cohorts(job)):
        orders = [order for order in grid.orders() if order["t"] == t]
        assert {order["worker"]: order["draws"] for order in orders} == Counter(ids)
    assert max(draws for draws, _ in answers) > 1
    for draws, reply in answers:
        made = [reply[name] for name in reply if name.startswith("message-")]
        assert len(made) == len(reply["answer"]["weights"]) == draws
        # Each is a local run of its own.
        assert len({tuple(array.data for array in each.values()) for each in made}) == draws


MIME = {"algorithm": "mime", "rounds": 2}


def kinds(grid, t):
    """Who was sent what in a round, in order."""
    return [(order["kind"], order["worker"]) for order in grid.orders() if order["t"] == t]


def test_a_worker_that_holds_up_the_probe_is_done_without(tmp_path):
    grid, job, _ = deployment(tmp_path, {"over_enlist": 2.5}, **MIME)
    grid.faults[0] = silent
    assert carry_out(grid, job)["status"] == "done"
    assert cohorts(job) == [[1, 2], [1, 2]]
    assert kinds(grid, 0) == [(PROBE, worker) for worker in range(5)] + [(LOCAL, 1), (LOCAL, 2)]


def test_whoever_probes_must_also_work(tmp_path):
    grid, job, _ = deployment(tmp_path, {**SOON, **ALL, "take": "all", "patience": 2}, **MIME)
    grid.faults[3] = lambda order, work: work() if order["order"]["kind"] == PROBE else None
    assert carry_out(grid, job)["status"] == "done"
    # Its probe was in the mean, so the round did not count; then it was busy.
    (event,) = events(job, "abandoned")
    assert event["cause"] == "4 valid replies came within 0.05 s where 5 are needed, none from worker 3"
    assert cohorts(job) == [[0, 1, 2, 4]] * 2


def acknowledged(job, grid, worker):
    """The state that the next order to a worker would name."""
    last = max((t for t, ids in enumerate(cohorts(job)) if worker in ids), default=NONE)
    home = Path(grid.nodes[worker]["home"]) / "state" / job.token
    return last, Versions(home)


def test_replies_that_were_not_used_leave_workers_where_they_were(tmp_path):
    """The simulator with the cohorts that were used comes to the same model and the same states of all workers."""
    asked = {"algorithm": "scaffold", "rounds": 5}
    grid, job, _ = deployment(tmp_path, {"over_enlist": 1.5, "patience": 9}, **asked)
    grid.faults[0] = in_rounds({1, 3}, lost)
    grid.faults[2] = in_rounds({0, 2}, spoiled(lambda a: a * np.float32(np.nan)))
    assert carry_out(grid, job)["status"] == "done"
    assert len(events(job, "refused")) > 0
    run = replayed(job, tmp_path / "replayed", **asked)
    assert same(model(Path(job.out)), model(tmp_path / "replayed"))
    states = run.session.state.workers
    ahead = 0
    for worker in range(5):
        last, versions = acknowledged(job, grid, worker)
        ahead += sum(version > last for version in versions.kept())
        expected = jax.tree.map(lambda leaf: np.asarray(leaf)[worker], states)  # noqa: B023
        first = jax.tree.map(np.zeros_like, expected)
        assert same(versions.load(last, lambda: first, expected), expected)  # noqa: B023
    # Some computed what was not used, and the disk still has it: it is not what the next order will name.
    assert ahead > 0


def test_the_simulator_replays_what_over_enlisting_and_drop_outs_left(tmp_path):
    asked = {"sampling": "with-replacement", "cohort": 4, "rounds": 4}
    grid, job, _ = deployment(tmp_path, {"over_enlist": 1.5, "patience": 9}, **asked)
    grid.faults[1] = in_rounds({0, 2}, lost)
    grid.faults[3] = late(1)
    assert carry_out(grid, job)["status"] == "done"
    assert len(events(job, "refused")) > 0
    assert any(len(set(ids)) < len(ids) for ids in cohorts(job))
    replayed(job, tmp_path / "replayed", **asked)
    assert same(model(Path(job.out)), model(tmp_path / "replayed"))


def test_an_update_that_is_not_finite_ends_the_run_with_the_last_good_model(tmp_path):
    grid, job, _ = deployment(tmp_path, server_lr=1e37, worker_lr=1e5)
    ended = carry_out(grid, job)
    assert (ended["status"], ended["exit"]) == ("diverged", 1)
    assert "diverged in round" in ended["reason"]
    assert all(np.isfinite(leaf).all() for leaf in model(Path(job.out)).values())
    assert summary(job)["status"] == "diverged"


def test_updates_that_are_not_finite_everywhere_are_said_to_come_of_the_rate(tmp_path):
    grid, job, _ = deployment(tmp_path, {**ALL, "patience": 1}, rounds=1)
    for worker in grid.nodes:
        grid.faults[worker] = spoiled(lambda a: a * np.float32(np.inf))
    assert "too large a worker-lr" in carry_out(grid, job)["reason"]
