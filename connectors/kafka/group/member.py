"""Apache Kafka: a consumer group member that commits its results in transactions.

The group distributes the partitions of a topic. The results of a batch of messages and the next
offsets of its partitions are one transaction (KIP-447). The broker refuses the transaction of a
former member, or of a member of an earlier generation. Five rules make this exactly-once:

- The generation is read directly after a poll, because the client joins groups in its own thread.
  A commit is aborted if the generation, the member or the assignment has changed since then.
- Nothing is committed without a generation: the broker would not check it.
- A partition belongs to this member only from the callback of its assignment to the callback of
  its revocation or loss. A client that joins a new generation keeps the old assignment for a while,
  and the broker checks the generation alone. After each callback, state of a partition is
  reloaded from committed messages. The client's own thread only records the callbacks.
- A poll waits, because a member joins only while it polls.
- The broker aborts a transaction that stays open for ten seconds; a commit times out before.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from secrets import token_hex
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka import errors as kafka_errors
from kafka.structs import (
    ConsumerGroupMetadata,
    MemberState,
    OffsetAndMetadata,
    TopicPartition,
)

from streamboost.connectors.kafka.cluster import (
    MOMENT_MS,
    KafkaCluster,
    close_producer,
    translate_errors,
)
from streamboost.connectors.kafka.consumer import (
    DamagedMessages,
    check_offset_is_retained,
    consumer_positions,
    find_damaged_messages,
    first_and_end_offsets,
    message_from_record,
    partition_numbers,
    poll_messages,
)
from streamboost.connectors.kafka.group.assignment import (
    PolledBatch,
    RebalanceListener,
    TopicMessage,
)
from streamboost.connectors.kafka.internals import (
    drop_undecodable_records,
    request_group_rejoin,
    topic_id,
)
from streamboost.connectors.kafka.producer import RECREATE_REMEDY, FailFastSender, send_arguments
from streamboost.errors import ConnectorError, StateError, UnavailableError

POLL_MS = 200
"""Timeout of a poll in milliseconds. With 10 ms, a joining member never gets a partition."""

SESSION_MS = 10_000
"""Milliseconds without heartbeats after which a member's partitions are reassigned."""

TRANSACTION_MS = 10_000

_METADATA_MS = 5_000
"""Interval in milliseconds at which new partitions are detected."""

_PATIENCE = 8.0
"""Timeout of a commit in seconds, which is less than the timeout of the transaction."""

_NOWHERE = (kafka_errors.NoOffsetForPartitionError, kafka_errors.OffsetOutOfRangeError)
"""Errors of a poll if a partition has no valid position."""


class PartitionsRevokedError(UnavailableError):
    """Raised if partitions were reassigned before a commit, which then writes nothing."""


