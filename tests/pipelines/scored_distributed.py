"""A pipeline with distributed scoring in production form: processes, a broker, and an annotator."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from kafka import TopicPartition

from streamboost.connectors.kafka.admin import create_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.errors import UnavailableError
from streamboost.pipelines.app import connect
from streamboost.pipelines.config.file import load
from streamboost.pipelines.distributed.topics import scoring_log_topic
from streamboost.pipelines.state.folder import State
from tests.encoders import tiny
from tests.waiting import until

FILE = """
[pipeline]
name = "{name}"
scoring = "distributed"
checkpoint_every = 20
batch_records = 50
{pipeline}
[schema]
{schema}
{features}
[kafka]
bootstrap_servers = "{servers}"
session_timeout_ms = 6000
heartbeat_interval_ms = 500
metadata_max_age_ms = 2000
[source]
connector = "kafka"
[committee]
n_estimators = 3
[schedule]
growth = 1.3
[query]
budget = {budget}
burst = {burst}
{query}
{model}
"""

MODEL = """
[model]
prediction_field = "score"
"""

BUDGET, BURST = 0.2, 24
SESSION, TRANSACTION = 6.0, 10.0


class Apart:
    """A pipeline with distributed scoring: its topics, its file in `folder`, and its processes.

    If `recorded`, records have the prediction of another system, which is evaluated.
    """

    def __init__(
        self,
        folder,
        servers,
        partitions=6,
        pipeline="",
        schema="",
        query="",
        encoder=None,
        recorded=False,
    ):
        features = 'numeric = ["a", "b", "c", "d"]'
        if encoder is not None or recorded:
            features = "[schema.fields]\n" + "".join(f'{name} = "number"\n' for name in "abcd")
        if encoder is not None:  # each record also has a text
            features += f'note = {{ type = "text", encoder = "{encoder}" }}'
        self._has_notes, self._is_recorded = encoder is not None, recorded
        self.name, self.cluster = f"distributed.{time.time_ns()}", KafkaCluster(servers)
        self.partitions = self.first_partitions = partitions
        self.file = folder / "p.toml"
        self.file.write_text(
            FILE.format(
                name=self.name,
                servers=servers,
                pipeline=pipeline,
                schema=f'{schema}\nclasses = ["a", "b"]' if recorded else schema,
                features=features,
                query=query,
                model=MODEL if recorded else "",
                budget=BUDGET,
                burst=BURST,
            )
        )
        create_topics(self.cluster, {f"{self.name}.records": {"num_partitions": partitions}})
        self.config = load(self.file)
        connect.create_topics(self.config)
        self.sent = 0
        self.truth = {}
        self._folder = folder
        self._rng = np.random.default_rng(0)
        self._processes = []
        self._producer = None
        self._answered = set()

    def start(self, command):
        """Start `learn` or `score`; what it says goes to a file."""
        said = (self._folder / f"{command}.{len(self._processes)}").open("wb")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        line = [sys.executable, "-m", "streamboost.pipelines.cli", command, str(self.file)]
        with said:
            process = subprocess.Popen(line, env=environment, stdout=said, stderr=said)
        process.said = said.name
        self._processes.append(process)
        return process

    def send(self, n, partitions=None):
        """Write `n` records, in turn to each partition."""
        self._producer = self._producer or self.cluster.create_producer(
            delivery_timeout_ms=120_000, metadata_max_age_ms=2_000
        )
        for x in self._rng.normal(size=(n, 4)).round(3).tolist():
            id_ = str(self.sent)
            self.truth[id_] = "ab"[x[0] + x[1] > 0]
            fields = {"id": id_, **dict(zip("abcd", x, strict=True))}
            if self._has_notes:
                fields["note"] = " ".join(self._rng.choice(tiny.WORDS, 3).tolist())
            if self._is_recorded:
                fields["score"] = recorded_prediction(self.sent, self.truth[id_])
            record = json.dumps(fields).encode()
            partition = self.sent % (partitions or self.partitions)
            # One that waits for its broker is sent when that is back, and once.
            self._producer.send(f"{self.name}.records", record, partition=partition)
            self.sent += 1

    @contextmanager
    def answered(self):
        """Answer every request, as it comes, within."""
        over = threading.Event()
        thread = threading.Thread(target=self._answer, args=(over,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _answer(self, over):
        topic = f"{self.name}.requests"
        places = defaultdict(int)
        while not over.is_set():
            try:
                with closing(self.cluster.create_consumer()) as consumer:
                    parts = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic)]
                    consumer.assign(parts)
                    for part in parts:
                        consumer.seek(part, places[part])
                    with closing(self.cluster.create_producer()) as producer:
                        while not over.is_set():
                            for part, found in consumer.poll(timeout_ms=100).items():
                                for message in found:
                                    self._tell(producer, json.loads(message.value)["id"])
                                    places[part] = message.offset + 1
                                producer.flush()
            except Exception:  # the broker is away
                time.sleep(0.2)

    def _tell(self, producer, id_):
        label = json.dumps({"id": id_, "label": self.truth[id_]}).encode()
        producer.send(f"{self.name}.labels", label)

    def read(self, topic):
        """Return by partition what is committed of a topic: offsets and messages."""
        name = topic if topic.startswith(self.name) else f"{self.name}.{topic}"
        found = defaultdict(list)
        with closing(self.cluster.create_consumer()) as consumer:
            parts = [TopicPartition(name, n) for n in sorted(consumer.partitions_for_topic(name))]
            consumer.assign(parts)
            ends = consumer.end_offsets(parts)
            for part in parts:
                consumer.seek(part, 0)
            while any(consumer.position(part) < ends[part] for part in parts):
                for part, messages in consumer.poll(timeout_ms=200).items():
                    found[part.partition] += [(m.offset, json.loads(m.value)) for m in messages]
        return found

    def predicted(self):
        """Return how many predictions there are, by the newest entries of progress."""
        return sum(
            sum(entry["records"] for _, entry in entries)
            for entries in self.read(scoring_log_topic(self.name)).values()
        )

    def flush(self):
        """See that all that was sent is there."""
        self._producer.flush()

    def renew(self):
        """Have a producer that knows of all partitions."""
        self._producer.close()
        self._producer = None

    def answer_all(self):
        """Answer every request there is, and no more than once."""
        ids = {r["id"] for found in self.read("requests").values() for _, r in found}
        with closing(self.cluster.create_producer()) as producer:
            for id_ in sorted(ids - self._answered):
                self._tell(producer, id_)
            producer.flush()
        self._answered |= ids

    def admin(self):
        """Return a client that may delete things, for a while."""
        return closing(self.cluster.create_admin_client())

    def delete_before(self, offset):
        """Delete the records of the first partition that stand before `offset`."""
        with self.admin() as admin:
            admin.delete_records({TopicPartition(f"{self.name}.records", 0): offset})

    def wait(self, seconds=180):
        """Wait until every record has its prediction."""
        self.flush()
        until(lambda: self.predicted() >= self.sent, seconds)

    def stop(self, *processes):
        """End processes in good order, and see that they ended well, or had not begun yet."""
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            code = process.wait(120)
            assert code in (0, -signal.SIGTERM), Path(process.said).read_text()[-4000:]

    def labels_are_learned(self, n):
        """Tell whether the learner has committed all labels, by what it has read of them."""
        with closing(connect.create_transaction(self.config)) as transaction:
            committed = transaction.last_committed_batch()
        ends = connect.create_sources(self.config)["labels"]
        with closing(ends) as labels:
            return committed is not None and committed.positions["labels"] == labels.end_offsets()

    def close(self):
        if self._producer is not None:
            self._producer.close()
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    def known(self):
        """Return the manifest of the learner's newest checkpoint."""
        return State(self.config.state).checkpoints.newest()[1]


