"""Stream time, window sizes in records or time, and a clock that pauses during backlogs."""

import re
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["PausableClock", "StreamTime", "WindowSize"]

_MILLISECONDS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class StreamTime(NamedTuple):
    """Time of the stream: the number of records so far, and the processing time."""

    records: int
    batch_time_ms: int
    """Milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class WindowSize:
    """Size of a sliding window: a number of records, or a duration in milliseconds, not both."""

    records: int | None = None
    milliseconds: int | None = None

    @classmethod
    def parse(cls, value: object) -> "WindowSize":
        """Parse a number of records, or a duration such as "30s", "15m", "2h" or "7d".

        >>> WindowSize.parse(500), WindowSize.parse("2h")
        (WindowSize(records=500, milliseconds=None), WindowSize(records=None, milliseconds=7200000))
        """
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return cls(records=value)
        match = re.fullmatch(r"([1-9][0-9]*)([smhd])", value) if isinstance(value, str) else None
        if match is None:
            raise ValueError(
                'must be a number of records such as 500, or a time such as "30s", "15m" or "7d"'
            )
        return cls(milliseconds=int(match[1]) * _MILLISECONDS[match[2]])

    def __str__(self) -> str:
        if self.records is not None:
            return f"{self.records} records"
        return f"{(self.milliseconds or 0) / 1000:g} seconds"

    def has_elapsed(self, since: StreamTime, now: StreamTime) -> bool:
        """Return whether a window that began at `since` has ended at `now`."""
        if self.records is not None:
            return now.records - since.records >= self.records
        return now.batch_time_ms - since.batch_time_ms >= (self.milliseconds or 0)

    def end_time_ms(self, since: StreamTime) -> int | None:
        """Return the processing time in ms at which a window that began at `since` ends.

        Returns None if the window counts records.
        """
        return None if self.milliseconds is None else since.batch_time_ms + self.milliseconds


@dataclass(slots=True)
class PausableClock:
    """Clock of stream time that pauses while a backlog is read or the pipeline is stopped.

    `stream_start` is the time of this clock. Windows measured by it do not end during a pause.
    """

    stream_start: StreamTime
    start: StreamTime
    """Stream time at the newest `advance`, including pauses."""

    def advance(self, now: StreamTime, *, records: bool, time: bool) -> None:
        """Advance to `now`.

        Without `records`, the number of records pauses. Without `time`, the processing time pauses.
        """
        self.stream_start = StreamTime(
            self.stream_start.records + records * (now.records - self.start.records),
            self.stream_start.batch_time_ms + time * (now.batch_time_ms - self.start.batch_time_ms),
        )
        self.start = now

    def stream_time_at(self, now: StreamTime) -> StreamTime:
        """Return the stream time of an event at `now`, with pauses left out.

        The call must come before `advance(now)`.
        """
        return StreamTime(
            self.stream_start.records + now.records - self.start.records,
            self.stream_start.batch_time_ms,
        )
