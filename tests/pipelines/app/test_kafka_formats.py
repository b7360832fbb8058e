"""Topics in Avro and JSON Schema with a real registry, on a real broker."""

import base64
import json
import threading
import time
from contextlib import closing
from functools import partial

import pytest

from streamboost.connectors.kafka.formats import registry as registries
from streamboost.connectors.messages.outgoing import Label
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.connectors.registry import open_append_sink
from streamboost.pipelines.config.file import load
from streamboost.pipelines.state.folder import State
from tests.pipelines.killing import Feed, kill, verified
from tests.waiting import until

pytest.importorskip("fastavro")
pytest.importorskip("confluent_kafka")

from tests.pipelines import registered
from tests.pipelines.registered import LABEL, LATER, RECORD, formatted, in_avro, put

JSON = {"type": "object", "properties": {"id": {"type": "string"}, "a": {"type": "number"}}}
SENT = int(time.time() * 1000) - 3_600_000

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def kept(made, registry):
    """A pipeline in Avro, and the ids of the schemas of its records and labels."""
    place = made(partitions=2)
    config = formatted(place, registry.url)
    place.ids = {
        topic: registered.register(registry.url, f"{place.name}.{topic}-value", schema)
        for topic, schema in (("records", RECORD), ("labels", LABEL))
    }
    return place, config


def as_avro(place, records):
    return [in_avro(place.ids["records"], RECORD, record) for record in records]


def labelled(place, records, truth):
    pairs = zip(records, truth, strict=True)
    return [
        in_avro(place.ids["labels"], LABEL, {"id": record["id"], "label": label})
        for record, label in pairs
    ]


def test_records_and_labels_in_avro_are_learned_and_replayed(kept, registry, make_records):
    place, config = kept
    records, truth = make_records(120)
    put(place, as_avro(place, records[:60]), key=b"k", headers=[("h", b"1")], timestamp_ms=SENT)
    run(config, until_idle=True)
    put(place, labelled(place, records[:60], truth[:60]), topic="labels")
    put(place, as_avro(place, records[60:]))
    run(config, until_idle=True)
    predicted = registered.values(place, registry.url, "predictions")
    assert sorted(one["id"] for one in predicted) == sorted(one["id"] for one in records)
    asked = registered.values(place, registry.url, "requests")
    by_id = {record["id"]: record for record in records}
    assert all(one["features"] == {n: by_id[one["id"]][n] for n in "ab"} for one in asked)
    assert State(config.state).checkpoints.newest()[1]["committee"]["labels"] == 60
    borne = {(m.key, m.headers, m.time) for m in registered.taken(place, "predictions")}
    assert (b"k", (("h", b"1"),), SENT) in borne
    assert "bit for bit" in verify_replay(config)


def test_what_cannot_be_read_is_a_dead_letter_with_its_bytes(kept, registry, make_records):
    place, config = kept
    good = as_avro(place, make_records(30)[0])
    bad = [b'{"id": "x", "a": 1, "b": 2}', good[0][:-3], b"\0\xff\xff\xff\x01ab", good[0] + b"!"]
    put(place, [*good, *bad, None], key=b"k")
    run(config, until_idle=True)
    letters = registered.values(place, registry.url, "dead_letters")
    raw = [
        one["payload"].encode() if one["encoding"] == "utf-8" else base64.b64decode(one["payload"])
        for one in letters
    ]
    assert sorted(raw) == sorted([*bad, b""])
    assert sorted(one["reason"] for one in letters) == ["corrupt"] * 4 + ["empty"]
    assert len(registered.taken(place, "predictions")) == 30
    verify_replay(config)


def test_a_field_joins_the_schema_and_older_producers_go_on(kept, registry, make_records):
    place, config = kept
    records = make_records(40)[0]
    later = registered.register(registry.url, f"{place.name}.records-value", LATER)
    mixed = [
        in_avro(later, LATER, record | {"c": 2**60}) if n % 2 else as_avro(place, [record])[0]
        for n, record in enumerate(records)
    ]
    put(place, mixed)
    run(config, until_idle=True)
    assert len(registered.taken(place, "predictions")) == 40
    assert registered.taken(place, "dead_letters") == []
    verify_replay(config)


def test_while_the_registry_is_away_records_wait_and_none_is_lost(
    kept, registry, make_records, caplog, monkeypatch
):
    place, _ = kept
    monkeypatch.setattr(registries, "_SECONDS", 0.3)
    put(place, as_avro(place, make_records(30)[0]))
    for part in ("cannot read", "cannot write"):
        caplog.clear()
        if part == "cannot read":
            registry.freeze()
        else:  # what is written has a schema that this process has not asked for yet
            put(place, as_avro(place, make_records(30, start=30)[0]))
            hold(monkeypatch, registry)
        thread = threading.Thread(target=partial(run, load(place.file), until_idle=True))
        thread.start()
        try:
            until(lambda: "schema registry" in caplog.text)
        finally:
            registry.thaw()
        thread.join(120)
        assert not thread.is_alive()
    ids = [one["id"] for one in registered.values(place, registry.url, "predictions")]
    assert sorted(ids, key=int) == [str(n) for n in range(60)]
    verify_replay(load(place.file))


