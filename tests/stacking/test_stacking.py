"""Stacking: several experts' log probabilities as one prediction, with learned weights."""

from functools import cache

import numpy as np
import pytest
from learner.small_learner import X, Y

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.stacking.correction import PER_LABEL
from streamboost.stacking.stacking import OnlineStacking

ROW = X[:1]


def committee_of(labels, n=60):
    """Return a committee that knows these labels, and little of them."""
    y = np.array([labels[i % len(labels)] for i in range(n)])
    return SketchLogitBoostClassifier(n_estimators=2).train(X[:n], y, seed=1)


two = cache(lambda: committee_of("ab"))


def blend_of(*experts, labels="ab"):
    """Return a blend that learned a few labels."""
    blend = OnlineStacking(("committee", *experts))
    blend.set_n_features(3)
    for i, label in enumerate(labels):
        blend.learn("", X[i], label)
    return blend


def say(blend, logs, committee=None):
    """Return what is scored as if the experts had said `logs` (E, K) of one record."""
    committee = committee or two()
    scored = blend.score(committee, ROW)
    scored.experts[:, 0] = logs
    return scored


def told(blend, logs, label, weight=1.0, committee=None):
    """Let a label be learned of a record of which the experts had said `logs` (E, K)."""
    committee = committee or two()
    blend.cache_predictions(["x"], say(blend, logs, committee))
    blend.learn("x", X[0], label, weight, committee)


def test_log_probabilities_are_added_by_weight_and_normalized():
    blend = blend_of("transitions", "linear")
    blend.weights[:] = 0.5, 0.25, 2.0
    scored = blend.score(two(), X[:9])
    summed = np.tensordot(blend.weights, scored.experts, 1)
    chances = np.exp(summed) / np.exp(summed).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(scored.probabilities, chances, rtol=1e-9)
    np.testing.assert_array_equal(scored.classes[chances.argmax(axis=1)], scored.labels)
    np.testing.assert_allclose(scored.margins, np.abs(summed[:, 0] - summed[:, 1]), rtol=1e-9)


def test_the_first_expert_is_the_committee():
    scored = blend_of("transitions").score(two(), X[:9])
    own = two().probabilities(two().class_scores(X[:9]))
    np.testing.assert_allclose(np.exp(scored.experts[0]), own)


def test_one_label_moves_the_weights_by_hand():
    blend = blend_of("transitions", "linear")
    before, logs = blend.weights.copy(), np.log([[0.2, 0.8], [0.9, 0.1], [0.5, 0.5]])
    told(blend, logs, "b", weight=3.0)
    odds = np.exp(before @ logs)
    slope = 3.0 * logs @ (odds / odds.sum() - [0, 1])
    wanted = np.maximum(before - 0.2 * slope / np.sqrt(10 + slope**2), 0)
    np.testing.assert_allclose(blend.weights, wanted, rtol=1e-6)
    told(blend, logs, "b", weight=3.0)
    odds = np.exp(wanted @ logs)
    again = 3.0 * logs @ (odds / odds.sum() - [0, 1])
    wanted -= 0.2 * again / np.sqrt(10 + slope**2 + again**2)
    np.testing.assert_allclose(blend.weights, np.maximum(wanted, 0), rtol=1e-6)
    assert blend.weights[0] > before[0]
    assert blend.weights[1] < before[1]


def test_an_expert_that_is_always_wrong_is_left_out_and_weights_stay_above_zero():
    blend = blend_of("transitions")
    for _ in range(200):
        told(blend, np.log([[0.2, 0.8], [0.9, 0.1]]), "b")
        assert blend.weights.min() >= 0
    assert blend.weights[1] == 0
    assert blend.weights[0] > 0.4


def test_an_expert_that_was_left_out_comes_back_when_it_is_right():
    blend = blend_of("transitions")
    for right in (0.1, 0.9):
        for _ in range(300):
            told(blend, np.log([[0.5, 0.5], [1 - right, right]]), "b")
    assert blend.weights[1] > 0.5


def test_what_was_said_on_arrival_counts_and_not_what_is_said_when_the_label_comes():
    early, late, now = (blend_of("transitions") for _ in range(3))
    early.cache_predictions(["x"], say(early, np.log([[0.2, 0.8], [0.9, 0.1]])))
    early.score(two(), ROW)
    early.learn("x", X[0], "b", 1.0, two())
    told(late, np.log([[0.2, 0.8], [0.9, 0.1]]), "b")
    now.learn("x", X[0], "b", 1.0, two())
    assert early.weights.tolist() == late.weights.tolist() != now.weights.tolist()


