"""Storage of records' field values, as JSON and as arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.outgoing import Time
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
    """Return a record's values as JSON, with long values truncated or dropped.

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
        except RecursionError:  # nested as deeply as can be decoded
            return None
    return value


def held_values(records: Records) -> list[bytes | None]:
    """Return the stored form of each record's values."""
    if records.values is None:
        return [None] * len(records)
    held = [packed(values) for values in records.values]
    if records.wholes is None:
        return list(held)
    return [b"\n".join(both) for both in zip(held, records.wholes, strict=True)]


def whole_of(record: Mapping[str, Any], time: Time) -> bytes:
    """Return a record and its time as JSON on one line, with long values truncated or dropped."""
    return msgspec.json.encode([{name: _kept(value) for name, value in record.items()}, time])


def whole_in(held: bytes) -> bytes | None:
    """Return the original record stored after values by `whole_of`, or None."""
    return held.partition(b"\n")[2] or None


def as_fields(names: Sequence[str], held: bytes) -> dict[str, Any]:
    """Return a record's fields by name, before a transformer changed them."""
    if (whole := whole_in(held)) is not None:
        return flat(msgspec.json.decode(whole)[0])
    return dict(zip(names, unpacked(held), strict=False))


def unpacked(held: bytes) -> Values:
    """Return the values that `packed` packed."""
    return tuple(msgspec.json.decode(held.partition(b"\n")[0]))


def values_in_arrays(values: Sequence[bytes | None]) -> Arrays:
    """Return stored values as arrays for `values_from_arrays`; empty if no record has any."""
    if not any(one is not None for one in values):
        return {}
    return {
        "values": np.frombuffer(b"".join(filter(None, values)), dtype=np.uint8),
        "values.lengths": np.array([-1 if one is None else len(one) for one in values]),
    }


def values_from_arrays(arrays: Arrays, n: int) -> list[bytes | None]:
    """Return the stored values of `n` records."""
    if "values" not in arrays:
        return [None] * n
    held, start = arrays["values"].tobytes(), 0
    values: list[bytes | None] = []
    for length in arrays["values.lengths"].tolist():
        values.append(held[start : start + length] if length >= 0 else None)
        start += max(length, 0)
    return values
