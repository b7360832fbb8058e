"""Processes on a real broker, killed at every step of the runner: nothing is lost or duplicated.

The long form kills as often as the environment variable STREAMBOOST_KILLS says, at random, over
50,000 records.
"""

import json
import shutil
import signal
import time
from contextlib import closing
from functools import partial
from itertools import count, cycle, islice

import pytest

from streamboost.connectors.kafka.admin import create_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.pipelines.app import connect
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from streamboost.pipelines.runner.replay import snapshot_digest
from streamboost.pipelines.state.folder import State
from tests.pipelines.killing import (
    ANY_MOMENT,
    KILLS,
    Feed,
    assert_budget_was_kept,
    drawn,
    kill,
    verified,
)
from tests.waiting import until

pytestmark = pytest.mark.kafka

N, BATCH = (50_000, 100) if KILLS else (900, 40)
PIPELINE = """
[pipeline]
name = "{name}"
batch_records = {batch}
batch_labels = {batch}
checkpoint_every = 4
join_window = 100000  # partitions are not read in step
[kafka]
bootstrap_servers = "{servers}"
[source]
connector = "kafka"
[committee]
n_estimators = 3
[schedule]
growth = 1.2
training = "background"
promotion = "better"
n_evaluation_labels = 20
[query]
budget = 0.3
"""
STEPS = [
    "polled",
    "stepped",
    "replayed",
    "writing to Kafka",
    "committed to Kafka",
    "sealing",
    "checkpointed",
]


SHORT = [*((step, 3 if step == "polled" else 2) for step in STEPS), (ANY_MOMENT, 0.2)]


@pytest.fixture
def make_feed(tmp_path, make_records, kafka_servers):
    """Return a function that creates topics, and returns the feed and the pipeline file."""

    def make(partitions, pieces):
        name, cluster = f"killed.{time.time_ns()}", KafkaCluster(kafka_servers)
        file, sent = tmp_path / "p.toml", count()
        file.write_text(PIPELINE.format(name=name, batch=BATCH, servers=kafka_servers))
        of = {"num_partitions": partitions}
        create_topics(cluster, {f"{name}.records": of, f"{name}.labels": of})
        connect.create_topics(load(file))

        def send(records, labels):
            with closing(cluster.create_producer()) as producer:
                for topic, messages in (("records", records), ("labels", labels)):
                    for message in messages:
                        partition = next(sent) % partitions
                        producer.send(f"{name}.{topic}", message, partition=partition)
                producer.flush()

        return Feed(*make_records(N), pieces, send), file

    return make


def read(config, section):
    messages = []
    with closing(
        KafkaSource(KafkaCluster(config.sections.kafka.bootstrap_servers), section.topic)
    ) as source:
        while batch := source.poll(10_000):
            messages += [json.loads(message.payload) for message in batch]
    return messages


def broker_dies(broker, process, file):
    """Kill the broker under a running pipeline, and then the pipeline."""
    broker.kill()
    broker.start()
    process.kill()
    return file


def zombie(process, file):
    """Stop a process, let another one take over elsewhere, and see that the first is refused."""
    process.send_signal(signal.SIGSTOP)
    elsewhere = file.parent / f"p{time.time_ns()}" / "p.toml"
    elsewhere.parent.mkdir()
    shutil.copy(file, elsewhere)
    if (file.parent / "state").exists():
        shutil.copytree(file.parent / "state", elsewhere.parent / "state")
    run(load(elsewhere), until_idle=True)
    process.send_signal(signal.SIGCONT)
    until(lambda: process.poll() is not None)
    assert process.returncode in (0, 1), "refused, unless it had come to its end before"
    return elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [3] if KILLS else [1, 6])
