"""`class_weight` with scikit-learn's meaning: the weight of a row of each class."""

import families
import numpy as np
import pytest

from streamboost import GambleClassifier, SketchLogitBoostClassifier, StreamLearner
from streamboost.errors import ConfigurationError, DataError
from streamboost.learner.estimators import describe_estimator, rebuild_estimator


@pytest.fixture(params=families.others_slow(families.ESTIMATORS), ids=lambda e: e.__name__)
def estimator(request):
    return request.param(n_estimators=5, random_state=0)


@pytest.fixture(scope="module")
def rare():
    """Two overlapping classes, one of them rare."""
    rng = np.random.default_rng(0)
    y = (rng.random(600) < 0.05).astype(int)
    return rng.standard_normal((600, 3)) + y[:, None], y


def recall(model, X, y):
    return (model.predict(X)[y == 1] == 1).mean()


def test_class_weights_are_what_the_rows_of_a_class_count_as(estimator, rare):
    X, y = rare
    weighted = estimator.set_params(class_weight={0: 1, 1: 7}).fit(X, y).decision_function(X)
    estimator.set_params(class_weight=None)
    by_rows = estimator.fit(X, y, sample_weight=np.where(y, 7.0, 1.0)).decision_function(X)
    np.testing.assert_array_equal(weighted, by_rows)


def test_balanced_classes_count_alike(estimator, rare):
    X, y = rare
    balanced = estimator.set_params(class_weight="balanced").fit(X, y).decision_function(X)
    n, counts = len(y), np.bincount(y)
    weights = dict(enumerate((n / (2 * counts)).tolist()))
    by_hand = estimator.set_params(class_weight=weights).fit(X, y).decision_function(X)
    np.testing.assert_array_equal(balanced, by_hand)


def test_balanced_classes_find_the_rare_one(rare):
    X, y = rare
    model = SketchLogitBoostClassifier(n_estimators=20, max_leaf_nodes=4, random_state=0)
    plain = recall(model.fit(X, y), X, y)
    assert recall(model.set_params(class_weight="balanced").fit(X, y), X, y) > plain + 0.2


def test_class_weights_multiply_the_rows_own(rare):
    X, y = rare
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    model = SketchLogitBoostClassifier(n_estimators=5, random_state=0, class_weight={1: 3})
    both = model.fit(X, y, sample_weight=weight).decision_function(X)
    model.set_params(class_weight=None)
    product = model.fit(X, y, sample_weight=weight * np.where(y, 3, 1)).decision_function(X)
    np.testing.assert_array_equal(both, product)


def test_a_row_of_weight_two_is_two_rows_to_balanced_classes(rare):
    X, y = rare
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    model = SketchLogitBoostClassifier(n_estimators=5, random_state=0, class_weight="balanced")
    weighted = model.fit(X, y, sample_weight=weight).decision_function(X)
    repeated = model.fit(X.repeat(weight, axis=0), y.repeat(weight)).decision_function(X)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-4, atol=1e-4)


def test_a_class_of_weight_zero_is_known_and_never_predicted(estimator):
    rng = np.random.default_rng(0)
    X, y = rng.random((90, 2)), np.arange(90) % 3
    estimator.set_params(class_weight={2: 0})
    if families.two_classes_only(estimator):
        with pytest.raises(DataError, match="3 classes"):
            estimator.fit(X, y)
        return
    estimator.fit(X, y)
    assert estimator.classes_.tolist() == [0, 1, 2], "as in scikit-learn"
    assert set(estimator.predict(X)) <= {0, 1}
    assert np.isfinite(estimator.decision_function(X)).all()


def test_class_weights_take_the_names_of_classes(rare):
    X, y = rare
    model = SketchLogitBoostClassifier(n_estimators=5, random_state=0)
    numbered = model.set_params(class_weight={1: 9}).fit(X, y).decision_function(X)
    names = np.array(["ham", "spam"])[y]
    named = model.set_params(class_weight={"spam": 9}).fit(X, names).decision_function(X)
    np.testing.assert_array_equal(named, numbered)


def test_a_name_that_no_row_has_is_refused_as_scikit_learn_does(estimator, rare):
    with pytest.raises(ValueError, match=r"classes, \[0, 1\], are not in class_weight"):
        estimator.set_params(class_weight={"spam": 9}).fit(*rare)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf"), "much"])
def test_weights_that_cannot_be_are_named(wrong, rare):
    model = SketchLogitBoostClassifier(class_weight={1: wrong})
    with pytest.raises(ConfigurationError, match=rf"class_weight\[1\] is {wrong!r}.*0 or more"):
        model.fit(*rare)


@pytest.mark.parametrize("wrong", ["heavy", [1, 2]])
def test_other_choices_are_refused_by_name(estimator, wrong, rare):
    with pytest.raises(ValueError, match="class_weight of"):
        estimator.set_params(class_weight=wrong).fit(*rare)


def test_text_that_looks_like_numbers_is_a_class_like_any(rare):
    X, y = rare
    model = SketchLogitBoostClassifier(n_estimators=5, random_state=0, class_weight={"1": 30})
    assert (model.fit(X, y.astype(str)).predict(X) == "1").any()


@pytest.mark.filterwarnings("ignore:the rows of this extension:UserWarning")
def test_an_extension_may_lack_a_class_that_has_a_weight(rare):
    X, y = rare
    model = SketchLogitBoostClassifier(n_estimators=5, class_weight={0: 1, 1: 9}).fit(X, y)
    model.extend(X[y == 0], y[y == 0], n_estimators=2)
    assert model.classes_.tolist() == [0, 1]


def test_a_foreign_regressor_is_given_class_weights_too(rare):
    from sklearn.tree import DecisionTreeRegressor

    X, y = rare
    model = GambleClassifier(n_estimators=3, weak_learner=DecisionTreeRegressor(max_depth=3))
    plain = recall(model.fit(X, y), X, y)
    assert recall(model.set_params(class_weight="balanced").fit(X, y), X, y) > plain + 0.2


@pytest.mark.parametrize("chosen", ["balanced", {1: 9.0}, {"spam": 2}, {np.int64(3): 2}])
def test_a_learner_trains_by_class_weights_and_its_snapshot_keeps_them(chosen):
    again = rebuild_estimator(describe_estimator(SketchLogitBoostClassifier(class_weight=chosen)))
    assert again.class_weight == chosen


@pytest.mark.slow
def test_a_stream_learner_weighs_classes_also_after_a_snapshot(rare):
    X, y = rare
    ids = [str(i) for i in range(len(y))]
    plain, weighed = (
        StreamLearner(SketchLogitBoostClassifier(n_estimators=5, class_weight=chosen))
        for chosen in (None, {1: 20})
    )
    for learner in (plain, weighed):
        learner.learn(ids[:300], X[:300], y[:300])
    weighed = StreamLearner.restore(weighed.snapshot())
    for learner in (plain, weighed):
        learner.learn(ids[300:], X[300:], y[300:])
    found = [(np.asarray(one.predict(X)) == 1).sum() for one in (plain, weighed)]
    assert found[1] > 2 * found[0]
