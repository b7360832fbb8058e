import pickle

import numpy as np
import pytest

from streamboost.adapters.pending_rows import PendingRows


def row(value):
    return np.array([value], dtype=np.float32)


def note(given, value, row, asked="label"):
    return given.put([value], [row], asked)[0]


def test_what_was_noted_is_taken_once():
    given = PendingRows(10)
    note(given, (1, 2), row(0))
    assert given.pop((1, 2))[0] == 0
    assert given.pop((1, 2))[0] is None


def test_equal_records_are_taken_in_the_order_noted():
    given = PendingRows(10)
    ids = [note(given, (1, 2), row(value)) for value in (0, 1, 1)]
    assert [given.pop((1, 2)) for _ in range(3)] == [
        (value, id) for value, id in zip((0, 1, 1), ids, strict=True)
    ]
    assert len(given) == 0


def test_records_asked_for_something_else_before_any_label_are_the_same():
    given = PendingRows(10)
    values, rows = [(1, 2), (3, 4), (1, 2)], [row(0), row(1), row(2)]
    ids = given.put(values, rows, "label")
    assert len(set(ids)) == 3
    assert given.put(values, rows, "probabilities") == ids
    assert not set(given.put(values, rows, "label")) & set(ids)
    assert len(given) == 6


@pytest.mark.parametrize("between", ["another record", "a label"])
def test_records_asked_for_something_else_later_are_others(between):
    given = PendingRows(10)
    note(given, (9,), row(9))
    id = note(given, (1,), row(0))
    if between == "a label":
        given.pop((9,))
    else:
        note(given, (2,), row(2))
    assert note(given, (1,), row(0), "probabilities") != id


def test_columns_that_joined_since_do_not_matter_to_records_without_them():
    given = PendingRows(10)
    note(given, (1, None), row(0))
    assert given.pop((1, None, None))[0] == 0


def test_the_oldest_are_forgotten_first():
    given = PendingRows(3)
    for value in range(5):
        note(given, (value,), row(value))
    assert len(given) == 3
    assert given.pop((0,))[0] is None
    assert given.pop((1,))[0] is None
    assert [given.pop((v,))[0].item() for v in (2, 3, 4)] == [2, 3, 4]


def test_values_that_look_alike_are_told_apart():
    given = PendingRows(10)
    several = [(1,), (True,), ("1",), (1.0,), ("nan",), (float("nan"),), (None, 1), ("a", "b")]
    for i, values in enumerate(several):
        note(given, values, row(i))
    assert [given.pop(values)[0].item() for values in several] == list(range(len(several)))


def test_long_vectors_are_told_apart_by_every_number():
    one, other = np.zeros(2_000), np.zeros(2_000)
    other[1_000] = 1e-12
    given = PendingRows(10)
    note(given, (one,), row(1))
    note(given, (other,), row(2))
    assert given.pop((other.copy(),))[0] == 2
    assert given.pop((one.copy(),))[0] == 1


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


STRANGE = {
    "a whole number of 5,000 digits": 10**5_000,
    "one in a list": [10**5_000],
    "lists in lists": nested(3_000),
    "a lone surrogate": "\ud800",
    "NUL": "\0",
    "an object": object(),
}


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE)
def test_whatever_a_value_is_its_row_is_remembered(value):
    given = PendingRows(10)
    note(given, (value, 1), row(3))
    assert given.pop((value, 1))[0] == 3


def test_long_texts_do_not_stay_in_memory():
    given = PendingRows(10)
    note(given, ("x" * 1_000_000,), row(1))
    assert len(pickle.dumps(given)) < 1_000
