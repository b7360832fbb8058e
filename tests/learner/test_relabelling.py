"""Label quality: reliability of annotators, and relabel requests for labels that look wrong."""

import numpy as np
import pytest
from learner.small_learner import IDS, X, Y, assert_same, small

from streamboost.errors import ConfigurationError
from streamboost.learner import QueryConfig, StreamLearner, WorkingSet
from streamboost.learner.annotators import MOST_SOURCES, AnnotatorStatistics
from streamboost.learner.label_quality import LabelQuality
from streamboost.learner.labelled_rows import AnnotatedRow, LabelledRows

PEOPLE = ("ann", "bob", "cid", "dan", "eve")
POOR = ("dan", "eve")


def answer(rng, i, excluded_annotators=()):
    """Return who answers about record `i`, and what; two of five are wrong half the time."""
    who = rng.choice([name for name in PEOPLE if name not in excluded_annotators])
    is_right = who not in POOR or rng.random() < 0.5
    others = [label for label in ("low", "middle", "high") if label != Y[i]]
    return str(who), Y[i] if is_right else str(rng.choice(others))


def streamed(n=300, batch=10, restored=False, **query):
    """Return a learner that streamed records, and what it asked for again."""
    rng = np.random.default_rng(5)
    learner = small(query=QueryConfig(**{"budget": 0.5, "relabel": 0.2, **query}))
    again, spent = [], []
    for start in range(0, n, batch):
        where = slice(start, start + batch)
        if restored:
            learner = StreamLearner.restore(learner.snapshot())
        asked = learner.query(X[where], learner.score(X[where]), IDS[where])
        more = learner.query_relabels()
        spent.append((learner.ledger.records, learner.ledger.requests))
        for id, chance in zip(asked.ids, asked.propensity.tolist(), strict=True):
            who, label = answer(rng, int(id))
            learner.learn([id], X[[int(id)]], [label], propensity=[chance], sources=[who])
        for id, excluded_annotators in zip(more.ids, more.excluded_annotators, strict=True):
            who, label = answer(rng, int(id), excluded_annotators)
            learner.correct([id], [label], sources=[who])
        again += zip(more.ids, more.excluded_annotators, strict=True)
    return learner, again, spent


def wrong(learner):
    return np.mean([label != Y[int(id)] for id, _, label in learner._rows.annotated_rows()])


@pytest.mark.parametrize(("selection", "apart"), [("variable_uncertainty", 5), ("probability", 10)])
@pytest.mark.quick_once
def test_asking_again_costs_tokens_and_the_budget_holds_at_every_record(selection, apart):
    learner, again, spent = streamed(selection=selection)
    assert 10 < len(again) <= 0.2 * 0.5 * 300
    assert learner.ledger.again == len(again)
    assert all(requests <= 0.5 * records for records, requests in spent)
    assert learner.ledger.requests == learner.ledger.answered
    plain, none, _ = streamed(relabel=0.0, selection=selection)
    assert not none
    earned = [one.ledger.requests + one.ledger.tokens for one in (plain, learner)]
    assert abs(earned[0] - earned[1]) <= apart, "tokens that are not spent are kept"
    assert learner.ledger.tokens <= 15


@pytest.mark.slow
def test_fewer_labels_are_wrong_once_those_that_look_so_were_asked_about_again():
    asked, again, _ = streamed()
    plain, _, _ = streamed(relabel=0.0)
    assert wrong(asked) < 0.7 * wrong(plain)
    assert len({id for id, _ in again}) >= 0.7 * len(again)


@pytest.mark.slow
def test_nobody_is_asked_again_who_has_answered_or_errs_much():
    learner, again, _ = streamed(selection="quantile_filter")
    for id, excluded_annotators in again:
        found = learner._rows._named.find(id)
        if found is not None:
            assert found.votes[0][0] in excluded_annotators
            unasked = set(excluded_annotators) - {who for who, _ in found.votes}
            assert unasked <= set(POOR)
    assert any(len(excluded_annotators) > 1 for _, excluded_annotators in again)


@pytest.mark.slow
def test_the_unreliable_are_told_from_the_reliable():
    learner, _, _ = streamed()
    known = learner.annotators.to_json()
    assert set(known) == set(PEOPLE)
    reliable = {name: learner.annotators.get_or_create(name).reliability for name in PEOPLE}
    assert max(reliable[name] for name in POOR) < min(
        reliable[name] for name in PEOPLE if name not in POOR
    )
    assert sum(one["labels"] for one in known.values()) == learner.ledger.answered


