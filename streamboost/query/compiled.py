"""Lazy import of the compiled query functions, so that short commands do not load them."""

from functools import cache
from typing import Any


@cache
def query_kernels() -> Any:
    """Return the module `streamboost.kernels.query`, imported on first use."""
    from streamboost.kernels import query

    return query
