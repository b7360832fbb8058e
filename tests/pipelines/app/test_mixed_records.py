"""Records with text, categories, times and nested fields, through a whole run."""

import json
import random
from contextlib import closing

import pytest

from streamboost.connectors.sqlite.stream import SqliteSource
from streamboost.errors import StateError
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.inspect import describe_pipeline, format_description
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.status.reader import StatusReader
from tests.slow import slow

FILE = """
[pipeline]
name = "payments"
batch_records = 20
checkpoint_every = 3
[schema]
id = "payment_id"
time = "ts"
exclude = ["card"]
[schema.fields]
"device.os" = "category"
{fields}
[source]
connector = "files"
path = "records.jsonl"
follow = true
[labels]
connector = "files"
path = "labels.jsonl"
follow = true
fields = {{ id = "payment_id", label = "is_fraud" }}
[query]
budget = 0.5
[committee]
n_estimators = 5
"""

WORDS = ["thanks", "for", "rent", "of", "flat", "fish", "and", "milk", "from", "monday", "on"]


def payments(first, last, **more):
    """Return labelled records; what is a fraud follows from the note and the device."""
    lot = random.Random(first)
    for n in range(first, last):
        os = lot.choice(["ios", "android", "web"])
        words = lot.sample(WORDS, 5)
        note = " ".join([*words, *lot.choice([["please", "hurry"], ["as", "usual"]])])
        yield {
            "payment_id": f"p{n}",
            "ts": f"2026-03-01T{n % 24:02}:00:00Z",
            "amount": f"{lot.expovariate(0.01):.2f}",
            "device": {"os": os, "battery": lot.random()},
            "note": note,
            "card": "4000",
            "items": [{"price": lot.random()}],
            "is_fraud": "hurry" in note or os == "web",
        } | more


class Made:
    """A pipeline in a folder, whose records are labels, too."""

    def __init__(self, folder):
        self.folder, self.file = folder, folder / "p.toml"
        self.write()

    def write(self, fields=""):
        self.file.write_text(FILE.format(fields=fields))

    def feed(self, records):
        records = list(records)
        for name in ("records.jsonl", "labels.jsonl"):
            with (self.folder / name).open("a") as file:
                file.writelines(json.dumps(record) + "\n" for record in records)

    def run(self):
        return run(load(self.file), until_idle=True)

    def written(self, stream):
        with closing(SqliteSource(self.folder / "state" / "log.db", stream)) as source:
            return [json.loads(message.payload) for message in source.poll(1_000_000)]

    @property
    def checked(self):
        (finding,) = [one for one in check_pipeline(load(self.file)) if one.part == "schema"]
        return finding.text

    @property
    def found(self):
        return describe_pipeline(self.folder / "state")


@pytest.fixture
def made(tmp_path):
    """A pipeline with 300 payments."""
    made = Made(tmp_path)
    made.feed(payments(0, 300))
    return made


def test_a_mixed_stream_is_learned_with_nothing_but_names_in_the_file(made):
    made.run()
    predictions = made.written("predictions")
    assert made.written("dead_letters") == []
    assert len(predictions) == 300
    assert {type(one["label"]) for one in predictions if one["label"] is not None} == {bool}
    truth = {record["payment_id"]: record["is_fraud"] for record in payments(0, 300)}
    last = predictions[200:]
    assert sum(one["label"] == truth[one["id"]] for one in last) > 85
    assert predictions[0]["time"] == "2026-03-01T00:00:00Z"
    schema = State(made.folder / "state").schema()
    assert {name: field.kind for name, field in schema.fields.items()} == {
        "amount": "number",
        "device.os": "category",
        "device.battery": "number",
        "note": "text",
        "items.0.price": "number",
    }


@pytest.mark.slow
def test_requests_have_the_record_s_own_values(made):
    made.run()
    truth = {record["payment_id"]: record for record in payments(0, 300)}
    requests = made.written("requests")
    assert requests
    for request in requests:
        record = truth[request["id"]]
        assert request["features"] == {
            "amount": record["amount"],
            "device.os": record["device"]["os"],
            "device.battery": record["device"]["battery"],
            "note": record["note"],
            "items.0.price": record["items"][0]["price"],
        }
        assert request["label"] in (True, False, None)


@pytest.mark.slow
def test_inspect_and_the_status_show_the_weights_of_the_experts(made):
    made.run()
    weights = made.found["checkpoint"]["experts"]
    assert next(iter(weights)) == "committee"
    assert "text" in weights
    assert sum(weights.values()) == pytest.approx(1)
    text = format_description(made.found)
    assert f"leaf neighbours {weights['leaf neighbours']:>10.1%}  weight" in text
    with closing(StatusReader(made.folder / "state")) as reader:
        assert reader.document("experts") == pytest.approx(weights)


@pytest.mark.slow
def test_fields_that_come_later_and_odd_values_are_counted_and_shown(made):
    made.run()
    made.feed(payments(300, 340, city="Rome", amount=["?"]))
    made.run()
    fields = made.found["checkpoint"]["fields"]
    assert fields == {"unknown": {"city": 40}, "unreadable": {"amount": 40}}
    text = format_description(made.found)
    assert "city" in text
    assert "40  records with this field" in text
    assert "40  treated as missing" in text
    with closing(StatusReader(made.folder / "state")) as reader:
        assert reader.document("fields") == fields
        assert reader.document("pipeline")["label_type"] == "boolean"
    assert made.written("dead_letters") == []


@pytest.mark.slow
def test_a_field_added_to_the_file_is_learned_from_then_on(made):
    made.run()
    assert made.checked == "5 fields to learn from, as settled before."
    made.write('city = "category"')
    assert made.checked.endswith("before. Added with the next batch: city, from the pipeline file")
    made.feed(payments(300, 400, city="Rome"))
    made.run()
    assert made.checked == "6 fields to learn from, as settled before."
    made.feed(payments(400, 450, city="Oslo"))
    made.run()
    assert made.written("requests")[-1]["features"].keys() > {"city"}
    assert made.found["checkpoint"]["fields"]["unknown"] == {}
    made.write()
    with pytest.raises(StateError, match=r"\[schema.fields\] city was .category. and is not set"):
        made.run()
    made.write('city = "text"')
    with pytest.raises(StateError, match=r"city was .category. and is .text."):
        made.run()


@pytest.mark.parametrize("lost", [100, *slow(1, 2)])
@pytest.mark.slow
def test_a_replay_over_an_added_field_and_a_settled_kind_ends_in_the_same_bits(made, lost):
    made.run()
    made.write('city = "category"')
    made.feed(payments(300, 400, city="Rome"))
    made.run()
    before = made.found["checkpoint"]
    state = State(made.folder / "state")
    for sequence in state.checkpoints.sequences[-lost:]:
        state.checkpoints.path(sequence).unlink()
    made.run()
    after = made.found["checkpoint"]
    for name in ("digest", "sequence", "schema", "fields", "ledger", "join"):
        assert after[name] == before[name], name


@pytest.mark.slow
def test_labels_of_another_kind_later_are_read_or_dead_letters_that_say_why(made):
    made.run()
    made.feed(payments(300, 320, is_fraud="true"))
    made.feed(payments(320, 321, is_fraud="grass"))
    made.run()
    (letter,) = made.written("dead_letters")
    assert letter["reason"] == "bad_label"
    assert "labels here are true or false" in letter["detail"]
