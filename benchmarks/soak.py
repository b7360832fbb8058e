"""A pipeline over millions of records, killed again and again: what grows, and what is lost.

    python -m benchmarks.soak [--records 10000000] [--kill-every 500000] [--kafka] [--out FILE.json]
                              [--budget 0.05]
    python -m benchmarks.soak --plot FILE.svg --from FILE.json [FILE.json ...]

Records of 16 fields and 8 classes are generated, 5,000 when all before are predicted. The share
`--budget` of them is asked about, and answered 5,000 records later. The pipeline reads streams of
its own log, or topics with `--kafka`, which starts a broker (Java and Maven). It runs in a process
of its own that gets SIGKILL after each `--kill-every` records. At 5 %, the working set of 40,000
labels is full after 800,000 records: nothing may grow after the first million.

Every prediction is read and compared: record n has the n-th prediction, so that none is lost or
written twice. A line is a sample after each 200,000 records: resident memory of the process, size
of the state folder and of its write-ahead log, time and size of a checkpoint, threads and open
files, and the number of offsets that a journal in Kafka retains. A restart is measured from the
start of the process to its first new prediction. The exit status is 1 if a prediction is missing or
double.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np

FEATURES, CLASSES, CHUNK, SAMPLED = 16, 8, 5_000, 200_000
RETENTION = {"sqlite": "500000", "kafka": '"1m"'}

PIPELINE = """
[pipeline]
name = "soak"
batch_records = 500
poll_interval = 0.02
retention = {retention}
{keys}
[schema]
numeric = {numeric}
[source]
connector = "{connector}"
{source}
[labels]
connector = "{connector}"
{labels}
[query]
budget = {budget}
"""


class Generator:
    """Makes records around class centres as JSON lines, and knows their labels."""

    def __init__(self):
        self._rng = np.random.default_rng(0)
        self._centres = np.random.default_rng(1).normal(size=(CLASSES, FEATURES))
        self._labels = bytearray()

    @property
    def n_sent(self):
        return len(self._labels)

    def chunk(self):
        """Return the payloads of the next records."""
        y = self._rng.integers(0, CLASSES, CHUNK)
        X = (self._centres[y] + self._rng.normal(size=(CHUNK, FEATURES))).round(3).tolist()
        start = self.n_sent
        self._labels.extend(y.tolist())
        return [
            json.dumps({"id": f"r{start + i}"} | {f"x{k}": x for k, x in enumerate(row)}).encode()
            for i, row in enumerate(X)
        ]

    def answer(self, request):
        """Return the payload of the label that a message of a request asks for."""
        id_ = json.loads(request.payload)["id"]
        return json.dumps({"id": id_, "label": f"c{self._labels[int(id_[1:])]}"}).encode()


class Child:
    """The process of the pipeline, and when it was started."""

    def __init__(self, file):
        command = [sys.executable, "-m", "benchmarks.soak", "--child", str(file)]
        self.began = time.monotonic()
        self.process = subprocess.Popen(command)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def sizes(self):
        """Return resident bytes, threads and open files."""
        folder = Path(f"/proc/{self.process.pid}")
        lines = (folder / "status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines if ":" in line)
        resident = int(status["VmRSS"].split()[0]) * 1024
        return resident, int(status["Threads"]), len(list((folder / "fd").iterdir()))


def run_child(path):
    """Run the pipeline until a kill, and measure its checkpoints."""
    from streamboost.pipelines.app.run import run
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.runner.runner import Runner

    file, save = path.parent / "checkpoint-seconds", Runner.save_checkpoint

    def save_timed(runner):
        start = time.perf_counter()
        save(runner)
        file.write_text(f"{time.perf_counter() - start}")

    Runner.save_checkpoint = save_timed
    run(load(path))


def world_on_sqlite(folder, stack, budget):
    """Return the pipeline's file, two sinks (records, labels), two sources (predictions, requests).

    The last value is a function that returns further figures of a sample.
    """
    from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource

    log = folder / "state" / "log.db"
    log.parent.mkdir()
    file = written(folder, "sqlite", 'stream = "records"', 'stream = "labels"', budget)
    records, labels = SqliteSink(log, "records"), SqliteSink(log, "labels")
    predictions, requests = (
        stack.enter_context(closing(SqliteSource(log, name)))
        for name in ("predictions", "requests")
    )
    return file, records, labels, predictions, requests, dict


def world_on_kafka(folder, stack, budget):
    """Return the same as `world_on_sqlite` for topics of a broker, which it starts."""
    from kafka import TopicPartition

    from streamboost.connectors.kafka.cluster import KafkaCluster
    from streamboost.connectors.kafka.sink import KafkaSink
    from streamboost.connectors.kafka.topic import KafkaSource
    from streamboost.pipelines.app.connect import create_topics
    from streamboost.pipelines.config.file import load
    from tests.broker.broker import Broker, missing

    if reason := missing():
        sys.exit(f"no broker can be started: {reason}")
    (folder / "broker").mkdir()
    broker = Broker(folder / "broker")
    broker.start()
    stack.callback(broker.kill)
    kafka = f'[kafka]\nbootstrap_servers = "{broker.servers}"\n'
    copies = f'checkpoint_copy = "{folder / "copies"}"\n{kafka}'
    file = written(folder, "kafka", "", "", budget, copies)
    create_topics(load(file))
    cluster = KafkaCluster(broker.servers)
    records, labels = KafkaSink(cluster, "soak.records"), KafkaSink(cluster, "soak.labels")
    predictions, requests = (
        stack.enter_context(closing(KafkaSource(cluster, f"soak.{name}")))
        for name in ("predictions", "requests")
    )
    consumer, journal = stack.enter_context(closing(cluster.create_consumer())), "soak.journal"

    def retained():
        at = TopicPartition(journal, 0)
        offsets = (consumer.end_offsets([at])[at], consumer.beginning_offsets([at])[at])
        return {"journal_offsets": offsets[0] - offsets[1]}

    return file, records, labels, predictions, requests, retained


def written(folder, connector, source, labels, budget, keys=""):
    numeric = json.dumps([f"x{k}" for k in range(FEATURES)])
    file = folder / "soak.toml"
    file.write_text(
        PIPELINE.format(
            retention=RETENTION[connector],
            keys=keys,
            numeric=numeric,
            connector=connector,
            source=source,
            labels=labels,
            budget=budget,
        )
    )
    return file


def soak(world, n, kill_every):
    """Feed `n` records, kill and restart; return the samples and restarts, or what went wrong."""
    file, records, labels, predictions, requests, further = world
    generator, n_seen, samples, restarts = Generator(), 0, [], []
    child, n_at_start, began = Child(file), 0, time.monotonic()
    try:
        while n_seen < n:
            if generator.n_sent == n_seen:
                labels.write([generator.answer(request) for request in requests.poll(CHUNK)])
                labels.flush()
                records.write(generator.chunk())
                records.flush()
            batch = predictions.poll(CHUNK)
            for message in batch:
                if (found := json.loads(message.payload)["id"]) != f"r{n_seen}":
                    return samples, restarts, f"prediction {n_seen} is that of {found}"
                n_seen += 1
                if n_seen % SAMPLED == 0:
                    seconds = time.monotonic() - began
                    samples.append(sample(child, file, n_seen, seconds) | further())
                    print(json.dumps(samples[-1]), flush=True)
            if batch and n_at_start is not None:
                restarts.append([n_at_start, round(time.monotonic() - child.began, 2)])
                n_at_start = None
            if child.process.poll() is not None:
                return samples, restarts, f"the pipeline ended with {child.process.returncode}"
            if n_at_start is None and kill_every * len(restarts) <= n_seen < n:
                child.kill()
                child, n_at_start = Child(file), n_seen
            if not batch:
                time.sleep(0.02)
    finally:
        child.kill()
    return samples, restarts, ""


def sample(child, file, n, seconds):
    resident, threads, files = child.sizes()
    state = file.parent / "state"
    sizes = {path: path.stat().st_size for path in state.rglob("*") if path.is_file()}
    checkpoints = [size for path, size in sizes.items() if path.parent.name == "checkpoints"]
    timing = file.parent / "checkpoint-seconds"
    return {
        "records": n,
        "seconds": round(seconds, 1),
        "memory_mb": round(resident / 1e6, 1),
        "disk_mb": round(sum(sizes.values()) / 1e6, 1),
        "wal_mb": round(sum(size for path, size in sizes.items() if "-wal" in path.name) / 1e6, 1),
        "checkpoint_mb": round(max(checkpoints, default=0) / 1e6, 2),
        "checkpoint_s": round(float(timing.read_text()), 3) if timing.exists() else None,
        "threads": threads,
        "files": files,
    }


def draw(path, names):
    """Draw the samples of files of results."""
    from benchmarks.plots import curves

    panels = {}
    for title, key in (("memory, MB", "memory_mb"), ("state folder, MB", "disk_mb"),
                       ("checkpoint, s", "checkpoint_s"), ("restart, s", None)):  # fmt: skip
        panels[title] = {}
        for name in names:
            found = json.loads(Path(name).read_text())
            points = (
                found["restarts"]
                if key is None
                else [(one["records"], one[key]) for one in found["samples"] if one[key]]
            )
            xs, ys = zip(*points, strict=True)
            panels[title][found["log"]] = [x / 1e6 for x in xs], ys
    curves(Path(path), panels, "million records", "", bottom=0.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--kill-every", type=int, default=500_000)
    parser.add_argument("--budget", type=float, default=0.05)
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("--plot")
    parser.add_argument("--from", dest="names", nargs="+")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_child(Path(arguments.child))
        return
    if arguments.plot:
        draw(arguments.plot, arguments.names)
        return
    make_world = world_on_kafka if arguments.kafka else world_on_sqlite
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        world = make_world(folder, stack, arguments.budget)
        samples, restarts, wrong = soak(world, arguments.records, arguments.kill_every)
    result = {
        "log": "Kafka" if arguments.kafka else "SQLite",
        "budget": arguments.budget,
        "cores": os.cpu_count(),
        "samples": samples,
        "restarts": restarts,
        "wrong": wrong,
    }
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(result, indent=1) + "\n")
    print(wrong or f"{arguments.records:,} predictions, each once; {len(restarts) - 1} kills")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
