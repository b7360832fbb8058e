"""Stacking on records with text, numbers and order as separate signals."""

import numpy as np
import pytest

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.errors import DataError
from streamboost.features import Features
from streamboost.learner import QueryConfig, Schedule, StreamLearner
from tests.learner.small_learner import assert_same
from tests.slow import slow

FIELDS = {"n": "number", "c": "category", "t": "time", "note": "text"}
WORDS = {
    "low": ["calm", "quiet", "small", "slow"],
    "high": ["loud", "big", "fast", "bright"],
    "odd": ["green", "purple", "spotted", "striped"],
}


def mixed(n, seed, by="both", odd_from=None):
    """Return records' values and labels, told by their texts, their numbers, or both."""
    rng = np.random.default_rng(seed)
    values, labels = [], []
    for i in range(n):
        label = str(rng.choice(["low", "high", "odd"][: 2 if i < (odd_from or n) else 3]))
        said = label if by != "numbers" else str(rng.choice(["low", "high"]))
        shown = ["low", "high", "odd"].index(label) if by != "text" else rng.integers(2)
        note = " ".join(rng.choice(WORDS[said], 3)) + " and so on"
        number = None if i % 9 == 4 else float(shown + rng.normal(scale=0.3))
        values.append((number, str(rng.choice(["red", "blue"])), 1_000 * i, note))
        labels.append(label)
    return values, labels


def learner(**settings):
    estimator = SketchLogitBoostClassifier(n_estimators=8, max_leaf_nodes=4, min_child_weight=0.01)
    wanted = {"estimator": estimator, "random_state": 3, "features": Features(FIELDS)} | settings
    return StreamLearner(**wanted)


def served(learning, values, labels, *, batch=8, delay=5, restored=None):
    """Take a stream through: labels asked for come batches later. Return all that was said."""
    said, waiting, learned = [], [], 0
    for at, start in enumerate(range(0, len(values), batch)):
        if restored is not None and at % restored == 0:
            learning = StreamLearner.restore(learning.snapshot())
        X = learning.encode_arrivals(values[start : start + batch])
        ids = [str(i) for i in range(start, start + len(X))]
        scores = learning.score(X)
        asked = set(learning.query(X, scores, ids).ids)
        said.append((scores.labels.tolist(), scores.probabilities.tolist(), sorted(asked)))
        waiting += [(at + delay, int(id), X[int(id) - start]) for id in ids if id in asked]
        due = [(i, row) for when, i, row in waiting if when <= at]
        waiting = [one for one in waiting if one[0] > at]
        if due:
            learning.learn(
                [str(i) for i, _ in due],
                [row for _, row in due],
                [labels[i] for i, _ in due],
                records=[values[i] for i, _ in due],
                tick=at,
            )
            learned += len(due)
    return learning, said, learned


@pytest.mark.parametrize("label_lags", [0, 2])
@pytest.mark.quick_once
def test_a_learner_of_records_restored_at_every_step_goes_on_bit_for_bit(label_lags):
    values, labels = mixed(240, seed=1, odd_from=120)
    query, schedule = QueryConfig(budget=0.4), Schedule(growth=1.3)
    settings = {"query": query, "label_lags": label_lags, "schedule": schedule}
    first, said, learned = served(learner(**settings), values, labels)
    second, again, _ = served(learner(**settings), values, labels, restored=1)
    assert said == again
    assert_same(first.snapshot(), second.snapshot())
    assert learned > 50
    assert first.classes == second.classes
    assert set(first.classes) == {"low", "high", "odd"}
    assert len(first._stacking.names) == 8
    assert (first._stacking.weights != learner()._stacking.weights).all()


def right(said, labels, start):
    guessed = [label for labels, _, _ in said for label in labels]
    return np.mean([a == b for a, b in zip(guessed[start:], labels[start:], strict=True)])


@pytest.mark.parametrize("by", ["text", "numbers", *slow("both")])
@pytest.mark.quick_once
def test_the_blend_is_no_worse_than_the_committee_whatever_tells_the_classes(by):
    values, labels = mixed(600, seed=2, by=by)
    _, said, _ = served(learner(query=QueryConfig(budget=1.0)), values, labels, delay=1)
    alone = learner(query=QueryConfig(budget=1.0), experts="committee")
    _, of_committee, _ = served(alone, values, labels, delay=1)
    assert right(said, labels, 300) > 0.85
    assert right(said, labels, 300) > right(of_committee, labels, 300) - 0.02


@pytest.mark.slow
def test_a_class_that_appears_later_is_told_by_its_words():
    values, labels = mixed(400, seed=3, by="text", odd_from=200)
    _, said, _ = served(learner(query=QueryConfig(budget=1.0)), values, labels, delay=1)
    guessed = [label for labels, _, _ in said for label in labels]
    odd = [guessed[i] == "odd" for i in range(300, 400) if labels[i] == "odd"]
    assert np.mean(odd) > 0.8


