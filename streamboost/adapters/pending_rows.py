"""Pending rows: feature rows of predicted records, until their labels arrive."""

import marshal
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from streamboost.features.layout import Values

_SHORT = 320
"""Up to this number of bytes, written values are a dictionary key; others are digested."""

_BY_VALUE = 2
"""The newest marshal format that writes equal values equally, regardless of references."""


class PendingRows:
    """Stores the feature rows of predicted records until their labels arrive.

    River passes the features of a record twice, to predict and to learn, but no record id. So rows
    are found by the values of the record. If several records have equal values, the first label
    belongs to the record predicted first. Consecutive predictions of different outputs, such as
    label and probabilities, for equal values belong to one record.

    Parameters
    ----------
    size
        Largest number of records stored; the oldest is evicted first.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        # A dictionary would search for its first key among the entries that were removed.
        self._rows: OrderedDict[bytes, list[tuple[np.ndarray, str]]] = OrderedDict()
        self._count = 0
        self._total = 0
        # Keys, ids and outputs of the last `put`.
        self._newest: tuple[list[bytes], list[str], set[str]] = [], [], set()

    def __len__(self) -> int:
        return self._count

    def put(self, values: Sequence[Values], rows: np.ndarray, output: str) -> list[str]:
        """Store the feature `rows` (n, D) of n predicted records, given their field `values`.

        `output` is the name of the predicted quantity, such as "label". Returns an id for each
        record, new unless the last call had the same values and another output.
        """
        keys = [_lookup_key(values[0])] if len(values) == 1 else list(map(_lookup_key, values))
        newest, ids, outputs = self._newest
        if keys == newest and output not in outputs:
            outputs.add(output)
            return ids
        ids = list(map(self._store_row, keys, rows))
        self._newest = keys, ids, {output}
        return ids

    def _store_row(self, key: bytes, row: np.ndarray) -> str:
        self._total += 1
        id = str(self._total)
        self._rows.setdefault(key, []).append((row, id))
        self._count += 1
        if self._count > self._size:
            self._pop_oldest_row(next(iter(self._rows)))
        return id

    def pop(self, field_values: Values) -> tuple[np.ndarray | None, str]:
        """Remove and return the feature row and id of the oldest record with these field values.

        Returns None and "" if no such record is stored.
        """
        self._newest = [], [], set()
        return self._pop_oldest_row(_lookup_key(field_values))

    def _pop_oldest_row(self, key: bytes) -> tuple[np.ndarray | None, str]:
        """Remove and return the oldest feature row and id under `key`; None and "" if absent."""
        equal = self._rows.get(key)  # one lookup: the hash covers all values
        if equal is None:
            return None, ""
        self._count -= 1
        if len(equal) == 1:
            del self._rows[key]
        return equal.pop(0)


def _lookup_key(values: Values) -> bytes:
    """Return a record's values as bytes, or if they are long, their digest.

    Missing values at the end do not matter.
    """
    n = len(values)
    while n and values[n - 1] is None:
        n -= 1
    if n < len(values):
        values = values[:n]
    try:
        written = marshal.dumps(values, _BY_VALUE)
    except ValueError:  # an object, or lists in lists
        written = "\0".join(map(_unabbreviated_repr, values)).encode()
    return written if len(written) <= _SHORT else blake2b(written, digest_size=16).digest()


def _unabbreviated_repr(value: Any) -> str:
    """Return `repr` of a value, with all elements and digits of arrays.

    If a value has no `repr`, the name of its type is returned.
    """
    value = value.tolist() if isinstance(value, np.ndarray) else value
    try:
        return repr(value)
    except (ValueError, RecursionError):  # whole numbers of thousands of digits, lists in lists
        return type(value).__name__
