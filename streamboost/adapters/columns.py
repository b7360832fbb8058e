"""Dictionaries of features as rows of an array whose columns only ever grow in number."""

from collections.abc import Hashable, Mapping
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from streamboost.errors import DataError

__all__ = ["MOST_CATEGORIES", "Columns"]

MOST_CATEGORIES = 65_536
"""Texts told apart in one feature; later ones are missing, so that names that never come again
cannot fill the memory."""

_LARGEST = float(np.finfo(np.float32).max)
_NAN = float("nan")

_COLLISION = (
    "; where words of a BagOfWords may bear the names of fields, put compose.Prefixer behind it"
)


class Columns:
    """Gives every feature a column, in the order in which features are first learned.

    Features that come up together are sorted by type and name, so that the columns, and with
    them all results, do not depend on the order inside a dictionary. What a feature's first value
    is settles what it holds: numbers (True and False are 1 and 0), or text, whose values are
    categories, numbered from 0 as they are learned. None and NaN are missing values, and a feature
    without any other value has no column yet.

    Parameters
    ----------
    text
        Whether text may be categories; else it is refused.
    """

    def __init__(self, *, text: bool = True) -> None:
        self._text = text
        self._places: dict[Hashable, int] = {}
        self._codes: dict[Hashable, dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self._places)

    @property
    def categorical(self) -> list[int]:
        """The columns of categories, ascending."""
        return sorted(self._places[feature] for feature in self._codes)

    def row(self, x: Mapping[Hashable, Any], *, grow: bool = False) -> np.ndarray:
        """Return `x` as float32 (1, D), NaN where it lacks a feature.

        Features without a column, and texts without a number, get one if `grow`, and a value that
        cannot be used raises DataError before anything has changed. Else all these are missing: no
        record is such that it cannot be predicted.
        """
        if grow:
            self._grow(x)
        places, codes = self._places, self._codes
        row = [_NAN] * len(places)
        for feature, value in x.items():
            place = places.get(feature)
            if place is None:
                continue
            if type(value) is float and -_LARGEST <= value <= _LARGEST and feature not in codes:
                row[place] = value
            else:
                row[place] = (self._read if grow else self._known)(feature, value)
        return np.array([row], dtype=np.float32)

    def table(self, X: Any) -> np.ndarray:
        """Return the DataFrame `X` as float32 (n, D), by the rules of records not learned."""
        frame = nw.from_native(X, eager_only=True)
        table = np.full((len(frame), len(self._places)), np.nan, dtype=np.float32)
        for feature, values in zip(frame.columns, frame.iter_columns(), strict=True):
            if (place := self._places.get(feature)) is not None:
                table[:, place] = self._column(feature, values)
        return table

    def _grow(self, x: Mapping[Hashable, Any]) -> None:
        """Give columns and numbers to what has none yet, if all of `x` can be used."""
        if self._codes or not x.keys() <= self._places.keys():
            present = {f: v for f, v in x.items() if not _is_missing(v)}
            new = {feature for feature in present if feature not in self._places}
            for feature, value in present.items():
                if feature not in new or not (self._text and isinstance(value, str)):
                    self._read(feature, value)
            for feature in sorted(new, key=lambda f: (type(f).__name__, str(f))):
                self._places[feature] = len(self._places)
                if isinstance(present[feature], str):
                    self._codes[feature] = {}
            for feature in self._codes.keys() & present.keys():
                codes = self._codes[feature]
                if len(codes) < MOST_CATEGORIES:
                    codes.setdefault(str(present[feature]), len(codes))

    def _read(self, feature: Hashable, value: Any) -> float:
        """Return the number for a feature's value, NaN where it is missing or an unknown text."""
        if feature not in self._codes:
            return _NAN if value is None else _number(feature, value)
        if isinstance(value, str):
            return self._codes[feature].get(value, _NAN)
        if _is_missing(value):
            return _NAN
        raise DataError(
            f"feature {feature!r} is {value!r}, and was text before: keep to one kind, such as "
            f"{str(value)!r}, or give None where the value is missing{_COLLISION}"
        )

    def _known(self, feature: Hashable, value: Any) -> float:
        """Return the number for a feature's value, NaN where it cannot be used."""
        try:
            return self._read(feature, value)
        except DataError:
            return _NAN

    def _column(self, feature: Hashable, values: nw.Series[Any]) -> np.ndarray | list[float]:
        if values.dtype.is_numeric() or values.dtype == nw.Boolean:
            if feature in self._codes:
                return np.full(len(values), np.nan)
            column = values.cast(nw.Float64).to_numpy()
            return np.where(np.abs(column) > _LARGEST, np.nan, column)
        missing = values.is_null().to_list()
        return [
            _NAN if gone else self._known(feature, value)
            for value, gone in zip(values.to_list(), missing, strict=True)
        ]


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return False  # what it is, and why it cannot be used, shows when it is read


def _number(feature: Hashable, value: Any) -> float:
    """Return `value` as a float; True and False are 1 and 0."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"feature {feature!r} is {value!r}, and only numbers can be learned from here: encode "
            "it first, for example with compose.SelectType(str) | preprocessing.OneHotEncoder(); "
            "text from a feature's first record on is learned as categories, if the estimator has "
            f"categorical_features{_COLLISION}"
        ) from None
    if abs(number) > _LARGEST:
        raise DataError(
            f"feature {feature!r} is {value!r}, infinite or too large for float32: give a finite "
            "number, or leave the feature out where it is missing"
        )
    return number
