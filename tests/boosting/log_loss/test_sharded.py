"""Training on shards: the committee equals that of `fit` bit for bit, however rows are assigned."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from threading import BrokenBarrierError, Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow import slow

from streamboost import SketchLogitBoostClassifier
from streamboost.boosting.log_loss import sharded, sketch_trainer
from streamboost.boosting.training_data import make_training_data, total_class_weights
from streamboost.trees.bins import Bins
from streamboost.trees.sums import AllReduce, Shard, ThreadAllReduce, quantize_weights

N = 600
rng = np.random.default_rng(7)
X = rng.standard_normal((N, 6)).astype(np.float32)
X[:, 0] = rng.integers(0, 30, N)
X[:, 1] = rng.integers(0, 3, N)
y = (X[:, 2:5] + rng.standard_normal((N, 3)) + (X[:, :1] % 4 == 1)).argmax(axis=1)
X[rng.random(N) < 0.1, 3] = np.nan
WEIGHTS = {
    "alike": np.ones(N),
    "uneven": rng.random(N) * 10.0 ** rng.integers(-3, 3, N),
    "heavy": rng.integers(1, 10**9, N).astype(float),
}
SETTINGS = {
    "plain": {},
    "categories": {"categorical_features": [0, 1]},
    "sampled": {"categorical_features": [0], "subsample": 0.3, "max_features": 0.5},
    "shallow": {"max_depth": 3},
    "stumps": {"max_leaf_nodes": 2},
}


def bytes_of(committee):
    return {name: np.asarray(a).tobytes() for name, a in committee.to_arrays().items()}


def estimator(**settings):
    return SketchLogitBoostClassifier(**{"n_estimators": 5, "min_child_weight": 0.01} | settings)


def in_shards(model, owner, weight, committee=None, n_shards=None):
    """Train with row i in shard `owner[i]`: a committee of each."""
    known = None if committee is None else committee.classes
    whole = make_training_data(X, y, weight, known, model._categorical_mask(X))
    bins = Bins.fit(X, weight, model.max_bins, whole.categorical)
    n_shards = n_shards or owner.max() + 1
    together = ThreadAllReduce(n_shards)

    def train(i):
        places = np.flatnonzero(owner == i)
        shard = Shard(len(X), places, together.for_thread(i), bins)
        of_each = {name: getattr(whole, name)[places] for name in ("X", "y", "weight")}
        try:
            return model._boost_committee(
                replace(whole, **of_each, shard=shard), 5, np.random.default_rng(3), committee
            )
        except BaseException:
            together.abort()
            raise

    with ThreadPoolExecutor(n_shards) as pool:
        return [future.result() for future in [pool.submit(train, i) for i in range(n_shards)]]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("weight", ["alike", *slow("uneven", "heavy")])
@pytest.mark.parametrize("n_shards", [1, 2, *slow(3, 7)])
def test_the_committee_is_that_of_fit_however_many_shards(settings, weight, n_shards):
    model, weight = estimator(**SETTINGS[settings]), WEIGHTS[weight]
    expected = bytes_of(model.train(X, y, weight, seed=3))
    owner = np.random.default_rng(1).integers(0, n_shards, N)
    for committee in in_shards(model, owner, weight, n_shards=n_shards):
        assert bytes_of(committee) == expected


@cache
def uneven():
    """Return the bytes of one training of all rows, of uneven weights."""
    return bytes_of(estimator().train(X, y, WEIGHTS["uneven"], seed=3))


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([1, 2, 3, 7]).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1), min_size=1, max_size=9))
    ),
    st.integers(0, 2**32 - 1),
)
@pytest.mark.slow
def test_any_rows_in_any_shards_make_the_same_committee(shards, seed):
    n_shards, some = shards  # those that are not named have no rows
    owner = np.random.default_rng(seed).permutation(np.resize(some, N))
    for committee in in_shards(estimator(), owner, WEIGHTS["uneven"], n_shards=n_shards):
        assert bytes_of(committee) == uneven()


def test_shards_extend_as_one_does_with_a_class_that_is_new():
    model, old = estimator(), y < 2
    first = model.train(X[old], y[old], seed=1)
    expected = model.train(X, y, WEIGHTS["uneven"], seed=3, committee=first)
    owner = np.where(np.arange(N) < 50, 0, 2)
    for committee in in_shards(model, owner, WEIGHTS["uneven"], first):
        assert bytes_of(committee) == bytes_of(expected)


@pytest.mark.parametrize("settings", ["plain", "sampled"])
def test_few_histograms_change_no_bit_of_shards(settings, monkeypatch):
    model = estimator(**SETTINGS[settings])
    expected = bytes_of(model.train(X, y, seed=3))
    for slots in (1, 5):
        monkeypatch.setattr("streamboost.trees.grower.MOST_SUMS", slots * 400)
        owner = np.arange(N) % 2
        for committee in in_shards(model, owner, WEIGHTS["alike"]):
            assert bytes_of(committee) == expected


@pytest.mark.parametrize("a_turn", [1, 3, 64])
def test_how_many_leaves_a_turn_splits_changes_no_bit(a_turn, monkeypatch):
    expected = bytes_of(estimator().train(X, y, seed=3))
    monkeypatch.setattr(sharded, "_LEAVES_PER_TURN", a_turn)
    for committee in in_shards(estimator(), np.arange(N) % 2, WEIGHTS["alike"]):
        assert bytes_of(committee) == expected


def test_trees_of_wide_sums_are_the_same(monkeypatch):
    monkeypatch.setattr("streamboost.trees.histogram_input.WIDE_ROWS", 10)
    expected = bytes_of(estimator().train(X, y, seed=3))
    for committee in in_shards(estimator(), np.arange(N) % 3, WEIGHTS["alike"]):
        assert bytes_of(committee) == expected


def test_turns_are_far_fewer_than_leaves():
    model, turns = estimator(n_estimators=1, max_leaf_nodes=80, min_child_weight=0.001), []

    class Counted(ThreadAllReduce):
        def _sum_over_threads(self, thread, values):
            turns.append(values.shape)

    shard = Shard(N, np.arange(N), Counted(1).for_thread(0))
    data = replace(make_training_data(X, y, None, None), shard=shard)
    committee = model._boost_committee(data, 1, np.random.default_rng(3), None)
    assert len(committee.learners.values) == 80
    assert len([shape for shape in turns if len(shape) == 2]) <= 16


@pytest.mark.parametrize("n_jobs", [2, 3])
@pytest.mark.parametrize("settings", ["categories", "sampled"])
def test_threads_train_the_committee_of_one(settings, n_jobs, monkeypatch):
    monkeypatch.setattr(sketch_trainer, "_ROWS_A_THREAD", 100)
    one = estimator(random_state=0, **SETTINGS[settings])
    many = estimator(random_state=0, n_jobs=n_jobs, **SETTINGS[settings])
    for model in (one, many):
        model.fit(X, y, WEIGHTS["uneven"]).extend(X[:400], y[:400], n_estimators=2)
    assert bytes_of(many.committee_) == bytes_of(one.committee_)


def test_threads_stop_early_where_one_does(monkeypatch):
    monkeypatch.setattr(sketch_trainer, "_ROWS_A_THREAD", 100)
    settings = {"n_estimators": 60, "early_stopping": True, "n_iter_no_change": 3}
    one, many = (estimator(random_state=0, n_jobs=n, **settings).fit(X, y) for n in (1, 2))
    assert bytes_of(many.committee_) == bytes_of(one.committee_)
    np.testing.assert_array_equal(many.validation_score_, one.validation_score_)


def test_few_rows_are_left_to_one_thread(monkeypatch):
    monkeypatch.setattr(sketch_trainer, "multithreaded_tree_grower", None)
    assert sketch_trainer._ROWS_A_THREAD * 2 == 200_000
    estimator(n_jobs=2).fit(X, y)


def test_the_fault_of_one_thread_is_raised_and_nobody_waits_for_it(monkeypatch):
    monkeypatch.setattr(sketch_trainer, "_ROWS_A_THREAD", 100)
    grow, met = sharded.ShardTrainer._grow_tree_on_all_shards, []

    def fail_once(self, *given):
        met.append(self)
        if len(met) == 5:
            raise MemoryError("no room")
        return grow(self, *given)

    monkeypatch.setattr(sharded.ShardTrainer, "_grow_tree_on_all_shards", fail_once)
    with pytest.raises(MemoryError, match="no room"):
        estimator(n_jobs=3).fit(X, y)


def test_an_interruption_while_threads_begin_ends_the_training(monkeypatch):
    class Interrupted(ThreadPoolExecutor):
        def submit(self, work, drawn, i):
            if i == 1:
                raise KeyboardInterrupt
            return super().submit(work, drawn, i)

    monkeypatch.setattr(sharded, "ThreadPoolExecutor", Interrupted)
    monkeypatch.setattr(sketch_trainer, "_ROWS_A_THREAD", 100)
    met = []

    def train():
        try:
            estimator(n_jobs=3).fit(X, y)
        except BaseException as error:
            met.append(type(error))

    training = Thread(target=train, daemon=True)
    training.start()
    training.join(30)
    assert met == [KeyboardInterrupt]


def test_who_waits_for_a_thread_that_ended_is_told():
    together = ThreadAllReduce(2)
    together.abort()
    with pytest.raises(BrokenBarrierError):
        together.for_thread(0).sum_over_shards(np.zeros(3, np.int64))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(1e-280, 1e280), min_size=1, max_size=20),
    st.integers(0, 2**32 - 1),
)
def test_masses_do_not_depend_on_the_order_of_rows(weights, seed):
    weight, rng = np.array(weights), np.random.default_rng(seed)
    y = rng.integers(0, 3, len(weight)).astype(np.uint32)
    order = rng.permutation(len(weight))
    found = total_class_weights(y, weight, 3)
    np.testing.assert_array_equal(total_class_weights(y[order], weight[order], 3), found)
    exact = [weight[y == k].astype(float).sum() for k in range(3)]
    np.testing.assert_allclose(found, exact, atol=weight.max() * 1e-9, rtol=1e-9)


def test_units_are_exact_where_weights_are_alike_and_small_ones_are_kept():
    units, scale = quantize_weights(np.full(1000, 0.1))
    assert len(units) == 1
    assert units[0] / scale == pytest.approx(0.1, rel=1e-12)
    units, _ = quantize_weights(np.array([1e-300, 1.0]))
    assert units[0] == 1


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 1000, 2**17 - 1, 2**17, 2**17 + 1])
@pytest.mark.parametrize("weight", [5e-324, 1e-310, 2.3e-308, 1e-9, 0.1, 1.0, 3.0, 1e9, 1.7e308])
def test_units_of_rows_that_weigh_alike_are_those_of_one_shard_of_several(weight, n):
    units, scale = quantize_weights(np.full(n, weight))
    others, their_scale = quantize_weights(np.full(n, weight), AllReduce())
    assert scale == their_scale
    assert (units.dtype, units.tolist()) == (others.dtype, others.tolist())
