"""In-memory log for tests of pipelines, whose commits can be made to fail.

All classes implement the interfaces of `streamboost.connectors.base` strictly: written messages are
not visible before they are flushed, and commits are atomic.
"""

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence

from streamboost.connectors.base import CommittedBatch, Message, Position, Sink, Source, Transaction
from streamboost.errors import ConnectorError, DeletedError, StateError, UnavailableError

__all__ = ["MemoryLog", "MemorySink", "MemorySource", "MemoryTransaction"]


class MemoryLog:
    """Messages in partitions, each in the order they were appended; offsets count from 0.

    Several sources and sinks may share a log, from several threads.

    >>> log = MemoryLog()
    >>> log.append([b"one", b"two"])
    >>> log.payloads()
    [b'one', b'two']
    """

    def __init__(self, partitions: Sequence[str] = ("0",)) -> None:
        self._lock = threading.Lock()
        self._partitions: dict[str, list[bytes]] = {name: [] for name in sorted(partitions)}

    @property
    def partitions(self) -> tuple[str, ...]:
        """The names of the partitions, sorted."""
        return tuple(self._partitions)

    def append(self, payloads: Sequence[bytes], partition: str = "0") -> None:
        """Add messages at the end of `partition`."""
        with self._lock:
            self._partition_messages(partition).extend(payloads)

    def payloads(self, partition: str = "0") -> list[bytes]:
        """Return all messages of `partition`."""
        return self.read(partition, 0, None)

    def read(self, partition: str, start: int, limit: int | None) -> list[bytes]:
        """Return at most `limit` messages of `partition` from offset `start` on."""
        with self._lock:
            held = self._partition_messages(partition)
            if start > len(held):
                raise DeletedError(
                    f"partition {partition!r} holds {len(held)} messages, and reading should go "
                    f"on at offset {start}: this is not the log that was read before"
                )
            return held[start:] if limit is None else held[start : start + limit]

    def _partition_messages(self, partition: str) -> list[bytes]:
        try:
            return self._partitions[partition]
        except KeyError:
            raise ConnectorError(
                f"the log has no partition {partition!r}, only {', '.join(self._partitions)}"
            ) from None


class MemorySource(Source):
    """Reads a `MemoryLog`; while the source is paused, polls return no messages.

    >>> log = MemoryLog()
    >>> log.append([b"one", b"two"])
    >>> source = MemorySource(log)
    >>> [message.payload for message in source.poll(1)], source.position()
    ([b'one'], {'0': 1})
    """

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._next = dict.fromkeys(log.partitions, 0)
        self._paused = False

    def pause(self) -> None:
        """Let polls return no messages until `resume` is called."""
        self._paused = True

    def resume(self) -> None:
        """Let polls return messages again."""
        self._paused = False

    def poll(self, limit: int) -> list[Message]:
        """Return at most `limit` new messages, sorted by partition and offset."""
        messages: list[Message] = []
        if self._paused:
            return messages
        moved = dict(self._next)
        for partition, start in self._next.items():
            payloads = self._log.read(partition, start, max(0, limit - len(messages)))
            for offset, payload in enumerate(payloads, start):
                messages.append(Message(payload, partition, offset, len(payload)))
            moved[partition] = start + len(payloads)
        self._next = moved
        return messages

    def position(self) -> Position:
        """Return the offset of the next message of each partition."""
        return dict(self._next)

    def lag(self) -> int:
        """Return the number of unread messages, also while paused."""
        return sum(len(self._log.payloads(name)) - start for name, start in self._next.items())

    def seek(self, position: Position) -> None:
        """Start the next poll at `position`."""
        unknown = sorted(set(position) - set(self._next))
        if unknown:
            raise ConnectorError(
                f"the log has no partition {unknown[0]!r}, only {', '.join(self._next)}"
            )
        self._next = {partition: position.get(partition, 0) for partition in self._next}


