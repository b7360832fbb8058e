"""Weight trimming: rows of small weight are left out of a tree, and may return for a later tree."""

import naive_weights as naive
import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier
from weight_data import ALL, clouds

from streamboost import (
    AdaBoostAClassifier,
    GambleClassifier,
    GentleAdaBoostClassifier,
    OneVsAllAdaBoostClassifier,
    SammeClassifier,
)
from streamboost.boosting.loop import weight_trimming_mask
from streamboost.trees import grower

TRIMMING = [
    AdaBoostAClassifier(initial_distribution="zipf"),
    GambleClassifier(),
    GentleAdaBoostClassifier(),
    OneVsAllAdaBoostClassifier(),
    SammeClassifier(),
    SammeClassifier(variant="real"),
]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5, 0.99])
def test_the_lightest_rows_go(seed, share):
    w = np.random.default_rng(seed).choice([0.0, 1e-9, 0.1, 1.0, 3.0, 7.0], 50)
    kept = weight_trimming_mask(w, np.ones(50), share)
    np.testing.assert_array_equal(kept, naive.kept_after_trimming(w, share))
    assert w[~kept].sum() <= share * w.sum()
    assert kept.any()


def test_two_records_in_a_row_go_or_stay_as_two_rows_would():
    w, records = np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 1.0])
    for share in (0.1, 0.2, 0.25, 0.3, 0.6):
        both = weight_trimming_mask(w[[0, 0, 1, 2]], np.ones(4), share)
        np.testing.assert_array_equal(weight_trimming_mask(w, records, share), both[[0, 2, 3]])


def test_rows_of_equal_weight_all_stay():
    assert weight_trimming_mask(np.ones(10), np.ones(10), 0.5).all()
    assert weight_trimming_mask(np.zeros(10), np.ones(10), 0.5).all()


@pytest.mark.parametrize("model", TRIMMING, ids=str)
def test_rows_are_trimmed_return_and_are_followed(model, monkeypatch):
    X, y, _ = clouds(0, n=400, K=2, noise=0.05)
    seen = []

    def spy(self, features, rows, rest=None):
        seen.append((rows, rest))
        return original(self, features, rows, rest)

    original = grower.Grower.set_sample
    monkeypatch.setattr(grower.Grower, "set_sample", spy)
    model.set_params(n_estimators=30, max_leaf_nodes=4, weight_trimming=0.1, **ALL).fit(X, y)
    rounds = [rest for rows, rest in seen if rest is not None and len(rows) + len(rest) == 400]
    out = np.zeros((len(rounds), 400), dtype=bool)
    for i, rest in enumerate(rounds):
        out[i, rest] = True
    assert (out.sum(axis=1) > 20).any()
    assert (out[:-1] & ~out[1:]).any()
    assert model.score(X, y) > 0.85
    trimmed = model.decision_function(X)
    whole = model.set_params(weight_trimming=0.0).fit(X, y).decision_function(X)
    assert (np.abs(trimmed - whole) > 1e-3).any()


@pytest.mark.parametrize("seed", range(4))
def test_splits_are_those_of_the_rows_that_stay_and_answers_those_of_all(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, (400, 4))  # every value is among the rows that stay
    y = (X @ [1, 2, -1, 1] + rng.integers(-2, 3, 400)) % 3
    given = rng.random(400) + 0.5
    model = SammeClassifier(n_estimators=5, max_leaf_nodes=5, weight_trimming=0.2, **ALL)
    model.fit(X, y, sample_weight=given)
    unit, V, trimmed = np.ones(400), np.zeros((400, 3)), 0
    for _ in range(5):
        w = unit * given
        order = np.argsort(unit, kind="stable")
        kept = unit >= unit[order[(np.cumsum(w[order]) <= 0.2 * w.sum()).sum()]]
        trimmed += (~kept).sum()
        tree = DecisionTreeClassifier(max_leaf_nodes=5, random_state=0)
        leaf = tree.fit(X[kept], y[kept], sample_weight=w[kept]).apply(X)
        mass = np.array([np.bincount(y, weights=w * (leaf == m), minlength=3) for m in leaf])
        h = mass.argmax(axis=1)
        error = w[h != y].sum() / w.sum()
        alpha = np.log((1 - error) / error) + np.log(2)
        V[np.arange(400), h] += alpha
        unit = unit * np.exp(alpha * (h != y))
    assert trimmed > 100
    F = V - V.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(model.decision_function(X), F, atol=1e-5)
