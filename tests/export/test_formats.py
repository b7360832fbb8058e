"""Exported committees predict in ONNX Runtime and in LightGBM what they predict here."""

import json
from dataclasses import replace

import lightgbm
import numpy as np
import onnx
import pandas as pd
import pytest
from families import CATEGORICAL, TREES, others_slow

from streamboost import Committee, RebelClassifier, SammeClassifier, SketchLogitBoostClassifier
from streamboost.boosting.committee import COLUMNS
from streamboost.errors import DataError
from streamboost.evaluation.decisions import Decisions
from streamboost.export.lightgbm_text import read_metadata
from streamboost.export.onnx_model import MOST_MEMBERS
from streamboost.trees.forest import Forest
from tests.export.exported import fitted_committee, lightgbm_scores, onnx_outputs, rows_to_score

SKETCH = SketchLogitBoostClassifier(n_estimators=12)


def require_equal_in_both(committee, X):
    scores = committee.class_scores(X)
    labels = committee.classes[committee.predicted_indices(scores)]
    assert np.array_equal(lightgbm_scores(committee.to_lightgbm(), X), scores)
    found = onnx_outputs(committee.to_onnx(), X)
    assert found["label"].tolist() == labels.tolist()
    assert np.abs(found["scores"] - scores).max() <= 1e-11 * max(np.abs(scores).max(), 1.0)
    assert np.allclose(found["probabilities"], committee.probabilities(scores), atol=1e-11)


@pytest.mark.parametrize("estimator", others_slow(TREES), ids=str)
def test_numbers_and_missing_values_are_scored_equally(estimator):
    committee = fitted_committee(estimator)
    require_equal_in_both(committee, rows_to_score(committee))


@pytest.mark.parametrize("estimator", others_slow(CATEGORICAL), ids=str)
def test_categories_are_scored_equally(estimator):
    committee = fitted_committee(estimator, categories=True)
    assert (committee.learners.set_of >= 0).any()
    require_equal_in_both(committee, rows_to_score(committee))


def test_missing_categories_on_either_side_are_scored_equally():
    committee = fitted_committee(SKETCH, categories=True)
    forest = committee.learners
    left = forest.sets[forest.set_of[forest.set_of >= 0], 0] & 1
    assert 0 < left.sum() < len(left)  # the children of some splits are swapped
    X = rows_to_score(committee)
    X[:, 3] = np.where(np.arange(len(X)) % 3 == 0, np.nan, X[:, 3])
    require_equal_in_both(committee, X)


@pytest.mark.parametrize("n", [1, 2, 50, 128, 129])
def test_number_of_rows_in_a_call_changes_no_score(n):
    committee = fitted_committee(SKETCH)
    require_equal_in_both(committee, rows_to_score(committee)[:n])


def test_infinite_values_are_scored_equally():
    committee = fitted_committee(SKETCH)
    X = rows_to_score(committee)
    X[:40, :3] = np.inf
    X[40:80, :3] = -np.inf
    require_equal_in_both(committee, X)


def test_threshold_of_a_split_between_present_and_missing_is_infinite():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 4)).astype(np.float32)
    X[rng.random(300) < 0.5, 0] = np.nan
    y = np.isnan(X[:, 0]).astype(int)
    committee = SKETCH.fit(X, y).committee_
    assert np.isinf(committee.learners.nodes["threshold"]).any()
    require_equal_in_both(committee, rows_to_score(committee))


def test_committee_without_trees_gives_its_base():
    committee = Committee(
        np.array(["a", "b"]), np.array([0.1, 0.7]), Forest.empty(2), 4, "test", temperature=2.0
    )
    require_equal_in_both(committee, np.zeros((3, 4), dtype=np.float32))


def test_committee_of_one_class_predicts_this_class():
    X = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    committee = SketchLogitBoostClassifier(n_estimators=3).fit(X, np.full(30, 7)).committee_
    require_equal_in_both(committee, X)


@pytest.mark.parametrize(
    "classes", [[3, 1, 2], [True, False], ["", "ä = ö\n", "b"], [0.5, 1.5, 2.5]], ids=str
)
def test_labels_keep_their_type(classes):
    committee = fitted_committee(SKETCH)
    K = len(classes)
    committee = replace(
        committee,
        classes=np.array(classes),
        base=committee.base[:K],
        learners=replace(committee.learners, values=committee.learners.values[:, :K].copy()),
    )
    X = rows_to_score(committee)
    found = onnx_outputs(committee.to_onnx(), X)["label"].tolist()
    assert (
        found == committee.classes[committee.predicted_indices(committee.class_scores(X))].tolist()
    )
    assert {type(label) for label in found} == {type(classes[0])}


