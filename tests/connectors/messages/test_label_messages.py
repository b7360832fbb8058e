"""Label messages: the first label determines the type, and the field may have any name."""

import json
from contextlib import closing

import pytest
from msgspec.structs import replace

from streamboost.connectors.base import Message
from streamboost.connectors.files.open import file_source
from streamboost.connectors.messages.decoding import LONGEST_ID
from streamboost.connectors.messages.labels import LabelFields
from streamboost.connectors.messages.outgoing import Label
from streamboost.connectors.messages.schema import Schema


@pytest.fixture
def decode(as_messages):
    """Return a function that decodes labels by a schema."""
    return lambda schema, *labels: schema.decode_labels(
        as_messages([json.dumps(label).encode() for label in labels])
    )


def given(*labels):
    return [{"id": n, "label": label} for n, label in enumerate(labels)]


@pytest.mark.parametrize(
    ("labels", "read", "kind"),
    [
        (["a", 1, True, 2.0, False], ["a", "1", "true", "2", "false"], "string"),
        (["1", 1], ["1", "1"], "string"),
        ([1, "2", " -3", 4.0], [1, 2, -3, 4], "integer"),
        ([1.0, 2], [1, 2], "integer"),
        ([True, "false", "True", 0, 1], ["true", "false", "true", "false", "true"], "boolean"),
    ],
)
def test_labels_are_what_the_first_one_is_and_others_are_read_as_that(decode, labels, read, kind):
    found, dead = decode(Schema(), *given(*labels))
    assert dead == []
    assert found.labels == read
    assert found.kind == kind


@pytest.mark.parametrize(
    ("labels", "detail"),
    [
        ([1, "grass"], "is 'grass', and labels here are whole numbers"),
        ([1, True], "is true, and labels here are whole numbers"),
        ([1, 2.5], "neither text nor a whole number"),
        ([1, 2**63], "more than 64 bits"),
        ([1, "9" * 19], "more than 64 bits"),
        ([True, "yes"], "labels here are true or false"),
        ([True, 2], "labels here are true or false"),
        (["a", ["b"]], "neither text nor"),
        (["a", {}], "neither text nor"),
        (["a", "b" * 1_001], "1001 characters"),
        (["a", "\0"], "NUL"),
    ],
)
def test_a_label_that_cannot_be_read_so_is_a_dead_letter_with_the_mend(decode, labels, detail):
    found, (letter,) = decode(Schema(), *given(*labels))
    assert len(found) == 1
    assert letter.reason == "bad_label"
    assert letter.position == {"0": 1}
    assert detail in letter.detail


def test_the_mend_names_the_kind_that_would_do(decode):
    _, (letter,) = decode(Schema(), *given(1, "grass"))
    assert '[schema] label = "string"' in letter.detail


def test_what_can_be_no_label_settles_nothing(decode):
    found, dead = decode(Schema(), *given(0.5, [1], None, "x" * 2_000, 3))
    assert found.labels == [3]
    assert found.kind == "integer"
    assert len(dead) == 4


def test_a_kind_once_settled_is_kept(decode):
    found, _ = decode(Schema(), *given(7))
    schema = Schema().with_label_type(found.kind)
    assert decode(schema, *given("8")).labels.labels == [8]
    assert decode(schema).labels.kind == "integer"
    assert Schema().with_label_type(None) == Schema()
    assert Schema(label="string").with_label_type("string") == Schema(label="string")


def test_booleans_can_be_asked_for(decode):
    found, dead = decode(Schema(label="boolean"), *given(1, "TRUE", False, "x"))
    assert found.labels == ["true", "true", "false"]
    assert len(dead) == 1


PAYMENTS = LabelFields(id="payment_id", label="result.fraud")


@pytest.mark.parametrize("label", ["auto", "string"])
def test_a_whole_record_may_be_a_label_message(decode, label):
    record = {"payment_id": 7, "id": "no", "source": {"ip": 1}, "time": [1], "label": "no"}
    record["result"] = {"fraud": "yes"}
    found, dead = decode(Schema(id="key", label=label, label_fields=PAYMENTS), record)
    assert dead == []
    assert (found.ids, found.labels, found.times, found.sources) == (["7"], ["yes"], [None], [None])


def test_what_is_missing_is_called_by_its_own_name(decode):
    schema = Schema(label="string", label_fields=PAYMENTS)
    _, dead = decode(schema, {"payment_id": 1}, {"result": {"fraud": "x"}}, {"payment_id": 1.5})
    assert [letter.reason for letter in dead] == ["missing_label", "missing_id", "wrong_type"]
    assert "'result.fraud'" in dead[0].detail
    assert "'payment_id'" in dead[1].detail
    _, (letter,) = decode(schema, {"payment_id": 1, "result": {"fraud": 5}})
    assert letter.reason == "wrong_type"
    assert "field 'result.fraud': expected text" in letter.detail


