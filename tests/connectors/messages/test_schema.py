"""Decoding: valid messages become arrays, damaged messages become dead letters without an error."""

import base64
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamboost.connectors.base import Message
from streamboost.connectors.messages.outgoing import DeadLetter
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConfigurationError, DataError, StateError

SCHEMA = Schema(time="at", label="string", numeric=["a", "b c", "é"], max_record_bytes=1000)

DAMAGED = {
    "empty": (b"", "empty", "nothing"),
    "only spaces": (b" \t\r\n", "empty", "nothing"),
    "cut": (b'{"id": 1', "bad_json", "truncated"),
    "a word": (b"hello", "bad_json", "byte 0"),
    "two objects": (b'{"id": 1}{"id": 2}', "bad_json", "trailing"),
    "a NaN literal": (b'{"id": 1, "a": NaN}', "bad_json", "NaN at byte 15 is not JSON: write null"),
    "an infinite literal": (b'{"id": 1, "a": -Infinity}', "bad_json", "Infinity at byte 16"),
    "a NaN in a field that is not read": (b'{"id": 1, "z": NaN}', "bad_json", "NaN at byte 15"),
    "not UTF-8": (b'{"id": "\xff"}', "bad_json", "not UTF-8: byte 0xff at 8"),
    "not UTF-8 where it is not read": (b'{"id": 1, "z": "\xff"}', "bad_json", "byte 0xff at 16"),
    "a lone surrogate": (b'{"id": "\\ud800"}', "bad_json", ""),
    "nested without end": (b'{"id": 1, "z": ' + b"[" * 500 + b"]" * 400, "bad_json", ""),
    "a list": (b"[1, 2]", "wrong_type", "the message: expected an object, got a list"),
    "null": (b"null", "wrong_type", "the message: expected an object, got null"),
    "no id": (b'{"a": 1}', "missing_id", "'id' is absent or null"),
    "null for an id": (b'{"id": null}', "missing_id", "'id' is absent or null"),
    "an empty id": (b'{"id": ""}', "missing_id", "'id' is empty"),
    "a fraction for an id": (b'{"id": 1.5}', "wrong_type", "'id'"),
    "true for an id": (b'{"id": true}', "wrong_type", "'id'"),
    "text in a number": (b'{"id": 1, "a": "2"}', "wrong_type", "'a': expected a number or null"),
    "true in a number": (b'{"id": 1, "b c": true}', "wrong_type", "'b c'"),
    "a list in a number": (b'{"id": 1, "\xc3\xa9": [1]}', "wrong_type", "'é'"),
    "an object for a time": (b'{"id": 1, "at": {}}', "wrong_type", "'at'"),
    "over float64": (b'{"id": 1, "a": 1e400}', "infinite", "'a'"),
    "over float32": (b'{"id": 1, "a": 1, "b c": -1e39}', "infinite", "'b c'"),
    "an integer over float64": (b'{"id": 1, "a": 1' + b"0" * 400 + b"}", "infinite", "'a'"),
    "too large": (b'{"id": "' + b"x" * 1000 + b'"}', "too_large", "1010 bytes"),
}


def offsets_of(decoded):
    return [message.offset for message in decoded.messages]


def test_numbers_at_dotted_paths_are_read_from_nested_objects(as_messages):
    schema = Schema(id="device.id", time="at.ms", numeric=["device.version", "b", "tags.1", "x.y"])
    records, dead = schema.decode(
        as_messages(
            [
                b'{"device": {"id": "a", "version": 3}, "b": 1, "tags": [0, 7], "at": {"ms": 5}}',
                b'{"device.id": "b", "device.version": 4, "x.y": 2, "device": "a phone"}',
                b'{"device": {"id": "c", "version": "new"}}',
            ]
        )
    )
    assert (records.ids, records.times) == (["a", "b"], [5, None])
    expected = [[3, 1, 7, np.nan], [4, np.nan, np.nan, 2]]
    np.testing.assert_array_equal(records.X, np.array(expected, dtype=np.float32))
    (letter,) = dead
    assert letter.reason == "wrong_type"
    assert "'device.version': expected a number or null" in letter.detail


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("case", DAMAGED)
def test_each_damage_has_its_reason_and_says_where(case, nested, as_messages):
    payload, reason, detail = DAMAGED[case]
    good = b'{"id": "good", "unused": 1e400}'
    messages = as_messages([good, payload, good])
    schema = replace(SCHEMA, numeric=[*SCHEMA.numeric, "c.d"]) if nested else SCHEMA
    records, dead = schema.decode(messages, source="my records", time=1234)
    assert offsets_of(records) == [0, 2]
    (letter,) = dead
    assert letter.reason == reason
    assert detail in letter.detail
    assert letter.source == "my records"
    assert letter.position == {"0": 1}
    assert letter.time == 1234
    assert letter.size == len(payload)


