"""Apache Kafka: converts consumer records, and reports corrupt or missing offsets."""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors

from streamboost.connectors.base import Message
from streamboost.connectors.kafka.cluster import MOMENT_MS, KafkaCluster, translate_errors
from streamboost.connectors.kafka.internals import failed_batch_offset, offset_in_error
from streamboost.errors import ConnectorError, DeletedError, UnavailableError

_POLL_MS = 100
_CHECKSUM = "they do not match their checksum"


class DamagedMessages(NamedTuple):
    """Offsets [start, end) of a partition whose messages are damaged, with the reason."""

    partition: int
    start: int
    end: int
    reason: str

    def __str__(self) -> str:
        offsets = f"{self.start} to {self.end - 1}" if self.end > self.start + 1 else self.start
        return (
            f"the messages at offset {offsets} of partition {self.partition} are damaged: "
            f"{self.reason}"
        )

    def to_message(self) -> Message:
        """Return one message that replaces the damaged messages, with the reason as `damage`."""
        return Message(b"", str(self.partition), self.start, 0, damage=str(self))

    def to_error(self, resource_name: str) -> ConnectorError:
        """Return the error for a source of `resource_name` that stops at the damaged messages."""
        return ConnectorError(
            f"{resource_name}: {self}. Bring the topic back from a copy, or set on_corrupt = "
            '"skip" where the pipeline reads it, to replace them by a dead letter'
        )


def message_from_record(record: Any, max_bytes: int) -> Message:
    """Convert a consumer record to a message; the payload has at most `max_bytes` + 1 bytes.

    A record without a value has an empty payload. A header without a value has an empty value.
    """
    value = record.value or b""
    kept = value if len(value) <= max_bytes else value[: max_bytes + 1]
    written = record.timestamp if record.timestamp >= 0 else None
    headers = tuple([(name, held or b"") for name, held in record.headers])
    place = str(record.partition), record.offset
    return Message(kept, *place, len(value), written, key=record.key, headers=headers)


def poll_messages(
    consumer: KafkaConsumer, wait_ms: int, limit: int | None = None
) -> dict[TopicPartition, list[Any]]:
    """Poll a consumer once, and return the consumer records, keyed by partition.

    Raises
    ------
    kafka.errors.CorruptRecordError
        When a batch does not match its checksum or cannot be decoded; the text has its first
        offset. If a batch cannot be decompressed, the error of the compression library is raised.
    """
    try:
        found: dict[TopicPartition, list[Any]]
        found = consumer.poll(timeout_ms=wait_ms, max_records=limit)
    except Exception as error:
        is_decided = isinstance(error, kafka_errors.KafkaError | MemoryError)
        if is_decided and not isinstance(error, kafka_errors.CorruptRecordError):
            raise
        if (base := failed_batch_offset(error)) is None:
            raise
        raise kafka_errors.CorruptRecordError(
            f"the batch at offset {base} cannot be decoded: {error!r}"
        ) from error
    return found


def partition_numbers(consumer: KafkaConsumer, topic: str, resource_name: str) -> list[int]:
    """Return the numbers of a topic's partitions; ConnectorError if there is no such topic."""
    with translate_errors(resource_name):
        numbers = consumer.partitions_for_topic(topic)
    if not numbers:
        raise ConnectorError(
            f"{resource_name} does not exist: correct the name, or create it with `streamboost "
            "check --create-topics`"
        )
    return sorted(numbers)


def topic_recreated_error(resource_name: str) -> ConnectorError:
    """Return the error for a topic that was deleted and recreated."""
    return ConnectorError(
        f"{resource_name} was deleted and recreated: its messages are not those that were read "
        "before. Restore the former topic from a copy. To read the new topic from its beginning, "
        "give the pipeline another name and an empty state"
    )


def unknown_partition_error(topic: str, partition: str) -> ConnectorError:
    """Return the error for a topic without a partition that was read before."""
    return ConnectorError(
        f"topic {topic!r} has no partition {partition!r}, which was read before: the topic was "
        "recreated. Restore the former topic, or start again with an empty state"
    )