def test_an_expired_request_about_a_label_leaves_it_as_it_was():
    learner = streamed(n=200)[0]
    rows = slice(200, 260)
    learner.query(X[rows], learner.score(X[rows]), IDS[rows])
    before = learner.ledger
    more = learner.query_relabels()
    assert len(more)
    held = {id: learner.label_of(id) for id in more.ids}
    learner.expire_requests(more.ids)
    assert {id: learner.label_of(id) for id in more.ids} == held
    assert learner.ledger.expired == before.expired + len(more)
    assert learner.ledger.pending == before.pending


@pytest.mark.slow
def test_saving_and_restoring_while_asking_again_changes_nothing():
    steady, moved = streamed(n=120)[0], streamed(n=120, restored=True)[0]
    assert_same(steady.snapshot(), moved.snapshot())


def test_what_is_shared_is_compared_with_others_and_the_rest_with_predictions():
    annotators = AnnotatorStatistics()
    row = AnnotatedRow(1, [("ann", "ok")], guess="ok")
    annotators.observe(row)
    assert annotators.to_json()["ann"] == {
        "labels": 1,
        "shared": 0,
        "agreed": 0,
        "judged": 1,
        "confirmed": 1,
    }
    row.add_vote("bob", "ok")
    annotators.observe(row)
    shared = {"labels": 1, "shared": 1, "agreed": 1, "judged": 0, "confirmed": 0}
    assert annotators.to_json() == {"ann": shared, "bob": shared}


def doubts_of(rows, classes):
    """Return `LabelQuality` of rows by id: (votes, likely labels); the last vote holds."""
    kept, annotators = LabelledRows(WorkingSet(), np.random.SeedSequence(1)), AnnotatorStatistics()
    kept.widen_rows(2)
    for name in classes:
        kept.append(np.zeros(2, np.float32), name, 0, 1.0, 0)
    for id, (votes, likely) in rows.items():
        row = AnnotatedRow(
            0, [], arrival_prediction=(list(classes), np.array(likely, dtype=np.float32))
        )
        for source, label in votes:
            row.add_vote(source, label)
            annotators.observe(row)
        kept.append(np.zeros(2, np.float32), votes[-1][1], 0, 1.0, 0, id=id, annotations=row)
    return LabelQuality(kept, annotators), kept


def test_a_label_is_trusted_as_its_giver_and_the_prediction_speak_for_it():
    """Strangers are right nine times in ten, and 5.5 times in 6 once one agreed."""
    alone, rows = doubts_of({"1": ([("ann", "no")], [0.8, 0.2])}, ("yes", "no"))
    row, label = rows.find("1")[0], "no"
    assert alone.label_probability(row, label) == pytest.approx(0.2 * 0.9 / (0.2 * 0.9 + 0.8 * 0.1))
    votes = [("ann", "no"), ("bob", "no")]
    both, rows = doubts_of({"1": (votes, [0.8, 0.2])}, ("yes", "no"))
    right = 5.5 / 6.0
    wrong = 1.0 - right
    assert both.label_probability(rows.find("1")[0], "no") == pytest.approx(
        0.2 * right**2 / (0.2 * right**2 + 0.8 * wrong**2)
    )


def test_who_errs_shows_where_no_prediction_is_confident():
    likely = {"a": [0.8, 0.1, 0.1], "b": [0.1, 0.8, 0.1], "c": [0.1, 0.1, 0.8]}
    rows = {}
    for i in range(90):
        truth, other = "abc"[i % 3], "abc"[(i + 1) % 3]
        rows[f"ann {i}"] = [("ann", truth)], likely[truth]
        rows[f"dan {i}"] = [("dan", truth if i < 45 else other)], likely[truth]
    doubts, _ = doubts_of(rows, "abc")
    again = doubts.find_suspect_labels(1_000, lambda id: True)
    assert set(again.ids) == {f"dan {i}" for i in range(45, 90)}
    assert again.excluded_annotators == [["dan"]] * 45
    weights = doubts.training_weights(np.arange(4, 184))
    assert weights[::2].min() > 3 * weights[91::2].max()


def test_names_that_never_come_again_cannot_fill_the_memory():
    annotators = AnnotatorStatistics()
    for i in range(MOST_SOURCES + 50):
        annotators.observe(AnnotatedRow(i, [(f"name {i}", "ok")]))
    assert len(annotators.to_json()) <= MOST_SOURCES + 1


@pytest.mark.parametrize("relabel", [-0.1, 1.0, 0.95])
def test_a_share_that_leaves_the_audit_nothing_is_refused(relabel):
    with pytest.raises(ConfigurationError, match="query relabel is"):
        QueryConfig(relabel=relabel, audit=0.1)
