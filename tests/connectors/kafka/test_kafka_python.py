"""A report to kafka-python: a partition that was paused may never be read again after `resume`.

Versions: kafka-python 3.0.12, Apache Kafka 4.1.0, Python 3.11, Linux.

Steps to reproduce
    The first of two partitions holds ten records. A poll with `max_records=1` reads one of them.
    The first partition is paused, a poll reads the only record of the other partition, then the
    first partition is resumed. `show` below runs these steps.

Expected behaviour
    The next polls return the other nine records of the first partition.

Actual behaviour
    No later poll returns these records, and no error is raised or logged. `position` stays at 1,
    the end offset is 10. The other partition continues to return new records. The consumer never
    reads the first partition again.

Cause
    `Fetcher.fetched_records` (kafka/consumer/fetcher.py) moves the parsed records of a paused
    partition to `_paused_partition_records`, and sets `_next_partition_records` to None. The
    records of the next partition are then assigned to `_next_partition_records`. When these are
    drained, the attribute holds a `PartitionRecords` that is falsy but not None, and nothing sets
    the attribute to None again. The parsed records of the resumed partition are used only under

        if self._next_partition_records is None:

    so never again. `_fetchable_partitions` excludes every partition in
    `_paused_partition_records`, so the partition is not fetched either. The loop below that line
    tests `if not self._next_partition_records:`. With the same test in the first place, the nine
    records are returned.

The test below reproduces the fault and fails once kafka-python fixes the fault.
"""

import time

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

pytestmark = pytest.mark.kafka


def show(servers, topic):
    """Return the records that are read after `resume`, and the partition's position."""
    first, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for n in range(11):
            producer.send(topic, b"%d" % n, partition=n // 10)
    with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([first, other])
        consumer.pause(other)
        while not consumer.poll(timeout_ms=100, max_records=1):
            pass  # one record is taken, nine are held
        consumer.pause(first)
        consumer.resume(other)
        while not consumer.poll(timeout_ms=100):
            pass  # the other's record takes their place, and is drained
        consumer.resume(first)
        polls = [consumer.poll(timeout_ms=500) for _ in range(10)]
        return [found for found in polls if found], consumer.position(first)


def test_a_resumed_partition_is_not_read_again(kafka_servers):
    topic = f"fault.{time.time_ns()}"
    with KafkaAdminClient(bootstrap_servers=kafka_servers) as admin:
        admin.create_topics({topic: {"num_partitions": 2}})
        admin.wait_for_topics([topic])
    read, position = show(kafka_servers, topic)
    assert (read, position) == ([], 1), (
        f"kafka-python has been mended: a resumed partition is read on, to {position} of 10. "
        "Partitions may be paused again, wherever that is simpler than what we do instead"
    )
