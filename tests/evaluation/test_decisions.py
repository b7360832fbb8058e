"""Cost-sensitive decisions and the estimate of their cost."""

import numpy as np
import pytest

from streamboost.adapters.river import StreamBoostClassifier
from streamboost.errors import ConfigurationError
from streamboost.learner import Decisions, Evaluation, Scored, StreamLearner
from streamboost.query.config import QueryConfig
from tests.learner.small_learner import IDS, X, assert_same, learn, small

FRAUD = {"fraud": {"ok": 10}}


def scored(P, classes=("ok", "fraud")):
    P, classes = np.atleast_2d(P).astype(float), np.array(classes, dtype=object)
    return Scored(classes[P.argmax(axis=1)], classes, P, np.zeros(len(P)), 1)


def test_the_decision_costs_least_in_expectation():
    rng = np.random.default_rng(1)
    P, classes = rng.dirichlet(np.ones(4), size=500), ["a", "b", "c", "d"]
    C = rng.integers(0, 9, size=(4, 4)) * (1 - np.eye(4))
    costs = {j: dict(zip(classes, row, strict=True)) for j, row in zip(classes, C, strict=True)}
    decided = Decisions(costs).decide_classes(scored(P, classes))
    least = (P @ C).min(axis=1)
    paid = [(P[i] @ C)[classes.index(k)] for i, k in enumerate(decided)]
    assert np.allclose(paid, least)


def test_what_is_not_named_costs_one():
    assert Decisions(FRAUD).cost_matrix(["ok", "fraud"]).tolist() == [[0, 1], [10, 0]]


@pytest.mark.parametrize(
    ("P", "decided"),
    [([0.95, 0.05], "ok"), ([0.2, 0.8], "ok"), ([0.1, 0.9], "fraud"), ([0.0, 1.0], "fraud")],
)
def test_a_threshold_is_how_sure_to_be(P, decided):
    assert Decisions(threshold={"fraud": 0.9}).decide_classes(scored(P)).tolist() == [decided]


def test_of_no_class_that_is_sure_enough_nothing_is_decided():
    both = Decisions(threshold={"ok": 0.9, "fraud": 0.8})
    assert both.decide_classes(scored([[0.5, 0.5], [0.1, 0.9]])).tolist() == [None, "fraud"]


def test_nothing_is_decided_before_a_class_is_known():
    nothing = Scored(np.array([None]), np.array([], dtype=object), np.zeros((1, 0)), np.zeros(1), 0)
    assert Decisions(FRAUD).decide_classes(nothing).tolist() == [None]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "neither are given"),
        ({"costs": FRAUD, "threshold": {"ok": 0.5}}, "both are given"),
        ({"costs": {"fraud": 10}}, r"costs\.fraud is 10: name the classes"),
        ({"costs": {"fraud": {"ok": -1}}}, r"costs\.fraud\.ok is -1: costs are not negative"),
        ({"costs": {"fraud": {"ok": np.inf}}}, "give a finite number"),
        ({"costs": {"fraud": {"ok": 10**400}}}, "give a finite number"),
        ({"costs": {"fraud": {"ok": "10"}}}, "give a finite number"),
        ({"costs": {"fraud": {"fraud": 1}}}, "the right decision costs nothing"),
        ({"threshold": {"ok": 0}}, r"threshold\.ok is 0: give a probability"),
        ({"threshold": {"ok": 1.5}}, "above 0 and at most 1"),
    ],
)
def test_what_nothing_can_be_decided_by_is_refused(given, said):
    with pytest.raises(ConfigurationError, match=said):
        Decisions(**given)


def stream(rng, n=3_000, wrong=0.8):
    """Return probabilities that are off by a factor in their logits, and the classes (n,)."""
    logits = rng.normal(-1.5, 1.5, size=n)
    truth = (rng.random(n) < 1.0 / (1.0 + np.exp(-logits))).astype(int)
    fraud = 1.0 / (1.0 + np.exp(-logits / wrong))
    return np.column_stack([1.0 - fraud, fraud]), truth


def estimated(rng, decisions, share=0.1):
    """Return the estimated cost of decisions about a stream, and what they did cost."""
    P, truth = stream(rng)
    classes = np.array(["ok", "fraud"], dtype=object)
    evaluation = Evaluation(block=round(1 / share))
    evaluation.decision_rule = decisions
    asked = rng.random(len(P)) < share
    ids = [str(i) for i in range(len(P))]
    evaluation.add_records(ids, scored(P), np.where(asked, share, np.nan))
    evaluation.add_labels([ids[i] for i in np.flatnonzero(asked)], classes[truth[asked]])
    C = decisions.cost_matrix(["ok", "fraud"])
    paid = C[truth, decisions.decided_class_indices(P, ["ok", "fraud"])]
    return evaluation.since_start().cost, paid.mean()


@pytest.mark.slow
def test_the_interval_of_the_cost_holds_the_truth():
    rng, decisions, held = np.random.default_rng(7), Decisions(FRAUD), 0
    for _ in range(200):
        cost, truth = estimated(rng, decisions)
        held += cost.low <= truth <= cost.high
    assert held >= 184, "92 % of them"


