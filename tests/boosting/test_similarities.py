"""REBEL on localized similarities."""

import naive_rebel as naive
import numpy as np
import pytest
from naive_vectors import problem
from sklearn.datasets import load_wine

from streamboost import Committee, RebelClassifier
from streamboost.boosting.costs.coupled_loss import loss_bound, optimal_coefficients
from streamboost.boosting.costs.similarity_rounds import (
    best_point_to_separate,
    refine_coefficients,
    split_points_in_two,
)
from streamboost.boosting.costs.subcosts import Costs
from streamboost.boosting.similarities import CoordinateSystem
from streamboost.errors import DataError, ModelFileError
from streamboost.storage import write_arrays

COSTS = [[0, 1, 4], [1, 0, 1], [2, 2, 0]]


def similar(**params):
    return RebelClassifier(weak_learner="localized_similarity", **params)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("refinements", [0, 3])
@pytest.mark.parametrize("costs", [None, COSTS])
def test_equals_chapter_5_written_plainly(seed, refinements, costs):
    X, y, weight = problem(seed, n=40)
    model = similar(n_estimators=6, refinements=refinements, cost_matrix=costs)
    model.fit(X, y, sample_weight=weight)
    H, losses = naive.similarities(
        X.astype(float), y, weight, 6, *Costs(costs).subcosts(3), 1e-3, refinements
    )
    # Training points are moved to their mean and rounded to float32.
    np.testing.assert_allclose(model.committee_.class_scores(X), H, atol=2e-5)
    assert (np.diff(losses) < 0).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("refinements", [0, 3])
@pytest.mark.parametrize("subcosts", ["paper", "linear"])
def test_the_loss_never_rises(seed, refinements, subcosts):
    X, y, _ = problem(seed, n=150, K=4)
    C = np.abs(np.random.default_rng(seed).standard_normal((4, 4))) * (1 - np.eye(4))
    model = similar(cost_matrix=C, subcosts=subcosts, refinements=refinements, n_estimators=40)
    model.fit(X, y)
    args = y, np.ones(150), *Costs(C, subcosts).subcosts(4)
    stages = [np.tile(model.committee_.base, (150, 1)), *model.staged_decision_function(X)]
    losses = [naive.coupled_loss(H, *args) for H in stages]
    assert (np.diff(losses) < 0).all()


def test_newton_steps_lower_the_loss_further():
    X, y, _ = problem(1, n=150, K=4)
    args = y, np.ones(150), *naive.neutral_subcosts(4)
    losses = []
    for refinements in (0, 1, 3):
        model = similar(refinements=refinements, n_estimators=30).fit(X, y)
        losses.append(naive.coupled_loss(model.decision_function(X), *args))
    assert losses[0] > losses[1] > losses[2]


def test_soft_sums_lower_the_loss_where_the_sums_of_signs_raise_it():
    f, y = np.array([0.1, 0.1, 0.1, 1.0]), np.array([-1, -1, -1, 1.0])
    plus, minus = np.where(y > 0, 1.0, 0.0)[:, None], np.where(y < 0, 1.0, 0.0)[:, None]

    def loss(a):
        return (plus * np.exp(f[:, None] * a) + minus * np.exp(-f[:, None] * a)).sum()

    assert loss(0.0) == 4
    assert loss(np.log(3) / 2) == pytest.approx(4.571703, abs=1e-6)  # three of four signs agree
    total, difference = (plus + minus).sum(axis=0), f @ (plus - minus)
    a = optimal_coefficients(total, difference, 0.0)
    assert a[0] == pytest.approx(-0.176820, abs=1e-6)
    assert loss(a) == pytest.approx(3.891448, abs=1e-6)
    assert loss_bound(total, difference, a) == pytest.approx(3.938274, abs=1e-6)
    refined, lowest = refine_coefficients(plus, minus, f, a, 5)
    assert lowest == pytest.approx(loss(refined))
    assert lowest < loss(a)


