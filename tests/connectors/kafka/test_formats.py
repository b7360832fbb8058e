"""Messages in schema registry formats (Avro, JSON Schema), with a registry in memory.

`tests/pipelines/app/test_kafka_formats.py` uses a real registry.
"""

import base64
import io
import json
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest

from streamboost.connectors.base import Message
from streamboost.connectors.kafka.formats.decoding import FRAME, Decoder
from streamboost.connectors.kafka.formats.encoding import Encoder
from streamboost.connectors.kafka.formats.output_schemas import derive_schema
from streamboost.connectors.kafka.formats.registry import RegisteredSchema
from streamboost.connectors.messages.outgoing import DeadLetter, Prediction, Request
from streamboost.connectors.messages.schema import Schema

fastavro = pytest.importorskip("fastavro")

RECORD = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "string"}, {"name": "a", "type": ["null", "double"]}],
}


class Table:
    """What a registry says of schemas by their ids."""

    url = "http://registry"

    def __init__(self, *schemas, kind="AVRO"):
        self.kept = {n: RegisteredSchema(kind, json.dumps(one)) for n, one in enumerate(schemas, 1)}
        self.asked = []

    def get_schema(self, id):
        self.asked.append(id)
        return self.kept.get(id)

    def register_schema(self, subject, kind, text):
        self.kept[7] = RegisteredSchema(kind, text)
        return 7


def varint(n):
    n, out = (n << 1) ^ (n >> 63), b""
    while n & ~0x7F:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def framed(schema, value, id=1):
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), value)
    return FRAME.pack(0, id) + file.getvalue()


def message(payload, **more):
    return Message(payload, "0", 4, len(payload), **more)


def decoded(schema, payload, **more):
    (found,) = Decoder(Table(schema), "avro", **more).decode([message(payload)])
    return found


def of_type(kind, value):
    """Return the JSON value that the decoder makes of an Avro type's value."""
    schema = {"type": "record", "name": "T", "fields": [{"name": "v", "type": kind}]}
    found = decoded(schema, framed(schema, {"v": value}))
    assert found.damage is None
    return msgspec.json.decode(found.payload)["v"]


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


def test_a_record_in_avro_is_what_the_same_in_json_is():
    found = decoded(RECORD, framed(RECORD, {"id": "7", "a": 1.5}))
    assert found == message(b'{"id":"7","a":1.5}')
    records, dead = Schema(numeric=["a"]).decode([found])
    assert (records.ids, records.X.tolist(), dead) == (["7"], [[1.5]], [])


def values():
    moment = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
    yield ["null", "string"], None, None
    yield "long", 2**53 + 1, 2**53 + 1
    yield "double", float("nan"), None
    yield "double", float("inf"), None
    yield "bytes", b"\x00\xff", "AP8="
    yield {"type": "enum", "name": "E", "symbols": ["x", "y"]}, "y", "y"
    yield {"type": "array", "items": "int"}, [1, 2], [1, 2]
    yield {"type": "map", "values": "int"}, {"k": 1}, {"k": 1}
    yield logical("bytes", "decimal", precision=9, scale=2), Decimal("-12.30"), -12.3
    yield logical("long", "timestamp-millis"), moment, "2026-01-02T03:04:05.678000Z"
    yield logical("long", "timestamp-micros"), moment, "2026-01-02T03:04:05.678000Z"
    yield logical("int", "date"), date(2026, 1, 2), "2026-01-02"
    yield logical("int", "time-millis"), time(3, 4, 5), "03:04:05"
    id = "12345678-1234-1234-1234-123456789abc"
    yield logical("string", "uuid"), UUID(id), id


