"""A schema as it is kept beside the state."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from streamboost.connectors.messages.labels import LabelFields
from streamboost.features.fields import Field

if TYPE_CHECKING:
    from streamboost.connectors.messages.schema import Schema

__all__ = ["of", "settings"]

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


def of(schema: "Schema") -> str:
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


def settings(text: str | bytes) -> dict[str, Any]:
    """Return the settings of the schema that `of` wrote.

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
