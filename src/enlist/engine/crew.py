"""Sessions that advance as one: a run alone, or several of the same shape side by side in one compiled program."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from enlist.engine.evaluation import Evaluation
from enlist.engine.plan import RUNS, Held, Plan
from enlist.engine.program import RoundInfo, RunState, block
from enlist.engine.session import Session
from enlist.engine.supply import Resident


class Look(NamedTuple):
    """What a block of rounds gave one run: rounds done, whether it is still finite, and what was seen of it."""

    t: int
    alive: bool
    info: RoundInfo
    seen: Evaluation | None


class Alone:
    """A crew of one."""

    def __init__(self, session: Session):
        self.sessions = (session,)

    def advance(self, rounds: int, evaluate: bool) -> list[Look]:
        """As the session does."""
        (session,) = self.sessions
        info, seen = session.advance(rounds, evaluate)
        return [Look(int(session.state.t), bool(session.state.alive), info, seen)]

    def settle(self, which: Sequence[int]) -> None:
        """The session has its state."""


class SideBySide:
    """Several runs in one program: what differs between them (seed, rates, who holds what) is data.

    A run that turns non-finite is frozen as it was; the others go on untouched.
    """

    def __init__(self, sessions: Sequence[Session]):
        self.sessions = tuple(sessions)
        first = self.sessions[0]
        self._shared = all(each.federation.data is first.federation.data for each in self.sessions)
        examples = [each.read.examples for each in self.sessions]
        held = [_held(each) for each in self.sessions]
        if self._shared:
            # One copy of the examples themselves: runs differ in who holds which.
            self._x, held, examples = _without_examples(held, examples)
        else:
            self._x = None
        stack = lambda trees: jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
        self._held, self._examples = stack(held), stack(examples)
        self._rates = stack([each.rates for each in self.sessions])
        self._keys = jnp.stack([each.key for each in self.sessions])
        self._state: RunState = stack([each.state for each in self.sessions])
        self._run = _side_by_side(first.plan, self._shared)
        self._drop()

    def advance(self, rounds: int, evaluate: bool) -> list[Look]:
        """All runs at once."""
        self._state, info, seen = self._run(
            self._x,
            self._held,
            self._examples,
            self._state,
            self._rates,
            self._keys,
            jnp.int32(rounds),
            jnp.asarray(evaluate),
        )
        info, seen, t, alive = jax.device_get((info, seen, self._state.t, self._state.alive))
        return [
            Look(int(t[i]), bool(alive[i]), _of(info, i), _of(seen, i) if evaluate else None)
            for i in range(len(self.sessions))
        ]

    def settle(self, which: Sequence[int]) -> None:
        """Takes the states of these runs out of the stack."""
        for i in which:
            self.sessions[i].state = _of(self._state, i)

    def _drop(self) -> None:
        """The stack holds all states: a second copy of them would only take memory."""
        for session in self.sessions:
            session.state = session.state._replace(server=None, workers=None)


Crew = Alone | SideBySide


def _held(session: Session) -> Held:
    """Runs side by side have all their rows on the device."""
    assert isinstance(session.read.source, Resident)
    return session.read.source.held


def _of(tree: Any, i: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[i], tree)


def _without_examples(held: Sequence[Any], examples: Sequence[Any]) -> tuple[Any, list[Any], list[Any]]:
    """The examples of the first, and everything else of each."""
    x = (held[0].x, held[0].y, examples[0].test.x, examples[0].test.y)
    bare = [each._replace(x=(), y=()) for each in held]
    return x, bare, [_with(each, ((), (), (), ())) for each in examples]


def _with(examples: Any, x: Any) -> Any:
    train, test = examples.train._replace(x=x[0], y=x[1]), examples.test._replace(x=x[2], y=x[3])
    own = None if examples.own is None else examples.own._replace(x=x[2], y=x[3])
    return examples._replace(train=train, test=test, own=own)


@lru_cache(maxsize=64)
def _side_by_side(plan: Plan, shared: bool) -> Any:
    """The program of many runs; compiled once for a plan and a number of runs."""

    def one(x: Any, held: Any, examples: Any, *rest: Any) -> Any:
        if shared:
            held, examples = held._replace(x=x[0], y=x[1]), _with(examples, x)
        return block(plan._replace(together=True), held, examples, *rest)

    mapped = jax.vmap(one, (None, 0, 0, 0, 0, 0, None, None), axis_name=RUNS)
    return jax.jit(mapped, donate_argnums=3)
