"""Adapter for a third-party transformer of records with River's interface.

The adapter uses River's transformer methods, the parts of River's composites (`steps` in sequence,
`transformers` in parallel), and the pickle of the state.
"""

import inspect
import logging
import pickle
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol

import msgspec
import numpy as np

from streamboost.checks import Label
from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoding import Records, convert_plain_numbers
from streamboost.connectors.messages.outgoing import Time, parse_time_ms
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.values import encode_original_record
from streamboost.features.paths import make_values_reader, remove_path
from streamboost.storage import Arrays, pack_json, unpack_json

_log = logging.getLogger(__name__)

_KEPT = 2_000
"""Number of the newest labelled records, to rebuild a transformer after a River upgrade."""

Document = dict[str, Any]


class RiverTransformer(Protocol):
    """Protocol of an external transformer: the methods of River's transformers."""

    def learn_one(self, x: Document, *args: Any) -> Any:
        """Learn the record `x`, and for supervised transformers its label."""

    def transform_one(self, x: Document) -> Mapping[Any, Any]:
        """Return the transformed record `x`."""


class Transformer:
    """Wrapper of a River transformer, which learns from records and from their later labels.

    Unsupervised parts learn a record before it is transformed, as in River's predictions.
    Supervised parts learn a record once, when its label arrives, with its field values on arrival.
    Parts with a parameter `t` get the record's time, as a naive datetime in UTC.

    Parameters
    ----------
    river_transformer : the initial transformer

    Attributes
    ----------
    failures : number of records that failed to be transformed (all fields are then missing) or
        learned
    """

    def __init__(self, river_transformer: RiverTransformer) -> None:
        self.failures = 0
        self._river_transformer = river_transformer
        self._kept: deque[tuple[bytes, Label | bool]] = deque(maxlen=_KEPT)

    def transform(self, x: Document, time: Time = None) -> Document:
        """Train the unsupervised parts on a record; return the transformed record, a dict.

        If the transformer fails, the result is empty.
        """
        record_time = to_datetime(time)
        try:
            _train_parts(self._river_transformer, x, record_time, (), has_label=False)
            return _record_to_json(self._river_transformer.transform_one(x))
        except Exception as error:  # third-party code may raise any error
            self._count_and_log_failure("transform", error)
            return {}

    def transform_records(self, records: Records, schema: Schema) -> Records:
        """Train the unsupervised parts on `records`; return `records` with transformed values."""
        read = make_values_reader(schema.features)
        xs = [decode_raw_record(message, schema) for message in records.messages]
        wholes = [
            encode_original_record(x, time) for x, time in zip(xs, records.times, strict=True)
        ]
        made = [self.transform(x, time) for x, time in zip(xs, records.times, strict=True)]
        return replace(records, values=[read(one) for one in made], wholes=wholes)

    def learn(self, encoded_record: bytes, label: Label | bool) -> None:
        """Train the supervised parts with the label of an earlier record.

        `encoded_record` is JSON with the record as it arrived, and its time.
        """
        self._kept.append((encoded_record, label))
        x, time = msgspec.json.decode(encoded_record)
        self._train_supervised_parts(x, time, label)

    def recent_records(self, n: int) -> list[tuple[Document, Time]]:
        """Return at most `n` of the newest labelled records, and their times."""
        return [tuple(msgspec.json.decode(encoded)) for encoded, _ in list(self._kept)[-n:]]

    def to_arrays(self) -> Arrays:
        """Return the state as arrays: the pickled transformer, and JSON with labelled records."""
        about = {
            "kept": [[whole.decode(), label] for whole, label in self._kept],
            "failures": self.failures,
        }
        blob = np.frombuffer(pickle.dumps(self._river_transformer), dtype=np.uint8)
        return {"pickle": blob, "about": pack_json(about)}

    def restore(self, arrays: Arrays, *, relearn: bool) -> None:
        """Restore the state from `arrays`, the result of `to_arrays`.

        With `relearn`, the pickle is ignored, and the stored labelled records are learned again.
        """
        about = unpack_json(arrays["about"])
        self.failures = about["failures"]
        kept = [(whole.encode(), label) for whole, label in about["kept"]]
        if not relearn:
            self._kept.extend(kept)
            self._river_transformer = pickle.loads(arrays["pickle"].tobytes())
            return
        for whole, label in kept:
            self.transform(*msgspec.json.decode(whole))
            self.learn(whole, label)

    def _train_supervised_parts(self, x: Document, time: Time, label: Label | bool) -> None:
        try:
            _train_parts(self._river_transformer, x, to_datetime(time), (label,), has_label=True)
        except Exception as error:  # third-party code may raise any error
            self._count_and_log_failure("learn", error)

    def _count_and_log_failure(self, action: str, error: Exception) -> None:
        if not self.failures:
            name = type(self._river_transformer).__name__
            _log.warning(
                "%s cannot %s a record (further ones are counted)",
                name,
                action,
                extra={"event": "transformer_failed"},
            )
            _log.warning(
                "%s: %s", type(error).__name__, error, extra={"event": "transformer_failed"}
            )
        self.failures += 1