def recorded_prediction(number, label):
    """Return the prediction of another system in a record: a map, a label, none or malformed."""
    other = "b" if label == "a" else "a"
    return [None, "c", other, {other: 0.7, label: 0.3}, label, {label: 1.8, other: 0.2}][
        min(number % 10, 5)
    ]


def assert_recorded_predictions_are_evaluated(world):
    """Check that each recorded prediction is repeated and counted once, and their accuracy.

    The accuracy may differ by twice the width of its half interval, as it is random.
    """
    for found in world.read("predictions").values():
        for _, one in found:
            truth = world.truth[one["id"]]
            other = "b" if truth == "a" else "a"
            said = [None, None, other, other, truth, truth][min(int(one["id"]) % 10, 5)]
            assert one["label"] == said
    known, n = world.known(), world.sent
    by_digit = [len(range(digit, n, 10)) for digit in range(10)]
    assert known["recorded"] == {
        "valid": n - by_digit[0] - by_digit[1],
        "labels_alone": by_digit[2] + by_digit[4],
        "missing": by_digit[0],
        "malformed": by_digit[1],
    }
    report = known["evaluation"]["since_start"]
    assert report["records"] == n
    accuracy = report["committee"]["accuracy"]
    right = sum(by_digit[4:]) / n
    assert abs(accuracy["value"] - right) < accuracy["high"] - accuracy["low"] < 0.5
    gain = known["shadow_models"]["own model"]["since_start"]["gain"]
    assert gain["low"] < gain["value"] < gain["high"]


