"""Conversion of table cells to records in JSON."""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any

import msgspec

from streamboost.connectors.base import Message

_encoder = msgspec.json.Encoder(enc_hook=str)


def record_from_cells(cells: Iterable[tuple[str, str]]) -> dict[str, str | None]:
    """Return a record from (column name, text) pairs; empty text becomes None.

    The schema decides which cells are numbers (`messages.decoding`).

    >>> record_from_cells([("id", "07"), ("a", "1.5"), ("b", ""), ("c", "1e0")])
    {'id': '07', 'a': '1.5', 'b': None, 'c': '1e0'}
    """
    return {name: cell or None for name, cell in cells}


def message_from_row(
    record: Mapping[str, Any], partition: str, offset: int, max_bytes: int
) -> Message:
    """Return a table row as a JSON message at `offset`.

    A payload of more than `max_bytes` bytes is truncated to `max_bytes` + 1 bytes. Infinity is
    written as text, which is valid JSON: a value in an unused column must not make a record
    invalid. Bytes are written as text if they are UTF-8, else in base64.

    >>> message_from_row({"id": "7", "a": float("nan"), "b": float("inf")}, "0", 3, 1_000).payload
    b'{"id":"7","a":null,"b":"inf"}'
    """
    payload = _encoder.encode({name: _convert_for_json(value) for name, value in record.items()})
    return Message(payload[: max_bytes + 1], partition, offset, len(payload), is_row=True)


def _convert_for_json(value: Any) -> Any:
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        value = int(value) if exponent == 0 else float(value)
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode()
    return str(value) if isinstance(value, float) and math.isinf(value) else value
