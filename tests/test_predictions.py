import numpy as np

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.predictions import score_by_class_shares, score_with_committee, utility_inputs


def committee():
    rng = np.random.default_rng(0)
    X = rng.random((60, 2), dtype=np.float32)
    y = np.where(X[:, 0] < 0.3, "low", np.where(X[:, 0] < 0.6, "middle", "high"))
    return SketchLogitBoostClassifier(n_estimators=20).train(X, y, seed=1), X


def test_nothing_is_known_before_the_first_label():
    scored = score_by_class_shares({}, 3)
    assert scored.labels.tolist() == [None, None, None]
    assert (scored.probabilities.shape, scored.version) == ((3, 0), 0)


def test_before_a_committee_the_commonest_label_is_predicted_with_the_labels_shares():
    scored = score_by_class_shares({"b": 1, "a": 3}, 2)
    assert scored.labels.tolist() == ["a", "a"]
    assert scored.classes.tolist() == ["b", "a"]
    np.testing.assert_array_equal(scored.probabilities, [[0.25, 0.75], [0.25, 0.75]])
    np.testing.assert_array_equal(scored.margins, [0, 0])


def test_the_first_seen_of_equally_common_labels_is_predicted():
    assert score_by_class_shares({7: 2, 3: 2}, 1).labels.tolist() == [7]


def test_a_committee_predicts_the_class_of_the_largest_score():
    model, X = committee()
    scored = score_with_committee(model, X)
    scores = np.sort(model.class_scores(X), axis=1)
    assert scored.labels.tolist() == model.classes[model.class_scores(X).argmax(axis=1)].tolist()
    assert type(scored.labels[0]) is str
    np.testing.assert_array_equal(scored.margins, scores[:, -1] - scores[:, -2])
    np.testing.assert_array_equal(scored.margins, utility_inputs("margins", model, X))
    np.testing.assert_allclose(scored.probabilities.sum(axis=1), 1)


def test_a_committee_of_one_class_predicts_it_without_a_margin():
    X = np.ones((3, 2), dtype=np.float32)
    model = SketchLogitBoostClassifier(n_estimators=2).train(X, np.array(["only"] * 3), seed=1)
    scored = score_with_committee(model, X)
    assert scored.labels.tolist() == ["only"] * 3
    np.testing.assert_array_equal(scored.margins, [0, 0, 0])
    np.testing.assert_array_equal(scored.probabilities, [[1], [1], [1]])


def test_columns_a_committee_does_not_know_are_left_out():
    model, X = committee()
    wider = np.hstack([X, np.full((len(X), 1), 9, dtype=np.float32)])
    np.testing.assert_array_equal(
        utility_inputs("margins", model, wider), utility_inputs("margins", model, X)
    )


def test_no_records_give_no_predictions():
    model, X = committee()
    assert len(score_with_committee(model, X[:0])) == 0
    assert utility_inputs("margins", model, X[:0]).shape == (0,)
