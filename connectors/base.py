"""Interfaces of connectors: source, sink, transaction."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from streamboost.errors import ConnectorError

__all__ = [
    "PARTITION",
    "CommittedBatch",
    "ForwardedPayloads",
    "Message",
    "MessageMetadata",
    "Position",
    "SinglePartitionSource",
    "Sink",
    "Source",
    "Transaction",
    "write_and_flush",
]

_PAGE = 1000

PARTITION = "0"
"""Name of the partition of a source that has only one."""

Position = dict[str, int]
"""Offset of the next message to read, by partition of a source."""


class MessageMetadata(NamedTuple):
    """Metadata of a message: key, headers and time, as in `Message`."""

    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    time: int | None = None


class Message(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """One message as it was read.

    `payload` may be truncated if the message exceeds the source's limit; `size` is the original
    length in bytes. `time` is the time of writing in milliseconds since the epoch, if the source
    has it. `damage` is None, or the reason why this message (and perhaps some messages after it)
    cannot be read. The payload of a damaged message is its readable part, which is often empty.
    `is_row` marks a row of a table, in which null is an empty cell. `key` and `headers` are from a
    Kafka message; `name` is the record id decoded from a key that is no text.
    """

    payload: bytes
    partition: str
    offset: int
    size: int
    time: int | None = None
    damage: str | None = None
    is_row: bool = False
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    name: str | None = None


class ForwardedPayloads(list[bytes]):
    """Payloads to write, each with the key, headers and time of the message that it forwards.

    `about` has this message, or its metadata, for each payload.
    """

    def __init__(
        self, payloads: Iterable[bytes], about: Sequence[Message | MessageMetadata]
    ) -> None:
        super().__init__(payloads)
        self.about = about


class Source(ABC):
    """Input of messages, which are read by polls, and can be read again after a `seek`.

    After `source.seek(p)`, polls return the same messages as when `source.position()` was `p`, as
    long as they are retained. With several partitions, the order of partitions may differ;
    `read_range` returns the same messages in any order of partitions.
    """

    @abstractmethod
    def poll(self, limit: int) -> list[Message]:
        """Return up to `limit` new messages, sorted by partition and offset; advance the position.

        An empty list means that no message is available now. A poll waits only briefly.
        """

    @abstractmethod
    def position(self) -> Position:
        """Return the offset of the next message of each partition."""

    @property
    def is_replayable(self) -> bool:
        """Whether `seek` can go back to messages that were already read, also in a new process."""
        return True

    @property
    def is_open(self) -> bool:
        """Whether a writer has the input open, so that more messages may follow an empty poll."""
        return False

    @property
    def has_more_messages(self) -> bool:
        """Whether the input is known to have messages after the last polled one.

        May also be False if more messages exist, but only if the last poll returned `limit`
        messages.
        """
        return False

    @property
    def input_id(self) -> str | None:
        """Id of the input, such as a Kafka topic id; a recreated input has a new id. Or None."""
        return None

    @property
    def content_fingerprint(self) -> str | None:
        """Text that identifies the content read so far; None if the offsets alone identify it."""
        return None

    def set_expected_content(self, fingerprint: str) -> None:  # noqa: B027 - most positions say it all
        """Read only the content that `fingerprint` identifies, and content that follows it.

        Call `seek` afterwards. Raises ConnectorError for the fingerprint of another kind of source.
        """

    @property
    def skipped_ranges(self) -> Mapping[str, tuple[int, int]]:
        """Deleted offsets [start, end) that the last poll skipped, keyed by partition."""
        return {}

    def lag(self) -> int | None:
        """Return the number of unread messages, or of bytes for files; None if not known."""
        return None

    def beginning_offsets(self) -> Position | None:
        """Return the first retained offset of each partition; None if nothing was deleted."""
        return None

    def end_offsets(self) -> Position | None:
        """Return the offset after each partition's last readable message; None if not known."""
        return None

    def update_end_offsets(self, end_offsets: Position) -> None:  # noqa: B027 - most sources find them themselves
        """Store end offsets for `has_more_messages`, read by another source object of the input."""

    @abstractmethod
    def seek(self, position: Position) -> None:
        """Start the next poll at `position`; partitions missing in it start at their beginning."""

    def read_range(self, ranges: Mapping[str, tuple[int, int]], n: int) -> list[Message]:
        """Read the `n` messages of `ranges` again; the next poll continues after them.

        `ranges` maps a partition to its offsets [start, end). If messages are no longer retained,
        fewer are returned.
        """
        before = self.position()
        span = sum(end - start for start, end in ranges.values())
        found: list[Message] = []
        self.seek(before | {partition: start for partition, (start, _) in ranges.items()})
        while len(found) < n:
            polled = self.poll(min(_PAGE, span))
            if not polled:
                break
            found += [m for m in polled if m.offset < ranges.get(m.partition, (0, 0))[1]]
        self.seek(before | {partition: end for partition, (_, end) in ranges.items()})
        return found

    def release_resources(self) -> None:  # noqa: B027 - most sources hold no shared resources
        """Release shared resources, such as open files; the next poll acquires them again."""

    def close(self) -> None:  # noqa: B027 - most sources hold nothing
        """Release all resources; a second call does nothing."""