class MemorySink(Sink):
    """Writes to one partition of a log; written messages are visible after a flush.

    >>> log = MemoryLog()
    >>> sink = MemorySink(log)
    >>> sink.write([b"one"]); log.payloads()
    []
    >>> sink.flush(); log.payloads()
    [b'one']
    """

    def __init__(self, log: MemoryLog, partition: str = "0") -> None:
        log.read(partition, 0, 0)  # raises for an unknown partition here, not during a commit
        self._log = log
        self._partition = partition
        self._written: list[bytes] = []

    def write(self, payloads: Sequence[bytes]) -> None:
        """Buffer `payloads` until `flush`."""
        self._written.extend(payloads)

    def flush(self) -> None:
        """Append the buffered payloads to the log."""
        written, self._written = self._written, []
        self._log.append(written, self._partition)

    def close(self) -> None:
        """Drop the payloads that were not flushed."""
        self._written.clear()


class MemoryTransaction(Transaction):
    """Commits memory sinks, positions and journal atomically; the next commit can be made to fail.

    Parameters
    ----------
    bound : collection of MemorySink, optional
        The sinks that belong to the transaction; None: every MemorySink.

    Examples
    --------
    >>> log = MemoryLog()
    >>> transaction = MemoryTransaction()
    >>> transaction.fail_next_commit()
    >>> transaction.commit(1, [(MemorySink(log), [b"one"])], {}, b"{}")
    Traceback (most recent call last):
    streamboost.errors.UnavailableError: commit 1 was aborted on demand
    >>> log.payloads(), transaction.last_committed_batch()
    ([], None)
    >>> transaction.commit(1, [(MemorySink(log), [b"one"])], {"records": {"0": 7}}, b"{}")
    >>> log.payloads(), transaction.last_committed_batch()
    ([b'one'], CommittedBatch(sequence=1, positions={'records': {'0': 7}}))
    """

    def __init__(self, bound: Collection[MemorySink] | None = None) -> None:
        self._enlisted = None if bound is None else {id(sink): sink for sink in bound}
        self._journal: list[bytes] = []
        self._positions: dict[str, Position] = {}
        self._abort: Exception | None = None

    def fail_next_commit(self, error: Exception | None = None) -> None:
        """Let the next commit raise `error` without writing to the sinks of the transaction.

        `error` is an UnavailableError by default. Sinks outside the transaction are written before
        the error, as in a real system.
        """
        self._abort = error or UnavailableError(
            f"commit {len(self._journal) + 1} was aborted on demand"
        )

    def last_committed_batch(self) -> CommittedBatch | None:
        """Return the newest committed batch, or None before the first."""
        if not self._journal:
            return None
        positions = {source: dict(position) for source, position in self._positions.items()}
        return CommittedBatch(len(self._journal), positions)

    def commit(
        self,
        sequence: int,
        writes: Sequence[tuple[Sink, Sequence[bytes]]],
        positions: Mapping[str, Position],
        journal: bytes,
    ) -> None:
        """Commit a batch; `sequence` must be the last committed batch's number plus 1, or 1."""
        if sequence != len(self._journal) + 1:
            raise StateError(
                f"batch {sequence} cannot follow batch {len(self._journal)}: another writer "
                "commits here, or the state is from another run"
            )
        self.write_non_transactional(sequence, writes)
        if self._abort is not None:
            error, self._abort = self._abort, None
            raise error
        # Copied first: an exception of an iterator must not leave a partial commit.
        bound = [(sink, list(payloads)) for sink, payloads in writes if self.enlists(sink)]
        for sink, copied in bound:
            sink.write(copied)
            sink.flush()
        self._positions |= {source: dict(position) for source, position in positions.items()}
        self._journal.append(journal)

    def enlists(self, sink: Sink) -> bool:
        """Return whether writes to `sink` are part of the transaction."""
        return isinstance(sink, MemorySink) and (
            self._enlisted is None or id(sink) in self._enlisted
        )

    def read_journal(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield (batch number, journal entry) of every batch after batch `after`."""
        yield from enumerate(self._journal[after:], after + 1)
