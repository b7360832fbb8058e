import naive_weights as naive
import numpy as np
import pytest
from weight_data import ALL, clouds

from streamboost import GambleClassifier, GentleAdaBoostClassifier
from streamboost.errors import DataError


@pytest.mark.parametrize("seed", range(5))
def test_equals_gentle_adaboost_written_plainly(seed):
    X, y, weight = clouds(seed, K=2)
    F = naive.gentle(X, 2.0 * y - 1, weight, 8, 5)
    model = GentleAdaBoostClassifier(n_estimators=8, max_leaf_nodes=5, **ALL)
    model.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.decision_function(X), 2 * F, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-2 * F)), atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_gamble_with_two_classes_and_its_scaled_step_is_gentle_adaboost(seed):
    X, y, weight = clouds(seed, K=2)
    F = naive.gentle(X, 2.0 * y - 1, weight, 8, 5)
    model = GambleClassifier(step="scaled", n_estimators=8, max_leaf_nodes=5, **ALL)
    model.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.decision_function(X), 2 * F, atol=1e-5)


def test_gambles_printed_step_is_twice_as_long_and_no_rescaling():
    X, y, weight = clouds(0, K=2)
    F = naive.gentle(X, 2.0 * y - 1, weight, 4, 5)
    model = GambleClassifier(step="paper", n_estimators=4, max_leaf_nodes=5, **ALL)
    first, *_, last = model.fit(X, y, sample_weight=weight).staged_decision_function(X)
    np.testing.assert_allclose(first, 4 * naive.gentle(X, 2.0 * y - 1, weight, 1, 5), atol=1e-5)
    assert np.abs(last - 4 * F).max() > 0.1


def test_more_than_two_classes_are_refused_with_the_way_out():
    X, y, _ = clouds(0, K=3)
    with pytest.raises(DataError, match=r"There are 3 classes.*use GambleClassifier"):
        GentleAdaBoostClassifier().fit(X, y)
    model = GentleAdaBoostClassifier(n_estimators=2).fit(X[y < 2], y[y < 2])
    with pytest.raises(DataError, match="Only binary"):
        model.extend(X, y)
    assert len(model.classes_) == 2


def test_the_two_extend_each_others_committees():
    X, y, _ = clouds(1, K=2)
    gentle = GentleAdaBoostClassifier(n_estimators=3).fit(X, y)
    longer = GambleClassifier().train(X, y, seed=0, committee=gentle.committee_, n_estimators=2)
    assert longer.n_rounds == 5
