"""Timestamp alignment on a backlog: no label is lost, whichever stream is read first.

The long form has as many records as the environment variable STREAMBOOST_BACKLOG says.
"""

import json
import os
import time
from collections import deque
from contextlib import closing
from operator import attrgetter

import numpy as np
import pytest

from streamboost.connectors.base import Message
from streamboost.connectors.kafka.admin import create_topics as create_kafka_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.memory import MemoryLog, MemorySource
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from streamboost.pipelines.runner.batch_reader import BatchReader
from streamboost.pipelines.runner.timestamp_aligner import BufferedSource
from streamboost.pipelines.state.folder import State
from tests.slow import slow

N = int(os.environ.get("STREAMBOOST_BACKLOG", "8000"))
WINDOW = N // 40
PIPELINE = """
[pipeline]
name = "{name}"
join_window = {window}
checkpoint_every = 1000
[schema]
time = "at"
{more}
[committee]
n_estimators = 3
[schedule]
retrain_every = 2000
[query]
budget = 0.02
"""
FILES = """
[source]
connector = "files"
path = "records.jsonl"
[labels]
connector = "files"
path = "labels.jsonl"
"""
KAFKA = """
[kafka]
bootstrap_servers = "{servers}"
[source]
connector = "kafka"
"""


def records(n, **more):
    """Give `n` records as JSON, and the label of each."""
    X = np.random.default_rng(0).random((n, 2)).round(3)
    for i, (a, b) in enumerate(X.tolist()):
        at = {key: time_of(i) for key, time_of in more.items()}
        yield json.dumps({"id": str(i), "a": a, "b": b, **at}), "left" if a > b else "right"


def written(folder, every=50, order=1, record_times=None, label_times=None, n=N):
    """Write `n` records and the label of every `every`-th into files, the labels in `order`."""
    answers = []
    with (folder / "records.jsonl").open("w") as file:
        for i, (record, label) in enumerate(records(n, **(record_times or {}))):
            file.write(record + "\n")
            if i % every == 0:
                at = {key: time_of(i) for key, time_of in (label_times or {}).items()}
                answers.append(json.dumps({"id": str(i), "label": label, **at}) + "\n")
    (folder / "labels.jsonl").write_text("".join(answers[::order]))
    (folder / "p.toml").write_text(PIPELINE.format(name="backlog", window=WINDOW, more=FILES))
    return len(answers)


def counts(folder):
    return State(folder / "state").checkpoints.newest()[1]


def assert_every_label_was_learned(folder, n, of=N):
    known = counts(folder)
    assert known["committee"]["labels"] == n, known["join"]
    assert known["join"]["unknown"] == known["join"]["late"] == known["join"]["expired"] == 0
    assert known["join"]["records"] == of


@pytest.mark.parametrize("order", [1, *slow(-1)])
def test_a_few_labels_of_a_backlog_in_files_are_all_learned(tmp_path, order):
    n = written(tmp_path, order=order)
    run(load(tmp_path / "p.toml"), until_idle=True)
    assert_every_label_was_learned(tmp_path, n)


