from itertools import pairwise

import naive
import naive_logit
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

from streamboost import SketchLogitBoostClassifier
from streamboost.boosting.log_loss import sketch_trainer
from streamboost.boosting.loop import BoostingParameters, RoundSampler
from streamboost.trees.bins import Bins
from streamboost.trees.grower import Grower


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[::2], y[::2], X[1::2], y[1::2]


def model(**parameters):
    return SketchLogitBoostClassifier(random_state=0, **parameters)


def drawn(X, weight, K, seed, max_features, subsample):
    """What chance says of the four rounds that a training with this seed has."""
    bins = Bins.fit(X, weight, 64)
    limits = {"max_leaf_nodes": 5, "max_depth": None, "min_child_weight": 0.0}
    grow = Grower(bins, bins.transform(X), **limits, l2_regularization=0.0)
    params = BoostingParameters(5, None, 64, max_features, subsample)
    rng = np.random.default_rng(seed)
    ((_, features, chosen),) = RoundSampler(grow, params, rng, weight).draw_batches(4, 4)
    chosen = chosen if len(chosen) else np.ones((4, len(X)), dtype=bool)
    features = np.broadcast_to(features, (4, features.shape[1]))
    directions = sketch_trainer.draw_class_directions(4, K, rng).astype(float)
    return list(zip(directions, features, chosen, strict=True))


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("sample", [(None, 1.0), (0.7, 1.0), (None, 0.6), (0.7, 0.6)])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.quick_once
def test_a_training_is_the_plain_transcription(seed, sample, K):
    X, y, w = naive_logit.small(seed, K=K)
    estimator = model(**naive_logit.SETTINGS, max_features=sample[0], subsample=sample[1])
    committee = estimator.train(X, y, w, seed=seed)
    expected = naive_logit.transcribe(X, y, w, naive_logit.sketch, drawn(X, w, K, seed, *sample))
    np.testing.assert_allclose(committee.class_scores(X), expected, atol=2e-5)


@pytest.mark.parametrize("sample", [{}, {"max_features": 0.3, "subsample": 0.5}])
def test_neither_later_rounds_nor_how_many_a_call_takes_change_a_bit(sample, digits, monkeypatch):
    X, y, X_test, _ = digits
    sample = sample | {"learning_rate": 0.1}
    long, short = (model(n_estimators=n, **sample).fit(X, y) for n in (50, 20))
    staged = list(long.staged_decision_function(X_test))
    np.testing.assert_array_equal(staged[19], short.decision_function(X_test))
    monkeypatch.setattr(sketch_trainer, "_ROWS_A_CALL", 7 * len(X))
    again = model(n_estimators=50, **sample).fit(X, y)
    np.testing.assert_array_equal(again.decision_function(X_test), staged[-1])
    assert again.n_adds_ == long.n_adds_


def test_rounds_are_the_same_to_the_last_bit_where_few_histograms_are_kept(digits, monkeypatch):
    X, y, X_test, _ = digits
    settings = {"n_estimators": 20, "max_leaf_nodes": 12, "max_features": 0.5, "subsample": 0.7}
    kept = model(**settings).fit(X, y)
    monkeypatch.setattr("streamboost.trees.grower.MOST_SUMS", 1)
    again = model(**settings).fit(X, y)
    np.testing.assert_array_equal(again.decision_function(X_test), kept.decision_function(X_test))
    assert again.n_adds_ > kept.n_adds_


def test_rounds_draw_as_many_features_and_rows_as_they_are_told():
    X, w = np.random.default_rng(0).random((50, 10)).astype(np.float32), np.ones(50)
    for _, features, chosen in drawn(X, w, 3, 1, 0.3, 0.5):
        assert len(np.unique(features)) == 3
        assert (np.diff(features.astype(int)) > 0).all()
        assert chosen.sum() == 25


def test_additions_are_those_of_the_root_and_of_smaller_children():
    X = np.arange(100, dtype=np.float32)[:, None].repeat(2, axis=1)
    y = np.searchsorted([10, 40], X[:, 0], side="right")
    stumps = model(n_estimators=5, max_leaf_nodes=2).fit(X, y)
    assert stumps.n_adds_ == 5 * 2 * 100
    trees = model(n_estimators=1, max_leaf_nodes=3).fit(X, y)
    assert 2 * (100 + 10) <= trees.n_adds_ <= 2 * (100 + 40)