def test_after_any_kills_each_record_has_one_prediction_and_each_label_was_learned(
    make_feed, partitions, request
):
    n = KILLS or 4
    kills = drawn(STEPS) if KILLS else islice(cycle(SHORT), partitions, None, 2)
    feed, file = make_feed(partitions, 3 * n)
    faults = [partial(broker_dies, request.getfixturevalue("broker")), zombie] if KILLS else []
    died, file = kill(file, kills, n, feed, faults)
    assert len(died) == n, died
    config = load(file)
    newest = run(config, until_idle=True)

    predicted = read(config, config.sections.predictions)
    assert sorted(p["id"] for p in predicted) == sorted(feed.sound)
    assert len(read(config, config.sections.dead_letters)) == len(feed.damaged)
    known = State(config.state).checkpoints.newest()[1]
    requests = read(config, config.sections.requests)
    assert_budget_was_kept(known["ledger"], predicted, requests, budget=0.3)
    assert known["ledger"]["answered"] == len(requests), "every label came, none was lost"
    assert known["committee"]["labels"] == len(feed.sound)
    assert known["sequence"] == newest
    assert f"batches 1 to {newest} replayed: bit for bit" in verified(file)


RETENTION = """checkpoint_every = 1
checkpoint_copy = "copies"
retention = "1s"
"""
DELETING = [
    ("checkpointed", 2),
    ("deleted from Kafka", 1),
    ("deleting from Kafka", 1),
    ("sealing", 3),
    ("deleting from Kafka", 1),
    ("deleted from Kafka", 2),
    (ANY_MOMENT, 1.0),
    ("deleting from Kafka", 1),
]


@pytest.mark.slow
def test_kills_around_a_deletion_from_the_journal_leave_what_a_rebuild_needs(make_feed):
    feed, file = make_feed(2, 3 * len(DELETING))
    file.write_text(file.read_text().replace("checkpoint_every = 4\n", RETENTION))
    died, file = kill(file, DELETING, 6, feed)
    assert len(died) == 6, died
    assert {"deleting from Kafka", "deleted from Kafka"} <= set(died)
    config = load(file)
    newest = run(config, until_idle=True)
    with closing(connect.create_transaction(config)) as transaction:
        kept = [sequence for sequence, _ in transaction.read_journal()]
    assert kept == list(range(kept[0], newest + 1))
    assert kept[0] > 1
    assert "replayed: bit for bit" in verified(file)
    state = snapshot_digest(*State(config.state).checkpoints.newest())
    shutil.rmtree(config.state)
    assert run(config, rebuild=True, until_idle=True) == newest
    assert snapshot_digest(*State(config.state).checkpoints.newest()) == state
    predicted = read(config, config.sections.predictions)
    assert sorted(p["id"] for p in predicted) == sorted(feed.sound)


FACTORIES = """
from river import base, compose, naive_bayes, stats, tree
from river import feature_extraction as fx


class Share(base.SupervisedTransformer):
    def __init__(self):
        self.n = self.left = 0

    def learn_one(self, x, y):
        self.n += 1
        self.left += y == "left"

    def transform_one(self, x):
        return {"share": self.left / max(self.n, 1)}


def made():
    return compose.Select("a", "b") + fx.Agg("a", "b", stats.Mean()) + Share()


def hoeffding():
    return tree.HoeffdingTreeClassifier(grace_period=20)


def bayes():
    return naive_bayes.GaussianNB()
"""
RIVER = """
[features]
river = "factories:made"
[model]
river = "factories:hoeffding"
[shadow_models.nb]
river = "factories:bayes"
"""


@pytest.mark.slow
def test_kills_lose_nothing_of_river_s_transformer_model_and_rival(make_feed):
    feed, file = make_feed(2, 9)
    (file.parent / "factories.py").write_text(FACTORIES)
    file.write_text(file.read_text() + RIVER)
    steps = ("writing to Kafka", "committed to Kafka", "checkpointed")
    died, file = kill(file, [(step, 2) for step in steps], 3, feed)
    assert len(died) == 3, died
    config = load(file)
    newest = run(config, until_idle=True)
    predicted = read(config, config.sections.predictions)
    assert sorted(p["id"] for p in predicted) == sorted(feed.sound)
    checkpoint = describe_pipeline(config.state, config)["checkpoint"]
    assert checkpoint["transformer"] == {"failures": 0}
    assert checkpoint["shadow_models"]["nb"]["since_start"]["records"] == len(feed.sound)
    assert checkpoint["shadow_models"]["nb"]["failures"] == 0
    right = sum(p["label"] == feed.truth[p["id"]] for p in predicted[-200:])
    assert right > 150, "what was learned before the kills is there after them"
    assert f"batches 1 to {newest} replayed: bit for bit" in verified(file)
