import numpy as np
import pytest

from tests.features.making import single


@pytest.mark.parametrize("value", [[1, 2.5], (1, 2.5), np.array([1, 2.5]), ["1", 2.5]], ids=repr)
def test_a_vector_has_a_column_for_each_number(value):
    features = single("vector", size=2)
    assert features.names == ["a[0]", "a[1]"]
    assert features.encode_arrivals([(value,)]).tolist() == [[1, 2.5]]
    assert not features.unreadable


def test_a_number_that_is_missing_is_nan():
    features = single("vector", size=2)
    np.testing.assert_array_equal(
        features.encode_arrivals([([None, 1],), (None,)]), [[np.nan, 1], [np.nan] * 2]
    )
    assert not features.unreadable


WRONG = [
    [], [1], [1, 2, 3], 1, "12", "ab", [[1, 2]], [1, [2]], [1, "two"], [1, 10**400], [1, 1e39],
    [1, float("inf")], {"0": 1, "1": 2}, np.ones((2, 1)), True,
]  # fmt: skip


@pytest.mark.parametrize("value", WRONG, ids=lambda value: str(value)[:20])
def test_one_of_another_size_or_with_something_else_in_it_is_missing_and_counted(value):
    features = single("vector", size=2)
    rows = features.encode_arrivals([(value,), ([3, 4],)])
    np.testing.assert_array_equal(rows, [[np.nan] * 2, [3, 4]])
    assert features.unreadable == {"a": 1}
