"""River records of mixed kinds: text, times, lists, dictionaries, missing and malformed values."""

import pickle
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.adapters.river import StreamBoostClassifier
from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.errors import DataError
from tests.features.making import STRANGE

SPAM = ["win", "cash", "prize", "claim", "free", "urgent", "call", "now"]
HAM = ["lunch", "see", "you", "later", "home", "tonight", "love", "work"]


def model(**more):
    estimator = SketchLogitBoostClassifier(n_estimators=8, min_child_weight=0.01)
    return StreamBoostClassifier(**{"estimator": estimator, "seed": 1, **more})


def mails(n, seed, words):
    """Return `n` texts of `words` words each, and whether each text is spam."""
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.4
    number = rng.integers(10**6, size=n)
    return [
        (" ".join([*rng.choice(SPAM if is_spam else HAM, words), f"#{k}"]), bool(is_spam))
        for is_spam, k in zip(labels, number, strict=True)
    ]


def share_right(learned, records):
    """Return how often records of (x, y) are predicted rightly, each before it is learned."""
    right = []
    for x, y in records:
        right.append(learned.predict_one(x) == y)
        learned.learn_one(x, y)
    return np.mean(right[len(right) // 3 :])


@pytest.mark.parametrize("words", [1, 2, 8])
@pytest.mark.quick_once
def test_text_alone_is_enough_where_it_tells_labels_apart(words):
    records = [({"text": text}, y) for text, y in mails(300, seed=words, words=words)]
    assert share_right(model(), records) > 0.95


def test_times_lists_dictionaries_and_missing_values_are_learned_as_they_are():
    rng = np.random.default_rng(5)
    records = []
    for i in range(300):
        y = str(rng.choice(["day", "night", "odd"]))
        hour = {"day": 12, "night": 1, "odd": int(rng.integers(24))}[y]
        at = datetime(2026, 3, 1, hour, int(rng.integers(60)), tzinfo=UTC) + timedelta(days=i)
        x = {
            "at": None if i % 10 == 3 else at,
            "point": [float(y == "odd"), float(rng.random())],
            "device": {"os": str(rng.choice(["linux", "mac"])), "screen": {"w": i % 3}},
            "known": None if i % 4 else bool(i % 2),
        }
        records.append((x, y))
    assert share_right(model(), records) > 0.9


def test_records_of_every_kind_go_on_the_same_after_pickling():
    records = [
        (
            {
                "text": text,
                "n": i % 5,
                "c": "xyz"[i % 3],
                "in": {"t": datetime(2026, 3, 1, i % 24)},
            },
            y,
        )
        for i, (text, y) in enumerate(mails(120, seed=3, words=2))
    ]
    one = model(label_lags=1)
    for x, y in records[:60]:
        one.predict_one(x)
        one.learn_one(x, y)
    twin = pickle.loads(pickle.dumps(one))
    for x, y in records[60:]:
        assert one.predict_proba_one(x) == twin.predict_proba_one(x)
        one.learn_one(x, y)
        twin.learn_one(x, y)


def deep(levels):
    x = {"a": 1}
    for _ in range(levels):
        x = {"a": x}
    return x


USUAL = {
    "n": 1.5,
    "c": "red",
    "text": "four words and more",
    "t": datetime(2026, 3, 1),
    "v": [1.0, 2.0],
    "in": {"n": 1, "c": "x"},
}
ODD = st.sampled_from([None, *STRANGE.values(), datetime.max, deep(3_000), {1: {"1": 2}}, np.nan])
NAMES = st.sampled_from(
    [*USUAL, "in.n", 7, ("t", 1), None, float("nan"), "never learned", "\ud800"]
)


KNOWN = st.sampled_from([*(name for name in USUAL if name != "in"), "in.n", "in.c"])


@cache
def _trained():
    learned = model(label_lags=1)
    for i in range(30):
        learned.learn_one(USUAL | {"n": i % 2}, ["a", "b"][i % 2])
    return learned


def trained():
    return deepcopy(_trained())


@settings(max_examples=30)
@given(st.lists(st.dictionaries(NAMES, ODD, max_size=4), min_size=1, max_size=3))
@pytest.mark.slow
def test_whatever_comes_is_predicted(records):
    learned = trained()
    for odd in records:
        for x in (odd, USUAL | odd):
            assert learned.predict_one(x) in ("a", "b")
            assert sum(learned.predict_proba_one(x).values()) == pytest.approx(1)


@settings(max_examples=30)
@given(st.lists(st.dictionaries(KNOWN, ODD, max_size=4), max_size=5))
@pytest.mark.slow
def test_whatever_comes_in_features_that_are_known_is_learned(records):
    learned = trained()
    for i, odd in enumerate(records):
        learned.predict_one(USUAL | odd)
        learned.learn_one(USUAL | odd, ["a", "b"][i % 2])
    assert learned.predict_one(USUAL) in ("a", "b")


@pytest.mark.parametrize("y", [None, float("nan"), np.float64("nan")], ids=repr)
def test_a_label_that_is_missing_is_refused_and_no_class_joins(y):
    learned = trained()
    with pytest.raises(DataError, match="leave the record out until its label is known"):
        learned.learn_one({"n": 1.0}, y)
    assert set(learned.predict_proba_one(USUAL)) == {"a", "b"}


def test_a_record_is_learned_with_the_row_it_was_predicted_with_however_late_its_label():
    records = mails(60, seed=9, words=4)
    late, never = model(), model()
    for text, y in records[:40]:
        for one in (late, never):
            one.learn_one({"text": text}, y)
    (text, y), rest = records[40], records[41:]
    values = late._fields.to_field_values({"text": text})
    row = late._learner.encode_records([values])[0]
    late.predict_one({"text": text})
    for other, label in rest:
        for one in (late, never):
            one.learn_one({"text": other}, label)
    late.learn_one({"text": text}, y)
    never.learn_one({"text": text}, y)
    kept = late._learner._rows
    assert kept.total == never._learner._rows.total
    assert not np.array_equal(row, never._learner.encode_records([values])[0])
    assert len(late._pending_rows) == 0


def test_numbers_alone_are_not_remembered_until_their_labels_come_where_nobody_is_judged():
    learned = model(experts="committee")
    for i in range(20):
        learned.predict_one({"a": i, "b": i / 2})
        learned.learn_one({"a": i, "b": i / 2}, i % 2)
        learned.predict_one({"a": i, "b": i / 2})
    assert len(learned._pending_rows) == 0
