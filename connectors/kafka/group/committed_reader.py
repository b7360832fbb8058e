"""Reader of committed messages of single partitions, outside of any consumer group."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import OffsetSpec

from streamboost.connectors.base import Message
from streamboost.connectors.kafka.cluster import MOMENT_MS, KafkaCluster, translate_errors
from streamboost.connectors.kafka.consumer import (
    find_damaged_messages,
    first_and_end_offsets,
    is_damaged_message_error,
    message_from_record,
    poll_messages,
)
from streamboost.errors import ConnectorError, UnavailableError

_PATIENCE = 30.0
"""Seconds to wait for the end of open transactions. Every ten seconds, a broker aborts members'
transactions that have been open for more than ten seconds."""

_LOOK = 0.05

_POLL_MS = 200


class CommittedReader:
    """Reads committed messages of single partitions of any topic with its own consumer."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._consumer: KafkaConsumer | None = None
        self._admin: KafkaAdminClient | None = None

    def newest_message(self, topic: str, partition: int) -> Message | None:
        """Return the newest committed message of a partition, or None if it has none.

        Waits until no transaction of the partition is open. The previous owner of the partition may
        still commit an open transaction.
        """
        where, at = self._describe_topic(topic), TopicPartition(topic, partition)
        try:
            with self._assigned_consumer(at) as consumer:
                start, end = self._committed_offset_range(consumer, at, where)
                reach, found = 4, None
                while found is None and end > start:
                    first = max(start, end - reach)
                    for message in _read_committed_messages(consumer, at, first, end, where):
                        found = message
                    if first == start:
                        break
                    reach *= 8
                return found
        except UnavailableError as error:
            if not is_damaged_message_error(error):
                raise
            raise ConnectorError(
                f"{where}: the newest messages of partition {partition} are damaged: "
                f"{error.__cause__}. Bring the topic back from a copy"
            ) from error

    def messages_between(
        self, topic: str, partition: int, start: int, end: int, max_bytes: int = 2**31
    ) -> list[Message]:
        """Return the messages with offsets [start, end), except deleted and damaged messages."""
        where, at = self._describe_topic(topic), TopicPartition(topic, partition)
        found: list[Message] = []
        while True:
            try:
                with self._assigned_consumer(at) as consumer:
                    start = max(start, first_and_end_offsets(consumer, [at], where)[0][at])
                    for message in _read_committed_messages(
                        consumer, at, start, end, where, max_bytes
                    ):
                        found.append(message)
                        start = message.offset + 1
                return found
            except UnavailableError as error:
                damage = is_damaged_message_error(error) and find_damaged_messages(
                    self._cluster, topic, {str(partition): start}
                )
                if not damage:
                    raise
                start = damage.end

    def close(self) -> None:
        """Release the connections; the next read connects again."""
        if self._consumer is not None:
            self._consumer.close(autocommit=False, timeout_ms=1_000)
            self._consumer = None
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _describe_topic(self, topic: str) -> str:
        return f"topic {topic!r} at {self._cluster.servers}"

    @contextmanager
    def _assigned_consumer(self, partition: TopicPartition) -> Iterator[KafkaConsumer]:
        """Context manager: yields the consumer, assigned to this partition only."""
        if self._consumer is None:
            self._consumer = self._cluster.create_consumer(fetch_max_wait_ms=50)
        try:
            self._consumer.assign([partition])
            yield self._consumer
        except BaseException:
            self.close()
            raise

    def _committed_offset_range(
        self, consumer: KafkaConsumer, partition: TopicPartition, resource_name: str
    ) -> tuple[int, int]:
        """Wait until no transaction is open; return the partition's first and end offset."""
        self._admin = self._admin or self._cluster.create_admin_client()
        deadline = time.monotonic() + _PATIENCE
        while True:
            with translate_errors(resource_name):
                asked = {partition: OffsetSpec.LATEST}
                found = self._admin.list_partition_offsets(asked, timeout_ms=MOMENT_MS)
            starts, ends = first_and_end_offsets(consumer, [partition], resource_name)
            if ends[partition] >= found[partition].offset:
                return starts[partition], ends[partition]
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"{resource_name}: a transaction of partition {partition.partition} stays"
                )
            time.sleep(_LOOK)


def _read_committed_messages(
    consumer: KafkaConsumer,
    partition: TopicPartition,
    start: int,
    end: int,
    resource_name: str,
    max_bytes: int = 2**31,
) -> Iterator[Message]:
    """Yield the committed messages of offsets [start, end) of a partition."""
    if start >= end:
        return
    with translate_errors(resource_name):
        consumer.seek(partition, start)
    patience = time.monotonic() + MOMENT_MS / 1000
    while True:
        with translate_errors(resource_name):
            found = poll_messages(consumer, _POLL_MS).get(partition, [])
            place = consumer.position(partition, timeout_ms=MOMENT_MS)
        for record in found:
            if record.offset >= end:
                return
            yield message_from_record(record, max_bytes)
        if place >= end:
            return
        if found:
            patience = time.monotonic() + MOMENT_MS / 1000
        if time.monotonic() > patience:
            raise UnavailableError(f"{resource_name} gives nothing, though it has more")
