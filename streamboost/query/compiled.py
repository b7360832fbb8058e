"""Lazy import of the query kernels, so that short commands need not load them."""

from functools import cache
from typing import Any

__all__ = ["kernels"]


@cache
def kernels() -> Any:
    """Return the module of the query kernels, imported on first use."""
    from streamboost.kernels import query

    return query
