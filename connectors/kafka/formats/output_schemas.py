"""Output schemas (Avro, JSON Schema), derived from the structs that a pipeline writes."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import inspect

_ANY = ["null", "boolean", "long", "double", "string"]
"""Avro types for values of any kind; lists, objects and larger numbers become JSON text."""

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


def derive_schema(struct: type[msgspec.Struct], kind: str) -> str:
    """Return the schema of a struct's messages as JSON text; `kind` is "AVRO" or "JSON".

    Optional fields are null by default in Avro, so that a later release can add fields.

    >>> derive_schema(msgspec.defstruct("A", [("b", int | None), ("c", str, "x")]), "AVRO")
    '{"type":"record","name":"A","namespace":"streamboost","fields":[{"name":"b","type":["null","long"]},{"name":"c","type":["null","string"],"default":null}]}'
    """
    if kind == "AVRO":
        made = _avro_schema_of_struct(struct)
    else:
        made = {"$schema": _JSON_SCHEMA} | _remove_descriptions(msgspec.json.schema(struct))
    return json.dumps(made, separators=(",", ":"))


def mapping_field_names(struct: type[msgspec.Struct]) -> list[str]:
    """Return the names of a struct's fields that are mappings with values of any type."""
    return [
        one.encode_name
        for one in _struct_type_info(struct).fields
        if isinstance(one.type, inspect.DictType)
        and isinstance(one.type.value_type, inspect.AnyType)
    ]


def convert_for_avro(message: dict[str, Any], mapping_names: Sequence[str]) -> dict[str, Any]:
    """Return a message whose fields `mapping_names` have only values that Avro supports.

    Lists, objects and integers of more than 64 bits in these fields become JSON text.
    """
    for name in mapping_names:
        if held := message.get(name):
            message[name] = {inner: _to_avro_value(value) for inner, value in held.items()}
    return message


def _to_avro_value(value: Any) -> Any:
    is_large = isinstance(value, int) and not -_INT64 <= value < _INT64
    if is_large or isinstance(value, list | dict):
        return msgspec.json.encode(value).decode()
    return value


def _struct_type_info(struct: type[msgspec.Struct]) -> inspect.StructType:
    found = inspect.type_info(struct)
    assert isinstance(found, inspect.StructType)
    return found


def _avro_schema_of_struct(struct: type[msgspec.Struct]) -> dict[str, Any]:
    fields = []
    for one in _struct_type_info(struct).fields:
        made = _avro_schema_of_type(one.type)
        if one.required:
            fields.append({"name": one.encode_name, "type": made})
            continue
        others = [kind for kind in (made if isinstance(made, list) else [made]) if kind != "null"]
        fields.append({"name": one.encode_name, "type": ["null", *others], "default": None})
    name = struct.__name__
    return {"type": "record", "name": name, "namespace": "streamboost", "fields": fields}


def _avro_schema_of_type(field_type: inspect.Type) -> Any:
    if isinstance(field_type, inspect.UnionType):
        kinds = [_avro_schema_of_type(one) for one in field_type.types]
        # In a union with long and double, a whole number is a long.
        return sorted(kinds, key=lambda kind: _ANY.index(kind) if kind in _ANY else len(_ANY))
    if isinstance(field_type, inspect.AnyType):
        return _ANY
    if isinstance(field_type, inspect.DictType):
        return {"type": "map", "values": _avro_schema_of_type(field_type.value_type)}
    if isinstance(field_type, inspect.ListType):
        return {"type": "array", "items": _avro_schema_of_type(field_type.item_type)}
    return _PLAIN[type(field_type)]


def _remove_descriptions(json_schema: Any) -> Any:
    """Return a JSON Schema without descriptions, whose changes would need a new version."""
    if isinstance(json_schema, list):
        return [_remove_descriptions(one) for one in json_schema]
    if not isinstance(json_schema, dict):
        return json_schema
    return {
        name: _remove_descriptions(one)
        for name, one in json_schema.items()
        if name != "description"
    }
