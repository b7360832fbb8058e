"""Decodes and encodes label messages, and converts labels to text, integers or booleans."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoding import (
    LONGEST_ID,
    DecodeContext,
    decode_object,
    id_reader,
    time_of,
)
from streamboost.connectors.messages.outgoing import DeadLetter, Label, Reason, Time, encode
from streamboost.errors import ConfigurationError
from streamboost.features.paths import getter, is_null

__all__ = [
    "LONGEST_LABEL",
    "DecodedLabels",
    "LabelFields",
    "LabelKind",
    "LabelMessages",
    "Labels",
    "as_json",
    "as_text",
    "hidden_fault",
    "kind_of",
    "label_text",
    "nearest_class",
    "normalize_label",
    "read_label",
]

LabelKind = Literal["string", "integer", "boolean"]

LONGEST_LABEL = 1_000
"""Limit of characters of a label: arrays of classes are as wide as the longest label, and strip a
NUL at its end."""


_UNSEEN = {"Cc", "Cf", "Zl", "Zp"}
"""Unicode categories of control characters, of characters without width or that change the
direction of text, and of line ends."""

_BLANK = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0")
"""Further letters and marks that are invisible."""

_VARIANTS = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Unicode's variation selectors, which change at most the look of a letter."""

_COMPARED = 60
"""Number of characters by which labels are compared."""

_WHOLE = re.compile(r"\s*-?\d{1,19}\s*", re.ASCII)
_BOOLEANS: dict[Any, str] = {0: "false", 1: "true", "false": "false", "true": "true"}
_WORDS = {"string": "text", "integer": "whole numbers", "boolean": "true or false"}


@dataclass(frozen=True, slots=True)
class LabelFields:
    """Names of the id and label fields in label messages, possibly dotted paths.

    Without an `id`, the name is "id" or the name of the records' id.
    """

    id: str | None = None
    label: str = "label"

    def __post_init__(self) -> None:
        for name in (self.label, *([] if self.id is None else [self.id])):
            if not isinstance(name, str) or not name:
                raise ConfigurationError(
                    f"[labels.fields] names the field {name!r}: a name is text"
                )
        if self.id == self.label:
            raise ConfigurationError(
                f"[labels.fields] names the field {self.id!r} twice: id and label must differ"
            )


def kind_of(value: Any) -> LabelKind | None:
    """Return the kind of label that `value` is, or None if it cannot be a label.

    >>> kind_of("grass"), kind_of(3), kind_of(3.0), kind_of(True), kind_of(0.5)
    ('string', 'integer', 'integer', 'boolean', None)
    """
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return "integer" if is_whole else None


def read_label(value: Any, kind: LabelKind | None) -> tuple[str | int | None, str]:
    """Return `value` as a label of that kind, and ""; or None, and the fault.

    Booleans are learned as the text "true" and "false".

    >>> read_label("1", "integer"), read_label(1, "string"), read_label(True, "boolean")
    ((1, ''), ('1', ''), ('true', ''))
    """
    label = None if kind is None else _read(value, kind)
    if label is None:
        if kind is None or kind_of(value) is None:
            return None, "is neither text nor a whole number, nor true or false"
        return None, (
            f"is {label_text(value)}, and labels here are {_WORDS[kind]}: write it so, or start "
            f'again with [schema] label = "{kind_of(value)}"'
        )
    if isinstance(label, int):
        return (label, "") if -(2**63) <= label < 2**63 else (None, "has more than 64 bits")
    return (None, fault) if (fault := _fault_of(label)) else (label, "")


def _fault_of(label: str | int) -> str | None:
    """Return why a committee cannot store `label`, or None."""
    if isinstance(label, str) and len(label) > LONGEST_LABEL:
        return f"has {len(label)} characters: give at most {LONGEST_LABEL}"
    if isinstance(label, str) and "\0" in label:
        return "holds a NUL character: leave it out"
    return None


def normalize_label(label: str) -> tuple[str, str]:
    """Return the normalized text of a class, and a fault or "".

    The text is in Unicode's composed form (NFC) without outer white space. Invisible characters are
    a fault, because they would split a class in two.

    >>> normalize_label(" cafe\\u0301 "), normalize_label("cat\\u200b")[1]
    (('café', ''), 'holds U+200B (ZERO WIDTH SPACE), which nobody sees: leave it out')
    """
    label = label.strip()
    if label.isascii() and label.isprintable():
        return label, ""
    label = unicodedata.normalize("NFC", label)
    for character in label:
        if unicodedata.category(character) in _UNSEEN or character in _BLANK:
            name = unicodedata.name(character, "a control character")
            return label, f"holds U+{ord(character):04X} ({name}), which nobody sees: leave it out"
    return label, ""


