import json
from dataclasses import asdict

import numpy as np
import pytest

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.errors import ConfigurationError
from streamboost.evaluation.delayed_evaluator import DelayedEvaluator
from streamboost.learner import QueryConfig, Schedule, StreamLearner
from streamboost.predictions import Scored, remove_calibration
from streamboost.query.config import Requests

RNG = np.random.default_rng(51)
X = RNG.random((600, 3), dtype=np.float32)
Y = np.where(RNG.random(600) < 0.3, RNG.integers(0, 3, 600), (X[:, 0] * 3).astype(int))
IDS = [str(i) for i in range(len(X))]


def small(**settings):
    estimator = SketchLogitBoostClassifier(
        n_estimators=20, learning_rate=0.5, max_leaf_nodes=4, min_child_weight=0.01
    )
    query = QueryConfig(budget=0.5, audit=0.5)
    schedule = Schedule(growth=1.3, extend_every=None)
    return StreamLearner(
        estimator, schedule=schedule, query=query, **{"random_state": 3, **settings}
    )


def run(learner, start=0, stop=600, batch=20):
    """Feed records and the labels asked for; return what was scored, and the sets."""
    scored, sets = [], []
    for first in range(start, stop, batch):
        rows = slice(first, min(first + batch, stop))
        scored.append(learner.score(X[rows]))
        sets += learner.predict_set(X[rows])
        asked = learner.query(X[rows], scored[-1], IDS[rows])
        where = [int(id) for id in asked.ids]
        learner.learn(asked.ids, X[where], Y[where], propensity=asked.propensity)
    return scored, sets


def requests(ids, propensity):
    n = len(ids)
    return Requests(
        list(ids), np.ones(n), np.array(propensity), np.ones(n, bool), np.zeros(n, bool)
    )


def scored_as(P, classes=("a", "b")):
    P = np.array(P)
    classes = np.array(classes, dtype=object)
    return Scored(classes[P.argmax(axis=1)], classes, P, np.zeros(len(P)), 1)


def test_a_learner_judges_what_it_said_on_arrival():
    learner = small()
    scored, _ = run(learner)
    truth = np.mean(np.concatenate([one.labels for one in scored]) == Y)
    report = learner.evaluation.since_start()
    assert report.records == 600
    assert report.answered == learner.ledger.requests
    assert report.committee.accuracy.low < truth < report.committee.accuracy.high
    assert json.loads(json.dumps(asdict(report)))["records"] == 600


def test_temperatures_change_probabilities_and_nothing_else():
    alone = {"experts": "committee"}  # a blend is calibrated by its weights
    warm, plain = small(**alone), small(**alone, calibrate=False)
    for first, second in zip(run(warm)[0], run(plain)[0], strict=True):
        np.testing.assert_array_equal(first.labels, second.labels)
        np.testing.assert_array_equal(first.margins, second.margins)
        np.testing.assert_allclose(
            remove_calibration(first).probabilities, second.probabilities, atol=1e-9
        )
    assert warm.evaluator.temperature.value > 1.0
    assert plain.score(X[:1]).temperature == 1.0
    own = warm._stacking.score(warm.committee, X[:50]).probabilities.max(axis=1)
    assert (warm.score(X[:50]).probabilities.max(axis=1) < own).all()


def test_label_sets_cover_about_as_often_as_asked():
    _, sets = run(small(coverage=0.8))
    assert sets[:20] == [[None]] * 20  # while no label is known, it is one that nobody has named
    held = [label in labels for label, labels in zip(Y[20:], sets[20:], strict=True)]
    assert np.mean(held) == pytest.approx(0.8, abs=0.05)


def test_a_set_begins_with_the_predicted_label():
    learner = small()
    run(learner)
    labels = learner.score(X).labels
    firsts = [found[0] for found in learner.predict_set(X) if found]
    assert len(firsts) > 300
    assert firsts == [
        label for label, found in zip(labels, learner.predict_set(X), strict=True) if found
    ]