@pytest.mark.parametrize("seed", range(10))
def test_refinement_goes_to_the_minimum_of_each_class(seed):
    rng = np.random.default_rng(seed)
    plus, minus = rng.exponential(size=(2, 40, 5)) ** 3
    f = rng.uniform(-1, 1, 40) ** 3

    def loss(a, k):
        return (plus[:, k] * np.exp(f * a) + minus[:, k] * np.exp(-f * a)).sum()

    start = rng.uniform(-4, 4, 5)
    a, total = refine_coefficients(plus, minus, f, start, 30)
    for k in range(5):
        assert loss(a[k], k) <= loss(start[k], k)
        assert loss(a[k], k) <= min(loss(b, k) for b in np.linspace(-4, 4, 401)) + 1e-9
    assert total == pytest.approx(sum(loss(a[k], k) for k in range(5)))


@pytest.mark.parametrize("seed", range(10))
def test_the_isolated_point_is_the_one_of_least_loss(seed):
    rng = np.random.default_rng(seed)
    plus, minus = rng.random((2, 30, 4))
    total = (plus + minus).sum(axis=0)
    losses = []
    for i in range(30):
        f = np.where(np.arange(30) == i, 1.0, -1.0)[:, None]
        s_plus = np.where(f > 0, plus, minus).sum(axis=0)
        losses.append(np.sqrt(s_plus * (total - s_plus)).sum())
    assert best_point_to_separate(plus - minus, total) == int(np.argmin(losses))


def gained(b, pull, total):
    """|sum b_i u_i|^2, what a perfect learner of the groups is sure to gain (twice)."""
    return (((b @ pull) ** 2) / total).sum()


@pytest.mark.parametrize("seed", range(10))
def test_refined_groups_gain_at_least_as_much_as_the_eigenvectors_signs(seed):
    rng = np.random.default_rng(seed)
    pull = rng.standard_normal((60, 6))
    total = np.abs(pull).sum(axis=0)
    u = pull / np.sqrt(total)
    signs = np.where(np.linalg.svd(u)[0][:, 0] >= 0, 1, -1)
    assert (
        gained(split_points_in_two(pull, total), pull, total) >= gained(signs, pull, total) - 1e-12
    )


@pytest.mark.parametrize("K", [2, 3, 4, 7])
def test_groups_of_balanced_classes_do_not_follow_rounding(K):
    # At the best constant scores, balanced classes make K-1 equal eigenvalues.
    Y = np.where(np.repeat(np.arange(K), 5)[:, None] == np.arange(K), -1.0, 1.0)
    pull = np.where(Y < 0, -(K - 1.0), 1.0)
    total = np.abs(pull).sum(axis=0)
    groups = split_points_in_two(pull, total)
    noise = np.random.default_rng(0).standard_normal((20, *pull.shape))
    for eps in 1e-13 * noise:
        np.testing.assert_array_equal(split_points_in_two(pull + eps, total), groups)
    own = np.repeat(np.arange(K), 5)
    assert all(len(set(groups[own == k])) == 1 for k in range(K))
    assert set(groups) == {-1, 1}


def test_rows_at_one_place_count_as_one_point_of_their_weight():
    X, y, _ = problem(2, n=60)
    twice = similar(n_estimators=15).fit(np.concatenate([X, X]), np.concatenate([y, y]))
    heavy = similar(n_estimators=15).fit(X, y, sample_weight=np.full(60, 2.0))
    np.testing.assert_allclose(twice.decision_function(X), heavy.decision_function(X), atol=1e-9)
    mixed = similar(n_estimators=15).fit(np.zeros((10, 2)), [0] * 7 + [1] * 3)
    np.testing.assert_allclose(mixed.predict_proba([[0, 0]]), [[0.7, 0.3]], atol=2e-3)


def test_scores_are_record_by_record_sums():
    X, y, _ = problem(3, n=50)
    X[::7, 1] = np.nan
    committee = similar(n_estimators=12, standardize=True).fit(X, y).committee_
    assert {-1} < set(committee.learners.pairs[:, 1])
    np.testing.assert_allclose(
        committee.class_scores(X), naive.similarity_scores(committee, X), atol=1e-10
    )


def test_standardized_columns_may_have_any_unit():
    X, y = load_wine(return_X_y=True)
    units = 10.0 ** np.arange(-6, 7)
    model = similar(n_estimators=30, standardize=True)
    plain = model.fit(X[::2], y[::2]).predict(X[1::2])
    scaled = model.fit(X[::2] * units, y[::2]).predict(X[1::2] * units)
    assert (plain == scaled).mean() > 0.98
    assert (plain == y[1::2]).mean() > 0.9
    assert similar(n_estimators=30).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) < 0.9


