"""Moments of a stream and spans between them, in records or in time."""

import re
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Lived", "Moment", "Span"]

_MILLISECONDS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Moment(NamedTuple):
    """A place in the stream: how many records have come, and the tick."""

    records: int
    tick: int
    """Milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Span:
    """So many records, or so many milliseconds: exactly one of the two is given."""

    records: int | None = None
    milliseconds: int | None = None

    @classmethod
    def parse(cls, value: object) -> "Span":
        """Read a number of records, or a time such as "30s", "15m", "2h" or "7d".

        >>> Span.parse(500), Span.parse("2h")
        (Span(records=500, milliseconds=None), Span(records=None, milliseconds=7200000))
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

    def over(self, since: Moment, now: Moment) -> bool:
        """Tell whether the span that began at `since` has ended at `now`."""
        if self.records is not None:
            return now.records - since.records >= self.records
        return now.tick - since.tick >= (self.milliseconds or 0)

    def end(self, since: Moment) -> int | None:
        """Return the tick at which the span ends; None where it is counted in records."""
        return None if self.milliseconds is None else since.tick + self.milliseconds


@dataclass(slots=True)
class Lived:
    """How far the stream has gone while everything there had been read.

    A span measured on `moment` does not run out while a backlog is read, or the pipeline is down.
    """

    moment: Moment
    counted: Moment
    """How far the stream itself has gone, counted or not."""

    def advance(self, now: Moment, *, records: bool, time: bool) -> None:
        """Go on to `now`, and count the records and the time that have passed since, or not."""
        self.moment = Moment(
            self.moment.records + records * (now.records - self.counted.records),
            self.moment.tick + time * (now.tick - self.counted.tick),
        )
        self.counted = now

    def at(self, now: Moment) -> Moment:
        """Return the moment of what came at `now`, in a batch that is not counted yet."""
        return Moment(self.moment.records + now.records - self.counted.records, self.moment.tick)
