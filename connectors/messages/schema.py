"""Schema of records and labels: checks its settings, and decodes messages.

By default, records have their original values of any kind, at dotted paths of nested objects. For a
list of numeric fields, a msgspec struct is built once, with which one call decodes and checks a
message, and drops all other fields. If a JSON object has a field twice, the last value is used.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from functools import cached_property
from typing import Any, Literal, NamedTuple

import msgspec

from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoding import (
    DecodeContext,
    DecodedRecords,
    KnownFields,
    NumberDecoder,
    RecordDecoder,
    convert_numeric_cells,
    is_valid_field_name,
)
from streamboost.connectors.messages.inference import (
    inference_report,
    parse_json_objects,
    undamaged_payloads,
)
from streamboost.connectors.messages.inline_labels import (
    RecordAndLabelMessages,
    split_records_and_labels,
)
from streamboost.connectors.messages.labels import (
    DecodedLabels,
    LabelFields,
    LabelKind,
    LabelMessageCodec,
    convert_label,
    infer_label_kind,
    normalize_label,
)
from streamboost.connectors.messages.outgoing import Label
from streamboost.errors import ConfigurationError, DataError, StateError
from streamboost.features.fields import Field, as_field
from streamboost.features.inference import NEVER, infer_fields
from streamboost.features.paths import first_nested_path, is_within_any

LABEL = "label"
"""Field name that is always a label and no feature, in addition to the configured name."""


class InferredSchema(NamedTuple):
    """Schema with inferred fields, and a `sentence` for the user that reports these fields."""

    schema: "Schema"
    sentence: str


@dataclass(frozen=True)
class Schema:
    """Id, time and feature fields of JSON records.

    Parameters
    ----------
    id : str
        The field with a record's id: text or a whole number, compared and written as text.
        Empty text is a missing id. The names of all fields may be dotted paths.
    time : str or None
        The field with the record's time, text or a number. It is copied to outputs; may be absent.
    label : {"auto", "string", "integer", "boolean"}
        The kind of labels: text, a whole number of at most 64 bits, or true and false. With "auto",
        the kind of the first label; later labels are converted if possible.
    numeric : "auto" or sequence of str
        A list of names: the features are these fields, in this order, and all are numbers. If a
        record has another value in one of these fields, it becomes a dead letter. Names with a
        quote, a backslash or a control character are not supported.
    max_record_bytes : int
        Larger messages become dead letters.
    fields : "auto" or mapping of str to Field (or what `as_field` takes)
        The features, in the order of `Records.values`. With "auto", `infer` finds them. A value of
        another kind does not make a record a dead letter.
    named : mapping of str to Field
        Fields whose settings are configured, if the other fields are inferred ("auto").
    exclude : sequence of str
        With "auto", fields to ignore, with all nested fields.
    label_fields : LabelFields
        Names of id and label in label messages. The label's field is no feature.
    kind : {"string", "integer", "boolean"} or None
        The kind of the first label if `label` is "auto"; None before the first label.
    left_out : sequence of str
        Fields of the first records that `infer` did not use.
    classes : sequence of str, int or bool
        The allowed labels, of one kind; others are dead letters. Empty: any.
    id_from : {"field", "key"}
        With "key", the ids of records are the keys of their messages, in UTF-8.
    inline_labels : bool
        Whether labels are in the stream of records: see `split_inline_labels`. A label
        belongs to the record that `id` names; the id in `label_fields` counts only if that field is
        absent.
    include : sequence of str
        Fields of a record, by dotted paths, that its prediction repeats.
    probabilities : bool
        Whether predictions have the probabilities of all classes.

    Raises
    ------
    ConfigurationError
        When a setting is invalid.

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
    inline_labels: bool = False
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
                object.__setattr__(self, name, _parse_field_settings(given))
        for name in ("exclude", "left_out", "classes", "include"):
            if not isinstance(given := getattr(self, name), str):
                object.__setattr__(self, name, tuple(given))
        for fault in _setting_faults(self):
            raise ConfigurationError(fault)
        if self.classes:
            kind, classes = parse_classes(self.classes, self.label_kind)
            object.__setattr__(self, "classes", classes)
            object.__setattr__(self, "kind", kind if self.label == "auto" else self.kind)

    @property
    def has_known_features(self) -> bool:
        """Whether the features are configured or already inferred."""
        return self.numeric != "auto" or self.fields != "auto"

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns of `Records.X`, or of the values in `Records.values`."""
        if not self.has_known_features:
            raise ConfigurationError(
                "[schema] names no fields: let `infer` see messages before decoding, or name them"
            )
        return tuple(self.fields) if self.numeric == "auto" else tuple(self.numeric)

    @property
    def label_kind(self) -> LabelKind | None:
        """Kind of the labels; None with "auto" before the first label."""
        return self.kind if self.label == "auto" else self.label

    def with_label_type(self, kind: LabelKind | None) -> "Schema":
        """Return a copy of the schema whose labels are of `kind`; None changes nothing."""
        return self if kind in (None, self.label_kind) else replace(self, kind=kind)

    @property
    def changeable_settings(self) -> dict[str, Any]:
        """Settings of labels and predictions that may change between batches."""
        return {
            "classes": list(self.classes),
            "include": list(self.include),
            "probabilities": self.probabilities,
        }

    def with_fields(self, fields: Mapping[str, Field]) -> "Schema":
        """Return a copy of the schema with additional `fields` at the end."""
        assert not isinstance(self.fields, str)
        return replace(self, fields=dict(self.fields) | dict(fields))

    def infer(self, messages: Sequence[Message]) -> InferredSchema:
        """Infer the fields from the first `messages`; 200 to 500 are enough.

        Fields that are not named are inferred from their values (`features.inference`), in the
        order in which they first appear. Damaged messages are ignored.

        Raises DataError if the messages have no id or no feature.
        """
        if self.numeric != "auto":
            return InferredSchema(self, f"{len(self.features)} numeric fields, as configured.")
        if self.fields != "auto":
            return InferredSchema(
                self, f"{len(self.fields)} fields to learn from, as settled before."
            )
        named_by = None if self.id_from == "key" else self.id
        if self.inline_labels:
            messages = self.split_inline_labels(messages).records or messages
        records = parse_json_objects(undamaged_payloads(messages), named_by)
        roles = self._field_roles
        found = infer_fields(records, reserved=list(roles), exclude=self.exclude, named=self.named)
        said = inference_report(found, records, roles)
        if not found.fields:
            raise DataError(
                f"no field to learn from in the {len(records)} records at the start: name some "
                f"under [schema.fields]. {said}"
            )
        left_out = [n for n in found.reasons if n not in found.fields and found.reasons[n] != NEVER]
        return InferredSchema(replace(self, fields=found.fields, left_out=left_out), said)

    def split_inline_labels(
        self, messages: Sequence[Message], *, is_transformed: bool = False
    ) -> RecordAndLabelMessages:
        """Separate the messages of one stream into records and labels.

        `is_transformed` means that a transformer computes the features. In this case, and before
        the fields are inferred, all fields of a message except `hidden_paths` are features.
        """
        is_known = self.has_known_features and not is_transformed
        features = self.features if is_known else None
        return split_records_and_labels(
            messages, self.label_fields.label, self.hidden_paths, features
        )

    def decode(
        self, messages: Sequence[Message], *, source: str = "records", time: int | None = None
    ) -> DecodedRecords:
        """Decode records; unusable messages become dead letters, never an exception.

        Dead letters have `source` and `time`, which is the batch time in milliseconds. In table
        rows, text in numeric fields is converted to numbers.
        """
        is_list = self.numeric != "auto"
        messages = convert_numeric_cells(
            messages, self._number_columns, self.time, is_strict=is_list
        )
        context = self._make_decode_context(messages, source, time)
        if is_list:
            return DecodedRecords(
                self._number_decoders[context.ids_from_keys].decode(context, messages),
                context.dead_letters,
            )
        mixed = self._record_decoders[context.ids_from_keys].decode(
            context, messages, self._known_fields
        )
        return DecodedRecords(mixed, context.dead_letters)

    def _make_decode_context(
        self, messages: Sequence[Message], source: str, time: int | None
    ) -> DecodeContext:
        ids_from_keys = self.id_from == "key" and source == "records"
        return DecodeContext(
            messages, self.max_record_bytes, source, time, ids_from_keys=ids_from_keys
        )

    def decode_labels(
        self,
        messages: Sequence[Message],
        *,
        source: str = "labels",
        time: int | None = None,
        allow_nulls: bool = False,
    ) -> DecodedLabels:
        """Decode label messages, which have an id and a label, optionally a time and a source.

        A null or empty label counts as missing. With `allow_nulls`, a null label is decoded as
        None, which retracts an earlier label; an empty cell of a table still counts as missing. A
        label becomes a "bad_label" dead letter if it has more than 1,000 characters, an invisible
        character, or another kind than earlier labels.
        """
        is_number = self.label_kind in ("integer", "boolean")
        messages = convert_numeric_cells(
            messages, [self.label_fields.label] if is_number else [], "time"
        )
        context = self._make_decode_context(messages, source, time)
        return DecodedLabels(
            self._label_codec.decode(context, messages, allow_nulls=allow_nulls),
            context.dead_letters,
        )

    def encode_label(self, label: Label) -> bytes:
        """Encode `label` as a message that `decode_labels` can decode."""
        return self._label_codec.encode(label)

    def to_json(self) -> str:
        """Return the schema as JSON, which is stored with the state.

        >>> schema = Schema(label="string", numeric=["a"])
        >>> Schema.from_json(schema.to_json()) == schema
        True
        """
        names = self.label_fields
        saved = {one.name: getattr(self, one.name) for one in dataclass_fields(self)} | {
            "fields": None if isinstance(self.fields, str) else _fields_to_json(self.fields),
            "named": _fields_to_json(self.named),
            "label_fields": (
                {} if names == LabelFields() else {"id": names.id or "", "label": names.label}
            ),
        }
        text = msgspec.json.encode(_SavedSchema(format=_FORMAT, **saved))
        return msgspec.json.format(text).decode() + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> "Schema":
        """Decode the result of `to_json`; raise StateError if it is damaged."""
        try:
            found = msgspec.json.decode(text, type=_SavedFormat).format
            if found != _FORMAT:
                raise ValueError(f"its format is {found}, and this release reads {_FORMAT}")
            saved = msgspec.structs.asdict(msgspec.json.decode(text, type=_SavedSchema))
            del saved["format"]
            if saved["fields"] is None:
                saved["fields"] = "auto"
            names = {name: value for name, value in saved["label_fields"].items() if value}
            return cls(**saved | {"label_fields": LabelFields(**names)})
        except (msgspec.MsgspecError, ValueError) as error:
            raise StateError(
                f"the saved schema cannot be used: {error}; restore the file, or start again with "
                "an empty state folder"
            ) from error

    @cached_property
    def _field_roles(self) -> dict[str, str]:
        """Fields that are no features, such as id and label, mapped to text on their meaning."""
        id, label = self.label_fields.id, self.label_fields.label
        roles = {self.id: "names a record"}
        roles |= {self.time: "its time"} if self.time is not None else {}
        roles |= {id: "names a record, in labels"} if id not in (None, self.id) else {}
        return roles | {label: "the label"} | {LABEL: "the label"}

    @cached_property
    def _known_fields(self) -> KnownFields:
        paths = [*self.features, *self.left_out]
        return KnownFields(paths, self.hidden_paths)

    @cached_property
    def hidden_paths(self) -> list[str]:
        """Paths of fields that are no features: id, time and label, and excluded fields."""
        return [*self._field_roles, *self.exclude]

    @cached_property
    def _number_columns(self) -> list[str]:
        if isinstance(self.fields, str):
            return list(self.features)
        return [name for name, field in self.fields.items() if field.kind == "number"]

    @cached_property
    def _number_decoders(self) -> tuple[NumberDecoder, NumberDecoder]:
        by_field = NumberDecoder(self.id, self.time, self.features)
        return by_field, replace(by_field, id=None)

    @cached_property
    def _record_decoders(self) -> tuple[RecordDecoder, RecordDecoder]:
        by_field = RecordDecoder(self.id, self.time, self.features, self.hidden_paths)
        return by_field, replace(by_field, id=None)

    @cached_property
    def _label_codec(self) -> LabelMessageCodec:
        return LabelMessageCodec(
            self.label_fields, self.id, self.label, self.kind, self.classes, self.inline_labels
        )


def _parse_field_settings(settings_by_name: Any) -> dict[str, Field]:
    try:
        return {name: as_field(name, held) for name, held in dict(settings_by_name).items()}
    except ConfigurationError as error:
        raise ConfigurationError(f"[schema.fields] {error}") from None


_LABELS = ("auto", "string", "integer", "boolean")


def parse_classes(
    values: Sequence[Any], label_kind: LabelKind | None
) -> tuple[LabelKind | None, tuple[str | int, ...]]:
    """Return the common kind of the classes `values`, and the classes as the learner stores them.

    Raises ConfigurationError for an invalid or duplicate class.
    """
    kind = label_kind or infer_label_kind(values[0])
    classes: list[str | int] = []
    for one in values:
        label, fault = convert_label(one, kind)
        if isinstance(label, str):
            label, fault = normalize_label(label)
            fault = fault if label else "is empty"
        if fault or label is None:
            raise ConfigurationError(f"[schema] classes: {one!r} {fault}")
        if label in classes:
            raise ConfigurationError(f"[schema] classes names {one!r} twice: name it once")
        classes.append(label)
    return kind, tuple(classes)


_LABEL_FAULT = "the label, which would give the answer away: leave it out"


def _setting_faults(schema: "Schema") -> Iterator[str]:
    if schema.label not in _LABELS:
        yield f'[schema] label = {schema.label!r}: write "auto", "string", "integer" or "boolean"'
    limit = schema.max_record_bytes
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        yield f"[schema] max_record_bytes = {limit!r}: write a whole number of at least 1"
    if isinstance(schema.classes, str):
        yield f"[schema] classes = {schema.classes!r}: write a list of labels"
    yield from (
        _numeric_setting_faults(schema)
        if schema.numeric != "auto"
        else _field_setting_faults(schema)
    )


def _numeric_setting_faults(schema: "Schema") -> Iterator[str]:
    names = [schema.id, *([] if schema.time is None else [schema.time]), *schema.numeric]
    if not schema.numeric:
        yield '[schema] numeric = []: name at least one field, or write "auto"'
    for key, given in (("[schema.fields]", schema.named), ("[schema] exclude", schema.exclude)):
        if given or schema.fields != "auto":
            yield f"{key} goes without [schema] numeric, whose fields are all there are"
    for name in names:
        if name in schema.numeric and name in (LABEL, schema.label_fields.label):
            yield f"[schema] numeric names {name!r}, {_LABEL_FAULT}"
        if not isinstance(name, str) or not is_valid_field_name(name):
            yield (
                f"[schema] names the field {name!r}: a name is text without quotes, backslashes "
                "and control characters"
            )
        if names.count(name) > 1:
            yield f"[schema] names the field {name!r} twice: id, time and numeric must differ"


def _field_setting_faults(schema: "Schema") -> Iterator[str]:
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
    for name, settings in fields.items():
        if name == schema.id:
            yield f"[schema.fields] {name!r} names the records, and is no feature: leave it out"
        if name in (LABEL, schema.label_fields.label):
            yield f"[schema.fields] {name!r} is {_LABEL_FAULT}"
        inner = first_nested_path(name, schema.hidden_paths)
        if settings.kind == "vector" and inner is not None:
            yield (
                f"[schema.fields] {name!r} holds {inner!r}, which is no feature: name its other "
                "positions as numbers instead"
            )
        if is_within_any(name, frozenset(schema.exclude)):
            yield f"[schema] exclude leaves out {name!r}, which [schema.fields] names: do one"


_FORMAT = 3
"""Version of a state folder's files; no other version is read."""


class _SavedFormat(msgspec.Struct):
    format: int


class _SavedSchema(_SavedFormat, forbid_unknown_fields=True, omit_defaults=True):
    id: str
    time: str | None
    label: Literal["auto", "string", "integer", "boolean"]
    numeric: Literal["auto"] | Sequence[str]
    max_record_bytes: int
    fields: dict[str, Any] | None = None
    named: dict[str, Any] = {}
    exclude: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    label_fields: dict[str, str] = {}
    kind: Literal["string", "integer", "boolean"] | None = None
    classes: tuple[str | int, ...] = ()
    id_from: Literal["field", "key"] = "field"
    inline_labels: bool = False
    include: tuple[str, ...] = ()
    probabilities: bool = False


def _fields_to_json(fields: Mapping[str, Field]) -> dict[str, Any]:
    return {name: field.to_config() for name, field in fields.items()}
