"""Apache Kafka: topic source.

All partitions of a topic are assigned to one process, without a consumer group. The next offsets
are stored with the pipeline's journal. Only committed messages are read.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import OffsetSpec

from streamboost.connectors.base import Message, Position, Source
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
    topic_recreated_error,
    unknown_partition_error,
)
from streamboost.connectors.kafka.internals import topic_id
from streamboost.connectors.kafka.replay import KafkaReplay
from streamboost.errors import ConfigurationError, ConnectorError, UnavailableError

_log = logging.getLogger(__name__)

_POLL_MS = 20

_FETCH_BYTES = 256 * 1024
"""Bytes fetched of a partition before the next one is read, which limits the delay of labels."""


class KafkaSource(Source):
    """Reads all partitions of a topic; new partitions are read from their beginning.

    Parameters
    ----------
    cluster : KafkaCluster
    topic : str
    max_bytes : int
        Limit per payload in memory. A longer payload is truncated to `max_bytes` + 1 bytes; the
        `size` of its message is the full length. A message without a value has an empty payload.
    on_data_loss : {"fail", "continue"}
        Reaction if retention deleted unread messages: "continue" skips them (`skipped_ranges`).
    on_corrupt : {"stop", "skip"}
        Reaction to messages with a wrong checksum: "skip" replaces them by one damaged message.

    Raises
    ------
    ConnectorError
        While polling, when the topic does not exist or was recreated, or the next messages are
        damaged or deleted.
    UnavailableError
        When the cluster cannot be reached.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        max_bytes: int = 1_000_000,
        *,
        on_data_loss: str = "fail",
        on_corrupt: str = "stop",
    ) -> None:
        if max_bytes < 1:
            raise ConfigurationError(f"max_bytes = {max_bytes}: write a number of at least 1")
        self.topic = topic
        self._cluster = cluster
        self._max_bytes = max_bytes
        self._on_data_loss = on_data_loss
        self._on_corrupt = on_corrupt
        self._consumer: KafkaConsumer | None = None
        self._replay: KafkaReplay | None = None
        self._admin: KafkaAdminClient | None = None
        self._id: str | None = None
        self._next: Position = {}
        # Positions of the consumer, and end offsets of the partitions at the last seek.
        self._at: Position = {}
        self._ends: Position = {}
        self._noted: Position = {}
        self._gaps: dict[str, tuple[int, int]] = {}

    def poll(self, limit: int) -> list[Message]:
        """Return at most `limit` new messages.

        Waits for messages that were available at the last seek. Also waits briefly for more
        messages if the broker has returned fewer than `limit`, although it has more.
        """
        self._gaps = {}
        if limit < 1:
            return []
        self._close_replay_reader()
        messages = self._fetch_messages(limit, wait_ms=0)
        patience = time.monotonic() + MOMENT_MS / 1000
        while not messages and (stuck := self._lagging_partitions(self._ends)):
            if time.monotonic() > patience:
                where = f"partition {stuck[0]}, offset {self._at.get(stuck[0], 0)}"
                self._close_consumer()
                raise UnavailableError(f"{self._topic_description} gives nothing from {where} on")
            messages = self._fetch_messages(limit, _POLL_MS)
        while 0 < len(messages) < limit and self.has_more_messages:
            more: list[Message] = []
            with suppress(ConnectorError):  # the next poll raises it again
                more = self._fetch_messages(limit - len(messages), _POLL_MS)
            if not more:
                break
            messages = sorted(messages + more, key=lambda m: (int(m.partition), m.offset))
        return messages

    def position(self) -> Position:
        """Return the offset of the next message of each partition."""
        if not self._next:
            self._assigned_consumer()
        return dict(self._next)

    def seek(self, position: Position) -> None:
        """Start the next poll at `position`; partitions missing in it start at their beginning."""
        if unknown := sorted(name for name in position if not name.isdecimal()):
            raise ConnectorError(
                f"the partitions of topic {self.topic!r} are numbers; the position names "
                f"{unknown[0]!r}"
            )
        self._next = dict(position)

    def read_range(self, ranges: Mapping[str, tuple[int, int]], n: int) -> list[Message]:
        """Return the messages of `ranges` again, for a replay; `poll` continues after them."""
        if self._replay is None:
            self._replay = KafkaReplay(self._cluster, self.topic, self._max_bytes, _FETCH_BYTES)
        found = []
        for name in sorted(ranges, key=int):
            start, end = ranges[name]
            found += self._replay.read(name, start, end)
            self._next[name] = end
        return found

    @property
    def has_more_messages(self) -> bool:
        """Whether a partition has unread messages before its last known end offset.

        End offsets are those of the last seek or `update_end_offsets`. They exclude messages of
        open transactions.
        """
        return bool(self._lagging_partitions(self._ends) or self._lagging_partitions(self._noted))

    @property
    def input_id(self) -> str | None:
        """The topic's id, or None if the broker does not report it."""
        self._consumer_and_partition_numbers()
        return self._id

    @property
    def skipped_ranges(self) -> Mapping[str, tuple[int, int]]:
        """Offsets [start, end) that retention deleted before they were read, keyed by partition."""
        return dict(self._gaps)

    def lag(self) -> int:
        """Return the number of unread offsets, including those of uncommitted messages."""
        place = self.position()
        ends = self._request_offsets(place, OffsetSpec.LATEST)
        return sum(end - place[name] for name, end in ends.items())

    def beginning_offsets(self) -> Position:
        """Return the first retained offset of each partition."""
        return self._request_offsets(self.position(), OffsetSpec.EARLIEST)

    def end_offsets(self) -> Position:
        """Return the end offset of committed messages of each partition."""
        consumer, numbers = self._consumer_and_partition_numbers()
        partitions = [TopicPartition(self.topic, number) for number in numbers]
        _, ends = first_and_end_offsets(consumer, partitions, self._topic_description)
        return {str(partition.partition): end for partition, end in ends.items()}

    def update_end_offsets(self, end_offsets: Position) -> None:
        """Store end offsets of committed messages, which `has_more_messages` uses."""
        self._noted = dict(end_offsets)

    def close(self) -> None:
        """Release the connections; the next poll connects again."""
        self._close_consumer()
        self._close_replay_reader()
        if self._admin is not None:
            self._admin.close()
        self._admin = None

    @property
    def _topic_description(self) -> str:
        return f"topic {self.topic!r} at {self._cluster.servers}"

    def _lagging_partitions(self, ends: Position) -> list[str]:
        """Return the partitions whose position is before their offset in `ends`."""
        return [name for name, end in ends.items() if self._at.get(name, 0) < end]

    def _close_consumer(self) -> None:
        """Close the consumer; the next one continues at the same position."""
        if self._consumer is not None:
            self._consumer.close(autocommit=False, timeout_ms=1_000)
            self._consumer, self._at, self._ends = None, {}, {}

    def _close_replay_reader(self) -> None:
        if self._replay is not None:
            self._replay.close()
            self._replay = None

    def _request_offsets(self, partitions: Iterable[str], spec: OffsetSpec) -> Position:
        """Request the earliest or latest offset (`spec`) of each partition with the admin client.

        A request by the consumer would have to wait for a running fetch.
        """
        if self._admin is None:
            self._admin = self._cluster.create_admin_client()
        asked = {TopicPartition(self.topic, int(name)): spec for name in partitions}
        with translate_errors(self._topic_description):
            found = self._admin.list_partition_offsets(asked, timeout_ms=MOMENT_MS)
        return {str(partition.partition): place.offset for partition, place in found.items()}

    def _fetch_messages(self, limit: int, wait_ms: int) -> list[Message]:
        consumer = self._assigned_consumer()
        try:
            with translate_errors(self._topic_description):
                found = poll_messages(consumer, wait_ms, limit)
                # Also after offsets without messages, such as transaction markers.
                for partition in consumer.assignment():
                    place = consumer.position(partition, timeout_ms=MOMENT_MS)
                    self._at[str(partition.partition)] = place
        except UnavailableError as error:
            self._at = {}  # messages of the failed poll are read again
            if is_out_of_range_error(error):
                return []
            if not is_damaged_message_error(error):
                raise
            self._close_consumer()
            return self._skip_damaged_messages(error)
        self._next = dict(self._at)
        return [
            message_from_record(record, self._max_bytes)
            for partition in sorted(found, key=lambda partition: partition.partition)
            for record in found[partition]
        ]

    def _skip_damaged_messages(self, error: UnavailableError) -> list[Message]:
        """Skip the next damaged messages; return one message that replaces them.

        Raises ConnectorError if `on_corrupt` is not "skip".
        """
        damage = find_damaged_messages(self._cluster, self.topic, self._next)
        if damage is None:
            raise error
        if self._on_corrupt != "skip":
            raise damage.to_error(self._topic_description)
        self._next[str(damage.partition)] = damage.end
        return [damage.to_message()]

    def _assigned_consumer(self) -> KafkaConsumer:
        """Return the consumer, assigned to all current partitions at their positions."""
        consumer, numbers = self._consumer_and_partition_numbers()
        if len(self._at) != len(numbers) or self._at != self._next:
            self._seek_consumer_to_next_offsets(
                consumer, [TopicPartition(self.topic, n) for n in numbers]
            )
        return consumer

    def _consumer_and_partition_numbers(self) -> tuple[KafkaConsumer, list[int]]:
        """Return the consumer and the partitions' numbers, after a check of the topic's id."""
        if self._consumer is None:
            self._consumer = self._cluster.create_consumer(max_partition_fetch_bytes=_FETCH_BYTES)
        numbers = partition_numbers(self._consumer, self.topic, self._topic_description)
        found = topic_id(self._consumer, self.topic)
        if None not in (found, self._id) and found != self._id:
            raise topic_recreated_error(self._topic_description)
        self._id = found or self._id
        return self._consumer, numbers

    def _seek_consumer_to_next_offsets(
        self, consumer: KafkaConsumer, partitions: list[TopicPartition]
    ) -> None:
        """Seek the consumer to the next offsets, in partitions where its position differs."""
        names = [str(partition.partition) for partition in partitions]
        if unknown := sorted(set(self._next) - set(names)):
            raise unknown_partition_error(self.topic, unknown[0])
        starts, ends = first_and_end_offsets(consumer, partitions, self._topic_description)
        places = {}
        for name, partition in zip(names, partitions, strict=True):
            places[name] = self._next.get(name, starts[partition])
            if places[name] < starts[partition] and self._on_data_loss == "continue":
                self._gaps[name] = gap = (places[name], starts[partition])
                _log.error(
                    "%s: offsets %d to %d of partition %s were deleted before they were read, and "
                    "are passed over",
                    *(self._topic_description, gap[0], gap[1] - 1, name),
                    extra={"event": "offsets_deleted"},
                )
                places[name] = starts[partition]
            check_offset_is_retained(
                self.topic, name, places[name], starts[partition], ends[partition]
            )
        if consumer.assignment() != set(partitions):
            consumer.assign(partitions)
            self._at = {}
        for name, partition in zip(names, partitions, strict=True):
            if self._at.get(name) != places[name]:
                consumer.seek(partition, places[name])
                self._at[name] = places[name]
        self._next = dict(places)
        self._ends = {str(partition.partition): end for partition, end in ends.items()}