def first_and_end_offsets(
    consumer: KafkaConsumer, partitions: Sequence[TopicPartition], resource_name: str
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the first retained offset and the end offset of each partition, as two mappings.

    The end offset is that of `read_committed`: the last stable offset, before open transactions.
    """
    with translate_errors(resource_name):
        starts = consumer.beginning_offsets(partitions, timeout_ms=MOMENT_MS)
        ends = consumer.end_offsets(partitions, timeout_ms=MOMENT_MS)
    return starts, ends


def consumer_positions(consumer: KafkaConsumer) -> dict[str, int]:
    """Return the next offset of each partition that has a position, keyed by partition."""
    places = {}
    for at in consumer.assignment():
        with suppress(AssertionError, kafka_errors.KafkaError):
            places[str(at.partition)] = int(consumer.position(at, timeout_ms=MOMENT_MS))
    return places


def check_offset_is_retained(
    topic: str, partition: int | str, offset: int, start: int, end: int
) -> None:
    """Raise DeletedError if `offset` is outside the retained range [start, end]."""
    if offset < start:
        raise DeletedError(
            f"topic {topic!r} no longer holds offsets {offset} to {start - 1} of partition "
            f"{partition}: its retention has overtaken the pipeline; raise retention.ms, and bring "
            'the records back or set [pipeline] on_data_loss = "continue" to continue without them'
        )
    if offset > end:
        raise DeletedError(
            f"partition {partition} of topic {topic!r} ends at offset {end}, and reading should go "
            f"on at {offset}: this is not the topic that was read before; put that one back, or "
            "start again with an empty state"
        )


def is_out_of_range_error(error: Exception) -> bool:
    """Return whether an error was caused by an offset that is not retained."""
    return isinstance(error.__cause__, kafka_errors.OffsetOutOfRangeError)


def is_damaged_message_error(error: Exception) -> bool:
    """Return whether an error was caused by messages with a wrong checksum or encoding.

    The caller must close the consumer that raised the error: its next poll would never return.
    """
    return isinstance(error.__cause__, kafka_errors.CorruptRecordError)


def find_damaged_messages(
    cluster: KafkaCluster, topic: str, offsets: Mapping[str, int]
) -> DamagedMessages | None:
    """Return the damaged offsets that begin at the next offset of a partition, or None.

    `offsets` maps a partition to its next offset; the first partition with damage is returned. A
    damaged batch is unreadable as a whole. Its end is found by reading at later offsets.
    """
    for name in sorted(offsets, key=int):
        partition, start = TopicPartition(topic, int(name)), offsets[name]
        with closing(cluster.create_consumer()) as consumer:
            end = first_and_end_offsets(consumer, [partition], topic)[1][partition]
        found = _find_damaged_batch(cluster, partition, start, end)
        if found is None:
            continue
        base, reason = found
        inside, outside = start, start + 1
        while _find_damaged_batch(cluster, partition, outside, end) == found:
            inside, outside = outside, outside + 2 * (outside - start)
        while outside - inside > 1:
            middle = (inside + outside) // 2
            if _find_damaged_batch(cluster, partition, middle, end) == found:
                inside = middle
            else:
                outside = middle
        # Offsets before the batch have no messages: transaction markers, and aborted messages.
        return DamagedMessages(int(name), max(start, base), min(outside, end), reason)
    return None


def _find_damaged_batch(
    cluster: KafkaCluster, partition: TopicPartition, offset: int, end: int
) -> tuple[int, str] | None:
    """Return (first offset, damage) of the batch that contains `offset`; None if it is intact.

    `damage` is the reason as text. Each call uses a new consumer, because a consumer that has
    raised such an error cannot poll again.
    """
    if offset >= end:
        return None
    where = f"topic {partition.topic!r} at {cluster.servers}"
    patience = time.monotonic() + MOMENT_MS / 1000
    with closing(cluster.create_consumer()) as consumer, translate_errors(where):
        consumer.assign([partition])
        consumer.seek(partition, offset)
        try:
            while consumer.position(partition, timeout_ms=MOMENT_MS) == offset:
                poll_messages(consumer, _POLL_MS, 1)
                if time.monotonic() > patience:
                    raise UnavailableError(f"{where} gives nothing, though it has more")
        except kafka_errors.CorruptRecordError as error:
            base = offset_in_error(error)
            cause = error.__cause__
            reason = f"they cannot be decoded ({cause!r})" if cause else _CHECKSUM
            return offset if base is None else base, reason
    return None
