"""Storage of the field values of records, as JSON or in arrays."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.outgoing import Time
from streamboost.features.layout import Values
from streamboost.features.paths import flatten
from streamboost.features.words import LONGEST
from streamboost.storage import Arrays

_LONGEST_NESTED = 100_000
_NEVER_LONG = frozenset((float, int, bool, type(None)))


def encode_values(values: Values) -> bytes:
    """Encode a record's values as a JSON array; long text is truncated, long lists become None.

    >>> decode_values(encode_values((1.5, None, "a" * 20_000)))[2] == "a" * 10_000
    True
    """
    if not _NEVER_LONG.issuperset(map(type, values)):
        values = tuple([_truncate_long_value(value) for value in values])
    return msgspec.json.encode(values)


def _truncate_long_value(value: Any) -> Any:
    if isinstance(value, str):
        return value[:LONGEST]
    if isinstance(value, list | dict):
        try:
            return value if len(str(value)) <= _LONGEST_NESTED else None
        except RecursionError:  # nested as deeply as can be decoded
            return None
    return value


def encode_values_of_records(records: Records) -> list[bytes | None]:
    """Return the encoded values of each record; None for each if the schema is a list of numbers.

    If a transformer computed the values, the encoded original record follows on a second line.
    """
    if records.values is None:
        return [None] * len(records)
    types = {*map(type, chain.from_iterable(records.values))}
    encode = msgspec.json.encode if types <= _NEVER_LONG else encode_values
    held = list(map(encode, records.values))
    if records.wholes is None:
        return list(held)
    return [b"\n".join(both) for both in zip(held, records.wholes, strict=True)]


def encode_original_record(record: Mapping[str, Any], time: Time) -> bytes:
    """Encode a record, as it was before a transformer, and its time as one line of JSON."""
    return msgspec.json.encode(
        [{name: _truncate_long_value(value) for name, value in record.items()}, time]
    )


def extract_original_record(stored_values: bytes) -> bytes | None:
    """Return the encoded original record that is part of `stored_values`; None if it is missing."""
    return stored_values.partition(b"\n")[2] or None


def decode_fields(names: Sequence[str], stored_values: bytes) -> dict[str, Any]:
    """Return a mapping from field name to value, as before a transformer, from stored values."""
    if (whole := extract_original_record(stored_values)) is not None:
        return flatten(msgspec.json.decode(whole)[0])
    return dict(zip(names, decode_values(stored_values), strict=False))


def decode_values(stored_values: bytes) -> Values:
    """Decode the result of `encode_values` to a tuple."""
    return tuple(msgspec.json.decode(stored_values.partition(b"\n")[0]))


def values_to_arrays(values: Sequence[bytes | None]) -> Arrays:
    """Convert stored values to arrays, the inverse of `values_from_arrays`; {} if all None."""
    if not any(one is not None for one in values):
        return {}
    return {
        "values": np.frombuffer(b"".join(filter(None, values)), dtype=np.uint8),
        "values.lengths": np.array([-1 if one is None else len(one) for one in values]),
    }


def values_from_arrays(arrays: Arrays, n: int) -> list[bytes | None]:
    """Return the stored values of `n` records from the result of `values_to_arrays`."""
    if "values" not in arrays:
        return [None] * n
    held, start = arrays["values"].tobytes(), 0
    values: list[bytes | None] = []
    for length in arrays["values.lengths"].tolist():
        values.append(held[start : start + length] if length >= 0 else None)
        start += max(length, 0)
    return values