def test_a_restored_learner_goes_on_as_if_it_had_not_stopped():
    kept = small()
    run(kept, stop=300)
    kept.query(X[:20], kept.score(X[:20]), [f"open {i}" for i in range(20)])
    restored = StreamLearner.restore(kept.snapshot())
    for learner in (kept, restored):
        run(learner, start=300)
    assert kept.evaluation.since_start() == restored.evaluation.since_start()
    first, second = kept.snapshot(), restored.snapshot()
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)


def test_an_expired_request_teaches_nothing():
    judge = DelayedEvaluator(0, calibrate=True, coverage=0.9)
    judge.add_predictions(["1"], scored_as([[0.9, 0.1]]), requests(["1"], [1.0]))
    judge.expire_requests(["1"])
    judge.add_labels(["1"], ["a"])
    assert judge.temperature.value == 1.0
    assert judge.label_sets.level == 0.9
    assert judge.evaluation.unanswered == 1


def test_labels_the_committee_was_not_trained_on_are_in_sets_of_all_labels():
    judge = DelayedEvaluator(0, calibrate=True, coverage=0.9)
    scored = scored_as([[0.9, 0.1]])
    judge.add_labels(["x", "y"], ["new", "new"])
    assert judge.make_prediction_sets(scored) == [["a", "b", "new", None]]
    for _ in range(10):
        judge.add_labelled_records(scored, ["a"])
    assert judge.make_prediction_sets(scored)[0] in (["a"], [])


def settled(scored):
    """Return a judge to whom twenty labels have told what the level is to be."""
    judge = DelayedEvaluator(0, calibrate=True, coverage=0.9)
    judge.add_labels(["0", "0"], ["a", "a"])
    for _ in range(20):
        judge.add_labelled_records(scored, ["a"])
    return judge


def test_a_label_that_nobody_had_named_is_in_sets_while_labels_that_came_once_say_so():
    scored = scored_as([[0.6, 0.4]])
    judge = settled(scored)
    judge.add_labels(list("12345"), list("vwxyz"))
    assert judge.make_prediction_sets(scored) == [["a", None]]
    judge.add_labels(list("12345"), list("vwxyz"))
    assert judge.make_prediction_sets(scored) == [["a", "b"]]


def test_a_named_label_of_probability_0_and_one_that_nobody_named_are_told_apart():
    scored = scored_as([[0.9, 0.1]])
    named, unheard = settled(scored), settled(scored)
    named.add_labels(["x"], ["new"])
    for judge in (named, unheard):
        judge.add_labels(list("bcdefghijk"), list("bcdefghijk"))
        judge.add_predictions(["1"], scored, requests(["1"], [1.0]))
        assert judge.make_prediction_sets(scored) == [["a", None]]
        before = judge.label_sets.level
        judge.add_labels(["1"], ["new"])
        # The level falls after a set that held the label, and rises after one that did not.
        assert (judge.label_sets.level < before) == (judge is unheard)


def test_observed_labels_teach_as_those_of_requests_do():
    P = RNG.dirichlet([0.3, 0.3], size=100)
    labels = ["a" if p > 0.5 else "b" for p in RNG.random(100)]
    seen, asked = (DelayedEvaluator(0, calibrate=True, coverage=0.9) for _ in range(2))
    for i, label in enumerate(labels):
        seen.add_labelled_records(scored_as(P[i : i + 1]), [label])
        seen.add_labels(["x"], [label])
        asked.add_predictions(["x"], scored_as(P[i : i + 1]), requests(["x"], [1.0]))
        asked.add_labels(["x"], [label])
    assert seen.temperature.state() == asked.temperature.state()
    assert seen.label_sets.state() == asked.label_sets.state()
    assert seen.temperature.value > 1.0


def test_open_requests_are_bounded():
    judge = DelayedEvaluator(0, calibrate=True, coverage=0.9)
    judge.evaluation.patience = 50
    for i in range(200):
        judge.add_predictions([str(i)], scored_as([[0.9, 0.1]]), requests([str(i)], [1.0]))
    assert len(judge._pending) == 50


def test_a_coverage_that_is_no_share_is_refused():
    with pytest.raises(ConfigurationError, match="coverage"):
        small(coverage=2.0)