def decode_raw_record(message: Message, schema: Schema) -> Document:
    """Decode the record in a message, without its id, time and label fields.

    Fields that `schema` excludes are removed, too. In a row of a table, numeric text is converted
    to numbers.
    """
    record: Document = msgspec.json.decode(message.payload)
    for path in schema.hidden_paths:
        record = remove_path(record, path)
    return convert_plain_numbers(record) if message.is_row else record


def to_datetime(time: Time) -> datetime | None:
    """Convert a record's time to a naive datetime in UTC, as River's windows require.

    Returns None if the record has no time, or the time is out of the range of datetime.
    """
    since = parse_time_ms(time)
    try:
        return (
            None
            if since is None
            else datetime.fromtimestamp(since / 1_000, UTC).replace(tzinfo=None)
        )
    except (OverflowError, ValueError, OSError):  # outside of the range of datetime
        return None


def _train_parts(
    river_part: Any,
    x: Document,
    record_time: datetime | None,
    labels: Sequence[Any],
    *,
    has_label: bool,
) -> None:
    """Train the parts of a River pipeline or union, each on the output of the part before it.

    With `has_label`, only supervised parts are trained, and `labels` has one label. Otherwise only
    unsupervised parts are trained, and `labels` is empty.
    """
    if steps := getattr(river_part, "steps", None):
        for step in list(steps.values()):
            if has_label:  # transform before learning, so that the output does not use the label
                made = step.transform_one(x)
                _train_parts(step, x, record_time, labels, has_label=True)
            else:
                _train_parts(step, x, record_time, labels, has_label=False)
                made = step.transform_one(x)
            x = made
    elif beside := getattr(river_part, "transformers", None):
        for one in beside.values():
            _train_parts(one, x, record_time, labels, has_label=has_label)
    elif bool(getattr(river_part, "_supervised", False)) == has_label:
        timed = (
            {"t": record_time}
            if record_time is not None and _accepts_record_time(river_part)
            else {}
        )
        river_part.learn_one(x, *labels, **timed)


def _accepts_record_time(river_part: Any) -> bool:
    """Return whether a part of a River pipeline takes the record's time as a parameter `t`.

    `learn_one` must have the parameter, and in an aggregation also `update` of the aggregate `how`.
    """
    updated = getattr(river_part, "how", None)
    return _has_parameter_t(river_part.__class__, "learn_one") and (
        updated is None or _has_parameter_t(updated.__class__, "update")
    )


@lru_cache(maxsize=1_000)
def _has_parameter_t(class_: type, method: str) -> bool:
    try:
        return "t" in inspect.signature(getattr(class_, method)).parameters
    except (AttributeError, TypeError, ValueError):  # compiled methods may have no signature
        return False


def _record_to_json(transformed: Mapping[Any, Any]) -> Document:
    """Return a transformed record with JSON values; infinite numbers and NaN become None."""
    named = {_field_name_as_text(name): value for name, value in transformed.items()}
    plain: Document = msgspec.json.decode(msgspec.json.encode(named, enc_hook=_numpy_to_python))
    return plain


def _field_name_as_text(name: Any) -> str:
    return "_".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _numpy_to_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)
