"""An algorithm of one's own: what does not fit is refused in one line, what is sent is added up as it should be."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import make_dataset

import enlist
from enlist.algorithms.core import Algorithm, Reply
from enlist.engine.rehearsal import digest, rehearse
from enlist.engine.traffic import round_cost

BASE = enlist.fedavg(worker_lr=0.3)
MODEL = enlist.models.logistic(10)
DATA = make_dataset(rows=60, features=4, test=20)


class Two(NamedTuple):
    delta: Any
    more: Any


def unequal() -> enlist.Federation:
    """Eight workers with 1 to 20 rows."""
    sizes = [1, 2, 3, 5, 6, 8, 15, 20]
    return enlist.federation(
        DATA.x_train, DATA.y_train, DATA.x_test, DATA.y_test, worker=np.repeat(np.arange(8), sizes)
    )


def run(algorithm: Algorithm, **settings: Any) -> enlist.Run:
    usual = {"cohort": 3, "rounds": 2, "local": enlist.Epochs(1, batch=8)}
    return enlist.simulate(algorithm, MODEL, unequal(), **(usual | settings))


def replying(change: Any) -> Algorithm:
    """FedAvg whose workers' replies are changed."""
    return BASE._replace(
        name="mine", local=lambda ctx, key, p, s, data: change(BASE.local(ctx, key, p, s, data), data)
    )


def serving(server: Any) -> Algorithm:
    return BASE._replace(name="mine", server=server)


REFUSED = {
    "takes 4 positional arguments but 5 were given": BASE._replace(local=lambda ctx, key, p, data: None),
    "local must return a Reply with LocalStats, not dict": replying(lambda reply, data: reply.message),
    "not one with NoneType": replying(lambda reply, data: reply._replace(stats=None)),
    "gives a weight of shape (2,), not one number": replying(
        lambda reply, data: reply._replace(weight=jnp.ones(2))
    ),
    "local must leave states of its worker like those before": replying(
        lambda reply, data: reply._replace(worker_state=reply.message)
    ),
    "server must return states like those before: PyTreeDef": serving(
        lambda ctx, key, state, got: state.params
    ),
    ".params['b'] was float32[10] and became float32[1, 10]": serving(
        lambda ctx, key, state, got: state._replace(params=jax.tree.map(lambda a: a[None], state.params))
    ),
    "params must give parameters like those before": BASE._replace(params=lambda state: state.params["b"]),
    "KeyError in": serving(lambda ctx, key, state, got: ctx.rates["wroker_lr"]),
    "TracerBoolConversionError in": replying(
        lambda reply, data: reply if reply.stats.loss > 1 else reply._replace(weight=jnp.ones(()))
    ),
    "reduce = 'stacked': choose mean or stack": BASE._replace(reduce="stacked"),
    "mode = 'fast': a rate must be a number or a function": BASE._replace(
        rates={**BASE.rates, "mode": "fast"}
    ),
}


@pytest.mark.parametrize("says", REFUSED)
def test_parts_that_do_not_fit_are_refused_in_one_line_before_anything_is_written(says, tmp_path):
    with pytest.raises(enlist.BadInput) as refused:
        run(REFUSED[says], out=tmp_path / "new")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "new").exists()


def test_code_that_depends_on_what_a_rate_is_is_refused():
    def server(ctx, key, state, got):
        return state if ctx.rates["worker_lr"] > 1 else BASE.server(ctx, key, state, got)

    with pytest.raises(enlist.BadInput, match=r"TracerBoolConversionError in .*test_rehearsal\.py, line \d+"):
        run(serving(server))