def test_features_that_cannot_be_split_leave_a_leaf_a_round():
    X, y = np.zeros((30, 2), np.float32), np.arange(30) % 3
    committee = model(n_estimators=3).fit(X, y).committee_
    assert len(committee.learners.nodes) == 0
    assert committee.n_trees == 3


def test_learns_ten_classes(digits):
    X, y, X_test, y_test = digits
    fitted = model(n_estimators=150).fit(X, y)
    assert fitted.score(X_test, y_test) > 0.95
    assert log_loss(y_test, fitted.predict_proba(X_test)) < 0.2


def test_every_round_lowers_the_training_loss_until_it_is_small(digits):
    X, y, *_ = digits
    losses = [log_loss(y, p) for p in model(n_estimators=60).fit(X, y).staged_predict_proba(X)]
    assert all(b < a * 1.02 for a, b in pairwise(losses))
    assert losses[-1] < losses[0] / 5


def test_kept_probabilities_stay_the_softmax_of_the_scores(digits):
    # A rate of 1 drives probabilities to the ends of float32 within the rounds between rebuilds.
    X, y, *_ = digits
    fitted = model(n_estimators=31, learning_rate=1.0).fit(X, y)
    again = model(n_estimators=31, learning_rate=1.0).fit(X, y)
    assert np.isfinite(fitted.decision_function(X)).all()
    np.testing.assert_array_equal(fitted.decision_function(X), again.decision_function(X))
    assert (fitted.predict(X) == y).mean() > 0.99


@pytest.mark.parametrize("rate", [0.07, 1.0])
def test_probabilities_of_hundreds_of_rounds_are_the_softmax_of_their_scores(
    rate, digits, monkeypatch
):
    states, start = [], sketch_trainer._SketchLogitBoost.initial_state
    monkeypatch.setattr(
        sketch_trainer._SketchLogitBoost,
        "initial_state",
        lambda *args: states.append(start(*args)) or states[0],
    )
    X, y, *_ = digits
    fitted = model(n_estimators=300, learning_rate=rate, max_leaf_nodes=8).fit(X, y)
    # A tree moves the probabilities when the next is begun, and the last one's is not.
    committee = fitted.committee_
    before = committee.learners.staged_scores(X, np.tile(committee.base, (len(X), 1)))
    scores = next(F.copy() for m, F in enumerate(before) if m == 298)
    expected = np.maximum(naive.softmax(scores), 1e-30)
    np.testing.assert_allclose(states[0].probabilities, expected, rtol=2e-3, atol=1e-6)


def test_extend_continues_where_fit_stopped(digits):
    X, y, X_test, y_test = digits
    short = model(n_estimators=20).fit(X, y)
    before = short.decision_function(X_test)
    first_trees = short.committee_.learners.roots[:20].copy()
    short.extend(X, y, n_estimators=60)
    assert short.committee_.n_rounds == 80
    np.testing.assert_array_equal(short.committee_.learners.roots[:20], first_trees)
    staged = list(short.staged_decision_function(X_test))
    np.testing.assert_array_equal(staged[19], before)
    np.testing.assert_array_equal(staged[79], short.decision_function(X_test))
    assert log_loss(y_test, short.predict_proba(X_test)) < log_loss(
        y_test, model(n_estimators=20).fit(X, y).predict_proba(X_test)
    )


def test_a_new_class_enters_near_its_share(digits):
    X, y, *_ = digits
    old = y < 7
    fitted = model(n_estimators=40).fit(X[old], y[old])
    from streamboost.boosting.log_loss.softmax import SoftmaxAlgorithm
    from streamboost.boosting.training_data import TrainingData

    data = TrainingData(X.astype(np.float32), y.astype(np.uint32), np.ones(len(y)), np.arange(10))
    base = SoftmaxAlgorithm(0.1, 0.0).base_scores(data, fitted.committee_)
    known = fitted.committee_.class_scores(X)
    F = np.hstack([known, np.tile(base[7:], (len(X), 1))])
    share = np.bincount(y, minlength=10)[7:] / len(y)
    mean = fitted.committee_.probabilities(F)[:, 7:].mean(axis=0)
    assert (mean > share / 3).all()
    assert (mean < share * 3).all()

    fitted.extend(X, y, n_estimators=40)
    np.testing.assert_array_equal(fitted.classes_, np.arange(10))
    assert fitted.score(X[~old], y[~old]) > 0.9


