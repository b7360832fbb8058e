"""Dictionaries of features as rows of an array whose columns only ever grow in number."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from streamboost.errors import DataError

__all__ = ["Columns"]

_LARGEST = float(np.finfo(np.float32).max)


class Columns:
    """Gives every feature a column, in the order in which features are first learned.

    Features that come up together are sorted by type and name, so that the columns, and with
    them all results, do not depend on the order inside a dictionary.
    """

    def __init__(self) -> None:
        self._places: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def row(self, x: Mapping[Hashable, Any], *, grow: bool = False) -> np.ndarray:
        """Return `x` as float32 (1, D), NaN where it lacks a feature.

        Features without a column get one if `grow`, and are left out otherwise. A value that
        cannot be used raises DataError before anything has changed.
        """
        places = self._places
        numbers = {
            feature: _number(feature, value)
            for feature, value in x.items()
            if value is not None and (grow or feature in places)
        }
        if grow:
            self._add(x)
        return np.array([[numbers.get(f, np.nan) for f in places]], dtype=np.float32)

    def table(self, X: Any, *, grow: bool = False) -> np.ndarray:
        """Return the DataFrame `X` as float32 (n, D), by the same rules."""
        known = [feature for feature in X.columns if grow or feature in self._places]
        columns = {feature: _column(feature, X[feature]) for feature in known}
        if grow:
            self._add(known)
        table = np.full((len(X), len(self._places)), np.nan, dtype=np.float32)
        for feature, column in columns.items():
            table[:, self._places[feature]] = column
        return table

    def _add(self, features: Iterable[Hashable]) -> None:
        new = [feature for feature in features if feature not in self._places]
        for feature in sorted(new, key=lambda f: (type(f).__name__, str(f))):
            self._places[feature] = len(self._places)


def _column(feature: Hashable, values: Any) -> np.ndarray | list[float]:
    if values.dtype.kind in "biuf":
        column = values.to_numpy(dtype=np.float64, na_value=np.nan)
        if not (np.abs(column) > _LARGEST).any():
            return np.asarray(column)
    missing = values.isna()
    return [
        np.nan if gone else _number(feature, value)
        for value, gone in zip(values, missing, strict=True)
    ]


def _number(feature: Hashable, value: Any) -> float:
    """Return `value` as a float; True and False are 1 and 0."""
    if type(value) is float and -_LARGEST <= value <= _LARGEST:
        return value
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"feature {feature!r} is {value!r}, and only numbers can be learned from: encode it "
            "first, for example with compose.SelectType(str) | preprocessing.OneHotEncoder()"
        ) from None
    if abs(number) > _LARGEST:
        raise DataError(
            f"feature {feature!r} is {value!r}, infinite or too large for float32: give a finite "
            "number, or leave the feature out where it is missing"
        )
    return number
