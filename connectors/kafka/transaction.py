"""Commits to Apache Kafka: what a batch writes and where its sources stand, as one transaction.

The journal is a topic of one partition, `<pipeline>.journal`. Its entries are the one truth about
how far a pipeline has come: each carries the sources' positions. They are also given to the
consumer group `streamboost.<pipeline>`, for the tools that show lag.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from secrets import token_hex

from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from streamboost.connectors.base import Committed, Position, Sink, Transaction
from streamboost.connectors.kafka.admin import refuse_members
from streamboost.connectors.kafka.cluster import KafkaCluster, discard, told
from streamboost.connectors.kafka.internals import topic_id
from streamboost.connectors.kafka.journal import KafkaJournal, StoredEntry
from streamboost.connectors.kafka.sending import CREATE_AGAIN, Dispatch
from streamboost.connectors.kafka.sink import KafkaSink
from streamboost.errors import ConnectorError, StateError

__all__ = ["KafkaTransaction"]

_BEGIN_ANEW = (
    "it was the journal, which a restart goes by, so begin anew: create it with `streamboost check "
    "--create-topics`, and start with an empty state folder"
)


class KafkaTransaction(Transaction):
    """Commits topics, positions and journal of one pipeline as one; it binds its cluster's sinks.

    A crash at any moment leaves the batch whole or not there, for readers of what is committed.
    Of two processes that run the same pipeline, the one that began later goes on, and the other
    is refused at its next commit.

    Parameters
    ----------
    cluster : KafkaCluster
    pipeline : str
        The name that journal, transactions and consumer group go by.
    topics : mapping of str to str
        The topics of the sources whose positions are committed, by the sources' names.
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
        self._last: Committed | None = None
        self._id: str | None = None

    def fence(self) -> None:
        """Become the one who commits; what a process that began before has begun is undone.

        Raises
        ------
        ConnectorError
            When the journal's topic is missing, or the pipeline's consumer group has members.
        StateError
            When this object has committed, and another process has meanwhile.
        UnavailableError
            When the cluster cannot be reached.
        """
        self.close()
        refuse_members(self._cluster, self._name)
        producer = self._cluster.producer(transactional_id=self._name)
        try:
            with told(self._where):
                producer.init_transactions()
            newest = self._journal.newest()
            self._refuse_another(newest)
            with told(self._where):
                producer.partitions_for(self._journal.partition.topic)
            self._refuse_made_again(producer)
        except BaseException:
            discard(producer)
            raise
        self._producer, self._has_begun = producer, True
        self._last = newest.committed if newest else None

    def committed(self) -> Committed | None:
        """Return the newest batch that was committed, or None before the first."""
        if self._producer is not None:
            return self._last
        newest = self._journal.newest()
        return newest.committed if newest else None

    def commit(
        self,
        sequence: int,
        writes: Sequence[tuple[Sink, Sequence[bytes]]],
        positions: Mapping[str, Position],
        journal: bytes,
    ) -> None:
        """Commit batch `sequence`, which must be the one after the last; the first is 1.

        Raises
        ------
        StateError
            When it is not, or another process has taken the pipeline over.
        UnavailableError
            When nobody can tell yet whether it was committed. The next call with the same batch
            finds out first, and commits it only if it was not.
        """
        if self._producer is None:
            has_begun, known = self._has_begun, self._last
            self.fence()
            if has_begun and self._last != known and self._sequence == sequence:
                return  # the answer was lost, the commit was not
        if sequence != self._sequence + 1:
            raise StateError(
                f"{self._where} cannot commit batch {sequence} after batch {self._sequence}: "
                "another process commits here, or the state is from another run; stop the other, "
                "then start again"
            )
        before = self._last.positions if self._last else {}
        committed = Committed(sequence, before | {name: dict(p) for name, p in positions.items()})
        self.write_unbound(sequence, writes)
        entry = StoredEntry(committed, journal, self._writer)
        try:
            with told(self._where):
                dispatch = Dispatch(self._cluster, self._producer)
                write = partial(self._write, self._producer, dispatch, writes, entry)
                dispatch.in_time(self._where, self._mends(writes), write)
            self._refuse_made_again(self._producer)
        except BaseException:
            self.close()  # the next transaction begins by undoing this one
            raise
        self._last = committed

    def binds(self, sink: Sink) -> bool:
        """Tell whether `sink` writes to the transaction's cluster."""
        return isinstance(sink, KafkaSink) and sink.cluster == self._cluster

    def journal(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Give sequence and entry of every batch after batch `after` that the topic still holds."""
        for entry in self._journal.after(after):
            yield entry.committed.sequence, entry.payload

    def close(self) -> None:
        """Let go of the cluster; the next call connects again."""
        if self._producer is not None:
            discard(self._producer)
            self._producer = None

    @property
    def identity(self) -> str | None:
        """The id of the journal's topic; None before `fence`, or where the broker gives none."""
        return self._id

    def _refuse_made_again(self, producer: KafkaProducer | None) -> None:
        """Raise ConnectorError where the journal's topic is another than it was."""
        topic = self._journal.partition.topic
        found = topic_id(producer, topic)
        if None not in (found, self._id) and found != self._id:
            raise ConnectorError(
                f"topic {topic!r} at {self._cluster.servers}, the journal, was deleted and made "
                f"again while the pipeline ran, and what had been committed is gone: {_BEGIN_ANEW}"
            )
        self._id = found or self._id

    @property
    def _sequence(self) -> int:
        return self._last.sequence if self._last else 0

    def _refuse_another(self, newest: StoredEntry | None) -> None:
        """Raise StateError where another process has committed since this one began."""
        if not self._has_begun or newest is None or newest.committed == self._last:
            return
        if newest.writer != self._writer:
            raise StateError(
                f"{self._where}: another process has committed batch {newest.committed.sequence} "
                "meanwhile, so this one may not write any more; stop one of the two for good"
            )

    def _write(
        self,
        producer: KafkaProducer,
        dispatch: Dispatch,
        writes: Sequence[tuple[Sink, Sequence[bytes]]],
        entry: StoredEntry,
    ) -> None:
        producer.begin_transaction()
        topic, partition = self._journal.partition
        called = f"the journal's entry of batch {entry.committed.sequence}"
        dispatch.send(topic, entry.payload, called, partition=partition, headers=entry.headers())
        # The few first: a request makes all partitions known by then part of the transaction.
        for sink, payloads in sorted(writes, key=lambda write: len(write[1])):
            if isinstance(sink, KafkaSink) and self.binds(sink):
                sink.send_all(dispatch, payloads)
        if offsets := self._offsets(entry.committed.positions):
            producer.send_offsets_to_transaction(offsets, self._name)
        producer.commit_transaction()
        dispatch.arrive()

    def _mends(self, writes: Sequence[tuple[Sink, Sequence[bytes]]]) -> dict[str, str]:
        """Return the topics of a commit, each with what to do where it was deleted."""
        topics = [sink.topic for sink, _ in writes if isinstance(sink, KafkaSink)]
        mends = dict.fromkeys([*topics, *self._topics.values()], CREATE_AGAIN)
        return mends | {self._journal.partition.topic: _BEGIN_ANEW}

    def _offsets(self, positions: Mapping[str, Position]) -> dict[TopicPartition, object]:
        return {
            TopicPartition(topic, int(partition)): OffsetAndMetadata(offset, "", -1)
            for name, topic in self._topics.items()
            for partition, offset in positions.get(name, {}).items()
        }
