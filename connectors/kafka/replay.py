"""Apache Kafka: reads ranges of a topic again for a replay, with a separate consumer.

The consumer reads one partition at a time, so that no partition has to be paused. Fetched messages
beyond the requested range are kept for later ranges.
"""

import time
from collections import deque

from kafka import KafkaConsumer, TopicPartition

from streamboost.connectors.base import Message
from streamboost.connectors.kafka.cluster import MOMENT_MS, KafkaCluster, translate_errors
from streamboost.connectors.kafka.consumer import (
    check_offset_is_retained,
    find_damaged_messages,
    first_and_end_offsets,
    is_damaged_message_error,
    is_out_of_range_error,
    message_from_record,
    partition_numbers,
    poll_messages,
)
from streamboost.errors import ConnectorError, UnavailableError

_POLL_MS = 20


class KafkaReplay:
    """Reads consecutive ranges of offsets of a topic, one partition at a time.

    Parameters
    ----------
    cluster, topic : the topic to read
    max_bytes : limit per payload in memory; longer payloads are truncated, as by `KafkaSource`
    fetch_bytes : size of a fetch; each partition has at most twice this size in memory
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

    def read(self, partition_name: str, start: int, end: int) -> list[Message]:
        """Return the messages of partition `partition_name` with offsets [start, end).

        Damaged messages are replaced by one message with the reason.

        Raises
        ------
        ConnectorError
            When messages are no longer retained.
        UnavailableError
            When the broker returns nothing in time.
        """
        if self._taken.get(partition_name) != start:
            self._ahead[partition_name], self._reached[partition_name] = deque(), start
        patience = time.monotonic() + MOMENT_MS / 1000
        while (before := self._reached[partition_name]) < end:
            self._fetch_messages_of_partition(partition_name)
            if self._reached[partition_name] > before:
                patience = time.monotonic() + MOMENT_MS / 1000
            if time.monotonic() > patience:
                self.close()
                raise UnavailableError(f"{self._where} gives nothing, though it has more")
        self._taken[partition_name] = end
        found, ahead = [], self._ahead[partition_name]
        while ahead and ahead[0].offset < end:
            found.append(ahead.popleft())
        return found

    def close(self) -> None:
        """Release the connection; the next read connects again."""
        if self._consumer is not None:
            self._consumer.close(autocommit=False, timeout_ms=1_000)
            self._consumer = None

    def _fetch_messages_of_partition(self, partition_name: str) -> None:
        """Fetch the next messages of a partition once, and store them."""
        partition, place = (
            TopicPartition(self._topic, int(partition_name)),
            self._reached[partition_name],
        )
        consumer = self._consumer_positioned_at(partition, place)
        try:
            with translate_errors(self._where):
                found = poll_messages(consumer, _POLL_MS).get(partition, [])
                self._reached[partition_name] = consumer.position(partition, timeout_ms=MOMENT_MS)
        except UnavailableError as error:
            self.close()
            if is_out_of_range_error(error):
                self._raise_if_offset_not_retained(partition, place)
            if not is_damaged_message_error(error):
                raise
            damage = find_damaged_messages(self._cluster, self._topic, {partition_name: place})
            if damage is None:
                raise
            self._ahead[partition_name].append(damage.to_message())
            self._reached[partition_name] = damage.end
            return
        self._ahead[partition_name].extend(
            message_from_record(record, self._max_bytes) for record in found
        )

    def _consumer_positioned_at(self, partition: TopicPartition, offset: int) -> KafkaConsumer:
        """Return the consumer, assigned to this partition only, with its position at `offset`."""
        if self._consumer is None:
            self._consumer = self._cluster.create_consumer(**self._settings)
        consumer = self._consumer
        if consumer.assignment() != {partition}:
            if partition.partition not in partition_numbers(consumer, self._topic, self._where):
                raise ConnectorError(
                    f"{self._where} has no partition {partition.partition}, which was read before: "
                    "it is not the same topic; put that one back, or start again with an empty "
                    "state"
                )
            consumer.assign([partition])
            consumer.seek(partition, offset)
        with translate_errors(self._where):
            if consumer.position(partition, timeout_ms=MOMENT_MS) != offset:
                consumer.seek(partition, offset)
        return consumer

    def _raise_if_offset_not_retained(self, partition: TopicPartition, offset: int) -> None:
        starts, ends = first_and_end_offsets(
            self._consumer_positioned_at(partition, offset), [partition], self._where
        )
        number = partition.partition
        check_offset_is_retained(self._topic, number, offset, starts[partition], ends[partition])
