"""A report to kafka-python: a partition that was paused may never be read again after `resume`.

Versions: kafka-python 3.0.12, Apache Kafka 4.1.0, Python 3.11, Linux.

What was done
    Of two partitions, the first holds ten records. One of them is taken with `max_records=1`. The
    first is paused, the other gives its only record, then the first is resumed: `show` below.

What was expected
    The next polls give the other nine records of the first partition.

What happens
    They give nothing, now or later, and nothing is raised or logged: `position` stays at 1, ten is
    the end. The other partition goes on to give what is written to it. Each partition that waits
    like this is lost to the consumer for as long as it lives.

Why
    `Fetcher.fetched_records` (kafka/consumer/fetcher.py) parks what it has parsed of a paused
    partition in `_paused_partition_records`, and sets `_next_partition_records` to None. The
    records of the next partition take that place. When they are drained, the place holds a
    `PartitionRecords` that is falsy, but not None: nothing sets it to None again. What is parked is
    taken up only under

        if self._next_partition_records is None:

    so never again, whereas `_fetchable_partitions` leaves out every partition in
    `_paused_partition_records`: it is not fetched either. The loop below that line asks
    `if not self._next_partition_records:`; with the same question there, the nine come.

The lines run as a test, which states the fault as it is.
"""

import time

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

pytestmark = pytest.mark.kafka


def show(servers, topic):
    """Return what is read of a partition after `resume`, and where it stands then."""
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
