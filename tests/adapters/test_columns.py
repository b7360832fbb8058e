from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamboost.adapters.columns import Columns

from streamboost.errors import DataError

VALUES = st.one_of(st.floats(-9, 9), st.sampled_from(["red", "blue", None]))
NAMES = st.one_of(st.text(max_size=3), st.integers(0, 9), st.tuples(st.integers(0, 9)))


def learned(*records, **settings):
    columns = Columns(**settings)
    for x in records:
        columns.row(x, grow=True)
    return columns


@given(st.lists(st.dictionaries(NAMES, VALUES), min_size=1, max_size=5), st.randoms())
def test_columns_do_not_depend_on_the_order_inside_a_record(records, random):
    shuffled = []
    for x in records:
        items = list(x.items())
        random.shuffle(items)
        shuffled.append(dict(items))
    try:
        first = learned(*records)
    except DataError:  # text after numbers, or the reverse
        with pytest.raises(DataError):
            learned(*shuffled)
        return
    second = learned(*shuffled)
    for x in records:
        np.testing.assert_array_equal(first.row(x), second.row(x))


def test_new_features_join_behind_the_old_ones():
    columns = learned({"b": 1, "c": 2}, {"a": 3})
    np.testing.assert_array_equal(columns.row({"a": 3, "b": 1, "c": 2}), [[1, 2, 3]])


def test_features_a_record_lacks_are_missing_and_unknown_ones_left_out():
    columns = learned({"a": 1, "b": 2})
    np.testing.assert_array_equal(columns.row({"b": 5, "z": "text"}), [[np.nan, 5]])
    assert len(columns) == 2


@pytest.mark.parametrize("value", [None, float("nan"), np.float32("nan"), Decimal("NaN")])
def test_none_and_nan_are_missing_values(value):
    assert np.isnan(learned({"a": 1}).row({"a": value})).all()


@pytest.mark.parametrize("value", [True, np.True_, 1, np.int8(1), Decimal(1), np.float16(1)])
def test_booleans_and_numbers_of_all_kinds_are_numbers(value):
    assert learned({"a": 1}).row({"a": value}).item() == 1.0


REFUSED = [
    ([1], "encode it"),
    (10**400, "encode it"),
    (float("-inf"), "infinite"),
    (1e39, "too large"),
]


@pytest.mark.parametrize(("value", "words"), [("red", "encode it"), ("1.5", "encode it"), *REFUSED])
def test_a_value_that_cannot_be_used_is_refused_by_feature_and_changes_nothing(value, words):
    columns = learned({"a": 1}, text=False)
    with pytest.raises(DataError, match=f"feature 'colour' is .*{words}"):
        columns.row({"a": 2, "colour": value}, grow=True)
    assert len(columns) == 1


@pytest.mark.parametrize(("value", "words"), [("red", "encode it"), *REFUSED])
def test_what_is_not_a_number_cannot_be_learned_where_numbers_stand(value, words):
    columns = learned({"a": 1, "colour": 2.5})
    with pytest.raises(DataError, match=f"feature 'colour' is .*{words}"):
        columns.row({"colour": value, "b": 1}, grow=True)
    assert len(columns) == 2


@pytest.mark.parametrize("value", ["red", *(value for value, _ in REFUSED)])
def test_what_is_not_a_number_is_missing_from_a_record_that_is_predicted(value):
    columns = learned({"a": 1, "colour": 2.5})
    frame = pd.DataFrame({"a": [2.0, 2.0], "colour": pd.Series([1.0, value], dtype=object)})
    missing = np.array([[2.0, np.nan]], dtype=np.float32)
    np.testing.assert_array_equal(columns.row({"a": 2.0, "colour": value}), missing)
    np.testing.assert_array_equal(columns.table(frame)[1:], missing)


def test_a_number_among_texts_is_missing_from_a_record_that_is_predicted():
    columns = learned({"colour": "red"})
    assert np.isnan(columns.row({"colour": 3})).all()
    assert np.isnan(columns.table(pd.DataFrame({"colour": [3, 4]}))).all()


def test_texts_are_numbered_as_they_are_learned_and_others_are_missing():
    columns = learned({"a": 1, "colour": "red"}, {"colour": "blue"}, {"colour": "red"})
    assert columns.categorical == [1]
    assert [columns.row({"colour": c})[0, 1] for c in ("red", "blue")] == [0, 1]
    assert np.isnan(columns.row({"colour": "green"})).all()
    assert columns.row({"colour": "green"}, grow=True)[0, 1] == 2


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), pd.NaT])
def test_a_missing_value_does_not_settle_what_a_feature_holds(missing):
    columns = learned({"colour": missing})
    assert len(columns) == 0
    assert columns.row({"colour": "red"}, grow=True).tolist() == [[0]]
    assert np.isnan(columns.row({"colour": missing}, grow=True)).all()


def test_a_number_among_texts_is_refused_and_changes_nothing():
    columns = learned({"colour": "red"})
    with pytest.raises(DataError, match="feature 'colour' is 3, and was text before"):
        columns.row({"colour": 3, "b": 1}, grow=True)
    assert len(columns) == 1


def test_names_without_end_fill_no_memory(monkeypatch):
    monkeypatch.setattr("streamboost.adapters.columns.MOST_CATEGORIES", 2)
    columns = learned({"id": "a"}, {"id": "b"}, {"id": "c"})
    assert [columns.row({"id": name}).item() for name in "ab"] == [0, 1]
    assert np.isnan(columns.row({"id": "c"})).all()


def test_an_infinity_in_a_float_column_is_missing():
    columns = learned({"a": 1})
    table = columns.table(pd.DataFrame({"a": [1.0, np.inf, -1e39]}))
    np.testing.assert_array_equal(table, np.array([[1], [np.nan], [np.nan]], dtype=np.float32))


def test_a_table_reads_as_its_rows_do():
    frame = pd.DataFrame(
        {
            "d": [1.5, np.nan, 3.0],
            "a": [1, 2, 3],
            "c": [True, False, True],
            "b": pd.array([1, None, 3], dtype="Int64"),
            "e": pd.Series([None, 2, 2.5], dtype=object),
            "f": ["red", None, "blue"],
            "g": ["red", "red", "never learned"],
        }
    )
    records = [
        {k: None if v is pd.NA else v for k, v in x.items()} for x in frame.to_dict("records")
    ]
    columns = learned(*records[:1], {**records[2], "g": "red"})
    rows = [columns.row(x) for x in records]
    np.testing.assert_array_equal(columns.table(frame), np.vstack(rows))
    assert columns.categorical == [columns._places["f"], columns._places["g"]]
