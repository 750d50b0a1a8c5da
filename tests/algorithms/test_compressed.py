"""Compressed messages: error feedback against the papers' pseudo-code in NumPy, and nothing changed where nothing is
left out."""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from conftest import make_dataset
from test_fedavg import assert_close, layers_of, unequal

import enlist
from enlist import Steps, compressed, encoding, models, partition, sampling
from enlist.algorithms import core, keys, parts
from enlist.cost import nbytes
from enlist.engine.traffic import round_cost

ETA_L, ETA, ROUNDS = 0.05, 1.5, 4
D = 130  # parameters of logistic regression on the blobs


def run(algorithm, fed=None, **options):
    arguments = {
        "cohort": 3,
        "rounds": ROUNDS,
        "local": Steps(5, 8),
        "seed": 7,
        "eval_every": 99,
        "execution": "one-by-one",
        "devices": 1,
    }
    return enlist.simulate(
        algorithm, models.logistic(), fed or unequal(make_dataset()), **arguments | options
    )


def fedavg(server_lr=ETA):
    return enlist.fedavg(worker_lr=ETA_L, server_lr=server_lr)


def flat(layers):
    return np.concatenate([np.ravel(array) for layer in layers for array in layer]).astype(np.float64)


def split(vector, like):
    """The inverse of `flat`."""
    ends = np.cumsum([array.size for layer in like for array in layer])[:-1]
    pieces = iter(np.split(vector, ends))
    return [tuple(next(pieces).reshape(array.shape) for array in layer) for layer in like]


def worker_updates(x, like, fed, drawn):
    """(worker, Delta_t^i) of a round that starts from the vector x."""
    data = fed.data.x_train.astype(np.float64), fed.data.y_train
    return [(one.worker, flat(oracle.local_run(split(x, like), *data, one.batches, ETA_L))) for one in drawn]


def largest(v, k):
    return np.argsort(-np.abs(v), kind="stable")[:k]


def top(k):
    def compress(v):
        kept = np.zeros_like(v)
        kept[largest(v, k)] = v[largest(v, k)]
        return kept

    return compress


def sign(v):
    return np.abs(v).mean() * np.sign(v)


def ternary(k):
    """Sattler et al. (2019), algorithm 1."""

    def compress(v):
        kept = np.zeros_like(v)
        chosen = largest(v, k)
        kept[chosen] = np.abs(v[chosen]).mean() * np.sign(v[chosen])
        return kept

    return compress


def start_of(fed):
    like = layers_of(models.logistic().init(keys.init_key(jax.random.key(7)), fed.data.x_train[:1]))
    return flat(like), like


def with_feedback(result, fed, compress, feedback=True):
    """Error feedback: each worker sends C(Delta + e) and keeps what is left."""
    x, like = start_of(fed)
    e = {i: np.zeros_like(x) for i in range(fed.workers)}
    for t in range(ROUNDS):
        sent = []
        for i, delta in worker_updates(x, like, fed, result.drawn(t)):
            v = delta + e[i]
            sent.append(compress(v))
            e[i] = v - sent[-1] if feedback else 0 * v
        x = x + ETA * np.mean(sent, axis=0)
    return split(x, like), e


def sattler(result, fed, up, down):
    """Sattler et al. (2019), algorithm 2, every worker hearing every round: W, the server's R, the workers' R_i."""
    w, like = start_of(fed)
    r, own, before = np.zeros_like(w), {i: np.zeros_like(w) for i in range(fed.workers)}, w
    for t in range(ROUNDS):
        before, sent = w, []
        for i, delta in worker_updates(w, like, fed, result.drawn(t)):
            v = own[i] + delta
            sent.append(up(v))
            own[i] = v - sent[-1]
        update = r + np.mean(sent, axis=0)
        w = w + down(update)
        r = update - down(update)
    return before, w, r, like


TWINS = {"topk:0.1": top(13), "sign": sign}
OTHERWISE = {"topk:0.1": {"cohort": sampling.at_least(2, 4), "execution": "chunk:2"}, "sign": {}}


