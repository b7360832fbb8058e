"""Large sample weights: training stays exact however large their total is."""

import families
import numpy as np
import pytest
from sklearn.base import clone

from streamboost import AdaBoostMHClassifier, AOSOLogitBoostClassifier


def rows(estimator):
    """Rows and labels, and weights that are the same for each class."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % (2 if families.two_classes_only(estimator) else 3)
    X = rng.standard_normal((240, 4)).astype(np.float32)
    X[:, :3] += 1.5 * np.eye(3, dtype=np.float32)[y]
    return X, y, np.repeat(rng.random(40) + 0.5, 6)


def smooths_by_a_record(estimator):
    """Tell whether a leaf's shares are smoothed by one record.

    The smoothing is negligible in leaves of millions of records.
    """
    exact = getattr(estimator, "step", "") == "exact" or getattr(estimator, "variant", "") == "real"
    cost = type(estimator).__name__ == "AdaBoostCostClassifier"
    return isinstance(estimator, AdaBoostMHClassifier) or (exact and not cost)


@pytest.mark.parametrize("factor", [1e6, 1e15, 1e30])
@pytest.mark.parametrize("model", families.others_slow(families.TREES), ids=str)
def test_heavy_rows_and_penalties_in_proportion_teach_what_light_ones_do(model, factor):
    X, y, weight = rows(model)
    model = clone(model).set_params(n_estimators=10, random_state=0)
    light = model.fit(X, y, sample_weight=weight).decision_function(X)
    learned = model.score(X, y)
    for name in ("min_child_weight", "l2_regularization"):
        if name in model.get_params():
            model.set_params(**{name: factor * getattr(model, name)})
    heavy = model.fit(X, y, sample_weight=factor * weight).decision_function(X)
    if smooths_by_a_record(model):
        assert model.score(X, y) > learned - 0.05
    else:
        np.testing.assert_allclose(heavy, light, atol=1e-3)


@pytest.mark.parametrize("factor", [1e6, 1e15])
@pytest.mark.parametrize("model", families.others_slow(families.DEFAULTS), ids=str)
def test_heavy_rows_teach_without_penalties_in_proportion_too(model, factor):
    X, y, weight = rows(model)
    model = clone(model).set_params(n_estimators=10, random_state=0)
    learned = model.fit(X, y, sample_weight=weight).score(X, y)
    assert model.fit(X, y, sample_weight=factor * weight).score(X, y) > learned - 0.05


@pytest.mark.parametrize("factor", [2.0**14, 2.0**40])
def test_a_heavy_node_keeps_the_last_digits_of_its_gradients(factor):
    model = AOSOLogitBoostClassifier(n_estimators=40, random_state=0)
    X, y, weight = rows(model)
    light = model.fit(X, y, sample_weight=weight).decision_function(X)
    penalties = {"min_child_weight": 0.3 * factor, "l2_regularization": 0.1 * factor}
    heavy = model.set_params(**penalties).fit(X, y, sample_weight=factor * weight)
    np.testing.assert_allclose(heavy.decision_function(X), light, atol=1e-3)
