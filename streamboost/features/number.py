"""Number encoder: numbers, numbers as text, and booleans as 1 and 0."""

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from streamboost.features.layout import ALL_READ, ColumnEncoder, ColumnLayout, Values, is_missing

_LARGEST = float(np.finfo(np.float32).max)
_NAN = float("nan")
_WRITTEN = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_NOT_A_NUMBER = re.compile(r"[-+]?nan", re.IGNORECASE)
_NUMBERS = {float, int}


def as_number(value: Any) -> float | None:
    """Convert `value` to a float; return NaN if it is missing and None if it is not a number.

    Text must be a number in decimal digits, with an optional exponent; `nan` is missing. Other
    numbers that Python reads are rejected: `1_000`, digits of other scripts, `infinity`.

    >>> as_number(" 75.29"), as_number(True), as_number(""), as_number("dear")
    (75.29, 1.0, nan, None)
    >>> as_number("nan"), as_number("1_000"), as_number("inf")
    (nan, None, None)
    """
    if is_missing(value):
        return _NAN
    if isinstance(value, str):
        text = value.strip()
        if _NOT_A_NUMBER.fullmatch(text):
            return _NAN
        if not _WRITTEN.fullmatch(text):
            return None
        value = text
    try:
        number = float(np.float64(value) if isinstance(value, np.generic) else value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if abs(number) > _LARGEST else number


class NumberEncoder(ColumnEncoder):
    """Encoder of all number fields; each field has one column."""

    def __init__(self, layout: ColumnLayout) -> None:
        self._layout = layout
        self._names: list[Hashable] = []
        self._value_indices: list[int] = []  # indices in a record's values
        self.columns: list[int] = []

    def add_field(self, name: Hashable, value_index: int) -> None:
        """Add the field at index `value_index` of a record's values."""
        self._names.append(name)
        self._value_indices.append(value_index)
        self.columns.append(self._layout.add_column(str(name)))

    def write_columns(self, values: Sequence[Values], X: np.ndarray) -> Counter[Hashable]:
        """Write n records into `X` (n, D); return each field's number of unreadable values."""
        places = self._value_indices
        if not places:
            return ALL_READ
        rows: Sequence[Sequence[Any]] = values
        if len(values) and len(places) < len(values[0]):
            rows = [[value[value_index] for value_index in places] for value in values]
        first, end = self.columns[0], self.columns[-1] + 1
        together = slice(first, end) if end - first == len(places) else self.columns
        if len(rows) == 1 and _are_float32(rows[0]):
            X[0, together] = rows[0]
            return ALL_READ
        if not _contains_text(rows):
            try:
                table = np.array(rows, dtype=np.float64)
                if table.ndim <= 2 and not (np.abs(table) > _LARGEST).any():
                    X[:, together] = table.reshape(len(rows), len(places))
                    return ALL_READ
            except (TypeError, ValueError, OverflowError):
                pass  # at least one value is not a number
        unreadable: Counter[Hashable] = Counter()
        for row, out in zip(rows, X, strict=True):
            for name, column, value in zip(self._names, self.columns, row, strict=True):
                number = as_number(value)
                if number is None:
                    unreadable[name] += 1
                else:
                    out[column] = number
        return unreadable


def _contains_text(rows: Sequence[Sequence[Any]]) -> bool:
    """Return True if any value in `rows` is text.

    Text is read by `as_number`, since numpy reads more texts as numbers.
    """
    return any(issubclass(kind, str) for kind in {*map(type, chain.from_iterable(rows))})


def _are_float32(row: Sequence[Any]) -> bool:
    """Return True if all values in `row` are floats or whole numbers in the range of float32.

    The check is fast, but also False if the first value is NaN. If it is False, the caller converts
    the values with numpy.
    """
    return {*map(type, row)} <= _NUMBERS and min(row) >= -_LARGEST and max(row) <= _LARGEST
