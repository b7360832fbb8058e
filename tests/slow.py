"""What `make test` leaves to `make test-slow`: long, and rarely the only one to fail."""

import pytest

__all__ = ["seeds", "slow"]


def slow(*values):
    """Mark values to parametrize by, or tuples of such."""
    each = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*one, marks=pytest.mark.slow) for one in each]


def seeds(n):
    """So many seeds, the first of which is not slow."""
    return [0, *slow(*range(1, n))]
