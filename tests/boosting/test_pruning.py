"""QuickBoost's pruning in every family that offers it: equal committees from fewer additions."""

import families
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine

from streamboost import CDMCBoostClassifier
from streamboost.errors import ConfigurationError

PRUNING = [model for model in families.TREES if "pruning" in model.get_params()]


@pytest.fixture(params=PRUNING, ids=str)
def model(request):
    return clone(request.param).set_params(n_estimators=8, max_features=1.0, random_state=0)


@pytest.mark.parametrize("options", [{"max_leaf_nodes": 2}, {}, {"subsample": 0.6}])
def test_pruning_changes_no_bit(model, options):
    load = load_breast_cancer if families.two_classes_only(model) else load_wine
    X, y = load(return_X_y=True)
    X[::7, 3] = np.nan
    weight = 0.5 + np.random.default_rng(0).random(len(y))
    model.set_params(**options)
    plain = clone(model).set_params(pruning=None).fit(X, y, weight)
    quick = clone(model).set_params(pruning="quick").fit(X, y, weight)
    one, other = plain.committee_.to_arrays(), quick.committee_.to_arrays()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def test_stumps_on_many_features_take_a_fraction_of_the_additions(model):
    rng = np.random.default_rng(0)
    y = np.arange(3000) % 2
    X = rng.standard_normal((3000, 60)).astype(np.float32)
    X[:, 7] += 1.5 * y
    model.set_params(max_leaf_nodes=2, n_estimators=4)
    plain = clone(model).set_params(pruning=None).fit(X, y).n_adds_
    quick = clone(model).set_params(pruning="quick").fit(X, y).n_adds_
    assert quick < 0.97 * plain


def test_categories_and_pruning_are_not_had_together(model):
    X, y = np.arange(40.0)[:, None] % 5, np.arange(40) % 2
    model.set_params(pruning="quick", categorical_features=[0])
    with pytest.raises(ConfigurationError, match="does not know categories"):
        model.fit(X, y)


def test_an_unknown_pruning_is_refused():
    with pytest.raises(ValueError, match="pruning of CDMCBoostClassifier"):
        CDMCBoostClassifier(pruning="slow").fit([[0.0], [1.0]], [0, 1])
