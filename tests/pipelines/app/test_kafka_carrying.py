"""Kafka keys, headers and timestamps passed on to the output, and labels inline in records."""

import json
import time
from contextlib import closing
from functools import partial

import pytest
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import InvalidTimestampError

from streamboost.connectors.kafka.admin import add_partitions
from streamboost.errors import ConnectorError
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import load
from streamboost.pipelines.state.folder import State
from tests.pipelines.killing import kill
from tests.pipelines.operated import taken
from tests.slow import slow
from tests.waiting import until

pytestmark = pytest.mark.kafka

BEGAN = int(time.time() * 1000) - 3_600_000
POOL = 'mode = "pool"\nwindow = 60\n'


def send(made, records, topic="records", key=lambda record: f"c{record['id']}".encode(), begin=0):
    """Send records, each with what belongs to it alone; return that by their ids."""
    borne = {}
    with closing(made.cluster.create_producer()) as producer:
        for n, record in enumerate(records, begin):
            one = key(record), (("trace", b"t%d" % n), ("empty", b"")), BEGAN + n
            borne[str(record.get("id", n))] = one
            producer.send(
                f"{made.name}.{topic}",
                json.dumps(record).encode() if isinstance(record, dict) else record,
                key=one[0],
                headers=list(one[1]),
                timestamp_ms=one[2],
            )
        producer.flush()
    return borne


def borne_by(found):
    return {json.loads(m.payload)["id"]: (m.key, m.headers, m.time) for m in found}


@pytest.mark.parametrize("query", ["", *slow(POOL)], ids=["stream", "pool"])
@pytest.mark.slow
def test_what_is_written_of_a_record_keeps_its_key_headers_and_time(made, make_records, query):
    place = made(partitions=2)
    with place.file.open("a") as file:
        file.write(query)
    sent = send(place, make_records(200)[0])
    damaged = {"id": "d", "a": "wide"}
    sent |= send(place, [damaged], begin=200)
    run(load(place.file), until_idle=True)
    predicted, asked = taken(place, "predictions"), taken(place, "requests")
    assert borne_by(predicted) == {id: one for id, one in sent.items() if id != "d"}
    assert len(asked) > 20
    assert all(sent[id] == one for id, one in borne_by(asked).items())
    (letter,) = taken(place, "dead_letters")
    assert (letter.key, letter.headers, letter.time) == sent["d"]


@pytest.mark.slow
def test_a_prediction_stands_in_the_partition_of_its_key(made, make_records):
    place = made(partitions=3)
    add_partitions(place.cluster, {f"{place.name}.predictions": 3})
    send(place, make_records(90)[0])
    run(place.config, until_idle=True)
    at = {m.key: m.partition for m in taken(place, "records")}
    assert {m.key: m.partition for m in taken(place, "predictions")} == at
    assert len(set(at.values())) == 3


@pytest.mark.slow
def test_records_keep_what_they_bear_through_kills(made, make_records):
    place = made(partitions=2)
    sent = send(place, make_records(200)[0])
    steps = [("writing to Kafka", 2), ("committed to Kafka", 2), ("stepped", 3)]
    died, file = kill(place.file, steps, 3)
    run(load(file), until_idle=True)
    assert len(died) == 3
    predicted = taken(place, "predictions")
    assert len(predicted) == 200
    assert borne_by(predicted) == sent


def test_a_key_names_a_record_where_the_file_says_so(made, make_records):
    place = made()
    text = place.file.read_text().replace("[source]\n", '[source]\nid_from = "key"\n')
    place.file.write_text(text)
    records = [{"a": r["a"], "b": r["b"], "n": r["id"]} for r in make_records(50)[0]]
    send(place, records, key=lambda record: f"k{record['n']}".encode())
    send(place, [{"a": 1, "b": 1}], key=lambda record: None)
    send(place, [{"a": 1, "b": 1}], key=lambda record: b"\xff")
    run(load(place.file), until_idle=True)
    ids = [json.loads(m.payload)["id"] for m in taken(place, "predictions")]
    assert sorted(ids) == sorted(f"k{record['n']}" for record in records)
    letters = [json.loads(m.payload) for m in taken(place, "dead_letters")]
    assert [letter["reason"] for letter in letters] == ["missing_id", "wrong_type"]
    assert letters[0]["detail"] == "the message's key is absent or null"
    assert "is not UTF-8" in letters[1]["detail"]


