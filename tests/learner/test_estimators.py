import numpy as np
import pytest

from streamboost import SketchLogitBoostClassifier
from streamboost.learner import Schedule, StreamLearner
from streamboost.learner.estimators import (
    adapt_to_size,
    default_estimator,
    describe_estimator,
    rebuild_estimator,
)


def test_thousands_of_rows_are_given_larger_trees_and_smaller_steps():
    few = default_estimator()
    assert adapt_to_size(few, 2_999) is few
    many = adapt_to_size(few, 3_000).get_params()
    assert many["max_leaf_nodes"] > few.get_params()["max_leaf_nodes"]
    assert many["learning_rate"] < few.get_params()["learning_rate"]
    assert few.get_params() == default_estimator().get_params()


@pytest.mark.parametrize("name", ["n_estimators", "learning_rate", "max_leaf_nodes"])
def test_a_setting_of_ones_own_is_kept_however_many_rows(name):
    own = default_estimator().set_params(**{name: 1})
    assert adapt_to_size(own, 10_000) is own


def test_what_does_not_concern_the_size_goes_with_either():
    own = default_estimator().set_params(categorical_features=[1], class_weight="balanced")
    params = adapt_to_size(own, 3_000).get_params()
    assert (params["categorical_features"], params["class_weight"]) == ([1], "balanced")


def test_another_estimator_is_left_alone():
    own = SketchLogitBoostClassifier()
    assert adapt_to_size(own, 10_000) is own


@pytest.mark.parametrize(("n_rows", "most"), [(2_999, 6), (3_000, 16)])
def test_a_learner_trains_by_what_suits_its_rows(n_rows, most):
    rng = np.random.default_rng(3)
    X = rng.random((n_rows, 3), dtype=np.float32)
    y = np.where((8 * X[:, 0]).astype(int) % 2 == (8 * X[:, 1]).astype(int) % 2, "a", "b")
    learner = StreamLearner(schedule=Schedule(first=n_rows, retrain_every=10**6), random_state=1)
    learner.learn([str(i) for i in range(n_rows)], X, y.tolist())
    trees = learner.committee.learners
    assert np.diff(np.append(trees.roots, len(trees.nodes))).max() == most - 1


def test_unknown_parameter_of_the_default_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"has no 'n_trees', but .*'n_estimators'"):
        default_estimator().set_params(n_trees=3)


@pytest.mark.parametrize("made", [default_estimator, SketchLogitBoostClassifier])
def test_an_estimator_is_rebuilt_as_the_class_it_was(made):
    estimator = made().set_params(n_estimators=7)
    rebuilt = rebuild_estimator(describe_estimator(estimator))
    assert type(rebuilt) is type(estimator)
    assert rebuilt.get_params() == estimator.get_params()
