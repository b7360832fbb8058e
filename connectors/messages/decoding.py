"""Decodes messages to records, and reports unusable messages as dead letters.

If the schema is a list of numeric fields, records are decoded to one array; else to tuples of their
values. Before that, text cells of table rows are converted to the types of their fields.
"""

import codecs
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from streamboost.connectors.base import Message
from streamboost.connectors.messages.outgoing import DeadLetter, Reason, Time, parse_time_ms
from streamboost.features.number import as_number
from streamboost.features.paths import flatten, is_within_any, make_values_reader, path_getter
from streamboost.features.values import is_plain_number

LONGEST_ID = 1_000
"""Limit of characters of a record's id."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Decoded records as columns, in the order of their messages: ids, times, feature values."""

    ids: list[str]
    times: list[Time]
    X: npt.NDArray[np.float32]
    """float32 (n, D), C order: the fields `Schema.numeric`, NaN for missing values. (n, 0) if
    `values` is not None."""
    messages: list[Message]
    """The message of each record."""
    values: list[tuple[Any, ...]] | None = None
    """Original values of each record, in the order of `Schema.fields`; None if they are in `X`."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Number of records with a value in each field that is not in the schema, by path; includes
    records that `take` removed."""
    wholes: list[bytes] | None = None
    """Encoded original records, from which a transformer computed `values`
    (`values.encode_original_record`); None without a transformer."""

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int]) -> "Records":
        """Return the records with the indices `rows`, in this order."""
        return Records(
            [self.ids[row] for row in rows],
            [self.times[row] for row in rows],
            self.X[np.asarray(rows, dtype=np.intp)],
            [self.messages[row] for row in rows],
            None if self.values is None else [self.values[row] for row in rows],
            self.unknown,
            None if self.wholes is None else [self.wholes[row] for row in rows],
        )


class DecodedRecords(NamedTuple):
    """Pair of the decoded records, and the dead letters of unusable messages."""

    records: Records
    dead: list[DeadLetter]


