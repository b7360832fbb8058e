"""Names and kinds of the feature columns, and the base class of the column encoders."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from streamboost.storage import Arrays

Values = tuple[Any, ...]
"""Raw values of a record, in the order of the fields; None for a missing value."""

ALL_READ: Counter[Hashable] = Counter()
"""Result of `ColumnEncoder.write_columns` without unreadable values; do not modify it."""


def is_missing(value: Any) -> bool:
    """Return True if `value` is missing: None, empty text, NaN, or pandas' NaT or NA."""
    if isinstance(value, str):
        return not value.strip()
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # the comparison of an array is an array, that of pandas' NA NA
        return not hasattr(value, "__len__")


class ColumnLayout:
    """Names and kinds of all columns; columns are appended, never removed or reordered.

    `categorical` has the indices of the categorical columns.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.categorical: list[int] = []

    def __len__(self) -> int:
        return len(self.names)

    def add_column(self, name: str, *, categorical: bool = False) -> int:
        """Append a column and return its index."""
        self.names.append(name)
        if categorical:
            self.categorical.append(len(self.names) - 1)
        return len(self.names) - 1


class ColumnEncoder:
    """Base class of encoders; an encoder computes the columns of one or more fields.

    Attributes
    ----------
    columns
        Indices of the columns of this encoder.
    """

    is_static: ClassVar[bool] = True
    """Whether the meaning of the columns is independent of learned labels."""

    is_stateful: ClassVar[bool] = False
    """Whether the columns depend on earlier records."""

    columns: list[int]

    def write_columns(self, values: Sequence[Values], X: np.ndarray) -> Counter[Hashable]:
        """Write this encoder's columns of n records into `X` (n, D), which is NaN before.

        Returns a mapping from field to the number of values that are not of the field's type.
        """
        raise NotImplementedError

    def observe(self, values: Values) -> None:
        """Update the state with an arriving record, whose columns are computed already."""

    def learn(self, values: Values, class_index: int) -> None:
        """Update the state with a labelled record of class `class_index`."""

    def correct_label(self, values: Values, old_class: int | None, new_class: int | None) -> None:
        """Replace a record's class index `old_class` by `new_class`; None means no label.

        Counts of the earlier label are subtracted. Models that cannot subtract learn the corrected
        label as another example.
        """

    def rename_or_remove_class(self, class_index: int, into: int | None) -> None:
        """Merge the class of index `class_index` into that of index `into`; None removes it."""

    def set_classes(self, classes: Sequence[Hashable]) -> None:
        """Set the known classes, in the order of their first label: new classes are at the end."""

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        return {"columns": self.columns}, {}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        self.columns = list(state["columns"])
