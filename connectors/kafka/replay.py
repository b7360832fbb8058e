"""Apache Kafka: reads ranges of a topic again for a replay, with a separate consumer.

The consumer reads one partition at a time, so that none has to be paused. It prefetches: messages
of a fetch beyond the requested range are kept for later ranges.
"""

import time
from collections import deque

from kafka import KafkaConsumer, TopicPartition

from streamboost.connectors.base import Message
from streamboost.connectors.kafka.cluster import MOMENT_MS, KafkaCluster, translate_errors
from streamboost.connectors.kafka.consumer import (
    as_message,
    check_offset,
    find_damage,
    is_damaged,
    is_out_of_range,
    partition_numbers,
    poll_messages,
    retained_range,
)
from streamboost.errors import ConnectorError, UnavailableError

__all__ = ["KafkaReplay"]

_POLL_MS = 20


class KafkaReplay:
    """Returns the messages of consecutive ranges, partition by partition.

    Parameters
    ----------
    cluster, topic : the topic to read
    max_bytes : limit per payload in memory, as in `KafkaSource`
    fetch_bytes : size of a fetch per partition; at most twice that is in memory for each
    """

    def __init__(self, cluster: KafkaCluster, topic: str, max_bytes: int, fetch_bytes: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._where = f"topic {topic!r} at {cluster.servers}"
        self._max_bytes = max_bytes
        # A fetch that waits at a partition's end would delay the fetch of the next partition.
        self._settings = {
            "max_partition_fetch_bytes": fetch_bytes,
            "fetch_max_wait_ms": _POLL_MS,
        }
        self._consumer: KafkaConsumer | None = None
        self._ahead: dict[str, deque[Message]] = {}
        self._reached: dict[str, int] = {}
        self._taken: dict[str, int] = {}

    def read(self, name: str, start: int, end: int) -> list[Message]:
        """Return the messages of partition `name` with offsets [start, end).

        Damaged messages are replaced by one message with the reason.

        Raises
        ------
        ConnectorError
            When messages are no longer retained.
        UnavailableError
            When the broker returns nothing in time.
        """
        if self._taken.get(name) != start:
            self._ahead[name], self._reached[name] = deque(), start
        patience = time.monotonic() + MOMENT_MS / 1000
        while (before := self._reached[name]) < end:
            self._fetch(name)
            if self._reached[name] > before:
                patience = time.monotonic() + MOMENT_MS / 1000
            if time.monotonic() > patience:
                self.close()
                raise UnavailableError(f"{self._where} gives nothing, though it has more")
        self._taken[name] = end
        found, ahead = [], self._ahead[name]
        while ahead and ahead[0].offset < end:
            found.append(ahead.popleft())
        return found

    def close(self) -> None:
        """Release the connection; the next read connects again."""
        if self._consumer is not None:
            self._consumer.close(autocommit=False, timeout_ms=1_000)
            self._consumer = None

    def _fetch(self, name: str) -> None:
        """Continue in partition `name` with one fetch."""
        partition, place = TopicPartition(self._topic, int(name)), self._reached[name]
        consumer = self._at(partition, place)
        try:
            with translate_errors(self._where):
                found = poll_messages(consumer, _POLL_MS).get(partition, [])
                self._reached[name] = consumer.position(partition, timeout_ms=MOMENT_MS)
        except UnavailableError as error:
            self.close()
            if is_out_of_range(error):
                self._refuse(partition, place)
            if not is_damaged(error):
                raise
            damage = find_damage(self._cluster, self._topic, {name: place})
            if damage is None:
                raise
            self._ahead[name].append(damage.message())
            self._reached[name] = damage.end
            return
        self._ahead[name].extend(as_message(record, self._max_bytes) for record in found)

    def _at(self, partition: TopicPartition, place: int) -> KafkaConsumer:
        """Return the consumer, assigned to this partition alone, at `place`."""
        if self._consumer is None:
            self._consumer = self._cluster.consumer(**self._settings)
        consumer = self._consumer
        if consumer.assignment() != {partition}:
            if partition.partition not in partition_numbers(consumer, self._topic, self._where):
                raise ConnectorError(
                    f"{self._where} has no partition {partition.partition}, which was read before: "
                    "it is not the same topic; put that one back, or start again with an empty "
                    "state"
                )
            consumer.assign([partition])
            consumer.seek(partition, place)
        with translate_errors(self._where):
            if consumer.position(partition, timeout_ms=MOMENT_MS) != place:
                consumer.seek(partition, place)
        return consumer

    def _refuse(self, partition: TopicPartition, place: int) -> None:
        starts, ends = retained_range(self._at(partition, place), [partition], self._where)
        number = partition.partition
        check_offset(self._topic, number, place, starts[partition], ends[partition])
