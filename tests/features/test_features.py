"""Records with fields of every kind as rows: in any batches, after restarts, with new fields."""

import json
import pickle
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.errors import ConfigurationError
from streamboost.features import Features, Field
from tests.features.making import STRANGE, assert_same_state

FIELDS = {
    "n": "number",
    "c": {"type": "category", "min_frequency": 2},
    "title": "text",
    "d": {"type": "time", "zone": "Europe/Berlin"},
    "v": {"type": "vector", "size": 2},
    "body": "text",
}
USUAL = {
    "n": st.sampled_from([1, 2.5, "3", True]),
    "c": st.sampled_from(["red", "blue", "green", 7]),
    "title": st.sampled_from(["win the match", "market of stocks", "Win!", "東京 goal"]),
    "d": st.sampled_from(["2026-03-01T07:30:00Z", 1772350200, 1772350200000]),
    "v": st.sampled_from([[1, 2], [0.5, None]]),
    "body": st.sampled_from(["a b c", "c b a", "\ud800 b", ""]),
}
ODD = st.sampled_from([None, *(v for name, v in STRANGE.items() if name != "a long text")])
VALUES = st.tuples(*(usual | ODD for usual in USUAL.values()))
LABELS = st.sampled_from(["spam", "ham", "eggs", "\0"])
STEPS = st.lists(st.tuples(VALUES, LABELS | st.none()), max_size=8)


def made():
    return Features(FIELDS, table_bytes=2**18)


def go_on(features, steps):
    """Take records in, and the labels that some have; return their rows."""
    rows = []
    for values, label in steps:
        rows.append(features.encode_arrivals([values])[0])
        if label is not None:
            features.learn(values, label)
    return rows


def assert_same_rows(first, second):
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


@settings(max_examples=40)
@given(STEPS, STEPS)
@pytest.mark.slow
def test_features_restored_at_any_step_go_on_bit_for_bit(before, after):
    features = made()
    go_on(features, before)
    about, arrays = features.state()
    twin = Features.restore(json.loads(json.dumps(about)), {n: a.copy() for n, a in arrays.items()})
    assert_same_rows(go_on(features, after), go_on(twin, after))
    assert twin.names == features.names
    assert twin.categorical_columns == features.categorical_columns
    assert twin.unreadable == features.unreadable
    assert_same_state(twin, features)


