from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.adapters.columns import Columns
from streamboost.errors import DataError

NAMES = st.one_of(st.text(max_size=3), st.integers(0, 9), st.tuples(st.integers(0, 9)))


def learned(*records):
    columns = Columns()
    for x in records:
        columns.row(x, grow=True)
    return columns


@given(st.lists(st.dictionaries(NAMES, st.floats(-9, 9)), min_size=1, max_size=5), st.randoms())
def test_columns_do_not_depend_on_the_order_inside_a_record(records, random):
    shuffled = []
    for x in records:
        items = list(x.items())
        random.shuffle(items)
        shuffled.append(dict(items))
    first, second = learned(*records), learned(*shuffled)
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


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("red", "encode it"),
        ("1.5", "encode it"),
        ([1], "encode it"),
        (10**400, "encode it"),
        (float("-inf"), "infinite"),
        (1e39, "too large"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_feature_and_changes_nothing(value, words):
    columns = learned({"a": 1})
    with pytest.raises(DataError, match=f"feature 'colour' is .*{words}"):
        columns.row({"a": 2, "colour": value}, grow=True)
    frame = pd.DataFrame({"a": [2.0, 2.0], "colour": pd.Series([1.0, value], dtype=object)})
    with pytest.raises(DataError, match=f"feature 'colour' is .*{words}"):
        columns.table(frame, grow=True)
    assert len(columns) == 1


def test_an_infinity_in_a_float_column_is_refused():
    with pytest.raises(DataError, match=r"feature 'a' is .*inf"):
        Columns().table(pd.DataFrame({"a": [1.0, np.inf]}), grow=True)


def test_a_table_reads_as_its_rows_do():
    frame = pd.DataFrame(
        {
            "d": [1.5, np.nan, 3.0],
            "a": [1, 2, 3],
            "c": [True, False, True],
            "b": pd.array([1, None, 3], dtype="Int64"),
            "e": pd.Series([None, 2, 2.5], dtype=object),
        }
    )
    by_table, by_row = Columns(), Columns()
    table = by_table.table(frame, grow=True)
    rows = [
        by_row.row({k: None if v is pd.NA else v for k, v in x.items()}, grow=True)
        for x in frame.to_dict("records")
    ]
    np.testing.assert_array_equal(table, np.vstack(rows))
