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
from streamboost.connectors.messages.decoding import Desk, id_reader, time_of
from streamboost.connectors.messages.written import DeadLetter, Label, Reason, Time, encode
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
    "kind_of",
    "nearest",
    "read_label",
    "shown",
    "tidied",
]

LabelKind = Literal["string", "integer", "boolean"]

LONGEST_LABEL = 1_000
"""Characters of a label: classes stand in arrays as wide as the longest of them, in which a NUL
at the end would be lost."""


_UNSEEN = {"Cc", "Cf", "Zl", "Zp"}
"""Unicode's categories of control characters, of those without width or that turn the direction of
what is written, and of line ends."""

_BLANK = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0")
"""Letters and marks that show nothing all the same."""

_COMPARED = 60
"""Characters by which a label is compared with others."""

_WHOLE = re.compile(r"\s*-?\d{1,19}\s*", re.ASCII)
_BOOLEANS: dict[Any, str] = {0: "false", 1: "true", "false": "false", "true": "true"}
_WORDS = {"string": "text", "integer": "whole numbers", "boolean": "true or false"}


@dataclass(frozen=True, slots=True)
class LabelFields:
    """What id and label are called in label messages, perhaps by dotted paths.

    Without an `id`, that is "id" or what the schema calls the records' own.
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
    """Return what kind of label `value` is, None where it can be none.

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
    """Return `value` as a label of that kind; None, and what is wrong with it, where it is none.

    Booleans are learned as the text "true" and "false".

    >>> read_label("1", "integer"), read_label(1, "string"), read_label(True, "boolean")
    ((1, ''), ('1', ''), ('true', ''))
    """
    label = None if kind is None else _read(value, kind)
    if label is None:
        if kind is None or kind_of(value) is None:
            return None, "is neither text nor a whole number, nor true or false"
        return None, (
            f"is {shown(value)}, and labels here are {_WORDS[kind]}: write it so, or begin anew "
            f'with [schema] label = "{kind_of(value)}"'
        )
    if isinstance(label, int):
        return (label, "") if -(2**63) <= label < 2**63 else (None, "has more than 64 bits")
    return (None, fault) if (fault := _fault_of(label)) else (label, "")


def _fault_of(label: str | int) -> str | None:
    """Return why a committee cannot keep `label`, or None when it can."""
    if isinstance(label, str) and len(label) > LONGEST_LABEL:
        return f"has {len(label)} characters: give at most {LONGEST_LABEL}"
    if isinstance(label, str) and "\0" in label:
        return "holds a NUL character: leave it out"
    return None


def tidied(label: str) -> tuple[str, str]:
    """Return a text as a class is called, and what is wrong with it, empty where nothing is.

    That is Unicode's composed form (NFC) without outer white space. What nobody sees would make
    two classes of one: it is wrong.

    >>> tidied(" cafe\\u0301 "), tidied("cat\\u200b")[1]
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


def nearest(label: str | int, classes: Iterable[str | int], cutoff: float = 0.0) -> Any:
    """Return the one of `classes` that `label` is most like, None where none is that like it.

    >>> nearest("Gras", ["grass", "path"], 0.6), nearest("tree", ["grass", "path"], 0.6)
    ('grass', None)
    """
    names = {_looks(one): one for one in classes}
    found = get_close_matches(_looks(label), names, n=1, cutoff=cutoff)
    return names[found[0]] if found else None


def _looks(label: str | int) -> str:
    """Return a label without case, accents and further looks, as far as it is compared."""
    parts = unicodedata.normalize("NFKD", str(label)[:_COMPARED]).casefold()
    return "".join(part for part in parts if not unicodedata.combining(part))


def as_json(label: Any, kind: str | None) -> Any:
    """Return a label as messages have it: true or false where it is one.

    What is neither stays as it is, so that whoever reads it can refuse it.

    >>> as_json("true", "boolean"), as_json("true", "string"), as_json(None, "boolean")
    (True, 'true', None)
    """
    return {"true": True, "false": False}.get(label, label) if kind == "boolean" else label


def as_text(label: Any) -> Any:
    """Return a label of a message as it is learned: true and false as text, others as they are.

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


