"""The rows of records that were predicted, until their labels come."""

import marshal
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from streamboost.features.layout import Values

__all__ = ["Given"]

_FEW = 32
"""Numbers that are as short as they are, beside what a digest takes."""

_BY_VALUE = 2
"""The newest of marshal's formats that writes equal values alike, whoever else refers to them."""

_FLOATS = {float}

_Key = bytes | Values


class Given:
    """Remembers rows by what they were made of: labels may come long after predictions.

    River hands over the same features twice and says nothing else that would tell one record from
    another. Of equal records the first predicted is the first whose label comes. A record may be
    asked for its label and for its probabilities: records that are asked for something else at
    once, before any label, are the same.

    Parameters
    ----------
    size
        Records remembered; the oldest is forgotten first.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._rows: dict[_Key, list[tuple[np.ndarray, str]]] = {}
        self._count = 0
        self._total = 0
        self._newest: tuple[list[_Key], list[str], set[str]] = [], [], set()  # and what was asked

    def __len__(self) -> int:
        return self._count

    def note(self, values: Sequence[Values], rows: np.ndarray, asked: str) -> list[str]:
        """Remember that records were predicted by `rows` (n, D), and what was `asked`.

        Returns an id of each.
        """
        keys = [_key(values[0])] if len(values) == 1 else list(map(_key, values))
        newest, ids, asked_before = self._newest
        if keys == newest and asked not in asked_before:
            asked_before.add(asked)
            return ids
        ids = list(map(self._remember, keys, rows))
        self._newest = keys, ids, {asked}
        return ids

    def _remember(self, key: _Key, row: np.ndarray) -> str:
        self._total += 1
        id = str(self._total)
        self._rows.setdefault(key, []).append((row, id))
        self._count += 1
        if self._count > self._size:
            self._drop(next(iter(self._rows)))
        return id

    def take(self, values: Values) -> tuple[np.ndarray | None, str]:
        """Return, and forget, the row that a record was predicted by, and its id.

        None and no id where it is not known.
        """
        self._newest = [], [], set()
        return self._drop(_key(values))

    def _drop(self, key: _Key) -> tuple[np.ndarray | None, str]:
        """Forget the first of equal records, and return it."""
        equal = self._rows.get(key)  # looked up as seldom as can be: its hash takes all values
        if equal is None:
            return None, ""
        self._count -= 1
        if len(equal) == 1:
            del self._rows[key]
        return equal.pop(0)


def _key(values: Values) -> _Key:
    """Return what tells values from others, without those at the end that are missing, or joined.

    That is a digest, or a few floats themselves.
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
        written = "\0".join(map(_written, values)).encode()
    return blake2b(written, digest_size=16).digest()


def _written(value: Any) -> str:
    """Return all of a value; numpy would leave out digits, and the middle of what is long."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    try:
        return repr(value)
    except (ValueError, RecursionError):  # whole numbers of thousands of digits, lists in lists
        return type(value).__name__
