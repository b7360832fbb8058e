"""Fields and labels in a pipeline file: read, written, and changed on an existing state."""

import tomllib

import pytest

from streamboost.connectors.messages.labels import LabelFields
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConfigurationError, StateError
from streamboost.features.fields import Field
from streamboost.pipelines.config import compatibility
from streamboost.pipelines.config.compatibility import fingerprint, store_config
from streamboost.pipelines.config.field_changes import added_fields
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.state.folder import State

LEAST = """
[pipeline]
name = "payments"
[source]
connector = "files"
path = "records.jsonl"
[labels]
connector = "files"
path = "labels.jsonl"
"""
FIELDS = """
[labels.fields]
id = "payment_id"
label = "result.fraud"
[schema]
id = "payment_id"
exclude = ["card"]
[schema.fields]
amount = "number"
"device.os" = "category"
zip = { type = "category", min_frequency = 5 }
ts = { type = "time", zone = "Europe/Berlin" }
vec = { type = "vector", size = 384 }
'say "x"' = "text"
"""


def made(folder, text=""):
    return parse(tomllib.loads(LEAST + text), folder, environment={})


def problems(folder, text):
    with pytest.raises(ConfigurationError) as told:
        made(folder, text)
    lines = str(told.value).splitlines()
    return lines[1:] if len(lines) > 1 else [lines[0].partition(": ")[2]]


def test_fields_come_into_the_schema(tmp_path):
    schema = made(tmp_path, FIELDS).sections.build_schema()
    assert schema.named == {
        "amount": Field("number"),
        "device.os": Field("category"),
        "zip": Field("category", min_frequency=5),
        "ts": Field("time", zone="Europe/Berlin"),
        "vec": Field("vector", size=384),
        'say "x"': Field("text"),
    }
    assert schema.exclude == ("card",)
    assert schema.label_fields == LabelFields("payment_id", "result.fraud")
    assert not schema.has_known_features


def test_a_file_that_says_nothing_of_fields_asks_for_all_to_be_found(tmp_path):
    assert made(tmp_path).sections.build_schema() == Schema()


def test_tables_within_tables_are_written_as_they_are_read(tmp_path):
    config = made(tmp_path, FIELDS)
    again = parse(tomllib.loads(config.to_toml()), tmp_path, environment={})
    assert again.written == config.written
    assert again.sections.build_schema() == config.sections.build_schema()
    assert fingerprint(again, "salt") == fingerprint(config, "salt")


def test_a_dotted_name_needs_no_quotes(tmp_path):
    schema = made(tmp_path, '[schema.fields]\ndevice.os = "category"\na.b.c = {type = "text"}')
    named = schema.sections.build_schema().named
    assert named == {"device.os": Field("category"), "a.b.c": Field("text")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[schema.fields]\na = "txt"', "[schema.fields] a: type is 'txt'; did you mean 'text'?"),
        ("[schema.fields]\na = 3", "[schema.fields] a: 3 does not say what it holds"),
        ('[schema.fields]\na = { type = "time", zone = "Mars" }', "[schema.fields] a: zone is"),
        ('[schema.fields]\nlabel = "text"', "[schema.fields]: 'label' is the label"),
        ('[schema.fields]\nid = "text"', "[schema.fields]: 'id' names the records"),
        ('[schema]\nexclude = ["a"]\nfields.a = "text"', "[schema]: exclude leaves out 'a'"),
        ('[schema]\nnumeric = ["b"]\nfields.a = "text"', "[schema.fields]: goes without"),
        ('[schema]\nexclude = "a"', "[schema] exclude: must be a list, and is 'a'"),
        ('[schema]\nfields = ["a"]', "[schema] fields"),
        ('[labels.fields]\nlable = "y"', "[labels.fields] lable: unknown key; did you mean label?"),
        ("[labels.fields]\nlabel = 3", "[labels.fields] label: must be text, in quotes, and is 3"),
        ('[labels.fields]\nid = "label"', "[labels.fields]: names the field 'label' twice"),
        ('[source.fields]\nlabel = "y"', "[source] fields: is for labels"),
    ],
)
def test_what_is_wrong_with_fields_is_said_with_its_place(tmp_path, text, said):
    (line,) = problems(tmp_path, text)
    assert line.strip().startswith(said)


