"""Predictions, queries and trainings of a learner."""

import tracemalloc

import numpy as np
import pytest
from learner.small_learner import IDS, X, Y, assert_same, learn, small

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.boosting.reweighting.gamble import GambleClassifier
from streamboost.errors import ConfigurationError, DataError
from streamboost.learner import QueryConfig, Schedule, StreamLearner, WorkingSet
from streamboost.predictions import score_with_committee


def test_a_class_is_predicted_from_its_first_label_on():
    learner = small()
    assert learner.score(X[:1]).labels.tolist() == [None]
    learn(learner, 0, 1)
    assert learner.score(X[:2]).labels.tolist() == [Y[0], Y[0]]


def test_predicting_gives_the_labels_of_scoring():
    learner = small()
    for stop in (0, 1, 40):
        learn(learner, learner.n_labels, stop)
        assert learner.predict(X).tolist() == learner.score(X).labels.tolist()


def test_the_first_committee_is_trained_as_soon_as_two_classes_have_a_label():
    learner = small()
    first = next(i for i, label in enumerate(Y) if label != Y[0])
    trainings = learn(learner, 0, first + 3)
    assert trainings[0].kind == "first"
    assert trainings[0].labels == first + 1
    assert [t.version for t in trainings] == [1, 2, 3]
    assert learner.committee.version == 3


def test_trainings_do_not_depend_on_how_labels_are_cut_into_batches():
    whole, parts = small(), small()
    trainings = learn(whole, 0, 60)
    cut = [t for a, b in [(0, 1), (1, 30), (30, 30), (30, 60)] for t in learn(parts, a, b)]
    assert tuple(cut) == trainings
    assert_same(whole.snapshot(), parts.snapshot())


def test_every_training_has_its_own_seed_and_the_same_run_the_same_seeds():
    first, second, other = small(), small(), small(random_state=4)
    seeds = [t.seed for t in learn(first, 0, 40)]
    assert len(set(seeds)) == len(seeds)
    assert seeds == [t.seed for t in learn(second, 0, 40)]
    assert seeds[0] != learn(other, 0, 40)[0].seed


def test_asking_leaves_the_seeds_of_trainings_alone():
    asking, silent = small(), small()
    asking.query(X, asking.score(X), IDS)
    assert learn(asking, 0, 40) == learn(silent, 0, 40)


def test_a_committee_is_trained_on_exactly_the_rows_up_to_its_label():
    learner = small()
    last = learn(learner, 0, 50)[-1]
    expected = learner.estimator.train(X[: last.labels], np.array(Y[: last.labels]), seed=last.seed)
    np.testing.assert_array_equal(learner.committee.class_scores(X), expected.class_scores(X))


def test_weights_reach_the_training():
    working_set = WorkingSet(size=20, weights="half_life", half_life=4)
    learner = small(working_set=working_set, schedule=Schedule(growth=1.01, extend_every=None))
    last = learn(learner, 0, 50)[-1]
    expected = learner.estimator.train(
        X[30:50], np.array(Y[30:50]), working_set.training_weights(20), seed=last.seed
    )
    assert last.labels == 50
    np.testing.assert_array_equal(learner.committee.class_scores(X), expected.class_scores(X))


def test_extensions_add_rounds_to_the_committee():
    learner = small(schedule=Schedule(growth=50, extend_every=5, extend_estimators=3))
    learn(learner, 0, 30)
    rounds = learner.committee.n_rounds
    (training,) = learn(learner, 30, 35)
    assert training.kind == "extend"
    assert learner.committee.n_rounds == rounds + 3


def test_extensions_do_not_put_retraining_off():
    learner = small(schedule=Schedule(growth=2, extend_every=3, retrain_every=10))
    learner.learn(IDS[:28], X[:28], ["a", "b"] * 14)
    done = learner.learn(IDS[28:60], X[28:60], ["a", "b"] * 16)
    assert [t.labels for t in done if t.kind == "retrain"] == [36, 46, 56]
    assert [t.labels for t in done if t.kind == "extend"] == [
        29,
        32,
        35,
        39,
        42,
        45,
        49,
        52,
        55,
        59,
    ]