class SinglePartitionSource(Source):
    """Base of sources with a single partition, named `PARTITION`.

    Attributes
    ----------
    where : name of the input, for error messages
    """

    def __init__(self, input_name: str) -> None:
        self.where = input_name
        self._next = 0

    def position(self) -> Position:
        """Return the offset of the next message, keyed by the name of the partition."""
        return {PARTITION: self._next}

    def seek(self, position: Position) -> None:
        """Start the next poll at the offset in `position`."""
        unknown = sorted(set(position) - {PARTITION})
        if unknown:
            raise ConnectorError(
                f"{self.where} has one partition, {PARTITION!r}; the position names {unknown[0]!r}"
            )
        self._set_next_offset(position.get(PARTITION, 0))

    def _set_next_offset(self, offset: int) -> None:
        self._next = offset


class Sink(ABC):
    """Output to which messages are appended in order."""

    @abstractmethod
    def write(self, payloads: Sequence[bytes]) -> None:
        """Append `payloads` as messages, which `flush` makes durable.

        `ForwardedPayloads` add a key, headers and a time to each message.
        """

    @abstractmethod
    def flush(self) -> None:
        """Block until written payloads are durable (fsync, commit or broker acknowledgement)."""

    def close(self) -> None:  # noqa: B027 - most sinks hold nothing
        """Release all resources and drop unflushed payloads; a second call does nothing."""


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """Number of a committed batch, and the positions of the sources after the batch."""

    sequence: int
    positions: dict[str, Position]


class Transaction(ABC):
    """Commits the writes of a batch and the positions of its sources atomically."""

    _unbound = (0, 0)
    """Number of the batch, and how many of its writes to non-transactional sinks are done."""

    def fence(self) -> None:  # noqa: B027 - not needed if a lock on the state is enough
        """Take over the pipeline: later commits of processes that started before are refused."""

    @property
    def input_id(self) -> str | None:
        """Id of the journal, such as a Kafka topic id, or None; a recreated topic has a new id."""
        return None

    @abstractmethod
    def last_committed_batch(self) -> CommittedBatch | None:
        """Return the newest committed batch, or None before the first."""

    @abstractmethod
    def commit(
        self,
        sequence: int,
        writes: Sequence[tuple[Sink, Sequence[bytes]]],
        positions: Mapping[str, Position],
        journal: bytes,
    ) -> None:
        """Commit the writes, the sources' positions and the journal entry of batch `sequence`.

        Sinks that do not belong to the transaction are written and flushed before the commit. If
        the commit fails and is repeated, this object does not write these sinks again. A new
        process does, so that their payloads are written at least once.
        """

    @abstractmethod
    def read_journal(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield (batch number, journal entry) of each retained batch after `after`, in order."""

    @abstractmethod
    def enlists(self, sink: Sink) -> bool:
        """Return whether writes to `sink` are part of the transaction."""

    def write_non_transactional(
        self, sequence: int, writes: Sequence[tuple[Sink, Sequence[bytes]]]
    ) -> None:
        """Write and flush the sinks that are not part of the transaction.

        A repeated call for the same batch skips sinks that are already flushed.
        """
        batch, done = self._unbound
        done = done if batch == sequence else 0
        unbound = [write for write in writes if not self.enlists(write[0])]
        for sink, payloads in unbound[done:]:
            write_and_flush(sink, payloads)
            done += 1
            self._unbound = sequence, done

    def close(self) -> None:  # noqa: B027 - most transactions hold nothing
        """Release all resources; a second call does nothing."""


def write_and_flush(sink: Sink, payloads: Sequence[bytes]) -> None:
    """Write `payloads` to a sink and flush it.

    If this fails, the unflushed payloads are dropped, because a retry writes all of them again.
    """
    try:
        sink.write(payloads)
        sink.flush()
    except BaseException:
        sink.close()  # a retry of the commit writes the same payloads again
        raise
