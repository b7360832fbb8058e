"""Inline labels: separates records and labels in one stream."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoding import decode_json_object
from streamboost.features.paths import path_getter

if TYPE_CHECKING:
    from streamboost.connectors.messages.schema import Schema

__all__ = ["SplitMessages", "split_messages"]


class SplitMessages(NamedTuple):
    """Messages with records, and messages with labels; a message may be in both lists."""

    records: list[Message]
    labels: list[Message]


def split_messages(schema: "Schema", messages: Sequence[Message]) -> SplitMessages:
    """Separate the messages of one stream into records and labels, in O(n).

    A message with a value in the label field is a label message. If it also has a value in a
    feature field, it is a record, too. All other messages are records, also unreadable ones.

    >>> from streamboost.connectors.messages.schema import Schema
    >>> lines = [b'{"id": 1, "a": 2}', b'{"id": 1, "label": "x"}', b'{"id": 2, "a": 3, "label": 1}']
    >>> messages = [Message(line, "0", i, len(line)) for i, line in enumerate(lines)]
    >>> found = split_messages(Schema(numeric=["a"]), messages)
    >>> [m.offset for m in found.records], [m.offset for m in found.labels]
    ([0, 2], [1, 2])
    """
    found = SplitMessages([], [])
    get, features = (
        path_getter(schema.label_fields.label),
        [path_getter(path) for path in schema.features],
    )
    for message in messages:
        has_label, is_record = _classify_message(message, get, features)
        if has_label:
            found.labels.append(message)
        if is_record:
            found.records.append(message)
    return found


def _classify_message(
    message: Message,
    get_label: Callable[[Mapping[str, Any]], Any],
    feature_getters: Sequence[Callable[[Mapping[str, Any]], Any]],
) -> tuple[bool, bool]:
    """Return whether a message has a label, and whether it has a record."""
    if message.damage is not None:
        return False, True
    try:
        held = decode_json_object(message.payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False, True  # the record decoder reports the reason
    if get_label(held) in (None, ""):
        return False, True
    return True, any(read(held) is not None for read in feature_getters)
