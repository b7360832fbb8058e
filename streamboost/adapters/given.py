"""The rows of records that were predicted, until their labels come."""

from hashlib import blake2b
from typing import Any

import numpy as np

from streamboost.features.layout import Values

__all__ = ["Given"]


class Given:
    """Remembers rows by what they were made of: labels may come long after predictions.

    River hands over the same features twice and says nothing else that would tell one record from
    another. Of equal records the first predicted is the first whose label comes.

    Parameters
    ----------
    size
        Records remembered; the oldest is forgotten first.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._rows: dict[bytes, list[tuple[np.ndarray, str]]] = {}
        self._count = 0
        self._total = 0

    def __len__(self) -> int:
        return self._count

    def note(self, values: Values, row: np.ndarray) -> str:
        """Remember that a record of `values` was predicted by its `row` (D,); return an id."""
        self._total += 1
        id = str(self._total)
        self._rows.setdefault(_key(values), []).append((row, id))
        self._count += 1
        if self._count > self._size:
            self._drop(next(iter(self._rows)), 1)
        return id

    def take(self, values: Values) -> tuple[np.ndarray | None, str]:
        """Return, and forget, the row that a record was predicted by, and its id.

        None and no id where it is not known.
        """
        key = _key(values)
        noted = self._rows.get(key)
        if noted is None:
            return None, ""
        row, id = noted[0]
        # A record may have been asked for its label and for its probabilities.
        others = (i for i, (other, _) in enumerate(noted) if other.tobytes() != row.tobytes())
        self._drop(key, next(others, len(noted)))
        return row, id

    def _drop(self, key: bytes, n: int) -> None:
        self._count -= n
        del self._rows[key][:n]
        if not self._rows[key]:
            del self._rows[key]


def _key(values: Values) -> bytes:
    """Return a digest of the values, without those at the end that are missing or joined later."""
    n = len(values)
    while n and values[n - 1] is None:
        n -= 1
    return blake2b("\0".join(map(_written, values[:n])).encode(), digest_size=16).digest()


def _written(value: Any) -> str:
    """Return all of a value; numpy would leave out digits, and the middle of what is long."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    try:
        return repr(value)
    except (ValueError, RecursionError):  # whole numbers of thousands of digits, lists in lists
        return type(value).__name__
