"""A learner compares its newer committees with an earlier one on the labels that it requests."""

from math import sqrt

import numpy as np
import pytest
from learner.small_learner import IDS, X, Y, assert_same, learn, small

from streamboost.learner import QueryConfig, StreamLearner
from streamboost.predictions import predict_labels

WRONG = ["low" if label != "low" else "high" for label in Y]
N = 600
STREAM = np.random.default_rng(8).random((N, 3), dtype=np.float32)
TRUTH = np.where(STREAM[:, 0] < 0.3, "low", np.where(STREAM[:, 1] < 0.5, "middle", "high")).tolist()


def stream(learner, start=0, stop=N):
    """Query the records of the stream, and learn the requested labels."""
    for at in range(start, stop, 20):
        rows, ids = STREAM[at : at + 20], [f"s{i}" for i in range(at, at + 20)]
        asked = learner.query(rows, learner.score(rows), ids)
        chosen = [int(id[1:]) for id in asked.ids]
        labels = [TRUTH[i] for i in chosen]
        learner.learn(asked.ids, STREAM[chosen], labels, propensity=asked.propensity)


def two_versions(first, second, **settings):
    """Return a paused learner with the second of two committees.

    Each is trained on the given number of labels, on wrong ones if the number is negative.
    """
    query = QueryConfig(budget=0.2)
    learner = small(**{"query": query} | settings)
    for n in (first, second):
        labels = np.array(Y if n > 0 else WRONG)[: abs(n)]
        learner.deploy(learner.estimator.train(X[: abs(n)], labels, seed=1))
    learner.trainer.pause_training()
    return learner


def accuracies(learner):
    shadow = learner.trainer.shadow
    _, baseline = shadow.state()
    return [
        float(np.mean(predict_labels(c, STREAM) == TRUTH)) for c in (learner.committee, baseline)
    ]


@pytest.mark.parametrize(("first", "second", "sign"), [(-40, 200, 1), (200, -40, -1)])
def test_version_that_is_truly_better_or_worse_is_found(first, second, sign):
    learner = two_versions(first, second)
    stream(learner)
    (found,) = learner.trainer.shadow.comparisons
    assert (found.baseline, found.first, found.last) == (1, 2, 2)
    assert found.n_labels == learner.ledger.answered > 80
    new, old = accuracies(learner)
    assert found.difference.low < new - old < found.difference.high
    assert found.n_missing_labels == 0
    assert found.difference.value * sign > 0.0


@pytest.mark.slow
def test_difference_is_unbiased_over_seeds_although_hard_records_are_requested():
    found = []
    for seed in range(100, 140):
        learner = two_versions(20, 200, random_state=seed)
        new, old = accuracies(learner)
        stream(learner)
        found.append(learner.trainer.shadow.comparisons[-1].difference.value - (new - old))
    error = np.std(found) / sqrt(len(found))
    assert error < 0.02
    assert abs(np.mean(found)) < 3.0 * error


def test_restored_learner_continues_the_comparison_with_equal_bits():
    learner = small(query=QueryConfig(budget=0.3))
    stream(learner, 0, 300)
    restored = StreamLearner.restore(learner.snapshot())
    for one in (learner, restored):
        stream(one, 300)
    assert learner.trainer.shadow.comparisons[-1].n_labels > 0
    assert_same(learner.snapshot(), restored.snapshot())


def test_next_version_after_a_decision_starts_another_comparison_with_the_replaced_one():
    learner = two_versions(-40, 200)
    stream(learner)
    learner.trainer.resume_training()  # which starts a training that is due
    decided, current = learner.trainer.shadow.comparisons
    assert decided.is_finished
    assert current.baseline == decided.last == 2
    assert (current.first, current.last, current.n_labels) == (3, 3, 0)
    learner.trainer.retrain()
    assert learner.trainer.shadow.comparisons == [decided, current], "this one is not decided"
    assert (current.first, current.last) == (3, 4)


def test_rollback_starts_another_comparison():
    learner = two_versions(-40, 200)
    old = learner.committee
    learner.deploy(old)
    assert [(one.baseline, one.first) for one in learner.trainer.shadow.comparisons] == [
        (1, 2),
        (2, 3),
    ]


def test_first_version_has_nothing_to_be_compared_with():
    learner = small(query=QueryConfig(budget=0.3))
    learn(learner, 0, 1)
    assert learner.trainer.shadow.comparisons == []


def test_only_the_first_requested_label_of_a_record_is_compared():
    learner = two_versions(-40, 200)
    asked = learner.query(X[:200], learner.score(X[:200]), IDS[:200])
    chosen = [int(id) for id in asked.ids]
    (found,) = learner.trainer.shadow.comparisons
    for _ in range(2):
        labels = [Y[i] for i in chosen]
        learner.learn(asked.ids, X[chosen], labels, propensity=asked.propensity)
        assert found.n_labels == len(chosen)
    learner.correct(asked.ids, [WRONG[i] for i in chosen])
    unsolicited = [i for i in range(200) if i not in chosen][:5]
    learner.learn([IDS[i] for i in unsolicited], X[unsolicited], [Y[i] for i in unsolicited])
    assert found.n_labels == len(chosen)


def test_merged_classes_of_the_baseline_are_right_under_their_current_name():
    learner = two_versions(200, 250)
    learner.rename_class("middle", "high")
    merged = np.where(np.array(Y) == "middle", "high", Y)
    learner.deploy(learner.estimator.train(X, merged, seed=1))
    asked = learner.query(X, learner.score(X), IDS)
    chosen = [int(id) for id in asked.ids]
    learner.learn(asked.ids, X[chosen], merged[chosen], propensity=asked.propensity)
    found = learner.trainer.shadow.comparisons[-1]
    assert (found.baseline, found.n_labels) == (2, len(chosen))
    assert abs(found.difference.value) < 0.1, "a third of the records are of the merged class"
