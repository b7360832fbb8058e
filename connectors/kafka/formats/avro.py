"""Avro: schemas that can be trusted with any bytes, and values as JSON would have them.

Values of logical types become what a JSON message says of the same: numbers with a point for
decimals, ISO 8601 for dates and times (UTC, but for local ones), text for UUIDs. Bytes are base64.
"""

import io
import json
from decimal import Context, Decimal
from typing import Any, NamedTuple

import msgspec

from streamboost.errors import ConfigurationError

__all__ = ["Avro", "UnusableError"]

_encode = msgspec.json.Encoder(decimal_format="number").encode

_DECIMAL = "streamboost-decimal"
_LONGEST_DECIMAL = 128
"""Bytes of a decimal: making one of them takes time by the square of it."""

_MOST_FREE = 16
"""Values of a record that may take no bytes: they are made for each byte that repeats it."""

_AROUND: dict[str, Any] = {"type": "record", "name": "StreamboostValue"}
_INNER: dict[str, Any] = {"name": "value"}

_LEAST = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8}
"""Bytes that a value takes at least; strings and bytes: that of their length."""


class UnusableError(Exception):
    """A message, or its schema, cannot be used; the text says why."""


class Avro:
    """Reads and writes values of one schema.

    Parameters
    ----------
    text : str
        The schema, in JSON.
    named : sequence of str
        Those it refers to, each after those that it refers to itself.

    Raises
    ------
    UnusableError
        When it is no schema; when a few bytes of it could be a value without end, as where a record
        holds itself, or a list holds what takes no bytes.

    Examples
    --------
    >>> avro = Avro('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}')
    >>> avro.write({"a": -2}), avro.read(b"\\x03")
    (b'\\x03', b'{"a":-2}')
    """

    def __init__(self, text: str, named: tuple[str, ...] = ()) -> None:
        self._library = _library()
        known: dict[str, Any] = {}
        try:
            for one in named:
                self._library.parse_schema(_prepared(json.loads(one)), known)
            whole = _prepared(json.loads(text))
            # The library finds named types within a record alone, which takes no bytes of its own.
            self._is_record = isinstance(whole, dict) and whole.get("type") == "record"
            whole = whole if self._is_record else {**_AROUND, "fields": [_INNER | {"type": whole}]}
            self._schema = self._library.parse_schema(whole, known)
            _Sizes(known).of(self._schema)
        except UnusableError:
            raise
        except Exception as error:  # it raises whatever its walk through a wrong one ends with
            raise UnusableError(f"its schema cannot be used: {error!r}") from error

    def read(self, payload: bytes) -> bytes:
        """Return a value as JSON; UnusableError where the bytes are none."""
        file = io.BytesIO(payload)
        try:
            value = self._library.schemaless_reader(file, self._schema, None)
            text = _encode(value if self._is_record else value["value"])
        except Exception as error:  # it raises whatever its walk through wrong bytes ends with
            raise UnusableError(f"not of its schema: {_said(error)}") from error
        if (rest := len(payload) - file.tell()) > 0:
            raise UnusableError(f"not of its schema: {rest} bytes more than one value has")
        return text

    def write(self, value: Any) -> bytes:
        """Return a value in bytes; UnusableError where it is none of the schema."""
        file = io.BytesIO()
        value = value if self._is_record else {"value": value}
        try:
            self._library.schemaless_writer(file, self._schema, value)
        except Exception as error:
            raise UnusableError(f"not of its schema: {_said(error)}") from error
        return file.getvalue()


class _Size(NamedTuple):
    """Of a type: the bytes that a value takes at least, and how many in one take none at most."""

    least: int
    free: int


class _Sizes:
    """Sizes of types, of which none may hold itself or repeat what takes no bytes."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._known: dict[str, _Size] = {}
        self._within: set[str] = set()

    def of(self, schema: Any) -> _Size:
        if isinstance(schema, str) and schema not in self._named:
            least = _LEAST.get(schema, 1)
            return _Size(least, least == 0)
        if isinstance(schema, str):
            schema = self._named[schema]
        if isinstance(schema, list):
            each = [self.of(one) for one in schema]
            least = min((one.least for one in each), default=0)
            return _Size(1 + least, max((one.free for one in each if one.least), default=0))
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._of_record(schema)
        if kind == "enum":
            return _Size(1, 0)
        if kind == "fixed":
            return _Size(int(schema["size"]), not schema["size"])
        if kind == "map":
            self.of(schema["values"])
            return _Size(1, 0)
        if kind == "array":
            if self.of(schema["items"]).least == 0:
                raise UnusableError("its schema has a list of what takes no bytes: it has no bound")
            return _Size(1, 0)
        return self.of(kind)

    def _of_record(self, schema: Any) -> _Size:
        name = schema["name"]
        if name in self._within:
            raise UnusableError(f"its schema has {name} within itself: how deep, nobody can tell")
        if name not in self._known:
            self._within.add(name)
            each = [self.of(one["type"]) for one in schema["fields"]]
            self._within.discard(name)
            least, free = sum(one.least for one in each), sum(one.free for one in each)
            if free > _MOST_FREE:
                raise UnusableError(
                    f"its schema has {free} values in {name} that take no bytes: it has no bound"
                )
            self._known[name] = _Size(least, free + (least == 0))
        return self._known[name]


def _prepared(schema: Any) -> Any:
    """Return a schema whose decimals are made by us: the library takes any length for one."""
    if isinstance(schema, list):
        return [_prepared(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    prepared = {name: one if name == "default" else _prepared(one) for name, one in schema.items()}
    if schema.get("logicalType") == "decimal":
        prepared["logicalType"] = _DECIMAL
    return prepared


def _decimal(data: bytes, schema: Any, _: Any = None) -> Decimal:
    if len(data) > _LONGEST_DECIMAL:
        raise UnusableError(f"a decimal of {len(data)} bytes, more than {_LONGEST_DECIMAL}")
    digits = int.from_bytes(data, "big", signed=True)
    scale = schema.get("scale", 0)
    if not isinstance(scale, int) or not 0 <= scale <= 1_000:
        raise UnusableError(f"a decimal with a scale of {scale!r}")
    return Decimal(digits).scaleb(-scale, Context(prec=4 * _LONGEST_DECIMAL))


def _said(error: Exception) -> str:
    if isinstance(error, EOFError | IndexError):
        return "it ends too early, or is of another"
    return str(error) or repr(error)


def _library() -> Any:
    try:
        import fastavro
        import fastavro.read
    except ImportError as error:
        raise ConfigurationError(
            f'format = "avro" needs fastavro, which is not installed ({error}): install '
            "streamboost[registry]"
        ) from error
    for kind in ("bytes", "fixed"):
        fastavro.read.LOGICAL_READERS[f"{kind}-{_DECIMAL}"] = _decimal
    return fastavro