@pytest.mark.parametrize("name", TWINS)
def test_error_feedback_equals_its_pseudo_code(name):
    fed = unequal(make_dataset())
    result = run(compressed(fedavg(), up=encoding.parse(name)), fed, **OTHERWISE[name])
    expected, residuals = with_feedback(result, fed, TWINS[name])
    assert_close(result, expected)
    (kept,) = result.session.state.workers.residual
    sizes = [np.linalg.norm(residuals[i]) for i in range(fed.workers)]
    np.testing.assert_allclose(np.linalg.norm(kept, axis=1), sizes, rtol=1e-3, atol=1e-6)


def test_without_feedback_what_is_left_out_is_lost():
    fed = unequal(make_dataset())
    result = run(compressed(fedavg(), up=encoding.topk(0.1), error_feedback=False), fed)
    assert_close(result, with_feedback(result, fed, top(13), feedback=False)[0])
    assert result.session.state.workers == ()


def test_both_ways_equal_sattlers_algorithm():
    """The server's state is W + R: what the workers hold and what they were not told yet."""
    fed = unequal(make_dataset())
    algorithm = compressed(fedavg(server_lr=1.0), encoding.ternary(0.1), encoding.ternary(0.2))
    result = run(algorithm, fed)
    before, w, r, like = sattler(result, fed, ternary(13), ternary(26))
    assert_close(result, split(w + r, like))
    state = result.session.state.server
    np.testing.assert_allclose(flat(layers_of(state.replica)), before, rtol=1e-3, atol=1e-5)
    news = encoding.ternary(0.2).decode(state.update.encoded[0], D)
    held, _ = parts.cut(parts.layout(state.replica), state.replica)
    told = parts.join(parts.layout(state.replica), (held[0] + news,), ())
    np.testing.assert_allclose(flat(layers_of(told)), w, rtol=1e-3, atol=1e-5)


def same_bits(a, b):
    return all((x == y).all() for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


@pytest.mark.parametrize(
    ("plain", "feedback"),
    [(fedavg(), None), (enlist.mime(), True), (enlist.cooperative(mixing="ring"), False)],
    ids=lambda given: getattr(given, "name", ""),
)
def test_with_nothing_left_out_nothing_changes(plain, feedback):
    """To the bit, also where there is a probe, a stack, a payload for each worker."""
    whole = encoding.identity()
    same = compressed(plain, up=whole, down=whole, error_feedback=feedback)
    bare, wrapped = run(plain, rounds=2), run(same, rounds=2)
    assert same_bits(bare.params, wrapped.params)
    for name in ("uplink_bytes", "downlink_bytes", "delta_norm"):
        assert bare.metrics[-1][name] == wrapped.metrics[-1][name]


def test_scaffold_sends_each_of_its_parts_compressed_and_goes_on_where_it_stopped(tmp_path):
    top_ten, signs = encoding.topk(0.1), encoding.sign()
    algorithm = compressed(enlist.scaffold(worker_lr=ETA_L), top_ten, signs)
    assert algorithm.name == "scaffold+topk:0.1+down:sign"
    whole = run(algorithm)
    run(algorithm, rounds=2, out=tmp_path / "run")
    assert same_bits(whole.session.state, run(algorithm, out=tmp_path / "run", resume=True).session.state)
    vector = jnp.zeros(D)
    line, key = whole.metrics[-1], jax.random.key(0)
    assert line["uplink_bytes"] == 2 * nbytes(jax.eval_shape(top_ten.encode, key, vector))
    assert line["downlink_bytes"] == 2 * nbytes(jax.eval_shape(signs.encode, key, vector))
    # What all hold before the first round: x_0 and c_0.
    assert whole.summary["setup_bytes"] == 2 * 4 * D
    other = compressed(enlist.scaffold(worker_lr=0.01, server_lr=0.5), top_ten, signs)
    assert run(other, rounds=1).session.program is whole.session.program


def test_it_learns_from_a_tenth_of_the_entries():
    fed = partition.digits(make_dataset(rows=2000), per_worker=2, workers=20, seed=0)
    algorithm = compressed(enlist.fedavg(worker_lr=0.05), encoding.topk(0.1), encoding.topk(0.1))
    line = run(algorithm, fed, cohort=8, rounds=60, local=Steps(20, 8)).metrics[-1]
    assert line["test_accuracy"] > 0.7
    assert line["uplink_bytes"] == line["downlink_bytes"] < 4 * D / 6


def test_feedback_tames_what_is_unbiased():
    """Undamped, the error of such a codec would grow from round to round; both ways use one here."""
    codecs = encoding.qsgd(2), encoding.randk(0.1, scaled=True)
    result = run(compressed(fedavg(1.0), *codecs, error_feedback=True), rounds=60)
    state = result.session.state
    x, replica = flat(layers_of(result.params)), flat(layers_of(state.server.replica))
    assert np.linalg.norm(x - replica) < np.linalg.norm(x)
    assert np.linalg.norm(state.workers.residual[0], axis=1).max() < 10
    assert result.metrics[-1]["train_loss"] < 1.5


def test_a_worker_drawn_twice_needs_a_codec_that_keeps_nothing():
    twice = sampling.with_replacement(3)
    with pytest.raises(enlist.BadInput, match=r"fedavg\+topk:0.1 keeps a state for each worker"):
        run(compressed(fedavg(), up=encoding.topk(0.1)), cohort=twice)
    for codec, feedback in ((encoding.qsgd(4), None), (encoding.topk(0.1), False)):
        assert compressed(fedavg(), codec, error_feedback=feedback).init_worker({"w": jnp.zeros(9)}) == ()


def test_a_run_that_diverges_is_stopped_with_its_states_whole():
    algorithm = compressed(enlist.fedavg(worker_lr=1e10, server_lr=1e15), up=encoding.topk(0.1))
    with pytest.raises(enlist.Diverged) as broken:
        run(algorithm, rounds=40)
    good = run(algorithm, rounds=broken.value.round - 1)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(good.session.state))


