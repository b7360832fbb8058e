"""Latency of committed predictions over Kafka, and of predictions over HTTP, at fixed rates.

    python -m benchmarks.latency [--seconds 20] [--rate 1000] [--predictions 200]

A broker, a pipeline with a trained committee and the clients share the machine's cores. Records of
16 features and 8 classes are generated. The source is polled every 5 ms, and there is a
checkpoint every 100 batches; other settings are the defaults of a pipeline file.

The loop is open: each record and each request has a scheduled time, at even intervals, whether or
not earlier ones are answered. Latency is measured from this time, so the wait behind a slow answer
counts for all that are due meanwhile. The clients' own delay counts, too.

Kafka: until the committed prediction is read, without other clients.

HTTP: until the answer to a request of one record, from a `streamboost serve` that loads the
checkpoints of the pipeline, which predicts `--rate` records a second meanwhile.

The first seconds of each part are left out. The load average of the last minute before each part
shows whether the machine was idle.
"""

import argparse
import os
import signal
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.kafka_pipeline import TAUGHT, follower, messages, prepare, started
from benchmarks.lookers import Asking, watching
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.pipelines.state.folder import State
from tests.broker.broker import Broker

NAME = "bench"
START = 3.0
"""Seconds at the beginning of a part that are left out."""


@contextmanager
def sending(cluster, payloads, rate):
    """Send `payloads` at `rate` a second on a thread; yield the time at which the first is due."""
    stop = Event()
    with closing(cluster.create_producer(linger_ms=0)) as producer:
        producer.partitions_for(f"{NAME}.records")
        began = time.perf_counter() + 0.1

        def send():
            for i, payload in enumerate(payloads):
                if (wait := began + i / rate - time.perf_counter()) > 0 and stop.wait(wait):
                    return
                producer.send(f"{NAME}.records", payload)

        thread = Thread(target=send)
        thread.start()
        try:
            yield began
        finally:
            stop.set()
            thread.join()


@contextmanager
def running(file):
    """Run the pipeline of `file` in a process."""
    process = started(file)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def over_kafka(cluster, file, payloads, rate, seconds):
    """Return the milliseconds from when each record is due until its prediction is read."""
    with closing(follower(cluster, NAME)) as consumer, running(file):
        with closing(cluster.create_producer()) as producer:
            producer.send(f"{NAME}.records", payloads[0])
        while not consumer.poll(timeout_ms=100):
            pass
        read = []
        with sending(cluster, payloads[1:], rate) as began:
            while len(read) < rate * seconds:
                found = consumer.poll(timeout_ms=100)
                read += [time.perf_counter()] * sum(map(len, found.values()))
    due = began + np.arange(len(read)) / rate
    return (np.array(read) - due)[int(rate * START) :] * 1e3


def over_http(cluster, file, payloads, rate, seconds, predictions):
    """Return the latency of each request in milliseconds, and the number of checkpoints."""
    checkpoints = State(file.parent / "state").checkpoints
    with (
        running(file),
        sending(cluster, payloads, rate),
        watching(file.parent, Asking, predictions) as asking,
    ):
        asking.warm_up()
        asking.rest()
        seen = set(checkpoints.sequences)
        before = len(seen)
        asking.work()
        for _ in range(seconds):
            time.sleep(1.0)
            seen.update(checkpoints.sequences)
        asking.rest()
    return np.array(asking.taken[-1]), len(seen) - before


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--predictions", type=int, default=200)
    given = parser.parse_args()
    table = Table("", "n", "median ms", "99 % within, ms", "largest", "load before")
    n = given.rate * (given.seconds + 60)

    def add(name, found, load):
        figures = (f"{one:.1f}" for one in (*np.percentile(found, [50, 99]), found.max()))
        table.add_row(name, f"{len(found):,}", *figures, f"{load:.2f}")

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with Broker(folder) as broker:
            cluster = KafkaCluster(broker.servers)
            load = os.getloadavg()[0]
            file = prepare(cluster, folder / NAME, NAME)
            payloads = messages(TAUGHT, n)[0]
            found = over_kafka(cluster, file, payloads, given.rate, given.seconds)
            add(f"Kafka, {given.rate:,} records/s", found, load)
            load = os.getloadavg()[0]
            payloads = messages(TAUGHT + n, n)[0]
            found, written = over_http(
                cluster, file, payloads, given.rate, given.seconds, given.predictions
            )
            add(f"HTTP, {given.predictions}/s, {written} checkpoints", found, load)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
