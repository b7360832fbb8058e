"""The contracts every connector keeps: source, sink, transaction."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from streamboost.errors import ConnectorError

__all__ = [
    "PARTITION",
    "Carried",
    "Committed",
    "Following",
    "Message",
    "Position",
    "SinglePartitionSource",
    "Sink",
    "Source",
    "Transaction",
    "write_outside",
]

_PAGE = 1000

PARTITION = "0"
"""What the one partition is called where there is but one."""

Position = dict[str, int]
"""For each partition of a source, the offset of the next message: where reading goes on."""


class Carried(NamedTuple):
    """What a message bears beside its payload, called as in `Message`."""

    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    time: int | None = None


class Message(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """One message as it was read.

    `payload` may be cut short when the message is larger than the source was told to hold;
    `size` is the length in bytes it had where it came from. `time` is when it was written, in
    milliseconds since the epoch, where its source knows. `damage` says what keeps the message, and
    perhaps some after it, from being read: its payload is what could be had of it, often nothing.
    `is_row` says that it was a row of a table, in which null is an empty cell. `key` and `headers`
    are those of a topic; `name` is what the key says, where it is no text.
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


class Following(list[bytes]):
    """Payloads, each `about` a message whose key, headers and time a topic keeps with it."""

    def __init__(self, payloads: Iterable[bytes], about: Sequence[Message | Carried]) -> None:
        super().__init__(payloads)
        self.about = about


class Source(ABC):
    """Something that is polled, knows its position, and can be sent to one.

    After `source.seek(p)`, polling gives the same messages as when `source.position()` was `p`,
    as long as they are still kept. Of several partitions another one may come first then; `reread`
    gives the same whatever comes first.
    """

    @abstractmethod
    def poll(self, limit: int) -> list[Message]:
        """Read at most `limit` messages, by partition, then offset, and move past them.

        An empty list says that nothing is there now; it never waits for more than a moment.
        """

    @abstractmethod
    def position(self) -> Position:
        """Return the offset of the next message of each partition, not of the last one read."""

    @property
    def replays(self) -> bool:
        """Whether what was read can be read again, also by another process."""
        return True

    @property
    def is_open(self) -> bool:
        """Whether somebody holds it open, so that an empty poll is not its end for now."""
        return False

    @property
    def is_behind(self) -> bool:
        """Whether it knows of more than the newest poll gave.

        A poll that gave as much as it might leaves that open, too.
        """
        return False

    @property
    def identity(self) -> str | None:
        """What tells it from another of the same name that takes its place; None: nothing does."""
        return None

    @property
    def bookmark(self) -> str | None:
        """Identify the content that was read, if a position alone does not; None otherwise."""
        return None

    def expect(self, bookmark: str) -> None:  # noqa: B027 - most positions say it all
        """Read only the content that `bookmark` identifies, and what follows it; `seek` comes next.

        ConnectorError if another kind of source wrote the bookmark.
        """

    @property
    def gaps(self) -> Mapping[str, tuple[int, int]]:
        """The offsets [start, end) that were deleted unread and that the newest poll passed over.

        By partition.
        """
        return {}

    def lag(self) -> int | None:
        """Return how much is there to be read, in messages or bytes; None where nobody can tell."""
        return None

    def beginning(self) -> Position | None:
        """Return the first offset that is still there, by partition; None where all are."""
        return None

    def ends(self) -> Position | None:
        """Return the offset at which what can be read now ends, by partition; None: not told."""
        return None

    def note_ends(self, ends: Position) -> None:  # noqa: B027 - most know it themselves
        """Take note of what another of its kind has found `ends` to be."""

    @abstractmethod
    def seek(self, position: Position) -> None:
        """Go on from `position`; partitions it does not name start at their beginning."""

    def reread(self, ranges: Mapping[str, tuple[int, int]], n: int) -> list[Message]:
        """Read the `n` messages of `ranges` once more, and go on after them.

        `ranges` gives the offsets [start, end) by partition. Where some messages are gone, fewer
        are returned.
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

    def rest(self) -> None:  # noqa: B027 - most hold nothing that others would want
        """Hold nothing open until the next poll: there is no more for now."""

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Release what the source holds; calling it again does nothing."""


class SinglePartitionSource(Source):
    """A source of one partition, `PARTITION`.

    Attributes
    ----------
    where : what it reads, as its errors call it
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self._next = 0

    def position(self) -> Position:
        """Return the offset of the next message."""
        return {PARTITION: self._next}

    def seek(self, position: Position) -> None:
        """Go on from an offset."""
        unknown = sorted(set(position) - {PARTITION})
        if unknown:
            raise ConnectorError(
                f"{self.where} has one partition, {PARTITION!r}; the position names {unknown[0]!r}"
            )
        self._move(position.get(PARTITION, 0))

    def _move(self, offset: int) -> None:
        """Go on from `offset`."""
        self._next = offset


class Sink(ABC):
    """Something messages are written to, in order."""

    @abstractmethod
    def write(self, payloads: Sequence[bytes]) -> None:
        """Append `payloads`, perhaps `Following`; they need not be durable before `flush`."""

    @abstractmethod
    def flush(self) -> None:
        """Return once everything written is as durable as the system makes it."""

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Release what the sink holds, dropping what was not flushed; again, it does nothing."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The newest batch a transaction has made durable."""

    sequence: int
    positions: dict[str, Position]


class Transaction(ABC):
    """Binds what a batch writes and where its sources stand: all of it happens, or none."""

    _unbound = (0, 0)
    """A batch, and how many of its writes to sinks that are not bound are done."""

    def fence(self) -> None:  # noqa: B027 - where a lock on the state is enough, nothing is to do
        """Become the one who commits: from then on, whoever began before is refused."""

    @property
    def identity(self) -> str | None:
        """What tells its journal from another that takes its place; None: nothing does."""
        return None

    @abstractmethod
    def committed(self) -> Committed | None:
        """Return the newest durable batch, or None before the first."""

    @abstractmethod
    def commit(
        self,
        sequence: int,
        writes: Sequence[tuple[Sink, Sequence[bytes]]],
        positions: Mapping[str, Position],
        journal: bytes,
    ) -> None:
        """Make batch `sequence` durable: its writes, its sources' positions, its journal entry.

        Sinks that do not belong to the transaction are written and flushed before it commits:
        what they hold may be written twice, never lost. Only another process writes it twice: this
        object remembers, sink by sink, what it has flushed of a batch whose commit failed.
        """

    @abstractmethod
    def journal(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Give sequence and journal entry of every batch there still is after batch `after`."""

    @abstractmethod
    def binds(self, sink: Sink) -> bool:
        """Tell whether writes to `sink` are part of the transaction."""

    def write_unbound(self, sequence: int, writes: Sequence[tuple[Sink, Sequence[bytes]]]) -> None:
        """Write and flush what is not bound, but for what an earlier call for the batch has."""
        batch, done = self._unbound
        done = done if batch == sequence else 0
        unbound = [write for write in writes if not self.binds(write[0])]
        for sink, payloads in unbound[done:]:
            write_outside(sink, payloads)
            done += 1
            self._unbound = sequence, done

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Release what the transaction holds; calling it again does nothing."""


def write_outside(sink: Sink, payloads: Sequence[bytes]) -> None:
    """Write and flush what a transaction cannot bind, or drop it, for a commit that is retried."""
    try:
        sink.write(payloads)
        sink.flush()
    except BaseException:
        sink.close()  # another attempt at the commit brings the same payloads again
        raise
