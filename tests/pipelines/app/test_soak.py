"""A pipeline on a real broker for a long time: memory and consumer lag stay bounded.

The test runs for as many minutes as the environment variable STREAMBOOST_SOAK_MINUTES says.
"""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import closing, contextmanager

import numpy as np
import pytest
from kafka import TopicPartition

from streamboost.connectors.kafka.admin import create_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.pipelines.app import connect
from streamboost.pipelines.config.file import load

MINUTES = float(os.environ.get("STREAMBOOST_SOAK_MINUTES", "0"))

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(not MINUTES, reason="`make soak` lets a pipeline run for a long time"),
]

RATE = 300
"""Records a second."""

DELAY = 500
"""Records that pass before a label comes."""

TURN = 600.0
"""Seconds of one period of the rotating classes."""

FEATURES, CLASSES = 16, 6
PIPELINE = """
[pipeline]
name = "{name}"
join_window = 5000
[schema]
numeric = {numeric}
[kafka]
bootstrap_servers = "{servers}"
[source]
connector = "kafka"
[requests]
connector = "kafka"
expires_after = 5000
[working_set]
size = 1000
[schedule]
training = "background"
retrain_every = 250
[query]
budget = 0.1
"""


class Drifting:
    """Records whose classes lie on a circle that turns, among features that say nothing."""

    def __init__(self):
        self._rng = np.random.default_rng(0)

    def draw(self, n, seconds):
        """Return features (n, D) and labels as they are `seconds` after the beginning."""
        labels = self._rng.integers(0, CLASSES, n)
        X = self._rng.normal(size=(n, FEATURES))
        angle = 2 * math.pi * (labels / CLASSES + seconds / TURN)
        X[:, 0] += 4 * np.cos(angle)
        X[:, 1] += 4 * np.sin(angle)
        return X.round(3), labels


class Feeder:
    """Sends records at a steady rate, answers what is asked, and counts what is predicted."""

    def __init__(self, cluster, name, clock=time.monotonic):
        self.sent, self.seen, self.labels = 0, 0, 0
        self.right = deque(maxlen=20 * RATE)
        self._name, self._clock, self._began = name, clock, clock()
        self._producer, self._consumer = (
            cluster.create_producer(linger_ms=5),
            cluster.create_consumer(),
        )
        outputs = [TopicPartition(f"{name}.{topic}", 0) for topic in ("predictions", "requests")]
        self._consumer.assign(outputs)
        for output in outputs:
            self._consumer.seek(output, 0)
        self._world, self._truth = Drifting(), {}
        self._asked = deque()

    @property
    def seconds(self):
        return self._clock() - self._began

    def turn(self, *, sending=True):
        """Send what is due, and take what has come."""
        due = int(self.seconds * RATE) - self.sent if sending else 0
        X, labels = self._world.draw(due, self.seconds)
        for x, label in zip(X.tolist(), labels.tolist(), strict=True):
            id_ = str(self.sent)
            self._truth[id_] = f"c{label}"
            features = {f"x{n}": value for n, value in enumerate(x)}
            self._send("records", {"id": id_, **features})
            self.sent += 1
        for partition, messages in self._consumer.poll(timeout_ms=20).items():
            for message in messages:
                self._take(partition.topic, json.loads(message.value))
        while self._asked and self._asked[0][0] <= self.seen:
            id_, label = self._asked.popleft()[1:]
            self._send("labels", {"id": id_, "label": label})
            self.labels += 1

    def close(self):
        self._producer.close()
        self._consumer.close()

    def _take(self, topic, message):
        if topic.endswith(".requests"):
            # A request and its prediction are in two topics: either may be read first.
            self._asked.append((self.seen + DELAY, message["id"], self._truth[message["id"]]))
            return
        self.seen += 1
        self.right.append(message["label"] == self._truth[message["id"]])
        self._truth.pop(str(int(message["id"]) - 10 * RATE), None)

    def _send(self, topic, message):
        self._producer.send(f"{self._name}.{topic}", json.dumps(message).encode())


@contextmanager
def running(folder):
    """Run the pipeline of `folder`, stop it in good order, and see that it ended well."""
    command = [sys.executable, "-m", "streamboost.pipelines.cli", "run", "p.toml"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=said)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, (folder / "said").read_text()[-4000:]
    finally:
        process.kill()
        process.wait()


def memory(process):
    """Return the megabytes that a process holds."""
    command = ["ps", "-o", "rss=", "-p", str(process.pid)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1024


@pytest.fixture
def soaked(tmp_path, kafka_servers):
    """A cluster, and the name of a pipeline whose topics and file are there."""
    name, cluster = f"soak.{time.time_ns()}", KafkaCluster(kafka_servers)
    numeric = json.dumps([f"x{n}" for n in range(FEATURES)])
    text = PIPELINE.format(name=name, servers=kafka_servers, numeric=numeric)
    (tmp_path / "p.toml").write_text(text)
    create_topics(cluster, {f"{name}.records": {"num_partitions": 1}})
    connect.create_topics(load(tmp_path / "p.toml"))
    return cluster, name


def soak(feeder, process):
    """Feed it to the end; return (seconds, megabytes, records behind) every other second."""
    samples = []
    while feeder.seconds < MINUTES * 60:
        feeder.turn()
        if feeder.seconds >= 2 * len(samples):
            samples.append((feeder.seconds, memory(process), feeder.sent - feeder.seen))
    while feeder.seen < feeder.sent and feeder.seconds < MINUTES * 60 + 60:
        feeder.turn(sending=False)
    return np.array(samples)


def test_memory_stays_flat_and_the_lag_is_bounded(soaked, tmp_path):
    with closing(Feeder(*soaked)) as feeder, running(tmp_path) as process:
        samples = soak(feeder, process)
    seconds, megabytes, behind = samples[len(samples) // 3 :].T  # the first third warms up
    size, late, right = np.median(megabytes), np.median(behind), np.mean(feeder.right)
    grown = np.polyfit(seconds, megabytes, 1)[0] * (seconds[-1] - seconds[0])
    print(
        f"\n{feeder.sent:,} records and {feeder.labels:,} labels in {MINUTES:g} min; after a third "
        f"of it: {size:.0f} MB, which the slope makes {grown:+.1f} MB more; {late:.0f} records "
        f"behind in the median, {behind.max():.0f} at most; {right:.1%} of the last right"
    )
    assert feeder.seen == feeder.sent, "each record has one prediction"
    assert grown < 0.05 * size
    assert late < 2 * RATE
    assert behind.max() < 20 * RATE
    assert right > 0.7, "it follows the drift"
