"""Output schemas (Avro, JSON Schema), derived from the structs that a pipeline writes."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import inspect

__all__ = ["as_avro", "schema_of", "tables_in"]

_ANY = ["null", "boolean", "long", "double", "string"]
"""Avro types for values of any kind: lists, objects and larger numbers are JSON in text."""

_PLAIN: dict[type, str] = {
    inspect.NoneType: "null",
    inspect.BoolType: "boolean",
    inspect.IntType: "long",
    inspect.FloatType: "double",
    inspect.StrType: "string",
    inspect.LiteralType: "string",
}

_JSON_SCHEMA = "https://json-schema.org/draft/2020-12/schema"

_INT64 = 2**63


def schema_of(struct: type[msgspec.Struct], kind: str) -> str:
    """Return the schema of a struct's messages as JSON; `kind` is "AVRO" or "JSON".

    Optional fields are null by default in Avro, so that a later release can add fields.

    >>> schema_of(msgspec.defstruct("A", [("b", int | None), ("c", str, "x")]), "AVRO")
    '{"type":"record","name":"A","namespace":"streamboost","fields":[{"name":"b","type":["null","long"]},{"name":"c","type":["null","string"],"default":null}]}'
    """
    if kind == "AVRO":
        made = _record(struct)
    else:
        made = {"$schema": _JSON_SCHEMA} | _undescribed(msgspec.json.schema(struct))
    return json.dumps(made, separators=(",", ":"))


def tables_in(struct: type[msgspec.Struct]) -> list[str]:
    """Return the fields of a struct that are mappings to values of any kind."""
    return [
        one.encode_name
        for one in _info(struct).fields
        if isinstance(one.type, inspect.DictType)
        and isinstance(one.type.value_type, inspect.AnyType)
    ]


def as_avro(message: dict[str, Any], tables: Sequence[str]) -> dict[str, Any]:
    """Convert a message for Avro: the values of its `tables` become types of `_ANY`."""
    for name in tables:
        if held := message.get(name):
            message[name] = {inner: _without_markup(value) for inner, value in held.items()}
    return message


def _without_markup(value: Any) -> Any:
    is_large = isinstance(value, int) and not -_INT64 <= value < _INT64
    if is_large or isinstance(value, list | dict):
        return msgspec.json.encode(value).decode()
    return value


def _info(struct: type[msgspec.Struct]) -> inspect.StructType:
    found = inspect.type_info(struct)
    assert isinstance(found, inspect.StructType)
    return found


def _record(struct: type[msgspec.Struct]) -> dict[str, Any]:
    fields = []
    for one in _info(struct).fields:
        made = _avro(one.type)
        if one.required:
            fields.append({"name": one.encode_name, "type": made})
            continue
        others = [kind for kind in (made if isinstance(made, list) else [made]) if kind != "null"]
        fields.append({"name": one.encode_name, "type": ["null", *others], "default": None})
    name = struct.__name__
    return {"type": "record", "name": name, "namespace": "streamboost", "fields": fields}


def _avro(found: inspect.Type) -> Any:
    if isinstance(found, inspect.UnionType):
        kinds = [_avro(one) for one in found.types]
        # In a union with long and double, a whole number is a long.
        return sorted(kinds, key=lambda kind: _ANY.index(kind) if kind in _ANY else len(_ANY))
    if isinstance(found, inspect.AnyType):
        return _ANY
    if isinstance(found, inspect.DictType):
        return {"type": "map", "values": _avro(found.value_type)}
    if isinstance(found, inspect.ListType):
        return {"type": "array", "items": _avro(found.item_type)}
    return _PLAIN[type(found)]


def _undescribed(schema: Any) -> Any:
    """Return a schema without descriptions, which change more often than what they describe."""
    if isinstance(schema, list):
        return [_undescribed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _undescribed(one) for name, one in schema.items() if name != "description"}