class DecodeContext:
    """Parses the messages of one poll, and collects dead letters for unusable ones.

    Messages of more than `max_bytes` bytes are unusable. `source` and `time` (processing time in
    milliseconds, or None) are stored in dead letters. With `ids_from_keys`, the message's key is
    the id.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        max_bytes: int,
        source: str,
        time: int | None,
        *,
        ids_from_keys: bool = False,
    ) -> None:
        self._messages = messages
        self._max_bytes = max_bytes
        self._source = source
        self._time = time
        self.ids_from_keys = ids_from_keys
        self._dead: dict[int, DeadLetter] = {}

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """Dead letters so far, in the order of their messages."""
        return [self._dead[index] for index in sorted(self._dead)]

    def reject_message(self, index: int, reason: Reason, detail: str) -> None:
        """Add a dead letter for the message with this index in the poll."""
        self._dead[index] = DeadLetter.from_message(
            self._messages[index], reason, detail, source=self._source, time=self._time
        )

    def decode_messages(
        self,
        decode: Callable[[bytes], Any],
        to_tuple: Callable[[Any], tuple[Any, ...]],
        reason_by_name: dict[str, Reason],
    ) -> tuple[list[int], list[tuple[Any, ...]]]:
        """Decode every message; return the indices of usable messages, and the values of each.

        `to_tuple` converts the result of `decode` to a tuple, and may raise msgspec's
        ValidationError. `reason_by_name` maps the names of the first values of this tuple, which
        are required, to the reason of the dead letter if the value is None or "". The first value
        is the id, which is replaced by the message's key if `ids_from_keys`.
        """
        kept: list[int] = []
        parsed: list[tuple[Any, ...]] = []
        first = slice(len(reason_by_name))
        for index, message in enumerate(self._messages):
            payload = message.payload
            if message.damage is not None:
                self.reject_message(
                    index, "bad_row" if message.is_row else "corrupt", message.damage
                )
                continue
            if message.size > self._max_bytes or message.size > len(payload):
                self.reject_message(index, "too_large", self._too_large_message_text(message))
                continue
            try:
                if not payload.isascii():
                    codecs.utf_8_decode(payload, "strict", True)  # msgspec skips unread text
                values = to_tuple(decode(payload))
                if self.ids_from_keys:
                    values = (message.name or _decode_message_key(message.key), *values[1:])
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                self.reject_message(index, *explain_decode_error(payload, error))
                continue
            if None in (needed := values[first]) or "" in needed:
                self._reject_message_without_value(index, needed, reason_by_name)
                continue
            if type(values[0]) is str and len(values[0]) > LONGEST_ID:
                self.reject_message(
                    index, "bad_id", self._too_long_id_text(values[0], reason_by_name)
                )
                continue
            kept.append(index)
            parsed.append(values)
        return kept, parsed

    def _too_long_id_text(self, id: str, reason_by_name: dict[str, Reason]) -> str:
        name = self._describe_field(next(iter(reason_by_name)))
        return f"{name} has {len(id)} characters: give at most {LONGEST_ID}"

    def _describe_field(self, name: str, value_index: int = 0) -> str:
        return "the message's key" if self.ids_from_keys and value_index == 0 else f"field {name!r}"

    def _reject_message_without_value(
        self, index: int, required_values: Sequence[Any], reason_by_name: dict[str, Reason]
    ) -> None:
        for place, (value, name) in enumerate(zip(required_values, reason_by_name, strict=True)):
            if value is None or value == "":
                missing = "absent or null" if value is None else "empty"
                self.reject_message(
                    index, reason_by_name[name], f"{self._describe_field(name, place)} is {missing}"
                )
                return

    def _too_large_message_text(self, message: Message) -> str:
        if message.size > self._max_bytes:
            return f"{message.size} bytes, more than max_record_bytes = {self._max_bytes}"
        return f"the source kept {len(message.payload)} of {message.size} bytes: raise its limit"


def _decode_message_key(key: bytes | None) -> str | None:
    """Return a message's key as text; msgspec.ValidationError if it is not UTF-8."""
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        raise msgspec.ValidationError(
            f"The key {key!r:.80} is not UTF-8 and names no record: write keys as text"
        ) from None


_NAMEABLE = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]+')


def is_valid_field_name(name: str) -> bool:
    """Return whether msgspec's structs support a field with this name."""
    return _NAMEABLE.fullmatch(name) is not None


def make_time_reader(field: str | None) -> Callable[[Message], float | None]:
    """Return a function that returns a message's time in milliseconds since the epoch, or None.

    This is the time of writing, if the source has this time, else the value of `field`.
    """
    if field is None:
        return attrgetter("time")
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(dict[str, Any]).decode
    get: Callable[[Any], Any] = path_getter(field)
    if is_valid_field_name(field) and "." not in field:
        struct = msgspec.defstruct("Timed", [("time", Time, None)], rename={"time": field})
        decode, get = msgspec.json.Decoder(struct).decode, attrgetter("time")

    def read_time(message: Message) -> float | None:
        if message.time is not None:
            return message.time
        try:
            time = time_or_none(get(decode(message.payload)))
            return parse_time_ms(parse_time_cell(time) if message.is_row else time)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None  # the decoder reports the reason with the batch

    return read_time


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


def explain_decode_error(payload: bytes, error: Exception) -> tuple[Reason, str]:
    """Return (reason, detail) for a dead letter whose `payload` could not be decoded."""
    if not payload.strip():
        return "empty", "there is nothing in it"
    if isinstance(error, RecursionError):
        return "bad_json", "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "bad_json", f"not UTF-8: byte 0x{payload[error.start]:02x} at {error.start}"
    if isinstance(error, msgspec.ValidationError):
        return _explain_validation_error(str(error))
    place = _BYTE.search(str(error))
    literal = _LITERAL.match(payload, int(place[1])) if place else None
    if place and literal:
        word = literal[0].decode()
        return "bad_json", f"{word} at byte {place[1]} is not JSON: write null"
    text = str(error).removeprefix("JSON is malformed: ")
    return "bad_json", text[:1].lower() + text[1:]


