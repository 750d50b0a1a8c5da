"""Orders out, replies in: what is late, doubled or unsolicited is counted and dropped, and who is busy is known."""

from types import SimpleNamespace

import pytest
from stub import StubGrid, late, raising, reply_to, silent

from enlist.deploy import post
from enlist.deploy.post import Counts, Post
from enlist.errors import EnlistError


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """Workers that answer with nothing much."""
    from flwr.app import ConfigRecord, RecordDict

    made = StubGrid({worker: {} for worker in range(4)}, tmp_path)
    monkeypatch.setattr(
        "stub.answer", lambda order, node, folder: RecordDict({"answer": ConfigRecord({"a": 1})})
    )
    return made


def send(to, workers):
    from flwr.app import RecordDict

    to.send({worker: RecordDict() for worker in workers}, {worker: 1000 + worker for worker in workers}, "0")


def who(replies):
    return [reply.worker for reply in replies]


def test_workers_are_known_by_the_names_that_the_operator_gave(grid):
    grid.strangers = [
        "worker-x",
        "worker-",
        "worker--1",
        "Worker-3",
        "xworker-3",
        "worker-3x",
        "",
        "worker-12",
    ]
    grid.offline = {2}
    assert Post(grid).reachable() == {0: 1000, 1: 1001, 3: 1003, 12: 2007}


def test_replies_come_once_and_free_their_workers(grid):
    there = Post(grid)
    assert there.receive() == []
    send(there, [0, 2])
    assert (there.busy(), there.waiting()) == ({0, 2}, {0, 2})
    assert sorted(who(there.receive())) == [0, 2]
    assert (there.busy(), there.waiting(), there.counts) == (set(), set(), Counts())
    assert there.receive() == []


def test_a_late_reply_is_dropped_and_frees_its_worker(grid):
    there = Post(grid)
    grid.faults[1] = late(3)
    send(there, [0, 1])
    assert who(there.receive()) == [0]
    assert (there.waiting(), there.busy()) == ({1}, {1})
    send(there, [0, 2])
    assert (there.waiting(), there.busy()) == ({0, 2}, {0, 1, 2})
    assert sorted(who(there.receive())) == [0, 2]
    assert (there.busy(), there.counts) == ({1}, Counts())
    assert there.receive() == []
    assert there.receive() == []
    assert (there.busy(), there.counts) == (set(), Counts(late=1))


def test_a_reply_after_the_exchange_was_closed_is_late(grid):
    there = Post(grid)
    grid.faults[1] = late(1)
    send(there, [1])
    assert there.receive() == []
    there.close()
    assert (there.waiting(), there.busy()) == (set(), {1})
    assert there.receive() == []
    assert (there.busy(), there.counts) == (set(), Counts(late=1))


def test_the_error_of_an_old_order_frees_its_worker_too(grid):
    there = Post(grid)
    grid.faults[1] = late(1, raising)
    send(there, [1])
    there.receive()
    send(there, [0])
    assert who(there.receive()) == [0]
    assert (there.busy(), there.counts) == (set(), Counts(late=1))


def test_a_doubled_reply_is_dropped(grid):
    there = Post(grid)
    grid.doubled = {1}
    send(there, [0, 1])
    assert sorted(who(there.receive())) == [0, 1]
    assert there.counts == Counts(doubled=1)


def pushed(grid, worker):
    return next(message for other, message in grid._open.values() if other == worker)


def test_what_nobody_asked_for_is_dropped(grid):
    from flwr.app import RecordDict

    there = Post(grid)
    grid.faults = {0: silent, 1: silent}
    send(there, [0, 1])
    order = pushed(grid, 0)
    stray = reply_to(order, RecordDict(), 1000)
    stray.metadata.__dict__["_reply_to_message_id"] = "never sent"
    grid.extra = [stray]
    assert there.receive() == []
    assert there.counts == Counts(unsolicited=1)
    # Worker 1 answers worker 0's order: worker 0 is still waited for.
    grid.extra = [reply_to(order, RecordDict(), 1001)]
    assert there.receive() == []
    assert (there.counts, there.waiting()) == (Counts(unsolicited=2), {0, 1})
    grid.faults = {}
    assert sorted(who(there.receive())) == [0, 1]


def test_why_a_worker_failed_is_told_without_flowers_wrapping(grid):
    there = Post(grid)
    grid.faults[1] = raising
    send(there, [1])
    (reply,) = there.receive()
    assert (reply.worker, reply.content, reply.error) == (1, None, "no such luck")
    assert post._reason(SimpleNamespace(reason="", code=5)) == "error 5"
    assert post._reason(SimpleNamespace(reason="gone\n  for good", code=5)) == "gone for good"
    assert len(post._reason(SimpleNamespace(reason="x" * 999, code=5))) == 200


def test_an_order_that_flower_did_not_take_is_not_waited_for(grid):
    there = Post(grid)
    push = grid.push_messages
    grid.push_messages = lambda messages: [None, *push(messages)[1:]]
    send(there, [0, 1])
    assert there.waiting() == {1}
    grid.push_messages = lambda messages: []
    with pytest.raises(EnlistError, match="Flower took 0 of 2 orders"):
        send(there, [2, 3])


class Clock:
    """Time that passes in sleep alone."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.mark.parametrize("what", ["nodes", "push", "pull"])
def test_a_link_that_is_away_for_a_while_is_tried_again(grid, monkeypatch, what):
    clock = Clock()
    monkeypatch.setattr(post, "time", clock)

    def fail(asked):
        if asked == what and clock.now < post.LINK_SECONDS - 10:
            raise ConnectionError("nobody there")

    grid.watch = fail
    there = Post(grid)
    assert list(there.reachable()) == [0, 1, 2, 3]
    send(there, [0, 1])
    assert sorted(who(there.receive())) == [0, 1]
    assert len(grid.sent) == 2
    assert clock.now >= post.LINK_SECONDS - 10


def test_a_link_that_stays_away_is_given_up_in_one_line(grid, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(post, "time", clock)

    def fail(asked):
        raise ConnectionError("nobody there")

    grid.watch = fail
    with pytest.raises(EnlistError, match=r"does not answer for 180 s \(ConnectionError: nobody there\)"):
        Post(grid).reachable()
    assert post.LINK_SECONDS < clock.now < post.LINK_SECONDS + 10
