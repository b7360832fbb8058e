import naive
import numpy as np
import pytest
from sklearn.base import clone

from streamboost import GambleClassifier, SammeClassifier
from streamboost.boosting.reweighting.gamble_step import default_leaf_step, leaf_step


def leaf(share, step="paper"):
    return leaf_step(np.array([share], float), np.array([10]), step)[0]


def loss(share, f):
    """rho: the leaf's exponential loss, against 1 before the step."""
    return float((np.array(share) * np.exp(-f / (len(share) - 1))).sum())


def data(seed, n, K):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)).astype(np.float32)
    centres = rng.standard_normal((K, 4)) * 1.5
    y = ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    noisy = rng.random(n) < 0.1
    y[noisy] = rng.integers(0, K, noisy.sum())
    return X, y, rng.random(n) + 0.5


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("K", [3, 4])
@pytest.mark.parametrize("floor", [0.0, 3e-5])
def test_equals_algorithm_2_written_plainly(seed, K, floor):
    # Fewer than 255 rows: every distinct value has a bin, as scikit-learn's trees see them.
    X, y, weight = data(seed, 200, K)
    # Ten rounds, after which the floor has moved every committee by 7e-4 at least.
    F, leaves = naive.gamble(X, y, weight, 10, 8, floor)
    model = GambleClassifier(
        n_estimators=10, max_leaf_nodes=8, max_bins=255, step="paper", weight_floor=floor
    )
    model.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.decision_function(X), F, atol=1e-5)
    forest = model.committee_.learners
    for root, theirs in zip(forest.roots, leaves, strict=True):
        ours = [naive.leaf_of(forest, root, x) for x in X]
        pairs = set(zip(ours, theirs.tolist(), strict=True))
        assert len(pairs) == len(set(ours)) == len(set(theirs)) == 8


def test_the_floor_under_the_weights_is_3e_5_of_the_heaviest_unless_told_otherwise():
    X, y, weight = data(0, 200, 4)
    model = GambleClassifier(n_estimators=10, max_leaf_nodes=8, step="paper")
    plain, told, none = (
        clone(model).set_params(**floor).fit(X, y, weight).decision_function(X)
        for floor in ({}, {"weight_floor": 3e-5}, {"weight_floor": 0})
    )
    np.testing.assert_array_equal(plain, told)
    assert np.abs(plain - none).max() > 1e-3


@pytest.mark.parametrize("floor", [-0.1, 1.0, None])
def test_a_floor_that_cannot_be_is_refused_by_name(floor):
    with pytest.raises(ValueError, match="weight_floor of"):
        GambleClassifier(weight_floor=floor).fit(*data(0, 50, 3)[:2])


def test_first_round_of_the_hand_worked_case():
    X, y = np.arange(6.0)[:, None], np.array([0, 0, 1, 1, 2, 2])
    model = GambleClassifier(n_estimators=1, max_leaf_nodes=2, step="paper").fit(X, y)
    expected = [[6, -3, -3]] * 2 + [[-4.8, 2.4, 2.4]] * 4
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-6)
    np.testing.assert_allclose(
        model.predict_proba(X)[-1], [0.013478, 0.493261, 0.493261], atol=1e-6
    )
    w = np.exp(-model.decision_function(X)[np.arange(6), y] / 2) / 6
    assert w.sum() == pytest.approx(0.217392, abs=1e-6)
    np.testing.assert_allclose(w / w.sum(), [0.03817] * 2 + [0.230915] * 4, atol=1e-6)


def test_leaf_steps_of_the_hand_worked_shares():
    share = [0.5, 0.3, 0.2]
    np.testing.assert_allclose(leaf(share), [1.405263, -0.110526, -1.294737], atol=1e-6)
    assert loss(share, leaf(share)) == pytest.approx(0.946787, abs=1e-6)
    assert loss(share, leaf(share, "scaled")) == pytest.approx(0.932191, abs=1e-6)
    np.testing.assert_allclose(leaf([0.75, 0.25, 0]), [3.824176, 0.659341, -4.483516], atol=1e-6)
    assert loss([0.8, 0.2], leaf([0.8, 0.2])) == pytest.approx(0.904979, abs=1e-6)
    assert loss([0.8, 0.2], leaf([0.8, 0.2], "scaled")) == pytest.approx(0.803473, abs=1e-6)


@pytest.mark.parametrize("K", [3, 5, 10])
def test_the_printed_step_has_the_range_worked_out_for_it(K):
    absent = np.r_[0.0, np.full(K - 1, 1 / (K - 1))]
    assert leaf(absent)[0] == pytest.approx(-K * (K - 1) ** 3 / (K * K - K - 1))
    assert leaf(np.eye(K)[0])[0] == pytest.approx(K * (K - 1))


def test_exact_step_approaches_the_optimum_of_the_leaf():
    share = [0.5, 0.3, 0.2]
    many = leaf_step(np.array([share]), np.array([10**9]), "exact")[0]
    assert loss(share, many) == pytest.approx(0.932170, abs=1e-6)