@pytest.mark.parametrize("copied", [deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
@settings(max_examples=40)
@given(STEPS, STEPS)
@pytest.mark.quick_once
def test_copies_go_on_by_themselves_bit_for_bit(copied, before, after):
    features = made()
    go_on(features, before)
    kept = features.state()
    twin = copied(features)
    rows = go_on(twin, after)
    assert_same_state(Features.restore(*kept), features)
    assert_same_rows(go_on(features, after), rows)


@settings(max_examples=40)
@given(STEPS, st.lists(VALUES, max_size=6), st.integers(0, 6))
def test_records_may_arrive_in_any_batches(before, values, cut):
    one, some, every = (made() for _ in range(3))
    for features in (one, some, every):
        go_on(features, before)
    rows = every.encode_arrivals(values)
    assert_same_rows(
        rows, np.vstack([some.encode_arrivals(values[:cut]), some.encode_arrivals(values[cut:])])
    )
    assert_same_rows(rows, [one.encode_arrivals([value])[0] for value in values])
    assert_same_state(one, every)
    assert_same_state(some, every)


@settings(max_examples=40)
@given(STEPS, st.lists(VALUES, min_size=1, max_size=3))
@pytest.mark.slow
def test_asking_for_rows_changes_nothing_and_says_what_the_next_record_would_have(before, values):
    features = made()
    go_on(features, before)
    twin = deepcopy(features)
    rows = features.encode(values)
    assert_same_state(features, twin)
    np.testing.assert_array_equal(rows[0], features.encode_arrivals(values[:1])[0])
    twin.observe(values[0])
    twin.unreadable = features.unreadable
    assert_same_state(features, twin)


@settings(max_examples=40)
@given(STEPS, st.lists(VALUES, max_size=3), LABELS)
def test_a_row_never_knows_the_records_own_label(before, values, label):
    told, untold = made(), made()
    for features in (told, untold):
        go_on(features, before)
    kept = told.encode_arrivals(values)
    rows = kept.copy()
    for value in values:
        told.learn(value, label)
    np.testing.assert_array_equal(kept, rows)
    np.testing.assert_array_equal(untold.encode_arrivals(values), rows)


def test_a_field_added_later_joins_behind_and_is_missing_from_the_records_before():
    features = Features({"n": "number", "note": "text"})
    old = [(1.0, "win"), (2.0, "lose")]
    features.encode_arrivals(old)
    features.learn(old[0], "a")
    names = features.names[:]
    features.add_field("c", Field("category"))
    features.add_field("body", Field("text"))
    features.add_field("m", Field("number"))
    assert features.names == [*names, "c", "m"]
    features.learn(old[1], "b")  # its label came later than the fields
    assert features.encode(old).shape == (2, len(names) + 3)
    assert np.isnan(features.encode(old)[:, features.names.index("m")]).all()
    new = (3.0, "win", "red", "a body", "4")
    features.learn(new, "a")
    assert features.encode([new])[0, features.names.index("m")] == 4
    assert features.encode([new, old[0]]).shape == (2, len(features))
    assert_same_state(Features.restore(*features.state()), features)


def test_fields_added_after_labels_have_their_columns_for_the_classes_there_are():
    late, early = Features({"n": "number"}), Features({"n": "number", "note": "text"})
    for label in ("a", "b"):
        late.learn((1.0,), label)
    late.add_field("note", Field("text"))
    for label in ("a", "b"):
        early.learn((1.0, None), label)
    assert late.names == early.names
    assert late.text_columns == early.text_columns == [1, 2]


def test_what_cannot_be_read_is_counted_by_field_on_arrival_only():
    features = made()
    bad = ("dear", ["a"], 5, "never", [1], None)
    features.encode([bad])
    features.learn(bad, "x")
    features.observe(bad)
    assert not features.unreadable
    features.encode_arrivals([bad, bad, (None,) * 6])
    assert features.unreadable == {"n": 2, "c": 2, "title": 2, "d": 2, "v": 2}


def test_values_are_found_along_dotted_paths():
    features = Features({"device.os": "category", "items.1": "number", "a.b": "number"})
    record = {"device": {"os": "linux"}, "items": [1, 2], "a.b": 3, "a": {"b": 4}}
    assert features.values(record) == ("linux", 2, 3)
    assert features.values({"device": "linux", "items": [], "a": None}) == (None, None, None)


def test_minus_zero_is_kept_in_numbers():
    features = Features({"n": "number"})
    assert np.signbit(features.encode_arrivals([(-0.0,)])).all()


def test_only_what_no_record_and_no_label_changes_is_fixed():
    assert Features({"n": "number", "v": {"type": "vector", "size": 2}}).fixed
    for kind in ("category", "text", "time"):
        assert not Features({"n": "number", "x": kind}).fixed


def test_steady_columns_are_those_of_numbers_times_and_vectors():
    features = made()
    features.learn((1, "red", "win", 0, [1, 2], ""), "x")
    names = [features.names[column] for column in features.static_columns]
    parts = ("hour", "weekday", "day of the year", "seconds since the record before")
    assert names == ["n", *(f"d: {part}" for part in parts), "v[0]", "v[1]"]


def test_no_records_have_no_rows():
    features = made()
    assert features.encode_arrivals([]).shape == features.encode([]).shape == (0, len(features))
    assert Features({}).encode_arrivals([(), ()]).shape == (2, 0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("txt", "field 'a': type is 'txt'; did you mean 'text'"),
        ({"type": "vector"}, "field 'a': size is None"),
        ({"type": "category", "min_frequency": 0}, "min_frequency is 0"),
        ({"type": "text", "zone": "UTC"}, "'zone' is no option of a text"),
        ({"type": "time", "zone": "Berlin"}, "zone is 'Berlin', which is no time zone"),
        (5, "5 does not say what it holds"),
    ],
    ids=str,
)
def test_what_a_field_cannot_be_is_refused_by_its_name(given, words):
    with pytest.raises(ConfigurationError, match=words):
        Features({"a": given})
