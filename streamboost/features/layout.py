"""The columns that fields become, and what makes them."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from streamboost.storage import Arrays

__all__ = ["ALL_READ", "Layout", "Maker", "Values", "is_missing"]

Values = tuple[Any, ...]
"""A record's values as they came, in the order of the fields; None where one is missing."""

ALL_READ: Counter[Hashable] = Counter()
"""What `Maker.fill` returns where every value could be read; nobody writes to it."""


def is_missing(value: Any) -> bool:
    """Tell whether a value of whatever kind is none: None, empty text, NaN, pandas' NaT or NA."""
    if isinstance(value, str):
        return not value.strip()
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # that of an array is another array, that of pandas' NA is NA
        return not hasattr(value, "__len__")


class Layout:
    """The columns there are: they join at the end, and never leave or move."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.categorical: list[int] = []

    def __len__(self) -> int:
        return len(self.names)

    def take(self, name: str, *, categorical: bool = False) -> int:
        """Return the place of a new column."""
        self.names.append(name)
        if categorical:
            self.categorical.append(len(self.names) - 1)
        return len(self.names) - 1


class Maker:
    """Makes the columns of one or more fields of a kind.

    Attributes
    ----------
    columns
        Those that it fills.
    """

    steady: ClassVar[bool] = True
    """Whether its columns mean the same whatever is learned."""

    moving: ClassVar[bool] = False
    """Whether its columns depend on the records that arrived before."""

    columns: list[int]

    def fill(self, values: Sequence[Values], X: np.ndarray) -> Counter[Hashable]:
        """Write the columns of records into `X` (n, D), NaN before.

        Returns how many values of each field could not be read.
        """
        raise NotImplementedError

    def note(self, value: Values) -> None:
        """Take in that a record arrived, after its columns were made."""

    def learn(self, value: Values, k: int) -> None:
        """Learn that a record is of class number `k`."""

    def correct(self, value: Values, before: int | None, k: int | None) -> None:
        """Learn that a record is not of class number `before`, but of `k`; None: of no known class.

        What can be subtracted is; the rest learns it as one more example.
        """

    def rename(self, before: int, k: int | None) -> None:
        """Let class number `before` be `k`, or none."""

    def grow(self, classes: Sequence[Hashable]) -> None:
        """Let these be the classes, in the order first learned; more join behind."""

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all that changes: one part as JSON can hold it, the other as arrays."""
        return {"columns": self.columns}, {}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned."""
        self.columns = list(state["columns"])