@pytest.mark.parametrize("K", [2, 3, 7, 26])
def test_line_search_never_raises_the_loss_of_a_leaf(K):
    rng = np.random.default_rng(K)
    for share in rng.dirichlet(np.full(K, 0.3), 200):
        f = leaf(share, "line")
        assert loss(share, f) <= 1 + 1e-9
        assert loss(share, f) <= loss(share, leaf(share)) + 1e-9


def test_the_printed_step_can_raise_the_loss_for_many_classes():
    shares = np.random.default_rng(0).dirichlet(np.full(26, 0.3), 500)
    assert max(loss(share, leaf(share)) for share in shares) > 1


def test_an_empty_leaf_gets_no_score():
    np.testing.assert_array_equal(
        leaf_step(np.zeros((1, 4)), np.zeros(1, np.int64), "paper"), np.zeros((1, 4))
    )


def test_two_classes_are_gentle_adaboost():
    X, y, _ = data(1, 150, 2)
    model = GambleClassifier(n_estimators=5, max_leaf_nodes=4, max_bins=255).fit(X, y)
    # Gentle AdaBoost, its regression stump a tree fit to y = ±1 (Friedman et al., 2000).
    from sklearn.tree import DecisionTreeRegressor

    sign, f = 2.0 * y - 1, np.zeros(len(y))
    for _ in range(5):
        w = np.exp(-sign * f)
        f += DecisionTreeRegressor(max_leaf_nodes=4, random_state=0).fit(X, sign, w).predict(X)
    # Scores sum to zero, and decision_function gives their difference: twice the margin.
    np.testing.assert_allclose(model.decision_function(X), 2 * f, atol=1e-4)


def test_a_tree_has_more_leaves_than_classes_unless_told_otherwise():
    X, y, _ = data(2, 400, 12)
    model = GambleClassifier(n_estimators=1).fit(X, y)
    assert len(model.committee_.learners.values) == 24


@pytest.mark.filterwarnings("ignore:the rows of this extension:UserWarning")
def test_extend_with_a_new_class_trains_anew_and_keeps_the_absent_one():
    X, y, _ = data(3, 300, 3)
    model = GambleClassifier(n_estimators=5).fit(X[y < 2], y[y < 2])
    rows = y > 0
    model.extend(X[rows], y[rows], n_estimators=3)
    assert model.committee_.n_rounds == 8
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert model.score(X[rows], y[rows]) > 0.9
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize(
    "options",
    [{}, {"max_leaf_nodes": 2}, {"subsample": 0.6, "max_features": 0.5}, {"min_child_weight": 5.0}],
)
def test_pruning_changes_no_bit_and_counts_less_on_stumps(options):
    X, y, weight = data(4, 1500, 4)
    rng = np.random.default_rng(0)
    X = np.hstack([X, rng.standard_normal((1500, 12))])
    X[rng.random(X.shape) < 0.05] = np.nan
    plain, quick = (
        GambleClassifier(n_estimators=12, pruning=pruning, random_state=0, **options)
        for pruning in (None, "quick")
    )
    for model in (plain, quick):
        model.fit(X, y, sample_weight=weight).extend(X[::2], y[::2], n_estimators=3)
    arrays = quick.committee_.to_arrays()
    for name, array in plain.committee_.to_arrays().items():
        np.testing.assert_array_equal(arrays[name], array)
    if options.get("max_leaf_nodes") == 2:
        assert plain.n_adds_ == 3 * 750 * 16
        assert quick.n_adds_ < plain.n_adds_


def test_training_without_fitting_leaves_the_estimator_as_it_is():
    X, y, _ = data(5, 100, 3)
    model = GambleClassifier(n_estimators=2, pruning="quick")
    model.train(X, y, seed=0)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_the_step_by_number_of_classes_is_the_one_measured_best():
    assert [default_leaf_step(K) for K in (2, 3, 10, 12, 13, 26)] == ["scaled"] * 4 + ["exact"] * 2


@pytest.mark.filterwarnings("ignore:the rows of this extension:UserWarning")
def test_a_class_without_rows_keeps_its_score():
    X, y, _ = data(4, 400, 4)
    model = GambleClassifier(n_estimators=5).fit(X, y)
    before = model.decision_function(X)[:, 3]
    model.extend(X[y != 3], y[y != 3])
    np.testing.assert_array_equal(model.decision_function(X)[:, 3], before)


@pytest.mark.slow
def test_on_concentric_spheres_samme_errs_five_points_more_with_the_same_trees():
    # Huang (2009), section 5.3: five shells of equal probability around the normal's centre.
    from scipy.stats import chi2

    rng = np.random.default_rng(0)
    X = rng.standard_normal((8000, 10))
    y = np.searchsorted(chi2.ppf([0.2, 0.4, 0.6, 0.8], 10), (X**2).sum(axis=1))
    trees = {"n_estimators": 400, "max_leaf_nodes": 15, "max_features": 1.0}
    gamble, samme = (
        model.fit(X[:5000], y[:5000]).score(X[5000:], y[5000:])
        for model in (GambleClassifier(**trees), SammeClassifier(**trees))
    )
    assert gamble - samme > 0.05