def _explain_validation_error(text: str) -> tuple[Reason, str]:
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


def make_id_reader(path: str) -> Callable[[Mapping[str, Any]], str | int | None]:
    """Return a function that gets a record's id at a dotted path; None if it is missing.

    The function raises msgspec.ValidationError if the id is neither text nor a whole number.
    """
    get = path_getter(path) if "." in path else None

    def read_id(record: Mapping[str, Any]) -> str | int | None:
        value = record.get(path) if get is None else get(record)
        if type(value) is int or type(value) is str or value is None:
            return value
        kind = _KINDS[type(value)]
        raise msgspec.ValidationError(f"Expected `str | int | null`, got `{kind}` - at `$.{path}`")

    return read_id


def time_or_none(value: Any) -> Time:
    """Return `value` if it is text or a number, else None."""
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


@dataclass(slots=True)
class _FieldTreeNode:
    leaves: set[str] = field(default_factory=set)
    inner: "dict[str, _FieldTreeNode]" = field(default_factory=dict)

    def add_path(self, path: str) -> None:
        """Add the name of a field, whose dots separate the levels."""
        self.leaves.add(path)  # a key may contain dots
        head, dot, rest = path.partition(".")
        if dot:
            self.inner.setdefault(head, _FieldTreeNode()).add_path(rest)


class KnownFields:
    """Set of the fields of a schema, with a count of the records that have other fields.

    Parameters
    ----------
    field_paths : known fields
    fields_with_any_content : fields that are known together with all nested fields
    """

    def __init__(self, field_paths: Iterable[str], fields_with_any_content: Iterable[str]) -> None:
        self._paths, self._whole = frozenset(field_paths), frozenset(fields_with_any_content)
        self._branch = _FieldTreeNode()
        for path in self._paths | self._whole:
            self._branch.add_path(path)

    def count_unknown(self, records: Iterable[Mapping[str, Any]]) -> Counter[str]:
        """Count the `records` with a value in each unknown field; keys are dotted paths."""
        found: Counter[str] = Counter()
        leaves = self._branch.leaves
        for record in records:
            if not record.keys() <= leaves:
                self._count_unknown_fields(record, self._branch, "", found)
        return found

    def _count_unknown_fields(
        self,
        record: Mapping[str, Any],
        tree_node: _FieldTreeNode,
        prefix: str,
        counts: Counter[str],
    ) -> None:
        for name, value in record.items():
            if name in tree_node.leaves:
                continue
            inner = tree_node.inner.get(name)
            if inner is None or not isinstance(value, dict):
                for path, leaf in flatten({name: value}).items():
                    if leaf not in (None, "") and not self._is_known_path(prefix + path):
                        counts[prefix + path] += 1
            elif not value.keys() <= inner.leaves:
                self._count_unknown_fields(value, inner, f"{prefix}{name}.", counts)

    def _is_known_path(self, path: str) -> bool:
        return path in self._paths or is_within_any(path, self._whole)


