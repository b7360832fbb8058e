"""What enters a batch."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from streamboost.connectors.base import Message, Position, Source
from streamboost.errors import ConnectorError

__all__ = ["Inputs", "Intake", "Ranges", "wall_clock"]

Ranges = dict[str, dict[str, tuple[int, int]]]
"""For each source and partition, the offsets [start, end) that a batch read."""


def wall_clock() -> int:
    """Return the milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Inputs:
    """One batch, complete: what a step works on, live or replayed.

    Messages stand in canonical order: by partition, then offset.
    """

    tick: int
    ranges: Ranges
    records: list[Message]
    labels: list[Message]


class Intake:
    """Polls the records, then the labels, and knows where both stand.

    Parameters
    ----------
    records, labels : the two sources
    most_records, most_labels : how many messages of each a batch holds at most
    clock : gives the tick, in milliseconds
    """

    def __init__(
        self,
        records: Source,
        labels: Source,
        *,
        most_records: int,
        most_labels: int,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        self._sources = {"records": (records, most_records), "labels": (labels, most_labels)}
        self._clock = clock
        self.last_tick = 0

    def poll(self) -> Inputs | None:
        """Return the next batch, or None when nothing is there.

        The tick never goes back, whatever the clock does: what expires is decided by it. When a
        source fails, both are where they were.
        """
        ranges: Ranges = {}
        messages: dict[str, list[Message]] = {}
        tick = max(self._clock(), self.last_tick)
        starts = self.positions()
        try:
            for name, (source, limit) in self._sources.items():
                messages[name] = source.poll(limit)
                ranges[name] = {
                    partition: (starts[name].get(partition, 0), offset)
                    for partition, offset in source.position().items()
                    if offset != starts[name].get(partition, 0)
                }
        except ConnectorError:
            self.seek(starts)
            raise
        if not any(messages.values()):
            return None
        self.last_tick = tick
        return Inputs(tick, ranges, **messages)

    def positions(self) -> dict[str, Position]:
        """Return where each source goes on."""
        return {name: source.position() for name, (source, _) in self._sources.items()}

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Send each source to where a committed batch left it."""
        for name, (source, _) in self._sources.items():
            source.seek(positions.get(name, {}))
