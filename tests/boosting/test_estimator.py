"""What every boosted estimator promises."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamboost import GambleClassifier, SketchLogitBoostClassifier

ESTIMATORS = [GambleClassifier, SketchLogitBoostClassifier]


@parametrize_with_checks(
    [GambleClassifier(), GambleClassifier(pruning="quick"), SketchLogitBoostClassifier()]
)
@pytest.mark.filterwarnings("default")
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(params=ESTIMATORS, ids=lambda e: e.__name__)
def estimator(request):
    return request.param(n_estimators=20, random_state=0)


def test_scores_do_not_depend_on_the_order_of_the_rows(estimator, wine):
    X, y = wine
    X = X + np.random.default_rng(0).normal(scale=1e-3, size=X.shape)  # no two splits tie
    order = np.random.default_rng(1).permutation(len(y))
    one = estimator.fit(X, y).decision_function(X)
    other = estimator.fit(X[order], y[order]).decision_function(X)
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_the_seed_decides(estimator, wine):
    estimator.set_params(subsample=0.5, max_features=0.5)
    one = estimator.fit(*wine).decision_function(wine[0])
    np.testing.assert_array_equal(one, estimator.fit(*wine).decision_function(wine[0]))
    other = estimator.set_params(random_state=1).fit(*wine).decision_function(wine[0])
    assert (one != other).any()


def test_rows_of_weight_zero_are_as_good_as_absent(estimator, wine):
    X, y = wine
    weight = (np.arange(len(y)) % 3 > 0).astype(float)
    kept = weight > 0
    with_zeros = estimator.fit(X, y, sample_weight=weight).decision_function(X)
    without = estimator.fit(X[kept], y[kept]).decision_function(X)
    np.testing.assert_array_equal(with_zeros, without)


def test_weights_that_cannot_be_are_refused(estimator, wine):
    X, y = wine
    with pytest.raises(ValueError, match="sample_weight"):
        estimator.fit(X, y, sample_weight=np.full(len(y), -1.0))
    with pytest.raises(ValueError, match="non-zero"):
        estimator.fit(X, y, sample_weight=np.zeros(len(y)))


def test_stages_end_at_the_whole_committee(estimator, wine):
    X, y = wine
    estimator.fit(X, y)
    *_, scores = estimator.staged_decision_function(X)
    *_, labels = estimator.staged_predict(X)
    *_, shares = estimator.staged_predict_proba(X)
    np.testing.assert_array_equal(scores, estimator.decision_function(X))
    np.testing.assert_array_equal(labels, estimator.predict(X))
    np.testing.assert_array_equal(shares, estimator.predict_proba(X))
    assert len(list(estimator.staged_predict(X))) == 20


def test_pickles_score_the_same(estimator, wine):
    X, y = wine
    estimator.fit(X, y)
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again.predict_proba(X), estimator.predict_proba(X))


def test_extending_before_fitting_is_refused(estimator, wine):
    with pytest.raises(NotFittedError):
        estimator.extend(*wine)


@pytest.mark.parametrize(
    ("name", "value"),
    [("learning_rate", 0.0), ("max_bins", 256), ("subsample", 0.0), ("max_leaf_nodes", 1)],
)
def test_impossible_parameters_are_refused_by_name(estimator, wine, name, value):
    with pytest.raises(ValueError, match=name):
        estimator.set_params(**{name: value}).fit(*wine)


def test_string_labels_come_back(estimator, wine):
    X, y = wine
    names = np.array(["Barolo", "Grignolino", "Barbera"])[y]
    estimator.fit(X, names)
    assert set(estimator.predict(X)) == set(names)
    assert estimator.score(X, names) > 0.95
