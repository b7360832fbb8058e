"""A schema as it is kept beside the state."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from streamboost.connectors.messages.labels import LabelFields
from streamboost.features.fields import Field

if TYPE_CHECKING:
    from streamboost.connectors.messages.schema import Schema

__all__ = ["of", "settings"]


class _Saved(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    format: int
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
    tidy: bool = False  # as it was before there was such a thing
    id_from: Literal["field", "key"] = "field"
    labels_within: bool = False
    include: list[str] = []
    probabilities: bool = False

    @property
    def own_format(self) -> int:
        """1 as long as it says nothing that release 0.1 did not know."""
        new: tuple[Any, ...] = (self.fields, self.named, self.exclude, self.left_out)
        new += (self.label_fields, self.kind, self.classes, self.tidy, self.id_from == "key")
        new += (self.labels_within, self.include, self.probabilities)
        is_old = self.numeric != "auto" and self.label in ("string", "integer")
        return 1 if is_old and not any(new) else 2


def of(schema: "Schema") -> str:
    """Return `schema` as JSON."""
    names = schema.label_fields
    saved = _Saved(
        format=1,
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
        tidy=schema.tidy,
        id_from=schema.id_from,
        labels_within=schema.labels_within,
        include=list(schema.include),
        probabilities=schema.probabilities,
    )
    saved.format = saved.own_format
    return msgspec.json.format(msgspec.json.encode(saved)).decode() + "\n"


def settings(text: str | bytes) -> dict[str, Any]:
    """Return the settings of the schema that `of` wrote.

    Raises ValueError or msgspec's MsgspecError where it is damaged.
    """
    saved = msgspec.json.decode(text, type=_Saved)
    if saved.format != saved.own_format:
        raise ValueError(f"its format is {saved.format}, this release reads {saved.own_format}")
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
        "tidy": saved.tidy,
        "id_from": saved.id_from,
        "labels_within": saved.labels_within,
        "include": saved.include,
        "probabilities": saved.probabilities,
    }


def _given(fields: Mapping[str, Field]) -> dict[str, Any]:
    return {name: field.given() for name, field in fields.items()}
