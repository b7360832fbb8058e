"""Queries of a learner: utilities, and the records they are computed from."""

import numpy as np
import pytest

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.learner import QueryConfig, Schedule, StreamLearner
from streamboost.predictions import score_with_committee, utility_inputs
from streamboost.query.strategies import UTILITIES

RNG = np.random.default_rng(1)
X = RNG.random((400, 2), dtype=np.float32)
Y = np.where(X[:, 0] < X[:, 1], "above", "below")
DISTANCE = np.abs(X[:, 0] - X[:, 1])  # to where the classes meet
IDS = [str(i) for i in range(len(X))]


def small():
    return SketchLogitBoostClassifier(n_estimators=20, max_leaf_nodes=6, min_child_weight=0.02)


def taught(n=80, **settings):
    query = QueryConfig(**settings)
    learner = StreamLearner(small(), query=query, n_features=2, random_state=3, experts="committee")
    learner.learn([f"known {i}" for i in range(n)], X[:n], Y[:n])
    return learner


def ask(learner, rows):
    return learner.query(X[rows], learner.score(X[rows]), [IDS[i] for i in rows])


@pytest.mark.parametrize("strategy", ["margin", "entropy", "least_confident"])
def test_every_doubt_of_the_scores_asks_where_the_classes_meet(strategy):
    learner = taught(strategy=strategy, budget=0.2, audit=0.0)
    asked = [int(i) for i in ask(learner, range(80, 400)).ids]
    assert len(asked) > 40
    assert np.median(DISTANCE[asked]) < np.median(DISTANCE) / 2


def test_the_stages_votes_differ_where_the_classes_meet():
    votes = utility_inputs("votes", taught().committee, X)
    doubt = UTILITIES["vote_entropy"].measure(votes)
    assert np.median(DISTANCE[doubt > 0.8]) < 0.75 * np.median(DISTANCE[doubt < 0.2])


@pytest.mark.parametrize("strategy", UTILITIES)
def test_a_requests_utility_is_that_of_the_committee_that_asks(strategy):
    learner = taught(strategy=strategy, budget=1.0, audit=0.0)
    requests = ask(learner, range(30, 60))
    rows = [int(i) for i in requests.ids]
    needs = learner.query_config.required_input
    expected = learner.query_config.compute_utility(
        utility_inputs(needs, learner.committee, X[rows])
    )
    np.testing.assert_array_equal(requests.utility, expected)


def test_a_stages_vote_is_the_class_it_would_predict():
    committee = small().train(X[:60], Y[:60], seed=1)
    votes = utility_inputs("votes", committee, X[:40])
    expected = np.zeros((40, 2))
    for scores in committee.staged_scores(X[:40]):
        for row, winner in enumerate(scores.argmax(axis=1)):
            expected[row, winner] += 1 / 20
    np.testing.assert_allclose(votes, expected)


def test_evidence_is_taken_from_scores_where_they_are_given():
    committee = small().train(X[:60], Y[:60], seed=1)
    scored = score_with_committee(committee, X[:9])
    assert utility_inputs("margins", committee, X[:9], scored) is scored.margins
    assert utility_inputs("probabilities", committee, X[:9], scored) is scored.probabilities


@pytest.mark.parametrize("mode", ["stream", "pool"])
def test_what_is_kept_is_rated_anew_where_a_label_corrected_the_committee(mode):
    strategy = QueryConfig(mode=mode, budget=0.1, audit=0.0, window=50)
    schedule = Schedule.per_label(growth=50)
    learner = StreamLearner(
        small(), query=strategy, schedule=schedule, random_state=3, experts="committee"
    )
    learner.learn(IDS[:60], X[:60], Y[:60])
    ask(learner, range(100, 150))
    learner.learn(["more"], X[60:61], Y[60:61])
    ask(learner, range(150, 151))
    expected = strategy.compute_utility(learner.score(X[101:151]).margins)
    np.testing.assert_array_equal(learner.snapshot()["window.utility"], expected)


FEW = [int(np.flatnonzero(Y == "above")[0]), *np.flatnonzero(Y == "below")[:2].tolist()]


def first_requests(budget, utility, *, waiting=False):
    """Return whom a learner with three labels of two classes asks for."""
    strategy = QueryConfig(budget=budget, audit=0.0, strategy=utility)
    learner = StreamLearner(small(), query=strategy, random_state=3)
    if waiting:
        assert len(ask(learner, range(30, 100))) > 1
    learner.learn(["a", "b", "c"], X[FEW], Y[FEW])
    assert learner.committee is not None
    return ask(learner, range(100, 400)).ids


def test_from_5_percent_on_two_labels_per_class_are_asked_for_at_random():
    assert first_requests(0.05, "margin") == first_requests(0.05, "random")


def test_labels_on_their_way_count_towards_these():
    at_random = first_requests(0.05, "random", waiting=True)
    assert first_requests(0.05, "margin", waiting=True) != at_random


def test_smaller_budgets_ask_by_rank_from_the_first_committee_on():
    assert first_requests(0.04, "margin") != first_requests(0.04, "random")


def test_a_standing_pool_is_worked_through_in_rounds():
    """Algorithm 4 of Huang (2009): train, ask for the best of what is left, train."""
    learner = StreamLearner(
        small(),
        query=QueryConfig(
            mode="pool", window=300, query_batch_size=5, budget=0.5, burst=60, audit=0.0
        ),
        random_state=3,
    )
    asked = ask(learner, range(300))
    rounds = []
    while len(asked):
        rounds.append(asked)
        rows = [int(i) for i in asked.ids]
        learner.learn(asked.ids, X[rows], Y[rows], propensity=asked.propensity)
        asked = learner.query_pool(5)
    ids = [i for one in rounds for i in one.ids]
    assert len(set(ids)) == len(ids) == 60
    assert learner.ledger.records == 300
    late = [int(i) for i in ids[20:]]
    assert np.median(DISTANCE[late]) < np.median(DISTANCE) / 2
    assert (learner.predict(X[300:]) == Y[300:]).mean() > 0.9


@pytest.mark.parametrize(
    "settings", [{"mode": "pool", "window": 40}, {"selection": "variable_uncertainty"}, {}]
)
def test_a_restored_learner_asks_as_if_never_stopped(settings):
    learner = taught(budget=0.3, **settings)
    ask(learner, range(30, 130))
    twin = StreamLearner.restore(learner.snapshot())
    for one in (learner, twin):
        one.learn(["more"], X[:1], Y[:1])
    here, there = ask(learner, range(130, 400)), ask(twin, range(130, 400))
    assert here.ids == there.ids
    np.testing.assert_array_equal(here.propensity, there.propensity)
    if learner.query_config.mode == "pool":
        assert learner.query_pool(3).ids == twin.query_pool(3).ids
