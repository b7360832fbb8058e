import numpy as np
import pytest

from streamboost.checks import as_ids, as_labels, as_propensity, as_rows, as_tick, labels_to_array
from streamboost.errors import DataError


def test_missing_values_pass_as_nan():
    np.testing.assert_array_equal(as_rows([[1, None], [np.nan, 2]], 2), [[1, np.nan], [np.nan, 2]])


def test_rows_come_as_contiguous_float32():
    rows = as_rows(np.asfortranarray(np.ones((3, 2))), None)
    assert (rows.dtype, rows.flags.c_contiguous) == (np.float32, True)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ([1.0, 2.0], "shape"),
        ([["a", "b"]], "give numbers"),
        ([[1.0, [2.0]]], "table of numbers"),
        ([[1.0, object()]], "table of numbers"),
        ([[1.0, np.inf]], r"X\[0, 1\] is .*inf"),
        ([[1.0, 2.0], [1e300, 0.0]], r"X\[1, 0\] is .*1e\+300"),
        ([[1.0, 2.0, 3.0]], "3 features, and this learner began with 2"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(X, words):
    with pytest.raises(DataError, match=words):
        as_rows(X, 2)


@pytest.mark.parametrize(("ids", "words"), [(["a"], "1 ids for 2"), (["a", 2], r"ids\[1\] is 2")])
def test_ids_are_text_one_per_record(ids, words):
    with pytest.raises(DataError, match=words):
        as_ids(ids, 2)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (["a"], "1 labels for 2"),
        (["a", 1], r"y\[1\] is 1, and this learner's labels are text"),
        ([1, True], r"y\[1\] is True"),
        ([1.0, 2.0], r"y\[0\] is 1.0"),
        ([1, 2**63], "64 bits"),
        ([None, "a"], r"y\[0\] is None"),
    ],
)
def test_labels_are_all_text_or_all_whole_numbers(y, words):
    with pytest.raises(DataError, match=words):
        as_labels(y, 2, None)


def test_labels_keep_to_the_kind_of_earlier_ones():
    with pytest.raises(DataError, match="whole numbers"):
        as_labels(["a"], 1, int)


@pytest.mark.parametrize("y", [np.array([1, 2]), [np.int32(1), 2], np.array([1, 2], dtype=object)])
def test_labels_come_out_as_plain_values(y):
    labels = as_labels(y, 2, int)
    assert labels == [1, 2]
    assert {type(label) for label in labels} == {int}


@pytest.mark.parametrize("labels", [["a", "a\0", "b" * 5000, "\ud800"], [-(2**63), 2**63 - 1], []])
def test_an_array_of_labels_holds_each_as_it_is_without_the_room_of_the_longest(labels):
    array = labels_to_array(labels)
    assert array.tolist() == labels
    assert array.itemsize == 8


@pytest.mark.parametrize("wrong", [[0.0, 0.5], [0.5, 1.1], [0.5], [[0.5], [0.5]]])
def test_a_propensity_is_a_chance_for_each_record(wrong):
    with pytest.raises(DataError, match="propensity"):
        as_propensity(wrong, 2)


def test_no_propensity_says_that_nobody_asked():
    assert np.isnan(as_propensity(None, 3)).all()


@pytest.mark.parametrize("wrong", [1.5, None, "now", 2**63])
def test_a_tick_is_a_whole_number(wrong):
    with pytest.raises(DataError, match="tick"):
        as_tick(wrong)
