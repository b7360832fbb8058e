"""Avro: checks that a schema limits the size of values, and converts values from and to JSON.

Values of logical types become the JSON that other formats use: decimal numbers, ISO 8601 for dates
and times (in UTC, except local ones), text for UUIDs. Bytes are base64.
"""

import io
import json
from decimal import Context, Decimal
from typing import Any, NamedTuple

import msgspec

from streamboost.errors import ConfigurationError

_encode = msgspec.json.Encoder(decimal_format="number").encode

_DECIMAL = "streamboost-decimal"
_LONGEST_DECIMAL = 128
"""Limit of the bytes of a decimal, whose conversion takes quadratic time."""

_MOST_FREE = 16
"""Limit of zero-byte values per record. A list needs only one byte for each such record."""

_AROUND: dict[str, Any] = {"type": "record", "name": "StreamboostValue"}
_INNER: dict[str, Any] = {"name": "value"}

_LEAST = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8}
"""Minimum bytes of a value, by type; for strings and bytes, those that encode the length."""


class UnusableMessageError(Exception):
    """Raised if a message or its schema is unusable; the text is the reason."""


class AvroCodec:
    """Converts values of one schema between Avro and JSON.

    Parameters
    ----------
    schema_text : str
        The schema, in JSON.
    referenced_schemas : sequence of str
        The schemas that `schema_text` references, in JSON. A schema follows the schemas that it
        references itself.

    Raises
    ------
    UnusableMessageError
        When the schema is invalid, or when a few bytes could encode a value of unlimited size, as
        for a record that contains itself, or a list of zero-byte values.

    Examples
    --------
    >>> field = '{"name": "a", "type": "long"}'
    >>> avro = AvroCodec('{"type": "record", "name": "R", "fields": [' + field + "]}")
    >>> avro.encode({"a": -2}), avro.decode(b"\\x03")
    (b'\\x03', b'{"a":-2}')
    """

    def __init__(self, schema_text: str, referenced_schemas: tuple[str, ...] = ()) -> None:
        self._library = _import_fastavro()
        known: dict[str, Any] = {}
        try:
            for one in referenced_schemas:
                self._library.parse_schema(_limit_size_of_decimals(json.loads(one)), known)
            whole = _limit_size_of_decimals(json.loads(schema_text))
            # The library resolves named types within a record alone, which takes no bytes.
            self._is_record = isinstance(whole, dict) and whole.get("type") == "record"
            whole = whole if self._is_record else {**_AROUND, "fields": [_INNER | {"type": whole}]}
            self._schema = self._library.parse_schema(whole, known)
            _SizeLimitCalculator(known).size_limits_of_type(self._schema)
        except UnusableMessageError:
            raise
        except Exception as error:  # the library raises any error for an invalid schema
            raise UnusableMessageError(f"its schema cannot be used: {error!r}") from error

    def decode(self, payload: bytes) -> bytes:
        """Decode a value in Avro and return it as JSON; UnusableMessageError for invalid bytes."""
        file = io.BytesIO(payload)
        try:
            value = self._library.schemaless_reader(file, self._schema, None)
            text = _encode(value if self._is_record else value["value"])
        except Exception as error:  # the library raises any error for invalid bytes
            raise UnusableMessageError(f"not of its schema: {_avro_error_text(error)}") from error
        if (rest := len(payload) - file.tell()) > 0:
            raise UnusableMessageError(f"not of its schema: {rest} bytes more than one value has")
        return text

    def encode(self, value: Any) -> bytes:
        """Encode a value in Avro; UnusableMessageError if the value does not match the schema."""
        file = io.BytesIO()
        value = value if self._is_record else {"value": value}
        try:
            self._library.schemaless_writer(file, self._schema, value)
        except Exception as error:
            raise UnusableMessageError(f"not of its schema: {_avro_error_text(error)}") from error
        return file.getvalue()


class _ValueSizes(NamedTuple):
    """Minimum size of a value in bytes, and maximum number of zero-byte values in the value."""

    least: int
    free: int


