import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.features import Features
from tests.features.making import STRANGE, column, single

READ = [
    (1, 1.0), (-2.5, -2.5), (True, 1.0), (False, 0.0), ("75.29", 75.29), (" 3 ", 3.0), ("1e3", 1e3),
    (np.int8(4), 4.0), (np.True_, 1.0), (10**20, 1e20), (3e38, 3e38),
]  # fmt: skip


@pytest.mark.parametrize(("value", "number"), READ, ids=str)
def test_numbers_are_read_also_as_text_and_booleans_are_one_and_zero(value, number):
    features = single("number")
    assert column(features, value) == [np.float32(number)]
    features.encode_arrivals([(value,)])
    assert not features.unreadable


@pytest.mark.parametrize("value", [None, "", " ", float("nan"), "nan"], ids=str)
def test_what_is_missing_is_nan_and_not_counted(value):
    features = single("number")
    assert math.isnan(features.encode_arrivals([(value,)]).item())
    assert not features.unreadable


UNREADABLE = {
    "text": "dear", "a date": "2026-03-01", "infinity": float("inf"), "as text": "-inf",
    "400 digits": 10**400, "as text, too": "1" * 400, "beyond float32": 1e39, "a list": [1],
    "lists": [[1]], "an object": {"a": 1}, "underscores": "1_000", "other digits": "\u0661\u0662",
}  # fmt: skip


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_finite_number_is_missing_and_counted(value):
    features = single("number")
    assert math.isnan(features.encode_arrivals([(value,)]).item())
    assert features.unreadable == {"a": 1}


ANY = st.one_of(
    st.sampled_from(list(STRANGE.values())),
    st.sampled_from([value for value, _ in READ]),
    st.floats(),
    st.text(max_size=4),
    st.none(),
)


@given(st.lists(st.tuples(ANY, ANY), max_size=5))
def test_a_number_is_read_alike_whatever_it_comes_with(values):
    one, many = (Features({"a": "number", "b": "number"}) for _ in range(2))
    rows = many.encode_arrivals(values)
    assert rows.shape == (len(values), 2)
    for value, row in zip(values, rows, strict=True):
        np.testing.assert_array_equal(one.encode_arrivals([value])[0], row)
    assert one.unreadable == many.unreadable
