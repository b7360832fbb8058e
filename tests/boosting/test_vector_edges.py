"""Edge cases of the boosters whose leaves hold K values."""

import numpy as np
import pytest
from slow import slow

from streamboost import (
    AdaBoostCostClassifier,
    AdaBoostMHClassifier,
    CDMCBoostClassifier,
    GDMCBoostClassifier,
    RebelClassifier,
)

pytestmark = pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")

rng = np.random.default_rng(0)
ROWS = rng.standard_normal((60, 3))
LABELS = np.arange(60) % 3

DATA = {
    "one class": (ROWS, np.zeros(60, int)),
    "two rows": (ROWS[:2], [0, 1]),
    "two rows at one place": (np.zeros((2, 3)), [0, 1]),
    "constant columns": (np.ones((60, 3)), LABELS % 2),
    "constant columns, uneven classes": (np.ones((60, 3)), LABELS // 2),
    "a missing column": (np.where([True, False, True], ROWS, np.nan), LABELS),
    "all missing": (np.full((60, 3), np.nan), LABELS),
    "200 classes": (rng.standard_normal((400, 3)), np.arange(400) % 200),
    "one row per class": (ROWS, np.arange(60)),
    "duplicated rows with other labels": (np.tile(ROWS[:20], (3, 1)), np.repeat([0, 1, 2], 20)),
    "huge values": (ROWS * 1e30, LABELS),
    "tiny values": (ROWS * 1e-30, LABELS),
}

MODELS = {
    "AdaBoost-Cost": AdaBoostCostClassifier(n_estimators=12),
    "AdaBoost.MH": AdaBoostMHClassifier(n_estimators=12),
    "CD-MCBoost": CDMCBoostClassifier(n_estimators=12),
    "GD-MCBoost": GDMCBoostClassifier(n_estimators=12),
    "REBEL": RebelClassifier(n_estimators=12, max_depth=3),
    "REBEL, no smoothing": RebelClassifier(n_estimators=12, smoothing=0),
    "REBEL, half of the rows": RebelClassifier(n_estimators=12, subsample=0.5, random_state=0),
    "similarities": RebelClassifier(n_estimators=12, weak_learner="localized_similarity"),
    "similarities, no smoothing": RebelClassifier(
        n_estimators=12, weak_learner="localized_similarity", smoothing=0, standardize=True
    ),
}


@pytest.fixture(params=MODELS, ids=str)
def model(request):
    return MODELS[request.param]


# The others are among the families of test_edges.py.
@pytest.mark.parametrize("name", ["REBEL, half of the rows", "similarities, no smoothing"])
@pytest.mark.parametrize("what", DATA)
@pytest.mark.quick_once
def test_scores_and_probabilities_are_finite(name, what):
    X, y = DATA[what]
    model = MODELS[name].fit(X, y)
    assert np.isfinite(model.committee_.class_scores(np.asarray(X))).all()
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert set(model.predict(X)) <= set(y)


@pytest.mark.parametrize("kind", ["paper", *slow("linear")])
@pytest.mark.parametrize("weak_learner", ["tree", "localized_similarity"])
@pytest.mark.parametrize("what", [name for name in DATA if name != "one class"])
@pytest.mark.quick_once
def test_so_they_are_under_costs(what, kind, weak_learner):
    X, y = DATA[what]
    K = len(set(y))
    C = np.random.default_rng(1).exponential(size=(K, K)) * (1 - np.eye(K))
    model = RebelClassifier(
        cost_matrix=C, subcosts=kind, weak_learner=weak_learner, n_estimators=12 if K < 99 else 2
    ).fit(X, y)
    scores = model.committee_.class_scores(np.asarray(X))
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(model.committee_.probabilities(scores).sum(axis=1), 1)
    assert set(model.predict(X)) <= set(y)


def test_uneven_classes_without_features_answer_the_commoner(model):
    X, y = np.ones((60, 3)), np.r_[np.zeros(20, int), np.ones(40, int)]
    model.fit(X, y)
    assert set(model.predict(X)) == {1}
    if getattr(model, "subsample", 1) == 1:  # half of the rows have other shares
        np.testing.assert_allclose(model.predict_proba(X)[0], [1 / 3, 2 / 3], atol=0.01)


@pytest.mark.quick_once
def test_scores_stay_finite_over_many_rounds_of_a_separable_problem(model):
    X, y = np.arange(20.0)[:, None], np.arange(20) // 10
    rounds = model.n_estimators
    model.set_params(n_estimators=500).fit(X, y)
    model.set_params(n_estimators=rounds)
    assert np.isfinite(model.predict_proba(X)).all()
    np.testing.assert_array_equal(model.predict(X), y)


def test_rows_and_weights_of_other_scales_do_not_matter(model):
    X, y = ROWS, LABELS
    one = model.fit(X, y).decision_function(X)
    other = model.fit(X, y, sample_weight=np.full(60, 1e-9)).decision_function(X)
    if not isinstance(model, AdaBoostMHClassifier):  # its smoothing counts records
        np.testing.assert_allclose(one, other, atol=1e-5)
