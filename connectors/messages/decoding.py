"""Decodes records into columns, and reports unusable messages as dead letters.

A list of numeric fields decodes into one array; other records keep their values. Text cells of
tables are converted to the types of their fields first.
"""

import codecs
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from streamboost.connectors.base import Message
from streamboost.connectors.messages.written import DeadLetter, Reason, Time, milliseconds
from streamboost.features.number import as_number
from streamboost.features.paths import flat, getter, lies_in
from streamboost.features.values import is_plain

__all__ = [
    "LONGEST_ID",
    "Decoded",
    "Known",
    "Mixed",
    "Numbers",
    "Records",
    "id_reader",
    "is_nameable",
    "number_of",
    "plain_numbers",
    "time_of",
    "time_reader",
    "typed",
    "values_reader",
]

LONGEST_ID = 1_000
"""Characters of what names a record, wherever it is named."""


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


class Decoded(NamedTuple):
    """The records in some messages, and the dead letters of those that could not be used."""

    records: Records
    dead: list[DeadLetter]

    @property
    def unknown(self) -> Counter[str]:
        """How many records have a value in each field that the schema does not know."""
        return self.records.unknown


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


_NAMEABLE = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]+')


def is_nameable(name: str) -> bool:
    """Tell whether a decoder's struct can have a field of that name."""
    return _NAMEABLE.fullmatch(name) is not None


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


_KINDS = {bool: "bool", float: "float", list: "array", dict: "object"}


def id_reader(path: str) -> Callable[[Mapping[str, Any]], str | int | None]:
    """Return what gives a record's id; it raises msgspec's ValidationError where that is none."""
    get = getter(path) if "." in path else None

    def read(record: Mapping[str, Any]) -> str | int | None:
        value = record.get(path) if get is None else get(record)
        if type(value) is int or type(value) is str or value is None:
            return value
        kind = _KINDS[type(value)]
        raise msgspec.ValidationError(f"Expected `str | int | null`, got `{kind}` - at `$.{path}`")

    return read


def time_of(value: Any) -> Time:
    """Return `value` where it can be a time, and None where not."""
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def values_reader(paths: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return what gives a record's values at `paths`, None for those that are absent."""
    if not any("." in path for path in paths):
        return lambda record: tuple(map(record.get, paths))
    getters = [getter(path) for path in paths]
    return lambda record: tuple([get(record) for get in getters])


@dataclass(slots=True)
class _Branch:
    """The names known at one level of a record."""

    leaves: set[str] = field(default_factory=set)
    inner: "dict[str, _Branch]" = field(default_factory=dict)

    def add(self, path: str) -> None:
        self.leaves.add(path)  # a key may be called so as a whole
        head, dot, rest = path.partition(".")
        if dot:
            self.inner.setdefault(head, _Branch()).add(rest)


class Known:
    """Tells which fields of records nobody knows.

    Parameters
    ----------
    paths : those that are known
    whole : those that are known with all that lies within them
    """

    def __init__(self, paths: Iterable[str], whole: Iterable[str]) -> None:
        self._paths, self._whole = frozenset(paths), frozenset(whole)
        self._branch = _Branch()
        for path in self._paths | self._whole:
            self._branch.add(path)

    def unknown(self, records: Iterable[Mapping[str, Any]]) -> Counter[str]:
        """Return how many of `records` have a value in each field that is not known."""
        found: Counter[str] = Counter()
        leaves = self._branch.leaves
        for record in records:
            if not record.keys() <= leaves:
                self._look(record, self._branch, "", found)
        return found

    def _look(
        self, within: Mapping[str, Any], branch: _Branch, prefix: str, found: Counter[str]
    ) -> None:
        for name, value in within.items():
            if name in branch.leaves:
                continue
            inner = branch.inner.get(name)
            if inner is None or not isinstance(value, dict):
                for path, leaf in flat({name: value}).items():
                    if leaf not in (None, "") and not self._is_known(prefix + path):
                        found[prefix + path] += 1
            elif not value.keys() <= inner.leaves:
                self._look(value, inner, f"{prefix}{name}.", found)

    def _is_known(self, path: str) -> bool:
        return path in self._paths or lies_in(path, self._whole)


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


@dataclass(frozen=True)
class Numbers:
    """Reads id, time and numbers of records; each is called so at the top of a JSON object.

    Without an `id`, whoever reads has that from elsewhere.
    """

    id: str | None
    time: str | None
    names: Sequence[str]

    def decode(self, desk: Desk, messages: Sequence[Message]) -> Records:
        """Decode records; one in which something else stands becomes a dead letter."""
        kept, rows = desk.parse(
            self._decoder.decode, msgspec.structs.astuple, {self.id or "id": "missing_id"}
        )
        records = Records(
            ids=[str(row[0]) for row in rows],
            times=[None] * len(rows) if self.time is None else [row[-1] for row in rows],
            X=self._array(rows),
            messages=[messages[index] for index in kept],
        )
        infinite = np.isinf(records.X)
        if not infinite.any():
            return records
        for row, columns in enumerate(infinite):
            if columns.any():
                name = self.names[int(columns.argmax())]
                detail = f"field {name!r}: the number is too large for a float32"
                desk.reject(kept[row], "infinite", detail)
        return records.take(np.flatnonzero(~infinite.any(axis=1)).tolist())

    def _array(self, rows: Sequence[tuple[Any, ...]]) -> npt.NDArray[np.float32]:
        width = len(self.names)
        values = np.fromiter(
            chain.from_iterable([row[1 : 1 + width] for row in rows]),
            dtype=np.float64,
            count=len(rows) * width,
        )
        with np.errstate(over="ignore"):  # the caller sorts out what becomes infinite
            return values.astype(np.float32).reshape(len(rows), width)

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        fields: list[tuple[str, Any, Any]] = [("id", str | int | None if self.id else Any, None)]
        names = {"id": self.id or "id"}
        for column, name in enumerate(self.names):
            fields.append((f"f{column}", float | None, None))
            names[f"f{column}"] = name
        if self.time is not None:
            fields.append(("time", Time, None))
            names["time"] = self.time
        # Nothing in a record can form a cycle: untracked, it costs the collector nothing.
        return msgspec.json.Decoder(msgspec.defstruct("Record", fields, rename=names, gc=False))


@dataclass(frozen=True)
class Mixed:
    """Reads id, time and values of records as they came, along paths into what is nested.

    Without an `id`, whoever reads has that from elsewhere.
    """

    id: str | None
    time: str | None
    names: Sequence[str]

    def decode(self, desk: Desk, messages: Sequence[Message], known: Known) -> Records:
        """Decode records, noting fields that are not `known`."""
        take, id_of = values_reader(self.names), _nothing if self.id is None else id_reader(self.id)
        kept, rows = desk.parse(
            msgspec.json.Decoder(dict[str, Any]).decode,
            lambda record: (id_of(record), record),
            {self.id or "id": "missing_id"},
        )
        return Records(
            ids=[str(id) for id, _ in rows],
            times=self._times(record for _, record in rows),
            X=np.empty((len(rows), 0), dtype=np.float32),
            messages=[messages[index] for index in kept],
            values=[take(record) for _, record in rows],
            unknown=known.unknown(record for _, record in rows),
        )

    def _times(self, records: Iterable[Mapping[str, Any]]) -> list[Time]:
        if self.time is None:
            return [None for _ in records]
        time = getter(self.time)
        return [time_of(time(record)) for record in records]


def _nothing(record: Mapping[str, Any]) -> Any:
    """Return None: the records are not to say."""
    return None
