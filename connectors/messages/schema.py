"""From JSON messages to values or arrays, and from damaged ones to dead letters.

By default records become their values as they came, along paths into what is nested, of whatever
kind. With a list of numbers, a msgspec struct of these is built once, so that a message is decoded,
checked and stripped of everything else in one call. Where a JSON object names a field twice, the
last value holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import msgspec

from streamboost.connectors.base import Message
from streamboost.connectors.messages import saved
from streamboost.connectors.messages.checks import check, classes_of
from streamboost.connectors.messages.decoded import Decoded, DecodedLabels, Desk, Labels, Records
from streamboost.connectors.messages.inference import Inferred, account, objects, readable
from streamboost.connectors.messages.label_messages import LabelMessages
from streamboost.connectors.messages.labels import LabelFields, LabelKind
from streamboost.connectors.messages.numbers import Mixed, Numbers
from streamboost.connectors.messages.rows import typed
from streamboost.connectors.messages.values import Known
from streamboost.connectors.messages.written import DeadLetter, Label, Reason
from streamboost.errors import ConfigurationError, DataError, StateError
from streamboost.features.fields import Field, as_field
from streamboost.features.inference import NEVER, infer

__all__ = [
    "DeadLetter",
    "Decoded",
    "DecodedLabels",
    "Labels",
    "Reason",
    "Records",
    "Schema",
]

LABEL = "label"
"""The name of a field that is taken for the answer, whatever the label's is."""


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
        Whether labels stand among the records: see `within.sort`.
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
        tables, text in a field of numbers is read as one (`rows.typed`).
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
        return saved.of(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Schema":
        """Read what `to_json` wrote; StateError when it cannot be trusted."""
        try:
            return cls(**saved.settings(text))
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