def hidden_fault(name: str) -> str:
    """Return the fault of a name with control, invisible or unassigned characters, or "".

    The rule is stricter than `normalize_label`, which accepts whatever a stream of labels may hold.

    >>> hidden_fault("cat\\ue000"), hidden_fault("Zoë M.")
    ('holds U+E000, which is not printable: leave it out', '')
    """
    if fault := normalize_label(name)[1]:
        return fault
    for character in name:
        if not character.isprintable() or _VARIANTS.match(character):
            return f"holds U+{ord(character):04X}, which is not printable: leave it out"
    return ""


def nearest_class(label: str | int, classes: Iterable[str | int], cutoff: float = 0.0) -> Any:
    """Return the most similar of `classes`, or None if none is similar enough.

    >>> nearest_class("Gras", ["grass", "path"], 0.6), nearest_class("tree", ["grass", "path"], 0.6)
    ('grass', None)
    """
    names = {_comparison_key(one): one for one in classes}
    found = get_close_matches(_comparison_key(label), names, n=1, cutoff=cutoff)
    return names[found[0]] if found else None


def _comparison_key(label: str | int) -> str:
    """Return the first characters of a label without case, accents and variants, to compare."""
    parts = unicodedata.normalize("NFKD", str(label)[:_COMPARED]).casefold()
    return "".join(part for part in parts if not unicodedata.combining(part))


def as_json(label: Any, kind: str | None) -> Any:
    """Return a label as in messages: booleans as true or false.

    Other labels are returned unchanged, so that the reader can reject them.

    >>> as_json("true", "boolean"), as_json("true", "string"), as_json(None, "boolean")
    (True, 'true', None)
    """
    return {"true": True, "false": False}.get(label, label) if kind == "boolean" else label


def as_text(label: Any) -> Any:
    """Return a message's label as it is learned: booleans as text, others unchanged.

    >>> as_text(True), as_text(3), as_text(None)
    ('true', 3, None)
    """
    return str(label).lower() if isinstance(label, bool) else label


def _read(value: Any, kind: LabelKind) -> str | int | None:
    own = kind_of(value)
    if kind == "boolean":
        word = value.strip().lower() if isinstance(value, str) else value
        return None if own is None else _BOOLEANS.get(word)
    if kind == "string":
        if own == "string":
            return str(value)
        return None if own is None else str(value).lower() if own == "boolean" else str(int(value))
    if own == "string":
        return int(value) if _WHOLE.fullmatch(value) else None
    return int(value) if own == "integer" else None


def label_text(value: Any) -> str:
    """Return a label for messages, abbreviated if it is long."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_TYPES: dict[str, Any] = {"string": str | None, "integer": _INT64 | None}

_NULL: Any = object()
"""Placeholder of a label that is null, in contrast to an absent one."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Decoded labels, in the order of their messages."""

    ids: list[str]
    labels: list[Any]
    """Text or whole numbers by `kind`, never both. Booleans are "true" and "false"."""
    times: list[Time]
    sources: list[str | None]
    """The annotator of each label, if in the message."""
    messages: list[Message]
    """The message of each label."""
    kind: LabelKind | None
    """The kind of the labels; None before the first label."""

    def __len__(self) -> int:
        return len(self.ids)


class DecodedLabels(NamedTuple):
    """Decoded labels, and dead letters of unusable messages."""

    labels: Labels
    dead: list[DeadLetter]


