import numpy as np

from streamboost.adapters.given import Given


def row(*values):
    return np.array([values], dtype=np.float32)


def beside(value):
    return np.array([[value]], dtype=np.float32)


def test_what_was_noted_is_taken_once():
    given = Given(10)
    given.note(row(1, 2), beside(0))
    assert given.take(row(1, 2)) == 0
    assert given.take(row(1, 2)) is None


def test_equal_records_are_taken_in_the_order_noted():
    given = Given(10)
    for value in (0, 1, 1):
        given.note(row(1, 2), beside(value))
    assert given.take(row(1, 2)) == 0
    assert given.take(row(1, 2)) == 1
    assert len(given) == 0


def test_columns_that_joined_since_do_not_matter_to_records_without_them():
    given = Given(10)
    given.note(row(1, np.nan), beside(0))
    assert given.take(row(1, np.nan, np.nan)) == 0


def test_the_oldest_are_forgotten_first():
    given = Given(3)
    for value in range(5):
        given.note(row(value), beside(value))
    assert len(given) == 3
    assert given.take(row(0)) is None
    assert given.take(row(1)) is None
    assert [given.take(row(v)).item() for v in (2, 3, 4)] == [2, 3, 4]
