"""The messages a pipeline writes, each a JSON object in UTF-8.

Numbers that are not finite are written as null, since JSON has no word for them. NumPy scalars
are written as the Python values they hold.
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

__all__ = [
    "DeadLetter",
    "Label",
    "Prediction",
    "Reason",
    "Request",
    "Time",
    "encode",
    "encode_all",
    "features_of",
    "milliseconds",
]

Time = str | int | float | None
"""A record's own time, passed through as it came."""

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
"""Why a message could not be used. The words are stable: programs may compare them."""

KEPT_BYTES = 64 * 1024
"""How much of a message its dead letter keeps."""


def _plain(value: Any) -> Any:
    """Give msgspec the Python value of a NumPy scalar."""
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"a {type(value).__name__} cannot stand in a message")


_encoder = msgspec.json.Encoder(enc_hook=_plain)


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as JSON."""
    return _encoder.encode(message)


class _Outgoing(msgspec.Struct, frozen=True):
    """What every outgoing message can do."""

    def encode(self) -> bytes:
        """Return the message as JSON."""
        return _encoder.encode(self)


def encode_all(messages: Sequence[_Outgoing]) -> list[bytes]:
    """Return messages as JSON, in half the time that one after the other takes.

    >>> encode_all([Label("7", "grass"), Label("8", "two\\nlines")])
    [b'{"id":"7","label":"grass"}', b'{"id":"8","label":"two\\\\nlines"}']
    """
    # JSON has no line break within a text.
    return _encoder.encode_lines(messages).split(b"\n")[:-1]


class Label(_Outgoing, frozen=True, omit_defaults=True):
    """What a record turned out to be.

    >>> Label("7", "grass").encode()
    b'{"id":"7","label":"grass"}'
    """

    id: str
    label: str | int | bool
    time: Time = None
    source: str | None = None


class Prediction(_Outgoing, frozen=True, omit_defaults=True):
    """What was predicted when a record arrived; `label` is null while nothing is known.

    Where partitions are scored apart, `sequence` counts the batches of the `partition`. `fields`
    are those of the record that are repeated, and `probabilities` those of all classes, where the
    pipeline's file asks for either; `decision` is what was decided on, where something is.

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


class Request(_Outgoing, frozen=True, omit_defaults=True):
    """A record whose label is worth buying, with all that somebody needs to give it.

    `label` and `probabilities` are what was predicted; `expires` is when the answer is too late;
    `partition` is as in `Prediction`. Where a label looks wrong and is asked for again, `not_by`
    names who must not answer.

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
    not_by: Sequence[str] | msgspec.UnsetType = msgspec.UNSET
    partition: int | None = None


class DeadLetter(_Outgoing, frozen=True):
    """A message that could not be used, and why.

    `payload` holds its first 64 KiB, as text where they are UTF-8 and in base64 otherwise, which
    `encoding` tells; `size` is its length in bytes where it came from. A source sent to
    `position` reads the message again. `time` is the tick of the batch that met it.

    >>> message = Message(b"{", partition="0", offset=4, size=1)
    >>> letter = DeadLetter.of(message, "bad_json", "input was truncated", source="records")
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
    def of(
        cls,
        message: Message,
        reason: Reason,
        detail: str,
        *,
        source: str,
        time: int | None = None,
    ) -> "DeadLetter":
        """Make the dead letter of `message`, which `source` gave in the batch of tick `time`."""
        payload, encoding = _readable(message)
        position = {message.partition: message.offset}
        return cls(reason, detail, payload, encoding, message.size, source, position, time)


def _readable(message: Message) -> tuple[str, Literal["utf-8", "base64"]]:
    head = message.payload[:KEPT_BYTES]
    is_whole = len(head) == message.size
    try:
        # A cut may fall inside a character: only the end of a whole message must be complete.
        return codecs.getincrementaldecoder("utf-8")().decode(head, final=is_whole), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(head).decode("ascii"), "base64"


_SECONDS_END = 1e11
"""Numbers below are seconds since the epoch (up to the year 5138), others milliseconds."""


def milliseconds(time: Time) -> float | None:
    """Return a time in milliseconds since the epoch; None where it cannot be told.

    Text is ISO 8601, in UTC where it names no zone; a number is of seconds or milliseconds.

    >>> milliseconds("1970-01-01T00:00:01"), milliseconds(1), milliseconds("soon")
    (1000.0, 1000.0, None)
    >>> milliseconds(10**400) is None
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
    except OverflowError:  # a whole number of any length may stand in JSON
        return None
    if not math.isfinite(number):
        return None
    return number * (1_000 if abs(number) < _SECONDS_END else 1)


def features_of(names: Sequence[str], row: npt.NDArray[np.float32]) -> dict[str, float | None]:
    """Name the values of one float32 `row` (D,) as a person would write them; NaN becomes None.

    A float32 is given by its shortest decimal, so that 1.1 stays 1.1.

    >>> features_of(["a", "b"], np.array([1.1, np.nan], dtype=np.float32))
    {'a': 1.1, 'b': None}
    """
    values = np.asarray(row, dtype=np.float32)
    return {
        name: float(str(value)) if np.isfinite(value) else None
        for name, value in zip(names, values, strict=True)
    }
