"""Label messages: each says what a record turned out to be. They may be whole records."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec

from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoded import Desk, Labels
from streamboost.connectors.messages.labels import (
    LabelFields,
    LabelKind,
    as_json,
    kind_of,
    nearest,
    read_label,
    shown,
    tidied,
)
from streamboost.connectors.messages.values import id_reader, time_of
from streamboost.connectors.messages.written import Label, Reason, Time, encode
from streamboost.features.paths import getter, is_null

__all__ = ["LabelMessages"]

_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_TYPES: dict[str, Any] = {"string": str | None, "integer": _INT64 | None}

_NULL: Any = object()
"""What stands for a label that is null, and not absent."""


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