@pytest.mark.slow
def test_rows_not_given_are_made_when_they_are_learned_one_after_another():
    values, labels = mixed(60, seed=4)
    made, given = learner(), learner()
    ids = [str(i) for i in range(60)]
    made.learn(ids, [None] * 60, labels, records=values)
    for id, value, label in zip(ids, values, labels, strict=True):
        given.learn([id], given.encode_arrivals([value]), [label], records=[value])
    assert_same(made.snapshot(), given.snapshot())


@pytest.mark.slow
def test_columns_that_join_amid_rows_learned_together_are_missing_in_the_others():
    values, labels = mixed(60, seed=4, odd_from=30)
    together, apart = learner(), learner()
    for one in (together, apart):
        one.learn(["a", "b"], [None] * 2, ["low", "high"], records=values[:2])
    rows = together.encode_arrivals(values)
    apart.encode_arrivals(values)
    together.learn([str(i) for i in range(60)], rows, labels, records=values)
    for i in range(60):
        apart.learn([str(i)], [rows[i]], labels[i : i + 1], records=values[i : i + 1])
    assert together.n_features > rows.shape[1]
    assert_same(together.snapshot(), apart.snapshot())


def test_a_row_of_weight_zero_is_not_made():
    values, labels = mixed(20, seed=4)
    told, untold = learner(), learner()
    told.learn(["a", "b"], [None, None], labels[:2], records=values[:2], weight=[1, 0])
    untold.learn(["a"], [None], labels[:1], records=values[:1])
    assert_same(told.snapshot(), untold.snapshot())


def test_ids_that_come_again_are_blended_as_said_last():
    values, labels = mixed(80, seed=5)
    one = learner(query=QueryConfig(budget=1.0))
    for i in range(0, 80, 4):
        X = one.encode_arrivals(values[i : i + 4])
        one.query(X, one.score(X), ["same"] * 4)
        one.learn(["same"] * 4, X, labels[i : i + 4], records=values[i : i + 4])
    assert len(one._stacking._cache) == 0
    assert_same(StreamLearner.restore(one.snapshot()).snapshot(), one.snapshot())


def test_a_learner_without_features_takes_no_records_and_one_with_them_needs_them():
    plain, of_records = StreamLearner(), learner()
    with pytest.raises(DataError, match="takes arrays: give it features="):
        plain.encode_arrivals([(1.0,)])
    with pytest.raises(DataError, match="takes arrays: give it features="):
        plain.encode_records([(1.0,)])
    with pytest.raises(DataError, match="without features, which cannot use them"):
        plain.learn(["a"], [[1.0]], ["x"], records=[(1.0,)])
    row = of_records.encode_arrivals([(1.0, "red", 0, "so")])
    with pytest.raises(DataError, match="records is missing"):
        of_records.learn(["a"], row, ["x"])
    with pytest.raises(DataError, match="2 records for 1 rows"):
        of_records.learn(["a"], row, ["x"], records=[(), ()])
    with pytest.raises(DataError, match="X has shape"):
        plain.learn(["a"], [None], ["x"])
    assert plain.n_labels == of_records.n_labels == 0


@pytest.mark.parametrize("label", [None, 1.5, True, b"x"])
def test_a_label_that_is_none_is_refused_and_nothing_is_learned(label):
    one, untouched = learner(), learner()
    with pytest.raises(DataError, match=r"y\[1\] is"):
        one.learn(["a", "b"], [None, None], ["x", label], records=mixed(2, seed=6)[0])
    assert_same(one.snapshot(), untouched.snapshot())


def test_predictions_for_other_records_are_refused_and_nothing_waits():
    values, labels = mixed(40, seed=7)
    one = learner()
    one.learn([str(i) for i in range(40)], [None] * 40, labels, records=values)
    X = one.encode_arrivals(values[:3])
    before = one.snapshot()
    with pytest.raises(DataError, match="2 predictions for 3 records"):
        one.query(X, one.score(X[:2]), ["a", "b", "c"])
    assert_same(one.snapshot(), before)


def test_rows_with_too_many_columns_are_refused_by_their_number():
    one = learner()
    with pytest.raises(DataError, match="X has 9 features"):
        one.score([[0.0] * 9])


def test_words_have_no_weight_of_their_own_where_there_are_no_texts():
    silent = StreamLearner(features=Features({"n": "number"}))
    assert "text" not in silent.expert_weights
    assert sum(silent.expert_weights.values()) == pytest.approx(1)
    silent.learn(["a", "b"], [None, None], ["x", "y"], records=[(1.0,), (2.0,)])
    assert "text" not in silent.expert_weights
    speaking = learner()
    speaking.learn(["a"], [None], ["x"], records=mixed(1, seed=1)[0])
    assert speaking.expert_weights["text"] > 0