def test_good_messages_fill_the_columns_in_the_schema_s_order(as_messages):
    records, dead = SCHEMA.decode(
        as_messages(
            [
                '{"é": 3, "b c": 2.5, "a": -1, "id": "x", "at": "today"}'.encode(),
                b'{"id": 12, "a": null, "b c": 1e3, "other": {"a": [7]}, "at": 17}',
                b'{"at": 1.5, "\\u0061": 4, "id": "12 "}',
            ]
        )
    )
    assert dead == []
    assert records.ids == ["x", "12", "12 "]
    assert records.times == ["today", 17, 1.5]
    assert records.X.dtype == np.float32
    assert records.X.flags.c_contiguous
    np.testing.assert_array_equal(
        records.X,
        np.array([[-1, 2.5, 3], [math.nan, 1000, math.nan], [4, math.nan, math.nan]], np.float32),
    )
    assert len(records) == 3


def test_without_a_time_field_times_are_none(as_messages):
    records, _ = Schema(numeric=["a"]).decode(as_messages([b'{"id": 1, "a": 2, "time": 3}']))
    assert records.times == [None]
    assert records.X.tolist() == [[2.0]]


def test_no_messages_give_no_rows():
    records, dead = SCHEMA.decode([])
    assert records.X.shape == (0, 3)
    assert (records.ids, records.times, dead) == ([], [], [])


def test_the_largest_float32_is_a_number(as_messages):
    largest = float(np.finfo(np.float32).max)
    records, dead = SCHEMA.decode(as_messages([json.dumps({"id": 1, "a": largest}).encode()]))
    assert records.X[0, 0] == np.float32(largest)
    assert dead == []


def test_a_long_whole_number_is_an_id(as_messages):
    digits = b"9" * 600
    records, dead = SCHEMA.decode(as_messages([b'{"id": ' + digits + b"}"]))
    assert records.ids == [digits.decode()]
    assert dead == []


def test_of_a_field_given_twice_the_last_value_holds(as_messages):
    records, _ = SCHEMA.decode(as_messages([b'{"id": 1, "a": 1, "a": 2, "id": 3}']))
    assert records.ids == ["3"]
    assert records.X[0, 0] == 2


def test_a_record_of_the_limit_s_size_is_taken(as_messages):
    fits = b'{"id": "' + b"x" * 990 + b'"}'
    records, dead = SCHEMA.decode(as_messages([fits, fits + b" "]))
    assert len(fits) == 1000
    assert offsets_of(records) == [0]
    assert [letter.reason for letter in dead] == ["too_large"]


def test_a_message_that_its_source_has_cut_is_too_large():
    _, dead = SCHEMA.decode([Message(b'{"id": 1}', "0", 0, 500)])
    assert [(letter.reason, letter.size) for letter in dead] == [("too_large", 500)]
    assert "kept 9 of 500 bytes" in dead[0].detail


