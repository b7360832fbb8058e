"""Early stopping: a holdout set determines how many rounds a training keeps, in every family."""

import families
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks
from slow import slow

from streamboost import (
    AdaBoostAClassifier,
    GambleClassifier,
    GentleAdaBoostClassifier,
    RebelClassifier,
    SketchLogitBoostClassifier,
    StreamLearner,
)
from streamboost.boosting.early_stopping import (
    ValidationSet,
    calibrated_log_loss,
    validation_row_mask,
)
from streamboost.boosting.training_data import make_training_data

OTHERS = [
    GambleClassifier(weak_learner=Ridge()),
    RebelClassifier(weak_learner="localized_similarity"),
]


def clouds(n=240, seed=0, apart=1.0):
    """Three clouds that overlap, so that boosting soon learns nothing but noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return (rng.standard_normal((n, 4)) + apart * np.eye(3, 4)[y]).astype(np.float32), y


def stopping(model, **params):
    """One that holds out a fifth and soon has enough; of two classes where it knows no more."""
    given = {"n_estimators": 60, "random_state": 0, "n_iter_no_change": 4} | params
    return clone(model).set_params(early_stopping=True, validation_fraction=0.2, **given)


def rows_of(model, **kind):
    X, y = clouds(**kind)
    return X, np.minimum(y, 1) if families.two_classes_only(model) else y


def parted(model, X, y, weight=None):
    """Return which rows a model holds out."""
    return validation_row_mask(make_training_data(X, y, weight, None), model.validation_fraction, 0)


@pytest.fixture(params=[*families.others_slow(families.DEFAULTS), *slow(*OTHERS)], ids=str)
def model(request):
    return stopping(request.param)


def test_none_holds_rows_out_unless_told_to(model):
    assert type(model)().early_stopping is False


def test_a_stopped_training_is_the_beginning_of_one_that_is_not(model):
    X, y = rows_of(model)
    model.set_params(subsample=0.7, max_features=0.5).fit(X, y)
    held = parted(model, X, y)
    scores = model.decision_function(X)
    n_rounds = model.validation_score_.argmax()
    stages = [*clone(model).set_params(early_stopping=False).fit(X[~held], y[~held])
              .staged_decision_function(X)]  # fmt: skip
    assert len(model.validation_score_) - 1 < len(stages)
    assert len([*model.staged_decision_function(X)]) == n_rounds > 0
    np.testing.assert_array_equal(scores, stages[n_rounds - 1])


def test_its_score_is_what_the_committee_makes_of_the_rows_held_out(model):
    X, y = rows_of(model)
    model.fit(X, y)
    held = parted(model, X, y)
    kept = model.fit(X, y)._fitted_model.class_scores(X[held])
    temperature = getattr(getattr(model, "committee_", None), "temperature", 2.0)
    loss, _ = calibrated_log_loss(kept / temperature, y[held], np.ones(held.sum()))
    assert model.validation_score_.max() == pytest.approx(-loss, abs=1e-6)


def test_a_row_of_weight_two_is_two_rows_to_those_held_out_too(model):
    X, y = rows_of(model)
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    weighed = model.fit(X, y, sample_weight=weight).validation_score_
    repeated = model.fit(X.repeat(weight, axis=0), y.repeat(weight)).validation_score_
    at = min(3, len(weighed), len(repeated))  # sums in another order may choose another tie
    np.testing.assert_allclose(weighed[:at], repeated[:at], rtol=1e-3)


def test_the_order_of_the_rows_does_not_matter(model):
    X, y = rows_of(model)
    order = np.random.default_rng(1).permutation(len(y))
    one, other = model.fit(X, y).validation_score_, model.fit(X[order], y[order]).validation_score_
    np.testing.assert_allclose(one[:4], other[:4], rtol=1e-3)


def test_without_early_stopping_no_score_is_left(model):
    X, y = rows_of(model, n=60)
    assert len(model.fit(X, y).validation_score_) > 1
    assert (
        model.set_params(early_stopping=False, n_estimators=3).fit(X, y).validation_score_.size == 0
    )


def test_classes_of_more_weight_weigh_more_among_those_held_out():
    X, y = clouds()
    model = stopping(SketchLogitBoostClassifier(), class_weight={2: 50.0}).fit(X, y)
    weights = np.where(y == 2, 50.0, 1.0)
    plain = stopping(SketchLogitBoostClassifier()).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(model.validation_score_, plain.validation_score_)


def test_an_extension_that_only_does_harm_adds_nothing():
    X, y = clouds(n=600)
    model = stopping(SketchLogitBoostClassifier()).fit(X, y)
    before = model.committee_.n_rounds
    model.set_params(learning_rate=1.0, max_leaf_nodes=60, min_child_weight=0.0, max_bins=255)
    model.extend(X, y)
    assert model.validation_score_.argmax() == 0
    assert model.committee_.n_rounds == before


def test_an_extension_goes_on_from_where_the_committee_stood():
    X, y = clouds()
    model = stopping(SketchLogitBoostClassifier()).fit(X, y)
    best = model.validation_score_.max()
    model.extend(X, y)
    assert model.validation_score_[0] == pytest.approx(best, abs=1e-6)


def test_a_share_of_each_class_is_held_out():
    X, y = clouds(n=900)
    y = np.where(np.arange(900) < 600, 0, y)
    held = validation_row_mask(make_training_data(X, y, None, None), 0.1, 0)
    for k in range(3):
        assert held[y == k].sum() == pytest.approx(0.1 * (y == k).sum(), abs=1)


def test_rows_held_out_weigh_their_share():
    X, y = clouds(n=3000)
    weight = np.random.default_rng(0).exponential(size=3000)
    held = validation_row_mask(make_training_data(X, y, weight, None), 0.2, 0)
    share = np.bincount(y, weight * held) / np.bincount(y, weight)
    np.testing.assert_allclose(share, 0.2, atol=0.01)


def test_equal_rows_are_on_one_side_and_each_class_keeps_some():
    X, y = clouds(n=30)
    X, y = np.tile(X, (5, 1)), np.tile(y, 5)
    held = validation_row_mask(make_training_data(X, y, None, None), 0.3, 0).reshape(5, 30)
    assert (held == held[0]).all()
    assert 6 <= held[0].sum() <= 12
    alike = np.zeros((30, 2), dtype=np.float32)
    assert not validation_row_mask(make_training_data(alike, y[:30], None, None), 0.99, 0).any()


def test_minus_zero_and_columns_not_yet_there_change_no_draw():
    X, y = clouds()
    X[::3, 1] = 0.0
    one = validation_row_mask(make_training_data(X, y, None, None), 0.1, 3)
    X[::3, 1] = -0.0
    wider = np.c_[X, np.full(len(X), np.nan, dtype=np.float32)]
    np.testing.assert_array_equal(
        one, validation_row_mask(make_training_data(wider, y, None, None), 0.1, 3)
    )


def test_rows_that_came_since_hardly_change_who_is_held_out():
    X, y = clouds(n=1200)
    before = validation_row_mask(make_training_data(X[:900], y[:900], None, None), 0.2, 0)
    after = validation_row_mask(make_training_data(X, y, None, None), 0.2, 0)[:900]
    assert (before != after).sum() < 0.15 * before.sum()


def test_a_whole_number_for_random_state_draws_others():
    X, y = clouds()
    model = stopping(GambleClassifier())  # whose trees do not depend on it
    scores = {s: model.set_params(random_state=s).fit(X, y).validation_score_ for s in (0, 1)}
    assert scores[0][1] != scores[1][1]
    for seeds in ((0, 0), (None, np.random.RandomState(7))):
        one, other = (model.set_params(random_state=s).fit(X, y).validation_score_ for s in seeds)
        np.testing.assert_array_equal(one, other)


def test_where_no_class_has_enough_rows_all_are_trained_on_with_a_word():
    X, y = clouds(n=12)
    model = SketchLogitBoostClassifier(n_estimators=7, random_state=0, early_stopping=True)
    with pytest.warns(UserWarning, match=r"validation_fraction=0.1 .*12 rows.*larger fraction"):
        stopped = model.fit(X, y).decision_function(X)
    plain = model.set_params(early_stopping=False).fit(X, y).decision_function(X)
    np.testing.assert_array_equal(stopped, plain)
    assert model.committee_.n_rounds == 7


def test_one_class_needs_nobody_held_out():
    model = stopping(SketchLogitBoostClassifier())
    assert (model.fit(clouds()[0], np.full(240, "a")).predict(clouds()[0]) == "a").all()


def test_what_rows_are_given_beside_them_stays_with_them():
    X, y = clouds()
    rng = np.random.default_rng(0)
    cost, weight = rng.random(240), rng.integers(0, 2, 240)
    model = stopping(AdaBoostAClassifier(cost=cost)).fit(X, y, sample_weight=weight)
    there = np.flatnonzero(weight)
    held = parted(model, X[there], y[there])
    trained = there[~held]
    again = clone(model).set_params(cost=cost[trained], early_stopping=False)
    stages = [*again.fit(X[trained], y[trained]).staged_decision_function(X)]
    n_rounds = model.committee_.n_rounds
    np.testing.assert_array_equal(model.decision_function(X), stages[n_rounds - 1])


@pytest.mark.slow
def test_a_learner_may_hold_rows_out_also_after_a_snapshot():
    X, y = clouds()
    ids = [str(i) for i in range(len(y))]
    learner = StreamLearner(stopping(SketchLogitBoostClassifier()), experts="committee")
    learner.learn(ids[:180], X[:180], y[:180])
    assert 0 < learner.committee.n_rounds < 60
    again = StreamLearner.restore(learner.snapshot())
    for one in (learner, again):
        one.learn(ids[180:], X[180:], y[180:])
    np.testing.assert_array_equal(learner.score(X).probabilities, again.score(X).probabilities)


@pytest.mark.parametrize("tol", [1e-7, 0.05])
def test_it_ends_where_scikit_learn_ends(tol):
    rng = np.random.default_rng(0)
    peer = HistGradientBoostingClassifier(n_iter_no_change=5, tol=tol)
    for _ in range(100):
        losses = np.cumsum(rng.normal(-0.01, 0.1, 60))
        held = ValidationSet(np.zeros((1, 1)), np.zeros(1), np.ones(1), 5, tol)
        for m, loss in enumerate(losses):
            held.losses.append(loss)
            assert held.has_converged == peer._should_stop(list(-losses[: m + 1]))
            if held.has_converged:
                assert held.losses[held.best_n_rounds] <= held.losses[m - 5]
                break


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_the_loss_is_the_least_over_temperatures(scale):
    rng = np.random.default_rng(0)
    y, weight = rng.integers(0, 4, 200), rng.random(200)
    F = scale * (rng.standard_normal((200, 4)) + np.eye(4)[y])

    def at(b):
        return -(weight @ log_softmax(b * F, axis=1)[np.arange(200), y]) / weight.sum()

    best = minimize_scalar(at, bounds=(0, 1), method="bounded", options={"xatol": 1e-10}).fun
    for begin in (1.0, 1e-3):
        assert calibrated_log_loss(F, y, weight, begin)[0] == pytest.approx(best, abs=1e-8)


def test_scores_that_are_right_are_never_sharpened_nor_wrong_ones_trusted():
    y = np.array([0, 1])
    right = np.array([[3.0, 0.0], [0.0, 3.0]])
    loss, softened = calibrated_log_loss(right, y, np.ones(2))
    assert softened == 1.0
    assert loss == pytest.approx(np.log1p(np.exp(-3)))
    assert calibrated_log_loss(-right, y, np.ones(2))[0] == pytest.approx(np.log(2), abs=1e-4)
    assert calibrated_log_loss(-1e6 * right, y, np.ones(2))[0] == pytest.approx(np.log(2), abs=1e-4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("early_stopping", "auto"),
        ("validation_fraction", 1.0),
        ("n_iter_no_change", 0),
        ("tol", -1),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"{name} of"):
        SketchLogitBoostClassifier(**{name: value}).fit(*clouds())


@parametrize_with_checks(
    [
        SketchLogitBoostClassifier(n_estimators=3, early_stopping=True),
        GambleClassifier(n_estimators=3, early_stopping=True, min_child_weight=0.01),
        GentleAdaBoostClassifier(n_estimators=3, early_stopping=True, min_child_weight=0.01),
    ],
)
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
