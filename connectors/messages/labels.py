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
    decode_json_object,
    make_id_reader,
    time_or_none,
)
from streamboost.connectors.messages.outgoing import DeadLetter, Label, Reason, Time, encode_message
from streamboost.errors import ConfigurationError
from streamboost.features.paths import is_null, path_getter

LabelKind = Literal["string", "integer", "boolean"]

LABEL_MESSAGE_FIELDS = ("time", "source")
"""Fields of a label message in addition to its id and its label."""

LONGEST_LABEL = 1_000
"""Limit of characters of a label, as arrays of classes are as wide as the longest label. The arrays
also drop a NUL at the end of a label."""


_UNSEEN = {"Cc", "Cf", "Zl", "Zp"}
"""Unicode categories of control characters, format characters (invisible, or changing the direction
of text), and line ends."""

_BLANK = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0")
"""Further letters and marks that are invisible."""

_VARIANTS = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Unicode's variation selectors, which change at most the look of a letter."""

_COMPARED = 60
"""Number of first characters that are compared to find the most similar class."""

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


def infer_label_kind(value: Any) -> LabelKind | None:
    """Return the kind of the label `value`, or None if `value` cannot be a label.

    A float such as 3.0 must be below 2**53: larger floats do not represent all whole numbers.

    >>> [infer_label_kind(value) for value in ("grass", 3, 3.0, True, 0.5, 1e18)]
    ['string', 'integer', 'integer', 'boolean', None, None]
    """
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, float):
        return "integer" if value.is_integer() and abs(value) < 2**53 else None
    return "integer" if isinstance(value, int) else None


def convert_label(value: Any, kind: LabelKind | None) -> tuple[str | int | None, str]:
    """Convert `value` to a label of `kind`; return (label, "") or (None, error text).

    Booleans become the text "true" and "false", as the learner stores them.

    >>> convert_label("1", "integer"), convert_label(1, "string"), convert_label(True, "boolean")
    ((1, ''), ('1', ''), ('true', ''))
    """
    label = None if kind is None else _convert_to_label_kind(value, kind)
    if label is None:
        if kind is None or infer_label_kind(value) is None:
            return None, "is neither text nor a whole number, nor true or false"
        return None, (
            f"is {abbreviated_label(value)}, and labels here are {_WORDS[kind]}: write it so, or "
            f'start again with [schema] label = "{infer_label_kind(value)}"'
        )
    if isinstance(label, int):
        return (label, "") if -(2**63) <= label < 2**63 else (None, "has more than 64 bits")
    return (None, fault) if (fault := _reason_label_is_unstorable(label)) else (label, "")


def _reason_label_is_unstorable(label: str | int) -> str | None:
    """Return the reason why a model cannot store `label`, or None if `label` can be stored."""
    if isinstance(label, str) and len(label) > LONGEST_LABEL:
        return f"has {len(label)} characters: give at most {LONGEST_LABEL}"
    if isinstance(label, str) and "\0" in label:
        return "holds a NUL character: leave it out"
    return None