@pytest.mark.parametrize("estimator", [SketchLogitBoostClassifier, GambleClassifier])
def test_a_class_never_seen_joins_at_the_next_training_even_an_extension(estimator):
    schedule = Schedule(growth=50, extend_every=5, extend_estimators=3)
    learner = small(estimator=estimator(n_estimators=8), schedule=schedule)
    learn(learner, 0, 30)
    labels = ["brand new", *Y[31:35]]
    (training,) = learner.learn(IDS[30:35], X[30:35], labels)
    assert training.kind == "retrain"
    assert "brand new" in learner.committee.classes


def test_a_working_set_of_one_class_keeps_the_committee_there_is():
    learner = small(working_set=WorkingSet(size=4))
    learner.learn(IDS[:2], X[:2], ["a", "b"])
    assert learner.committee.version == 1
    learner.learn(IDS[2:12], X[2:12], ["b"] * 10)
    assert set(learner.committee.classes) == {"a", "b"}
    assert learner.n_labels == 12


def test_rows_whose_weight_vanishes_do_not_count_as_a_second_class():
    learner = small(working_set=WorkingSet(weights="half_life", half_life=0.01))
    learner.learn(IDS[:40], X[:40], ["a"] * 20 + ["b"] * 20)
    assert set(learner.committee.classes) == {"a", "b"}
    assert len(learner.query(X, learner.score(X), IDS)) > 0


def test_labels_that_differ_in_trailing_nuls_are_two_classes_also_after_a_restore():
    learner = small()
    labels = ["a" if x < 0.5 else "a\0" for x in X[:60, 0]]
    learner.learn(IDS[:60], X[:60], labels)
    restored = StreamLearner.restore(learner.snapshot())
    assert set(restored.committee.classes) == {"a", "a\0"}
    assert {*restored.score(X).labels} == {"a", "a\0"}


def test_a_long_label_costs_its_own_length_only():
    learner = small()
    labels = ["x" * 900_000, *Y[1:60]]
    tracemalloc.start()
    learner.learn(IDS[:60], X[:60], labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert learner.classes[0] == labels[0]
    assert peak < 20e6


def test_whole_number_labels_come_back_as_whole_numbers():
    learner = small()
    learner.learn(IDS[:20], X[:20], np.arange(20) % 3 - 1)
    assert {type(label) for label in learner.score(X).labels} == {int}
    assert learner.classes == [-1, 0, 1]


def test_records_are_ranked_by_the_committee_that_serves_now():
    """Scores taken before a training are not compared with margins taken after it."""
    learner = small(query=QueryConfig(budget=0.3, selection="quantile_filter"))
    learn(learner, 0, 40)
    stale = learner.score(X[:50])
    learn(learner, 40, 45)
    restored = StreamLearner.restore(learner.snapshot())
    fresh = restored.score(X[:50])
    assert stale.version != fresh.version
    first = learner.query(X[:50], stale, IDS[:50])
    second = restored.query(X[:50], fresh, IDS[:50])
    assert first.ids == second.ids
    np.testing.assert_array_equal(first.utility, second.utility)


def test_the_cold_start_lasts_until_there_are_two_labels_per_class():
    def usefulness_of_requests(n_labels):
        """The mean rank, from 0 to 1, of the requested records among all by utility."""
        learner = small(query=QueryConfig(budget=0.2, audit=0.0))
        learn(learner, 0, n_labels)
        scored = learner.score(X)
        utility = 1 / (1 + score_with_committee(learner.committee, X).margins)
        asked = learner.query(X, scored, IDS).utility[:, None]
        return np.mean((utility < asked) + 0.5 * (utility == asked))

    assert len(set(Y[:5])) == 3
    assert usefulness_of_requests(5) < 0.55
    assert usefulness_of_requests(6) > 0.6


def test_the_ledger_counts_what_was_asked_answered_and_given_up():
    learner = small(query=QueryConfig(budget=0.2))
    requests = learner.query(X[:100], learner.score(X[:100]), IDS[:100])
    n = len(requests)
    chances = [requests.propensity[0], np.nan]
    learner.learn([requests.ids[0], "unasked"], X[:2], Y[:2], propensity=chances)
    learner.expire_requests(requests.ids[1:3])
    ledger = learner.ledger
    assert (ledger.records, ledger.requests, ledger.answered, ledger.expired) == (100, n, 1, 2)
    assert ledger.pending == n - 3
    assert ledger.audits == requests.audit.sum()


def test_only_what_was_asked_for_is_answered_or_given_up_and_once():
    learner = small(query=QueryConfig(budget=0.2))
    requests = learner.query(X[:100], learner.score(X[:100]), IDS[:100])
    first, second = requests.ids[:2]
    for _ in range(2):
        learner.expire_requests([first, "never asked for"])
        learner.learn([first, second], X[:2], Y[:2], propensity=[0.2, 0.2])
    ledger = learner.ledger
    assert (ledger.answered, ledger.expired) == (1, 1)
    assert ledger.pending == len(requests) - 2


@pytest.mark.parametrize("seed", [-1, 0.5, None, "7"])
def test_a_seed_that_is_none_is_refused_by_name(seed):
    with pytest.raises(ConfigurationError, match=r"random_state is .*: give a whole number"):
        StreamLearner(random_state=seed)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"ids": IDS[:3]}, "3 ids"),
        ({"y": Y[:5]}, "5 labels"),
        ({"y": [*Y[:3], 7]}, "one kind"),
        ({"X": np.full((4, 3), np.inf)}, "infinite"),
        ({"X": np.ones((4, 2))}, "2 features"),
        ({"propensity": [0.5, 0.5, 0.5, 2.0]}, "propensity"),
        ({"tick": 0.5}, "tick"),
    ],
)
def test_nothing_is_learned_from_a_batch_with_anything_wrong(wrong, words):
    learner = small(n_features=3)
    learn(learner, 0, 10)
    before = learner.snapshot()
    with pytest.raises(DataError, match=words):
        learner.learn(**{"ids": IDS[10:14], "X": X[10:14], "y": Y[10:14], **wrong})
    assert_same(learner.snapshot(), before)


