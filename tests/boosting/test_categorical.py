"""Categorical features in every boosted estimator."""

import copy
import pickle
from functools import cache

import families
import naive_categories
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

from streamboost import (
    Cascade,
    Committee,
    GambleClassifier,
    RebelClassifier,
    SketchLogitBoostClassifier,
    StreamLearner,
)
from streamboost.boosting.categorical import categorical_mask, check_categories
from streamboost.errors import ConfigurationError, DataError, ModelFileError
from streamboost.learner.estimators import describe_estimator, rebuild_estimator

ESTIMATORS = [GambleClassifier, SketchLogitBoostClassifier]


@pytest.fixture(params=ESTIMATORS, ids=lambda e: e.__name__)
def estimator(request):
    return request.param(n_estimators=20, random_state=0)


@cache
def fitted_to_sets(family):
    """An estimator that was fitted to `scattered` rows; each test takes a copy."""
    estimator = family(n_estimators=20, random_state=0, categorical_features=[0, 1])
    return estimator.fit(*scattered())


@pytest.fixture
def fitted(estimator):
    return copy.deepcopy(fitted_to_sets(type(estimator)))


@pytest.fixture(params=families.CATEGORICAL, ids=str)
def any_family(request):
    return clone(request.param).set_params(n_estimators=12, random_state=0)


