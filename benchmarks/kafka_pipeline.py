"""Speed of the whole pipeline over Kafka, compared with a bare consume-and-produce loop.

    python -m benchmarks.kafka_pipeline [--records 30000] [--batch 500] [--set 50000]

The benchmark starts a broker on the same cores and generates records of 16 features and 8 classes.

Throughput: a pipeline with a trained committee predicts `--records` records, requests labels and
commits exactly once. The bare loop polls the same records with kafka-python, writes the same
predictions and commits them with its offsets, in batches of the same size. Wall-clock records per
second are measured from the first commit to the last, alternately. A second table shows the
pipeline's time by step of its loop. Commits run in other threads; the steps wait for commits that
are not complete.

Restart: the pipeline has learned `--set` labels, is killed with SIGKILL, and is started again. The
time until the next prediction is measured.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata
from rich.console import Console
from rich.table import Table

from benchmarks.pipeline_steps import Steps
from streamboost.connectors.kafka.admin import create_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.pipelines.app import connect
from streamboost.pipelines.app import run as assembly
from streamboost.pipelines.cli.heap import freeze_gc_after_recovery
from streamboost.pipelines.config.file import load
from streamboost.pipelines.runner.observers import Observer
from tests.broker.broker import Broker

FEATURES, CLASSES, TAUGHT = 16, 8, 2_000
TURNS = 3
NAMES = [f"x{n}" for n in range(FEATURES)]
PIPELINE = """
[pipeline]
name = "{name}"
batch_records = {batch}
batch_labels = {batch}
poll_interval = 0.005
[schema]
numeric = {names}
[kafka]
bootstrap_servers = "{servers}"
[source]
connector = "kafka"
[working_set]
size = {size}
[schedule]
{schedule}
[query]
budget = 0.01
"""
ONCE = f'first = {TAUGHT}\ngrowth = 1e9\nretrain_every = "none"\nextend_every = "none"'


def messages(start, n):
    """Return `n` records and their labels, as messages."""
    rng = np.random.default_rng(start)
    centres = np.random.default_rng(0).normal(size=(CLASSES, FEATURES))
    y = rng.integers(0, CLASSES, n)
    X = (centres[y] + rng.normal(size=(n, FEATURES))).round(4).tolist()
    ids = [str(start + i) for i in range(n)]
    records = [
        {"id": id_, **dict(zip(NAMES, x, strict=True))} for id_, x in zip(ids, X, strict=True)
    ]
    labels = [{"id": id_, "label": f"c{k}"} for id_, k in zip(ids, y, strict=True)]
    return [[json.dumps(m).encode() for m in part] for part in (records, labels)]


def put(cluster, topic, payloads):
    with closing(cluster.create_producer()) as producer:
        for payload in payloads:
            producer.send(topic, payload)
        producer.flush()


def prepare(cluster, folder, name, batch=100, size=TAUGHT, schedule=ONCE):
    """Write a pipeline file, create its topics and let it learn `size` records."""
    folder.mkdir()
    file = folder / "p.toml"
    settings = {"batch": batch, "names": json.dumps(NAMES), "size": size, "schedule": schedule}
    file.write_text(PIPELINE.format(name=name, servers=cluster.servers, **settings))
    config = load(file)
    connect.create_topics(config)
    records, labels = messages(0, size)
    put(cluster, f"{name}.records", records)
    put(cluster, f"{name}.labels", labels)
    assembly.run(config, until_idle=True)
    return file


def bare(cluster, name, source, start, payload, batch, n):
    """Poll, write and commit as little as can be; return the records per second between commits."""
    consumer, producer = (
        cluster.create_consumer(),
        cluster.create_producer(transactional_id=f"{name}.bare"),
    )
    partition, group = TopicPartition(source, 0), f"{name}.bare"
    consumer.assign([partition])
    consumer.seek(partition, start)
    producer.init_transactions()
    seen, commits = 0, []
    while seen < n:
        found = consumer.poll(timeout_ms=100, max_records=batch).get(partition, [])
        if not found:
            continue
        seen += len(found)
        producer.begin_transaction()
        for _ in found:
            producer.send(f"{name}.bare", payload)
        place = OffsetAndMetadata(consumer.position(partition), "", -1)
        producer.send_offsets_to_transaction({partition: place}, group)
        producer.commit_transaction()
        commits.append((time.perf_counter(), len(found)))
    consumer.close()
    producer.close()
    return between(commits)


def between(commits):
    """Return the records per second after the first of `commits`, each (moment, records)."""
    return sum(n for _, n in commits[1:]) / (commits[-1][0] - commits[0][0])


def whole(file):
    """Run the pipeline until idle; return records per second, and the time of each step."""
    seen = []

    class Counting(Observer):
        def on_commit(self, effects):
            seen.append((time.perf_counter(), len(effects.records)))
            if len(seen) == 1:
                steps.begin()

    with Steps() as steps, freeze_gc_after_recovery() as freezer:
        assembly.run(load(file), until_idle=True, observers=[Counting(), freezer])
    return between(seen), steps


def throughput(cluster, folder, batch, n, console):
    name = "throughput"
    file = prepare(cluster, folder / name, name, batch)
    create_topics(cluster, {f"{name}.bare": {}})
    with closing(KafkaSource(cluster, f"{name}.predictions")) as source:
        payload = source.poll(1)[0].payload
    ours, least = [], []
    for turn in range(TURNS):
        start = TAUGHT + turn * n
        put(cluster, f"{name}.records", messages(start, n)[0])
        least.append(bare(cluster, name, f"{name}.records", start, payload, batch, n))
        rate, steps = whole(file)
        ours.append(rate)
    ratio = np.median(np.array(ours) / np.array(least))
    console.print(
        f"throughput, batches of {batch}: pipeline {np.median(ours):,.0f} records/s, bare loop "
        f"{np.median(least):,.0f}: [b]{ratio:.2f}[/b] of it (least {min(ours) / max(least):.2f})"
    )
    table = Table("step", "µs a record", "CPU µs a record", "share of CPU")
    total = sum(steps.cpu.values())
    for taken, cpu in steps.cpu.most_common():
        wall = steps.wall[taken] * 1e6 / n
        table.add_row(taken, f"{wall:.1f}", f"{cpu * 1e6 / n:.1f}", f"{cpu / total:.0%}")
    console.print(table)


def started(file):
    command = [sys.executable, "-m", "streamboost.pipelines.cli", "run", str(file)]
    return subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": os.getcwd()}, stderr=subprocess.DEVNULL
    )


def follower(cluster, name):
    """Return a consumer at the end of the predictions."""
    consumer = cluster.create_consumer()
    partition = TopicPartition(f"{name}.predictions", 0)
    consumer.assign([partition])
    consumer.seek(partition, consumer.end_offsets([partition])[partition])
    return consumer


def restart(cluster, folder, size, console):
    name = "restart"
    once = f'first = {size}\ngrowth = 1e9\nretrain_every = "none"\nextend_every = "none"'
    file = prepare(cluster, folder / name, name, 500, size, once)
    payloads = messages(size, 60_000)[0]
    consumer, process = follower(cluster, name), started(file)
    put(cluster, f"{name}.records", payloads[:20_000])
    seen = 0
    while seen < 20_000:
        seen += sum(map(len, consumer.poll(timeout_ms=100).values()))
    process.send_signal(signal.SIGKILL)
    process.wait()
    put(cluster, f"{name}.records", payloads[20_000:20_001])
    began = time.perf_counter()
    process = started(file)
    while not consumer.poll(timeout_ms=20):
        pass
    seconds = time.perf_counter() - began
    process.send_signal(signal.SIGTERM)
    process.wait()
    consumer.close()
    console.print(f"restart after a kill, {size:,} records in the working set: {seconds:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--set", type=int, default=50_000)
    given = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with Broker(folder) as broker:
            cluster = KafkaCluster(broker.servers)
            throughput(cluster, folder, given.batch, given.records, console)
            restart(cluster, folder, given.set, console)


if __name__ == "__main__":
    main()