def test_where_every_label_is_known_the_cost_is_what_was_paid():
    cost, truth = estimated(np.random.default_rng(3), Decisions(FRAUD), share=1.0)
    assert cost.value == pytest.approx(truth)
    assert cost.low == pytest.approx(cost.high)


@pytest.mark.slow
def test_decisions_cost_less_than_labels_where_one_error_costs_ten_times_another():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(4_000, 4))
    fraud = rng.random(4_000) < 1.0 / (1.0 + np.exp(2.0 - 1.5 * rows[:, 0] - rows[:, 1]))
    truth = np.where(fraud, "fraud", "ok")
    learner = StreamLearner(
        query=QueryConfig(budget=0.2), random_state=1, decisions=Decisions(FRAUD)
    )
    C, paid = Decisions(FRAUD).cost_matrix(["ok", "fraud"]), {"label": 0.0, "decision": 0.0}
    code = {"ok": 0, "fraud": 1}
    for start in range(0, 4_000, 50):
        ids = [str(i) for i in range(start, start + 50)]
        found = learner.score(rows[start : start + 50])
        if start >= 1_000:
            for what, said in (
                ("label", found.labels),
                ("decision", learner.decide_classes(found)),
            ):
                pairs = zip(truth[start : start + 50], said, strict=True)
                paid[what] += sum(C[code[j], code[k]] for j, k in pairs)
        asked = learner.query(rows[start : start + 50], found, ids)
        places = [int(id) for id in asked.ids]
        learner.learn(asked.ids, rows[places], truth[places], propensity=asked.propensity)
    assert paid["decision"] < 0.8 * paid["label"]
    cost = learner.evaluation.since_start().cost
    assert cost.low < cost.value < cost.high


def test_a_corrected_label_corrects_the_cost():
    evaluation = Evaluation(window=20)
    evaluation.decision_rule = Decisions(FRAUD)
    ids = [str(i) for i in range(20)]
    evaluation.add_records(ids, scored(np.tile([0.99, 0.01], (20, 1))), np.ones(20))
    evaluation.add_labels(ids, ["ok"] * 20)
    assert evaluation.since_start().cost.value == 0.0
    evaluation.correct_label("3", "ok", "fraud")
    assert evaluation.since_start().cost.value == pytest.approx(10 / 20)


def test_other_costs_begin_anew():
    evaluation = Evaluation(window=10)
    evaluation.decision_rule = Decisions(FRAUD)
    ids = [str(i) for i in range(20)]
    evaluation.add_records(ids, scored(np.tile([0.99, 0.01], (20, 1))), np.ones(20))
    evaluation.add_labels(ids, ["fraud"] * 20)
    assert evaluation.since_start().cost.value == pytest.approx(10)
    evaluation.decision_rule = Decisions({"fraud": {"ok": 2}})
    assert evaluation.since_start().cost is None, "all records are part of the sums"
    evaluation.correct_label("3", "fraud", "ok")
    assert evaluation.since_start().cost is None
    evaluation.add_records(["x"], scored([0.99, 0.01]), np.ones(1))
    evaluation.add_labels(["x"], ["fraud"])
    assert evaluation.since_start().cost.value == pytest.approx(2)
    assert evaluation.since_start().records == 21


def test_a_restored_learner_decides_and_estimates_as_before():
    learner = small(query=QueryConfig(budget=0.5), decisions=Decisions({"low": {"high": 5}}))
    learn(learner, 0, 60)
    found = learner.score(X[60:160])
    asked = learner.query(X[60:160], found, IDS[60:160])
    learn(learner, 60, 160, propensity=[0.5 if id in asked.ids else np.nan for id in IDS[60:160]])
    other = StreamLearner.restore(learner.snapshot())
    assert other.decisions == learner.decisions
    assert_same(other.snapshot(), learner.snapshot())
    more = learner.score(X[160:])
    assert other.decide_classes(more).tolist() == learner.decide_classes(more).tolist()
    assert other.evaluation.since_start().cost == learner.evaluation.since_start().cost


def test_a_river_model_decides_by_costs():
    model = StreamBoostClassifier(seed=1, decisions=Decisions({True: {False: 10}}))
    rng = np.random.default_rng(2)
    for a, b in rng.random((200, 2)):
        model.learn_one({"a": a, "b": b}, bool(a + rng.normal(scale=0.3) > 0.7))
    records = [{"a": a, "b": 0.5} for a in np.linspace(0, 1, 21)]
    labels = [model.predict_one(x) for x in records]
    decided = [model.decide_one(x) for x in records]
    assert sum(decided) > sum(labels)
    for x, decision in zip(records, decided, strict=True):
        sure = model.predict_proba_one(x)[True]
        assert decision == (10 * sure > 1 - sure)


def test_a_river_model_without_decisions_says_how_to_have_some():
    with pytest.raises(ConfigurationError, match="Decisions"):
        StreamBoostClassifier().decide_one({"a": 1})


def test_before_the_first_label_nothing_is_paid_and_figures_can_be_asked_for():
    assert Decisions(costs={"a": {"b": 10}}).decision_cost(np.empty((3, 0)), []).shape == (3, 0)
