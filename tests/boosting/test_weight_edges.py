"""Edge cases of the families that boost class weights, with few rows or no signal."""

import numpy as np
import pytest
from weight_data import clouds

from streamboost import (
    AdaBoostAClassifier,
    AdaBoostM1Classifier,
    GambleClassifier,
    GentleAdaBoostClassifier,
    OneVsAllAdaBoostClassifier,
    SammeClassifier,
)

MODELS = [
    AdaBoostAClassifier(initial_distribution="geometric", cost={0: 3.0}),
    AdaBoostM1Classifier(),
    AdaBoostM1Classifier(criterion="error"),
    GambleClassifier(),
    GentleAdaBoostClassifier(),
    OneVsAllAdaBoostClassifier(),
    SammeClassifier(),
    SammeClassifier(variant="real", criterion="error"),
]

SEVERAL = [model for model in MODELS if not isinstance(model, GentleAdaBoostClassifier)]


def case(name, K):
    """Return the rows and labels of a named edge, with up to K classes."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), np.arange(60) % K
    match name:
        case "one class":
            y[:] = 1
        case "two rows":
            X, y = X[:2], np.arange(2)
        case "constant columns":
            X[:] = 1.0
            y[:20] = 0
        case "all missing":
            X[:] = np.nan
        case "one row per class":
            X, y = X[:K], np.arange(K)
        case "duplicates, different labels":
            X = np.repeat(X[:5], 12, axis=0)
        case "a constant and a missing column":
            X[:, 0], X[:, 1] = 7.0, np.nan
    return X, y


@pytest.mark.parametrize("trimming", [0.0, 0.3])
@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize(
    "name",
    [
        "one class",
        "two rows",
        "constant columns",
        "all missing",
        "one row per class",
        "duplicates, different labels",
        "a constant and a missing column",
    ],
)
def test_edges_leave_a_usable_committee(model, name, trimming):
    X, y = case(name, 2 if isinstance(model, GentleAdaBoostClassifier) else 4)
    model.set_params(n_estimators=30, weight_trimming=trimming, random_state=0).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    assert model.score(X, y) >= 1 / len(model.classes_)
    if hasattr(model, "predict_proba"):
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1)
    model.extend(X, y, n_estimators=2)
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("model", SEVERAL, ids=str)
def test_two_hundred_classes(model):
    rng = np.random.default_rng(0)
    y = np.arange(1000) % 200
    X = np.c_[y + 0.1 * rng.standard_normal(1000), rng.standard_normal(1000)]
    model.set_params(n_estimators=2, weight_trimming=0.0).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    assert model.score(X, y) > 0.2


@pytest.mark.filterwarnings("ignore:the rows of this extension:UserWarning")
@pytest.mark.parametrize("model", SEVERAL, ids=str)
def test_a_new_class_trains_anew_with_as_many_rounds_in_all(model):
    X, y, _ = clouds(0, n=400, noise=0.3)
    model.set_params(n_estimators=6, max_leaf_nodes=4).fit(X[y < 2], y[y < 2])
    rows = y > 0
    model.extend(X[rows], y[rows], n_estimators=3)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert model.committee_.n_rounds <= 9
    assert model.score(X[rows], y[rows]) > 0.6


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_row_of_weight_two_counts_as_two(model):
    K = 2 if isinstance(model, GentleAdaBoostClassifier) else 3
    X, y, _ = clouds(8, n=90, K=K)
    times = 1 + np.arange(90) % 3
    model.set_params(n_estimators=8, max_leaf_nodes=5, min_child_weight=2.0, weight_trimming=0.05)
    once = model.fit(X, y, sample_weight=times).decision_function(X)
    often = model.fit(X.repeat(times, axis=0), y.repeat(times)).decision_function(X)
    np.testing.assert_allclose(once, often, atol=1e-5)
