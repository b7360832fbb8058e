"""Helpers that make one field's columns, for the tests of each kind of field."""

import numpy as np

from streamboost.features import Features


def single(kind, **options):
    return Features({"a": {"type": kind, **options} if options else kind})


def column(features, *values):
    """Return the first column that each of `values` would have."""
    return features.encode([(value,) for value in values])[:, 0].tolist()


def teach(features, *pairs):
    for value, label in pairs:
        features.learn((value,), label)


def assert_same_state(first, second):
    (about, arrays), (others, other_arrays) = first.state(), second.state()
    for one in (about, others):
        one["unreadable"] = sorted(one["unreadable"])
    assert repr(about) == repr(others)  # NaN among them
    assert arrays.keys() == other_arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, other_arrays[name], err_msg=name)


STRANGE = {
    "true": True,
    "a whole number": 7,
    "minus zero": -0.0,
    "a whole number of 20 digits": 10**20,
    "one of 400": 10**400,
    "one of 5,000": 10**5_000,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "the smallest": 5e-324,
    "a lone surrogate": "so \ud800 lone",
    "NUL": "a\0b",
    "empty text": "",
    "blank text": " \n",
    "a long text": "word " * 10_000,
    "an empty list": [],
    "a list": [1, 2],
    "lists of several lengths": [[1], [1, 2]],
    "a list of one number": [1],
    "a huge number in a list": [10**5_000, 1],
    "text in a list": ["a", None],
    "an object": {"a": 1},
    "bytes": b"1.5",
    "numpy's numbers": np.array([1.5, 2.5]),
    "numpy's one number": np.array(5.0),
    "numpy's time": np.datetime64("2026-03-01"),
    "an imaginary number": 1j,
    "anything": object(),
}
