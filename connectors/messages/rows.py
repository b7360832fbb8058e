"""Gives the cells of tables, which are text, the types that the kinds of their fields ask for."""

import math
import re
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from streamboost.connectors.base import Message
from streamboost.features.number import as_number
from streamboost.features.values import is_plain

__all__ = ["as_time", "number_of", "plain_numbers", "typed"]

_JSON = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_BEYOND = msgspec.Raw(b"1e999")
"""JSON has no infinity: a number beyond all floats, which a decoder refuses as one."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def typed(
    messages: Sequence[Message],
    numbers: Collection[str],
    time: str | None = None,
    *,
    is_strict: bool = False,
) -> Sequence[Message]:
    """Return messages in which the rows of tables have numbers where their fields do.

    Parameters
    ----------
    messages : also such as are no rows, which stay as they are
    numbers : names of the columns of numbers
    time : name of the column with the records' time, which may be a number or not
    is_strict : whether infinity is to be refused, not missing

    >>> row = Message(b'{"id":"07","a":"1.50","b":"1e0"}', "0", 0, 32, is_row=True)
    >>> typed([row], ["a"])[0].payload
    b'{"id":"07","a":1.50,"b":"1e0"}'
    """
    if not any(message.is_row for message in messages):
        return messages
    return [_typed(message, numbers, time, is_strict) for message in messages]


def _typed(message: Message, numbers: Collection[str], time: str | None, strict: bool) -> Message:
    if not message.is_row or message.damage is not None:
        return message
    try:
        row = _decode(message.payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return message  # decoding it says what is wrong
    changed = {name: number_of(row[name], is_strict=strict) for name in numbers if name in row}
    if time is not None and time in row:
        changed[time] = as_time(row[time])
    if all(row[name] is value for name, value in changed.items()):
        return message
    payload = msgspec.json.encode(row | changed)
    return msgspec.structs.replace(message, payload=payload, size=len(payload))


def number_of(cell: Any, *, is_strict: bool = False) -> Any:
    """Return the number that a cell of text holds, as JSON has it.

    Text that holds none stays as it is, for the decoder of its field to report, and what is no
    text; empty text and `nan` are null. Infinity stays text, and is a number too large for any
    float with `is_strict`.

    >>> number_of("007"), number_of(" .5 "), number_of("nan"), number_of("inf"), number_of(None)
    (7, 0.5, None, 'inf', None)
    """
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    number = as_number(text)
    if number is None:
        return _BEYOND if is_strict and _is_infinite(text) else cell
    if math.isnan(number):
        return None
    if _JSON.fullmatch(text):
        return msgspec.Raw(text.encode())
    return int(number) if text.lstrip("+-").isdecimal() else number


def _is_infinite(text: str) -> bool:
    """Tell whether text is infinity, or a number that float32 has no room for."""
    try:
        return text.isascii() and "_" not in text and abs(float(text)) > 0
    except ValueError:
        return False


def as_time(cell: Any) -> Any:
    """Return a time that stands in a cell: a number where it is plainly one, and else as it is.

    Eight digits are a date (ISO 8601).

    >>> as_time("1772350200"), as_time("20260301"), as_time("2026-03-01")
    (1772350200, '20260301', '2026-03-01')
    """
    is_date = isinstance(cell, str) and len(cell.strip()) == 8 and cell.strip().isdecimal()
    return cell if is_date else _plain(cell)


def plain_numbers(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with numbers in place of the cells that are plainly such, one by one.

    That is for a transformer, which is given fields whose kind is known to nobody else. Two cells
    of different text stay different, but for zeros at the end of a fraction.

    >>> plain_numbers({"a": "1.5", "b": "01", "c": "1e0", "d": "red", "e": "3"})
    {'a': 1.5, 'b': '01', 'c': '1e0', 'd': 'red', 'e': 3}
    """
    return {name: _plain(value) for name, value in row.items()}


def _plain(cell: Any) -> Any:
    text = cell.strip() if isinstance(cell, str) else ""
    if not is_plain(text):
        return cell
    return int(text) if text.lstrip("-").isdecimal() else float(text)
