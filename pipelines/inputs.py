"""What enters a batch."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from streamboost.connectors.base import Message, Position, Source
from streamboost.errors import ConnectorError, GapError
from streamboost.pipelines.commands import Command, decode_commands

__all__ = ["Inputs", "Intake", "Ranges", "wall_clock"]

_log = logging.getLogger(__name__)

_PAGE = 1000
_READ = ("records", "labels", "bootstrap")

Ranges = dict[str, dict[str, tuple[int, int]]]
"""For each source and partition, the offsets [start, end) that a batch read."""


def wall_clock() -> int:
    """Return the milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Inputs:
    """One batch, complete: what a step works on, live or replayed.

    Messages stand in canonical order: by partition, then offset. `bootstrap` are records with
    their labels, known beforehand: a batch of them has no others.
    """

    tick: int
    ranges: Ranges
    records: list[Message]
    labels: list[Message]
    commands: list[Command] = field(default_factory=list)
    bootstrap: list[Message] = field(default_factory=list)

    def count(self) -> dict[str, int]:
        """Return how many messages there are of each kind that a replay reads again."""
        counts = {name: len(getattr(self, name)) for name in _READ}
        return {name: n for name, n in counts.items() if n or name != "bootstrap"}


class Intake:
    """Polls the records, then the labels and commands, and knows where each stands.

    What is known beforehand comes first: nothing else is read while there is some of it.

    Parameters
    ----------
    records, labels : the two sources
    commands : the queue of commands; None where nobody gives any
    bootstrap : records with their labels, known beforehand; None where none are
    most_records, most_labels : how many messages of each a batch holds at most
    clock : gives the tick, in milliseconds
    timer : gives seconds that never go back, from anywhere
    """

    def __init__(
        self,
        records: Source,
        labels: Source,
        commands: Source | None = None,
        bootstrap: Source | None = None,
        *,
        most_records: int,
        most_labels: int,
        clock: Callable[[], int] = wall_clock,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = {} if bootstrap is None else {"bootstrap": (bootstrap, most_labels)}
        self._sources |= {"records": (records, most_records), "labels": (labels, most_labels)}
        if commands is not None:
            self._sources["commands"] = (commands, _PAGE)
        self._clock = clock
        self._timer = timer
        self.last_tick = 0
        self.came: dict[str, int] = {}

    @property
    def last_tick(self) -> int:
        """The tick of the newest batch."""
        return self._last_tick

    @last_tick.setter
    def last_tick(self, tick: int) -> None:
        self._last_tick, self._ticked = tick, self._timer()

    @property
    def sources(self) -> dict[str, Source]:
        """The sources by name."""
        return {name: source for name, (source, _) in self._sources.items()}

    @property
    def is_open(self) -> bool:
        """Whether a source is held open, so that more may come although nothing is there."""
        return any(source.is_open for source in self.sources.values())

    def poll(self) -> Inputs | None:
        """Return the next batch, or None when nothing is there.

        When a source fails, all are where they were.
        """
        ranges: Ranges = {}
        messages: dict[str, list[Message]] = {}
        tick = self._tick()
        starts = self.positions()
        try:
            for name, (source, limit) in self._sources.items():
                if messages.get("bootstrap"):
                    break
                messages[name] = source.poll(limit)
                ranges[name] = {
                    partition: (starts[name].get(partition, 0), offset)
                    for partition, offset in source.position().items()
                    if offset != starts[name].get(partition, 0)
                }
        except ConnectorError:
            self.seek(starts)
            raise
        self.came = {name: len(found) for name, found in messages.items()}
        if not any(messages.values()):
            return None
        self.last_tick = tick
        commands = decode_commands(messages.get("commands", []), refuse)
        parts = {name: messages.get(name, []) for name in _READ}
        return Inputs(tick, ranges, commands=commands, **parts)

    def empty(self) -> Inputs:
        """Return a batch of nothing, for what is to be done between two others."""
        self.last_tick = self._tick()
        ranges: Ranges = {name: {} for name in self._sources}
        return Inputs(self.last_tick, ranges, [], [])

    def _tick(self) -> int:
        """Return the clock's reading, but never less than the last tick.

        After a clock was set back, the tick goes on from there at half the speed until the clock
        has caught up: what expires is late then, but not by all that the clock was wrong.
        """
        passed = int((self._timer() - self._ticked) * 1_000)
        return max(self._clock(), self._last_tick + passed // 2)

    def reread(self, inputs: Inputs, read: Mapping[str, int]) -> Inputs:
        """Return a batch that was read before, given all of it but its messages.

        Parameters
        ----------
        inputs : what the journal says of the batch
        read : how many records and labels it had

        Raises
        ------
        GapError
            When a source does not give them any more.
        """
        messages = {}
        for name, source in self.sources.items():
            if name not in _READ:
                continue
            n = read.get(name, 0)
            if n and not source.replays:
                raise GapError(f"{name}: what came by standard input cannot be read again")
            messages[name] = _read(source, name, inputs.ranges.get(name, {}), n)
        if "commands" in self._sources:  # the journal has the commands themselves
            _move(self._sources["commands"][0], inputs.ranges.get("commands", {}))
        self.last_tick = inputs.tick
        return Inputs(inputs.tick, inputs.ranges, commands=inputs.commands, **messages)

    def positions(self) -> dict[str, Position]:
        """Return where each source goes on."""
        return {name: source.position() for name, (source, _) in self._sources.items()}

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Send each source to where a committed batch left it."""
        for name, (source, _) in self._sources.items():
            source.seek(positions.get(name, {}))


def refuse(command: str, error: Exception) -> None:
    """Say that a command has no effect."""
    _log.error("the command %s is not obeyed: %s", command, error)


def _read(
    source: Source, name: str, ranges: Mapping[str, tuple[int, int]], n: int
) -> list[Message]:
    """Return the `n` messages of `ranges`, and leave the source at their end."""
    try:
        found = source.reread(ranges, n)
    except ConnectorError as error:
        if error.retriable:
            raise
        raise GapError(f"{name}: {error}") from error
    if len(found) != n:
        places = "; ".join(f"partition {p}, offsets {a} to {b}" for p, (a, b) in ranges.items())
        raise GapError(
            f"of the {n} {name} that a batch read ({places}), {len(found)} are left: put the "
            "others back"
        )
    return found


def _move(source: Source, ranges: Mapping[str, tuple[int, int]]) -> None:
    """Send `source` to the end of `ranges`."""
    source.seek(source.position() | {partition: end for partition, (_, end) in ranges.items()})