class _SizeLimitCalculator:
    """Computes the sizes of encoded values, for each type of a schema.

    Raises UnusableMessageError for recursive types and lists of zero-byte values, whose size is
    unlimited.
    """

    def __init__(self, named_types: dict[str, Any]) -> None:
        self._named = named_types
        self._known: dict[str, _ValueSizes] = {}
        self._within: set[str] = set()

    def size_limits_of_type(self, schema: Any) -> _ValueSizes:
        """Return the sizes of a value of the type `schema`."""
        if isinstance(schema, str) and schema not in self._named:
            least = _LEAST.get(schema, 1)
            return _ValueSizes(least, least == 0)
        if isinstance(schema, str):
            schema = self._named[schema]
        if isinstance(schema, list):
            each = [self.size_limits_of_type(one) for one in schema]
            least = min((one.least for one in each), default=0)
            return _ValueSizes(1 + least, max((one.free for one in each if one.least), default=0))
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._value_sizes_of_record(schema)
        if kind == "enum":
            return _ValueSizes(1, 0)
        if kind == "fixed":
            return _ValueSizes(int(schema["size"]), not schema["size"])
        if kind == "map":
            self.size_limits_of_type(schema["values"])
            return _ValueSizes(1, 0)
        if kind == "array":
            if self.size_limits_of_type(schema["items"]).least == 0:
                raise UnusableMessageError(
                    "its schema has a list of what takes no bytes: it has no bound"
                )
            return _ValueSizes(1, 0)
        return self.size_limits_of_type(kind)

    def _value_sizes_of_record(self, schema: Any) -> _ValueSizes:
        name = schema["name"]
        if name in self._within:
            raise UnusableMessageError(
                f"its schema has {name} within itself: how deep, nobody can tell"
            )
        if name not in self._known:
            self._within.add(name)
            each = [self.size_limits_of_type(one["type"]) for one in schema["fields"]]
            self._within.discard(name)
            least, free = sum(one.least for one in each), sum(one.free for one in each)
            if free > _MOST_FREE:
                raise UnusableMessageError(
                    f"its schema has {free} values in {name} that take no bytes: it has no bound"
                )
            self._known[name] = _ValueSizes(least, free + (least == 0))
        return self._known[name]


def _limit_size_of_decimals(schema: Any) -> Any:
    """Return a copy of `schema` whose decimals are decoded by `_decode_decimal`, with a limit."""
    if isinstance(schema, list):
        return [_limit_size_of_decimals(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    prepared = {
        name: one if name == "default" else _limit_size_of_decimals(one)
        for name, one in schema.items()
    }
    if schema.get("logicalType") == "decimal":
        prepared["logicalType"] = _DECIMAL
    return prepared


def _decode_decimal(data: bytes, schema: Any, _: Any = None) -> Decimal:
    if len(data) > _LONGEST_DECIMAL:
        raise UnusableMessageError(f"a decimal of {len(data)} bytes, more than {_LONGEST_DECIMAL}")
    digits = int.from_bytes(data, "big", signed=True)
    scale = schema.get("scale", 0)
    if not isinstance(scale, int) or not 0 <= scale <= 1_000:
        raise UnusableMessageError(f"a decimal with a scale of {scale!r}")
    return Decimal(digits).scaleb(-scale, Context(prec=4 * _LONGEST_DECIMAL))


def _avro_error_text(error: Exception) -> str:
    if isinstance(error, EOFError | IndexError):
        return "it ends too early, or is of another"
    return str(error) or repr(error)


def _import_fastavro() -> Any:
    try:
        import fastavro
        import fastavro.read
    except ImportError as error:
        raise ConfigurationError(
            f'format = "avro" needs fastavro, which is not installed ({error}): install '
            "streamboost[registry]"
        ) from error
    for kind in ("bytes", "fixed"):
        fastavro.read.LOGICAL_READERS[f"{kind}-{_DECIMAL}"] = _decode_decimal
    return fastavro
