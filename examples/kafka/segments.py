"""Real records through Kafka, with an annotator who answers what the pipeline asks.

    docker compose up -d                                # or any other broker
    streamboost init --kafka pipeline.toml
    streamboost check --create-topics pipeline.toml
    streamboost run pipeline.toml &
    python examples/kafka/segments.py localhost:9092

With a learner and three scorers, where the records have several partitions:

    export KAFKA_SERVERS=localhost:9092
    streamboost check --create-topics examples/kafka/distributed.toml
    streamboost run --workers 3 examples/kafka/distributed.toml &
    python examples/kafka/segments.py localhost:9092 20000 distributed

The script sends the 2,310 records of River's ImageSegments, or the given number of records by
repeating them. Each run has its own ids. The script stays at most 100 records ahead of the
predictions, and prints their accuracy.
"""

import json
import sys
import time
from itertools import cycle, islice

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from river import datasets

AHEAD = 100


def play(servers, name="segments", n=2310):
    """Send `n` records, answer the requests, and return the share of right predictions."""
    run, rows = time.time_ns(), islice(cycle(datasets.ImageSegments()), n)
    records = [(f"{run}.{i}", x, y) for i, (x, y) in enumerate(rows)]
    truth = {id_: y for id_, _, y in records}
    producer = KafkaProducer(bootstrap_servers=servers)
    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    topics = [f"{name}.predictions", f"{name}.requests"]
    for topic in topics:
        if not consumer.partitions_for_topic(topic):
            sys.exit(f"no topic {topic}: `streamboost check --create-topics` makes a pipeline's")
    consumer.assign(
        [TopicPartition(t, p) for t in topics for p in consumer.partitions_for_topic(t)]
    )

    sent, asked, right = 0, 0, []
    while len(right) < len(records):
        for id_, x, _ in records[sent : len(right) + AHEAD]:
            producer.send(f"{name}.records", json.dumps({"id": id_, **x}).encode())
            sent += 1
        for partition, messages in consumer.poll(timeout_ms=200).items():
            for message in messages:
                content = json.loads(message.value)
                if content["id"] not in truth:
                    continue  # of another run
                if partition.topic == f"{name}.requests":
                    asked += 1
                    label = {"id": content["id"], "label": truth[content["id"]]}
                    producer.send(f"{name}.labels", json.dumps(label).encode())
                else:
                    right.append(content["label"] == truth[content["id"]])
                    if len(right) % 500 == 0:
                        print(
                            f"{len(right)} predicted, {asked} labels bought, "
                            f"{sum(right[-500:]) / 500:.1%} of the last 500 right",
                            flush=True,
                        )
    producer.flush()
    producer.close()
    consumer.close()
    return sum(right) / len(right)


if __name__ == "__main__":
    servers, n, name = (*sys.argv[1:], *("localhost:9092", "2310", "segments")[len(sys.argv) - 1 :])
    share = play(servers, name, int(n))
    print(f"{share:.1%} right on arrival")
