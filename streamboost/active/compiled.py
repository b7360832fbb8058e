"""The kernels that deciding about queries takes, which a short command need not load."""

from functools import cache
from typing import Any

__all__ = ["kernels"]


@cache
def kernels() -> Any:
    """Return the module that has them, imported when something is to be ranked."""
    from streamboost.kernels.stream import asking

    return asking
