"""Encoder of categories as codes and as class rates (target encoding), learned from labels."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from streamboost.features.layout import ColumnEncoder, ColumnLayout, Values, is_missing
from streamboost.storage import Arrays

MOST_VALUES = 65_536
"""Largest number of distinct values of a field that are counted. Further values are treated as
rare, so that values that occur only once cannot fill the memory."""

_SET = 253
"""Largest number of categories with their own code. Trees support 254 codes, one of which is shared
by all rare categories."""

_RARE = 0.0
_LONGEST = 256
_HUGE = 10**4_000  # Python does not format integers of more than 4,300 digits
_RATED_CLASSES = 16
"""Largest number of classes with a rate column. Only the first classes learned have one."""

_PRIOR = 10.0
"""Weight of the rate over all categories in a category's smoothed rate, as a number of labels."""


def as_category(value: Any) -> str | None:
    """Convert `value` to text; return "" if it is missing and None if it is not a category.

    >>> as_category("Paris"), as_category(7.0), as_category(True), as_category(["a"])
    ('Paris', '7', 'true', None)
    """
    if isinstance(value, str):
        return value[:_LONGEST]
    if is_missing(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        if not float(value).is_integer():
            return repr(float(value))
        value = int(value)
    if isinstance(value, int | np.integer):
        return str(value)[:_LONGEST] if abs(int(value)) < _HUGE else None
    return None


class CategoryEncoder(ColumnEncoder):
    """Encoder of a categorical field: a column of codes, and class rates for many categories.

    The first 253 values with `min_frequency` labels each get their own code. All other values share
    the code 0. If there are more than 253 such values, each class gets a column of target encoding:
    the running rate of the class among the labels of the value, shrunk towards the rate of all
    values (Micci-Barreca 2001). The rate of a record never includes its own label.

    `name` is the field's name, and `value_index` the index of its value in a record's values.
    """

    is_static = False

    def __init__(
        self, layout: ColumnLayout, name: Hashable, value_index: int, min_frequency: int
    ) -> None:
        self._layout = layout
        self._name = name
        self._value_index = value_index
        self._min_frequency = min_frequency
        self.columns = [layout.add_column(str(name), categorical=True)]
        self._rates: list[int] = []  # column indices of the class rates
        self._rows: dict[str, int] = {}  # row in the counts of each value
        self._codes: list[float] = []  # by row
        self._labels: list[int] = []  # number of labels by row, also of classes without a rate
        self._numbered = 0
        self._counts = np.zeros((16, 2), dtype=np.float32)
        self._totals = np.zeros(_RATED_CLASSES)  # of the counts
        self._classes: list[Hashable] = []

    def write_columns(self, values: Sequence[Values], X: np.ndarray) -> Counter[Hashable]:
        """Write n records into `X` (n, D); return each field's number of unreadable values."""
        unreadable: Counter[Hashable] = Counter()
        rows, codes, index, column = self._rows, self._codes, self._value_index, self.columns[0]
        for i, value in enumerate(values):
            given = value[index]
            text = given if type(given) is str and len(given) < _LONGEST else as_category(given)
            if text is None:
                unreadable[self._name] += 1
            elif text:
                known = rows.get(text)
                X[i, column] = _RARE if known is None else codes[known]
                if self._rates:
                    X[i, self._rates] = self._class_rates(known)
        return unreadable

    def _class_rates(self, row: int | None) -> np.ndarray:
        """Return the smoothed rate of each class with a rate column, for the labels of a category.

        `row` is the index of the category in the table of counts; None: a new category.
        """
        n = len(self._rates)
        overall = self._totals[:n] + 1.0
        prior = overall / overall.sum() * _PRIOR
        counts = 0.0 if row is None else self._counts[row, :n]
        return np.asarray((counts + prior) / (np.sum(counts) + _PRIOR))

    def learn(self, values: Values, class_index: int) -> None:
        """Update the state with a labelled record of class `class_index`."""
        text = as_category(values[self._value_index])
        if not text:
            return
        row = self._rows.get(text)
        if row is None:
            if len(self._rows) >= MOST_VALUES:
                return
            row = self._rows[text] = len(self._rows)
            self._codes.append(_RARE)
            self._labels.append(0)
            if row == len(self._counts):
                self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._labels[row] += 1
        if class_index < self._counts.shape[1]:
            self._counts[row, class_index] += 1.0
            self._totals[class_index] += 1.0
        if self._codes[row] == _RARE and self._labels[row] >= self._min_frequency:
            self._assign_category_code(row)

    def correct_label(self, values: Values, old_class: int | None, new_class: int | None) -> None:
        """Move one count of the record's category from class index `old_class` to `new_class`.

        None means no label: nothing is subtracted, or nothing is added.
        """
        row = self._rows.get(as_category(values[self._value_index]) or "")
        if row is None:
            return
        self._labels[row] += (old_class is None) - (new_class is None)
        for one, step in ((old_class, -1.0), (new_class, 1.0)):
            if one is not None and one < self._counts.shape[1]:
                self._counts[row, one] += step
                self._totals[one] += step

    def rename_or_remove_class(self, class_index: int, into: int | None) -> None:
        """Merge the class of index `class_index` into that of index `into`; None removes it."""
        n = self._counts.shape[1]
        if class_index >= n:
            return
        if into is not None and into < n:
            self._counts[:, into] += self._counts[:, class_index]
            self._totals[into] += self._totals[class_index]
        self._counts[:, class_index] = 0.0
        self._totals[class_index] = 0.0

    def _assign_category_code(self, row: int) -> None:
        """Assign a code to the category at index `row`.

        If no code is free, the columns of class rates are added.
        """
        if self._numbered < _SET:
            self._numbered += 1
            self._codes[row] = float(self._numbered)
        elif not self._rates:
            self._add_rate_columns()

    def _add_rate_columns(self) -> None:
        for label in self._classes[len(self._rates) : _RATED_CLASSES]:
            self._rates.append(self._layout.add_column(f"{self._name}: rate of {label}"))

    def set_classes(self, classes: Sequence[Hashable]) -> None:
        """Set the known classes, in the order of their first label: new classes are at the end."""
        self._classes = list(classes)
        wanted = min(len(classes), _RATED_CLASSES)
        if wanted > self._counts.shape[1]:
            wider = np.zeros((len(self._counts), wanted), dtype=np.float32)
            wider[:, : self._counts.shape[1]] = self._counts
            self._counts = wider
        if self._rates:
            self._add_rate_columns()

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        state = {
            "column": self.columns[0],
            "values": list(self._rows),
            "codes": self._codes,
            "labels": self._labels,
            "numbered": self._numbered,
            "rates": self._rates,
            "classes": self._classes,
        }
        return state, {"counts": self._counts[: len(self._rows)].copy()}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        self.columns = [state["column"]]
        self._rows = {value: row for row, value in enumerate(state["values"])}
        self._codes = list(state["codes"])
        self._labels = list(state["labels"])
        self._numbered = state["numbered"]
        self._rates = list(state["rates"])
        self._classes = list(state["classes"])
        counts = arrays["counts"]
        self._counts = np.zeros((max(16, len(counts)), counts.shape[1]), dtype=np.float32)
        self._counts[: len(counts)] = counts
        self._totals[: counts.shape[1]] = counts.sum(axis=0, dtype=np.float64)