@pytest.mark.filterwarnings("ignore:the rows of this extension:UserWarning")
def test_an_absent_class_stays(digits):
    X, y, X_test, y_test = digits
    fitted = model(n_estimators=60).fit(X, y)
    fitted.extend(X[y != 3], y[y != 3], n_estimators=5)
    assert 3 in fitted.classes_
    assert (fitted.predict(X_test[y_test == 3]) == 3).mean() > 0.8


def test_new_classes_join_behind_the_known_ones_and_labels_stay_right():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2))
    y = np.array(["b", "m", "a"])[(X[:, 0] > 0).astype(int) + (X[:, 0] > 1)]
    rows = y != "a"
    fitted = model(n_estimators=20).fit(X[rows], y[rows])
    fitted.extend(X, y)
    np.testing.assert_array_equal(fitted.classes_, ["b", "m", "a"])
    assert fitted.score(X, y) > 0.95


def test_missing_values_are_learned_from():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((500, 3))
    y = rng.integers(0, 3, 500)
    X[y == 2, 1] = np.nan
    fitted = model(n_estimators=30).fit(X, y)
    assert (fitted.predict(X[y == 2]) == 2).all()


@pytest.mark.parametrize(("rounds", "rate"), [(10, 0.2), (100, 0.14), (400, 0.07)])
def test_by_default_the_fewer_rounds_the_longer_steps_which_extensions_keep(digits, rounds, rate):
    X, y, *_ = digits
    by_default = model(n_estimators=rounds, max_leaf_nodes=4).fit(X, y)
    told = model(n_estimators=rounds, max_leaf_nodes=4, learning_rate=rate).fit(X, y)
    for fitted in (by_default, told):
        fitted.extend(X, y, n_estimators=2)
    np.testing.assert_allclose(by_default.decision_function(X), told.decision_function(X))


@pytest.mark.parametrize(("n_features", "offered"), [(20, 20), (25, 20), (64, 32), (500, 100)])
def test_by_default_trees_are_offered_fewer_of_many_features(n_features, offered):
    rng = np.random.default_rng(0)
    X, y = rng.random((50, n_features)), rng.integers(0, 3, 50)
    assert model(n_estimators=1, max_leaf_nodes=2).fit(X, y).n_adds_ == 50 * offered


@pytest.mark.parametrize(
    ("n", "K", "most"), [(200, 3, 31), (2500, 3, 50), (6000, 3, 80), (6000, 20, 100)]
)
def test_by_default_trees_grow_with_the_rows_and_the_classes(n, K, most):
    rng = np.random.default_rng(0)
    X, y = rng.random((n, 3)), rng.integers(0, K, n)
    leaves = model(n_estimators=1, min_child_weight=0.0).fit(X, y).committee_.learners.values
    assert len(leaves) == most


@pytest.mark.slow
def test_ten_rows_of_a_class_among_40_000_do_no_harm_however_many_rounds():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80_000, 4)).astype(np.float32)
    y = np.searchsorted([0.75, 1.2], X[:, 0])  # 77, 11 and 12 percent
    for half in (0, 40_000):
        rare = half + rng.choice(40_000, 10, replace=False)
        X[rare, 1], y[rare] = 5.0 + rng.random(10), 3
    train, test = slice(40_000), slice(40_000, None)
    stages = model(n_estimators=300).fit(X[train], y[train]).staged_predict(X[test])
    errors = [np.mean(predicted != y[test]) for predicted in stages]
    for rounds in (30, 100, 300):
        assert errors[rounds - 1] < 0.01


@pytest.mark.slow
def test_ten_rows_beside_40_000_of_one_other_class_do_no_harm_however_many_rounds():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80_000, 4)).astype(np.float32), np.zeros(80_000, int)
    for half in (0, 40_000):
        rare = half + rng.choice(40_000, 10, replace=False)
        X[rare, 1], y[rare] = 5.0 + rng.random(10), 1
    train, test = slice(40_000), slice(40_000, None)
    stages = model(n_estimators=300).fit(X[train], y[train]).staged_predict(X[test])
    wrong = [np.count_nonzero(predicted != y[test]) for predicted in stages]
    for rounds in (30, 100, 300):
        assert wrong[rounds - 1] < 10
