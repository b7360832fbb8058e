"""Marks of slow tests, which `make test` leaves to `make test-slow`."""

import pytest

__all__ = ["first_of_each", "seeds", "slow"]


def slow(*values):
    """Mark values to parametrize by, or tuples of such."""
    each = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*one, marks=pytest.mark.slow) for one in each]


def first_of_each(functions):
    """Mark all functions slow but the first of each name: the others try it on other data."""
    met, found = set(), []
    for number, function in enumerate(functions):
        name = function.__name__
        marks = [pytest.mark.slow] if name in met else []
        found.append(pytest.param(function, marks=marks, id=f"{number}-{name}"))
        met.add(name)
    return found


def seeds(n):
    """Return the seeds 0 to n - 1. All but the first are marked slow."""
    return [0, *slow(*range(1, n))]
