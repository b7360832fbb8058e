"""Records with fields of any kind: values stay as received, and unknown fields are counted."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoding import make_time_reader
from streamboost.connectors.messages.labels import LabelFields
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConfigurationError, DataError, StateError
from streamboost.features.fields import Field

FIELDS = {"amount": "number", "device.os": "category", "note": "text", "items.0.price": "number"}
SCHEMA = Schema(id="payment.id", time="at", fields=FIELDS, exclude=["card"], left_out=["session"])
VECTOR = Field("vector", size=2)
LABEL_IN_A = LabelFields(label="a.b")


@pytest.fixture
def decode(as_messages):
    """Return a function that decodes records by a schema."""
    return lambda schema, *records: schema.decode(
        as_messages([json.dumps(record).encode() for record in records])
    )


def test_values_come_as_they_are_in_the_order_of_the_fields(decode):
    record = {"payment": {"id": 7}, "amount": "75.29", "device": {"os": "ios"}, "at": 5}
    records, dead = decode(SCHEMA, record | {"note": 'so "far"', "items": [{"price": 3}]})
    assert dead == []
    assert records.ids == ["7"]
    assert records.times == [5]
    assert records.values == [("75.29", "ios", 'so "far"', 3)]
    assert records.X.shape == (1, 0)


ODD = [[1], {"a": 1}, True, "text", 1e308, 10**30, None, 0.5, "", []]


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_a_value_of_another_kind_is_no_dead_letter(decode, value):
    record = {"payment": {"id": 7}} | dict.fromkeys(("amount", "device", "note", "items"), value)
    records, dead = decode(SCHEMA, record | {"at": value})
    assert dead == []
    assert records.values[0][0] == value
    assert records.times[0] is None or records.times[0] == value


@pytest.mark.parametrize(
    ("id", "reason", "detail"),
    [
        (None, "missing_id", "'payment.id' is absent or null"),
        ("", "missing_id", "'payment.id' is empty"),
        (True, "wrong_type", "field 'payment.id': expected text or a whole number or null"),
        (1.5, "wrong_type", "got a number"),
        ({}, "wrong_type", "got an object"),
    ],
)
def test_what_is_no_id_is_a_dead_letter(decode, id, reason, detail):
    records, (letter,) = decode(SCHEMA, {"payment": {"id": id}}, {"payment": {"id": "x"}})
    assert records.ids == ["x"]
    assert letter.reason == reason
    assert detail in letter.detail


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"[1]", "wrong_type"),
        (b'{"payment": {"id": 1}, "z": NaN}', "bad_json"),
        (b'{"payment": {"id": 1}, "z": 1e400}', "infinite"),
        (b'{"payment": {"id": 1}, "z": "\xff"}', "bad_json"),
        (b'{"payment": {"id": 1}, "z": ' + b"[" * 9_999 + b"]" * 9_999 + b"}", "bad_json"),
        (b"", "empty"),
    ],
)
def test_what_is_damaged_is_a_dead_letter(as_messages, payload, reason):
    _, (letter,) = SCHEMA.decode(as_messages([payload]))
    assert letter.reason == reason


@given(st.lists(st.binary(max_size=30)))
def test_every_message_is_a_record_or_a_dead_letter(payloads):
    messages = [Message(p, "0", offset, len(p)) for offset, p in enumerate(payloads)]
    records, dead = SCHEMA.decode(messages)
    assert len(records) + len(dead) == len(payloads)


def test_fields_that_nobody_knows_are_counted_by_their_paths(decode):
    known = {"payment": {"id": 7}, "amount": 1, "session": "x", "card": {"no": 5}, "label": "y"}
    records, _ = decode(
        SCHEMA,
        known | {"device": {"os": "ios"}},
        known | {"device": {"os": "ios", "model": "x"}, "city": "Rome", "vec": [1, 2]},
        known | {"device": {"model": "y"}, "city": None, "items": [{"price": 2, "name": "z"}]},
    )
    assert records.unknown == {"device.model": 2, "city": 1, "vec": 1, "items.0.name": 1}


def test_a_name_may_hold_what_json_allows(decode):
    name = 'say "x"\\ \n é'
    records, _ = decode(Schema(fields={name: "number"}), {"id": 1, name: 2})
    assert records.values == [(2,)]


def test_records_taken_keep_their_values(decode):
    records, _ = decode(Schema(fields={"a": "number"}), *({"id": n, "a": n} for n in range(4)))
    assert records.take([2, 0]).values == [(2,), (0,)]


def test_a_list_of_numbers_reads_arrays_as_it_did(decode):
    records, _ = decode(Schema(numeric=["a"]), {"id": 1, "a": 2, "more": "x"})
    assert records.values is None
    assert records.unknown == {}
    assert records.X.tolist() == [[2.0]]


def test_a_time_within_an_object_is_found(as_messages):
    (message,) = as_messages([b'{"meta": {"at": 5}}'])
    assert make_time_reader("meta.at")(message) == 5_000
    assert make_time_reader('"')(message) is None


RECORD = {"id": 1, "at": 5, "amount": 2.5, "card": 7, "label": "x", "note": None, "ok": True}


class TestInference:
    def infer(self, as_messages, schema, record=RECORD):
        return schema.infer(as_messages([json.dumps(record).encode(), b"damaged", b"[]"]))

    def test_every_field_is_accounted_for_in_a_line(self, as_messages):
        schema, said = self.infer(as_messages, Schema(time="at", exclude=["card"]))
        assert schema.has_known_features
        assert schema.fields == {"amount": Field("number"), "ok": Field("number")}
        assert said.splitlines() == [
            "2 fields to learn from, by 1 record:",
            "  amount  number          numbers",
            "  ok      number          true or false, as 1 and 0",
            "  card    left out        excluded, as the file says",
            "  note    left out        never has a value",
            "  id      names a record",
            "  at      its time",
            "  label   the label",
        ]

    def test_what_was_left_out_is_known_but_not_what_never_had_a_value(self, as_messages, decode):
        schema, _ = self.infer(as_messages, Schema(time="at", exclude=["card"]))
        records, _ = decode(schema, RECORD | {"note": "now", "new": 1})
        assert records.unknown == {"note": 1, "new": 1}

    def test_what_came_later_and_is_empty_has_not_come(self, as_messages, decode):
        schema, _ = self.infer(as_messages, Schema(time="at", exclude=["card"]))
        records, _ = decode(schema, RECORD | {"note": "", "new": {"a": ""}})
        assert records.unknown == {}

    def test_named_fields_are_what_the_file_says(self, as_messages):
        schema, _ = self.infer(
            as_messages, Schema(time="at", named={"at": "time", "ok": "category"})
        )
        assert schema.fields["at"] == Field("time")
        assert schema.fields["ok"] == Field("category")
        assert schema.fields["amount"] == Field("number")

    def test_the_label_s_field_is_no_feature(self, as_messages):
        names = LabelFields(id="amount", label="ok")
        schema, said = self.infer(as_messages, Schema(label_fields=names))
        assert not {"ok", "amount", "label"} & set(schema.fields)
        assert "ok      the label" in said

    def test_fields_alike_share_a_line_where_they_are_many(self, as_messages):
        record = {"id": 1} | {f"f{n}": n for n in range(30)}
        _, said = self.infer(as_messages, Schema(), record)
        assert "  f0, f1 and 28 more  number          numbers" in said.splitlines()

    def test_records_with_nothing_to_learn_from_are_an_error_that_says_why(self, as_messages):
        with pytest.raises(DataError, match=r"(?s)no field .* \[schema.fields\].*never has"):
            self.infer(as_messages, Schema(), {"id": 1, "a": None})

    @pytest.mark.parametrize("hidden", [{"exclude": ["a.b"]}, {"label_fields": LABEL_IN_A}])
    @pytest.mark.parametrize("value", [{"b": "x", "c": 1}, {"b": None}])
    def test_an_object_with_the_label_or_an_excluded_field_is_missing(self, decode, hidden, value):
        schema = Schema(fields={"a": "text", "a.c": "number"}, **hidden)
        records, dead = decode(schema, {"id": 1, "a": value}, {"id": 2, "a": "y", "a.b": "x"})
        assert records.values == [(None, value.get("c")), ("y", None)]
        assert dead == []


class TestSettings:
    @pytest.mark.parametrize(
        ("wrong", "named"),
        [
            ({"fields": {"a": "nmber"}}, "did you mean 'number'"),
            ({"named": {"a": {"kind": "text"}}}, "field 'a'"),
            ({"fields": {}}, "at least one"),
            ({"fields": "all"}, "'all'"),
            ({"named": {"id": "text"}}, "names the records"),
            ({"named": {"label": "text"}}, "give the answer away"),
            ({"named": {"y": "text"}, "label_fields": LabelFields(label="y")}, "answer away"),
            ({"numeric": ["a", "y"], "label_fields": LabelFields(label="y")}, "answer away"),
            ({"numeric": ["a", "label"]}, "answer away"),
            ({"named": {"o": VECTOR}, "label_fields": LabelFields(label="o.0")}, "holds 'o.0'"),
            ({"fields": {"o": VECTOR}, "exclude": ["o.1"]}, "holds 'o.1'"),
            ({"named": {"card.no": "text"}, "exclude": ["card"]}, "leaves out 'card.no'"),
            ({"exclude": [""]}, "''"),
            ({"exclude": ["a"], "numeric": ["b"]}, "numeric"),
            ({"named": {"a": "text"}, "numeric": ["b"]}, "numeric"),
            ({"time": "id"}, "twice"),
        ],
    )
    def test_a_wrong_setting_is_refused_and_named(self, wrong, named):
        with pytest.raises(ConfigurationError, match=r"\[schema") as caught:
            Schema(**wrong)
        assert named in str(caught.value)

    @pytest.mark.parametrize(
        "schema",
        [
            SCHEMA,
            Schema(named={"zip": {"type": "category", "min_frequency": 5}}, exclude=["x"]),
            Schema(label="boolean", label_fields=LabelFields("a", "b.c"), fields=FIELDS),
            Schema(label_fields=LabelFields(label="y"), kind="integer"),
        ],
    )
    def test_a_saved_schema_reads_back_the_same(self, schema):
        read = Schema.from_json(schema.to_json())
        assert read == schema
        assert list(read.named) == list(schema.named)
        if schema.has_known_features:
            assert read.features == schema.features

    def test_a_field_without_a_name_stops_no_pipeline(self, as_messages, decode):
        lines = [b'{"id": "1", "a": 1, "": 2}', b'{"id": "2", "a": 1.5, "": {"": 2}}']
        found = Schema().infer(as_messages(lines))
        assert list(found.schema.fields) == ["a", "."]
        read = Schema.from_json(found.schema.to_json())
        assert read == found.schema
        records, dead = decode(read, {"id": "3", "a": 3, "": {"": 4}})
        assert (records.values, dead, records.unknown) == ([(3, 4)], [], {})

    def test_a_damaged_saved_schema_is_refused(self):
        text = SCHEMA.to_json()
        for wrong in (text.replace('"format": 3', '"format": 2'), text.replace("text", "txet")):
            with pytest.raises(StateError, match="start again"):
                Schema.from_json(wrong)
