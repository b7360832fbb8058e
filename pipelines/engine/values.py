"""The values of records as they are held, and as arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.written import Time
from streamboost.features.layout import Values
from streamboost.features.paths import flat
from streamboost.features.words import LONGEST
from streamboost.storage import Arrays

__all__ = [
    "as_fields",
    "held_values",
    "packed",
    "unpacked",
    "values_from_arrays",
    "values_in_arrays",
    "whole_in",
    "whole_of",
]

_LONGEST_NESTED = 100_000
_NEVER_LONG = frozenset((float, int, bool, type(None)))


def packed(values: Values) -> bytes:
    """Return a record's values as JSON, without what of them is too long to be of use.

    >>> unpacked(packed((1.5, None, "a" * 20_000)))[2] == "a" * 10_000
    True
    """
    if not _NEVER_LONG.issuperset(map(type, values)):
        values = tuple([_kept(value) for value in values])
    return msgspec.json.encode(values)


def _kept(value: Any) -> Any:
    if isinstance(value, str):
        return value[:LONGEST]
    if isinstance(value, list | dict):
        try:
            return value if len(str(value)) <= _LONGEST_NESTED else None
        except RecursionError:  # it could be decoded, just
            return None
    return value


def held_values(records: Records) -> list[bytes | None]:
    """Return what is held of each record's values."""
    if records.values is None:
        return [None] * len(records)
    held = [packed(values) for values in records.values]
    if records.wholes is None:
        return list(held)
    return [b"\n".join(both) for both in zip(held, records.wholes, strict=True)]


def whole_of(record: Mapping[str, Any], time: Time) -> bytes:
    """Return a record and its time as JSON, on one line, without what is too long to be of use."""
    return msgspec.json.encode([{name: _kept(value) for name, value in record.items()}, time])


def whole_in(held: bytes) -> bytes | None:
    """Return the record that is held behind values, as `whole_of` told it; None: there is none."""
    return held.partition(b"\n")[2] or None


def as_fields(names: Sequence[str], held: bytes) -> dict[str, Any]:
    """Return what a record held, by its fields' names, before a transformer made others of it."""
    if (whole := whole_in(held)) is not None:
        return flat(msgspec.json.decode(whole)[0])
    return dict(zip(names, unpacked(held), strict=False))


def unpacked(held: bytes) -> Values:
    """Return the values that `packed` packed."""
    return tuple(msgspec.json.decode(held.partition(b"\n")[0]))


def values_in_arrays(values: Sequence[bytes | None]) -> Arrays:
    """Return values held, for `values_from_arrays`; nothing where no record has any."""
    if not any(one is not None for one in values):
        return {}
    return {
        "values": np.frombuffer(b"".join(filter(None, values)), dtype=np.uint8),
        "values.lengths": np.array([-1 if one is None else len(one) for one in values]),
    }


def values_from_arrays(arrays: Arrays, n: int) -> list[bytes | None]:
    """Return the values held of `n` records."""
    if "values" not in arrays:
        return [None] * n
    held, start = arrays["values"].tobytes(), 0
    values: list[bytes | None] = []
    for length in arrays["values.lengths"].tolist():
        values.append(held[start : start + length] if length >= 0 else None)
        start += max(length, 0)
    return values
