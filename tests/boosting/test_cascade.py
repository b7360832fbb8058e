"""Cascades against plain Python, and the guarantees of exact and statistical early exits."""

from dataclasses import replace

import naive_quick
import numpy as np
import pytest
from sklearn.datasets import load_digits

from streamboost import (
    Cascade,
    GambleClassifier,
    RebelClassifier,
    SketchLogitBoostClassifier,
)
from streamboost.errors import ConfigurationError, DataError

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32)
X[np.random.default_rng(0).random(X.shape) < 0.02] = np.nan
MODELS = [
    GambleClassifier(n_estimators=47, random_state=0),
    SketchLogitBoostClassifier(n_estimators=93, max_leaf_nodes=12, random_state=0),
]


@pytest.fixture(scope="module", params=MODELS, ids=lambda m: type(m).__name__)
def committee(request):
    return request.param.fit(X[:700], y[:700]).committee_


@pytest.mark.parametrize("options", [{"exact": True}, {"tolerance": 0.0}, {"tolerance": 0.05}])
def test_scores_are_those_of_walking_tree_by_tree(committee, options):
    cascade = Cascade.fit(committee, X[700:1200], **options)
    rows = X[1200:1300]
    scores, used = naive_quick.cascade(committee, rows, cascade.ends, cascade.thresholds)
    np.testing.assert_array_equal(cascade.class_scores(rows), scores)
    np.testing.assert_array_equal(cascade.n_trees_used(rows), used)
    np.testing.assert_array_equal(cascade.predict(rows), scores.argmax(axis=1))


@pytest.mark.parametrize("tolerance", [0.0, 0.01, 0.2])
def test_thresholds_are_the_least_allowed(committee, tolerance):
    rows = X[700:850]
    cascade = Cascade.fit(committee, rows, tolerance=tolerance, every=10)
    expected = naive_quick.thresholds(committee, rows, cascade.ends.tolist(), tolerance)
    np.testing.assert_array_equal(cascade.thresholds, expected)


def test_exact_exits_never_change_an_answer(committee):
    full = committee.class_scores(X).argmax(axis=1)
    for every in (1, 5):
        cascade = Cascade.fit(committee, X, exact=True, every=every)
        np.testing.assert_array_equal(cascade.predict(X), committee.classes[full])
        assert cascade.n_trees_used(X).min() < committee.n_trees
        assert cascade.mean_trees == cascade.n_trees_used(X).mean()


def test_exact_exits_wait_where_the_rest_could_still_tie():
    # One feature, two classes: every tree gives the same row the same answer again.
    rows = np.array([[0.0], [1.0]], np.float32)
    model = SketchLogitBoostClassifier(
        n_estimators=8, min_child_weight=0.0, learning_rate=0.5, random_state=0
    )
    committee = model.fit(np.repeat(rows, 20, axis=0), np.repeat([0, 1], 20)).committee_
    cascade = Cascade.fit(committee, rows, exact=True, every=1)
    staged = np.array([np.diff(s) for s in _staged(committee, rows[:1])])
    to_come = [abs(staged[-1] - s).item() for s in staged]
    first = next(t for t, s in enumerate(staged) if abs(s).item() > to_come[t]) + 1
    assert cascade.n_trees_used(rows).tolist() == [first, first]


def _staged(committee, rows):
    scores = np.tile(committee.base, (len(rows), 1))
    for m in range(committee.n_rounds):
        committee.learners.add_scores(rows, scores, (m, m + 1))
        yield scores[0].copy()


@pytest.mark.parametrize("tolerance", [0.0, 0.01, 0.05])
def test_held_back_rows_disagree_within_the_tolerance(committee, tolerance):
    rows = X[700:]
    cascade = Cascade.fit(committee, rows, tolerance=tolerance)
    full = committee.classes[committee.class_scores(rows).argmax(axis=1)]
    assert (cascade.predict(rows) != full).mean() <= tolerance
    assert cascade.mean_trees == cascade.n_trees_used(rows).mean() < committee.n_trees


