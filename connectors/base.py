"""Interfaces of connectors: source, sink, transaction."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from streamboost.errors import ConnectorError

__all__ = [
    "PARTITION",
    "Committed",
    "ForwardedPayloads",
    "Message",
    "MessageMetadata",
    "Position",
    "SinglePartitionSource",
    "Sink",
    "Source",
    "Transaction",
    "write_directly",
]

_PAGE = 1000

PARTITION = "0"
"""Name of the partition of a source that has only one."""

Position = dict[str, int]
"""Position: for each partition of a source, the offset of the next message to read."""


class MessageMetadata(NamedTuple):
    """Metadata of a message: key, headers and time, as in `Message`."""

    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    time: int | None = None


class Message(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """One message as it was read.

    `payload` may be truncated if the message exceeds the source's limit; `size` is the original
    length in bytes. `time` is the time of writing in milliseconds since the epoch, if the source
    has it. `damage` is the reason why this message, and perhaps some after it, cannot be read: its
    payload is the readable part, often nothing. `is_row` marks a row of a table, in which null is
    an empty cell. `key` and `headers` are from a Kafka message; `name` is the record id decoded
    from a key that is no text.
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
    """Payloads to be written with the key, headers and time of a message in `about` for each."""

    def __init__(
        self, payloads: Iterable[bytes], about: Sequence[Message | MessageMetadata]
    ) -> None:
        super().__init__(payloads)
        self.about = about


class Source(ABC):
    """Input of messages that is polled and has a position to seek.

    After `source.seek(p)`, polls return the same messages as when `source.position()` was `p`, as
    long as they are retained. With several partitions, the order of partitions may differ;
    `read_range` returns the same messages in any order of partitions.
    """

    @abstractmethod
    def poll(self, limit: int) -> list[Message]:
        """Read at most `limit` messages, by partition, then offset, and advance the position.

        An empty list means that no message is available now; a poll waits only for a moment.
        """

    @abstractmethod
    def position(self) -> Position:
        """Return the offset of the next message of each partition."""

    @property
    def replays(self) -> bool:
        """Whether messages can be read again, also by another process."""
        return True

    @property
    def is_open(self) -> bool:
        """Whether a writer holds the input open, so that more may follow an empty poll."""
        return False

    @property
    def is_behind(self) -> bool:
        """Whether more messages are known than the newest poll returned.

        If a poll returned as many messages as its limit, this may be False nevertheless.
        """
        return False

    @property
    def identity(self) -> str | None:
        """Stable id of the resource (for Kafka, the topic id), or None; recreation changes it."""
        return None

    @property
    def bookmark(self) -> str | None:
        """Identifies the content that was read, if a position alone does not; else None."""
        return None

    def expect(self, bookmark: str) -> None:  # noqa: B027 - most positions say it all
        """Read only the content that `bookmark` identifies, and later content; `seek` follows.

        Raises ConnectorError if another kind of source wrote the bookmark.
        """

    @property
    def gaps(self) -> Mapping[str, tuple[int, int]]:
        """Offsets [start, end) by partition that were deleted before the newest poll read them."""
        return {}

    def lag(self) -> int | None:
        """Return the lag in messages or bytes, or None if not known."""
        return None

    def beginning_offsets(self) -> Position | None:
        """Return the first retained offset by partition, or None if nothing was deleted."""
        return None

    def end_offsets(self) -> Position | None:
        """Return the end offset by partition of what can be read now, or None if not known."""
        return None

    def update_end_offsets(self, ends: Position) -> None:  # noqa: B027 - most sources find them themselves
        """Update the end offsets with `end_offsets` that another source of its kind found."""

    @abstractmethod
    def seek(self, position: Position) -> None:
        """Continue at `position`; partitions that it does not name start at their beginning."""

    def read_range(self, ranges: Mapping[str, tuple[int, int]], n: int) -> list[Message]:
        """Read the `n` messages of `ranges` again, for a replay, and continue after them.

        `ranges` are the offsets [start, end) by partition. If messages are no longer retained,
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

    def rest(self) -> None:  # noqa: B027 - most sources hold no shared resources
        """Release shared resources until the next poll, as no more messages are available."""

    def close(self) -> None:  # noqa: B027 - most sources hold nothing
        """Release all resources; a second call does nothing."""


class SinglePartitionSource(Source):
    """Source with one partition, `PARTITION`.

    Attributes
    ----------
    where : name of the input in errors
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self._next = 0

    def position(self) -> Position:
        """Return the offset of the next message."""
        return {PARTITION: self._next}

    def seek(self, position: Position) -> None:
        """Continue at the offset in `position`."""
        unknown = sorted(set(position) - {PARTITION})
        if unknown:
            raise ConnectorError(
                f"{self.where} has one partition, {PARTITION!r}; the position names {unknown[0]!r}"
            )
        self._move(position.get(PARTITION, 0))

    def _move(self, offset: int) -> None:
        """Continue at `offset`."""
        self._next = offset