@pytest.mark.parametrize(("kind", "value", "expected"), list(values()))
def test_each_type_becomes_what_json_says_of_it(kind, value, expected):
    assert of_type(kind, value) == expected


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b'{"id": "7", "a": 1}', 'write format = "json"'),
        (b"\0\0\0", "does not begin with a zero byte"),
        (FRAME.pack(0, 99) + b"\x02a", "schema 99: the schema registry http://registry has none"),
        (FRAME.pack(0, 1), "ends too early"),
        (FRAME.pack(0, 1) + b"\x02", "ends too early"),
        (FRAME.pack(0, 1) + varint(2**40) + b"abc", "ends too early"),
        (FRAME.pack(0, 1) + varint(-5) + b"abcdef", "ends too early"),
        (FRAME.pack(0, 1) + b"\x02a\x0e", "ends too early"),
        (FRAME.pack(0, 1) + b"\x02a\x00\x00", "1 bytes more than one value has"),
        (FRAME.pack(0, 1) + b"\x02\xff\x00", "utf-8"),
    ],
)
def test_bytes_that_are_none_of_the_schema_are_a_dead_letter_with_these_bytes(payload, said):
    found = decoded(RECORD, payload)
    assert said in found.damage
    (letter,) = Schema(numeric=["a"]).decode([found]).dead
    assert letter.reason == "corrupt"
    assert said in letter.detail
    given = letter.payload.encode()
    assert payload == (given if letter.encoding == "utf-8" else base64.b64decode(given))
    assert letter.size == len(payload)


def nested():
    inner = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
    yield inner, b"\x02" * 100_000 + b"\x00", "N within itself"
    empty = {"type": "record", "name": "E", "fields": []}
    for items in ("null", empty, {"type": "fixed", "name": "F", "size": 0}):
        yield {"type": "array", "items": items}, varint(2**40) + b"\0", "it has no bound"
    fields = [{"name": f"n{i}", "type": "null"} for i in range(1_000)]
    many = {"type": "record", "name": "M", "fields": [*fields, {"name": "b", "type": "boolean"}]}
    yield {"type": "array", "items": many}, varint(2**20) + b"\0" * 2**20, "it has no bound"
    long = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    yield long, varint(500_000) + b"\x7f" * 500_000, "a decimal of 500000 bytes"
    yield {"type": "nonsense"}, b"", "schema cannot be used"


@pytest.mark.parametrize(("schema", "body", "said"), list(nested()))
def test_few_bytes_of_a_schema_without_bounds_neither_fill_memory_nor_end_the_process(
    schema, body, said
):
    assert said in decoded(schema, FRAME.pack(0, 1) + body).damage


def test_what_is_larger_than_a_source_may_hold_is_left_to_be_told_so():
    cut = Message(framed(RECORD, {"id": "7" * 50, "a": 1.0})[:20], "0", 4, 60)
    assert Decoder(Table(RECORD), "avro").decode([cut]) == [cut]
    (letter,) = Schema(numeric=["a"]).decode([cut]).dead
    assert letter.reason == "too_large"


def test_a_message_without_a_value_is_empty():
    found = decoded(RECORD, b"")
    assert found.damage is None
    assert [letter.reason for letter in Schema(numeric=["a"]).decode([found]).dead] == ["empty"]


def test_a_schema_is_asked_for_once_and_an_unknown_one_at_each_poll():
    table = Table(RECORD)
    decoder, good = Decoder(table, "avro"), framed(RECORD, {"id": "7", "a": 1.0})
    for _ in range(2):
        decoder.decode([message(good), message(good), *[message(FRAME.pack(0, 9))] * 2])
    assert table.asked == [1, 9, 9]


def test_an_older_schema_after_a_newer_one_is_read_as_what_it_is():
    fields = [*RECORD["fields"], {"name": "b", "type": "int", "default": 3}]
    decoder = Decoder(Table(RECORD, RECORD | {"fields": fields}), "avro")
    new = framed(RECORD | {"fields": fields}, {"id": "1", "a": None, "b": 4}, id=2)
    old = framed(RECORD, {"id": "2", "a": 1.0})
    found = [one.payload for one in decoder.decode([message(new), message(old)])]
    assert found == [b'{"id":"1","a":null,"b":4}', b'{"id":"2","a":1.0}']


def test_a_schema_of_another_format_is_said():
    (found,) = Decoder(Table({}, kind="JSON"), "avro").decode([message(FRAME.pack(0, 1) + b"{}")])
    assert found.damage == 'schema 1: it is of JSON, and the format is "avro"'


def test_a_schema_may_refer_to_others():
    table = Table(RECORD)
    whole = {"type": "record", "name": "W", "fields": [{"name": "r", "type": "R"}]}
    table.kept[2] = RegisteredSchema("AVRO", json.dumps(whole), (json.dumps(RECORD),))
    body = framed(RECORD, {"id": "7", "a": None})[FRAME.size :]
    (found,) = Decoder(table, "avro").decode([message(FRAME.pack(0, 2) + body)])
    assert found.payload == b'{"r":{"id":"7","a":null}}'


