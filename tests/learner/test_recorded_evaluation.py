"""Predictions of another system are evaluated, and the learner's own are compared with them."""

import numpy as np
import pytest

from streamboost import QueryConfig, SketchLogitBoostClassifier, StreamLearner
from streamboost.checks import labels_to_array
from streamboost.errors import DataError
from streamboost.predictions import Scored

CLASSES = labels_to_array(["down", "up"])


def recorded(y, rng, wrong=0.3, shape="map", missing=()):
    """Return predictions that are wrong with the probability `wrong`, or missing."""
    said = np.where(rng.random(len(y)) < wrong, np.where(y == "up", "down", "up"), y)
    labels = said.astype(object)
    P = np.where(said[:, None] == CLASSES, 1.0 - wrong, wrong)
    if shape == "label":
        P[:] = np.nan
    for i in missing:
        labels[i], P[i] = None, np.nan
    return Scored(labels, CLASSES, P, np.zeros(len(y)), 1)


def run(shape="map", n=2_000, missing=(), seed=0):
    """Run a learner; return it, both shares of right predictions, and the requested records.

    The last result is whether the recorded prediction of each record is right.
    """
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, "up", "down")
    X = (rng.standard_normal((n, 2)) + 2.5 * (y == "up")[:, None]).astype(np.float32)
    learner = StreamLearner(
        SketchLogitBoostClassifier(n_estimators=5), query=QueryConfig(budget=0.2), random_state=seed
    )
    right, asked_for, hits = np.zeros(2), [], np.zeros(n, dtype=bool)
    for start in range(0, n, 50):
        rows = np.arange(start, start + 50)
        ids = [str(i) for i in rows]
        own = learner.score_arrivals(X[rows])
        other = recorded(y[rows], rng, shape=shape, missing=missing)
        asked = learner.query(X[rows], own, ids, other)
        asked_for += [int(id) for id in asked.ids]
        hits[rows] = other.labels == y[rows]
        right += hits[rows].sum(), (own.labels == y[rows]).sum()
        taught = [int(id) for id in asked.ids]
        learner.learn(asked.ids, X[taught], y[taught], propensity=asked.propensity)
    return learner, right / n, asked_for, hits


@pytest.mark.parametrize("shape", ["map", "label"])
def test_recorded_predictions_and_the_own_ones_are_compared_in_pairs(shape):
    learner, (other, own), *_ = run(shape)
    report = learner.evaluation.since_start()
    accuracy, gain = report.committee.accuracy, report.gain_alone
    assert accuracy.low < other < accuracy.high
    assert report.committee_alone.accuracy.low < own < report.committee_alone.accuracy.high
    assert gain.low < own - other < gain.high
    assert gain.low > 0.0, "the own predictions are better"
    assert gain.value == pytest.approx(
        report.committee_alone.accuracy.value - accuracy.value, abs=1e-9
    )


def test_labels_alone_have_no_calibration():
    learner, *_ = run("label", n=500)
    restored = StreamLearner.restore(learner.snapshot())
    for report in (learner.evaluation.since_start(), restored.evaluation.recent()):
        assert report.log_loss is None
        assert report.reliability == ()
    whole = run("map", n=500)[0].evaluation.since_start()
    assert whole.log_loss is not None
    assert len(whole.reliability) == 10


@pytest.mark.parametrize("shape", ["map", "label"])
def test_missing_predictions_attract_no_requests_and_count_as_errors(shape):
    learner, (other, _), asked_for, _ = run(shape, missing=range(0, 50, 5))
    share = np.mean([i % 5 == 0 for i in asked_for])
    assert share < 0.05, "a fifth of the records"
    accuracy = learner.evaluation.since_start().committee.accuracy
    assert accuracy.low < other < accuracy.high


def test_own_predictions_alone_have_no_gain():
    rng = np.random.default_rng(0)
    learner = StreamLearner(experts="committee", query=QueryConfig(budget=1, audit=0))
    for start in range(0, 100, 20):
        X = rng.standard_normal((20, 2)).astype(np.float32)
        ids = [str(start + i) for i in range(20)]
        asked = learner.query(X, learner.score_arrivals(X), ids)
        learner.learn(ids, X, np.where(X[:, 0] > 0, "a", "b"), propensity=asked.propensity)
    assert learner.evaluation.since_start().gain_alone.value == 0.0


def test_labels_that_the_own_model_contradicts_attract_requests():
    _, _, asked_for, hits = run("label", n=3_000)
    asked = np.bincount(asked_for, minlength=3_000) > 0
    later = np.arange(3_000) >= 1_000
    assert asked[later & ~hits].mean() > 1.5 * asked[later & hits].mean()


def test_too_few_predictions_of_the_other_system_are_refused_and_change_nothing():
    learner, *_ = run(n=100)
    X, y = np.zeros((3, 2), dtype=np.float32), np.array(["up", "down", "up"])
    own = learner.score_arrivals(X)
    short = recorded(y[:2], np.random.default_rng(1))
    before = learner.ledger
    with pytest.raises(DataError, match="2 predictions for 3 records: give one each"):
        learner.query(X, own, ["a", "b", "c"], short)
    assert learner.ledger == before
