"""Pending rows: feature rows of predicted records, until their labels arrive."""

import marshal
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from streamboost.features.layout import Values

__all__ = ["PendingRows"]

_FEW = 32
"""Limit of values to be a key themselves; longer records are replaced by a digest."""

_BY_VALUE = 2
"""The newest marshal format that writes equal values equally, regardless of references."""

_FLOATS = {float}

_Key = bytes | Values


class PendingRows:
    """Stores the feature rows of predicted records by their values, until the labels arrive.

    River passes the same features twice, and no id of the record. Of equal records, the first
    predicted gets the first label. A record may be asked for its label and for its probabilities:
    consecutive calls for different outputs, before any label, count as the same record.

    Parameters
    ----------
    size
        Number of records stored; the oldest is evicted first.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._rows: dict[_Key, list[tuple[np.ndarray, str]]] = {}
        self._count = 0
        self._total = 0
        self._newest: tuple[list[_Key], list[str], set[str]] = [], [], set()  # and outputs asked

    def __len__(self) -> int:
        return self._count

    def put(self, values: Sequence[Values], rows: np.ndarray, output: str) -> list[str]:
        """Store the `rows` (n, D) from which the records `values` were predicted.

        `output` names the predicted output. Returns an id of each record.
        """
        keys = [_lookup_key(values[0])] if len(values) == 1 else list(map(_lookup_key, values))
        newest, ids, outputs = self._newest
        if keys == newest and output not in outputs:
            outputs.add(output)
            return ids
        ids = list(map(self._store_row, keys, rows))
        self._newest = keys, ids, {output}
        return ids

    def _store_row(self, key: _Key, row: np.ndarray) -> str:
        self._total += 1
        id = str(self._total)
        self._rows.setdefault(key, []).append((row, id))
        self._count += 1
        if self._count > self._size:
            self._pop_oldest(next(iter(self._rows)))
        return id

    def pop(self, values: Values) -> tuple[np.ndarray | None, str]:
        """Remove and return the row and id of a predicted record.

        Returns None and an empty id for an unknown record.
        """
        self._newest = [], [], set()
        return self._pop_oldest(_lookup_key(values))

    def _pop_oldest(self, key: _Key) -> tuple[np.ndarray | None, str]:
        """Remove and return the oldest row and id of this key; None and "" if absent."""
        equal = self._rows.get(key)  # one lookup: the hash covers all values
        if equal is None:
            return None, ""
        self._count -= 1
        if len(equal) == 1:
            del self._rows[key]
        return equal.pop(0)


def _lookup_key(values: Values) -> _Key:
    """Return the dictionary key of a record's values, without missing values at the end.

    The key is a digest, or a few floats themselves.
    """
    n = len(values)
    while n and values[n - 1] is None:
        n -= 1
    if n < len(values):
        values = values[:n]
    if n <= _FEW and {*map(type, values)} == _FLOATS:
        total = sum(values)
        if total == total:  # no NaN, which equals nothing
            return values
    try:
        written = marshal.dumps(values, _BY_VALUE)
    except ValueError:  # an object, or lists in lists
        written = "\0".join(map(_full_text, values)).encode()
    return blake2b(written, digest_size=16).digest()


def _full_text(value: Any) -> str:
    """Return the complete text of a value; numpy abbreviates digits and long arrays."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    try:
        return repr(value)
    except (ValueError, RecursionError):  # whole numbers of thousands of digits, lists in lists
        return type(value).__name__
