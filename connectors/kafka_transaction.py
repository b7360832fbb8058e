"""Commits to Apache Kafka: what a batch writes and where its sources stand, as one transaction.

The journal is a topic of one partition, `<pipeline>.journal`. Its entries are the one truth about
how far a pipeline has come: each carries the sources' positions. They are also given to the
consumer group of the pipeline's name, for the tools that show lag.
"""

from collections.abc import Iterator, Mapping, Sequence
from secrets import token_hex
from threading import Thread

import msgspec
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from streamboost.connectors.base import Committed, Position, Sink, Transaction
from streamboost.connectors.kafka import KafkaCluster, KafkaSink, discard, told
from streamboost.errors import ConnectorError, StateError, UnavailableError

__all__ = ["KafkaTransaction", "journal_topic"]

_PATIENCE_MS = 30_000
"""What the broker may take to say that a transaction is complete."""


def journal_topic(pipeline: str) -> str:
    """Return the topic that holds the journal of `pipeline`."""
    return f"{pipeline}.journal"


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
        self._pipeline = pipeline
        self._topics = dict(topics or {})
        self._journal = TopicPartition(journal_topic(pipeline), 0)
        self._where = f"pipeline {pipeline!r} at {cluster.servers}"
        self._writer = token_hex(8).encode()
        self._producer: KafkaProducer | None = None
        self._last: Committed | None = None

    def committed(self) -> Committed | None:
        """Return the newest batch that was committed, or None before the first.

        From then on no process that began before can commit: what it had begun is undone.
        """
        self._begin()
        return self._last

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
            self._begin()
            if self._last is not None and self._last.sequence == sequence:
                return  # the reply was lost, the commit was not
        last = self._last or Committed(0, {})
        if sequence != last.sequence + 1:
            raise StateError(
                f"{self._where} cannot commit batch {sequence} after batch {last.sequence}: "
                "another process commits here, or the state is from another run; stop the other, "
                "then start again"
            )
        for sink, payloads in writes:
            if not self.binds(sink):
                sink.write(payloads)
                sink.flush()
        everywhere = last.positions | {name: dict(place) for name, place in positions.items()}
        try:
            with told(self._where):
                self._write(sequence, writes, everywhere, journal)
        except (ConnectorError, StateError):
            self.close()
            raise
        self._last = Committed(sequence, everywhere)

    def binds(self, sink: Sink) -> bool:
        """Tell whether `sink` writes to the transaction's cluster."""
        return isinstance(sink, KafkaSink) and sink.cluster == self._cluster

    def journal(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Give sequence and entry of every batch after batch `after` that the topic still holds."""
        consumer = self._reader()
        try:
            start, end = self._span(consumer)
            for entry in self._read(consumer, self._place_of(consumer, after, start, end), end):
                if entry[0].sequence > after:
                    yield entry[0].sequence, entry[1]
        finally:
            consumer.close(autocommit=False, timeout_ms=1_000)

    def close(self) -> None:
        """Let go of the cluster; the next call connects again."""
        if self._producer is not None:
            discard(self._producer)
            self._producer = None

    def _begin(self) -> None:
        """Become the one who commits, and see how far the pipeline has come."""
        self.close()
        known = self._last
        producer = self._cluster.producer(transactional_id=f"streamboost.{self._pipeline}")
        try:
            with told(self._where):
                producer.init_transactions()
            newest = self._newest()
        except BaseException:
            discard(producer)
            raise
        if known is not None and newest is not None and newest[2] != self._writer:
            discard(producer)
            raise StateError(
                f"{self._where}: another process has committed batch {newest[0].sequence} "
                "meanwhile, so this one may not write any more; stop one of the two for good"
            )
        self._producer = producer
        self._last = None if newest is None else newest[0]

    def _write(
        self,
        sequence: int,
        writes: Sequence[tuple[Sink, Sequence[bytes]]],
        positions: Mapping[str, Position],
        journal: bytes,
    ) -> None:
        producer = self._producer
        assert producer is not None
        producer.begin_transaction()
        sent = []
        for sink, payloads in writes:
            if isinstance(sink, KafkaSink) and self.binds(sink):
                sent += [producer.send(sink.topic, payload) for payload in payloads]
        headers = [
            ("sequence", b"%d" % sequence),
            ("positions", msgspec.json.encode(positions)),
            ("writer", self._writer),
        ]
        sent.append(producer.send(self._journal.topic, journal, partition=0, headers=headers))
        if offsets := self._offsets(positions):
            producer.send_offsets_to_transaction(offsets, f"streamboost.{self._pipeline}")
        self._complete(producer)
        for future in sent:
            future.get(timeout=0)

    def _complete(self, producer: KafkaProducer) -> None:
        """Commit the open transaction, but do not wait for ever: the client library would."""
        failed: list[BaseException] = []

        def commit() -> None:
            try:
                producer.commit_transaction()
            except BaseException as error:  # it belongs to the thread that waits
                failed.append(error)

        thread = Thread(target=commit, name="commit", daemon=True)
        thread.start()
        thread.join(_PATIENCE_MS / 1000)
        if failed:
            raise failed[0]
        if thread.is_alive():
            raise UnavailableError(
                f"{self._where}: no answer to a commit within {_PATIENCE_MS // 1000} s"
            )

    def _offsets(self, positions: Mapping[str, Position]) -> dict[TopicPartition, object]:
        return {
            TopicPartition(topic, int(partition)): OffsetAndMetadata(offset, "", -1)
            for name, topic in self._topics.items()
            for partition, offset in positions.get(name, {}).items()
        }

    def _newest(self) -> tuple[Committed, bytes, bytes] | None:
        """Return the newest entry of the journal, with what it carries."""
        consumer = self._reader()
        try:
            start, end = self._span(consumer)
            found, reach = None, 4
            # The mark that ends a transaction takes an offset too, and an undone one takes two.
            while found is None and end > start and reach < 2 * (end - start) + 8:
                for entry in self._read(consumer, max(start, end - reach), end):
                    found = entry
                reach *= 4
            return found
        finally:
            consumer.close(autocommit=False, timeout_ms=1_000)

    def _reader(self) -> KafkaConsumer:
        consumer = self._cluster.consumer()
        with told(self._where):
            if not consumer.partitions_for_topic(self._journal.topic):
                raise ConnectorError(
                    f"topic {self._journal.topic!r}, the journal, does not exist at "
                    f"{self._cluster.servers}: create it with `streamboost check --create-topics`"
                )
            consumer.assign([self._journal])
        return consumer

    def _span(self, consumer: KafkaConsumer) -> tuple[int, int]:
        with told(self._where):
            start = consumer.beginning_offsets([self._journal])[self._journal]
            return start, consumer.end_offsets([self._journal])[self._journal]

    def _place_of(self, consumer: KafkaConsumer, sequence: int, start: int, end: int) -> int:
        """Return an offset at or before the first entry after `sequence`, by halving."""
        while end - start > 64:
            middle = (start + end) // 2
            entry = next(self._read(consumer, middle, end), None)
            if entry is None or entry[0].sequence > sequence:
                end = middle
            else:
                start = middle
        return start

    def _read(
        self, consumer: KafkaConsumer, start: int, end: int
    ) -> Iterator[tuple[Committed, bytes, bytes]]:
        with told(self._where):
            consumer.seek(self._journal, start)
        while True:
            with told(self._where):
                found = consumer.poll(timeout_ms=200, max_records=500).get(self._journal, [])
            for record in found:
                if record.offset >= end:
                    return
                headers = dict(record.headers)
                positions = msgspec.json.decode(headers["positions"], type=dict[str, Position])
                committed = Committed(int(headers["sequence"]), positions)
                yield committed, bytes(record.value), headers["writer"]
            with told(self._where):
                if consumer.position(self._journal, timeout_ms=_PATIENCE_MS) >= end:
                    return
