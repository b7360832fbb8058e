"""Edge cases of the training data: no estimator crashes, hangs or returns NaN."""

import tracemalloc
import warnings

import families
import numpy as np
import pytest
from sklearn.base import clone

from streamboost import (
    CDMCBoostClassifier,
    GambleClassifier,
    GDMCBoostClassifier,
    RebelClassifier,
    SammeClassifier,
    SketchLogitBoostClassifier,
)

ESTIMATORS = [GambleClassifier, SketchLogitBoostClassifier]


SIMILARITIES = RebelClassifier(weak_learner="localized_similarity")


@pytest.fixture(params=ESTIMATORS, ids=lambda e: e.__name__)
def estimator(request):
    return request.param(n_estimators=5, random_state=0)


@pytest.fixture(params=[*families.others_slow(families.TREES), SIMILARITIES], ids=str)
def any_family(request):
    return clone(request.param).set_params(n_estimators=5, random_state=0)


def numbers(seed=0, n=60, d=4):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def labels(n=60, k=3):
    return np.arange(n) % k


def rows(name):
    """The rows, labels and weights of an edge case."""
    X, y, weight = numbers(), labels(), None
    if name == "one class":
        y = np.full(60, 7)
    elif name == "two rows":
        X, y = X[:2], np.array([0, 1])
    elif name == "two rows alike":
        X, y = np.zeros((2, 3), np.float32), np.array([0, 1])
    elif name == "one row":
        X, y = X[:1], np.array([5])
    elif name == "constant columns":
        X[:] = 3.0
    elif name == "one constant column":
        X[:, 1] = -1.0
    elif name == "all missing":
        X[:] = np.nan
    elif name == "one column missing":
        X[:, 2] = np.nan
    elif name == "one value among missing":
        X[1:, 0] = np.nan
    elif name == "weights of zero":
        weight = (np.arange(60) % 4 > 0).astype(float)
    elif name == "one weighted row":
        weight = np.zeros(60)
        weight[3] = 2.0
    elif name == "weight of a class is zero":
        weight = (y > 0).astype(float)
    elif name == "weights far apart":
        weight = 10.0 ** np.linspace(-30, 30, 60)
    elif name == "tiny weights":
        weight = np.full(60, 1e-300)
    elif name == "200 classes":
        X, y = numbers(n=1000), labels(1000, 200)
    elif name == "one row per class":
        y = np.arange(60)
    elif name == "duplicates of different labels":
        X = np.repeat(X[:10], 6, axis=0)
    elif name == "every row alike":
        X = np.repeat(X[:1], 60, axis=0)
    elif name == "huge numbers":
        X = X * np.float32(1e37)
    elif name == "tiny numbers":
        X = X * np.float32(1e-44)
    elif name == "50 rows, 5,000 columns":
        X, y = numbers(n=50, d=5000), labels(50)
    elif name == "one rare class":
        y = np.where(np.arange(60) == 0, 1, 0)
    return X, y, weight


EDGES = [
    "one class",
    "two rows",
    "two rows alike",
    "one row",
    "constant columns",
    "one constant column",
    "all missing",
    "one column missing",
    "one value among missing",
    "weights of zero",
    "one weighted row",
    "weight of a class is zero",
    "weights far apart",
    "tiny weights",
    "200 classes",
    "one row per class",
    "duplicates of different labels",
    "every row alike",
    "huge numbers",
    "tiny numbers",
    "50 rows, 5,000 columns",
    "one rare class",
]


def assert_sound(estimator, X, y, weight):
    """The answers are finite, of the right shape, and classes that were met with a weight.

    Those met without one are known all the same, as in scikit-learn.
    """
    kept = np.ones(len(y), bool) if weight is None else weight > 0
    scores = estimator.decision_function(X)
    assert np.isfinite(scores).all()
    assert len(scores) == len(X)
    assert set(estimator.predict(X)) <= set(y[kept])
    np.testing.assert_array_equal(estimator.classes_, np.unique(y))
    if hasattr(estimator, "predict_proba"):
        shares = estimator.predict_proba(X)
        assert shares.shape == (len(X), len(estimator.classes_))
        assert (shares >= 0).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-9)


def assert_edge_is_survived(estimator, X, y, weight):
    if families.two_classes_only(estimator):
        y = (y == y[0]).astype(int)
    estimator.fit(X, y, sample_weight=weight)
    assert_sound(estimator, X, y, weight)
    odd = np.concatenate([np.full_like(X[:1], np.nan), np.full_like(X[:1], 1e30), -X[:1]])
    assert np.isfinite(estimator.decision_function(odd)).all()
    with warnings.catch_warnings():
        # A class whose rows weigh nothing is missed, as it was before.
        warnings.filterwarnings("ignore", "the rows of this extension")
        estimator.extend(X, y, sample_weight=weight, n_estimators=2)
    assert_sound(estimator, X, y, weight)


