"""Timestamp alignment of the records and labels streams while reading a backlog.

Labels are read up to the watermark: the timestamp of the newest record. Labels without timestamps
are read ahead, and wait for their records in the join. Two limits prevent a loss of labels:

- If half a join window of records was read without a label, labels are read alone, regardless of
  their timestamps, until their end or for `MOST_ALONE` labels. The count restarts when the labels
  have reached their end or, in all partitions, the watermark.
- If the pending labels of the join are at their limit, records are read alone.

Kafka Streams calls this timestamp synchronization (`max.task.idle.ms`). The journal has the offsets
that were read, so a replay needs no alignment.
"""

import math
from collections import deque
from collections.abc import Callable

from streamboost.connectors.base import Message, Position, Source

RECORDS_WITHOUT_LABELS = 5_000
"""Records that may be read without a label, if the join window is a duration."""

MOST_ALONE = 100_000
"""Maximum number of labels that are read alone before records are read again."""

TimeOf = Callable[[Message], float | None]
"""Returns the timestamp of a message in milliseconds since the epoch; None: no timestamp."""


class BufferedSource:
    """Source that returns messages up to a watermark, and buffers later messages.

    Parameters
    ----------
    source : the underlying source
    time_of : returns the timestamp of a message; a message without a timestamp counts as earlier
        than the watermark

    Attributes
    ----------
    watermark : milliseconds since the epoch
    """

    def __init__(self, source: Source, time_of: TimeOf) -> None:
        self.watermark = math.inf
        self._source = source
        self._time_of = time_of
        self._ahead: deque[Message] = deque()

    def poll(self, limit: int) -> list[Message]:
        """Return up to `limit` messages up to the watermark, sorted by partition, then offset.

        Messages after the watermark are buffered instead, and so are all messages that follow one
        of these in the same partition.
        """
        room = limit - len(self._ahead)
        came = self._source.poll(room) if room > 0 else []
        if self.watermark == math.inf and not self._ahead:
            return came
        given, kept, held = [], deque[Message](), set[str]()
        for message in (*self._ahead, *came):
            if message.partition in held or (self._time_of(message) or -math.inf) > self.watermark:
                held.add(message.partition)
                kept.append(message)
            else:
                given.append(message)
        self._ahead = kept
        return sorted(given, key=lambda m: (len(m.partition), m.partition, m.offset))

    def position(self) -> Position:
        """Return the offset of the next message that `poll` returns, keyed by partition."""
        position = self._source.position()
        for message in reversed(self._ahead):
            position[message.partition] = message.offset
        return position

    def seek(self, position: Position) -> None:
        """Drop the buffer, and continue at `position`."""
        self._ahead.clear()
        self._source.seek(position)

    @property
    def has_buffered_messages(self) -> bool:
        """Whether a message is buffered."""
        return bool(self._ahead)

    @property
    def is_caught_up_to_watermark(self) -> bool:
        """Whether all labels up to the watermark were read: each partition has a buffered label."""
        return {message.partition for message in self._ahead} >= self._source.position().keys()

    @property
    def has_more_messages(self) -> bool:
        """Whether more messages are available, buffered or unread."""
        return bool(self._ahead) or self._source.has_more_messages


class TimestampAligner:
    """Aligner that decides whether to poll records or labels, and sets the labels' watermark.

    Parameters
    ----------
    labels : BufferedSource
    time_of : returns the timestamp of a record
    max_records_without_labels : maximum number of records read without a label while labels are
        unread
    """

    def __init__(
        self, labels: BufferedSource, time_of: TimeOf, max_records_without_labels: int
    ) -> None:
        self._labels = labels
        self._time_of = time_of
        self._most = max_records_without_labels
        self._n_records = 0  # read since the labels were read up to the watermark or their end
        self._n_labels = 0  # read alone
        self._by_time = True
        self._newest = -math.inf

    def should_poll(self, source: str, *, has_room: bool) -> bool:
        """Return whether to poll `source` next; `has_room` is whether the join accepts labels."""
        if source == "labels":
            return has_room
        return source != "records" or not has_room or self._n_records < self._most

    def on_labels_not_polled(self) -> None:
        """Reset the count of records without labels.

        Called when the labels are not polled because the join has no space for them: these records
        do not count towards `max_records_without_labels`."""
        self._n_records = 0

    def observe(self, source: str, messages: list[Message], *, has_more_messages: bool) -> None:
        """Update the watermark and the counts from the messages of a poll.

        `has_more_messages` is whether the source has more messages.
        """
        if source == "records":
            self._n_records += len(messages)
            self._by_time = self._by_time and self._n_records < self._most
            if messages:
                self._newest = max(self._newest, self._time_of(messages[-1]) or -math.inf)
            has_times = has_more_messages and self._by_time and self._newest > -math.inf
            self._labels.watermark = self._newest if has_times else math.inf
        elif source == "labels":
            if not has_more_messages:
                self._n_records, self._n_labels, self._by_time = 0, 0, True
            elif (
                messages
                and self._labels.watermark < math.inf
                and self._labels.is_caught_up_to_watermark
            ):
                self._n_records = 0
            self._n_labels += len(messages) if self._n_records >= self._most else 0
            if self._n_labels >= MOST_ALONE:
                self._n_records = self._n_labels = 0

    def subtract_rolled_back_records(self, n_records: int) -> None:
        """Subtract records of a poll that was rolled back from the count of records without labels.

        A poll is rolled back if another source fails.
        """
        self._n_records = max(self._n_records - n_records, 0)
