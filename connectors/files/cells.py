"""Conversion of table cells to records in JSON."""

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from streamboost.connectors.base import Message

__all__ = ["as_message", "from_text"]

_encoder = msgspec.json.Encoder(enc_hook=str)


def from_text(cells: Iterable[tuple[str, str]]) -> dict[str, str | None]:
    """Return a record of named text cells, with null for empty cells.

    The schema decides which cells are numbers (`messages.decoding`).

    >>> from_text([("id", "07"), ("a", "1.5"), ("b", ""), ("c", "1e0")])
    {'id': '07', 'a': '1.5', 'b': None, 'c': '1e0'}
    """
    return {name: cell or None for name, cell in cells}


def as_message(record: Mapping[str, Any], partition: str, offset: int, max_bytes: int) -> Message:
    """Return a record as the message at `offset`, truncated to `max_bytes` + 1 bytes.

    Infinity is written as text, because JSON does not support it: an unused column must not make a
    record invalid.

    >>> as_message({"id": "7", "a": float("nan"), "b": float("inf")}, "0", 3, 1_000).payload
    b'{"id":"7","a":null,"b":"inf"}'
    """
    payload = _encoder.encode({name: _to_json(value) for name, value in record.items()})
    return Message(payload[: max_bytes + 1], partition, offset, len(payload), is_row=True)


def _to_json(value: Any) -> Any:
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        value = int(value) if exponent == 0 else float(value)
    return str(value) if isinstance(value, float) and math.isinf(value) else value