@pytest.mark.slow
def test_labels_among_the_records_are_learned_and_replayed(made, make_records):
    place = made(more='[labels]\nconnector = "inline"')
    records, truth = make_records(120)
    send(place, records)
    run(load(place.file), until_idle=True)
    labelled = [
        {"id": record["id"], "label": label} for record, label in zip(records, truth, strict=True)
    ]
    updated = [record | {"label": label} for record, label in zip(records, truth, strict=True)]
    send(place, [*labelled[:50], *updated[50:100]])
    more, named = make_records(30, start=200)
    send(place, [record | {"label": label} for record, label in zip(more, named, strict=True)])
    config = load(place.file)
    run(config, until_idle=True)
    numbers = State(config.state).checkpoints.newest()[1]
    assert numbers["join"]["labels"] == 130
    assert numbers["join"]["answered"] + numbers["join"]["unsolicited"] == 130
    assert len(taken(place, "predictions")) == 150, "each record once, an update none"
    assert taken(place, "dead_letters") == []
    verify_replay(config)


@pytest.mark.slow
def test_predictions_repeat_fields_and_tell_all_probabilities(made, make_records):
    more = '[predictions]\nconnector = "kafka"\ninclude = ["note", "device.os", "big", "no"]\n'
    place = made(more=more + "probabilities = true")
    records, truth = make_records(100)
    given = {"note": "ü", "device": {"os": [1, {"x": None}]}, "big": 2**70 + 1}
    whole = [record | given for record in records]
    send(place, whole)
    labels = [{"id": r["id"], "label": label} for r, label in zip(records, truth, strict=True)]
    send(place, labels, topic="labels")
    run(place.config, until_idle=True)
    send(place, make_records(20, start=100)[0])
    run(place.config, until_idle=True)
    found = [json.loads(m.payload) for m in taken(place, "predictions")]
    shown = {"note": "ü", "device.os": [1, {"x": None}], "big": 2**70 + 1, "no": None}
    assert all(one["fields"] == shown for one in found[:100])
    assert found[0]["probabilities"] == {}
    last = found[-1]
    assert last["fields"] == dict.fromkeys(shown)
    assert set(last["probabilities"]) == {"left", "right"}
    assert last["probabilities"][last["label"]] == last["probability"]


@pytest.mark.slow
def test_what_predictions_repeat_may_change_between_runs_and_is_replayed(made, make_records):
    place = made()
    send(place, make_records(60)[0])
    run(place.config, until_idle=True)
    text = place.file.read_text()
    place.file.write_text(text + '\n[predictions]\nconnector = "kafka"\ninclude = ["a"]\n')
    records = make_records(60, start=60)[0]
    send(place, records)
    config = load(place.file)
    run(config, until_idle=True)
    found = [json.loads(m.payload) for m in taken(place, "predictions")]
    assert ["fields" in one for one in found] == [False] * 60 + [True] * 60
    assert [one["fields"]["a"] for one in found[60:]] == [record["a"] for record in records]
    verify_replay(config)


@pytest.mark.slow
def test_a_record_from_the_future_that_a_topic_refuses_is_named(made, make_records):
    place = made()
    (record,) = make_records(1)[0]
    resource = ConfigResource(
        ConfigResourceType.TOPIC,
        f"{place.name}.predictions",
        {"message.timestamp.before.max.ms": "60000"},
    )
    with closing(place.cluster.create_admin_client()) as admin:
        admin.alter_configs([resource])
    send(place, [record])
    with pytest.raises(ConnectorError, match=r"message\.timestamp\.before\.max\.ms"):
        run(place.config, until_idle=True)


@pytest.mark.slow
def test_a_topic_that_refuses_one_record_among_others_for_its_time_is_named(made, make_records):
    place = made()
    resource = ConfigResource(
        ConfigResourceType.TOPIC,
        f"{place.name}.records",
        {"message.timestamp.after.max.ms": str(2**63 - 1)},
    )
    with closing(place.cluster.create_admin_client()) as admin:
        admin.alter_configs([resource])
    with closing(place.cluster.create_producer()) as producer:

        def is_accepted(record, time_ms):
            payload = json.dumps(record).encode()
            try:
                producer.send(f"{place.name}.records", payload, timestamp_ms=time_ms).get(10)
            except InvalidTimestampError:  # the broker does not have the new setting yet
                return False
            return True

        for i, record in enumerate(make_records(20)[0]):
            until(partial(is_accepted, record, BEGAN if i < 10 else 2**62))
    with pytest.raises(ConnectorError, match=r"its record's time: raise .*after\.max\.ms") as e:
        run(place.config, until_idle=True)
    assert "without a key" not in str(e.value)