_JSON = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_BEYOND = msgspec.Raw(b"1e999")
"""Number beyond all floats, which the decoder rejects as infinite: JSON has no infinity."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def decode_json_object(payload: bytes) -> dict[str, Any]:
    """Decode a JSON object; omit fields whose value contains a number out of range.

    An unused field with such a number must not make a record unusable.

    Raises
    ------
    msgspec.MsgspecError, ValueError, RecursionError
        When the payload is no JSON object.

    >>> decode_json_object(b'{"a": 1, "b": {"c": 2, "d": 1e999}, "e": [1e999]}')
    {'a': 1, 'b': {'c': 2}}
    """
    try:
        return _decode(payload)
    except msgspec.ValidationError:
        found: dict[str, Any] = {}
        for name, value in _decode_raw(payload).items():
            with suppress(msgspec.ValidationError):
                is_object = bytes(value).startswith(b"{")
                found[name] = decode_json_object(value) if is_object else msgspec.json.decode(value)
        return found


def convert_numeric_cells(
    messages: Sequence[Message],
    numeric_fields: Collection[str],
    time_field: str | None = None,
    *,
    is_strict: bool = False,
) -> Sequence[Message]:
    """Return messages in which text cells of numeric fields are converted to numbers.

    Parameters
    ----------
    messages : messages; only table rows are changed
    numeric_fields : names of the numeric columns
    time_field : name of the column with the records' time, which may be a number
    is_strict : whether infinity becomes an invalid number; else it is a missing value

    >>> row = Message(b'{"id":"07","a":"1.50","b":"1e0"}', "0", 0, 32, is_row=True)
    >>> convert_numeric_cells([row], ["a"])[0].payload
    b'{"id":"07","a":1.50,"b":"1e0"}'
    """
    if not any(message.is_row for message in messages):
        return messages
    return [
        _convert_numeric_cells_of_row(message, numeric_fields, time_field, is_strict)
        for message in messages
    ]


def _convert_numeric_cells_of_row(
    message: Message, numeric_fields: Collection[str], time_field: str | None, is_strict: bool
) -> Message:
    if not message.is_row or message.damage is not None:
        return message
    try:
        row = _decode(message.payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return message  # the decoder reports the reason
    changed = {
        name: parse_number_cell(row[name], is_strict=is_strict)
        for name in numeric_fields
        if name in row
    }
    if time_field is not None and time_field in row:
        changed[time_field] = parse_time_cell(row[time_field])
    if all(row[name] is value for name, value in changed.items()):
        return message
    payload = msgspec.json.encode(row | changed)
    return msgspec.structs.replace(message, payload=payload, size=len(payload))


def parse_number_cell(cell: Any, *, is_strict: bool = False) -> Any:
    """Convert a text cell to a number.

    Empty text and `nan` become None. Infinity is returned as text or, with `is_strict`, as a number
    too large for any float. Other text, and values that are no text, are returned unchanged, so
    that the decoder of the field reports an error.

    >>> [parse_number_cell(cell) for cell in ("007", " .5 ", "nan", "inf", None)]
    [7, 0.5, None, 'inf', None]
    >>> parse_number_cell("+9007199254740993")
    9007199254740993
    """
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    number = as_number(text)
    if number is None:
        return _BEYOND if is_strict and _is_infinite_number_text(text) else cell
    if math.isnan(number):
        return None
    if _JSON.fullmatch(text):
        return msgspec.Raw(text.encode())
    return int(text) if text.lstrip("+-").isdecimal() else number


def _is_infinite_number_text(text: str) -> bool:
    """Return whether `text` is infinity, or a number out of the range of float32."""
    try:
        return text.isascii() and "_" not in text and abs(float(text)) > 0
    except ValueError:
        return False


def parse_time_cell(cell: Any) -> Any:
    """Convert a text cell with a time: plain numbers become numbers, other text is unchanged.

    Eight digits stay text, because they are a date (ISO 8601).

    >>> parse_time_cell("1772350200"), parse_time_cell("20260301"), parse_time_cell("2026-03-01")
    (1772350200, '20260301', '2026-03-01')
    """
    is_date = isinstance(cell, str) and len(cell.strip()) == 8 and cell.strip().isdecimal()
    return cell if is_date else _parse_plain_number(cell)


def convert_plain_numbers(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row in which text cells in plain number format are converted to numbers.

    Used before a transformer, for which no field types are declared. Only text that the number
    reproduces is converted, except for trailing zeros of a fraction, so that codes such as "01"
    remain text.

    >>> convert_plain_numbers({"a": "1.5", "b": "01", "c": "1e0", "d": "red", "e": "3"})
    {'a': 1.5, 'b': '01', 'c': '1e0', 'd': 'red', 'e': 3}
    """
    return {name: _parse_plain_number(value) for name, value in row.items()}


def _parse_plain_number(cell: Any) -> Any:
    text = cell.strip() if isinstance(cell, str) else ""
    if not is_plain_number(text):
        return cell
    return int(text) if text.lstrip("-").isdecimal() else float(text)