def test_a_frame_ignores_what_does_not_vary():
    X = np.array([[1, 5, np.nan], [3, 5, np.nan], [np.nan, 5, np.nan]], np.float32)
    frame = CoordinateSystem.fit(X, np.array([3.0, 1, 1]), standardize=True)
    np.testing.assert_allclose(frame.centre, [1.5, 5, 0])
    Z = frame(np.array([[1.5, 7, 2], [np.nan, np.nan, np.nan]], np.float32))
    np.testing.assert_array_equal(Z, 0)
    np.testing.assert_allclose(frame(X)[:2, 0], [-0.5 / np.sqrt(0.75), 1.5 / np.sqrt(0.75)])


def test_the_error_on_training_rows_goes_to_zero():
    X, y, _ = problem(4, n=150, K=4)  # one row in seven has a random label
    model = similar(n_estimators=150).fit(X, y)
    assert model.score(X, y) == 1


def test_extending_keeps_the_coordinates_and_adds_rounds():
    X, y, _ = problem(5, n=200)
    model = similar(n_estimators=10, standardize=True).fit(X[:100], y[:100])
    frame, before = model.committee_.learners.coordinates, model.score(X[100:], y[100:])
    model.extend(X[100:], y[100:], n_estimators=20)
    np.testing.assert_array_equal(model.committee_.learners.coordinates.centre, frame.centre)
    assert model.committee_.n_rounds == 30
    assert model.score(X[100:], y[100:]) > before


def test_more_columns_may_not_extend():
    X, y, _ = problem(5)
    model = similar(n_estimators=3).fit(X[:, :-1], y)
    known, given = X.shape[1] - 1, X.shape[1]
    with pytest.raises(DataError, match=f"over {known} columns, and X has {given}"):
        similar().train(X, y, seed=0, committee=model.committee_)


def test_stages_are_those_of_adding_round_by_round():
    X, y, _ = problem(7)
    committee = similar(n_estimators=9).fit(X, y).committee_
    stages = list(committee.staged_scores(X))
    assert len(stages) == committee.n_rounds
    expected = np.tile(committee.base, (len(X), 1))
    for m, stage in enumerate(stages):
        committee.learners.add_scores(X, expected, (m, m + 1))
        np.testing.assert_array_equal(stage, expected)
    np.testing.assert_array_equal(stages[-1], committee.class_scores(X))


@pytest.fixture
def saved(tmp_path):
    X, y, _ = problem(6)
    committee = similar(n_estimators=8).fit(X, y).committee_
    committee.save(tmp_path / "model")
    return committee, tmp_path / "model", X


def test_a_saved_committee_scores_the_same(saved):
    committee, path, X = saved
    again = Committee.load(path)
    np.testing.assert_array_equal(again.class_scores(X), committee.class_scores(X))
    assert (again.n_rounds, again.n_trees, again.family) == (8, 8, "rebel similarity")


@pytest.mark.parametrize(
    ("name", "at", "value", "message"),
    [
        ("pairs", (0, 0), 99, "first 99 of learner 0"),
        ("pairs", (3, 1), 99, "second 99 of learner 3"),
        ("pairs", (3, 0), -1, "first -1 of learner 3"),
        ("pairs", (3, 1), -2, "second -2 of learner 3"),
        ("reach", 2, 0.0, "is not positive"),
        ("reach", 2, np.nan, "is not positive"),
        ("points", slice(None, -1), None, "out of range"),
        ("coefficients", slice(None, -1), None, "do not fit together"),
        ("coefficients", (slice(None), 0), None, "do not fit together"),
        ("pairs", (slice(None), 0), None, "do not fit together"),
        ("frame.scale", slice(None, -1), None, "do not fit together"),
    ],
)
def test_a_damaged_committee_is_refused(saved, name, at, value, message):
    committee, path, _ = saved
    arrays = {k: v.copy() for k, v in committee.to_arrays().items()}
    if value is None:
        arrays[name] = arrays[name][at]
    else:
        arrays[name][at] = value
    write_arrays(path, arrays, kind="committee")
    with pytest.raises(ModelFileError, match=message):
        Committee.load(path)
