"""Validation of numbers and choices in settings."""

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import Any

from streamboost.errors import ConfigurationError


def check_integer(setting: str, value: Any, *, at_least: int = 1, reason: str = "") -> None:
    """Raise ConfigurationError unless `value` is a whole number of at least `at_least`.

    `setting` is the name of the value in the message. `reason` is a text that the message appends
    to the bound, such as ", as ..." or " with ...".
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise ConfigurationError(
            f"{setting} is {value!r}: give a whole number of at least {at_least}{reason}"
        )


def check_choice(setting: str, value: Any, choices: Iterable[str]) -> None:
    """Raise ConfigurationError with the name `setting` unless `value` is in `choices`."""
    names = list(choices)
    if value not in names:
        raise ConfigurationError(
            f"{setting} {value!r} is not known: choose one of {', '.join(names)}"
        )


def as_exact_fraction(setting: str, value: Any) -> Fraction:
    """Return the fraction that equals the decimal notation of `value`: 0.1 is exactly 1/10.

    Raises ConfigurationError, with the name `setting`, if `value` is not a finite number.

    >>> as_exact_fraction("a share", 0.1)
    Fraction(1, 10)
    """
    if not is_finite(value):
        raise ConfigurationError(f"{setting} is {value!r}: give a finite number")
    return Fraction(Decimal(repr(float(value))))


def is_finite(value: Any) -> bool:
    """Return whether `value` is a finite number in the range of a float.

    >>> is_finite(0.5), is_finite(float("nan")), is_finite(10**400), is_finite(True)
    (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return isfinite(value)
    except OverflowError:
        return False