def test_every_field_that_is_wrong_is_named(tmp_path):
    found = problems(tmp_path, '[schema.fields]\na = "txt"\nb = "numbr"\nc = "text"')
    assert [line.split(":")[0].strip() for line in found] == [
        "[schema.fields] a",
        "[schema.fields] b",
    ]


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ('categorical = ["zip", "the city"]', 'zip = "category", "the city" = "category"'),
        ("categorical_features = true", '[schema.fields] x = "category"'),
        ('text = "note"', '[schema.fields] note = "text"'),
        ('datetime = ["ts"]', '[schema.fields] ts = "time"'),
        ('embedding = ["v"]', 'v = { type = "vector", size = 384 }'),
        ('boolean = ["a", "b", "c", "d"]', 'c = "number", ...'),
        ('target = "is_fraud"', '[labels.fields] label = "is_fraud"'),
        ('drop = ["card"]', 'exclude = ["card"]'),
        ('ignore = "card"', 'exclude = ["card"]'),
        ('id_field = "key"', 'id = "key"'),
        ('features = ["a"]', '[schema.fields], with a line such as amount = "number"'),
        ('timezone = "UTC"', "zone = "),
    ],
)
def test_a_guessed_key_is_answered_with_what_to_write(tmp_path, key, instead):
    (line,) = problems(tmp_path, f"[schema]\n{key}")
    assert "unknown key; write " in line
    assert instead in line


def test_a_dataset_s_labels_have_the_names_they_have(tmp_path):
    text = LEAST.replace('connector = "files"\npath = "labels.jsonl"', 'connector = "river"')
    text = text.replace("[labels]", '[labels]\ndataset = "Phishing"\nfields.label = "y"')
    with pytest.raises(ConfigurationError, match=r"\[labels\] fields: labels of a dataset always"):
        parse(tomllib.loads(text), tmp_path, environment={})


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """Return a function that creates a state with one file and continues with another file."""
    monkeypatch.setattr(compatibility, "_ITERATIONS", 1)
    state = State(tmp_path / "state")

    def go_on(before, after, schema):
        with state.hold_lock():
            store_config(made(tmp_path, before), state, state_has_begun=False)
            state.write_schema(schema)
            store_config(made(tmp_path, after), state, state_has_begun=True)
        return state

    return go_on


KNOWN = Schema(fields={"a": "number", "b": "category"})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[schema.fields]\nc = "text"'),
        ("", '[schema.fields]\nb = "category"'),
        ('[schema.fields]\nb = "category"', '[schema.fields]\nb = "category"\nc.d = "text"'),
    ],
)
def test_adding_a_field_is_accepted(begun, before, after):
    begun(before, after, KNOWN)


def test_fields_that_were_added_are_told_from_those_known(tmp_path):
    config = made(tmp_path, '[schema.fields]\nb = "category"\nc.d = "text"')
    assert added_fields(config, KNOWN) == {"c.d": Field("text")}
    assert KNOWN.with_fields(added_fields(config, KNOWN)).features == ("a", "b", "c.d")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            "",
            '[schema.fields]\nb = "text"',
            '[schema.fields] b was "category" (found in the first records) and is "text"',
        ),
        (
            '[schema.fields]\nb = "category"',
            '[schema.fields]\nb = { type = "category", min_frequency = 5 }',
            'b was "category" and is { type = "category", min_frequency = 5 }',
        ),
        ('[schema.fields]\nb = "category"', "", 'b was "category" and is not set'),
        ("", '[schema]\nlabel = "string"', '[schema] label was "auto" and is "string"'),
        ("", '[schema]\nlabel = "boolean"', '[schema] label was "auto" and is "boolean"'),
        ('[schema]\nlabel = "integer"', "", '[schema] label was "integer" and is "auto"'),
        ("", '[schema]\nexclude = ["c"]', '[schema] exclude was not set and is ["c"]'),
        ('[schema]\nexclude = ["c"]', "", '[schema] exclude was ["c"] and is not set'),
        (
            '[labels.fields]\nlabel = "y"',
            "",
            '[labels] fields was { label = "y" } and is not set',
        ),
        (
            "",
            '[labels.fields]\nlabel = "y"',
            '[labels] fields was not set and is { label = "y" }',
        ),
    ],
)
def test_changing_what_a_field_holds_is_refused_and_said(begun, before, after, said):
    with pytest.raises(StateError) as told:
        begun(before, after, KNOWN)
    assert f"{said}. Undo the change" in str(told.value)
    assert "fields may be added to [schema.fields]" in str(told.value)


def test_a_state_that_reads_numbers_alone_takes_no_fields(begun):
    with pytest.raises(StateError, match=r"\[schema.fields\] is new, and this state reads only"):
        begun("", '[schema.fields]\nb = "text"', Schema(label="string", numeric=["a"]))