def scattered(seed=0, n=2000, n_categories=40):
    """Two columns of categories whose classes lie scattered over the numbers, and one of noise."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, n_categories, (n, 3)).astype(np.float32)
    X[:, 2] = rng.standard_normal(n)
    X[rng.random(n) < 0.05, 0] = np.nan
    of = np.random.default_rng(99).integers(0, 3, n_categories + 1)
    y = of[np.nan_to_num(X[:, 0], nan=n_categories).astype(int)]
    return X, y


def test_scattered_categories_are_told_apart_by_a_few_sets(any_family):
    X, y = scattered(n_categories=100)
    X_new, y_new = scattered(1, n_categories=100)
    if families.two_classes_only(any_family):
        y, y_new = y > 0, y_new > 0
    if "max_leaf_nodes" in any_family.get_params():
        any_family.set_params(max_leaf_nodes=4)
    as_numbers = any_family.fit(X, y).score(X_new, y_new)
    as_sets = any_family.set_params(categorical_features=[0, 1]).fit(X, y).score(X_new, y_new)
    assert as_sets == 1.0
    assert as_numbers < 0.95


def test_every_family_scores_as_its_trees_are_walked(any_family):
    X, y = scattered(n=300)
    y = y > 0 if families.two_classes_only(any_family) else y
    any_family.set_params(categorical_features=[0, 1], n_estimators=4).fit(X, y)
    X[:20, 0], X[20:40, 0] = 1000, -3
    wanted = naive_categories.forest_scores(any_family.committee_, X[:60])
    np.testing.assert_allclose(any_family.committee_.class_scores(X[:60]), wanted, atol=1e-10)


def test_one_category_against_all_others_needs_one_split(estimator):
    X = np.repeat(np.arange(30), 10).astype(np.float32)[:, None]
    y = (X[:, 0] == 17).astype(int)
    estimator.set_params(n_estimators=1, max_leaf_nodes=2, categorical_features=[0])
    assert estimator.fit(X, y).committee_.n_trees == 1
    scores = estimator.decision_function(X)
    assert len(np.unique(scores)) == 2
    assert scores[y == 1].min() > scores[y == 0].max()


def test_nursery_is_learned_from_its_categories(estimator, shared_data):
    data = shared_data("nursery")
    X, y = data["X"], data["y"]
    rows = np.random.default_rng(0).permutation(len(y))
    train, test = rows[:8000], rows[8000:]
    estimator.set_params(categorical_features=data["categorical"], n_estimators=100)
    assert estimator.fit(X[train], y[train]).score(X[test], y[test]) > 0.995


def test_scores_are_those_of_walking_each_tree(fitted):
    X, _ = scattered()
    X[:20, 0], X[20:40, 0] = 1000, -3
    wanted = naive_categories.forest_scores(fitted.committee_, X[:150])
    np.testing.assert_allclose(fitted.committee_.class_scores(X[:150]), wanted, atol=1e-10)


def test_renaming_the_categories_changes_nothing(estimator):
    X, y = scattered()
    estimator.set_params(categorical_features=[0, 1])
    one = estimator.fit(X, y).decision_function(X)
    shifted = X.copy()
    shifted[:, :2] = 7 * shifted[:, :2] + 3  # in the same order: ties fall the same way
    other = estimator.fit(shifted, y).decision_function(shifted)
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("odd", [777.0, -1.0, -0.5, np.nan, 3.5])
def test_whatever_is_no_known_category_scores_as_missing(fitted, odd):
    X, y = scattered()
    rows = X[:50].copy()
    rows[:, 0] = np.nan
    missing = fitted.decision_function(rows)
    rows[:, 0] = odd
    np.testing.assert_array_equal(fitted.decision_function(rows), missing)
    assert (fitted.predict(rows) == y[np.isnan(X[:, 0])][0]).all()  # learned, as it was met


def test_more_categories_than_bins(estimator):
    rng = np.random.default_rng(0)
    common, rare = rng.integers(0, 200, 6000), rng.integers(200, 1200, 1500)
    X = np.concatenate([common, rare]).astype(np.float32)[:, None]
    y = np.where(X[:, 0] < 200, X[:, 0] * 7 % 3, 3).astype(int)
    estimator.set_params(categorical_features=[0], n_estimators=30).fit(X, y)
    assert estimator.score(X, y) > 0.97
    forest = estimator.committee_.learners
    assert forest.sets.shape[1] == 32
    assert forest.category_codes.n_codes <= 256


def test_what_the_scoring_reads_is_left_as_it_was(fitted):
    X, _ = scattered()
    X = np.ascontiguousarray(X)
    before = X.copy()
    fitted.committee_.class_scores(X)
    np.testing.assert_array_equal(X, before)


def test_batches_threads_and_stages_agree(fitted):
    X, _ = scattered()
    whole = fitted.decision_function(X)
    np.testing.assert_array_equal(
        np.concatenate([fitted.decision_function(X[i : i + 7]) for i in range(0, 2000, 7)]),
        whole,
    )
    *_, last = fitted.staged_decision_function(X)
    np.testing.assert_array_equal(last, whole)
    np.testing.assert_array_equal(fitted.set_params(n_jobs=2).decision_function(X), whole)


def test_an_extension_meets_new_categories_and_old_trees_answer_as_before(fitted):
    X, y = scattered()
    later = X + np.array([100, 100, 0], np.float32)
    y_later = (y + 1) % 3
    both = np.concatenate([X, later])
    before = list(fitted.staged_decision_function(both))
    fitted.extend(both, np.concatenate([y, y_later]), n_estimators=60)
    after = list(fitted.staged_decision_function(both))
    np.testing.assert_array_equal(after[19], before[19])
    known = ~np.isnan(both[:, 0])
    wanted = np.concatenate([y, y_later])[known]
    assert (fitted.predict(both[known]) == wanted).mean() > 0.99
    some = np.concatenate([X[:60], later[:60]])
    np.testing.assert_allclose(
        fitted.committee_.class_scores(some),
        naive_categories.forest_scores(fitted.committee_, some),
        atol=1e-10,
    )


def test_an_extension_that_meets_few_of_the_categories_keeps_the_others(fitted):
    X, y = scattered()
    few = X[:, 0] < 5
    fitted.extend(X[few], y[few], n_estimators=3)
    table = fitted.committee_.learners.category_codes
    assert table.start[1] - table.start[0] == 40
    assert fitted.score(X, y) > 0.9


def test_many_extensions_of_the_same_categories_do_not_grow_the_table(fitted):
    X, y = scattered()
    before = fitted.committee_.learners
    for part in range(4):
        fitted.extend(X[part::4], y[part::4], n_estimators=2)
    after = fitted.committee_.learners
    np.testing.assert_array_equal(after.category_codes.codes, before.category_codes.codes)
    np.testing.assert_array_equal(after.sets[: len(before.sets)], before.sets)


def test_columns_cannot_turn_from_numbers_to_categories(estimator):
    X, y = scattered()
    estimator.fit(X, y)
    estimator.set_params(categorical_features=[0])
    with pytest.raises(DataError, match=r"columns \[\] as categories, and this training \[0\]"):
        estimator.extend(X, y)


def test_saved_and_pickled_committees_score_the_same_and_can_be_extended(fitted, tmp_path):
    X, y = scattered()
    path = tmp_path / "model"
    fitted.committee_.save(path)
    again = Committee.load(path)
    np.testing.assert_array_equal(again.class_scores(X), fitted.committee_.class_scores(X))
    twin = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(twin.decision_function(X), fitted.decision_function(X))
    rows = X + np.array([50, 0, 0], np.float32)
    one = fitted.train(rows, y, seed=1, committee=again, n_estimators=3)
    two = fitted.train(rows, y, seed=1, committee=fitted.committee_, n_estimators=3)
    np.testing.assert_array_equal(one.class_scores(rows), two.class_scores(rows))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("set_of", 10**6),
        ("nodes.feature", 2),
        ("categories.codes", 10**5),
        ("categories.features", 9),
        ("categories.start", 5),
    ],
)
def test_a_damaged_table_of_sets_is_refused(fitted, name, value):
    arrays = {k: v.copy() for k, v in fitted.committee_.to_arrays().items()}
    at = np.flatnonzero(arrays["set_of"] >= 0)[0] if name in ("set_of", "nodes.feature") else 0
    arrays[name][at] = value
    with pytest.raises(ModelFileError, match="damaged"):
        Committee.from_arrays(arrays)


def test_fractions_are_refused_with_the_column_and_the_mend(estimator):
    X, y = scattered()
    X[7, 1] = 2.5
    estimator.set_params(categorical_features=[0, 1])
    with pytest.raises(ValueError, match=r"column 1 .* holds 2\.5 in row 7.*OrdinalEncoder"):
        estimator.fit(X, y)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["hue", "shape", "size"])
    with pytest.raises(ValueError, match=r"column 'shape' \(1\)"):
        estimator.set_params(categorical_features=["hue", "shape"]).fit(frame, y)


def test_names_masks_and_indices_choose_the_same_columns(estimator):
    pandas = pytest.importorskip("pandas")
    X, y = scattered()
    frame = pandas.DataFrame(X, columns=["hue", "shape", "size"])
    scores = []
    for chosen in (["hue", "shape"], [0, 1], np.array([True, True, False]), [True, True, False]):
        estimator.set_params(categorical_features=chosen).fit(frame, y)
        scores.append(estimator.extend(frame, y, n_estimators=2).decision_function(frame))
    for other in scores[1:]:
        np.testing.assert_array_equal(other, scores[0])


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ([3], "indices lie between 0 and 2"),
        ([-1], "indices lie between 0 and 2"),
        (["hue"], "no column names"),
        ([True, False], "3 booleans"),
        ([0.5], "column indices, or column names"),
        ([[0]], "3 booleans"),
    ],
)
def test_choices_that_do_not_fit_are_refused(chosen, message):
    with pytest.raises(ConfigurationError, match=message):
        categorical_mask(chosen, 3, None)


def test_names_that_are_not_there_are_named():
    with pytest.raises(ConfigurationError, match=r"\['color'\], and the columns are \['hue'\]"):
        categorical_mask(["color"], 1, np.array(["hue"]))


@pytest.mark.parametrize("chosen", [None, [], np.zeros(3, bool)])
def test_no_choice_is_no_column(chosen):
    assert not categorical_mask(chosen, 3, None).any()


def test_snapshots_describe_the_choice(estimator):
    estimator.set_params(categorical_features=np.array([True, False]))
    again = rebuild_estimator(describe_estimator(estimator))
    assert again.categorical_features == [True, False]


@pytest.mark.parametrize(("value", "mend"), [(1.5, "OrdinalEncoder"), (2.0**24, "run together")])
def test_what_cannot_be_a_category_is_refused_by_column_and_row(value, mend):
    X = np.zeros((5, 3), np.float32)
    X[3, 1] = value
    X[0, 2] = 0.5
    marked = np.array([True, True, False])
    with pytest.raises(DataError, match=rf"column 1 is in categorical_features.*row 3.*{mend}"):
        check_categories(X, marked, None)
    with pytest.raises(DataError, match=r"column 'b' \(1\)"):
        check_categories(X, marked, np.array(["a", "b", "c"]))
    X[3, 1] = np.nan
    X[4, 1] = -2.5
    check_categories(X, marked, None)


@pytest.mark.slow
def test_a_stream_learner_carries_the_categories_through_a_snapshot():
    X, y = scattered()
    learner = StreamLearner(
        estimator=SketchLogitBoostClassifier(n_estimators=10, categorical_features=[0, 1]),
        random_state=0,
    )
    ids = [str(i) for i in range(len(y))]
    learner.learn(ids[:300], X[:300], y[:300])
    assert len(learner.committee.learners.sets)
    again = StreamLearner.restore(learner.snapshot())
    np.testing.assert_array_equal(again.score(X).labels, learner.score(X).labels)
    learner.learn(ids[300:], X[300:], y[300:])
    again.learn(ids[300:], X[300:], y[300:])
    np.testing.assert_array_equal(again.score(X).labels, learner.score(X).labels)


def test_what_does_not_know_categories_says_so():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (200, 2)).astype(float)
    y = np.isin(X[:, 0], [0, 3, 5]).astype(int)
    quick = GambleClassifier(categorical_features=[0], pruning="quick")
    with pytest.raises(ConfigurationError, match="does not know categories"):
        quick.fit(X, y)
    similar = RebelClassifier(categorical_features=[0], weak_learner="localized_similarity")
    with pytest.raises(ConfigurationError, match=r"1 columns, and RebelClassifier.*similarities"):
        similar.fit(X, y)
    lines = GambleClassifier(categorical_features=[0, 1], weak_learner=Ridge())
    with pytest.raises(ConfigurationError, match=r"2 columns, and GambleClassifier.*regressor"):
        lines.fit(X, y)
    model = GambleClassifier(n_estimators=2, categorical_features=[0]).fit(X, y)
    with pytest.raises(DataError, match="sets of categories"):
        Cascade.fit(model.committee_, X)