def test_predictions_of_another_batch_are_refused():
    learner = small()
    with pytest.raises(DataError, match="3 predictions for 4"):
        learner.query(X[:4], learner.score(X[:3]), IDS[:4])


def test_an_empty_batch_changes_nothing():
    learner = small(n_features=3)
    before = learner.snapshot()
    assert learner.learn([], X[:0], []) == ()
    assert len(learner.query(X[:0], learner.score(X[:0]), [])) == 0
    assert_same(learner.snapshot(), before)


@pytest.mark.parametrize(
    ("selection", "burst"), [("quantile_filter", 1), ("quantile_filter", 20), ("probability", 3)]
)
@pytest.mark.parametrize("strategy", ["random", "margin"])
def test_the_whole_budget_asks_for_every_record(strategy, selection, burst):
    query = QueryConfig(strategy=strategy, budget=1, audit=0, selection=selection, burst=burst)
    learner = small(query=query)
    for start in range(0, 300, 50):
        rows, ids = X[start : start + 50], IDS[start : start + 50]
        requests = learner.query(rows, learner.score(rows), ids)
        assert requests.ids == ids
        assert (requests.propensity == 1).all()
        learn(learner, start, start + 10)


def test_a_committee_of_more_columns_is_refused():
    wide = small().estimator.train(np.ones((4, 9), dtype=np.float32), np.arange(4) % 2, seed=0)
    learner = small(n_features=3)
    with pytest.raises(DataError, match="9 features"):
        learner.deploy(wide)


def test_columns_may_join_and_the_next_training_uses_them():
    learner = small(schedule=Schedule(growth=50, extend_every=5))
    learn(learner, 0, 20)
    learner.widen_rows(4)
    wider = np.hstack([X, np.arange(300, dtype=np.float32)[:, None] % 2])
    labels = ["odd" if i % 2 else "even" for i in range(20, 80)]
    assert learner.score(wider[:2]).version == learner.committee.version
    trainings = learner.learn(IDS[20:80], wider[20:80], labels)
    assert trainings[0].kind == "retrain"
    assert learner.committee.n_features == 4
    with pytest.raises(DataError, match="may join but not leave"):
        learner.widen_rows(3)
