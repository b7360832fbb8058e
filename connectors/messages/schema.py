"""Defines the schema of records and labels, checks its settings, and decodes messages by it.

By default records become their values as they came, along paths into what is nested, of whatever
kind. With a list of numbers, a msgspec struct of these is built once, so that a message is decoded,
checked and stripped of everything else in one call. Where a JSON object names a field twice, the
last value holds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import msgspec

from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoding import (
    Decoded,
    Desk,
    Known,
    Mixed,
    Numbers,
    is_nameable,
    typed,
)
from streamboost.connectors.messages.inference import account, objects, readable
from streamboost.connectors.messages.labels import (
    DecodedLabels,
    LabelFields,
    LabelKind,
    LabelMessages,
    kind_of,
    read_label,
    tidied,
)
from streamboost.connectors.messages.written import Label
from streamboost.errors import ConfigurationError, DataError, StateError
from streamboost.features.fields import Field, as_field
from streamboost.features.inference import NEVER, infer
from streamboost.features.paths import lies_in

__all__ = ["Inferred", "Schema"]

LABEL = "label"
"""The name of a field that is taken for the answer, whatever the label's is."""


class Inferred(NamedTuple):
    """A schema whose fields are known, and an account of how they came to be, of several lines."""

    schema: "Schema"
    sentence: str


