import naive_weights as naive
import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from weight_data import ALL, clouds

from streamboost import GentleAdaBoostClassifier, OneVsAllAdaBoostClassifier, SammeClassifier


def tree_of(leaves):
    def fit(X, sign, w):
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0)
        return tree.fit(X, sign, sample_weight=w).predict(X)

    return fit


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("stumps", [False, True])
def test_each_class_is_an_adaboost_of_its_own(seed, stumps):
    X, y, weight = clouds(seed, n=150)
    fit = naive.best_stump if stumps else tree_of(5)
    F = [naive.adaboost(X, np.where(y == k, 1, -1), weight, 5, fit) for k in range(3)]
    model = OneVsAllAdaBoostClassifier(
        n_estimators=5,
        max_leaf_nodes=2 if stumps else 5,
        criterion="error" if stumps else "gini",
        **ALL,
    ).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.decision_function(X), np.transpose(F), atol=1e-5)
    assert model.committee_.n_trees == 15
    p = 1 / (1 + np.exp(-2 * np.transpose(F)))
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), p, atol=1e-5)


def test_two_classes_are_one_adaboost():
    X, y, weight = clouds(4, K=2)
    settings = {"n_estimators": 6, "max_leaf_nodes": 5, **ALL}
    model = OneVsAllAdaBoostClassifier(**settings).fit(X, y, sample_weight=weight)
    plain = SammeClassifier(**settings).fit(X, y, sample_weight=weight)
    assert model.committee_.n_trees == 6
    np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_gentle_adaboost_mh_is_the_gentle_adaboost_of_pairs_of_rows_and_classes(seed):
    X, y, weight = clouds(seed, n=150)
    F, w = np.zeros((150, 3)), np.tile(weight[:, None], 3)
    sign = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    for _ in range(5):
        w /= w.sum()  # over all pairs
        for k in range(3):
            tree = DecisionTreeRegressor(max_leaf_nodes=5, random_state=0)
            g = tree.fit(X, sign[:, k], sample_weight=w[:, k]).predict(X)
            F[:, k] += g
            w[:, k] *= np.exp(-sign[:, k] * g)
    model = OneVsAllAdaBoostClassifier(variant="gentle", n_estimators=5, max_leaf_nodes=5, **ALL)
    model.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.decision_function(X), F, atol=1e-5)
    assert model.committee_.n_trees == 15


@pytest.mark.parametrize("trimmed", [0.0, 0.1])
def test_gentle_problems_are_those_of_gentle_adaboost(trimmed):
    X, y, weight = clouds(3, K=2)
    settings = {"n_estimators": 6, "max_leaf_nodes": 5, "weight_trimming": trimmed, **ALL}
    model = OneVsAllAdaBoostClassifier(variant="gentle", **settings)
    plain = GentleAdaBoostClassifier(**settings).fit(X, y, sample_weight=weight)
    model.fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), rtol=1e-12)


def test_each_variant_goes_on_from_the_other():
    X, y, _ = clouds(3, n=150)
    model = OneVsAllAdaBoostClassifier(variant="gentle", n_estimators=3, **ALL).fit(X, y)
    begun = model.decision_function(X)
    model.set_params(variant="discrete").extend(X, y)
    sign = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    before, after = (np.exp(-sign * F).mean(axis=0) for F in (begun, model.decision_function(X)))
    assert (after < before).all()


def test_a_class_told_apart_perfectly_grows_no_more_while_others_do():
    X, y, _ = clouds(5, n=300)
    X = np.c_[X, y == 2]
    model = OneVsAllAdaBoostClassifier(n_estimators=10, max_leaf_nodes=3, **ALL).fit(X, y)
    per_round = np.diff(model.committee_.learners.rounds)
    assert per_round[0] == 3
    assert set(per_round[1:]) == {2}


@pytest.mark.filterwarnings("ignore:the rows of this extension:UserWarning")
def test_a_class_without_rows_keeps_its_score():
    X, y, _ = clouds(6, n=300, K=4)
    model = OneVsAllAdaBoostClassifier(n_estimators=5, max_leaf_nodes=4).fit(X, y)
    before = model.decision_function(X)[:, 3]
    model.extend(X[y != 3], y[y != 3])
    np.testing.assert_array_equal(model.decision_function(X)[:, 3], before)


def test_the_link_is_kept_in_the_model_file(tmp_path):
    from streamboost import Committee

    X, y, _ = clouds(7)
    model = OneVsAllAdaBoostClassifier(n_estimators=3).fit(X, y)
    model.committee_.save(tmp_path / "model")
    again = Committee.load(tmp_path / "model")
    np.testing.assert_array_equal(
        again.probabilities(again.class_scores(X)), model.predict_proba(X)
    )


def test_an_unknown_link_is_refused():
    from streamboost import Committee
    from streamboost.errors import ModelFileError
    from streamboost.storage import pack_json, unpack_json

    X, y, _ = clouds(7)
    arrays = OneVsAllAdaBoostClassifier(n_estimators=1).fit(X, y).committee_.to_arrays()
    arrays["about"] = pack_json(unpack_json(arrays["about"]) | {"link": "probit"})
    with pytest.raises(ModelFileError, match="probit"):
        Committee.from_arrays(arrays)
