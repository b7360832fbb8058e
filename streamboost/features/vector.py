"""Vectors: lists of so many numbers, such as an embedding."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from streamboost.features.layout import Layout, Values, is_missing
from streamboost.storage import Arrays

__all__ = ["Vectors"]

_LARGEST = float(np.finfo(np.float32).max)


class Vectors:
    """Gives one field a column for each of its `size` numbers."""

    def __init__(self, layout: Layout, name: Hashable, place: int, size: int) -> None:
        self._name = name
        self._place = place
        self.columns = [layout.take(f"{name}[{i}]") for i in range(size)]

    def note(self, value: Values) -> None:
        """Vectors depend on nothing else."""

    def fill(self, values: Sequence[Values], X: np.ndarray) -> Counter[Hashable]:
        """See `Maker`; a list of another length, or with something else in it, is unreadable."""
        unreadable: Counter[Hashable] = Counter()
        for value, row in zip(values, X, strict=True):
            given = value[self._place]
            if is_missing(given):
                continue
            try:
                vector = np.asarray(given, dtype=np.float64)
            except (TypeError, ValueError, OverflowError):
                vector = np.empty(0)
            if vector.shape != (len(self.columns),) or (np.abs(vector) > _LARGEST).any():
                unreadable[self._name] += 1
            else:
                row[self.columns] = vector
        return unreadable

    def learn(self, value: Values, k: int) -> None:
        """Labels teach nothing about vectors."""

    def grow(self, classes: Sequence[Hashable]) -> None:
        """A vector is a vector, whatever the classes."""

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """See `Maker`."""
        return {"columns": self.columns}, {}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """See `Maker`."""
        self.columns = list(state["columns"])
