"""Apache Kafka: topics as sources and sinks.

A topic's partitions are assigned, not shared out by a group: one process reads them all, and
where it reads on is kept with the pipeline's journal. Only what was committed is read.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import OffsetSpec

from streamboost.connectors.base import Message, Position, Sink, Source
from streamboost.connectors.kafka_cluster import MOMENT_MS, KafkaCluster, discard, told
from streamboost.connectors.kafka_sending import CREATE_AGAIN, Dispatch, in_time
from streamboost.errors import ConfigurationError, ConnectorError, UnavailableError

__all__ = ["KafkaSink", "KafkaSource"]

_POLL_MS = 20

_FETCH_BYTES = 256 * 1024
"""What is read of one partition before the next has its turn: they are to stay nearly in step, as
labels wait for their records only so long."""


class KafkaSource(Source):
    """Reads all partitions of a topic, those that join later from their beginning.

    Parameters
    ----------
    cluster : KafkaCluster
    topic : str
    max_bytes : int
        What of a payload is held in memory: of a longer one, the first `max_bytes` + 1 bytes are
        given, with its true size. A message without a value is an empty payload.

    Raises
    ------
    ConnectorError
        While polling, when the topic does not exist, or no longer holds what comes next.
    UnavailableError
        When the cluster cannot be reached.
    """

    def __init__(self, cluster: KafkaCluster, topic: str, max_bytes: int = 1_000_000) -> None:
        if max_bytes < 1:
            raise ConfigurationError(f"max_bytes = {max_bytes}: write a number of at least 1")
        self.topic = topic
        self._cluster = cluster
        self._max_bytes = max_bytes
        self._consumer: KafkaConsumer | None = None
        self._admin: KafkaAdminClient | None = None
        self._next: Position = {}
        # Where the consumer stands, and where the partitions ended when it was sent there.
        self._at: Position = {}
        self._ends: Position = {}

    def poll(self, limit: int) -> list[Message]:
        """Read at most `limit` messages.

        What was there before it was last sent somewhere is waited for.
        """
        if limit < 1:
            return []
        consumer = self._assigned()
        messages = self._fetch(consumer, limit, wait_ms=0)
        patience = time.monotonic() + MOMENT_MS / 1000
        while not messages and any(self._at[p] < end for p, end in self._ends.items()):
            if time.monotonic() > patience:
                raise UnavailableError(f"{self._where} gives nothing, though it has more")
            messages = self._fetch(consumer, limit, _POLL_MS)
        return messages

    def position(self) -> Position:
        """Return the offset of the next message of each partition, asking where it begins."""
        if not self._next:
            self._assigned()
        return dict(self._next)

    def seek(self, position: Position) -> None:
        """Go on from `position`; partitions it does not name start at their beginning."""
        if unknown := sorted(name for name in position if not name.isdecimal()):
            raise ConnectorError(
                f"the partitions of topic {self.topic!r} are numbers; the position names "
                f"{unknown[0]!r}"
            )
        self._next = dict(position)

    def reread(self, ranges: Mapping[str, tuple[int, int]], n: int) -> list[Message]:
        """Read the messages of `ranges` once more, and go on after them."""
        consumer, found = self._assigned(), []
        everywhere = list(consumer.assignment())
        for name in sorted(ranges, key=int):
            partition = TopicPartition(self.topic, int(name))
            consumer.pause(*(other for other in everywhere if other != partition))
            try:
                found += self._reread(consumer, partition, *ranges[name])
            finally:
                consumer.resume(*everywhere)
        return found

    def lag(self) -> int:
        """Return how many offsets lie between what was read and the end, over all partitions.

        Messages of a transaction that is still open count, though they are not given yet.
        """
        place = self.position()
        ends = self._offsets(place, OffsetSpec.LATEST)
        return sum(end - place[name] for name, end in ends.items())

    def beginning(self) -> Position:
        """Return the offset of the oldest message of each partition that is still there."""
        return self._offsets(self.position(), OffsetSpec.EARLIEST)

    def close(self) -> None:
        """Let go of the cluster; polling connects again."""
        if self._consumer is not None:
            self._consumer.close(autocommit=False, timeout_ms=1_000)
            self._consumer, self._at, self._ends = None, {}, {}
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    @property
    def _where(self) -> str:
        return f"topic {self.topic!r} at {self._cluster.servers}"

    def _offsets(self, partitions: Iterable[str], which: OffsetSpec) -> Position:
        """Ask for an offset of each partition.

        The consumer's own connection answers only when the fetch before is answered, which waits
        for messages.
        """
        if self._admin is None:
            self._admin = self._cluster.admin()
        asked = {TopicPartition(self.topic, int(name)): which for name in partitions}
        with told(self._where):
            found = self._admin.list_partition_offsets(asked, timeout_ms=MOMENT_MS)
        return {str(partition.partition): place.offset for partition, place in found.items()}

    def _fetch(self, consumer: KafkaConsumer, limit: int, wait_ms: int) -> list[Message]:
        with self._told():
            found = consumer.poll(timeout_ms=wait_ms, max_records=limit)
            # Also past what is never given, such as the marks that end transactions.
            for partition in consumer.assignment():
                place = consumer.position(partition, timeout_ms=MOMENT_MS)
                self._at[str(partition.partition)] = place
        self._next = dict(self._at)
        messages = []
        for partition in sorted(found, key=lambda partition: partition.partition):
            for record in found[partition]:
                value = record.value or b""
                kept = value if len(value) <= self._max_bytes else value[: self._max_bytes + 1]
                name = str(partition.partition)
                messages.append(Message(bytes(kept), name, record.offset, len(value)))
        return messages

    def _reread(
        self, consumer: KafkaConsumer, partition: TopicPartition, start: int, end: int
    ) -> list[Message]:
        """Read the offsets [start, end) of a partition, the only one that is not paused."""
        name, found = str(partition.partition), []
        if self._at[name] != start:
            self._go(consumer, partition, start)
        patience = time.monotonic() + MOMENT_MS / 1000
        while self._at[name] < end:
            found += self._fetch(consumer, end - self._at[name], _POLL_MS)
            if time.monotonic() > patience:
                raise UnavailableError(f"{self._where} gives nothing, though it has more")
        if self._at[name] > end:  # beyond a mark, which takes an offset as well
            self._go(consumer, partition, end)
        return [message for message in found if message.offset < end]

    def _assigned(self) -> KafkaConsumer:
        """Return the consumer, reading all partitions there are now from where they stand."""
        if self._consumer is None:
            self._consumer = self._cluster.consumer(max_partition_fetch_bytes=_FETCH_BYTES)
        consumer = self._consumer
        with self._told():
            numbers = consumer.partitions_for_topic(self.topic)
        if not numbers:
            raise ConnectorError(
                f"{self._where} does not exist: correct the name, or create it with "
                "`streamboost check --create-topics`"
            )
        if len(self._at) != len(numbers) or self._at != self._next:
            self._place(consumer, [TopicPartition(self.topic, n) for n in sorted(numbers)])
        return consumer

    def _place(self, consumer: KafkaConsumer, partitions: list[TopicPartition]) -> None:
        """Send the consumer to where reading goes on, as far as it does not stand there."""
        names = [str(partition.partition) for partition in partitions]
        if unknown := sorted(set(self._next) - set(names)):
            raise ConnectorError(
                f"topic {self.topic!r} has no partition {unknown[0]!r}, which was read before: it "
                "is not the same topic; put that one back, or begin anew with an empty state"
            )
        with self._told():
            starts = consumer.beginning_offsets(partitions, timeout_ms=MOMENT_MS)
            ends = consumer.end_offsets(partitions, timeout_ms=MOMENT_MS)
        places = {}
        for name, partition in zip(names, partitions, strict=True):
            places[name] = self._next.get(name, starts[partition])
            self._check(name, places[name], starts[partition], ends[partition])
        if consumer.assignment() != set(partitions):
            consumer.assign(partitions)
            self._at = {}
        for name, partition in zip(names, partitions, strict=True):
            if self._at.get(name) != places[name]:
                self._go(consumer, partition, places[name])
        self._next = dict(places)
        self._ends = {str(partition.partition): end for partition, end in ends.items()}

    def _go(self, consumer: KafkaConsumer, partition: TopicPartition, offset: int) -> None:
        consumer.seek(partition, offset)
        self._at[str(partition.partition)] = self._next[str(partition.partition)] = offset

    def _check(self, partition: str, place: int, start: int, end: int) -> None:
        if place < start:
            raise ConnectorError(
                f"topic {self.topic!r} no longer holds offsets {place} to {start - 1} of partition "
                f"{partition}: its retention has overtaken the pipeline; raise retention.ms and "
                "bring the records back, or begin anew with an empty state"
            )
        if place > end:
            raise ConnectorError(
                f"partition {partition} of topic {self.topic!r} ends at offset {end}, and reading "
                f"should go on at {place}: this is not the topic that was read before; put that "
                "one back, or begin anew with an empty state"
            )

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            with told(self._where):
                yield
        except UnavailableError as error:
            if not isinstance(error.__cause__, kafka_errors.OffsetOutOfRangeError):
                raise
            consumer, places = self._consumer, error.__cause__.args[0]
            assert consumer is not None
            with told(self._where):
                starts = consumer.beginning_offsets(list(places), timeout_ms=MOMENT_MS)
                ends = consumer.end_offsets(list(places), timeout_ms=MOMENT_MS)
            for partition, place in places.items():
                self._check(str(partition.partition), place, starts[partition], ends[partition])
            raise


class KafkaSink(Sink):
    """Appends to a topic; within a transaction of the same cluster, that one writes for it.

    Parameters
    ----------
    cluster : KafkaCluster
    topic : str
    """

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self._written: list[bytes] = []
        self._producer: KafkaProducer | None = None

    def write(self, payloads: Sequence[bytes]) -> None:
        """Keep `payloads` until `flush`."""
        self._written.extend(payloads)

    def flush(self) -> None:
        """Return once every replica has what was written; after an error, call it again."""
        if not self._written:
            return
        if self._producer is None:
            self._producer = self.cluster.producer()
        where = f"topic {self.topic!r} at {self.cluster.servers}"
        write = partial(self._write, self._producer)
        try:
            with told(where):
                in_time(self.cluster, where, {self.topic: CREATE_AGAIN}, write)
        except ConnectorError:
            # What a producer failed to bring it may still bring: that one is not used again.
            discard(self._producer)
            self._producer = None
            raise
        self._written.clear()

    def close(self) -> None:
        """Let go of the cluster; flushing connects again. What was not flushed is dropped."""
        self._written.clear()
        if self._producer is not None:
            discard(self._producer)
            self._producer = None

    def _write(self, producer: KafkaProducer) -> None:
        dispatch = Dispatch(producer, self.cluster.servers)
        with dispatch.arriving(MOMENT_MS / 1000):
            for payload in self._written:
                dispatch.send(self.topic, payload)