def normalize_label(label: str) -> tuple[str, str]:
    """Return (normalized label, error text or "").

    The label is in Unicode's composed form (NFC), without leading and trailing white space.
    Invisible characters are an error: with and without them, one class would become two.

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


def unprintable_character_fault(name: str) -> str:
    """Return an error text if `name` has a control, invisible or unassigned character, else "".

    This rule for names is stricter than `normalize_label`, which checks the labels of a stream.

    >>> unprintable_character_fault("cat\\ue000"), unprintable_character_fault("Zoë M.")
    ('holds U+E000, which is not printable: leave it out', '')
    """
    if fault := normalize_label(name)[1]:
        return fault
    for character in name:
        if not character.isprintable() or _VARIANTS.match(character):
            return f"holds U+{ord(character):04X}, which is not printable: leave it out"
    return ""


def most_similar_class(label: str | int, classes: Iterable[str | int], cutoff: float = 0.0) -> Any:
    """Return the class most similar to `label`; None if no similarity reaches `cutoff`.

    >>> [most_similar_class(label, ["grass", "path"], 0.6) for label in ("Gras", "tree")]
    ['grass', None]
    """
    names = {_label_text_for_comparison(one): one for one in classes}
    found = get_close_matches(_label_text_for_comparison(label), names, n=1, cutoff=cutoff)
    return names[found[0]] if found else None


def _label_text_for_comparison(label: str | int) -> str:
    """Return the first characters of a label, without case and accents, for comparisons."""
    parts = unicodedata.normalize("NFKD", str(label)[:_COMPARED]).casefold()
    return "".join(part for part in parts if not unicodedata.combining(part))


def label_to_json(label: Any, kind: str | None) -> Any:
    """Convert a learned label to its JSON value: with kind "boolean", "true" becomes True.

    Other labels are returned unchanged; the reader of the messages checks them.

    >>> label_to_json("true", "boolean"), label_to_json("true", "string")
    (True, 'true')
    """
    return {"true": True, "false": False}.get(label, label) if kind == "boolean" else label


def label_from_json(label: Any) -> Any:
    """Convert a label in JSON to the learned label: booleans become text, others are unchanged.

    >>> label_from_json(True), label_from_json(3), label_from_json(None)
    ('true', 3, None)
    """
    return str(label).lower() if isinstance(label, bool) else label


def _convert_to_label_kind(value: Any, kind: LabelKind) -> str | int | None:
    own = infer_label_kind(value)
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


def abbreviated_label(value: Any) -> str:
    """Return a label as text for error messages; long labels are abbreviated."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_TYPES: dict[str, Any] = {"string": str | None, "integer": _INT64 | None}

_NULL: Any = object()
"""Placeholder of a label that is null, in contrast to an absent one."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Decoded labels as columns, in the order of their messages: ids, labels, times, sources."""

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
    """Pair of the decoded labels, and the dead letters of unusable messages."""

    labels: Labels
    dead: list[DeadLetter]