def hold(monkeypatch, registry):
    """Freeze the registry as it is asked for what is written, the first time."""
    original = registries.Registry.register_schema

    def register_schema(self, *arguments):
        monkeypatch.setattr(registries.Registry, "register_schema", original)
        registry.freeze()
        return original(self, *arguments)

    monkeypatch.setattr(registries.Registry, "register_schema", register_schema)


def test_json_by_a_schema_is_read_and_written(made, registry, make_records):
    place = made()
    config = formatted(place, registry.url, "json-schema")
    subject = f"{place.name}.records-value"
    id = registered.register(registry.url, subject, JSON, "JSON")
    records = make_records(30)[0]
    put(place, [registered.framed(id, json.dumps(record).encode()) for record in records])
    put(place, [b'{"id": "x", "a": 1, "b": 2}'])
    run(config, until_idle=True)
    found = registered.taken(place, "predictions")
    assert [json.loads(one.payload[5:])["id"] for one in found] == [r["id"] for r in records]
    properties = registered.newest(registry.url, f"{place.name}.predictions-value")["$defs"]
    assert "probability" in properties["Prediction"]["properties"]
    (letter,) = registered.taken(place, "dead_letters")
    assert "write format" in json.loads(letter.payload[5:])["detail"]
    verify_replay(config)


def test_check_says_what_is_registered(kept, registry, make_records):
    place, config = kept
    found = {one.part: one for one in check_pipeline(config)}["schema_registry"]
    assert found.ok
    assert f"source: {place.name}.records-value has version 1: id, a, b" in found.text
    assert "predictions-value is registered with the first message" in found.text
    put(place, as_avro(place, make_records(5)[0]))
    run(config, until_idle=True)
    found = {one.part: one for one in check_pipeline(config)}["schema_registry"]
    assert f"{place.name}.predictions-value has its schema, version 1" in found.text


def test_a_subject_that_does_not_go_with_what_is_written_is_told_by_check_and_by_a_run(
    kept, registry, make_records
):
    place, config = kept
    subject = f"{place.name}.predictions-value"
    registered.register(registry.url, subject, LABEL)
    with registered.client(registry.url) as asked:
        asked.set_compatibility(subject, "BACKWARD")
    found = {one.part: one for one in check_pipeline(config)}["schema_registry"]
    assert not found.ok
    assert subject in found.text
    put(place, as_avro(place, make_records(5)[0]))
    with pytest.raises(registries.ConnectorError, match="holds schemas that do not go with"):
        run(config, until_idle=True)


def test_an_answer_is_written_to_labels_in_avro_and_learned(kept, registry, make_records):
    place, config = kept
    records, truth = make_records(30)
    put(place, as_avro(place, records))
    run(config, until_idle=True)
    with registered.client(registry.url) as asked:
        asked.delete_subject(f"{place.name}.labels-value")
    schema = config.sections.build_schema().with_label_type("string")
    labels = [
        schema.encode_label(Label(r["id"], label, source="ann"))
        for r, label in zip(records, truth, strict=True)
    ]
    with closing(
        open_append_sink(config.sections.labels, "labels", config.connector_context)
    ) as sink:
        sink.write(labels)
        sink.flush()
    run(config, until_idle=True)
    assert State(config.state).checkpoints.newest()[1]["join"]["labels"] == 30
    with pytest.raises(ValueError, match="record schema of the producers"):
        open_append_sink(config.sections.source, "source", config.connector_context)


def test_after_kills_each_record_in_avro_has_one_prediction(kept, registry, make_records):
    place, _ = kept

    def send(records, labels):
        whole = [line for line in records if line.endswith(b"}")]
        put(place, as_avro(place, map(json.loads, whole)))
        put(place, [b"\0\0\0"] * (len(records) - len(whole)))
        found = [json.loads(label) for label in labels]
        rows, truth = [{"id": one["id"]} for one in found], [one["label"] for one in found]
        put(place, labelled(place, rows, truth), topic="labels")

    feed = Feed(*make_records(400), 6, send)
    steps = [("writing to Kafka", 2), ("stepped", 3), ("committed to Kafka", 2), ("polled", 3)]
    died, file = kill(place.file, steps, 3, feed)
    assert len(died) == 3
    config = load(file)
    run(config, until_idle=True)
    predicted = registered.values(place, registry.url, "predictions")
    assert sorted(one["id"] for one in predicted) == sorted(feed.sound)
    assert len(registered.taken(place, "dead_letters")) == len(feed.damaged)
    numbers = State(config.state).checkpoints.newest()[1]
    assert numbers["committee"]["labels"] == len(feed.sound)
    assert "bit for bit" in verified(file)
