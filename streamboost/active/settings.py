"""Numbers that a user sets, checked."""

from math import isfinite
from typing import Any

from streamboost.errors import ConfigurationError

__all__ = ["check_whole", "is_finite"]


def check_whole(what: str, value: Any, *, at_least: int = 1, reason: str = "") -> None:
    """Raise ConfigurationError unless `value` is a whole number of at least `at_least`.

    `what` names the setting, and `reason` follows the bound: ", as ..." or " with ...".
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise ConfigurationError(
            f"{what} is {value!r}: give a whole number of at least {at_least}{reason}"
        )


def is_finite(value: Any) -> bool:
    """Whether `value` is a number that a float can hold.

    >>> is_finite(0.5), is_finite(float("nan")), is_finite(10**400), is_finite(True)
    (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return isfinite(value)
    except OverflowError:
        return False