@dataclass(frozen=True)
class Schema:
    """Which fields of a JSON record are its id, its time and its features.

    Parameters
    ----------
    id : str
        The field that names a record: text or a whole number, compared and written as text.
        Empty text is a missing id. It and all others may be dotted paths.
    time : str or None
        The field with the record's time, text or a number; passed through, may be absent.
    label : {"auto", "string", "integer", "boolean"}
        What a label is: text, a whole number of at most 64 bits, or true and false. With "auto",
        what the first one is; others are read as that where they can be.
    numeric : "auto" or sequence of str
        A list: these fields alone, all numbers, in the order of the columns; anything else in them
        is a dead letter. Names with a quote, a backslash or a control character cannot be used.
    max_record_bytes : int
        Larger messages become dead letters.
    fields : "auto" or mapping of str to Field (or what `as_field` takes)
        The features, in the order of `Records.values`. With "auto", `infer` finds them. A value of
        another kind is no dead letter.
    named : mapping of str to Field
        With "auto", the fields that are known beforehand.
    exclude : sequence of str
        With "auto", fields to leave out, with all that lies within.
    label_fields : LabelFields
        What id and label are called in label messages. The label's field is no feature.
    kind : {"string", "integer", "boolean"} or None
        What the first label was, with "auto".
    left_out : sequence of str
        Fields that `infer` has seen and left out.
    classes : sequence of str, int or bool
        The labels there are, of one kind; others are dead letters. Empty: any.
    id_from : {"field", "key"}
        With "key", the messages' keys, UTF-8, name the records that `source` "records" gives.
    labels_within : bool
        Whether labels stand among the records: see `inline_labels.sort`.
    include : sequence of str
        Fields of a record, by dotted paths, that its prediction repeats.
    probabilities : bool
        Whether predictions have the probabilities of all classes.

    Raises
    ------
    ConfigurationError
        When a setting is wrong.

    Examples
    --------
    >>> schema = Schema(fields={"width": "number", "device.os": "category"})
    >>> lines = [b'{"id": 7, "width": "1.5", "device": {"os": "ios"}}', b'{"width": 1}']
    >>> records, dead = schema.decode([Message(p, "0", i, len(p)) for i, p in enumerate(lines)])
    >>> records.ids, records.values
    (['7'], [('1.5', 'ios')])
    >>> dead[0].reason, dead[0].detail
    ('missing_id', "field 'id' is absent or null")
    """

    id: str = "id"
    time: str | None = None
    label: Literal["auto", "string", "integer", "boolean"] = "auto"
    numeric: Literal["auto"] | Sequence[str] = "auto"
    max_record_bytes: int = 1_000_000
    fields: Literal["auto"] | Mapping[str, Field] = "auto"
    named: Mapping[str, Field] = field(default_factory=dict)
    exclude: Sequence[str] = ()
    label_fields: LabelFields = field(default_factory=LabelFields)
    kind: LabelKind | None = None
    left_out: Sequence[str] = ()
    classes: Sequence[Any] = ()
    id_from: Literal["field", "key"] = "field"
    labels_within: bool = False
    include: Sequence[str] = ()
    probabilities: bool = False

    def __post_init__(self) -> None:
        if self.numeric != "auto":
            if isinstance(self.numeric, str):
                raise ConfigurationError(
                    f'[schema] numeric = {self.numeric!r}: write "auto" or a list of field names'
                )
            object.__setattr__(self, "numeric", tuple(self.numeric))
        for name in ("fields", "named"):
            if not isinstance(given := getattr(self, name), str):
                object.__setattr__(self, name, _as_fields(given))
        for name in ("exclude", "left_out", "classes", "include"):
            if not isinstance(given := getattr(self, name), str):
                object.__setattr__(self, name, tuple(given))
        check(self)
        if self.classes:
            kind, classes = classes_of(self.classes, self.labels_are)
            object.__setattr__(self, "classes", classes)
            object.__setattr__(self, "kind", kind if self.label == "auto" else self.kind)

    @property
    def resolved(self) -> bool:
        """Whether the features are known."""
        return self.numeric != "auto" or self.fields != "auto"

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the columns of `Records.X`, or of what stands in `Records.values`."""
        if not self.resolved:
            raise ConfigurationError(
                "[schema] names no fields: let `infer` see messages before decoding, or name them"
            )
        return tuple(self.fields) if self.numeric == "auto" else tuple(self.numeric)

    @property
    def labels_are(self) -> LabelKind | None:
        """What labels are; None where the first of them will tell."""
        return self.kind if self.label == "auto" else self.label

    def settled(self, kind: LabelKind | None) -> "Schema":
        """Return the schema whose labels are of that `kind` from now on."""
        return self if kind in (None, self.labels_are) else replace(self, kind=kind)

    @property
    def rules(self) -> dict[str, Any]:
        """What labels and predictions obey, which may change from one batch to the next."""
        return {
            "classes": list(self.classes),
            "include": list(self.include),
            "probabilities": self.probabilities,
        }

    def extended(self, fields: Mapping[str, Field]) -> "Schema":
        """Return the schema that also has these `fields`, behind those it has."""
        assert not isinstance(self.fields, str)
        return replace(self, fields=dict(self.fields) | dict(fields))

    def infer(self, messages: Sequence[Message]) -> Inferred:
        """Find the fields in the first `messages`; 200 to 500 are enough.

        Fields that are not named are judged by what stands in them (`features.inference`). They
        stand in the order in which they first appear. Damaged messages are passed over.

        Raises DataError when the messages show no id or no field to learn from.
        """
        if self.numeric != "auto":
            return Inferred(self, f"{len(self.features)} numeric fields, as configured.")
        if self.fields != "auto":
            return Inferred(self, f"{len(self.fields)} fields to learn from, as settled before.")
        named_by = None if self.id_from == "key" else self.id
        records = objects(readable(messages), named_by)
        roles = self._roles
        found = infer(records, reserved=list(roles), exclude=self.exclude, named=self.named)
        said = account(found, records, roles)
        if not found.fields:
            raise DataError(
                f"no field to learn from in the {len(records)} records at the start: name some "
                f"under [schema.fields]. {said}"
            )
        left_out = [n for n in found.reasons if n not in found.fields and found.reasons[n] != NEVER]
        return Inferred(replace(self, fields=found.fields, left_out=left_out), said)

    def decode(
        self, messages: Sequence[Message], *, source: str = "records", time: int | None = None
    ) -> Decoded:
        """Decode records; what cannot be used becomes a dead letter, never an exception.

        `source` and `time` (the tick) are what dead letters say of where and when. In rows of
        tables, text in a field of numbers is read as one (`typed`).
        """
        is_list = self.numeric != "auto"
        messages = typed(messages, self._number_columns, self.time, is_strict=is_list)
        desk = self._desk(messages, source, time)
        if is_list:
            return Decoded(self._numbers[desk.by_key].decode(desk, messages), desk.dead)
        mixed = self._mixed[desk.by_key].decode(desk, messages, self._known)
        return Decoded(mixed, desk.dead)

    def _desk(self, messages: Sequence[Message], source: str, time: int | None) -> Desk:
        by_key = self.id_from == "key" and source == "records"
        return Desk(messages, self.max_record_bytes, source, time, by_key=by_key)

    def decode_labels(
        self,
        messages: Sequence[Message],
        *,
        source: str = "labels",
        time: int | None = None,
        nulls: bool = False,
    ) -> DecodedLabels:
        """Decode label messages: id and `label`, optionally `time` and `source`.

        A null or empty label is a missing one; with `nulls`, a null that is no empty cell of a
        table stands among the labels as None, which takes a label back. Text of more than 1,000
        characters, or with a character in it that nobody sees, is a "bad_label", as is one of
        another kind than that of the labels before.
        """
        is_number = self.labels_are in ("integer", "boolean")
        messages = typed(messages, [self.label_fields.label] if is_number else [], "time")
        desk = self._desk(messages, source, time)
        return DecodedLabels(self._label_messages.decode(desk, messages, nulls=nulls), desk.dead)

    def encode_label(self, label: Label) -> bytes:
        """Return `label` as a message that `decode_labels` reads."""
        return self._label_messages.encode(label)

    def to_json(self) -> str:
        """Write the schema as JSON, to be kept beside the state.

        >>> schema = Schema(label="string", numeric=["a"])
        >>> Schema.from_json(schema.to_json()) == schema
        True
        """
        return _as_json(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Schema":
        """Read what `to_json` wrote; StateError when it cannot be trusted."""
        try:
            return cls(**_settings_of(text))
        except (msgspec.MsgspecError, ValueError) as error:
            raise StateError(
                f"the saved schema cannot be used: {error}; restore the file, or begin anew with "
                "an empty state folder"
            ) from error

    @cached_property
    def _roles(self) -> dict[str, str]:
        """What the fields are that are no features, by their names."""
        id, label = self.label_fields.id, self.label_fields.label
        roles = {self.id: "names a record"}
        roles |= {self.time: "its time"} if self.time is not None else {}
        roles |= {id: "names a record, in labels"} if id not in (None, self.id) else {}
        return roles | {label: "the label"} | {LABEL: "the label"}

    @cached_property
    def _known(self) -> Known:
        paths = [*self.features, *self.left_out]
        return Known(paths, [*self._roles, *self.exclude])

    @cached_property
    def _number_columns(self) -> list[str]:
        if isinstance(self.fields, str):
            return list(self.features)
        return [name for name, field in self.fields.items() if field.kind == "number"]

    @cached_property
    def _numbers(self) -> tuple[Numbers, Numbers]:
        by_field = Numbers(self.id, self.time, self.features)
        return by_field, replace(by_field, id=None)

    @cached_property
    def _mixed(self) -> tuple[Mixed, Mixed]:
        by_field = Mixed(self.id, self.time, self.features)
        return by_field, replace(by_field, id=None)

    @cached_property
    def _label_messages(self) -> LabelMessages:
        return LabelMessages(self.label_fields, self.id, self.label, self.kind, self.classes)


def _as_fields(given: Any) -> dict[str, Field]:
    try:
        return {name: as_field(name, held) for name, held in dict(given).items()}
    except ConfigurationError as error:
        raise ConfigurationError(f"[schema.fields] {error}") from None


_LABELS = ("auto", "string", "integer", "boolean")


def check(schema: "Schema") -> None:
    """Raise ConfigurationError for the first setting that is wrong."""
    for fault in _faults(schema):
        raise ConfigurationError(fault)


def classes_of(
    given: Sequence[Any], labels_are: LabelKind | None
) -> tuple[LabelKind | None, tuple[str | int, ...]]:
    """Return what kind of labels the classes are, and the classes as they are learned.

    Raises ConfigurationError where one of them can be none, or is there twice.
    """
    kind = labels_are or kind_of(given[0])
    classes: list[str | int] = []
    for one in given:
        label, fault = read_label(one, kind)
        if isinstance(label, str):
            label, fault = tidied(label)
            fault = fault if label else "is empty"
        if fault or label is None:
            raise ConfigurationError(f"[schema] classes: {one!r} {fault}")
        if label in classes:
            raise ConfigurationError(f"[schema] classes names {one!r} twice: name it once")
        classes.append(label)
    return kind, tuple(classes)


def _faults(schema: "Schema") -> Iterator[str]:
    if schema.label not in _LABELS:
        yield f'[schema] label = {schema.label!r}: write "auto", "string", "integer" or "boolean"'
    limit = schema.max_record_bytes
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        yield f"[schema] max_record_bytes = {limit!r}: write a whole number of at least 1"
    if isinstance(schema.classes, str):
        yield f"[schema] classes = {schema.classes!r}: write a list of labels"
    yield from _of_numbers(schema) if schema.numeric != "auto" else _of_fields(schema)


def _of_numbers(schema: "Schema") -> Iterator[str]:
    names = [schema.id, *([] if schema.time is None else [schema.time]), *schema.numeric]
    if not schema.numeric:
        yield '[schema] numeric = []: name at least one field, or write "auto"'
    for key, given in (("[schema.fields]", schema.named), ("[schema] exclude", schema.exclude)):
        if given or schema.fields != "auto":
            yield f"{key} goes without [schema] numeric, whose fields are all there are"
    for name in names:
        if not isinstance(name, str) or not is_nameable(name):
            yield (
                f"[schema] names the field {name!r}: a name is text without quotes, backslashes "
                "and control characters"
            )
        if names.count(name) > 1:
            yield f"[schema] names the field {name!r} twice: id, time and numeric must differ"


def _of_fields(schema: "Schema") -> Iterator[str]:
    fields = schema.named if isinstance(schema.fields, str) else schema.fields
    if isinstance(schema.fields, str) and schema.fields != "auto":
        yield f'[schema] fields = {schema.fields!r}: write "auto" or a table of fields'
    if not fields and not isinstance(schema.fields, str):
        yield '[schema] fields is empty: name at least one field, or write "auto"'
    own = [schema.id, *([] if schema.time is None else [schema.time])]
    for name in (*own, *fields, *schema.exclude):
        if not isinstance(name, str) or not name:
            yield f"[schema] names the field {name!r}: a name is text"
    if len(set(own)) < len(own):
        yield f"[schema] names the field {schema.id!r} twice: id and time must differ"
    for name in fields:
        if name == schema.id:
            yield f"[schema.fields] {name!r} names the records, and is no feature: leave it out"
        if name in ("label", schema.label_fields.label):
            yield (
                f"[schema.fields] {name!r} is the label, which would give the answer away: leave "
                "it out"
            )
        if lies_in(name, frozenset(schema.exclude)):
            yield f"[schema] exclude leaves out {name!r}, which [schema.fields] names: do one"


_FORMAT = 3
"""Version of a state folder's files: of another one none is read."""