class KafkaMember:
    """Consumer group member that commits its results and offsets in one transaction.

    Parameters
    ----------
    cluster : KafkaCluster
    group : the consumer group's name, a prefix of the transactional ids
    topic : the topic to read
    max_bytes : limit per payload in memory; a longer payload is truncated to `max_bytes` + 1 bytes,
        and the decoder rejects its message by the `size`, which is the full length
    on_corrupt : reaction to messages with a wrong checksum: "stop", or "skip" and report the damage
    settings : further options of the consumer
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        group: str,
        topic: str,
        max_bytes: int = 1_000_000,
        on_corrupt: str = "stop",
        **settings: Any,
    ) -> None:
        self.name = f"{group}.{token_hex(8)}"
        self.topic = topic
        self._cluster = cluster
        self._group = group
        self.max_bytes = max_bytes
        self._on_corrupt = on_corrupt
        known = {"session_timeout_ms": SESSION_MS, "metadata_max_age_ms": _METADATA_MS}
        self._settings = known | settings
        self._where = f"topic {topic!r} at {cluster.servers}"
        self._listener = RebalanceListener()
        self._consumer: KafkaConsumer | None = None
        self._producer: KafkaProducer | None = None
        self._is_unsure = False

    def initialize_producer(self) -> None:
        """Initialize the transactional producer, if not done yet.

        The broker first completes or aborts an open transaction of this member.
        """
        if self._producer is not None:
            return
        producer = self._cluster.create_producer(
            transactional_id=self.name,
            transaction_timeout_ms=TRANSACTION_MS,
            metadata_max_age_ms=_METADATA_MS,
        )
        try:
            with translate_errors(self._where):
                producer.init_transactions()
        except BaseException:
            close_producer(producer)
            raise
        self._producer = producer

    def poll(self, limit: int, wait_ms: int = POLL_MS) -> PolledBatch:
        """Return at most `limit` messages; wait up to `wait_ms` for the first.

        The caller must reload the state of each partition in `ownership.changed`, and call
        `seek` for the partition.
        """
        consumer, found, damage, unsure = self._subscribed_consumer(), {}, None, self._is_unsure
        self._is_unsure = True  # messages fetched before a failure are lost
        with translate_errors(self._where):
            try:
                found = poll_messages(consumer, wait_ms, limit)
            except kafka_errors.CorruptRecordError as error:
                damage = self._skip_damaged_messages(consumer, error)
            except _NOWHERE:
                unsure = True  # a new partition without an offset, or an offset not retained
            ownership = self._listener.pop_assignment_changes(all_changed=unsure)
            member = consumer.group_metadata()
        if member.state == MemberState.REBALANCING:
            request_group_rejoin(consumer)
        messages = {
            partition.partition: [message_from_record(record, self.max_bytes) for record in records]
            for partition, records in found.items()
        }
        ends = {partition: each[-1].offset + 1 for partition, each in messages.items() if each}
        if damage is not None:
            messages[damage.partition] = [damage.to_message()]
            ends[damage.partition] = damage.end
        self._is_unsure = False
        return PolledBatch(messages, ends, ownership, member)

    def _skip_damaged_messages(self, consumer: KafkaConsumer, error: Exception) -> DamagedMessages:
        """Skip the next damaged messages and return their offsets.

        Raises ConnectorError if `on_corrupt` is "stop".
        """
        damage = find_damaged_messages(self._cluster, self.topic, consumer_positions(consumer))
        if damage is not None and self._on_corrupt == "skip":
            drop_undecodable_records(consumer)
            self.seek_unchecked(damage.partition, damage.end)
            return damage
        self._leave_group()
        if damage is None:
            raise UnavailableError(f"{self._where}: {error}, but not a second time") from error
        raise damage.to_error(self._where) from error

    def seek(self, partition: int, offset: int | None) -> int:
        """Read `partition` from `offset` on, or from its beginning if None; return the offset.

        Raises DeletedError if the offset is no longer retained.
        """
        consumer, at = self._subscribed_consumer(), TopicPartition(self.topic, partition)
        starts, ends = first_and_end_offsets(consumer, [at], self._where)
        place = starts[at] if offset is None else offset
        check_offset_is_retained(self.topic, partition, place, starts[at], ends[at])
        self.seek_unchecked(partition, place)
        return place

    def seek_unchecked(self, partition: int, offset: int) -> None:
        """Read `partition` from `offset` on, without a check that the offset is retained."""
        try:
            self._subscribed_consumer().seek(TopicPartition(self.topic, partition), offset)
        except (AssertionError, kafka_errors.KafkaError) as error:  # it was reassigned
            raise PartitionsRevokedError(
                f"{self._where}: partition {partition} went to another member"
            ) from error

    def beginning_offset(self, partition: int) -> int:
        """Return the first retained offset of a partition."""
        at = TopicPartition(self.topic, partition)
        return first_and_end_offsets(self._subscribed_consumer(), [at], self._where)[0][at]

    def lag(self, partition: int) -> int:
        """Return the number of unread offsets of a partition, at the broker's last response."""
        consumer, at = self._subscribed_consumer(), TopicPartition(self.topic, partition)
        try:
            place = consumer.position(at, timeout_ms=MOMENT_MS)
        except (AssertionError, kafka_errors.KafkaError):
            return 0  # it was reassigned
        return max(int(consumer.highwater(at) or 0) - int(place), 0)

    def partition_count(self) -> int:
        """Return the number of partitions of the topic."""
        return len(partition_numbers(self._subscribed_consumer(), self.topic, self._where))

    def output_partition_count(self, topic: str) -> int:
        """Return the number of partitions of an output topic, as known to the producer."""
        assert self._producer is not None, "ready() comes first"
        where = f"topic {topic!r} at {self._cluster.servers}"
        with translate_errors(where):
            numbers = self._producer.partitions_for(topic)
        return len(numbers or ())

    def commit(
        self,
        writes: Sequence[TopicMessage],
        next_offsets: Mapping[int, int],
        polled: PolledBatch,
    ) -> None:
        """Commit messages, and the next offset of each partition, in one transaction.

        `polled` is the result of the poll whose messages were processed. The commit fails if the
        assignment has changed since this poll.

        Raises
        ------
        PartitionsRevokedError
            When partitions were reassigned since the poll: nothing was written.
        UnavailableError
            When it is not known whether the commit succeeded. The caller must then reload the state
            of the partitions from committed messages.
        """
        self._raise_if_partitions_reassigned(polled)
        assert self._producer is not None, "ready() comes first"
        sender = FailFastSender(self._cluster, self._producer)
        offsets = {
            TopicPartition(self.topic, partition): OffsetAndMetadata(place, "", -1)
            for partition, place in next_offsets.items()
        }
        write = partial(self._write_transaction, self._producer, sender, writes, offsets, polled)
        remedies = dict.fromkeys([self.topic, *(one.topic for one in writes)], RECREATE_REMEDY)
        try:
            with translate_errors(self._where):
                sender.run_with_timeout(self._where, remedies, write, timeout_seconds=_PATIENCE)
        except PartitionsRevokedError:
            raise  # the transaction is aborted already
        except StateError as error:
            # No other process has this id: the member paused for longer than the timeout.
            self._discard_producer()
            raise UnavailableError(f"{self._where}: a commit took too long: {error}") from error
        except ConnectorError as error:
            self._discard_producer()
            if isinstance(error.__cause__, kafka_errors.UnknownMemberIdError):
                raise PartitionsRevokedError(
                    f"{self._where}: it is no member of {self._group!r} now"
                ) from error
            raise
        except BaseException:
            self._discard_producer()  # the next producer settles this transaction first
            raise

    def close(self) -> None:
        """Leave the group, and release all connections."""
        self._discard_producer()
        self._leave_group()

    @property
    def input_id(self) -> str | None:
        """The topic's id, which changes if the topic is recreated; None if not reported."""
        return topic_id(self._subscribed_consumer(), self.topic)

    def _leave_group(self) -> None:
        if self._consumer is not None:
            self._consumer.close(autocommit=False, timeout_ms=2_000)
            self._consumer = None

    def _subscribed_consumer(self) -> KafkaConsumer:
        """Return the consumer, subscribed as a member of the group."""
        if self._consumer is None:
            self._consumer = self._cluster.create_consumer(group_id=self._group, **self._settings)
            self._consumer.subscribe([self.topic], listener=self._listener)
        return self._consumer

    def _write_transaction(
        self,
        producer: KafkaProducer,
        sender: FailFastSender,
        writes: Sequence[TopicMessage],
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        polled_batch: PolledBatch,
    ) -> None:
        producer.begin_transaction()
        for topic, partition, payload, about in writes:
            sender.send(topic, payload, partition=partition, **send_arguments(about))
        # All writes are in the open transaction before the group gets the offsets: see
        # `CommittedReader.newest_message`.
        sender.await_acks(_PATIENCE)
        producer.send_offsets_to_transaction(offsets, polled_batch.member)
        try:
            self._raise_if_partitions_reassigned(polled_batch)
        except PartitionsRevokedError:
            producer.abort_transaction()
            raise
        producer.commit_transaction()

    def _raise_if_partitions_reassigned(self, polled_batch: PolledBatch) -> None:
        """Raise PartitionsRevokedError if polled partitions may have been reassigned."""
        now = ConsumerGroupMetadata() if self._consumer is None else self._consumer.group_metadata()
        then = polled_batch.member
        is_same = (now.generation_id, now.member_id) == (then.generation_id, then.member_id)
        is_same = is_same and self._listener.n_rebalances == polled_batch.ownership.n_rebalances
        if then.generation_id < 0 or not is_same:
            raise PartitionsRevokedError(
                f"{self._where}: partitions went to other members of {self._group!r}"
            )

    def _discard_producer(self) -> None:
        if self._producer is not None:
            close_producer(self._producer)
            self._producer = None
