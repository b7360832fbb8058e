"""Apache Kafka: commits a batch's writes and its sources' positions as one transaction.

The journal is a topic of one partition, `<pipeline>.journal`. Each entry has
the sources' positions, and the newest entry is the authoritative progress of the pipeline. For
tools that show lag, positions are also committed to the consumer group `streamboost.<pipeline>`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from secrets import token_hex

from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from streamboost.connectors.base import CommittedBatch, Position, Sink, Transaction
from streamboost.connectors.kafka.admin import check_group_is_empty
from streamboost.connectors.kafka.cluster import KafkaCluster, close_producer, translate_errors
from streamboost.connectors.kafka.internals import topic_id
from streamboost.connectors.kafka.journal import KafkaJournal, StoredJournalEntry
from streamboost.connectors.kafka.producer import RECREATE_REMEDY, FailFastSender
from streamboost.connectors.kafka.sink import KafkaSink
from streamboost.errors import ConnectorError, StateError

_RESTART_REMEDY = (
    "it was the journal, which a restart needs: create it with `streamboost check "
    "--create-topics`, and start with an empty state folder"
)


class KafkaTransaction(Transaction):
    """Commits writes, positions and journal entry of each batch as one Kafka transaction.

    After a crash, readers of committed messages see the whole batch or nothing of it. If two
    processes run the same pipeline, the process that started later continues. The next commit of
    the other process fails.

    Parameters
    ----------
    cluster : KafkaCluster
    pipeline : str
        Name of the pipeline, in the names of its journal, transactions and consumer group.
    topics : mapping of str to str
        Maps the name of each source whose positions are committed to the topic of the source.
    """

    def __init__(
        self, cluster: KafkaCluster, pipeline: str, topics: Mapping[str, str] | None = None
    ) -> None:
        self._cluster = cluster
        self._topics = dict(topics or {})
        self._journal = KafkaJournal(cluster, pipeline)
        self._name = f"streamboost.{pipeline}"
        self._where = f"pipeline {pipeline!r} at {cluster.servers}"
        self._writer = token_hex(8).encode()
        self._producer: KafkaProducer | None = None
        self._has_begun = False
        self._last: CommittedBatch | None = None
        self._id: str | None = None

    def fence(self) -> None:
        """Take over from earlier processes of the pipeline; abort their open transactions.

        Raises
        ------
        ConnectorError
            When the journal's topic is missing, or the pipeline's consumer group has members.
        StateError
            When another process has committed a batch since the last commit of this object.
        UnavailableError
            When the cluster cannot be reached.
        """
        self.close()
        check_group_is_empty(self._cluster, self._name)
        producer = self._cluster.create_producer(transactional_id=self._name)
        try:
            with translate_errors(self._where):
                producer.init_transactions()
            newest = self._journal.newest_entry()
            self._raise_if_other_process_committed(newest)
            with translate_errors(self._where):
                producer.partitions_for(self._journal.partition.topic)
            self._raise_if_journal_recreated(producer)
        except BaseException:
            close_producer(producer)
            raise
        self._producer, self._has_begun = producer, True
        self._last = newest.committed if newest else None

    def last_committed_batch(self) -> CommittedBatch | None:
        """Return the newest committed batch, or None before the first."""
        if self._producer is not None:
            return self._last
        newest = self._journal.newest_entry()
        return newest.committed if newest else None

    def commit(
        self,
        sequence: int,
        writes: Sequence[tuple[Sink, Sequence[bytes]]],
        positions: Mapping[str, Position],
        journal: bytes,
    ) -> None:
        """Commit a batch; `sequence` must be the last committed batch's number plus 1, or 1.

        Raises
        ------
        StateError
            When `sequence` is another number, or another process has taken over the pipeline.
        UnavailableError
            When it is not known whether the commit succeeded. The next call with the same batch
            finds this out first, and commits the batch only if needed.
        """
        if self._producer is None:
            has_begun, known = self._has_begun, self._last
            self.fence()
            if has_begun and self._last != known and self._last_committed_sequence == sequence:
                return  # the batch was committed, and only the answer was lost
        if sequence != self._last_committed_sequence + 1:
            raise StateError(
                f"{self._where} cannot commit batch {sequence} after batch "
                f"{self._last_committed_sequence}: another process commits here, or the state is "
                "from another run; stop the other, then start again"
            )
        before = self._last.positions if self._last else {}
        committed = CommittedBatch(
            sequence, before | {name: dict(p) for name, p in positions.items()}
        )
        self.write_non_transactional(sequence, writes)
        entry = StoredJournalEntry(committed, journal, self._writer)
        try:
            with translate_errors(self._where):
                sender = FailFastSender(self._cluster, self._producer)
                write = partial(self._write_transaction, self._producer, sender, writes, entry)
                sender.run_with_timeout(
                    self._where, self._remedy_texts_of_deleted_topics(writes), write
                )
            self._raise_if_journal_recreated(self._producer)
        except BaseException:
            self.close()  # the next producer aborts this transaction first
            raise
        self._last = committed

    def enlists(self, sink: Sink) -> bool:
        """Return whether `sink` writes to the transaction's cluster."""
        return isinstance(sink, KafkaSink) and sink.cluster == self._cluster

    def read_journal(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield (batch number, journal entry) of each retained batch after batch `after`."""
        for entry in self._journal.entries_after(after):
            yield entry.committed.sequence, entry.payload

    def close(self) -> None:
        """Release the connection; the next call connects again."""
        if self._producer is not None:
            close_producer(self._producer)
            self._producer = None

    @property
    def input_id(self) -> str | None:
        """Id of the journal's topic; None before `fence`, or if the broker reports no ids."""
        return self._id

    def _raise_if_journal_recreated(self, producer: KafkaProducer | None) -> None:
        """Raise ConnectorError if the journal's topic was recreated."""
        topic = self._journal.partition.topic
        found = topic_id(producer, topic)
        if None not in (found, self._id) and found != self._id:
            raise ConnectorError(
                f"topic {topic!r} at {self._cluster.servers}, the journal, was deleted and made "
                "again while the pipeline ran, and what had been committed is gone: "
                f"{_RESTART_REMEDY}"
            )
        self._id = found or self._id

    @property
    def _last_committed_sequence(self) -> int:
        return self._last.sequence if self._last else 0

    def _raise_if_other_process_committed(self, newest_entry: StoredJournalEntry | None) -> None:
        """Raise StateError if another process wrote an entry after this object's last entry."""
        if not self._has_begun or newest_entry is None or newest_entry.committed == self._last:
            return
        if newest_entry.writer != self._writer:
            raise StateError(
                f"{self._where}: another process has committed batch "
                f"{newest_entry.committed.sequence} meanwhile, so this one may not write any more; "
                "stop one of the two for good"
            )

    def _write_transaction(
        self,
        producer: KafkaProducer,
        sender: FailFastSender,
        writes: Sequence[tuple[Sink, Sequence[bytes]]],
        entry: StoredJournalEntry,
    ) -> None:
        producer.begin_transaction()
        topic, partition = self._journal.partition
        called = f"the journal's entry of batch {entry.committed.sequence}"
        sender.send(topic, entry.payload, called, partition=partition, headers=entry.to_headers())
        # Small writes first: a request adds all partitions known by then to the transaction.
        for sink, payloads in sorted(writes, key=lambda write: len(write[1])):
            if isinstance(sink, KafkaSink) and self.enlists(sink):
                sink.send_all(sender, payloads)
        if offsets := self._offsets_of_source_partitions(entry.committed.positions):
            producer.send_offsets_to_transaction(offsets, self._name)
        producer.commit_transaction()
        sender.await_acks()

    def _remedy_texts_of_deleted_topics(
        self, writes: Sequence[tuple[Sink, Sequence[bytes]]]
    ) -> dict[str, str]:
        """Return a mapping from topic to the end of the error text if the topic was deleted."""
        topics = [sink.topic for sink, _ in writes if isinstance(sink, KafkaSink)]
        remedies = dict.fromkeys([*topics, *self._topics.values()], RECREATE_REMEDY)
        return remedies | {self._journal.partition.topic: _RESTART_REMEDY}

    def _offsets_of_source_partitions(
        self, positions: Mapping[str, Position]
    ) -> dict[TopicPartition, object]:
        return {
            TopicPartition(topic, int(partition)): OffsetAndMetadata(offset, "", -1)
            for name, topic in self._topics.items()
            for partition, offset in positions.get(name, {}).items()
        }
