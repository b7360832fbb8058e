"""Pipelines on a real broker, and operations on their topics."""

import json
import time
from contextlib import closing
from types import SimpleNamespace

from kafka import TopicPartition

from streamboost.connectors.kafka.admin import create_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.pipelines.app import connect
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from streamboost.pipelines.state.folder import State

PIPELINE = """
[pipeline]
name = "{name}"
batch_records = 20
checkpoint_every = 3
[schema]
numeric = ["a", "b"]
[kafka]
bootstrap_servers = "{servers}"
metadata_max_age_ms = 200
{more}
[source]
connector = "kafka"
[committee]
n_estimators = 3
[query]
budget = 0.3
"""


def make(folder, servers, more="", reached=None, partitions=1):
    """Write a pipeline file and create its topics; `reached` is where the pipeline finds them."""
    file, name = folder / "p.toml", f"operated.{time.time_ns()}"
    file.write_text(PIPELINE.format(name=name, servers=reached or servers, more=more))
    config, cluster = load(file), KafkaCluster(servers)
    create_topics(cluster, {f"{name}.records": {"num_partitions": partitions}})
    connect.create_topics(config)
    return SimpleNamespace(config=config, name=name, cluster=cluster, file=file)


def put(made, records, partition=None, topic="records"):
    # However busy the machine is, the records of a partition are one batch, which `flush` sends.
    with closing(made.cluster.create_producer(linger_ms=5_000)) as producer:
        for record in records:
            producer.send(f"{made.name}.{topic}", json.dumps(record).encode(), partition=partition)
        producer.flush()


def taken(made, topic):
    """Return the messages of a topic, as they are."""
    found = []
    with closing(KafkaSource(made.cluster, f"{made.name}.{topic}")) as source:
        while batch := source.poll(10_000):
            found += batch
    return found


def predicted(made):
    return [json.loads(message.payload)["id"] for message in taken(made, "predictions")]


def delete(made, topic, before):
    """Let a topic begin at offset `before`, as retention does."""
    with closing(made.cluster.create_admin_client()) as admin:
        admin.delete_records({TopicPartition(topic, 0): before})


def damage(broker, made, text, topic="records"):
    """Change a byte of the batch that holds `text`, on the broker's disk."""
    broker.stop()
    (log,) = broker.folder.glob(f"data/{made.name}.{topic}-0/*.log")
    held = log.read_bytes()
    place = held.index(text.encode())
    log.write_bytes(held[:place] + b"!" + held[place + 1 :])
    broker.start()


def checkpoints(made):
    return State(made.config.state).checkpoints


def grow(made, make_records, n):
    """Let a pipeline take `n` records in, and die without a checkpoint of the second half."""
    put(made, make_records(n // 2)[0])
    first = run(made.config, until_idle=True)
    put(made, make_records(n - n // 2, start=n // 2)[0])
    run(made.config, until_idle=True)
    checkpoints(made).remove_after(first)
