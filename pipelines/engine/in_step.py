"""Reading a backlog of records and labels in step, so that neither runs away from the other.

Whoever starts on streams that are already there, or was down for a while, finds both full. Labels
are then read no further than the newest record's time, where both bear times; without times they
are read ahead, and wait for their records. Two things end that rule, as labels would be lost by
it. When half a join window of records has passed since the labels were read to their end, or all
partitions of them up to the records' time, labels are read alone, whatever their times, until
there are no more. And when the room is full in which they wait, records are read alone.

What was read is journalled, so that a replay needs nothing of this.
"""

import math
from collections import deque
from collections.abc import Callable

from streamboost.connectors.base import Message, Position, Source

__all__ = ["APART", "HeldBack", "InStep", "TimeOf"]

APART = 5_000
"""Records that may pass without a label, where the join window does not count records."""

MOST_ALONE = 100_000
"""Labels that are read alone before records have their turn again."""

TimeOf = Callable[[Message], float | None]
"""Gives the time of a message in milliseconds since the epoch; None where it bears none."""


class HeldBack:
    """Gives what `source` gives, but nothing that is from later than `until`.

    Parameters
    ----------
    source : what is read
    time_of : gives a message's time; what bears none is never held back

    Attributes
    ----------
    until : milliseconds since the epoch
    """

    def __init__(self, source: Source, time_of: TimeOf) -> None:
        self.until = math.inf
        self._source = source
        self._time_of = time_of
        self._ahead: deque[Message] = deque()

    def poll(self, limit: int) -> list[Message]:
        """Read at most `limit` messages; of each partition, what follows one held back is, too."""
        room = limit - len(self._ahead)
        came = self._source.poll(room) if room > 0 else []
        if self.until == math.inf and not self._ahead:
            return came
        given, kept, held = [], deque[Message](), set[str]()
        for message in (*self._ahead, *came):
            if message.partition in held or (self._time_of(message) or -math.inf) > self.until:
                held.add(message.partition)
                kept.append(message)
            else:
                given.append(message)
        self._ahead = kept
        return sorted(given, key=lambda m: (len(m.partition), m.partition, m.offset))

    def position(self) -> Position:
        """Return the offset of the next message of each partition that is to be given."""
        position = self._source.position()
        for message in reversed(self._ahead):
            position[message.partition] = message.offset
        return position

    def seek(self, position: Position) -> None:
        """Go on from `position`."""
        self._ahead.clear()
        self._source.seek(position)

    @property
    def holds(self) -> bool:
        """Whether a message is held back."""
        return bool(self._ahead)

    @property
    def has_reached(self) -> bool:
        """Whether each partition holds back its next message."""
        return {message.partition for message in self._ahead} >= self._source.position().keys()

    @property
    def is_behind(self) -> bool:
        """Whether there is more, held back or not read yet."""
        return bool(self._ahead) or self._source.is_behind


class InStep:
    """Says which of the two is read next, and up to what time the labels are.

    Parameters
    ----------
    labels : HeldBack
    time_of : gives a record's time
    apart : records that may pass without a label while there are labels to be read
    """

    def __init__(self, labels: HeldBack, time_of: TimeOf, apart: int) -> None:
        self._labels = labels
        self._time_of = time_of
        self._apart = apart
        self._alone = 0  # records since the labels were read as far as they were to be
        self._labels_alone = 0
        self._by_time = True
        self._newest = -math.inf

    def lets(self, name: str, *, room: bool) -> bool:
        """Tell whether source `name` is to be read now; `room` is whether labels may wait."""
        if name == "labels":
            if not room:
                self._alone = 0
            return room
        return name != "records" or not room or self._alone < self._apart

    def came(self, name: str, messages: list[Message], *, behind: bool) -> None:
        """Take note of what a source gave, and whether it has more."""
        if name == "records":
            self._alone += len(messages)
            self._by_time = self._by_time and self._alone < self._apart
            if messages:
                self._newest = max(self._newest, self._time_of(messages[-1]) or -math.inf)
            has_times = behind and self._by_time and self._newest > -math.inf
            self._labels.until = self._newest if has_times else math.inf
        elif name == "labels":
            if not behind:
                self._alone, self._labels_alone, self._by_time = 0, 0, True
            elif messages and self._labels.until < math.inf and self._labels.has_reached:
                self._alone = 0
            self._labels_alone += len(messages) if self._alone >= self._apart else 0
            if self._labels_alone >= MOST_ALONE:
                self._alone = self._labels_alone = 0

    def take_back(self, n_records: int) -> None:
        """Forget records that were read and not taken, as another source failed."""
        self._alone = max(self._alone - n_records, 0)
