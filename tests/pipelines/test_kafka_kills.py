"""Real processes on a real broker, killed at every step of the loop: nothing lost, nothing twice.

The long form kills as often as the environment variable STREAMBOOST_KILLS says, at random, over
50,000 records.
"""

import json
import time
from contextlib import closing

import pytest

from streamboost.connectors.kafka import KafkaSource
from streamboost.connectors.kafka_cluster import KafkaCluster
from streamboost.connectors.kafka_topics import create_topics
from streamboost.pipelines import topics
from streamboost.pipelines.assembly import run
from streamboost.pipelines.config import load
from streamboost.pipelines.state import State
from tests.pipelines.killing import (
    ANY_MOMENT,
    KILLS,
    assert_budget_was_kept,
    drawn,
    kill,
    verified,
)

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
shadow = 20
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
def pipeline_file(tmp_path, make_records, kafka_servers):
    """A pipeline file, with records in three partitions and all their labels."""
    name, cluster = f"killed.{time.time_ns()}", KafkaCluster(kafka_servers)
    file = tmp_path / "p.toml"
    file.write_text(PIPELINE.format(name=name, batch=BATCH, servers=kafka_servers))
    create_topics(cluster, {f"{name}.records": {"num_partitions": 3}})
    topics.create(load(file))
    records, truth = make_records(N)
    with closing(cluster.producer()) as producer:
        for n, (record, label) in enumerate(zip(records, truth, strict=True)):
            producer.send(f"{name}.records", json.dumps(record).encode(), partition=n % 3)
            answer = {"id": record["id"], "label": label}
            producer.send(f"{name}.labels", json.dumps(answer).encode())
        producer.flush()
    return file


def read(config, section):
    messages = []
    with closing(
        KafkaSource(KafkaCluster(config.sections.kafka.bootstrap_servers), section.topic)
    ) as source:
        while batch := source.poll(10_000):
            messages += [json.loads(message.payload) for message in batch]
    return messages


def test_after_any_kills_each_record_has_one_prediction_and_each_label_was_learned(
    pipeline_file, make_records
):
    n = KILLS or len(SHORT)
    died = kill(pipeline_file, drawn(STEPS) if KILLS else SHORT, n)
    assert len(died) == n, died
    config = load(pipeline_file)
    newest = run(config, until_idle=True)

    predicted = read(config, config.sections.predictions)
    assert len(predicted) == N
    assert {p["id"] for p in predicted} == {r["id"] for r in make_records(N)[0]}
    known = State(config.state).checkpoints.newest()[1]
    requests = read(config, config.sections.requests)
    assert_budget_was_kept(known["ledger"], predicted, requests, budget=0.3)
    assert known["ledger"]["answered"] == len(requests), "every label came, none was lost"
    assert known["committee"]["labels"] == N
    assert known["sequence"] == newest
    assert f"batches 1 to {newest} replayed: bit for bit" in verified(pipeline_file)
