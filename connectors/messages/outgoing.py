"""Output messages of a pipeline, each a JSON object in UTF-8.

Numbers that are not finite are written as null, because JSON does not support them. NumPy scalars
are written as Python values.
"""

import base64
import codecs
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from streamboost.connectors.base import Message, Position

Time = str | int | float | None
"""A record's own time, unchanged."""

Reason = Literal[
    "bad_id",
    "bad_json",
    "bad_label",
    "bad_row",
    "corrupt",
    "dropped_class",
    "duplicate_id",
    "empty",
    "infinite",
    "missing_id",
    "missing_label",
    "too_large",
    "unknown_class",
    "wrong_type",
]
"""Reason of a dead letter. The values are stable: programs may compare them."""

KEPT_BYTES = 64 * 1024
"""Limit of bytes of a message in its dead letter."""


def _numpy_scalar_to_python(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"a {type(value).__name__} cannot stand in a message")


_encoder = msgspec.json.Encoder(enc_hook=_numpy_scalar_to_python)


def encode_message(message: Mapping[str, Any]) -> bytes:
    """Encode a message as JSON in UTF-8."""
    return _encoder.encode(message)


class _OutputMessage(msgspec.Struct, frozen=True):
    """Base of output messages."""

    def encode(self) -> bytes:
        """Encode the message as JSON in UTF-8."""
        return _encoder.encode(self)


def encode_messages(messages: Sequence[_OutputMessage]) -> list[bytes]:
    """Return each message as JSON in UTF-8; twice as fast as separate calls of `encode`.

    >>> encode_messages([Label("7", "grass"), Label("8", "two\\nlines")])
    [b'{"id":"7","label":"grass"}', b'{"id":"8","label":"two\\\\nlines"}']
    """
    # JSON has no line break within a text.
    return _encoder.encode_lines(messages).split(b"\n")[:-1]


class Label(_OutputMessage, frozen=True, omit_defaults=True):
    """Label of a record.

    >>> Label("7", "grass").encode()
    b'{"id":"7","label":"grass"}'
    """

    id: str
    label: str | int | bool
    time: Time = None
    source: str | None = None


class Prediction(_OutputMessage, frozen=True, omit_defaults=True):
    """Prediction for a record on arrival; `label` is null before the first label.

    `version` is the model version, `asked` is whether the label is requested, and `sequence` is the
    batch number. With distributed scoring, `sequence` is the batch number within the `partition`.
    If configured, `fields` are copied from the record, `probabilities` are those of all classes,
    and `decision` is the decided class.

    >>> Prediction("7", None, "grass", 0.9, float("nan"), 3, False, 12).encode()
    b'{"id":"7","time":null,"label":"grass","probability":0.9,"margin":null,"version":3,"asked":false,"sequence":12}'
    """

    id: str
    time: Time
    label: str | int | bool | None
    probability: float | None
    margin: float | None
    version: int
    asked: bool
    sequence: int
    partition: int | None = None
    fields: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    probabilities: Mapping[str | int, float | None] | msgspec.UnsetType = msgspec.UNSET
    decision: str | int | bool | msgspec.UnsetType | None = msgspec.UNSET


class Request(_OutputMessage, frozen=True, omit_defaults=True):
    """Label request for a record, with the data that an annotator needs.

    `label` and `probabilities` are the prediction, and `propensity` is the inclusion probability.
    `expires` is the time when the request expires. `sequence` and `partition` are as in
    `Prediction`. The `excluded_annotators` of a relabel request must not answer it.

    >>> Request("7", None, {"a": 1.5}, None, {}, 0.5, 1.0, None, 12).encode()
    b'{"id":"7","time":null,"features":{"a":1.5},"label":null,"probabilities":{},"utility":0.5,"propensity":1.0,"expires":null,"sequence":12}'
    """

    id: str
    time: Time
    features: Mapping[str, Any]
    label: str | int | bool | None
    probabilities: Mapping[str | int, float | None]
    utility: float
    propensity: float
    expires: Time
    sequence: int
    excluded_annotators: Sequence[str] | msgspec.UnsetType = msgspec.UNSET
    partition: int | None = None


class DeadLetter(_OutputMessage, frozen=True):
    """Dead letter: an unusable input message, with the reason.

    `payload` has the first 64 KiB of the message, as text if they are UTF-8, else in base64;
    `encoding` says which. `size` is the full length in bytes. A source that seeks `position` reads
    the message again. `time` is the processing time of the message's batch in milliseconds.

    >>> message = Message(b"{", partition="0", offset=4, size=1)
    >>> letter = DeadLetter.from_message(message, "bad_json", "truncated", source="records")
    >>> letter.position, letter.payload
    ({'0': 4}, '{')
    """

    reason: Reason
    detail: str
    payload: str
    encoding: Literal["utf-8", "base64"]
    size: int
    source: str
    position: Position
    time: int | None

    @classmethod
    def from_message(
        cls,
        message: Message,
        reason: Reason,
        detail: str,
        *,
        source: str,
        time: int | None = None,
    ) -> "DeadLetter":
        """Return the dead letter of `message` from `source`; `time` is the batch time in ms."""
        payload, encoding = _encode_payload_as_text(message)
        position = {message.partition: message.offset}
        return cls(reason, detail, payload, encoding, message.size, source, position, time)


def _encode_payload_as_text(message: Message) -> tuple[str, Literal["utf-8", "base64"]]:
    head = message.payload[:KEPT_BYTES]
    is_whole = len(head) == message.size
    try:
        # A cut may fall inside a character: only the end of a whole message must be complete.
        return codecs.getincrementaldecoder("utf-8")().decode(head, final=is_whole), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(head).decode("ascii"), "base64"


_SECONDS_END = 1e11
"""Smaller numbers are seconds since the epoch (up to the year 5138), others milliseconds."""


def parse_time_ms(time: Time) -> float | None:
    """Convert a time to milliseconds since the epoch; None if it cannot be parsed.

    Text is ISO 8601, in UTC without a time zone; a number is in seconds or milliseconds.

    >>> parse_time_ms("1970-01-01T00:00:01"), parse_time_ms(1), parse_time_ms("soon")
    (1000.0, 1000.0, None)
    >>> parse_time_ms(10**400) is None
    True
    """
    if isinstance(time, str):
        try:
            moment = datetime.fromisoformat(time)
        except ValueError:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000
    try:
        number = math.nan if time is None else float(time)
    except OverflowError:  # JSON may have a whole number of any length
        return None
    if not math.isfinite(number):
        return None
    return number * (1_000 if abs(number) < _SECONDS_END else 1)


def features_by_name(names: Sequence[str], row: npt.NDArray[np.float32]) -> dict[str, float | None]:
    """Return the values of a float32 `row` (D,) by feature name; NaN becomes None.

    A float32 is written as its shortest decimal, so that 1.1 stays 1.1.

    >>> features_by_name(["a", "b"], np.array([1.1, np.nan], dtype=np.float32))
    {'a': 1.1, 'b': None}
    """
    values = np.asarray(row, dtype=np.float32)
    return {
        name: float(str(value)) if np.isfinite(value) else None
        for name, value in zip(names, values, strict=True)
    }