@dataclass(frozen=True)
class NumberDecoder:
    """Decodes JSON records to ids, times and numeric features; fields may be dotted paths.

    Without an `id`, the caller gets the id from the message's key.
    """

    id: str | None
    time: str | None
    names: Sequence[str]

    def decode(self, context: DecodeContext, messages: Sequence[Message]) -> Records:
        """Decode records with numeric features; records with other values become dead letters."""
        kept, rows = context.decode_messages(
            self._decode_struct, msgspec.structs.astuple, {self.id or "id": "missing_id"}
        )
        records = Records(
            ids=[str(row[0]) for row in rows],
            times=[None] * len(rows) if self.time is None else [row[-1] for row in rows],
            X=self._feature_array(rows),
            messages=[messages[index] for index in kept],
        )
        infinite = np.isinf(records.X)
        if not infinite.any():
            return records
        for row, columns in enumerate(infinite):
            if columns.any():
                name = self.names[int(columns.argmax())]
                detail = f"field {name!r}: the number is too large for a float32"
                context.reject_message(kept[row], "infinite", detail)
        return records.take(np.flatnonzero(~infinite.any(axis=1)).tolist())

    def _feature_array(self, rows: Sequence[tuple[Any, ...]]) -> npt.NDArray[np.float32]:
        width = len(self.names)
        values = np.fromiter(
            chain.from_iterable([row[1 : 1 + width] for row in rows]),
            dtype=np.float64,
            count=len(rows) * width,
        )
        with np.errstate(over="ignore"):  # the caller rejects infinite values
            return values.astype(np.float32).reshape(len(rows), width)

    @cached_property
    def _decode_struct(self) -> Callable[[bytes], Any]:
        fields: list[tuple[str, Any, Any]] = [("id", str | int | None if self.id else Any, None)]
        names = {"id": self.id or "id"}
        for column, name in enumerate(self.names):
            fields.append((f"f{column}", float | None, None))
            names[f"f{column}"] = name
        if self.time is not None:
            fields.append(("time", Time, None))
            names["time"] = self.time
        # Records have no cycles: untracked objects cost the garbage collector nothing.
        record_type = msgspec.defstruct("Record", fields, rename=names, gc=False)
        paths = [path for path in (self.id, self.time, *self.names) if path]
        if not any("." in path for path in paths):
            return msgspec.json.Decoder(record_type).decode
        # Numbers out of range become infinite, which only matters in the fields that are read.
        decode = msgspec.json.Decoder(dict[str, Any], float_hook=float).decode
        read = make_values_reader(paths)
        return lambda payload: msgspec.convert(
            dict(zip(paths, read(decode(payload)), strict=True)), record_type
        )


@dataclass(frozen=True)
class RecordDecoder:
    """Decodes JSON records to ids, times and original field values; fields may be dotted paths.

    Without an `id`, the caller gets the id from the message's key. Values that contain one of the
    `hidden` paths, such as the label, are missing.
    """

    id: str | None
    time: str | None
    names: Sequence[str]
    hidden: Sequence[str] = ()

    def decode(
        self, context: DecodeContext, messages: Sequence[Message], known: KnownFields
    ) -> Records:
        """Decode records with their original values, and count fields that are not in `known`."""
        take, id_of = (
            make_values_reader(self.names, self.hidden),
            (lambda record: None) if self.id is None else make_id_reader(self.id),
        )
        kept, rows = context.decode_messages(
            msgspec.json.Decoder(dict[str, Any]).decode,
            lambda record: (id_of(record), record),
            {self.id or "id": "missing_id"},
        )
        return Records(
            ids=[str(id) for id, _ in rows],
            times=self._record_times(record for _, record in rows),
            X=np.empty((len(rows), 0), dtype=np.float32),
            messages=[messages[index] for index in kept],
            values=[take(record) for _, record in rows],
            unknown=known.count_unknown(record for _, record in rows),
        )

    def _record_times(self, records: Iterable[Mapping[str, Any]]) -> list[Time]:
        if self.time is None:
            return [None for _ in records]
        time = path_getter(self.time)
        return [time_or_none(time(record)) for record in records]
