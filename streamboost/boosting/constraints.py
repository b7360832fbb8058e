"""Constraints on the parameters of the boosted estimators.

An estimator declares the constraints of its numeric parameters in `_constraints`. The type hints of
its fields add the rest: the strings of a `Literal`, and None.
"""

import math
from collections.abc import Callable, Mapping
from functools import cache
from inspect import get_annotations
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

import numpy as np

from streamboost.errors import ConfigurationError


class Constraint(NamedTuple):
    """Valid values of a parameter: a description for error messages, and a test of a value."""

    description: str
    accepts: Callable[[Any], bool]


def _interval(kind: type, name: str, interval: str) -> Constraint:
    """Return a constraint to finite values of type `kind` in `interval`; `name` names the type."""
    low, high = (float(bound) for bound in interval[1:-1].split(","))

    def accepts(value: Any) -> bool:
        if not isinstance(value, kind) or isinstance(value, bool) or not math.isfinite(value):  # type: ignore[arg-type]
            return False
        inside: bool = low <= value <= high  # type: ignore[operator]
        is_open_end = (value == low and interval[0] == "(") or (
            value == high and interval[-1] == ")"
        )
        return inside and not is_open_end

    return Constraint(f"{name} in {interval}", accepts)


def integer_in(interval: str) -> Constraint:
    """Return a constraint to the integers in `interval`, such as "[1, inf)"."""
    return _interval(Integral, "an integer", interval)


def number_in(interval: str) -> Constraint:
    """Return a constraint to the finite numbers in `interval`, such as "(0, 1]"."""
    return _interval(Real, "a number", interval)


def one_of(*choices: str) -> Constraint:
    """Return a constraint to the given strings, `choices`."""
    text = " or ".join(map(repr, choices))
    return Constraint(text, lambda value: isinstance(value, str) and value in choices)


def object_with_methods(*methods: str) -> Constraint:
    """Return a constraint to objects that have all of `methods`, given by name."""
    return Constraint(
        f"an object with {' and '.join(methods)}",
        lambda value: all(callable(getattr(value, method, None)) for method in methods),
    )


NONE = Constraint("None", lambda value: value is None)
BOOLEAN = Constraint("True or False", lambda value: isinstance(value, bool | np.bool_))
DICTIONARY = Constraint("a dictionary", lambda value: isinstance(value, dict))
ARRAY_LIKE = Constraint(
    "an array or a sequence",
    lambda value: (
        value.ndim > 0
        if hasattr(value, "ndim")
        else hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping)
    ),
)
_SEED = integer_in("[0, 4294967295]")
RANDOM_STATE = Constraint(
    f"{_SEED.description}, a RandomState or None",
    lambda value: value is None or isinstance(value, np.random.RandomState) or _SEED.accepts(value),
)


@cache
def _constraints_of(cls: type) -> dict[str, list[Constraint]]:
    """Return a mapping from each parameter of an estimator class to its constraints."""
    found: dict[str, list[Constraint]] = {}
    for base in reversed(cls.__mro__):
        hints: dict[str, Any] = get_annotations(base)
        for name, hint in hints.items():
            if get_origin(hint) is Literal:
                found[name] = [one_of(*get_args(hint))]
            elif NoneType in get_args(hint) and NONE not in found.get(name, [NONE]):
                found[name] = [*found[name], NONE]
        found |= base.__dict__.get("_constraints", {})
    return found


def check_parameters(cls: type, parameters: Mapping[str, Any], caller: str) -> None:
    """Raise an error if a parameter of an estimator of type `cls` is invalid.

    Parameters
    ----------
    cls : type of the estimator
    parameters : mapping from parameter to value
    caller : name of the class or method, for the error message

    Raises
    ------
    ConfigurationError
        With the parameter, its valid values and its value.
    """
    constraints = _constraints_of(cls)
    for name, value in parameters.items():
        valid = constraints.get(name)
        if valid and not any(constraint.accepts(value) for constraint in valid):
            words = [constraint.description for constraint in valid]
            text = " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
            raise ConfigurationError(f"{name} of {caller} must be {text}, and is {value!r}")