METHODS = {
    name: getattr(enlist, name)()
    for name in (
        *("fedavg", "fedprox", "scaffold", "fedadam", "fednova", "feddyn", "mime", "mimelite", "slowmo"),
        *("cooperative", "elastic", "adaptive", "loadaboost", "local_momentum"),
    )
}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_compressed(name):
    """From shapes alone: what is sent is a hundredth, but for what is left as it is."""
    x, y = jax.ShapeDtypeStruct((28, 28, 1), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)
    plain = METHODS[name]
    bare = round_cost(plain, models.two_nn(), x, y)
    up = round_cost(compressed(plain, up=encoding.topk(0.01)), models.two_nn(), x, y)
    whole_probe = bare.uplink / 2 if plain.probe is not None else 0
    assert up.uplink - whole_probe < bare.uplink / 70
    assert up.downlink == bare.downlink
    if plain.address is not core.Algorithm._field_defaults["address"]:
        with pytest.raises(enlist.BadInput, match="its way down cannot be compressed"):
            compressed(plain, down=encoding.sign())
        return
    down = round_cost(compressed(plain, down=encoding.sign()), models.two_nn(), x, y)
    assert down.uplink == bare.uplink
    assert down.downlink - whole_probe < bare.downlink / 31
    assert down.setup == bare.downlink - whole_probe


def test_what_is_no_long_row_of_numbers_travels_as_it_is():
    class Mixed(core.NamedTuple):
        delta: object
        control: object
        loss: object

    tree = Mixed(
        {"w": jnp.ones((2, 3), jnp.bfloat16), "b": jnp.arange(3.0), "one": jnp.ones((1, 1))},
        {"w": jnp.zeros((4,)), "count": jnp.arange(5)},
        jnp.float32(2),
    )
    plan = parts.layout(tree)
    vectors, rest = parts.cut(plan, tree)
    assert [len(v) for v in vectors] == list(plan.lengths) == [9, 4]
    assert all(v.dtype == jnp.float32 for v in vectors)
    assert [leaf.shape for leaf in rest] == [(1, 1), (5,), ()]
    again = parts.join(plan, vectors, rest)
    assert same_bits(again, tree)
    assert [leaf.dtype for leaf in jax.tree.leaves(again)] == [leaf.dtype for leaf in jax.tree.leaves(tree)]
    assert parts.layout({"delta": tree.delta, "control": tree.control}).lengths == (13,)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(enlist.BadInput, match="give `up` too"):
        compressed(fedavg(), down=encoding.sign(), error_feedback=True)
    with pytest.raises(enlist.BadInput, match="its way down cannot be compressed"):
        compressed(compressed(fedavg(), down=encoding.sign()), down=encoding.sign())
    with pytest.raises(enlist.BadInput, match="topk:131: the vector to send has only 130 entries"):
        run(compressed(fedavg(), up=encoding.topk(131)))