class Sink(ABC):
    """Output to which messages are appended in order."""

    @abstractmethod
    def write(self, payloads: Sequence[bytes]) -> None:
        """Append `payloads`, possibly `ForwardedPayloads`; `flush` makes them durable."""

    @abstractmethod
    def flush(self) -> None:
        """Block until written payloads are durable (fsync, commit or broker acknowledgement)."""

    def close(self) -> None:  # noqa: B027 - most sinks hold nothing
        """Release all resources and drop unflushed payloads; a second call does nothing."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Newest batch that a transaction has committed."""

    sequence: int
    positions: dict[str, Position]


class Transaction(ABC):
    """Commits the writes of a batch and the positions of its sources atomically."""

    _unbound = (0, 0)
    """A batch, and how many of its writes to unbound sinks are done."""

    def fence(self) -> None:  # noqa: B027 - not needed if a lock on the state is enough
        """Fence off earlier processes: their commits are refused from now on."""

    @property
    def identity(self) -> str | None:
        """Stable id of the journal (for Kafka, the topic id), or None; recreation changes it."""
        return None

    @abstractmethod
    def committed(self) -> Committed | None:
        """Return the newest committed batch, or None before the first."""

    @abstractmethod
    def commit(
        self,
        sequence: int,
        writes: Sequence[tuple[Sink, Sequence[bytes]]],
        positions: Mapping[str, Position],
        journal: bytes,
    ) -> None:
        """Commit batch `sequence`: its writes, its sources' positions, its journal entry.

        Sinks that do not belong to the transaction are written and flushed before the commit
        (at least once). Only another process writes these payloads twice: this object skips sinks
        that it has flushed for a batch whose commit failed.
        """

    @abstractmethod
    def journal(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield sequence and journal entry of every retained batch after batch `after`."""

    @abstractmethod
    def enlists(self, sink: Sink) -> bool:
        """Return whether writes to `sink` are part of the transaction."""

    def write_non_transactional(
        self, sequence: int, writes: Sequence[tuple[Sink, Sequence[bytes]]]
    ) -> None:
        """Write and flush the unbound sinks, except sinks that an earlier call has flushed."""
        batch, done = self._unbound
        done = done if batch == sequence else 0
        unbound = [write for write in writes if not self.enlists(write[0])]
        for sink, payloads in unbound[done:]:
            write_directly(sink, payloads)
            done += 1
            self._unbound = sequence, done

    def close(self) -> None:  # noqa: B027 - most transactions hold nothing
        """Release all resources; a second call does nothing."""


def write_directly(sink: Sink, payloads: Sequence[bytes]) -> None:
    """Write and flush to a sink outside of the transaction; on failure, drop for a retry."""
    try:
        sink.write(payloads)
        sink.flush()
    except BaseException:
        sink.close()  # a retry of the commit writes the same payloads again
        raise