def test_runs_that_differ_in_numbers_are_rehearsed_once():
    rehearsed = []

    def local(ctx, key, payload, state, data):
        rehearsed.append(ctx.rates["worker_lr"])
        return BASE.local(ctx, key, payload, state, data)

    mine = BASE._replace(local=local)
    x, y = DATA.x_train[0], DATA.y_train[0]

    def looked_at(rate, workers=8):
        rates = mine.rates | {"worker_lr": rate}
        return rehearse(mine._replace(rates=rates), MODEL, x, y, enlist.Steps(1, batch=1), "float32", workers)

    first = looked_at(0.1)
    assert looked_at(0.7) is first
    assert len(rehearsed) == 1
    # What another shape, another number of workers or a schedule makes of it is another question.
    looked_at(0.1, workers=9)
    looked_at(lambda t: 0.1 / (t + 1))
    looked_at(enlist.Decaying(0.1, 20))
    assert len(rehearsed) == 4


def test_a_mistake_is_told_with_the_line_of_ones_own_file():
    with pytest.raises(enlist.BadInput, match=r"KeyError in .*test_rehearsal\.py, line \d+: 'wroker_lr'"):
        run(REFUSED["KeyError in"])


def test_whole_numbers_in_a_message_are_averaged_as_numbers():
    seen = []

    def server(ctx, key, state, got):
        jax.debug.callback(lambda mean: seen.append(float(mean)), got.mean.more)
        return BASE.server(ctx, key, state, got._replace(mean=got.mean.delta))

    counting = replying(lambda reply, data: reply._replace(message=Two(reply.message, reply.stats.steps)))
    result = run(counting._replace(server=server), cohort=8, rounds=1)
    # One epoch of batches of 8: six workers take one step, one takes two, one three.
    assert set(seen) == {(6 + 2 + 3) / 8}
    assert all(
        (a == b).all() for a, b in zip(*map(jax.tree.leaves, (result.params, _plain().params)), strict=True)
    )


def _plain() -> enlist.Run:
    return run(BASE, cohort=8, rounds=1)


@pytest.mark.parametrize("half", [jnp.bfloat16, jnp.float16])
def test_half_precision_is_sent_but_not_added_up_in(half):
    sent = replying(
        lambda reply, data: reply._replace(message=jax.tree.map(lambda d: d.astype(half), reply.message))
    )
    wide = sent._replace(decode=lambda message: jax.tree.map(lambda leaf: leaf.astype(jnp.float32), message))
    got, wanted = (run(each, cohort=8, rounds=2).params for each in (sent, wide))
    assert all((a == b).all() for a, b in zip(*map(jax.tree.leaves, (got, wanted)), strict=True))
    bytes_ = round_cost(sent, MODEL, DATA.x_train[0], DATA.y_train[0]).uplink
    assert 2 * bytes_ == round_cost(BASE, MODEL, DATA.x_train[0], DATA.y_train[0]).uplink


def test_the_weight_of_an_empty_place_is_none_whatever_its_reply_says():
    # A place that nobody takes does no step: one over its steps is infinite.
    by_steps = replying(lambda reply, data: reply._replace(weight=1 / reply.stats.steps))
    together, apart = (
        run(by_steps, execution=execution, devices=devices).metrics
        for execution, devices in (("batch", 1), ("one-by-one", 2))
    )
    assert [line["train_loss"] for line in together] == pytest.approx([line["train_loss"] for line in apart])
    assert together[-1]["delta_norm"] > 0


@pytest.mark.parametrize("weight", [jnp.nan, -1.0])
def test_a_weight_that_is_none_ends_the_run(weight):
    odd = replying(lambda reply, data: reply._replace(weight=jnp.where(data.size == 1, weight, 1.0)))
    with pytest.raises(enlist.Diverged, match="round 1"):
        run(odd, cohort=8)


