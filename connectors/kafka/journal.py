"""The journal of a pipeline as a topic of Apache Kafka: one partition, one entry per batch.

The headers of the newest entry are the authoritative progress of the pipeline.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import msgspec
from kafka import KafkaConsumer, TopicPartition

from streamboost.connectors.base import CommittedBatch, Position
from streamboost.connectors.kafka.cluster import MOMENT_MS, KafkaCluster, translate_errors
from streamboost.connectors.kafka.consumer import (
    is_damaged_message_error,
    is_out_of_range_error,
    poll_messages,
)
from streamboost.errors import ConnectorError, StateError, UnavailableError


class StoredJournalEntry(NamedTuple):
    """Journal entry with decoded headers; `writer` is a random id of the process that wrote it."""

    committed: CommittedBatch
    payload: bytes
    writer: bytes

    def to_headers(self) -> list[tuple[str, bytes]]:
        """Return the headers of the Kafka message that stores the entry."""
        return [
            ("sequence", b"%d" % self.committed.sequence),
            ("positions", msgspec.json.encode(self.committed.positions)),
            ("writer", self.writer),
        ]


def journal_topic(pipeline: str) -> str:
    """Return the name of the journal topic of `pipeline`.

    >>> journal_topic("demo")
    'demo.journal'
    """
    return f"{pipeline}.journal"


class KafkaJournal:
    """Reads the committed entries of the journal of `pipeline`."""

    def __init__(self, cluster: KafkaCluster, pipeline: str) -> None:
        self.partition = TopicPartition(journal_topic(pipeline), 0)
        self._cluster = cluster
        self._where = f"topic {self.partition.topic!r}, the journal, at {cluster.servers}"

    def entries_after(self, sequence: int) -> Iterator[StoredJournalEntry]:
        """Yield every retained entry of batches after `sequence`, in order."""
        with self._open_consumer() as consumer:
            start, end = self._retained_offset_range(consumer)
            start = self._find_offset_before_entry(consumer, sequence, start, end)
            for entry in self._read_journal_entries(consumer, start, end):
                if entry.committed.sequence > sequence:
                    yield entry

    def newest_entry(self) -> StoredJournalEntry | None:
        """Return the newest entry, or None if the journal is empty."""
        with self._open_consumer() as consumer:
            start, end = self._retained_offset_range(consumer)
            found, reach = None, 4
            # A transaction's end marker has an offset, too, and an aborted transaction has two.
            while found is None and end > start:
                for entry in self._read_journal_entries(consumer, max(start, end - reach), end):
                    found = entry
                if reach >= end - start:
                    break
                reach *= 4
            return found

    def delete_before(self, sequence: int, time_ms: int) -> bool:
        """Delete entries of batches before `sequence` that were written before `time_ms`.

        `time_ms` is in milliseconds since the epoch. The newest of these entries is kept. Brokers
        free the space of whole segments. Returns whether entries were deleted.
        """
        with self._open_consumer() as consumer:
            start, end = self._retained_offset_range(consumer)
            with translate_errors(self._where):
                found = consumer.offsets_for_times({self.partition: time_ms}, MOMENT_MS)
            needed = self._find_offset_before_entry(
                consumer, sequence - 1, start, end, max_distance=1
            )
        younger = found[self.partition]
        offset = needed if younger is None else min(needed, younger.offset)
        if offset <= start:
            return False
        with closing(self._cluster.create_admin_client()) as admin, translate_errors(self._where):
            admin.delete_records({self.partition: offset})
        return True

    @contextmanager
    def _open_consumer(self) -> Iterator[KafkaConsumer]:
        """Context manager: yields a consumer that is assigned to the journal's partition."""
        consumer = self._cluster.create_consumer()
        try:
            with translate_errors(self._where):
                partitions = consumer.partitions_for_topic(self.partition.topic)
            if not partitions:
                raise ConnectorError(
                    f"{self._where} does not exist: create it with `streamboost check "
                    "--create-topics`"
                )
            if len(partitions) > 1:
                raise ConnectorError(
                    f"{self._where} has {len(partitions)} partitions and must have one, which "
                    "keeps its order: recreate it with `streamboost check --create-topics`"
                )
            consumer.assign([self.partition])
            yield consumer
        except UnavailableError as error:
            if is_out_of_range_error(error):
                raise UnavailableError(
                    f"{self._where}: entries were deleted while they were read: try again"
                ) from error
            if not is_damaged_message_error(error):
                raise
            raise ConnectorError(
                f"{self._where} is damaged: {error.__cause__}. Bring the topic back from a copy"
            ) from error
        finally:
            consumer.close(autocommit=False, timeout_ms=1_000)

    def _retained_offset_range(self, consumer: KafkaConsumer) -> tuple[int, int]:
        with translate_errors(self._where):
            start = consumer.beginning_offsets([self.partition], timeout_ms=MOMENT_MS)
            end = consumer.end_offsets([self.partition], timeout_ms=MOMENT_MS)
        return start[self.partition], end[self.partition]

    def _find_offset_before_entry(
        self, consumer: KafkaConsumer, sequence: int, start: int, end: int, max_distance: int = 64
    ) -> int:
        """Return an offset at most `max_distance` before the first entry after batch `sequence`.

        The bisection searches the offsets [start, end).
        """
        while end - start > max_distance:
            middle = (start + end) // 2
            entry = next(self._read_journal_entries(consumer, middle, end), None)
            if entry is None or entry.committed.sequence > sequence:
                end = middle
            else:
                start = middle
        return start

    def _read_journal_entries(
        self, consumer: KafkaConsumer, start: int, end: int
    ) -> Iterator[StoredJournalEntry]:
        """Yield the journal's entries with offsets [start, end)."""
        with translate_errors(self._where):
            consumer.seek(self.partition, start)
        patience = time.monotonic() + MOMENT_MS / 1000
        while True:
            with translate_errors(self._where):
                found = poll_messages(consumer, 200).get(self.partition, [])
                place = consumer.position(self.partition, timeout_ms=MOMENT_MS)
            for record in found:
                if record.offset >= end:
                    return
                yield _decode_journal_entry(record)
            if place >= end:
                return
            if found:
                patience = time.monotonic() + MOMENT_MS / 1000
            if time.monotonic() > patience:
                raise UnavailableError(f"{self._where} gives nothing, though it has more")


def _decode_journal_entry(record: Any) -> StoredJournalEntry:
    """Convert a consumer record to a journal entry; StateError if it is no journal entry."""
    try:
        headers = dict(record.headers)
        positions = msgspec.json.decode(headers["positions"], type=dict[str, Position])
        committed = CommittedBatch(int(headers["sequence"]), positions)
        return StoredJournalEntry(committed, bytes(record.value), headers["writer"])
    except (KeyError, ValueError, TypeError, msgspec.MsgspecError) as error:
        raise StateError(
            f"offset {record.offset} of topic {record.topic!r}, a journal, is not an entry of a "
            f"pipeline: {error!r}; only the pipeline may write there"
        ) from error