def test_records_taken_keep_what_belongs_together(as_messages):
    payloads = [b'{"id": %d, "a": %d, "at": %d}' % (n, n, n) for n in range(5)]
    records, _ = SCHEMA.decode(as_messages(payloads))
    some = records.take([3, 1])
    assert some.ids == ["3", "1"]
    assert some.times == [3, 1]
    assert some.X[:, 0].tolist() == [3, 1]
    assert offsets_of(some) == [3, 1]
    assert [message.payload for message in some.messages] == [payloads[3], payloads[1]]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from(["id", "at", "a", "b c", "é", "z"]), JSON)


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first texts build a large table
@given(st.lists(st.binary(max_size=30) | OBJECTS.map(lambda value: json.dumps(value).encode())))
def test_every_message_is_either_a_record_or_a_dead_letter(payloads):
    messages = [
        Message(payload, "0", offset, len(payload)) for offset, payload in enumerate(payloads)
    ]
    records, dead = SCHEMA.decode(messages)
    refused = [letter.position["0"] for letter in dead]
    assert sorted([*offsets_of(records), *refused]) == list(range(len(payloads)))
    assert refused == sorted(refused)
    assert not np.isinf(records.X).any()
    assert all(isinstance(name, str) and name for name in records.ids)
    for letter in dead:
        json.loads(letter.encode())


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3))
def test_float32_values_come_through_exactly(values):
    payload = json.dumps({"id": 1, **dict(zip(["a", "b c", "é"], values, strict=True))}).encode()
    records, _ = SCHEMA.decode([Message(payload, "0", 0, len(payload))])
    np.testing.assert_array_equal(records.X[0], np.array(values, np.float32))


class TestLabels:
    def test_text_labels_come_with_time_and_source(self, as_messages):
        labels, dead = Schema().decode_labels(
            as_messages(
                [
                    b'{"id": 1, "label": "grass", "time": 5, "source": "Ada", "a": 1}',
                    b'{"id": "2", "label": "7"}',
                ]
            )
        )
        assert dead == []
        assert labels.ids == ["1", "2"]
        assert labels.labels == ["grass", "7"]
        assert labels.times == [5, None]
        assert labels.sources == ["Ada", None]
        assert offsets_of(labels) == [0, 1]

    @pytest.mark.parametrize(
        ("kind", "value", "reason"),
        [
            ("string", "7", "wrong_type"),
            ("string", "true", "wrong_type"),
            ("string", "null", "missing_label"),
            ("string", '""', "missing_label"),
            ("integer", '"7"', "wrong_type"),
            ("integer", "7.0", "wrong_type"),
            ("integer", "true", "wrong_type"),
            ("integer", "9223372036854775808", "wrong_type"),
            ("integer", "null", "missing_label"),
            ("integer", "1e400", "infinite"),
        ],
    )
    def test_a_label_of_another_kind_is_refused(self, kind, value, reason, as_messages):
        payload = b'{"id": 1, "label": %s}' % value.encode()
        labels, dead = Schema(label=kind).decode_labels(as_messages([payload]), time=9)
        assert len(labels) == 0
        assert [letter.reason for letter in dead] == [reason]
        assert "'label'" in dead[0].detail
        assert (dead[0].source, dead[0].time) == ("labels", 9)

    @pytest.mark.parametrize(
        ("label", "detail"),
        [("x" * 1_001, "has 1001 characters"), ("a\0b", "NUL"), ("ab\0", "NUL")],
    )
    def test_text_that_no_class_can_be_called_is_refused(self, label, detail, as_messages):
        payloads = [json.dumps({"id": n, "label": text}).encode() for n, text in enumerate("ab")]
        payloads.insert(1, json.dumps({"id": 7, "label": label}).encode())
        labels, dead = Schema().decode_labels(as_messages(payloads), time=9)
        assert (labels.ids, labels.labels, offsets_of(labels)) == (["0", "1"], ["a", "b"], [0, 2])
        assert [(letter.reason, letter.position) for letter in dead] == [("bad_label", {"0": 1})]
        assert detail in dead[0].detail

    def test_a_label_of_a_thousand_characters_is_taken(self, as_messages):
        payload = json.dumps({"id": 1, "label": "é" * 1_000}).encode()
        labels, dead = Schema().decode_labels(as_messages([payload]))
        assert (len(labels), dead) == (1, [])

    def test_integer_labels_are_integers_of_64_bits(self, as_messages):
        payloads = [b'{"id": 1, "label": %d}' % n for n in (-(2**63), 0, 2**63 - 1)]
        labels, dead = Schema(label="integer").decode_labels(as_messages(payloads))
        assert labels.labels == [-(2**63), 0, 2**63 - 1]
        assert dead == []

    def test_a_label_needs_an_id(self, as_messages):
        _, dead = Schema(label="string").decode_labels(
            as_messages([b'{"label": "x"}', b'{"id": "", "label": 1}'])
        )
        assert [letter.reason for letter in dead] == ["missing_id", "wrong_type"]

    def test_labels_do_not_need_the_features(self, as_messages):
        labels, _ = Schema(numeric="auto").decode_labels(as_messages([b'{"id": 1, "label": "x"}']))
        assert len(labels) == 1