def test_fresh_rows_disagree_near_the_tolerance_and_save_trees(committee):
    cascade = Cascade.fit(committee, X[700:1300], tolerance=0.02)
    fresh = X[1300:]
    full = committee.classes[committee.class_scores(fresh).argmax(axis=1)]
    assert (cascade.predict(fresh) != full).mean() < 0.06
    assert cascade.n_trees_used(fresh).mean() < 0.8 * committee.n_trees


def test_scores_do_not_depend_on_the_batch(committee):
    cascade = Cascade.fit(committee, X[700:1300])
    whole = cascade.class_scores(X)
    for size in (1, 63, 64, 65):
        parts = [cascade.class_scores(X[i : i + size]) for i in range(0, 300, size)]
        np.testing.assert_array_equal(np.concatenate(parts)[:300], whole[:300])
    assert cascade.class_scores(X[:0]).shape == (0, 10)


def test_thresholds_serve_one_committee_only(committee):
    cascade = Cascade.fit(committee, X[700:1000])
    arrays = cascade.to_arrays()
    again = Cascade.from_arrays(arrays, committee)
    np.testing.assert_array_equal(again.class_scores(X[:100]), cascade.class_scores(X[:100]))
    assert again.mean_trees == cascade.mean_trees
    cascade.require_same_committee(committee)
    with pytest.raises(DataError, match=r"fit the cascade again"):
        Cascade.from_arrays(arrays, replace(committee, version=3))
    changed = replace(committee.learners, values=committee.learners.values * np.float32(2))
    with pytest.raises(DataError, match=r"fit the cascade again"):
        cascade.require_same_committee(replace(committee, learners=changed))


def test_more_trees_need_new_thresholds():
    model = GambleClassifier(n_estimators=5, random_state=0).fit(X[:300], y[:300])
    cascade = Cascade.fit(model.committee_, X[300:600])
    model.extend(X[:300], y[:300], n_estimators=2)
    with pytest.raises(DataError, match=r"committee of 5 trees.* has 7"):
        cascade.require_same_committee(model.committee_)


@pytest.mark.parametrize("exact", [False, True])
def test_similarities_are_no_trees_to_stop_at(committee, exact):
    model = RebelClassifier(n_estimators=3, weak_learner="localized_similarity")
    similar = model.fit(np.nan_to_num(X[:100]), y[:100]).committee_
    with pytest.raises(DataError, match="made of similarities, and a cascade counts trees"):
        Cascade.fit(similar, X[100:200], exact=exact)
    cascade = Cascade.fit(committee, X[700:1000])
    with pytest.raises(DataError, match="made of similarities"):
        cascade.require_same_committee(similar)


def test_expected_costs_are_told_from_held_back_rows_only():
    costs = np.random.default_rng(0).uniform(1, 9, (10, 10)) * (1 - np.eye(10))
    model = RebelClassifier(cost_matrix=costs, n_estimators=40, random_state=0)
    rebel = model.fit(X[:700], y[:700]).committee_
    with pytest.raises(DataError, match="least expected cost"):
        Cascade.fit(rebel, X[700:1200], exact=True)
    cascade = Cascade.fit(rebel, X[700:1200], tolerance=0.0)
    answers = rebel.classes[rebel.predicted_indices(rebel.class_scores(X[700:1200]))]
    np.testing.assert_array_equal(cascade.predict(X[700:1200]), answers)


@pytest.mark.parametrize("exact", [False, True])
def test_a_committee_without_trees_or_with_one_class_answers(exact):
    one = SketchLogitBoostClassifier(n_estimators=3).fit(X[:5], np.zeros(5)).committee_
    cascade = Cascade.fit(one, X[:5], exact=exact)
    assert cascade.predict(X[:5]).tolist() == [0] * 5
    assert cascade.mean_trees == 0


def test_what_cannot_be_is_refused(committee):
    with pytest.raises(ConfigurationError, match="tolerance"):
        Cascade.fit(committee, X, tolerance=1.0)
    with pytest.raises(ConfigurationError, match="every"):
        Cascade.fit(committee, X, every=0)
    with pytest.raises(DataError, match="held-back rows"):
        Cascade.fit(committee)
    with pytest.raises(DataError, match="64 features"):
        Cascade.fit(committee, X[:, :3])
