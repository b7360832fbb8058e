"""What is wrong with the settings of a schema."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from streamboost.connectors.messages.inference import is_nameable
from streamboost.connectors.messages.labels import LabelKind, kind_of, read_label, tidied
from streamboost.errors import ConfigurationError
from streamboost.features.paths import lies_in

if TYPE_CHECKING:
    from streamboost.connectors.messages.schema import Schema

__all__ = ["check", "classes_of"]

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
