"""Recent committees: members, weights after a change, and their state."""

import numpy as np
import pytest
from learner.small_learner import assert_same, small

from streamboost import QueryConfig, WorkingSet
from streamboost.stacking.experts import EXPERTS
from streamboost.stacking.young import RecentCommittees

BEFORE = tuple(name for name in EXPERTS if name != "young")
RARE = 0.05


def changing(n=1_450, change=1_000, seed=1):
    """Return X and labels whose rule turns round at `change`."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3), dtype=np.float32)
    is_high = (X[:, 0] > 0.5) ^ (np.arange(n) >= change)
    return X, np.where(is_high, "high", "low")


def served(X, y, learner, batch=10):
    """Predict, query and learn all records; return whether each prediction was right."""
    right = np.zeros(len(y), dtype=bool)
    for start in range(0, len(y), batch):
        rows = slice(start, start + batch)
        scored = learner.score(X[rows])
        right[rows] = scored.labels == y[rows]
        asked = learner.query(X[rows], scored, [str(i) for i in range(start, start + len(scored))])
        bought = [int(id) for id in asked.ids]
        learner.learn(asked.ids, X[bought], y[bought], propensity=asked.propensity)
    return right


def changed(**settings):
    """Return a learner after a change, with a tenth of the labels."""
    learner = small(query=QueryConfig(budget=0.1), **settings)
    X, y = changing()
    return learner, served(X, y, learner), X


@pytest.fixture(scope="module")
def after():
    return changed()


def test_after_a_change_committees_born_after_it_lead(after):
    learner, right, _ = after
    young = learner._stacking.young
    trained, m = young.trained_committees, len(young.trained_committees)
    weights = young.weights[1 : 1 + m] + young.weights[1 + m :]
    leader = trained[int(weights.argmax())]
    assert young.mixture_weight > 0.5
    assert leader.order >= 0.09 * 1_000, "it has no label from before the change"
    assert learner.expert_weights["young"] == young.mixture_weight
    assert sum(learner.expert_weights.values()) == pytest.approx(1.0)
    _, without, _ = changed(experts=BEFORE)
    assert right[1_000:].mean() > without[1_000:].mean() + 0.05
    assert right[:1_000].mean() > without[:1_000].mean() - 0.01


def test_a_change_is_reported_with_the_place_where_it_began(after):
    learner, _, _ = after
    changes, total = list(learner.changes), learner.changes.n_detected
    assert total == len(changes)
    first = changes[0]
    assert abs(first.since_records - 1_000) <= 100, "committees are born every 8 labels"
    assert abs(first.since_labels - 100) <= 12
    assert 1_000 < first.records <= 1_450
    assert first.since_labels < first.labels <= first.since_labels + 50
    assert learner.changes.detected_after(total - 1) == changes[-1:] == [learner.changes.newest]
    assert learner.changes.detected_after(total) == []


def test_a_change_is_not_reported_again_after_a_class_is_renamed(after):
    learner, _, _ = after
    copy = RecentCommittees()
    copy.copy_untrained(learner._stacking.young)
    assert copy.state()[0]["changes"] == learner._stacking.young.state()[0]["changes"]


def test_without_a_change_none_is_reported():
    learner = small(query=QueryConfig(budget=0.1))
    served(*changing(1_450, 1_450), learner)
    assert list(learner.changes) == []


@pytest.mark.slow
def test_the_same_calls_give_the_same_bits_and_a_snapshot_goes_on(after):
    learner, _, X = after
    assert_same(learner.snapshot(), changed()[0].snapshot())
    twin = type(learner).restore(learner.snapshot())
    for one in (learner, twin):
        served(*changing(300, 0, seed=2), one)
    assert_same(learner.snapshot(), twin.snapshot())
    np.testing.assert_array_equal(learner.score(X).probabilities, twin.score(X).probabilities)


def test_scorers_predict_as_the_learner_and_get_each_committee_as_its_own_table(after):
    learner, _, X = after
    scorer, state = small(), learner.export_scoring_state()
    scorer.load_scoring_state(state)
    np.testing.assert_array_equal(scorer.score(X).probabilities, learner.score(X).probabilities)
    orders = {int(name.split(".")[1]) for name in state if name.startswith("young.")}
    assert orders == {member.order for member in learner._stacking.young.trained_committees}


@pytest.mark.slow
def test_committees_are_trained_with_the_others_and_while_they_predict_at_each_label():
    learner, between = small(query=QueryConfig(budget=0.1)), {True: 0, False: 0}
    X, y = changing(600, 300)
    for i in range(600):
        young = learner._stacking.young
        version, predicted = learner.trainer.newest_version, young.are_used_in_predictions
        before = [member.n_labels for member in young.members]
        served(X[i : i + 1], y[i : i + 1], learner)
        after = [member.n_labels for member in young.members]
        if learner.trainer.newest_version == version and predicted == young.are_used_in_predictions:
            between[predicted] += sum(n > 0 for n in after) > 0 and after[: len(before)] != before
    assert between[True] > 3
    assert between[False] == 0


def test_the_ages_of_recent_committees_double():
    young = RecentCommittees()
    for n in range(1, 3_001):
        young.add_committee_if_due(n, RARE)
    ages = np.array([3_000 - member.order for member in young.members])
    assert (ages[:-2] >= 2 * np.maximum(ages[2:], 8)).all()
    assert 10 <= len(ages) <= 24


def test_committees_are_further_apart_where_labels_are_frequent():
    rare, frequent = RecentCommittees(), RecentCommittees()
    for n in range(1, 2_001):
        rare.add_committee_if_due(n, RARE)
        frequent.add_committee_if_due(n, 1.0)
    assert len(frequent.members) == 2 < len(rare.members)


@pytest.mark.slow
def test_committees_whose_labels_are_the_whole_working_set_are_removed():
    learner = small(query=QueryConfig(budget=0.1), working_set=WorkingSet(size=60))
    served(*changing(), learner)
    assert learner.n_labels > 2 * 60
    orders = [member.order for member in learner._stacking.young.members]
    assert orders
    assert min(orders) >= learner.n_labels - 60 - 25  # since the newest training


@pytest.mark.slow
def test_renamed_classes_train_the_committees_again():
    learner, _, X = changed()
    learner.rename_class("high", "very high")
    assert set(learner.predict(X)) <= {"low", "very high"}
    assert learner._stacking.young.members
    X, y = changing(300, 0, seed=3)
    served(X, np.where(y == "high", "very high", y), learner)
    assert all(
        "high" not in member.committee.classes
        for member in learner._stacking.young.trained_committees
    )


@pytest.mark.slow
def test_after_all_classes_were_dropped_labels_of_others_are_learned():
    learner, _, X = changed()
    for label in ("high", "low"):
        learner.rename_class(label, None)
    for i in range(40):
        learner.learn([f"new {i}"], X[i : i + 1], ["ab"[int(X[i, 0] > 0.5)]])
    assert set(learner.predict(X)) == {"a", "b"}
    assert learner._stacking.young.trained_committees


@pytest.mark.slow
def test_columns_may_join_after_they_were_trained():
    learner, _, X = changed()
    young = learner._stacking.young
    widths = lambda: {one.committee.n_features for one in young.trained_committees}  # noqa: E731
    learner.widen_rows(5)
    assert widths() == {3}
    wider = np.hstack([X, np.full((len(X), 2), np.nan, dtype=np.float32)])
    assert set(learner.predict(wider)) == {"low", "high"}
    served(wider[:300], changing(300, 0)[1], learner)
    assert widths() <= {3, 5}
    assert 5 in widths()


def test_without_them_nothing_is_trained_or_kept():
    learner, _, _ = changed(experts=BEFORE)
    assert learner._stacking.young is None
    assert "young" not in learner.expert_weights
    assert not any(".young." in name for name in learner.snapshot())


@pytest.mark.slow
def test_they_are_an_expert_of_the_committee_alone():
    learner, right, X = changed(experts=["committee", "young"])
    assert set(learner.expert_weights) == {"committee", "young"}
    assert right[1_250:].mean() > 0.6
    alone = learner.committee.classes[learner.committee.class_scores(X).argmax(axis=1)]
    learner._stacking.young = None
    np.testing.assert_array_equal(learner.score(X).labels, alone)