def test_labels_may_call_their_id_as_records_do(decode):
    for label in ("auto", "string"):
        schema = Schema(id="payment_id", label=label)
        labels = [{"payment_id": "a", "label": "x"}, {"id": "b", "label": "y", "payment_id": "c"}]
        assert decode(schema, *labels).labels.ids == ["a", "b"]


@pytest.mark.parametrize(
    ("schema", "label", "message"),
    [
        (Schema(), "x", {"id": "7", "label": "x"}),
        (Schema(kind="boolean"), "true", {"id": "7", "label": True}),
        (Schema(kind="integer", label_fields=PAYMENTS), 3, {"payment_id": "7", "result.fraud": 3}),
    ],
)
def test_a_written_label_is_one_that_is_read(as_messages, schema, label, message):
    payload = schema.encode_label(Label("7", label, 5, "Ada"))
    assert json.loads(payload) == message | {"time": 5, "source": "Ada"}
    found, dead = schema.decode_labels(as_messages([payload]))
    assert dead == []
    assert (found.ids, found.labels, found.times, found.sources) == (["7"], [label], [5], ["Ada"])


@pytest.mark.parametrize("kind", ["string", "integer", "auto"])
@pytest.mark.parametrize("fields", [LabelFields(), LabelFields(label="answer.value")])
def test_null_takes_a_label_back_where_it_may_and_absent_or_empty_is_missing(kind, fields):
    schema = Schema(label=kind, numeric=["a"], label_fields=fields)
    outer, _, inner = fields.label.partition(".")
    given = [{outer: {inner: None} if inner else None}, {}, {outer: {inner: ""} if inner else ""}]
    messages = [
        Message(line, "0", i, len(line))
        for i, line in enumerate(json.dumps({"id": "7"} | one).encode() for one in given)
    ]
    labels, dead = schema.decode_labels(messages, allow_nulls=True)
    assert (labels.ids, labels.labels) == (["7"], [None])
    refused = ["missing_label"] * 2 if kind != "integer" else ["missing_label", "wrong_type"]
    assert [letter.reason for letter in dead] == refused
    assert len(schema.decode_labels(messages).dead) == 3
    rows = [replace(message, is_row=True) for message in messages]
    reasons = [letter.reason for letter in schema.decode_labels(rows, allow_nulls=True).dead]
    assert reasons[:2] == ["missing_label"] * 2, "the third, empty text, is no cell"
    assert len(reasons) == 3


def test_an_empty_cell_is_a_missing_label(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n7,\n8,grass\n")
    with closing(file_source(path, {"id", "label"})) as source:
        labels, dead = Schema(numeric=["a"]).decode_labels(source.poll(10), allow_nulls=True)
    assert (labels.ids, [letter.reason for letter in dead]) == (["8"], ["missing_label"])


@pytest.mark.parametrize("schema", [Schema(label="string"), Schema()], ids=["fixed", "auto"])
def test_source_is_cut_where_an_id_would_be_refused(decode, schema):
    long = {"id": "7", "label": "a", "source": "ü" * (LONGEST_ID + 1)}
    found, dead = decode(schema, long, long | {"source": "ann"})
    assert dead == []
    assert found.sources == ["ü" * LONGEST_ID, "ann"]


@pytest.mark.parametrize("schema", [Schema(label="integer"), Schema(kind="integer")])
def test_whole_numbers_in_a_table_are_never_rounded(as_messages, schema):
    whole = 9007199254740992  # 2**53
    cells = [f"{whole}", f"{whole + 1}", f"0{whole + 1}", f"+{whole + 3}"]
    cells += [f"{whole + 1}.0", "9.007199254740993e15"]
    lines = [json.dumps({"id": str(i), "label": cell}).encode() for i, cell in enumerate(cells)]
    rows = [replace(message, is_row=True) for message in as_messages(lines)]
    found, dead = schema.decode_labels(rows)
    assert found.labels == [whole, whole + 1, whole + 1, whole + 3]
    assert len(dead) == 2


@pytest.mark.parametrize("id", [[1], 1.5, {"a": 1}, "", None, "other"])
def test_the_key_names_an_inline_label_whatever_its_field_id_is(id):
    schema = Schema(numeric=["a"], id_from="key", inline_labels=True)
    payload = json.dumps({"id": id, "a": 1, "label": "x"}).encode()
    messages = [Message(payload, "0", 0, len(payload), key=b"k")]
    split = schema.split_inline_labels(messages)
    records, dead_records = schema.decode(split.records)
    labels, dead_labels = schema.decode_labels(split.labels, source="records")
    assert (records.ids, labels.ids, labels.labels) == (["k"], ["k"], ["x"])
    assert dead_records == dead_labels == []