def shown(value: Any) -> str:
    """Return a label as a sentence has it, the beginning of a long one."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_TYPES: dict[str, Any] = {"string": str | None, "integer": _INT64 | None}

_NULL: Any = object()
"""What stands for a label that is null, and not absent."""


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


class DecodedLabels(NamedTuple):
    """The labels in some messages, and the dead letters of those that could not be used."""

    labels: Labels
    dead: list[DeadLetter]


@dataclass(frozen=True)
class LabelMessages:
    """Reads and writes label messages.

    Attributes
    ----------
    names : what id and label are called
    record_id : what records call their id
    label : what `Schema.label` says that labels are
    kind : what the first label was, where that is "auto"
    classes : those there are; empty: any
    """

    names: LabelFields
    record_id: str
    label: Literal["auto"] | LabelKind
    kind: LabelKind | None
    classes: Sequence[str | int] = ()

    def decode(self, desk: Desk, messages: Sequence[Message], *, nulls: bool = False) -> Labels:
        """Decode labels; what cannot be used becomes a dead letter.

        With `nulls`, null is None, but for rows of tables, where it is an empty cell.
        """
        kept, rows = desk.parse(*self._reader, {self._id: "missing_id"})
        kind = self.labels_are
        usable: list[tuple[Message, str, Any, Time, str | None]] = []
        for index, (id, given, time, source) in zip(kept, rows, strict=True):
            if given is _NULL and nulls and not messages[index].is_row:
                usable.append((messages[index], str(id), None, time, source))
                continue
            if given is None or given is _NULL or given == "":
                missing = "empty" if given == "" else "absent or null"
                desk.reject(index, "missing_label", f"field {self.names.label!r} is {missing}")
                continue
            label, reason, fault = self._read(given, kind or kind_of(given))
            if label is None:
                desk.reject(index, reason, f"field {self.names.label!r} {fault}")
            else:
                kind = kind or kind_of(given)
                usable.append((messages[index], str(id), label, time, source))
        return Labels(
            ids=[id for _, id, *_ in usable],
            labels=[label for _, _, label, *_ in usable],
            times=[time for *_, time, _ in usable],
            sources=[source for *_, source in usable],
            messages=[message for message, *_ in usable],
            kind=kind,
        )

    def _read(self, given: Any, kind: LabelKind | None) -> tuple[str | int | None, Reason, str]:
        """Return a label, or None with the reason and what is wrong."""
        label, fault = read_label(given, kind)
        if isinstance(label, str):
            label, fault = tidied(label)
            if not label:
                return None, "missing_label", "is white space alone"
        if label is None or fault:
            return None, "bad_label", fault
        if self.classes and label not in self._classes:
            near = nearest(label, self.classes)
            text = f"is {shown(label)}, and [schema] classes names no such: the nearest is {near!r}"
            return None, "unknown_class", text
        return label, "bad_label", ""

    @cached_property
    def _classes(self) -> frozenset[str | int]:
        return frozenset(self.classes)

    def encode(self, label: Label) -> bytes:
        """Return `label` as a message that `decode` reads."""
        message = {self._id: label.id, self.names.label: as_json(label.label, self.labels_are)}
        message |= {} if label.time is None else {"time": label.time}
        return encode(message | ({} if label.source is None else {"source": label.source}))

    @property
    def labels_are(self) -> LabelKind | None:
        """What labels are; None where the first of them will tell."""
        return self.kind if self.label == "auto" else self.label

    @property
    def _id(self) -> str:
        return self.names.id or "id"

    @cached_property
    def _reader(self) -> tuple[Callable[[bytes], Any], Callable[[Any], tuple[Any, ...]]]:
        """Return what decodes a message, and what makes id, label, time and source of that."""
        if (self.names, self.record_id) != (LabelFields(), "id") or self.label not in _TYPES:
            return msgspec.json.Decoder(dict[str, Any]).decode, self._along_paths()
        fields = [
            ("id", str | int | None, None),
            ("label", _TYPES[self.label] | msgspec.UnsetType, msgspec.UNSET),
            ("time", Time, None),
            ("source", str | None, None),
        ]
        struct = msgspec.defstruct("Label", fields, gc=False)
        return msgspec.json.Decoder(struct).decode, _told_apart

    def _along_paths(self) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
        get_id, get_label = id_reader(self._id), getter(self.names.label)
        get_other = id_reader(self.record_id if self.names.id is None else self._id)
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


def _told_apart(message: Any) -> tuple[Any, ...]:
    """Return a message's id, label, time and source, null being told from absent."""
    label = None if message.label is msgspec.UNSET else message.label
    is_null = message.label is None
    return message.id, _NULL if is_null else label, message.time, message.source


def _typed(label: Any, path: str, type: Any) -> Any:
    try:
        return msgspec.convert(label, type)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{error} - at `$.{path}`") from None
