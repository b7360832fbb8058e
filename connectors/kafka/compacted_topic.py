"""Apache Kafka: compacted topic of one partition, which retains the newest message of each key."""

import logging
import time
from collections.abc import Sequence

from kafka import KafkaConsumer, TopicPartition

from streamboost.connectors.kafka.cluster import MOMENT_MS, KafkaCluster, translate_errors
from streamboost.connectors.kafka.consumer import (
    find_damaged_messages,
    first_and_end_offsets,
    is_damaged_message_error,
    partition_numbers,
    poll_messages,
)
from streamboost.connectors.kafka.producer import FailFastSender
from streamboost.connectors.kafka.sink import KafkaSink
from streamboost.errors import ConnectorError, UnavailableError

_log = logging.getLogger(__name__)

_POLL_MS = 100


class CompactedTopicSink(KafkaSink):
    """Writes to a compacted topic. A payload consists of key, line break and value of a message."""

    def send_all(self, sender: FailFastSender, payloads: Sequence[bytes]) -> None:
        """Send each payload as a message, with the text before its line break as the key."""
        for payload in payloads:
            key, _, value = payload.partition(b"\n")
            sender.send(self.topic, value, f"the part {key.decode()!r}", key=key, partition=0)


class CompactedTopicReader:
    """Reads a compacted topic of one partition from its beginning, and then new messages."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._cluster = cluster
        self._at = TopicPartition(topic, 0)
        self._where = f"topic {topic!r} at {cluster.servers}"
        self._consumer: KafkaConsumer | None = None
        self._next = 0

    def poll(self) -> list[tuple[bytes | None, bytes]]:
        """Return (key, value) of new messages that are available now, without waiting."""
        found = []
        while records := self._fetch_messages(0):
            found += records
        return found

    def read_to_end(self) -> list[tuple[bytes | None, bytes]]:
        """Wait for all unread messages up to the current end, and return (key, value) of each.

        Raises UnavailableError if the broker returns nothing for some time.
        """
        found, consumer = [], self._assigned_consumer()
        with translate_errors(self._where):
            end = consumer.end_offsets([self._at], timeout_ms=MOMENT_MS)[self._at]
        patience = time.monotonic() + MOMENT_MS / 1000
        while self._next < end:
            records = self._fetch_messages(_POLL_MS)
            found += records
            if records:
                patience = time.monotonic() + MOMENT_MS / 1000
            if time.monotonic() > patience:
                self.close()
                raise UnavailableError(f"{self._where} gives nothing, though it has more")
        return found

    def _fetch_messages(self, wait_ms: int) -> list[tuple[bytes | None, bytes]]:
        """Return (key, value) of the next messages, without damaged ones; wait up to `wait_ms`."""
        consumer = self._assigned_consumer()
        try:
            with translate_errors(self._where):
                records = poll_messages(consumer, wait_ms).get(self._at, [])
                self._next = consumer.position(self._at, timeout_ms=MOMENT_MS)
        except UnavailableError as error:
            if not is_damaged_message_error(error):
                raise
            self.close()
            if damage := find_damaged_messages(self._cluster, self._at.topic, {"0": self._next}):
                _log.error(
                    "%s: %s, and are passed over",
                    self._where,
                    damage,
                    extra={"event": "journal_damaged"},
                )
                self._next = damage.end
            return []
        return [(record.key, bytes(record.value or b"")) for record in records]

    def close(self) -> None:
        """Release the connections; the next poll continues at the same offset."""
        if self._consumer is not None:
            self._consumer.close(autocommit=False, timeout_ms=1_000)
            self._consumer = None

    def _assigned_consumer(self) -> KafkaConsumer:
        if self._consumer is None:
            consumer = self._cluster.create_consumer(
                max_partition_fetch_bytes=8 * 2**20, fetch_max_wait_ms=_POLL_MS
            )
            try:
                self._seek_consumer_to_next_offset(consumer)
            except BaseException:
                consumer.close(autocommit=False, timeout_ms=1_000)
                raise
            self._consumer = consumer
        return self._consumer

    def _seek_consumer_to_next_offset(self, consumer: KafkaConsumer) -> None:
        if (n := len(partition_numbers(consumer, self._at.topic, self._where))) > 1:
            raise ConnectorError(
                f"{self._where} has {n} partitions and must have one, which keeps its order: "
                "recreate it with `streamboost check --create-topics`"
            )
        consumer.assign([self._at])
        starts, ends = first_and_end_offsets(consumer, [self._at], self._where)
        # A recreated topic starts at 0; messages removed by compaction have newer ones.
        self._next = max(self._next, starts[self._at]) if self._next <= ends[self._at] else 0
        consumer.seek(self._at, self._next)
