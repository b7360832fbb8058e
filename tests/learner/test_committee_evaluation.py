"""The committee alone is evaluated next to the ensemble that has more experts."""

from dataclasses import replace

import numpy as np
import pytest

from streamboost import QueryConfig, SketchLogitBoostClassifier, StreamLearner
from streamboost.evaluation.evaluation import Evaluation
from streamboost.evaluation.sufficient_stats import UnlabelledSums
from streamboost.predictions import committee_predictions


def stream(n, seed=0):
    """Records of two columns, where each label is that of the record before, mostly."""
    rng = np.random.default_rng(seed)
    y = np.cumsum(rng.random(n) < 0.05) % 2
    X = rng.standard_normal((n, 2)) + 0.7 * y[:, None]
    return X.astype(np.float32), np.where(y == 1, "up", "down")


def learned(experts="all", n=1_500, restart_at=None):
    """Run a learner over a stream.

    Returns the learner, an evaluation that is fed with the predictions by the committee, and the
    share of right predictions by the committee alone and by the ensemble.
    """
    X, y = stream(n)
    learner = StreamLearner(
        SketchLogitBoostClassifier(n_estimators=5),
        query=QueryConfig(budget=0.3, audit=0.5),
        random_state=1,
        experts=experts,
    )
    by_hand, right = Evaluation(learner.evaluation.block), np.zeros(2)
    for start in range(0, n, 50):
        if start == restart_at:
            learner = StreamLearner.restore(learner.snapshot())
        batch = slice(start, start + 50)
        ids = [str(i) for i in range(n)[batch]]
        scored = learner.score_arrivals(X[batch])
        own = scored.labels
        if learner.committee is not None:
            own = committee_predictions(learner.committee, scored).labels
        asked = learner.query(X[batch], scored, ids)
        propensity = dict(zip(asked.ids, asked.propensity.tolist(), strict=True))
        chances = np.array([propensity.get(id, np.nan) for id in ids])
        by_hand.add_records(
            ids, replace(scored, labels=own), chances, asked.inclusion_probabilities
        )
        right += [(own == y[batch]).sum(), (scored.labels == y[batch]).sum()]
        rows = [int(id) for id in asked.ids]
        learner.learn(asked.ids, X[rows], y[rows], propensity=asked.propensity)
        by_hand.add_labels(asked.ids, y[rows])
    return learner, by_hand, right / n


def test_estimate_is_that_of_the_predictions_by_the_committee():
    learner, by_hand, (alone, together) = learned()
    report = learner.evaluation.since_start()
    found, expected = report.committee_alone.accuracy, by_hand.since_start().committee.accuracy
    assert found.value == pytest.approx(expected.value)
    assert found.low < alone < found.high
    assert found.high < together, "the ensemble predicts more than the committee does"
    assert report.committee.accuracy.value > found.value


def test_committee_without_other_experts_has_one_estimate():
    learner, _, (alone, together) = learned("committee")
    assert alone == together
    report = learner.evaluation.since_start()
    assert report.committee_alone.accuracy.value == report.committee.accuracy.value


def test_estimate_continues_after_a_restart():
    whole, restarted = (one[0].evaluation.recent() for one in (learned(), learned(restart_at=700)))
    assert restarted.committee_alone == whole.committee_alone


def test_estimate_is_missing_if_other_processes_score():
    learner, *_ = learned(n=300)
    X, y = stream(200, seed=2)
    asked = learner.query(X, learner.score(X), [str(i) for i in range(200)])
    rows = [int(id) for id in asked.ids]
    scored, unlabelled = learner.score(X[rows]), learner.score(X)
    other = StreamLearner(experts="all")
    sums = UnlabelledSums.from_scored(unlabelled, rows, 10)
    requests = replace(asked, inclusion_probabilities=asked.propensity)
    other.observe_scored(scored, requests, 200, sums)
    other.learn(asked.ids, X[rows], y[rows], propensity=asked.propensity)
    report = other.evaluation.since_start()
    assert report.committee.accuracy is not None
    assert report.committee_alone is None
