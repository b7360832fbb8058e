"""Cost of a distributed scorer per record, compared with bare consumers and with scoring in memory.

    python -m benchmarks.distributed [--records 20000] [--batch 500] [--partitions 4]

The benchmark starts a broker on the same cores and generates records of 16 features and 8 classes.
A learner trains once. The table then compares, alternately and with one and two processes each:

- scorers: CPU per record (user and system) of all scorers from the end of the first batch to the
  end of the last, and records per second;
- consumers of the same group protocol that poll the same records and write as many messages, in
  transactions of the same size;
- partition tasks without a broker, which predict the same batches from memory: wall-clock records
  per second.

Below the table: the bytes of a scoring log entry and of a published model snapshot.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.kafka_pipeline import CLASSES, NAMES, messages
from streamboost.connectors.base import Message
from streamboost.connectors.kafka.admin import create_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.group.assignment import TopicMessage
from streamboost.connectors.kafka.group.member import KafkaMember
from streamboost.pipelines.app import connect
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.score import build_scorer
from streamboost.pipelines.config.durations import WindowSize
from streamboost.pipelines.config.file import load
from streamboost.pipelines.distributed.model_log import ModelLogReader, SnapshotEncoder
from streamboost.pipelines.distributed.partition_task import PartitionTask, TaskSettings
from streamboost.pipelines.shutdown import StopToken
from tests.broker.broker import Broker

TURNS, TAUGHT = 3, 2_000
FILE = """
[pipeline]
name = "{name}"
state = "{name}"
scoring = "distributed"
batch_records = {batch}
[schema]
numeric = {names}
[initial_data]
path = "{known}"
[kafka]
bootstrap_servers = "{servers}"
[source]
connector = "kafka"
[schedule]
first = {taught}
growth = 1e9
retrain_every = "none"
extend_every = "none"
[query]
budget = 0.01
"""


def prepare(folder, servers, partitions, batch):
    """Write a pipeline file, create its topics and let the learner publish; return the file."""
    name = f"distributed{time.time_ns()}"
    records, labels = messages(0, TAUGHT)
    known, file = folder / f"{name}.jsonl", folder / f"{name}.toml"
    rows = (
        json.loads(r) | {"label": json.loads(y)["label"]}
        for r, y in zip(records, labels, strict=True)
    )
    known.write_text("".join(json.dumps(row) + "\n" for row in rows))
    file.write_text(
        FILE.format(
            name=name,
            servers=servers,
            batch=batch,
            names=json.dumps(NAMES),
            known=known,
            taught=TAUGHT,
        )
    )
    config, cluster = load(file), KafkaCluster(servers)
    create_topics(cluster, {f"{name}.records": {"num_partitions": partitions}})
    connect.create_topics(config)
    run(config, until_idle=True)
    return file


def scoring(file, n, done, found):
    """Run a scorer until all scorers have predicted `n` records; report seconds and CPU."""
    config, seen, begun = load(file), 0, None
    with closing(build_scorer(config, StopToken())) as scorer:
        while done.value < n:
            taken = scorer.run_once()
            with done.get_lock():
                done.value += taken
            if taken and begun is None:
                begun = time.perf_counter(), time.process_time(), taken
            seen += taken
            if taken:
                last = time.perf_counter(), time.process_time()
    if begun is not None:
        found.put((last[0] - begun[0], last[1] - begun[1], seen - begun[2]))
    else:
        found.put((0.0, 0.0, 0))


def bare(file, n, done, found):
    """Be a member that polls the same records and writes one message for each, and no more."""
    config, seen, begun = load(file), 0, None
    topic = f"{config.name}.predictions"
    cluster = KafkaCluster(config.sections.kafka.bootstrap_servers)
    member = KafkaMember(cluster, f"{config.name}.bare", f"{config.name}.records")
    with closing(member):
        while done.value < n:
            member.initialize_producer()
            polled = member.poll(config.sections.pipeline.batch_records)
            for partition in polled.ownership.changed & polled.ownership.partitions:
                member.seek(partition, None)
            taken = {p: m for p, m in polled.messages.items() if p not in polled.ownership.changed}
            if not taken:
                continue
            writes = [
                TopicMessage(topic, p, one.payload[:150]) for p, m in taken.items() for one in m
            ]
            member.commit(writes, {p: m[-1].offset + 1 for p, m in taken.items()}, polled)
            with done.get_lock():
                done.value += len(writes)
            begun = begun or (time.perf_counter(), time.process_time(), len(writes))
            seen, last = seen + len(writes), (time.perf_counter(), time.process_time())
    found.put((last[0] - begun[0], last[1] - begun[1], seen - begun[2]) if begun else (0, 0, 0))


def together(work, file, n, workers):
    """Run `workers` processes at once; return (records per second, CPU µs per record)."""
    context = multiprocessing.get_context("spawn")
    done, found = context.Value("l", 0), context.Queue()
    processes = [context.Process(target=work, args=(file, n, done, found)) for _ in range(workers)]
    for process in processes:
        process.start()
    results = [found.get(timeout=600) for _ in processes]
    for process in processes:
        process.join()
    records = sum(result[2] for result in results)
    return records / max(r[0] for r in results), 1e6 * sum(r[1] for r in results) / records


def trained(file):
    """Return the schema of a pipeline file, and a learner that was trained once."""
    config = load(file)
    schema = config.sections.build_schema()
    learner = config.learner_config.build_learner(schema, 0)
    records, labels = messages(0, TAUGHT)
    decoded, _ = schema.decode([Message(p, "0", i, len(p)) for i, p in enumerate(records)])
    learner.learn(decoded.ids, decoded.X, [json.loads(y)["label"] for y in labels])
    return schema, learner


def from_memory(file, n, batch, gate, found):
    """Predict `n` records in batches without a broker; report records per second, and bytes.

    The bytes are those of a scoring log entry, of a prediction, and of a model snapshot.
    """
    config = load(file)
    editions = ModelLogReader(
        lambda schema: config.learner_config.build_learner(schema, 0), "memory"
    )
    schema, learner = trained(file)
    published = SnapshotEncoder().encode_snapshot(1, schema, learner)
    parts = (m.partition(b"\n") for m in published)
    editions.read([(key, value) for key, _, value in parts])
    settings = TaskSettings(config.learner_config.query, 0, WindowSize.parse("1d"), "memory")
    task = PartitionTask(0, settings, 1, None)
    payloads, _ = messages(TAUGHT, n)
    given = [Message(p, "0", i, len(p)) for i, p in enumerate(payloads)]
    task.step(given[:batch], editions.newest, 0, 0)
    gate.wait()
    begun = time.perf_counter()
    for start in range(batch, n, batch):
        step = task.step(given[start : start + batch], editions.newest, 0, 0)
    found.put((n - batch) / (time.perf_counter() - begun))
    prediction = sum(map(len, step.messages.predictions)) / step.records
    found.put((len(step.entry), round(prediction), sum(map(len, published))))


def memory(file, n, batch, workers):
    """Return the records per second of all processes, and the bytes of one."""
    context = multiprocessing.get_context("spawn")
    gate, found = context.Barrier(workers), context.Queue()
    processes = [
        context.Process(target=from_memory, args=(file, n, batch, gate, found))
        for _ in range(workers)
    ]
    for process in processes:
        process.start()
    results = [found.get(timeout=600) for _ in range(2 * workers)]
    for process in processes:
        process.join()
    rates = [value for value in results if isinstance(value, float)]
    return sum(rates), next(value for value in results if isinstance(value, tuple))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--partitions", type=int, default=4)
    given = parser.parse_args()
    table = Table("", "records/s", "CPU µs a record")
    with tempfile.TemporaryDirectory() as name:
        folder, rates = Path(name), {}
        (folder / "broker").mkdir()
        with Broker(folder / "broker") as broker:
            for _ in range(TURNS):
                for title, work, workers in (
                    ("one scorer", scoring, 1),
                    ("two scorers", scoring, 2),
                    ("two bare members", bare, 2),
                ):
                    file = prepare(folder, broker.servers, given.partitions, given.batch)
                    put_all(broker.servers, load(file).name, given.records, given.partitions)
                    rates.setdefault(title, []).append(together(work, file, given.records, workers))
        for title, found in rates.items():
            rate, cpu = (median(one[i] for one in found) for i in (0, 1))
            table.add_row(title, f"{rate:,.0f}", f"{cpu:.0f}")
        for workers in (1, 2):
            found = [memory(file, given.records, given.batch, workers) for _ in range(TURNS)]
            rate = median(one[0] for one in found)
            table.add_row(f"{workers} from memory", f"{rate:,.0f}", "")
    Console().print(table)
    entry, prediction, edition = found[0][1]
    print(f"{CLASSES} classes, an entry of progress of {given.batch} records: {entry:,} bytes")
    print(f"a prediction: {prediction} bytes; a committee, of {TAUGHT:,} labels: {edition:,} bytes")


def put_all(servers, name, n, partitions):
    """Write `n` records, as many to each partition."""
    payloads, _ = messages(TAUGHT, n)
    with closing(KafkaCluster(servers).create_producer()) as producer:
        for i, payload in enumerate(payloads):
            producer.send(f"{name}.records", payload, partition=i % partitions)
        producer.flush()


if __name__ == "__main__":
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    main()