@pytest.mark.parametrize("later", [10 * N, *slow(WINDOW // 5)])
@pytest.mark.slow
def test_labels_that_bear_times_are_all_learned_however_late_they_are(tmp_path, later):
    n = written(
        tmp_path,
        record_times={"at": lambda i: 1_000 + i},
        label_times={"time": lambda i: 1_000 + i + later},
    )
    file = tmp_path / "p.toml"  # after half a window without a label, labels are read ahead
    file.write_text(
        file.read_text().replace("[schema]", f"batch_records = {WINDOW // 5}\n[schema]", 1)
    )
    run(load(file), until_idle=True)
    assert_every_label_was_learned(tmp_path, n)
    early = counts(tmp_path)["join"]["early"]
    assert early == 0 if later < WINDOW else early > 0, (
        "in step with records, unless that is too late"
    )


@pytest.mark.parametrize(
    ("more", "of"),
    [({}, N), ({"later": WINDOW // 5}, N // 5), ({"later": 10 * N}, N // 5)],
)
@pytest.mark.slow
def test_labels_that_are_read_too_slowly_are_all_learned(tmp_path, more, of):
    later = more.get("later", 0)
    times = {
        "record_times": {"at": lambda i: 1_000 + i},
        "label_times": {"time": lambda i: 1_000 + i + later},
    }
    n = written(tmp_path, every=1, n=of, **(times if more else {}))
    file = tmp_path / "p.toml"
    file.write_text(file.read_text().replace("[schema]", "batch_labels = 10\n[schema]", 1))
    run(load(file), until_idle=True)
    assert_every_label_was_learned(tmp_path, n, of)


class Drained(MemorySource):
    """Gives many messages of a partition before the next has its turn, as Kafka's client does."""

    def __init__(self, log, at_once):
        super().__init__(log)
        self.ahead, self.at_once = deque(), at_once
        self.reached = dict.fromkeys(log.partitions, 0)

    def poll(self, limit):
        for partition in self.reached:
            if len(self.ahead) < limit:
                payloads = self._log.read(partition, self.reached[partition], self.at_once)
                for offset, payload in enumerate(payloads, self.reached[partition]):
                    time = json.loads(payload)["time"]
                    self.ahead.append(Message(payload, partition, offset, len(payload), time))
                self.reached[partition] += len(payloads)
        given = [self.ahead.popleft() for _ in range(min(limit, len(self.ahead)))]
        self._next |= {message.partition: message.offset + 1 for message in given}
        return sorted(given, key=lambda m: (m.partition, m.offset))


@pytest.mark.parametrize(
    ("later", "partitions"), [(5, 3), *slow((10 * N, 6), (5, 1), (5, 6), (10 * N, 1), (10 * N, 3))]
)
@pytest.mark.slow
def test_labels_in_partitions_that_are_drained_one_by_one_are_all_learned(
    make_world, make_records, partitions, later
):
    world = make_world(window=200, batch=20)
    names = [str(n) for n in range(partitions)]
    logs = [MemoryLog(names), MemoryLog(names)]
    records, truth = make_records(4_000)
    for i, (record, label) in enumerate(zip(records, truth, strict=True)):
        answer = {"id": record["id"], "label": label, "time": i + later}
        logs[0].append([json.dumps(record | {"time": i}).encode()], names[i % partitions])
        if i % 4 == 0:
            logs[1].append([json.dumps(answer).encode()], names[i // 4 % partitions])
    world.loop.intake = BatchReader(
        Drained(logs[0], 50),
        Drained(logs[1], 200),
        most_records=20,
        most_labels=20,
        max_records_without_labels=100,
    )
    world.run()
    assert world.pipeline.join.counts.records == 4_000
    assert world.pipeline.learner.n_labels == 1_000, world.pipeline.join.counts


def test_what_is_held_back_is_waited_for_before_it_is_idle():
    log = MemoryLog()
    log.append([b'{"time": 5}'])
    held = BufferedSource(Drained(log, 10), attrgetter("time"))
    held.watermark = 1
    assert held.poll(10) == []
    assert held.has_more_messages
    assert held.position() == {"0": 0}
    held.watermark = 5
    assert [message.offset for message in held.poll(10)] == [0]
    assert not held.has_more_messages


@pytest.mark.parametrize(
    ("order", "of"),
    [
        ("labels first", N // 5),
        *slow(("labels first", N), ("records first", N // 5), ("alternating", N // 5)),
    ],
)
@pytest.mark.kafka
@pytest.mark.slow
def test_every_label_of_a_backlog_in_topics_is_learned(tmp_path, kafka_servers, order, of):
    from streamboost.pipelines.app.connect import create_topics

    name, cluster = f"backlog.{time.time_ns()}", KafkaCluster(kafka_servers)
    more = KAFKA.format(servers=kafka_servers)
    (tmp_path / "p.toml").write_text(PIPELINE.format(name=name, window=WINDOW, more=more))
    config = load(tmp_path / "p.toml")
    create_kafka_topics(cluster, {f"{name}.labels": {"num_partitions": 3}})
    create_topics(config)
    sent = [(f"{name}.records", record.encode(), i, 1) for i, (record, _) in enumerate(records(of))]
    answers = [
        (f"{name}.labels", json.dumps({"id": str(i), "label": label}).encode(), i, 2)
        for i, (_, label) in enumerate(records(of))
        if i % 50 == 0
    ]
    messages = {
        "records first": sent + answers,
        "labels first": answers + sent,
        "alternating": sorted(sent + answers, key=lambda message: message[2:]),
    }[order]
    with closing(cluster.create_producer()) as producer:
        for topic, payload, *_ in messages:
            producer.send(topic, payload)
        producer.flush()
    run(config, until_idle=True)
    assert_every_label_was_learned(tmp_path, len(answers), of)


def test_labels_wait_for_records_that_come_later_while_the_pipeline_runs(make_world, make_records):
    world = make_world(window=20, batch=10)
    records, truth = make_records(200)
    answers = [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)]
    world.feed(labels=answers)
    world.run()
    world.feed(records)
    world.run()
    assert world.pipeline.learner.n_labels == 200


def test_no_labels_are_read_while_the_room_they_wait_in_is_full(
    make_world, make_records, monkeypatch
):
    monkeypatch.setattr("streamboost.pipelines.runner.label_join.MOST_WAITING", 30)
    world = make_world(window=20, batch=10)
    records, truth = make_records(200)
    world.feed(labels=[{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)])
    world.run()
    assert world.pipeline.join.counters()["waiting_labels"] == 30
    world.feed(records)
    world.run()
    assert world.pipeline.learner.n_labels == 200
    assert world.pipeline.join.counters()["waiting_labels"] == 0


@pytest.mark.slow
def test_what_a_backlog_asks_for_can_be_answered_after_it_was_read(make_world, make_records):
    world = make_world(window=20, expires_after=30)
    records, truth = make_records(300)
    world.feed(records)
    world.run()
    asked = [request["id"] for request in world.read("requests")]
    assert len(asked) > 20
    world.feed(labels=[{"id": id_, "label": truth[int(id_)]} for id_ in asked])
    world.run()
    assert world.pipeline.learner.ledger.answered == len(asked)


def test_answers_given_while_the_pipeline_was_down_have_not_expired(make_world, make_records):
    world = make_world(window="30s", expires_after="30s")
    records, truth = make_records(10)
    world.feed(records)
    world.run()
    asked = [request["id"] for request in world.read("requests")]
    arrays, manifest = world.loop.snapshot()
    for _ in range(60):
        next(world.ticks)
    world.loop = world.fresh()
    world.loop.restore(arrays, manifest)
    world.feed(labels=[{"id": id_, "label": truth[int(id_)]} for id_ in asked])
    world.run()
    assert world.pipeline.learner.ledger.answered == len(asked) > 0


@pytest.mark.slow
def test_a_replay_of_a_backlog_comes_to_the_same_bits(tmp_path):
    from streamboost.pipelines.app.verify import verify_replay

    written(tmp_path, n=N // 5)
    file = tmp_path / "p.toml"
    run(load(file), until_idle=True)
    assert "bit for bit" in verify_replay(load(file))