@pytest.mark.parametrize("estimator", [SKETCH, SammeClassifier(variant="real"), RebelClassifier()])
def test_lightgbm_predicts_probabilities_if_it_has_the_link(estimator):
    committee = fitted_committee(estimator)
    X = rows_to_score(committee)
    scores = committee.class_scores(X)
    predicted = lightgbm.Booster(model_str=committee.to_lightgbm()).predict(X)
    if committee.link == "sigmoid":
        predicted = predicted / predicted.sum(axis=1, keepdims=True)
    elif committee.temperature != 1.0:
        assert np.array_equal(predicted, scores)
        return
    assert np.allclose(predicted, committee.probabilities(scores), atol=1e-12)


def test_lightgbm_reads_importances_and_names_of_the_columns():
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((200, 2)), columns=["a b", "a:b"])
    committee = SKETCH.fit(X, (X["a:b"] > 0).astype(int)).committee_
    booster = lightgbm.Booster(model_str=committee.to_lightgbm())
    assert booster.feature_name() == ["a_b_0", "a_b_1"]
    shares = booster.feature_importance("gain")
    assert np.allclose(shares / shares.sum(), committee.feature_importances(), atol=1e-6)


def test_metadata_and_the_columns_of_the_frame_are_in_both_files():
    X = pd.DataFrame({"colour": pd.Categorical(["red", "=", "ä"] * 40), "n": np.arange(120.0)})
    y = (X["colour"] == "red").astype(int)
    committee = SketchLogitBoostClassifier(n_estimators=3).fit(X, y).committee_
    note = {"note": 'one = "two"\nthree'}
    model = onnx.load_model_from_string(committee.to_onnx(note))
    properties = {prop.key: prop.value for prop in model.metadata_props}
    assert properties == read_metadata(committee.to_lightgbm(note))
    assert properties["note"] == note["note"]
    assert json.loads(properties[COLUMNS])["categories"] == [[0, ["=", "red", "ä"]]]
    lightgbm.Booster(model_str=committee.to_lightgbm(note))


@pytest.mark.parametrize(
    "decisions",
    [
        Decisions(costs={"low": {"high": 20, "middle": 0.5}, "high": {"low": 4}}),
        Decisions(threshold={"low": 0.7, "middle": 0.6, "high": 0.8}),
        Decisions(threshold={"high": 0.4}),
    ],
    ids=str,
)
def test_onnx_decides_as_the_decisions_do(decisions):
    committee = fitted_committee(SKETCH)
    X = rows_to_score(committee)
    P = committee.probabilities(committee.class_scores(X))
    classes = committee.classes.tolist()
    given = (
        {"costs": decisions.cost_matrix(classes)}
        if decisions.costs
        else {"threshold": np.array([decisions.threshold.get(label, 0.0) for label in classes])}
    )
    chosen = decisions.decided_class_indices(P, classes)
    assert len(set(chosen.tolist()) - {-1}) > 1
    assert (
        onnx_outputs(committee.to_onnx(decision=given), X)["decision"].tolist() == chosen.tolist()
    )


def refused(committee, what):
    with pytest.raises(DataError, match=what):
        committee.to_onnx()
    with pytest.raises(DataError, match=what):
        committee.to_lightgbm()


def test_link_costs_is_refused_with_the_reason():
    estimator = RebelClassifier(cost_matrix=[[0, 1, 5], [1, 0, 1], [2, 1, 0]])
    committee = fitted_committee(estimator)
    assert committee.link == "costs"
    refused(committee, "'costs'.*eigenvector.*safetensors")


def test_similarities_are_refused_with_the_reason():
    X = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
    similar = RebelClassifier(weak_learner="localized_similarity", n_estimators=2)
    committee = similar.fit(X, (X[:, 0] > 0).astype(int)).committee_
    refused(committee, "made of similarities.*train a committee of trees")


def test_more_categories_than_onnx_supports_are_refused():
    X = np.repeat(np.arange(MOST_MEMBERS + 300, dtype=np.float32), 3)[:, None]
    X[:100] = np.nan
    y = np.where(X[:, 0] >= 254, 0, 1)  # the categories without a bin of their own, and all others
    model = SketchLogitBoostClassifier(n_estimators=3, categorical_features=[0])
    committee = model.fit(X, y).committee_
    with pytest.raises(DataError, match=r"ONNX at most 1,000.*LightGBM"):
        committee.to_onnx()
    assert np.array_equal(lightgbm_scores(committee.to_lightgbm(), X), committee.class_scores(X))
