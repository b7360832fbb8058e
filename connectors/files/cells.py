"""From the cells of a table to a record in JSON."""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from streamboost.connectors.base import Message

__all__ = ["as_message", "from_text"]

_WHOLE = re.compile(r"-?\d{1,18}")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_INFINITE = {sign + word for sign in ("", "+", "-") for word in ("inf", "infinity")}
_BEYOND = msgspec.Raw(b"1e999")
"""JSON has no infinity: a number beyond all floats, which a schema refuses as one."""

_encoder = msgspec.json.Encoder(enc_hook=str)


def from_text(cells: Iterable[tuple[str, str]], text: Collection[str]) -> dict[str, Any]:
    """Return the record that named cells of text hold.

    Cells of the columns in `text` stay text, and are null where empty. In the others an empty cell
    and `nan` are null, what reads as a number is one, and the rest is text.

    >>> from_text([("id", "07"), ("a", "1.5"), ("b", "NaN"), ("c", " 2 "), ("d", "red")], {"id"})
    {'id': '07', 'a': 1.5, 'b': None, 'c': 2, 'd': 'red'}
    """
    return {name: (cell or None) if name in text else _value(cell) for name, cell in cells}


def _value(cell: str) -> Any:
    stripped = cell.strip()
    word = stripped.lower()
    if word in ("", "nan"):
        return None
    if word in _INFINITE:
        return math.inf
    if _WHOLE.fullmatch(stripped):
        return int(stripped)
    return float(stripped) if _NUMBER.fullmatch(stripped) else cell


def as_message(record: Mapping[str, Any], partition: str, offset: int, max_bytes: int) -> Message:
    """Return a record as the message at `offset`, of which at most `max_bytes` + 1 are kept.

    >>> as_message({"id": "7", "a": float("nan"), "b": float("inf")}, "0", 3, 1_000).payload
    b'{"id":"7","a":null,"b":1e999}'
    """
    payload = _encoder.encode({name: _in_json(value) for name, value in record.items()})
    return Message(payload[: max_bytes + 1], partition, offset, len(payload), is_row=True)


def _in_json(value: Any) -> Any:
    if isinstance(value, Decimal):
        value = float(value)
    return _BEYOND if isinstance(value, float) and math.isinf(value) else value
