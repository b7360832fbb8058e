"""River's dictionaries as values of fields, which join as features come up."""

from collections.abc import Callable, Hashable, Mapping
from datetime import date
from numbers import Real
from operator import itemgetter
from typing import Any

import numpy as np

from streamboost.errors import DataError
from streamboost.features import Features, Field
from streamboost.features.layout import Values, is_missing

__all__ = ["Fields"]

_WORDS = 4
"""Words that make a first value a text, where fewer are a category."""

_DEEPEST = 8
"""Levels of dictionaries that are looked into."""

_JUDGED = 20
"""Values of a category after which it is looked at again."""


class Fields:
    """Gives every feature of River's dictionaries a field of `features`, once it is learned.

    A feature's first value that is not missing tells what it holds: numbers (True and False are 1
    and 0), texts of four words or more, categories, times, or lists of numbers. Features that come
    up together are sorted by type and name, so that results do not depend on the order inside
    a dictionary. Dictionaries within are read by names with dots. A category whose first 20 values
    nearly all differ and hold several words is a text from then on.
    """

    def __init__(self, features: Features, *, categories: bool) -> None:
        self._features = features
        self._categories = categories
        self._places: dict[Hashable, int] = {}  # that of the newest field of each feature
        self._feature: list[Hashable] = []  # that of each field
        self._judged: dict[Hashable, list[str]] = {}  # the first values of categories
        self._plain: set[type] = set()  # types seen that are no dictionaries
        self._all: Callable[[Mapping[Hashable, Any]], Values] | None = None

    def values(self, x: Mapping[Hashable, Any], *, grow: bool = False) -> Values:
        """Return the values of `x` by field, None where one is missing.

        Features without a field get one if `grow`; else they are left out.

        Raises
        ------
        DataError
            When `grow`, and a feature holds what nothing can be learned from.
        """
        types = {*map(type, x.values())}
        if not types <= self._plain:
            if any(issubclass(one, Mapping) for one in types):
                x = _flat(x)
            else:
                self._plain |= types
        if grow:
            self._grow(x)
        if self._all is not None and type(x) is dict:  # others may answer for what is missing
            try:
                return self._all(x)
            except KeyError:
                pass
        return tuple(map(x.get, self._feature))

    def _grow(self, x: Mapping[Hashable, Any]) -> None:
        if not x.keys() <= self._places.keys():
            new = {
                feature: self._field(feature, value)
                for feature, value in x.items()
                if feature not in self._places and not is_missing(value)
            }
            for feature in sorted(new, key=lambda f: (type(f).__name__, str(f))):
                self._add(feature, feature, new[feature])
                if new[feature].kind == "category":
                    self._judged[feature] = []
        for feature in list(self._judged):
            self._judge(feature, x.get(feature))

    def _add(self, name: Hashable, feature: Hashable, field: Field) -> None:
        self._places[feature] = len(self._feature)
        self._feature.append(feature)
        self._all = itemgetter(*self._feature) if len(self._feature) > 1 else None
        self._features.add(name, field)

    def _judge(self, feature: Hashable, value: Any) -> None:
        """Look at a value of a category, which turns out to be a text where all differ."""
        if not isinstance(value, str):
            return
        seen = self._judged[feature]
        seen.append(value)
        if len(seen) == _JUDGED:
            del self._judged[feature]
            worded = sum(len(one.split()) > 1 for one in seen)
            if worded > _JUDGED // 2 and len(set(seen)) > 0.8 * _JUDGED:
                self._add((feature, "text"), feature, Field("text"))

    def _field(self, feature: Hashable, value: Any) -> Field:
        """Return what `feature` holds, by its first value."""
        if isinstance(value, str):
            if len(value.split()) >= _WORDS:
                return Field("text")
            if self._categories:
                return Field("category")
        elif isinstance(value, Real | np.bool_):
            return Field("number")
        elif isinstance(value, date):
            return Field("time")
        elif isinstance(value, list | tuple | np.ndarray) and _is_vector(value):
            return Field("vector", size=len(value))
        elif not isinstance(value, bytes) and _is_numeric(value):
            return Field("number")
        raise DataError(_advice(feature, value))


def _advice(feature: Hashable, value: Any) -> str:
    """Return what to do about a value that nothing can be learned from."""
    what = f"feature {feature!r} is {value!r}"
    if isinstance(value, str):
        return (
            f"{what}, and the estimator takes no categories: choose one with "
            "categorical_features, or encode it first, for example with "
            "compose.SelectType(str) | preprocessing.OneHotEncoder()"
        )
    if isinstance(value, list | tuple | set | frozenset):
        return (
            f"{what}: a list is learned where it holds numbers, always as many; join words to "
            "one text, or give a feature of its own to each value"
        )
    return (
        f"{what}, a {type(value).__name__}: give numbers, text, datetime, lists of numbers, or "
        "dictionaries of these; leave the feature out where it is missing"
    )


def _flat(x: Mapping[Hashable, Any], levels: int = _DEEPEST) -> dict[Hashable, Any]:
    """Return `x` with the values of dictionaries within it under names with dots.

    Of two ways to one name the longer key holds, in whatever order they stand.
    """
    flat: dict[Hashable, Any] = {}
    within = [feature for feature, value in x.items() if isinstance(value, Mapping)]
    for feature in sorted(within, key=lambda f: (len(str(f)), str(f), type(f).__name__)):
        if levels > 1:
            inner = _flat(x[feature], levels - 1)
            flat |= {f"{feature}.{name}": value for name, value in inner.items()}
    return flat | {f: value for f, value in x.items() if not isinstance(value, Mapping)}


def _is_vector(value: Any) -> bool:
    if isinstance(value, np.ndarray) and not value.ndim:
        return False
    return len(value) > 0 and all(isinstance(one, Real) for one in value)


def _is_numeric(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True