@dataclass(frozen=True)
class LabelMessages:
    """Decodes and encodes label messages.

    Attributes
    ----------
    names : names of the id and label fields
    record_id : name of the records' id field
    label : kind of labels by `Schema.label`
    kind : kind of the first label, for "auto"
    classes : allowed labels; empty: any
    inline : whether labels are inline: the id of the record in the message precedes the id in
        `names`
    """

    names: LabelFields
    record_id: str
    label: Literal["auto"] | LabelKind
    kind: LabelKind | None
    classes: Sequence[str | int] = ()
    inline: bool = False

    def decode(
        self, context: DecodeContext, messages: Sequence[Message], *, nulls: bool = False
    ) -> Labels:
        """Decode labels; unusable messages become dead letters.

        With `nulls`, null is None, except in rows of tables, where null is an empty cell.
        """
        kept, rows = context.parse(*self._reader, {self._id: "missing_id"})
        kind = self.label_kind
        usable: list[tuple[Message, str, Any, Time, str | None]] = []
        for index, (id, given, time, source) in zip(kept, rows, strict=True):
            if given is _NULL and nulls and not messages[index].is_row:
                usable.append((messages[index], str(id), None, time, source))
                continue
            if given is None or given is _NULL or given == "":
                missing = "empty" if given == "" else "absent or null"
                context.reject(index, "missing_label", f"field {self.names.label!r} is {missing}")
                continue
            label, reason, fault = self._read(given, kind or kind_of(given))
            if label is None:
                context.reject(index, reason, f"field {self.names.label!r} {fault}")
            else:
                kind = kind or kind_of(given)
                usable.append((messages[index], str(id), label, time, source))
        return Labels(
            ids=[id for _, id, *_ in usable],
            labels=[label for _, _, label, *_ in usable],
            times=[time for *_, time, _ in usable],
            sources=[source and source[:LONGEST_ID] for *_, source in usable],
            messages=[message for message, *_ in usable],
            kind=kind,
        )

    def _read(self, given: Any, kind: LabelKind | None) -> tuple[str | int | None, Reason, str]:
        """Return a label, or None with the reason and the fault."""
        label, fault = read_label(given, kind)
        if isinstance(label, str):
            label, fault = normalize_label(label)
            if not label:
                return None, "missing_label", "is white space alone"
        if label is None or fault:
            return None, "bad_label", fault
        if self.classes and label not in self._classes:
            near = nearest_class(label, self.classes)
            text = f"is {label_text(label)}, and [schema] classes names no such: the nearest is "
            text += repr(near)
            return None, "unknown_class", text
        return label, "bad_label", ""

    @cached_property
    def _classes(self) -> frozenset[str | int]:
        return frozenset(self.classes)

    def encode(self, label: Label) -> bytes:
        """Return `label` as a message that `decode` reads."""
        message = {self._id: label.id, self.names.label: as_json(label.label, self.label_kind)}
        message |= {} if label.time is None else {"time": label.time}
        return encode(message | ({} if label.source is None else {"source": label.source}))

    @property
    def label_kind(self) -> LabelKind | None:
        """Kind of the labels; None before the first label, with "auto"."""
        return self.kind if self.label == "auto" else self.label

    @property
    def _id(self) -> str:
        return self.record_id if self.inline else self.names.id or "id"

    @cached_property
    def _reader(self) -> tuple[Callable[[bytes], Any], Callable[[Any], tuple[Any, ...]]]:
        """Return a decoder of messages, and a function to get id, label, time and source."""
        if (self.names, self.record_id) != (LabelFields(), "id") or self.label not in _TYPES:
            return decode_object, self._path_reader()
        fields = [
            ("id", str | int | None, None),
            ("label", _TYPES[self.label] | msgspec.UnsetType, msgspec.UNSET),
            ("time", Time, None),
            ("source", str | None, None),
        ]
        struct = msgspec.defstruct("Label", fields, gc=False)
        return msgspec.json.Decoder(struct).decode, _fields_of

    def _path_reader(self) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
        get_id, get_label = id_reader(self._id), getter(self.names.label)
        get_other = id_reader(self.names.id or ("id" if self.inline else self.record_id))
        path = self.names.label

        def take(message: Mapping[str, Any]) -> tuple[Any, ...]:
            id, label, source = get_id(message), get_label(message), message.get("source")
            if label is None:
                label = _NULL if is_null(message, path) else None
            elif self.label in _TYPES:
                label = _typed(label, path, _TYPES[self.label])
            source = source if isinstance(source, str) else None
            id = get_other(message) if id is None else id
            return id, label, time_of(message.get("time")), source

        return take


def _fields_of(message: Any) -> tuple[Any, ...]:
    """Return a message's id, label, time and source; null is distinct from absent."""
    label = None if message.label is msgspec.UNSET else message.label
    is_null = message.label is None
    return message.id, _NULL if is_null else label, message.time, message.source


def _typed(label: Any, path: str, type: Any) -> Any:
    try:
        return msgspec.convert(label, type)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{error} - at `$.{path}`") from None
