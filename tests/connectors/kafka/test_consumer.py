"""Reading and replaying a topic on a real broker."""

import itertools
import time
from contextlib import closing

import pytest

from streamboost.connectors.kafka.admin import create_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.topic import KafkaSource
from tests.slow import slow

pytestmark = pytest.mark.kafka

_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster(kafka_servers):
    return KafkaCluster(kafka_servers)


@pytest.fixture
def make_topic(cluster):
    """Return a function that creates a topic with a given number of partitions."""

    def make(partitions):
        topic = f"reading{next(_numbers)}.{time.time_ns()}"
        create_topics(cluster, {topic: {"num_partitions": partitions}})
        return topic

    return make


def put(cluster, topic, numbers, partitions):
    """Write the numbers, one partition after the other."""
    with closing(cluster.create_producer()) as producer:
        for n in numbers:
            producer.send(topic, b"%d" % n, partition=n % partitions)
        producer.flush()


def take(source, n, limit=10, seconds=30.0):
    """Poll until `n` messages have come; return them as numbers, and the range of each poll."""
    found, ranges, deadline = [], [], time.monotonic() + seconds
    while len(found) < n and time.monotonic() < deadline:
        before = source.position()
        found += [int(message.payload) for message in source.poll(limit)]
        after = source.position()
        moved = {p: (before.get(p, 0), o) for p, o in after.items() if before.get(p, 0) != o}
        if moved:
            ranges.append(moved)
    return found, ranges


@pytest.mark.parametrize("partitions", [3, *slow(1, 2, 6)])
def test_after_a_replay_every_partition_is_read_on(cluster, make_topic, partitions):
    topic = make_topic(partitions)
    put(cluster, topic, range(95), partitions)
    with closing(KafkaSource(cluster, topic)) as source:
        found, ranges = take(source, 95)
        assert sorted(found) == list(range(95))
    put(cluster, topic, range(95, 195), partitions)
    with closing(KafkaSource(cluster, topic)) as source:
        source.seek({})
        again = []
        for moved in ranges:
            n = sum(end - start for start, end in moved.values())
            again += [int(message.payload) for message in source.read_range(moved, n)]
        assert again == found
        put(cluster, topic, range(195, 295), partitions)
        assert sorted(take(source, 200)[0]) == list(range(95, 295))
        put(cluster, topic, range(295, 395), partitions)
        assert sorted(take(source, 100)[0]) == list(range(295, 395))


def test_ranges_that_fall_apart_are_read_again_without_holding_the_topic(cluster, make_topic):
    topic = make_topic(3)
    put(cluster, topic, range(3_000), 3)
    with closing(KafkaSource(cluster, topic)) as source:
        source.seek({})
        for start in range(0, 1_000, 100):
            found = source.read_range({"2": (start, start + 100)}, 100)
            assert [int(m.payload) for m in found] == list(range(3 * start + 2, 3 * start + 302, 3))
        assert source.position() == {"2": 1_000}
        assert sorted(take(source, 2_000, limit=500)[0]) == [n for n in range(3_000) if n % 3 != 2]
