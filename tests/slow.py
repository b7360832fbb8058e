"""What `make test` leaves to `make test-slow`: long, and rarely the only one to fail."""

import pytest

__all__ = ["seeds", "slow"]


def slow(*values):
    """Mark values to parametrize by."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def seeds(n):
    """So many seeds, the first of which is not slow."""
    return [0, *slow(*range(1, n))]