class TestInference:
    def test_a_schema_that_names_its_fields_stays_as_it_is(self, as_messages):
        schema = Schema(numeric=["a"])
        assert schema.infer(as_messages([b'{"id": 1, "b": 2}'])).schema == schema

    def test_an_id_field_that_nobody_has_is_an_error_naming_what_is_there(self, as_messages):
        with pytest.raises(DataError, match=r"'key'.*fields seen: id, a.*\[schema\] id"):
            Schema(id="key").infer(as_messages([b'{"id": 1, "a": 2}']))

    def test_no_records_at_all_are_an_error(self):
        with pytest.raises(DataError, match="none of the 0"):
            Schema().infer([])

    def test_decoding_before_inferring_says_what_to_do(self, as_messages):
        with pytest.raises(ConfigurationError, match="infer"):
            Schema().decode(as_messages([b'{"id": 1}']))


class TestSettings:
    @pytest.mark.parametrize(
        ("wrong", "named"),
        [
            ({"label": "text"}, "'text'"),
            ({"numeric": "all"}, "'all'"),
            ({"numeric": []}, "at least one"),
            ({"numeric": ["a", "a"]}, "'a' twice"),
            ({"numeric": ["id"]}, "'id' twice"),
            ({"numeric": ["at"], "time": "at"}, "'at' twice"),
            ({"numeric": ['a"b']}, "quotes"),
            ({"numeric": ["a\ud800"]}, "text"),
            ({"numeric": [3]}, "3"),
            ({"id": ""}, "''"),
            ({"max_record_bytes": 0}, "max_record_bytes = 0"),
            ({"max_record_bytes": True}, "max_record_bytes = True"),
        ],
    )
    def test_a_wrong_setting_is_refused_with_its_value(self, wrong, named):
        with pytest.raises(ConfigurationError, match=r"\[schema\]") as caught:
            Schema(**wrong)
        assert named in str(caught.value)

    def test_a_saved_schema_reads_back_the_same(self):
        assert Schema.from_json(SCHEMA.to_json()) == SCHEMA
        assert Schema.from_json(SCHEMA.to_json().encode()) == SCHEMA
        assert Schema.from_json(Schema().to_json()) == Schema()

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{}",
            SCHEMA.to_json()[:-10],
            SCHEMA.to_json().replace('"format": 3', '"format": 2'),
            SCHEMA.to_json().replace('"a"', "7"),
            SCHEMA.to_json().replace('"string"', '"text"'),
            SCHEMA.to_json().replace("{", '{"more": 1,', 1),
        ],
    )
    def test_a_damaged_saved_schema_is_refused(self, text):
        with pytest.raises(StateError, match="start again"):
            Schema.from_json(text)


class TestDeadLetters:
    def letter(self, payload: bytes, size: int | None = None) -> DeadLetter:
        message = Message(payload, "p", 5, len(payload) if size is None else size)
        return DeadLetter.from_message(message, "duplicate_id", "id '7'", source="records", time=3)

    def test_the_message_has_these_fields(self):
        assert json.loads(self.letter(b"{}").encode()) == {
            "reason": "duplicate_id",
            "detail": "id '7'",
            "payload": "{}",
            "encoding": "utf-8",
            "size": 2,
            "source": "records",
            "position": {"p": 5},
            "time": 3,
        }

    def test_bytes_that_are_not_text_are_kept_in_base64(self):
        letter = self.letter(b"\xff\x00")
        assert letter.encoding == "base64"
        assert base64.b64decode(letter.payload) == b"\xff\x00"

    def test_the_first_64_kib_are_kept(self):
        letter = self.letter(b"x" * 70_000, size=5_000_000)
        assert letter.payload == "x" * 65_536
        assert letter.size == 5_000_000

    def test_a_cut_within_a_character_leaves_text(self):
        letter = self.letter(b"x" + "é".encode() * 40_000)
        assert letter.encoding == "utf-8"
        assert letter.payload == "x" + "é" * 32_767

    def test_a_whole_message_that_ends_within_a_character_is_not_text(self):
        assert self.letter(b"x\xc3").encoding == "base64"
