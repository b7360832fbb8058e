"""Window sizes, and the clocks that measure windows.

The clocks are a record count with the processing time, and a clock that pauses during a backlog or
a stop."""

import re
from dataclasses import dataclass
from typing import NamedTuple

_MILLISECONDS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class RecordCountAndBatchTime(NamedTuple):
    """Position in a stream: the number of records so far, and the processing time.

    This is not the stream time of Kafka Streams, which is an event time."""

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

    def has_elapsed(self, since: RecordCountAndBatchTime, now: RecordCountAndBatchTime) -> bool:
        """Return whether a window that began at `since` has ended at `now`."""
        if self.records is not None:
            return now.records - since.records >= self.records
        return now.batch_time_ms - since.batch_time_ms >= (self.milliseconds or 0)

    def end_time_ms(self, since: RecordCountAndBatchTime) -> int | None:
        """Return the processing time in ms at which a window that began at `since` ends.

        Returns None if the window counts records.
        """
        return None if self.milliseconds is None else since.batch_time_ms + self.milliseconds


@dataclass(slots=True)
class PausableClock:
    """Clock that pauses while a backlog is read or the pipeline is stopped.

    Windows that this clock measures do not end during a pause. `active_time` is the record count
    and the processing time without pauses.
    """

    active_time: RecordCountAndBatchTime
    advanced_at: RecordCountAndBatchTime
    """Time at the newest `advance`, including pauses."""

    def advance(
        self, now: RecordCountAndBatchTime, *, records_advance: bool, time_advances: bool
    ) -> None:
        """Advance to `now`.

        Without `records_advance` or `time_advances`, the record count or the time pauses.
        """
        self.active_time = RecordCountAndBatchTime(
            self.active_time.records + records_advance * (now.records - self.advanced_at.records),
            self.active_time.batch_time_ms
            + time_advances * (now.batch_time_ms - self.advanced_at.batch_time_ms),
        )
        self.advanced_at = now

    def active_time_at(self, now: RecordCountAndBatchTime) -> RecordCountAndBatchTime:
        """Return the record count and time at `now`, without pauses.

        The call must come before `advance(now)`.
        """
        return RecordCountAndBatchTime(
            self.active_time.records + now.records - self.advanced_at.records,
            self.active_time.batch_time_ms,
        )