def test_a_record_that_nobody_remembers_is_judged_by_what_is_said_of_it_now():
    asked, unasked = blend_of("transitions", "linear"), blend_of("transitions", "linear")
    asked.cache_predictions(["x"], asked.score(two(), ROW))
    for blend in (asked, unasked):
        blend.learn("x", ROW[0], "b", 1.0, two())
    np.testing.assert_allclose(asked.weights, unasked.weights, rtol=1e-6)
    assert asked.weights.tolist() != blend_of("transitions", "linear").weights.tolist()


def test_a_row_that_was_overwritten_since_it_was_scored_is_judged_as_it_is_now():
    reused, fresh = blend_of("neighbours", "linear"), blend_of("neighbours", "linear")
    row = X[:1].copy()
    reused.score(two(), row)
    row[:] = X[1:2]
    for blend in (reused, fresh):
        blend.learn("x", row[0], "b", 1.0, two())
    assert reused.weights.tolist() == fresh.weights.tolist()
    assert reused.weights.tolist() != blend_of("neighbours", "linear").weights.tolist()


def test_no_expert_is_surer_than_it_may_be():
    sure = SketchLogitBoostClassifier(n_estimators=60, learning_rate=1.0, min_child_weight=0.0)
    committee = sure.train(X[:100], np.where(np.arange(100) < 50, "a", "b"), seed=1)
    assert committee.probabilities(committee.class_scores(X[:100])).min() < np.exp(-6)
    scored = blend_of("transitions").score(committee, X[:100])
    assert scored.experts.min() == -6.0


def test_classes_that_the_committee_does_not_know_get_their_share_of_the_newest_50_labels():
    blend = blend_of("transitions", labels="a" * 100 + "c" * 10 + "b" * 40)
    scored = blend.score(two(), X[:4])
    assert scored.classes.tolist() == ["a", "c", "b"]
    assert scored.known.tolist() == [True, False, True]
    np.testing.assert_allclose(np.exp(scored.experts[0, :, 1]), 11 / 53)
    np.testing.assert_allclose(np.exp(scored.experts[0]).sum(axis=1), 1)


def test_labels_that_nobody_could_know_teach_no_weights():
    blend = blend_of("transitions", "linear", labels="abc")
    start = blend.weights.copy()
    logs = np.log([[0.2, 0.7, 0.1]] * 3)
    told(blend, logs, "c")
    blend.cache_predictions(["x"], say(blend, logs))
    blend.learn("x", X[0], "never heard of", 1.0, two())
    blend.learn("before there is a committee", X[0], "a")
    assert blend.weights.tolist() == start.tolist()
    told(blend, np.log([[0.2, 0.7, 0.05, 0.05]] * 3), "b")
    assert blend.weights.tolist() != start.tolist()


def test_the_order_of_classes_is_that_of_learning_and_the_committees_others_follow():
    blend = blend_of("transitions", labels="ba")
    assert blend.score(committee_of("xab"), ROW).classes.tolist() == ["b", "a", "x"]
    blend.learn("", X[0], "y")
    assert blend.score(committee_of("xab"), ROW).classes.tolist() == ["b", "a", "y", "x"]


def test_the_edition_is_the_committee_s_whatever_the_experts_learn():
    blend = blend_of("transitions")
    assert blend.model_version(None) == 0
    start = blend.model_version(two())
    told(blend, np.log([[0.2, 0.8], [0.9, 0.1]]), "b")
    assert blend.model_version(two()) == start
    assert blend.scoring_model(two()) is two()


def test_a_committee_that_speaks_alone_has_an_edition_for_each_correction():
    blend = OnlineStacking(("committee",), PER_LABEL)
    blend.set_n_features(3)
    start = blend.model_version(two())
    blend.learn("x", X[0], "a", 1.0, two())
    assert blend.model_version(two()) == start + 1


@pytest.mark.parametrize("n", [1, 40])
def test_scoring_teaches_nothing(n):
    blend = blend_of("correction", "neighbours", "transitions", "linear", labels=Y[:50])
    before = blend.state()
    blend.score(committee_of(["low", "high"]), X[:n])
    after = blend.state()
    assert before[0] == after[0]
    assert before[1].keys() == after[1].keys()
    for name, array in before[1].items():
        np.testing.assert_array_equal(array, after[1][name], err_msg=name)