@dataclass(frozen=True)
class LabelMessageCodec:
    """Decodes label messages to labels, and encodes labels as messages.

    Attributes
    ----------
    names : names of the id and label fields
    record_id : name of the id field of records
    label : kind of the labels, or "auto" (`Schema.label`)
    kind : kind of the first label, used if `label` is "auto"; None before the first label
    classes : allowed labels; empty: any
    inline : whether a label's message may be a record, too; the id is then in the field `record_id`
        or, if this field is absent, in the id field of `names`
    """

    names: LabelFields
    record_id: str
    label: Literal["auto"] | LabelKind
    kind: LabelKind | None
    classes: Sequence[str | int] = ()
    inline: bool = False

    def decode(
        self, context: DecodeContext, messages: Sequence[Message], *, allow_nulls: bool = False
    ) -> Labels:
        """Decode labels; unusable messages become dead letters.

        With `allow_nulls`, a null label becomes None, except in rows of tables, where null is an
        empty cell.
        """
        readers = self._decoder_and_fields_getter
        if context.ids_from_keys:  # inline labels, whose own id fields are not read
            readers = decode_json_object, self._keyed_fields_getter
        kept, rows = context.decode_messages(*readers, {self._id_field: "missing_id"})
        kind = self.label_kind
        usable: list[tuple[Message, str, Any, Time, str | None]] = []
        for index, (id, given, time, source) in zip(kept, rows, strict=True):
            if given is _NULL and allow_nulls and not messages[index].is_row:
                usable.append((messages[index], str(id), None, time, source))
                continue
            if given is None or given is _NULL or given == "":
                missing = "empty" if given == "" else "absent or null"
                context.reject_message(
                    index, "missing_label", f"field {self.names.label!r} is {missing}"
                )
                continue
            label, reason, fault = self._convert_and_check_label(
                given, kind or infer_label_kind(given)
            )
            if label is None:
                context.reject_message(index, reason, f"field {self.names.label!r} {fault}")
            else:
                kind = kind or infer_label_kind(given)
                usable.append((messages[index], str(id), label, time, source))
        return Labels(
            ids=[id for _, id, *_ in usable],
            labels=[label for _, _, label, *_ in usable],
            times=[time for *_, time, _ in usable],
            sources=[source and source[:LONGEST_ID] for *_, source in usable],
            messages=[message for message, *_ in usable],
            kind=kind,
        )

    def _convert_and_check_label(
        self, value: Any, kind: LabelKind | None
    ) -> tuple[str | int | None, Reason, str]:
        """Return (label, reason, error text); the label is None if it is not valid."""
        label, fault = convert_label(value, kind)
        if isinstance(label, str):
            label, fault = normalize_label(label)
            if not label:
                return None, "missing_label", "is white space alone"
        if label is None or fault:
            return None, "bad_label", fault
        if self.classes and label not in self._allowed_labels:
            near = most_similar_class(label, self.classes)
            text = (
                f"is {abbreviated_label(label)}, and [schema] classes names no such: "
                f"the nearest is {near!r}"
            )
            return None, "unknown_class", text
        return label, "bad_label", ""

    @cached_property
    def _allowed_labels(self) -> frozenset[str | int]:
        return frozenset(self.classes)

    def encode(self, label: Label) -> bytes:
        """Encode `label` as a message that `decode` can decode."""
        message = {
            self._id_field: label.id,
            self.names.label: label_to_json(label.label, self.label_kind),
        }
        message |= {} if label.time is None else {"time": label.time}
        return encode_message(message | ({} if label.source is None else {"source": label.source}))

    @property
    def label_kind(self) -> LabelKind | None:
        """Kind of the labels; None with "auto" before the first label."""
        return self.kind if self.label == "auto" else self.label

    @property
    def _id_field(self) -> str:
        return self.record_id if self.inline else self.names.id or "id"

    @cached_property
    def _decoder_and_fields_getter(
        self,
    ) -> tuple[Callable[[bytes], Any], Callable[[Any], tuple[Any, ...]]]:
        """Pair of a decoder of messages, and a function that gets (id, label, time, source)."""
        has_other_names = (self.names, self.record_id) != (LabelFields(), "id")
        # Records among inline labels may have fields `time` and `source` of any type.
        if self.inline or has_other_names or self.label not in _TYPES:
            other = self.names.id or ("id" if self.inline else self.record_id)
            readers = make_id_reader(self._id_field), make_id_reader(other)
            return decode_json_object, self._make_fields_getter(*readers)
        fields = [
            ("id", str | int | None, None),
            ("label", _TYPES[self.label] | msgspec.UnsetType, msgspec.UNSET),
            ("time", Time, None),
            ("source", str | None, None),
        ]
        struct = msgspec.defstruct("Label", fields, gc=False)
        return msgspec.json.Decoder(struct).decode, _fields_of_label_message

    @cached_property
    def _keyed_fields_getter(self) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
        """A function that gets (None, label, time, source), for messages whose key is the id."""
        return self._make_fields_getter()

    def _make_fields_getter(
        self, *id_readers: Callable[[Mapping[str, Any]], str | int | None]
    ) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
        """Return a function that gets (id, label, time, source); the id is the first one found."""
        path, get_label = self.names.label, path_getter(self.names.label)

        def get_label_message_fields(message: Mapping[str, Any]) -> tuple[Any, ...]:
            id = None
            for read_id in id_readers:
                id = read_id(message) if id is None else id
            label, source = get_label(message), message.get("source")
            if label is None:
                label = _NULL if is_null(message, path) else None
            elif self.label in _TYPES:
                label = _validate_label_type(label, path, _TYPES[self.label])
            source = source if isinstance(source, str) else None
            return id, label, time_or_none(message.get("time")), source

        return get_label_message_fields


def _fields_of_label_message(message: Any) -> tuple[Any, ...]:
    """Return (id, label, time, source) of a message; the label is `_NULL` if it is null."""
    label = None if message.label is msgspec.UNSET else message.label
    is_null = message.label is None
    return message.id, _NULL if is_null else label, message.time, message.source


def _validate_label_type(label: Any, path: str, label_type: Any) -> Any:
    try:
        return msgspec.convert(label, label_type)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{error} - at `$.{path}`") from None