def test_a_part_of_a_message_that_is_not_finite_enters_no_state():
    def odd(ctx, key, p, s, data) -> Reply:
        reply = BASE.local(ctx, key, p, s, data)
        return reply._replace(message=Two(reply.message, jnp.where(ctx.t == 1, jnp.inf, 1.0)))

    def server(ctx, key, state, got):
        params, kept = state
        renewed = BASE.server(ctx, key, params, got._replace(mean=got.mean.delta))
        return renewed, kept + got.mean.more

    mine = BASE._replace(
        name="mine",
        init_server=lambda params, workers: (BASE.init_server(params, workers), jnp.zeros(())),
        broadcast=lambda state: BASE.broadcast(state[0]),
        local=odd,
        server=server,
        params=lambda state: BASE.params(state[0]),
    )
    with pytest.raises(enlist.Diverged, match="round 2"):
        run(mine, rounds=4)


def test_a_state_may_hold_one_array_twice():
    mine = BASE._replace(
        name="mine",
        init_server=lambda params, workers: (BASE.init_server(params, workers), params),
        broadcast=lambda state: BASE.broadcast(state[0]),
        server=lambda ctx, key, state, got: (BASE.server(ctx, key, state[0], got), BASE.params(state[0])),
        params=lambda state: BASE.params(state[0]),
    )
    got, wanted = run(mine, devices=2), run(BASE, devices=2)
    assert got.metrics == wanted.metrics


def test_a_digest_tells_what_is_computed_from_what_is_not():
    def of(algorithm: Algorithm, model: Any = MODEL) -> str:
        work = enlist.Epochs(1, batch=8)
        return digest(algorithm, model, DATA.x_train[0], DATA.y_train[0], work, "float32", 8)

    def captured(value: float) -> Algorithm:
        table = np.full(3, value, np.float32)
        return replying(lambda reply, data: reply._replace(weight=jnp.asarray(table)[data.size % 3]))

    unlike = [
        enlist.fedavg(),
        enlist.fedavg(weighting="examples"),
        enlist.fedavg(worker_lr=lambda t: 0.1 / (t + 1)),
        enlist.fedavg(worker_lr=lambda t: 0.1 / (t + 2)),
        enlist.fedavgm(momentum=0.9),
        enlist.fedavgm(momentum=0.8),
        enlist.scaffold(variates="I"),
        enlist.scaffold(variates="II"),
        captured(1.0),
        captured(2.0),
    ]
    known = [of(algorithm) for algorithm in unlike]
    assert len(set(known)) == len(unlike)
    again = [enlist.fedavg(), enlist.fedavgm(momentum=0.9), captured(1.0)]
    assert [of(algorithm) for algorithm in again] == [known[0], known[4], known[8]]
    other = MODEL._replace(apply=lambda params, x: jnp.tanh(MODEL.apply(params, x)))
    assert of(enlist.fedavg(), other) != known[0]


def test_a_metric_gives_one_number_an_example():
    for metric in (lambda out, y: jnp.mean(out), lambda out, y: out):
        with pytest.raises(enlist.BadInput, match="its metric must give one number an example"):
            enlist.simulate(BASE, MODEL._replace(metric=metric), unequal(), cohort=3, rounds=1)


def test_tokens_that_bfloat16_takes_for_others_are_refused():
    tokens = np.arange(240).reshape(60, 4) * 3
    told = dict(y_train=DATA.y_train, x_test=tokens[:20], y_test=DATA.y_test, worker=np.arange(60) % 8)
    with pytest.raises(enlist.BadInput, match="whole numbers above 256"):
        enlist.simulate(BASE, MODEL, enlist.federation(tokens, **told), cohort=3, rounds=1, precision="bf16")
    fractions = enlist.federation(tokens + 0.5, **told)
    enlist.simulate(BASE, MODEL, fractions, cohort=3, rounds=1, precision="bf16")


@pytest.mark.parametrize("kind", [object, complex, str])
def test_arrays_of_anything_but_plain_numbers_are_refused(kind):
    told = dict(x_test=DATA.x_test, y_test=DATA.y_test, worker=np.arange(60) % 8)
    with pytest.raises(enlist.BadInput, match=r"y_train is .*: plain numbers are needed"):
        enlist.federation(DATA.x_train, y_train=DATA.y_train.astype(kind), **told)