@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")
@pytest.mark.parametrize("edge", EDGES)
def test_edges_are_fitted_scored_and_extended(any_family, edge):
    X, y, weight = rows(edge)
    if edge == "200 classes":
        any_family.set_params(n_estimators=1)
        if getattr(any_family, "base", None) == "search":  # 19,900 trees a round, for few rows
            X, y = X[:200], y[:200]
    assert_edge_is_survived(any_family, X, y, weight)


@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")
@pytest.mark.parametrize("edge", [edge for edge in EDGES if edge != "200 classes"])
@pytest.mark.parametrize("model", families.others_slow(families.CATEGORICAL), ids=str)
def test_edges_of_categories_are_fitted_scored_and_extended(model, edge):
    X, y, weight = rows(edge)
    if edge in ("huge numbers", "tiny numbers", "50 rows, 5,000 columns"):
        X = np.sign(X)
    X = np.floor(np.abs(X) * 3)
    model = clone(model).set_params(n_estimators=2, random_state=0)
    model.set_params(categorical_features=np.arange(min(X.shape[1], 50)))
    assert_edge_is_survived(model, X, y, weight)


# Nothing restrains a leaf here: no penalty, no least weight, full steps, few rows and features.
UNRESTRAINED = {
    "learning_rate": 1.0,
    "max_leaf_nodes": 64,
    "max_bins": 255,
    "min_child_weight": 0.0,
    "l2_regularization": 0.0,
    "max_features": 0.01,
    "subsample": 0.05,
}


@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")
@pytest.mark.parametrize("edge", EDGES)
def test_edges_hold_without_any_restraint(estimator, edge):
    X, y, weight = rows(edge)
    has = estimator.get_params()
    estimator.set_params(**{name: v for name, v in UNRESTRAINED.items() if name in has})
    estimator.set_params(n_estimators=40 if X.shape[1] < 1000 else 3).fit(X, y, weight)
    assert_sound(estimator, X, y, weight)
    odd = np.concatenate([np.full_like(X[:1], np.nan), np.full_like(X[:1], 1e30), -X[:1]])
    assert np.isfinite(estimator.decision_function(odd)).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_values_are_refused(any_family, value):
    X, y = numbers(), labels(k=2)
    any_family.fit(X, y)
    X[4, 2] = value
    for use in (
        any_family.predict,
        lambda X: any_family.fit(X, y),
        lambda X: any_family.extend(X, y),
    ):
        with pytest.raises(ValueError, match="infinity"):
            use(X)


def test_nothing_is_refused_with_a_word(estimator):
    with pytest.raises(ValueError, match="0 sample"):
        estimator.fit(np.zeros((0, 3)), np.zeros(0))
    with pytest.raises(ValueError, match="0 feature"):
        estimator.fit(np.zeros((3, 0)), np.zeros(3))


@pytest.mark.parametrize("categories", [None, np.arange(27)], ids=["numbers", "categories"])
@pytest.mark.quick_once
def test_training_takes_less_than_six_bytes_per_value_beyond_its_input(estimator, categories):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 300, (100_000, 54)).astype(np.float32)
    X[::9, 3] = np.nan
    y = (X[:, 0] // 50).astype(int)
    estimator.set_params(n_estimators=1, max_leaf_nodes=8, categorical_features=categories)
    tracemalloc.start()
    try:
        estimator.fit(X, y)
        assert tracemalloc.get_traced_memory()[1] < 6 * X.size
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_does_not_grow_as_the_square_of_the_number_of_classes():
    K = 400
    rng = np.random.default_rng(0)
    y = np.arange(2 * K) % K
    X = rng.standard_normal((2 * K, 8)).astype(np.float32)
    X[:, 0] += y
    for family in (GDMCBoostClassifier, CDMCBoostClassifier, SammeClassifier, GambleClassifier):
        model = family(n_estimators=1, max_leaf_nodes=None)
        tracemalloc.start()
        try:
            model.fit(X, y)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # A histogram of 8 columns, 64 bins and K classes for each of 2 K leaves is 1.3 GB.
        assert model.committee_.n_rounds == 1
        assert peak < 0.4e9


@pytest.mark.quick_once
def test_a_million_rows_of_two_columns(estimator):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 1000, (1_000_000, 2)).astype(np.float32)
    y = (X[:, 0] > 500).astype(int) + (X[:, 1] % 7 == 3)
    estimator.set_params(n_estimators=2, categorical_features=[1]).fit(X, y)
    assert_sound(estimator, X[:1000], y, None)
    assert estimator.score(X[:50_000], y[:50_000]) > 0.7
