"""Filter of class runs: its predictions, when they are used, and its state."""

import numpy as np
import pytest
from learner.small_learner import assert_same, small
from naive_runs import NaiveClassRunFilter

from streamboost import QueryConfig
from streamboost.stacking.experts import EXPERTS
from streamboost.stacking.runs import ClassRunFilter

WITHOUT = tuple(name for name in EXPERTS if name != "runs")


def runs(n, length=10, n_classes=4, seed=0):
    """Return X and y: runs of records near each other, of which one column tells the class."""
    rng = np.random.default_rng(seed)
    y = np.repeat(rng.integers(n_classes, size=n // length), length)
    places = np.repeat(rng.normal(size=(n // length, 3)), length, axis=0)
    X = places + 0.05 * rng.normal(size=(n, 3))
    X[:, 0] = y + 0.8 * rng.normal(size=n)
    return X.astype(np.float32), y


def likely(y, n_classes=4, seed=1):
    """Return probabilities of which a little more than half are right."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(size=(len(y), n_classes))
    logs[np.arange(len(y)), y] += 1.2
    P = np.exp(logs)
    return P / P.sum(axis=1, keepdims=True)


def arrive(one, X, P):
    """Return the filtered probabilities, or those given if the filter is not used."""
    found, n = np.empty_like(P), len(P)
    is_used = one.filter_predictions(X, P, found, np.empty(n, dtype=np.int64), np.empty(n))
    return found if is_used else P


def filtered(X, P, y, every=8, delay=20, batch=5):
    """Filter all records; every eighth is labelled, 20 records late. Return filter and output."""
    one, found, given = ClassRunFilter(), P.copy(), 0
    for start in range(0, len(X), batch):
        rows = slice(start, start + batch)
        found[rows] = arrive(one, X[rows], P[rows])
        one.set_ids_of_filtered_records([str(i) for i in range(start, start + batch)])
        while given + delay <= start:
            one.learn(str(given), int(y[given]))
            given += every
    return one, found


def test_predictions_are_those_of_a_plain_filter():
    X, y = runs(150)
    P = likely(y)
    X[::7, 1] = np.nan
    one, plain = ClassRunFilter(), NaiveClassRunFilter(3, 4)
    for i in range(len(X)):
        arrive(one, X[i : i + 1], P[i : i + 1])
        one.set_ids_of_filtered_records([str(i)])
        expected = plain.arrive(X[i].astype(float), P[i])
        np.testing.assert_allclose(one._filtered[i], expected, rtol=2e-4)
        if i % 6 == 5:
            late = i - (i % 5)
            one.learn(str(late), int(y[late]))
            plain.learn(late, int(y[late]))
    np.testing.assert_allclose(one._hypothesis_probabilities, plain.posterior(), rtol=1e-6)


def test_in_runs_filtered_predictions_are_used_and_right_more_often():
    X, y = runs(2_000)
    P = likely(y)
    one, found = filtered(X, P, y)
    assert one.mixture_weight > 0.5
    half = slice(1_000, None)
    own, mixed = ((Q[half].argmax(axis=1) == y[half]).mean() for Q in (P, found))
    assert mixed > own + 0.1
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_without_runs_nothing_is_changed():
    X, y = runs(2_000)
    order = np.random.default_rng(2).permutation(len(y))
    P = likely(y)
    one, found = filtered(X[order], P[order], y[order])
    assert one.mixture_weight == 0.0
    assert one._hypothesis_probabilities[-1] > 0.5
    np.testing.assert_array_equal(found[1_000:], P[order][1_000:])


def test_a_batch_is_filtered_as_its_records_one_by_one():
    X, y = runs(900)
    P = likely(y)
    whole, single = filtered(X, P, y)[0], ClassRunFilter()
    single.resume(*whole.state())
    together = arrive(whole, X[:600], P[:600])  # more than the rings hold
    for i in range(600):
        alone = arrive(single, X[i : i + 1], P[i : i + 1])
        np.testing.assert_array_equal(alone[0], together[i])
    assert_same(whole.state()[1], single.state()[1])


def test_a_resumed_filter_goes_on_with_the_same_bits():
    X, y = runs(400)
    P = likely(y)
    one, twin = filtered(X, P, y)[0], ClassRunFilter()
    state, arrays = one.state()
    twin.resume(state, arrays)
    for each in (one, twin):
        each.learn("395", 1)
        arrive(each, X[:20], P[:20])
        each.set_ids_of_filtered_records([str(i) for i in range(20)])
        each.learn("3", 2)
    assert_same(one.state()[1], twin.state()[1])
    assert one.state()[0] == twin.state()[0]
    assert arrays["labels"][395] == -1, "the state that was taken before has not changed"


def test_labels_of_unknown_and_of_old_records_are_counted_only():
    X, y = runs(600)
    P = likely(y)
    one, _ = filtered(X, P, y)
    before = one.state()[1]
    one.learn("?", 0)
    one.learn("3", 0)  # more than 512 records ago
    after = one.state()[1]
    assert after.pop("counts").sum() > before.pop("counts").sum()
    assert_same(before, after)


def test_extreme_and_infinite_values_leave_probabilities_finite():
    X, y = runs(600)
    P = likely(y)
    X[50:60, 1], X[90, 0], X[91, 2], X[120:400, 2] = np.inf, 3e38, -3e38, np.nan
    one, found = filtered(X, P, y)
    assert np.isfinite(found).all()
    assert np.isfinite(one._states).all()
    assert np.isfinite(one._evidence).all()


def test_records_that_were_scored_otherwise_get_no_place():
    one = ClassRunFilter()
    X, y = runs(20)
    arrive(one, X, likely(y))
    arrive(one, X[:0], likely(y)[:0])
    one.set_ids_of_filtered_records([])
    arrive(one, X, likely(y))
    one.set_ids_of_filtered_records(["a"])
    one.set_ids_of_filtered_records([str(i) for i in range(20)])
    assert one.state()[0]["ids"] == []


def test_new_classes_and_columns_are_added_and_too_many_classes_switch_it_off():
    one = ClassRunFilter()
    X, y = runs(20)
    arrive(one, X[:, :1], likely(y)[:, :2])
    one.set_ids_of_filtered_records([str(i) for i in range(20)])
    one.learn("19", 3)
    P = likely(y)
    assert arrive(one, X, P) is P
    one.learn("19", 64)
    P = np.full((20, 65), 1 / 65)
    assert arrive(one, X, P) is P
    assert one.state()[0]["n_records"] == 40


def serve(learner, X, y):
    asked, right = [], []
    for start in range(0, len(y), 10):
        rows = slice(start, start + 10)
        scored = learner.score_arrivals(X[rows])
        right += (scored.labels == y[rows]).tolist()
        found = learner.query(X[rows], scored, [str(i) for i in range(start, start + 10)])
        bought = [int(id) for id in found.ids]
        learner.learn(found.ids, X[bought], y[bought], propensity=found.propensity)
        asked += bought
    return asked, np.array(right)


def test_the_filter_works_beside_the_committee_alone():
    X, y = runs(600)
    learner = small(experts=["committee", "runs"])
    learner.learn([f"l{i}" for i in range(100)], X[:100], y[:100])
    serve(learner, X[100:], y[100:])
    assert set(learner.expert_weights) == {"committee", "runs"}
    assert learner._stacking.runs.state()[0]["n_records"] == 500


def test_a_snapshot_between_score_and_query_loses_no_place():
    X, y = runs(40)
    one, twin = ClassRunFilter(), ClassRunFilter()
    arrive(one, X, likely(y))
    twin.resume(*one.state())
    for each in (one, twin):
        each.set_ids_of_filtered_records([str(i) for i in range(40)])
    assert twin.state()[0] == one.state()[0]
    assert len(one.state()[0]["ids"]) == 40


@pytest.mark.slow
def test_a_learner_predicts_runs_better_and_requests_the_same_labels():
    X, y = runs(2_500)
    learner, other = (small(query=QueryConfig(budget=0.1), experts=e) for e in (EXPERTS, WITHOUT))
    asked, right = serve(learner, X, y)
    same, without = serve(other, X, y)
    assert asked == same
    assert right[1_250:].mean() > without[1_250:].mean() + 0.02
    assert learner.expert_weights["runs"] > 0.15
    assert sum(learner.expert_weights.values()) == pytest.approx(1.0)
    state = learner.snapshot()
    learner.score(X[:50])
    assert_same(state, learner.snapshot())
    twin = type(learner).restore(state)
    for one in (learner, twin):
        serve(one, X[:200], y[:200])
    assert_same(learner.snapshot(), twin.snapshot())
