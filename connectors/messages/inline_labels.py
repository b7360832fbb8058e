"""Separates records from inline labels in one stream."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from streamboost.connectors.base import Message
from streamboost.features.paths import getter

if TYPE_CHECKING:
    from streamboost.connectors.messages.schema import Schema

__all__ = ["Sorted", "sort"]


class Sorted(NamedTuple):
    """Messages by what is in them, in their order; one may be both."""

    records: list[Message]
    labels: list[Message]


def sort(schema: "Schema", messages: Sequence[Message]) -> Sorted:
    """Tell records and labels apart.

    Where the label's field holds something, a message is a label; where it has a feature, too, it
    is also a record, unless one of its id is known. All others are records, also those that nobody
    can read. O(n).

    >>> from streamboost.connectors.messages.schema import Schema
    >>> lines = [b'{"id": 1, "a": 2}', b'{"id": 1, "label": "x"}', b'{"id": 2, "a": 3, "label": 1}']
    >>> messages = [Message(line, "0", i, len(line)) for i, line in enumerate(lines)]
    >>> found = sort(Schema(numeric=["a"]), messages)
    >>> [m.offset for m in found.records], [m.offset for m in found.labels]
    ([0, 2], [1, 2])
    """
    found = Sorted([], [])
    get, features = getter(schema.label_fields.label), [getter(path) for path in schema.features]
    for message in messages:
        has_label, is_record = _told(message, get, features)
        if has_label:
            found.labels.append(message)
        if is_record:
            found.records.append(message)
    return found


def _told(
    message: Message,
    get: Callable[[Mapping[str, Any]], Any],
    features: Sequence[Callable[[Mapping[str, Any]], Any]],
) -> tuple[bool, bool]:
    """Tell whether a message has a label, and whether it is a record."""
    if message.damage is not None:
        return False, True
    try:
        held = _decode(message.payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False, True  # decoding it as a record says what is wrong
    if get(held) in (None, ""):
        return False, True
    return True, any(read(held) is not None for read in features)


_decode: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(dict[str, Any]).decode