class _Format(msgspec.Struct):
    format: int


class _Saved(_Format, forbid_unknown_fields=True, omit_defaults=True):
    id: str
    time: str | None
    label: Literal["auto", "string", "integer", "boolean"]
    numeric: Literal["auto"] | Sequence[str]
    max_record_bytes: int
    fields: dict[str, Any] | None = None
    named: dict[str, Any] = {}
    exclude: list[str] = []
    left_out: list[str] = []
    label_fields: dict[str, str] = {}
    kind: Literal["string", "integer", "boolean"] | None = None
    classes: list[str | int] = []
    id_from: Literal["field", "key"] = "field"
    labels_within: bool = False
    include: list[str] = []
    probabilities: bool = False


def _as_json(schema: "Schema") -> str:
    """Return `schema` as JSON."""
    names = schema.label_fields
    saved = _Saved(
        format=_FORMAT,
        id=schema.id,
        time=schema.time,
        label=schema.label,
        numeric=schema.numeric,
        max_record_bytes=schema.max_record_bytes,
        fields=None if isinstance(schema.fields, str) else _given(schema.fields),
        named=_given(schema.named),
        exclude=list(schema.exclude),
        left_out=list(schema.left_out),
        label_fields={} if names == LabelFields() else {"id": names.id or "", "label": names.label},
        kind=schema.kind,
        classes=list(schema.classes),
        id_from=schema.id_from,
        labels_within=schema.labels_within,
        include=list(schema.include),
        probabilities=schema.probabilities,
    )
    return msgspec.json.format(msgspec.json.encode(saved)).decode() + "\n"


def _settings_of(text: str | bytes) -> dict[str, Any]:
    """Return the settings of the schema that `_as_json` wrote.

    Raises ValueError or msgspec's MsgspecError where it is damaged.
    """
    found = msgspec.json.decode(text, type=_Format).format
    if found != _FORMAT:
        raise ValueError(f"its format is {found}, and this release reads {_FORMAT}")
    saved = msgspec.json.decode(text, type=_Saved)
    names = {name: value for name, value in saved.label_fields.items() if value}
    return {
        "id": saved.id,
        "time": saved.time,
        "label": saved.label,
        "numeric": saved.numeric,
        "max_record_bytes": saved.max_record_bytes,
        "fields": "auto" if saved.fields is None else saved.fields,
        "named": saved.named,
        "exclude": saved.exclude,
        "left_out": saved.left_out,
        "label_fields": LabelFields(**names),
        "kind": saved.kind,
        "classes": saved.classes,
        "id_from": saved.id_from,
        "labels_within": saved.labels_within,
        "include": saved.include,
        "probabilities": saved.probabilities,
    }


def _given(fields: Mapping[str, Field]) -> dict[str, Any]:
    return {name: field.given() for name, field in fields.items()}
