"""Vector encoder: lists of a fixed number of numbers, such as embeddings."""

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from streamboost.features.layout import ColumnEncoder, ColumnLayout, Values, is_missing

_LARGEST = float(np.finfo(np.float32).max)


class VectorEncoder(ColumnEncoder):
    """Encoder of a vector field, with one column for each of its `size` numbers."""

    def __init__(self, layout: ColumnLayout, name: Hashable, value_index: int, size: int) -> None:
        self._name = name
        self._value_index = value_index
        self.columns = [layout.add_column(f"{name}[{i}]") for i in range(size)]

    def write_columns(self, values: Sequence[Values], X: np.ndarray) -> Counter[Hashable]:
        """Write the vectors of n records into `X` (n, D), which is NaN before.

        Returns a mapping from field to the number of values that are not a list of `size` numbers.
        """
        unreadable: Counter[Hashable] = Counter()
        for value, row in zip(values, X, strict=True):
            given = value[self._value_index]
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
