"""Inline labels: separation of the records and the labels in one stream."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoding import decode_json_object
from streamboost.connectors.messages.labels import LABEL_MESSAGE_FIELDS
from streamboost.features.paths import flatten, is_null, is_within_any, path_getter


class RecordAndLabelMessages(NamedTuple):
    """Messages of one stream that have records, and those that have labels; some may have both."""

    records: list[Message]
    labels: list[Message]


def split_records_and_labels(
    messages: Sequence[Message],
    label: str,
    hidden_paths: Sequence[str],
    features: Sequence[str] | None,
) -> RecordAndLabelMessages:
    """Separate the messages of one stream into records and labels, in O(n).

    A message with a value in the label field is a label message. If it also has a value in a
    feature field, it is a record, too. A message with the label null and without feature fields
    retracts a label. All other messages are records, also unreadable ones. In label messages, the
    fields `time` and `source` are not features.

    Parameters
    ----------
    messages : messages with JSON objects
    label : path of the label
    hidden_paths : paths that are no features, such as the id
    features : paths of the features; None: all paths that are not hidden

    >>> lines = [b'{"id": 1, "a": 2}', b'{"id": 1, "label": "x"}', b'{"id": 2, "a": 3, "label": 1}']
    >>> messages = [Message(line, "0", i, len(line)) for i, line in enumerate(lines)]
    >>> found = split_records_and_labels(messages, "label", ["id", "label"], ["a"])
    >>> [m.offset for m in found.records], [m.offset for m in found.labels]
    ([0, 2], [1, 2])
    """
    found = RecordAndLabelMessages([], [])
    get_label = path_getter(label)
    if features is None:
        get_values = _unhidden_values_getter(hidden_paths)
    else:
        get_values = _feature_values_getter(features)
    for message in messages:
        record = None if message.damage is not None else _decode_or_none(message.payload)
        if record is None:  # the record decoder reports the reason
            found.records.append(message)
            continue
        own = get_values(record)
        has_values = any(value is not None for value in own)
        has_label = get_label(record) not in (None, "")
        is_retraction = not own and is_null(record, label)
        if has_label or is_retraction:
            found.labels.append(message)
        if has_values or not (has_label or is_retraction):
            found.records.append(message)
    return found


def _feature_values_getter(features: Sequence[str]) -> Callable[[dict[str, Any]], list[Any]]:
    """Return a function that lists a record's feature values: None for null, without absent ones.

    The fields that label messages have, too, are left out unless there are no other features.
    """
    own = [path for path in features if path not in LABEL_MESSAGE_FIELDS] or features
    getters = [(path, path_getter(path)) for path in own]
    return lambda record: [
        value
        for path, get in getters
        if (value := get(record)) is not None or is_null(record, path)
    ]


def _unhidden_values_getter(hidden_paths: Sequence[str]) -> Callable[[dict[str, Any]], list[Any]]:
    hidden = frozenset([*hidden_paths, *LABEL_MESSAGE_FIELDS])
    return lambda record: [
        value for path, value in flatten(record).items() if not is_within_any(path, hidden)
    ]


def _decode_or_none(payload: bytes) -> dict[str, Any] | None:
    try:
        return decode_json_object(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
