"""What decoding gives: records and labels in columns, and dead letters that say what was wrong."""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from streamboost.connectors.base import Message
from streamboost.connectors.messages.inference import is_nameable
from streamboost.connectors.messages.labels import LONGEST_ID, LabelKind
from streamboost.connectors.messages.rows import as_time
from streamboost.connectors.messages.values import time_of
from streamboost.connectors.messages.written import DeadLetter, Reason, Time, milliseconds
from streamboost.features.paths import getter

__all__ = ["Decoded", "DecodedLabels", "Labels", "Records", "time_reader"]


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """The records of some messages, in their order."""

    ids: list[str]
    times: list[Time]
    X: npt.NDArray[np.float32]
    """float32 (n, D), C order, columns as `Schema.numeric`; NaN where a value is missing. (n, 0)
    where `values` has them."""
    messages: list[Message]
    """The message each record came in."""
    values: list[tuple[Any, ...]] | None = None
    """The values as they came, in the order of `Schema.fields`; None with a list of numbers."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Records that have a value in a field the schema does not know, by its path; also those that
    `take` leaves out."""
    wholes: list[bytes] | None = None
    """The records before something made `values` of them (`join.values.whole_of`); None: they came
    as they are."""

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int]) -> "Records":
        """Return the records at `rows`, in that order."""
        return Records(
            [self.ids[row] for row in rows],
            [self.times[row] for row in rows],
            self.X[np.asarray(rows, dtype=np.intp)],
            [self.messages[row] for row in rows],
            None if self.values is None else [self.values[row] for row in rows],
            self.unknown,
            None if self.wholes is None else [self.wholes[row] for row in rows],
        )


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of some messages, in their order."""

    ids: list[str]
    labels: list[Any]
    """Text or whole numbers, as `kind` says: never both. Booleans are "true" and "false"."""
    times: list[Time]
    sources: list[str | None]
    """Who gave each label, where the message says so."""
    messages: list[Message]
    """The message each label came in."""
    kind: LabelKind | None
    """What they are; None where that is not settled, there being none."""

    def __len__(self) -> int:
        return len(self.ids)


class Decoded(NamedTuple):
    """The records in some messages, and the dead letters of those that could not be used."""

    records: Records
    dead: list[DeadLetter]

    @property
    def unknown(self) -> Counter[str]:
        """How many records have a value in each field that the schema does not know."""
        return self.records.unknown


class DecodedLabels(NamedTuple):
    """The labels in some messages, and the dead letters of those that could not be used."""

    labels: Labels
    dead: list[DeadLetter]


class Desk:
    """Sorts the messages of one poll into parsed ones and dead letters."""

    def __init__(
        self,
        messages: Sequence[Message],
        max_bytes: int,
        source: str,
        time: int | None,
        *,
        by_key: bool = False,
    ) -> None:
        self._messages = messages
        self._max_bytes = max_bytes
        self._source = source
        self._time = time
        self.by_key = by_key
        self._dead: dict[int, DeadLetter] = {}

    @property
    def dead(self) -> list[DeadLetter]:
        """The dead letters, in the order of their messages."""
        return [self._dead[index] for index in sorted(self._dead)]

    def reject(self, index: int, reason: Reason, detail: str) -> None:
        """Make message `index` a dead letter."""
        self._dead[index] = DeadLetter.of(
            self._messages[index], reason, detail, source=self._source, time=self._time
        )

    def parse(
        self,
        decode: Callable[[bytes], Any],
        astuple: Callable[[Any], tuple[Any, ...]],
        required: dict[str, Reason],
    ) -> tuple[list[int], list[tuple[Any, ...]]]:
        """Decode every message: the indices of the usable ones, and their values as tuples.

        `astuple` makes those of what `decode` gives, and may raise msgspec's ValidationError. The
        first of them must be there and not be empty text: `required` gives, in their order, what
        each is called and the reason when it is not. The very first is the id, in whose place the
        message's key stands where records are named by it.
        """
        kept: list[int] = []
        parsed: list[tuple[Any, ...]] = []
        first = slice(len(required))
        for index, message in enumerate(self._messages):
            payload = message.payload
            if message.damage is not None:
                self.reject(index, "bad_row" if message.is_row else "corrupt", message.damage)
                continue
            if message.size > self._max_bytes or message.size > len(payload):
                self.reject(index, "too_large", self._explain_size(message))
                continue
            try:
                if not payload.isascii():
                    codecs.utf_8_decode(payload, "strict", True)  # msgspec skips unread text unseen
                values = astuple(decode(payload))
                if self.by_key:
                    values = (message.name or _text_of(message.key), *values[1:])
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                self.reject(index, *explain(payload, error))
                continue
            if None in (needed := values[first]) or "" in needed:
                self._reject_missing(index, needed, required)
                continue
            if type(values[0]) is str and len(values[0]) > LONGEST_ID:
                self.reject(index, "bad_id", self._explain_id(values[0], required))
                continue
            kept.append(index)
            parsed.append(values)
        return kept, parsed

    def _explain_id(self, id: str, required: dict[str, Reason]) -> str:
        name = self._called(next(iter(required)))
        return f"{name} has {len(id)} characters: give at most {LONGEST_ID}"

    def _called(self, name: str, place: int = 0) -> str:
        return "the message's key" if self.by_key and place == 0 else f"field {name!r}"

    def _reject_missing(
        self, index: int, needed: Sequence[Any], required: dict[str, Reason]
    ) -> None:
        """Make message `index`, in which something `needed` is missing, a dead letter."""
        for place, (value, name) in enumerate(zip(needed, required, strict=True)):
            if value is None or value == "":
                missing = "absent or null" if value is None else "empty"
                self.reject(index, required[name], f"{self._called(name, place)} is {missing}")
                return

    def _explain_size(self, message: Message) -> str:
        if message.size > self._max_bytes:
            return f"{message.size} bytes, more than max_record_bytes = {self._max_bytes}"
        return f"the source kept {len(message.payload)} of {message.size} bytes: raise its limit"


def _text_of(key: bytes | None) -> str | None:
    """Return a message's key as text; msgspec's ValidationError where it is none."""
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        raise msgspec.ValidationError(
            f"The key {key!r:.80} is not UTF-8 and names no record: write keys as text"
        ) from None


def time_reader(field: str | None) -> Callable[[Message], float | None]:
    """Return what gives a message's time in milliseconds since the epoch, None where it has none.

    That is when it was written, where its source knows, and otherwise what its `field` says.
    """
    if field is None:
        return attrgetter("time")
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(dict[str, Any]).decode
    get: Callable[[Any], Any] = getter(field)
    if is_nameable(field) and "." not in field:
        struct = msgspec.defstruct("Timed", [("time", Time, None)], rename={"time": field})
        decode, get = msgspec.json.Decoder(struct).decode, attrgetter("time")

    def read(message: Message) -> float | None:
        if message.time is not None:
            return message.time
        try:
            time = time_of(get(decode(message.payload)))
            return milliseconds(as_time(time) if message.is_row else time)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None  # decoding it in its batch says what is wrong

    return read


_PATH = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_BYTE = re.compile(r"\(byte (\d+)\)")
_LITERAL = re.compile(rb"NaN|Infinity")
_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "null",
    "object": "an object",
    "str": "text",
}


def explain(payload: bytes, error: Exception) -> tuple[Reason, str]:
    """Turn what decoding `payload` raised into a reason and a detail that a person reads."""
    if not payload.strip():
        return "empty", "there is nothing in it"
    if isinstance(error, RecursionError):
        return "bad_json", "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "bad_json", f"not UTF-8: byte 0x{payload[error.start]:02x} at {error.start}"
    if isinstance(error, msgspec.ValidationError):
        return _explain_value(str(error))
    place = _BYTE.search(str(error))
    literal = _LITERAL.match(payload, int(place[1])) if place else None
    if place and literal:
        word = literal[0].decode()
        return "bad_json", f"{word} at byte {place[1]} is not JSON: write null"
    text = str(error).removeprefix("JSON is malformed: ")
    return "bad_json", text[:1].lower() + text[1:]


def _explain_value(text: str) -> tuple[Reason, str]:
    match = _PATH.match(text)
    what, path = (match["what"], match["path"]) if match else (text, None)
    where = "the message" if path is None else f"field {path!r}"
    where = "a field" if path and path.startswith("[") else where
    if what == "Number out of range":
        return "infinite", f"{where}: the number is too large"
    plain = re.sub(
        r"`([^`]*)`",
        lambda kinds: " or ".join(_WORDS.get(kind, kind) for kind in kinds[1].split(" | ")),
        what,
    )
    return "wrong_type", f"{where}: {plain[:1].lower()}{plain[1:]}"
