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
from streamboost.connectors.messages.decoding import Records, convert_plain_numbers, values_reader
from streamboost.connectors.messages.outgoing import Time, milliseconds
from streamboost.connectors.messages.schema import LABEL, Schema
from streamboost.connectors.messages.values import encode_original_record
from streamboost.storage import Arrays, pack_json, unpack_json

__all__ = ["RiverTransformer", "Transformer", "raw_record", "to_datetime"]

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
    """Transformer that learns from records on arrival, and from labels when they arrive.

    Unsupervised parts learn a record before it is transformed, as in River's predictions.
    Supervised parts learn a record once, when its label arrives, in the form it had on arrival.
    Parts with a parameter `t` get the record's time, as a naive datetime in UTC.

    Parameters
    ----------
    made : the initial transformer

    Attributes
    ----------
    failures : number of records that failed to be transformed (all fields are then missing) or
        learned
    """

    def __init__(self, made: RiverTransformer) -> None:
        self.failures = 0
        self._made = made
        self._kept: deque[tuple[bytes, Label | bool]] = deque(maxlen=_KEPT)

    def transform(self, x: Document, time: Time = None) -> Document:
        """Train the unsupervised parts on a record; return the transformed record as JSON values.

        If the transformer fails, the result is empty.
        """
        t = to_datetime(time)
        try:
            _learn_part(self._made, x, t, (), has_label=False)
            return _to_json(self._made.transform_one(x))
        except Exception as error:  # third-party code may raise any error
            self._count_failure("transform", error)
            return {}

    def transform_records(self, records: Records, schema: Schema) -> Records:
        """Return `records` with transformed values; the unsupervised parts learn them first."""
        read = values_reader(schema.features)
        xs = [raw_record(message, schema) for message in records.messages]
        wholes = [
            encode_original_record(x, time) for x, time in zip(xs, records.times, strict=True)
        ]
        made = [self.transform(x, time) for x, time in zip(xs, records.times, strict=True)]
        return replace(records, values=[read(one) for one in made], wholes=wholes)

    def learn(self, encoded_record: bytes, label: Label | bool) -> None:
        """Train the supervised parts with a label.

        `encoded_record` is JSON with the record as it arrived, and its time.
        """
        self._kept.append((encoded_record, label))
        x, time = msgspec.json.decode(encoded_record)
        self._learn_label(x, time, label)

    def recent_records(self, n: int) -> list[tuple[Document, Time]]:
        """Return at most `n` of the newest labelled records, and their times."""
        return [tuple(msgspec.json.decode(encoded)) for encoded, _ in list(self._kept)[-n:]]

    def state(self) -> Arrays:
        """Return the state as arrays: the pickled transformer, and JSON with labelled records."""
        about = {
            "kept": [[whole.decode(), label] for whole, label in self._kept],
            "failures": self.failures,
        }
        blob = np.frombuffer(pickle.dumps(self._made), dtype=np.uint8)
        return {"pickle": blob, "about": pack_json(about)}

    def resume(self, arrays: Arrays, *, relearn: bool) -> None:
        """Restore the state from the arrays of `state`.

        With `relearn`, the pickle is ignored, and the stored labelled records are learned again.
        """
        about = unpack_json(arrays["about"])
        self.failures = about["failures"]
        kept = [(whole.encode(), label) for whole, label in about["kept"]]
        if not relearn:
            self._kept.extend(kept)
            self._made = pickle.loads(arrays["pickle"].tobytes())
            return
        for whole, label in kept:
            self.transform(*msgspec.json.decode(whole))
            self.learn(whole, label)

    def _learn_label(self, x: Document, time: Time, label: Label | bool) -> None:
        try:
            _learn_part(self._made, x, to_datetime(time), (label,), has_label=True)
        except Exception as error:  # third-party code may raise any error
            self._count_failure("learn", error)

    def _count_failure(self, action: str, error: Exception) -> None:
        if not self.failures:
            name = type(self._made).__name__
            _log.warning("%s cannot %s a record (further ones are counted)", name, action)
            _log.warning("%s: %s", type(error).__name__, error)
        self.failures += 1


def raw_record(message: Message, schema: Schema) -> Document:
    """Decode the record in a message, without its id, time and label fields.

    Fields that `schema` excludes are removed, too. In a row of a table, numeric text is converted
    to numbers.
    """
    names = schema.label_fields
    hidden = {schema.id, schema.time, names.id, names.label, LABEL, *schema.exclude} - {None}
    record: Document = msgspec.json.decode(message.payload)
    for path in hidden:
        record = _without_field(record, str(path))
    return convert_plain_numbers(record) if message.is_row else record


def to_datetime(time: Time) -> datetime | None:
    """Convert a record's time to a naive datetime in UTC, as River's windows require."""
    since = milliseconds(time)
    try:
        return (
            None
            if since is None
            else datetime.fromtimestamp(since / 1_000, UTC).replace(tzinfo=None)
        )
    except (OverflowError, ValueError, OSError):  # outside of the range of datetime
        return None


def _without_field(record: Document, path: str) -> Document:
    """Return a copy of a record without the field at `path`."""
    if path in record:
        return {name: value for name, value in record.items() if name != path}
    head, dot, rest = path.partition(".")
    if dot and isinstance(inner := record.get(head), dict):
        return record | {head: _without_field(inner, rest)}
    return record


def _learn_part(
    part: Any, x: Document, t: datetime | None, label: Sequence[Any], *, has_label: bool
) -> None:
    """Train the parts of a pipeline or union recursively, each on the output of the part before.

    With `has_label`, only supervised parts are trained, otherwise only unsupervised parts. `label`
    has one element or none, `t` is the time of the record.
    """
    if steps := getattr(part, "steps", None):
        for step in list(steps.values()):
            if has_label:  # transform before learning, so that the output does not use the label
                made = step.transform_one(x)
                _learn_part(step, x, t, label, has_label=True)
            else:
                _learn_part(step, x, t, label, has_label=False)
                made = step.transform_one(x)
            x = made
    elif beside := getattr(part, "transformers", None):
        for one in beside.values():
            _learn_part(one, x, t, label, has_label=has_label)
    elif bool(getattr(part, "_supervised", False)) == has_label:
        timed = {"t": t} if t is not None and _accepts_time(part) else {}
        part.learn_one(x, *label, **timed)


def _accepts_time(part: Any) -> bool:
    """Return whether `learn_one` has a parameter `t`, and `update` of its statistic (`how`) too."""
    updated = getattr(part, "how", None)
    return _accepts_t(part.__class__, "learn_one") and (
        updated is None or _accepts_t(updated.__class__, "update")
    )


@lru_cache(maxsize=1_000)
def _accepts_t(class_: type, method: str) -> bool:
    """Return whether a method of a class has a parameter `t`; cached, as inspection is slow."""
    try:
        return "t" in inspect.signature(getattr(class_, method)).parameters
    except (AttributeError, TypeError, ValueError):  # compiled methods may have no signature
        return False


def _to_json(transformed: Mapping[Any, Any]) -> Document:
    """Convert a transformed record to JSON values; numbers that are not finite become missing."""
    named = {_field_name(name): value for name, value in transformed.items()}
    plain: Document = msgspec.json.decode(msgspec.json.encode(named, enc_hook=_to_python))
    return plain


def _field_name(name: Any) -> str:
    return "_".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _to_python(value: Any) -> Any:
    """Convert a numpy scalar to a Python number, and any other value to text."""
    return value.item() if isinstance(value, np.generic) else str(value)
