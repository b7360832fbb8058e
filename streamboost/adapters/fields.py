"""Conversion of River's feature dictionaries to field values, with inference of field types."""

from collections.abc import Callable, Hashable, Mapping
from datetime import date
from numbers import Real
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import numpy as np

from streamboost.errors import DataError
from streamboost.features import Features, Field
from streamboost.features.fields import as_field
from streamboost.features.layout import Values, is_missing

_WORDS = 4
"""Minimum number of words of a text; a feature with a shorter first value is a category."""

_DEEPEST = 8
"""Largest depth of nested dictionaries."""

_N_CHECKED = 20
"""After this number of values, a category is checked again: it may be a text."""


class FieldMapper:
    """Maps River's feature dictionaries to field values, and adds a field for each new feature.

    The type of a feature is inferred from its first value that is not missing: number (True and
    False are 1 and 0), text (four words or more), category, time, or vector (list of numbers).
    Features that first appear in the same record are sorted by type and name, so that results do
    not depend on the order inside a dictionary. Nested dictionaries are read by dotted names. If
    nearly all of the first 20 values of a category differ and have several words, the feature is a
    text from then on. Features in `named` have the type given there. If `categories` is False, no
    feature becomes a category, because the estimator does not support categories.
    """

    def __init__(
        self,
        features: Features,
        *,
        categories: bool,
        named: Mapping[Any, Field | str | Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        self._features = features
        self._categories = categories
        self._named = {feature: as_field(feature, given) for feature, given in named.items()}
        self._places: dict[Hashable, int] = {}  # index of the newest field of each feature
        self._feature: list[Hashable] = []  # the feature of each field
        self._first_values: dict[Hashable, list[str]] = {}  # the first values of categories
        self._plain: set[type] = set()  # types of values seen so far, without mappings
        self._all: Callable[[Mapping[Hashable, Any]], Values] | None = None

    def to_field_values(self, x: Mapping[Hashable, Any], *, add_missing: bool = False) -> Values:
        """Return the values of `x` in the order of the fields, None for missing values.

        With `add_missing`, a field is added for each new feature; without it, new features are
        ignored.

        Raises
        ------
        DataError
            When `add_missing`, and the value of a new feature is of no supported type.
        """
        types = {*map(type, x.values())}
        if not types <= self._plain:
            if any(issubclass(one, Mapping) for one in types):
                x = _flatten_dictionaries(x)
            else:
                self._plain |= types
        if add_missing:
            self._add_new_fields(x)
        if self._all is not None and type(x) is dict:  # subclasses may define `__missing__`
            try:
                return self._all(x)
            except KeyError:
                pass
        return tuple(map(x.get, self._feature))

    def _add_new_fields(self, x: Mapping[Hashable, Any]) -> None:
        if not x.keys() <= self._places.keys():
            new = {
                feature: self._infer_field(feature, value)
                for feature, value in x.items()
                if feature not in self._places and not is_missing(value)
            }
            for feature in sorted(new, key=lambda f: (type(f).__name__, str(f))):
                self._add_field(feature, feature, new[feature])
                if new[feature].kind == "category" and feature not in self._named:
                    self._first_values[feature] = []
        for feature in list(self._first_values):
            self._detect_text_category(feature, x.get(feature))

    def _add_field(self, name: Hashable, feature: Hashable, field: Field) -> None:
        self._places[feature] = len(self._feature)
        self._feature.append(feature)
        self._all = itemgetter(*self._feature) if len(self._feature) > 1 else None
        self._features.add_field(name, field)

    def _detect_text_category(self, feature: Hashable, value: Any) -> None:
        """Store a value of a category; once it has 20, add a text field if nearly all differ."""
        if not isinstance(value, str):
            return
        seen = self._first_values[feature]
        seen.append(value)
        if len(seen) == _N_CHECKED:
            del self._first_values[feature]
            worded = sum(len(one.split()) > 1 for one in seen)
            if worded > _N_CHECKED // 2 and len(set(seen)) > 0.8 * _N_CHECKED:
                self._add_field((feature, "text"), feature, Field("text"))

    def _infer_field(self, feature: Hashable, value: Any) -> Field:
        """Return the field type of `feature`: its type in `named`, else inferred from `value`."""
        named = self._named.get(feature)
        if named is not None and (self._categories or named.kind != "category"):
            return named
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
        raise DataError(_unsupported_value_message(feature, value))


def _unsupported_value_message(feature: Hashable, value: Any) -> str:
    """Return the error message for a feature whose value has an unsupported type."""
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


def _flatten_dictionaries(
    x: Mapping[Hashable, Any], max_depth: int = _DEEPEST
) -> dict[Hashable, Any]:
    """Return `x` as one flat dictionary, with the keys of nested dictionaries joined by dots.

    If two paths give the same name, as in `{"a.b": 1, "a": {"b": 2}}`, the value with the longer
    outer key is kept, here 1.
    """
    flat: dict[Hashable, Any] = {}
    within = [feature for feature, value in x.items() if isinstance(value, Mapping)]
    for feature in sorted(within, key=lambda f: (len(str(f)), str(f), type(f).__name__)):
        if max_depth > 1:
            inner = _flatten_dictionaries(x[feature], max_depth - 1)
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