def assert_nothing_is_lost_or_doubled(world):
    """Check that each record has one prediction, in its partition and order. Check the requests."""
    predictions, requests = world.read("predictions"), world.read("requests")
    records_there = world.read("records")
    every = [p for found in predictions.values() for _, p in found]
    written = Counter(r["id"] for found in records_there.values() for _, r in found)
    told = Counter(p["id"] for p in every)
    assert not written - told, f"lost: {written - told}"
    assert not told - written, f"doubled: {told - written}"
    assert sorted(map(int, told)) == list(range(world.sent))
    for partition, records in records_there.items():
        told = [p["id"] for _, p in predictions[partition]]
        assert told == [record["id"] for _, record in records], "in the order of the records"
        assert {p["partition"] for _, p in predictions[partition]} <= {partition}
        versions = [p["version"] for _, p in predictions[partition]]
        assert versions == sorted(versions), "versions never go back within a partition"
        sequences = [p["sequence"] for _, p in predictions[partition]]
        assert sequences == sorted(sequences)
    asked = sorted(int(p["id"]) for p in every if p["asked"])
    assert asked == sorted(int(r["id"]) for found in requests.values() for _, r in found)
    return asked


def assert_budgets_were_kept(world, budget=BUDGET, burst=BURST):
    """See that each partition's limits held at every record."""
    for found in world.read("predictions").values():
        asked = np.array([p["asked"] for _, p in found], dtype=float)
        spent = np.cumsum(asked) - budget * np.arange(1, len(asked) + 1)
        assert spent.max() <= 1e-9, "never more than the share of the records so far"
        before = np.minimum.accumulate(np.concatenate([[0.0], spent[:-1]]))
        assert (spent - before).max() <= max(2, burst // world.first_partitions) + 1e-9


def assert_progress_goes_on(world):
    """See that the entries of each partition follow one another without a gap."""
    for entries in world.read(scoring_log_topic(world.name)).values():
        place = 0
        for number, (_, entry) in enumerate(entries, 1):
            assert entry["sequence"] == number
            assert entry["start"] >= place
            place = entry["end"]


def until_scored(world, *scorers):
    """Let scorers take turns until every record has its prediction."""
    world.flush()

    def is_done():
        for one in scorers:
            turn(one)
        return world.predicted() >= world.sent

    until(is_done)


def turn(scorer):
    """Take a turn; what may pass is tried again, as `run` does."""
    try:
        scorer.run_once()
    except UnavailableError:
        return