@pytest.mark.parametrize(
    ("schema", "value", "name"),
    [
        ("string", "c7", "c7"),
        ("long", 7, "7"),
        ({"type": "record", "name": "K", "fields": [{"name": "k", "type": "int"}]}, {"k": 7}, "7"),
    ],
)
def test_a_key_in_avro_names_the_record(schema, value, name):
    key = framed(schema, value, id=2)
    one = message(framed(RECORD, {"id": "x", "a": 1.0}), key=key)
    found = Decoder(Table(RECORD, schema), "avro", keys_are_ids=True).decode([one])
    records, _ = Schema(numeric=["a"], id_from="key").decode(found)
    assert records.ids == [name]
    assert records.messages[0].key == key, "what is written of the record bears it as it came"


def test_a_key_that_names_nothing_is_a_dead_letter_and_one_in_text_names():
    decoder, value = (
        Decoder(Table(RECORD, "bytes"), "avro", keys_are_ids=True),
        framed(RECORD, {"id": "", "a": 1.0}),
    )
    keys = [b"c7", struct.pack(">i", 7), framed(RECORD, {"id": "1", "a": 2.0}), FRAME.pack(0, 2)]
    found = decoder.decode([message(value, key=key) for key in keys])
    records, dead = Schema(numeric=["a"], id_from="key").decode(found)
    assert records.ids == ["c7"]
    assert all("its key: " in letter.detail for letter in dead)
    assert len(dead) == 3


def test_json_by_a_schema_is_what_follows_the_frame():
    table = Table({}, kind="JSON")
    good, bad = (message(FRAME.pack(0, 5) + text) for text in (b'{"id":"7","a":1}', b'{"id'))
    records, dead = Schema(numeric=["a"]).decode(Decoder(table, "json-schema").decode([good, bad]))
    assert records.ids == ["7"]
    assert [letter.reason for letter in dead] == ["bad_json"]
    assert table.asked == [], "reading goes on while the registry is away"


def written():
    more = {
        "big": 2**70,
        "list": [1, {"x": None}],
        "t": True,
        "f": 0.5,
        "n": None,
        "s": "ü",
        "i": 3,
    }
    prediction = Prediction("7", "2026-01-01", "grass", 0.9, float("nan"), 3, False, 12)
    yield prediction
    yield msgspec.structs.replace(
        prediction, time=5, label=2**53 + 1, fields=more, probabilities={"a": 0.5}, decision=None
    )
    yield msgspec.structs.replace(prediction, label=True, decision=False)
    yield Request("7", 1.5, more, None, {}, 0.5, 1.0, None, 12, excluded_annotators=["ann"])
    yield Request("7", 1.5, more, True, {"true": 0.5}, 0.5, 1.0, None, 12)
    bad = message(b"\xff")
    yield DeadLetter.from_message(bad, "bad_json", "what", source="records", time=5)


def plain(value):
    if isinstance(value, list | dict) or (isinstance(value, int) and abs(value) >= 2**63):
        return msgspec.json.encode(value).decode()
    return value


@pytest.mark.parametrize("format", ["avro", "json-schema"])
@pytest.mark.parametrize("one", list(written()), ids=lambda one: type(one).__name__)
def test_what_is_written_comes_back_as_it_was(one, format):
    table, text = Table(), one.encode()
    (payload,) = Encoder(table, format, "t", type(one)).encode([text])
    (back,) = Decoder(table, format).decode([message(payload)])
    expected = msgspec.json.decode(text)
    if format == "avro":
        for name in {"fields", "features"} & expected.keys():
            expected[name] = {inner: plain(value) for inner, value in expected[name].items()}
        absent = [field.name for field in msgspec.structs.fields(one) if field.name not in expected]
        expected |= dict.fromkeys(absent)
    assert msgspec.json.decode(back.payload) == expected


def test_a_later_release_may_add_what_may_be_absent():
    before = msgspec.defstruct("P", [("id", str)])
    after = msgspec.defstruct("P", [("id", str), ("more", str | msgspec.UnsetType, msgspec.UNSET)])
    file = io.BytesIO()
    old, new = (
        fastavro.parse_schema(json.loads(derive_schema(s, "AVRO"))) for s in (before, after)
    )
    fastavro.schemaless_writer(file, old, {"id": "7"})
    file.seek(0)
    assert fastavro.schemaless_reader(file, old, new) == {"id": "7", "more": None}
