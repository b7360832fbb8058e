"""Seeds, errors and warnings of `extend`, in every family."""

from copy import deepcopy

import families
import numpy as np
import pytest
from sklearn.base import clone

from streamboost import AdaBoostMHClassifier, SketchLogitBoostClassifier, StreamLearner
from streamboost.errors import ConfigurationError
from streamboost.learner.schedule import Schedule


@pytest.fixture(params=families.others_slow(families.ESTIMATORS), ids=lambda e: e.__name__)
def estimator(request):
    return request.param(n_estimators=1, random_state=0)


def copies_of_one_column(n=120, d=40):
    """Rows whose columns are all alike, so that a split tells which of them were offered."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 1)).astype(np.float32)
    return x.repeat(d, axis=1), (x[:, 0] + 0.5 * rng.standard_normal(n) > 0).astype(int)


def test_each_extension_of_a_seeded_estimator_draws_anew(estimator):
    X, y = copies_of_one_column()
    estimator.set_params(max_features=0.05).fit(X, y)
    for _ in range(8):
        estimator.extend(X, y, n_estimators=1)
    nodes = estimator.committee_.learners.nodes
    assert len(set(nodes["feature"][nodes["feature"] >= 0].tolist())) > 2


def test_the_same_fit_and_extensions_give_the_same_committee(estimator):
    X, y = copies_of_one_column()
    estimator.set_params(max_features=0.05, subsample=0.5)
    one, two = (
        clone(estimator).fit(X, y).extend(X, y, n_estimators=2).extend(X[::2], y[::2])
        for _ in range(2)
    )
    arrays = two.committee_.to_arrays()
    for name, array in one.committee_.to_arrays().items():
        np.testing.assert_array_equal(arrays[name], array)


@pytest.mark.parametrize("rounds", [-5, 0, 2.5, "ten"])
def test_rounds_that_cannot_be_added_are_refused_by_name(estimator, rounds):
    X, y = copies_of_one_column()
    estimator.fit(X, y)
    before = estimator.committee_
    with pytest.raises(
        ConfigurationError, match=rf"n_estimators of .*\.extend must .* is {rounds!r}"
    ):
        estimator.extend(X, y, n_estimators=rounds)
    with pytest.raises(ConfigurationError, match="n_estimators of"):
        estimator.set_params(n_estimators=rounds).extend(X, y)
    assert estimator.committee_ is before


def three_clouds(n=90, apart=4):
    rng = np.random.default_rng(1)
    y = np.arange(n) % 3
    return (rng.standard_normal((n, 3)) + apart * np.eye(3)[y]).astype(np.float32), y


@pytest.mark.parametrize("weightless", [False, True])
def test_extending_without_a_class_warns_that_its_recall_falls(estimator, weightless):
    X, y = three_clouds()
    if families.two_classes_only(estimator):
        y = np.minimum(y, 1)
    last = y == y.max()
    estimator.fit(X, y)
    rows = np.ones(90, dtype=bool) if weightless else ~last
    weight = (~last)[rows].astype(float)
    with pytest.warns(UserWarning, match=rf"none of class \[{y.max()}\].*recall.*some rows"):
        estimator.extend(X[rows], y[rows], sample_weight=weight)
    assert estimator.classes_.tolist() == np.unique(y).tolist()


def test_some_rows_of_each_class_keep_its_recall_and_warn_of_nothing():
    X, y = three_clouds(600, apart=2)
    before, after = slice(300), slice(300, 600)
    model = AdaBoostMHClassifier(n_estimators=30, random_state=0).fit(X[before], y[before])

    def recall(fitted):
        return (fitted.predict(X[after])[y[after] == 2] == 2).mean()

    rows = (np.arange(600) < 300) & (y < 2)
    with pytest.warns(UserWarning, match=r"none of class \[2\]"):
        without = recall(deepcopy(model).extend(X[rows], y[rows]))
    rows[:60] = True  # 20 of the class
    assert recall(model.extend(X[rows], y[rows])) > without + 0.3


def test_a_learner_which_replays_its_rows_extends_without_a_warning():
    X, y = three_clouds()
    X, y = np.concatenate([X, X[y < 2]]), np.concatenate([y, y[y < 2]])
    learner = StreamLearner(
        SketchLogitBoostClassifier(n_estimators=20, random_state=0),
        schedule=Schedule(growth=10.0, extend_every=5),
    )
    trainings = learner.learn([str(i) for i in range(len(y))], X, y)
    assert trainings[-1].kind == "extend"
    assert trainings[-1].labels > 140
    assert (np.asarray(learner.predict(X))[y == 2] == 2).mean() > 0.9
