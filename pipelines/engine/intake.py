"""What enters a batch."""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, Protocol

from streamboost.connectors.base import Message, Position, Source
from streamboost.errors import DeletedError, GapError
from streamboost.pipelines.engine.batch import READ, Inputs
from streamboost.pipelines.engine.in_step import APART, HeldBack, InStep, TimeOf
from streamboost.pipelines.state.commands import decode_commands
from streamboost.pipelines.state.journal import JOINED, Ranges

__all__ = ["Intake", "wall_clock"]

_log = logging.getLogger(__name__)

_PAGE = 1000


def wall_clock() -> int:
    """Return the milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class _Reader(Protocol):
    """What a source is polled by."""

    def poll(self, limit: int) -> list[Message]: ...
    def position(self) -> Position: ...
    def seek(self, position: Position) -> None: ...
    @property
    def is_behind(self) -> bool: ...


class Intake:
    """Polls the records, then the labels and commands, and knows where each stands.

    What is known beforehand comes first: nothing else is read while there is some of it. Records
    and labels are read in step (see `in_step`).

    Parameters
    ----------
    records, labels : the two sources
    commands : the queue of commands; None where nobody gives any
    bootstrap : records with their labels, known beforehand; None where none are
    most_records, most_labels : how many messages of each a batch holds at most
    clock : gives the tick, in milliseconds
    timer : gives seconds that never go back, from anywhere
    record_time, label_time : give a message's time; by default, when it was written, if its source
        says so
    apart : records that may pass without a label while there are labels to be read

    Attributes
    ----------
    came : how many messages the newest poll brought, by source; those not polled are not in it
    short : the sources whose newest poll brought all that they gave, and less than it might
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
        record_time: TimeOf = attrgetter("time"),
        label_time: TimeOf = attrgetter("time"),
        apart: int = APART,
    ) -> None:
        self.sources = {} if bootstrap is None else {"bootstrap": bootstrap}
        self.sources |= {"records": records, "labels": labels}
        if commands is not None:
            self.sources["commands"] = commands
        # What cannot be read again must not be held back either.
        self._held = HeldBack(labels, label_time if labels.replays else _no_time)
        self._readers: dict[str, _Reader] = self.sources | {"labels": self._held}
        self._limits = {"records": most_records, "commands": _PAGE}
        self._limits |= dict.fromkeys(("labels", "bootstrap"), most_labels)
        self._in_step = InStep(self._held, record_time, apart)
        self._clock = clock
        self._timer = timer
        self.last_tick = 0
        self.came: dict[str, int] = {}
        self.short: set[str] = set()
        self._caught_up = set(JOINED)
        self._resumed = True
        self._journalled: dict[str, str] = {}

    @property
    def last_tick(self) -> int:
        """The tick of the newest batch."""
        return self._last_tick

    @last_tick.setter
    def last_tick(self, tick: int) -> None:
        self._last_tick, self._ticked = tick, self._timer()

    @property
    def is_open(self) -> bool:
        """Whether more may come although nothing is there.

        Somebody holds a source open, labels are held back, or records were, while labels were read.
        """
        waits = self._held.holds or "records" not in self.came
        return waits or any(source.is_open for source in self.sources.values())

    def poll(self, *, room: bool = True) -> Inputs | None:
        """Return the next batch, or None when nothing is there.

        When a source fails, all are where they were. Without `room` for labels that wait for their
        records, none are read.
        """
        tick, starts = self._tick(), self.positions()
        before, self._caught_up = self._caught_up, set()
        messages: dict[str, list[Message]] = {}
        try:
            for name, reader in self._readers.items():
                if messages.get("bootstrap"):
                    break
                if self._in_step.lets(name, room=room):
                    messages[name] = reader.poll(self._limits[name])
                    self._note(name, messages[name])
            ends = self.positions()
        except BaseException:
            self.seek(starts)
            self._in_step.take_back(len(messages.get("records", ())))
            self._resumed = True
            raise
        self.came = {name: len(found) for name, found in messages.items()}
        self.short = {name for name, n in self.came.items() if n < self._limits[name]}
        if self._held.holds:
            self.short.discard("labels")
        deleted = {name: dict(gaps) for name in messages if (gaps := self.sources[name].gaps)}
        if not any(messages.values()) and not deleted:
            self._caught_up |= before
            self._resumed = False
            for source in self.sources.values():
                source.rest()
            return None
        self.last_tick = tick
        return self._batch(
            _between(starts, ends, messages),
            before,
            commands=decode_commands(messages.get("commands", []), refuse),
            deleted=deleted,
            **{name: messages.get(name, []) for name in READ},
        )

    def _note(self, name: str, found: list[Message]) -> None:
        """Take note of what a source gave, and whether that was all there was."""
        behind = len(found) == self._limits[name] or self._readers[name].is_behind
        self._in_step.came(name, found, behind=behind)
        if name in JOINED and not behind:
            self._caught_up.add(name)

    def empty(self) -> Inputs:
        """Return a batch of nothing, for what is to be done between two others."""
        self.last_tick = self._tick()
        before, self._caught_up = self._caught_up, set()
        return self._batch({name: {} for name in self.sources}, before, records=[], labels=[])

    def _batch(self, ranges: Ranges, caught_up: set[str], **parts: Any) -> Inputs:
        resumed, self._resumed = self._resumed, False
        known = JOINED if caught_up == set(JOINED) else sorted(caught_up)
        now, before = self.bookmarks(), self._journalled
        self._journalled = now
        changed = {name: mark for name, mark in now.items() if mark != before.get(name)}
        return Inputs(
            self.last_tick, ranges, caught_up=known, resumed=resumed, bookmarks=changed, **parts
        )

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
        self.expect(inputs.bookmarks)
        messages = {}
        for name, source in self.sources.items():
            if name not in READ:
                continue
            n = read.get(name, 0)
            if n and not source.replays:
                raise GapError(f"{name}: what came by standard input cannot be read again")
            ranges = _without(inputs.ranges.get(name, {}), inputs.deleted.get(name, {}))
            messages[name] = _read(source, name, ranges, n)
        if "commands" in self.sources:  # the journal has the commands themselves
            _move(self.sources["commands"], inputs.ranges.get("commands", {}))
        self.last_tick = inputs.tick
        return replace(
            inputs,
            records=messages["records"],
            labels=messages["labels"],
            bootstrap=messages.get("bootstrap", []),
        )

    def positions(self) -> dict[str, Position]:
        """Return where each source goes on."""
        return {name: reader.position() for name, reader in self._readers.items()}

    def identities(self) -> dict[str, str]:
        """Return what tells each source from another of its name, where something does."""
        found = {name: source.identity for name, source in self.sources.items()}
        return {name: identity for name, identity in found.items() if identity is not None}

    def bookmarks(self) -> dict[str, str]:
        """Return what identifies the content that each source has read, where something does."""
        found = {name: source.bookmark for name, source in self.sources.items()}
        return {name: bookmark for name, bookmark in found.items() if bookmark is not None}

    def expect(self, bookmarks: Mapping[str, str]) -> None:
        """Have sources read only the content that bookmarks identify, and what follows it."""
        for name, bookmark in bookmarks.items():
            if name in self.sources:
                self.sources[name].expect(bookmark)
        self._journalled |= bookmarks

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Send each source to where a committed batch left it."""
        for name, reader in self._readers.items():
            reader.seek(positions.get(name, {}))


def refuse(command: str, error: Exception) -> None:
    """Say that a command has no effect."""
    _log.error("the command %s is not obeyed: %s", command, error)


def _no_time(message: Message) -> None:
    """Give no message a time."""


def _between(
    starts: Mapping[str, Position], ends: Mapping[str, Position], read: Collection[str]
) -> Ranges:
    """Return the offsets [start, end) of the sources that were read, where they moved."""
    return {
        name: {
            partition: (starts[name].get(partition, 0), end)
            for partition, end in ends[name].items()
            if end != starts[name].get(partition, 0)
        }
        for name in read
    }


def _without(
    ranges: Mapping[str, tuple[int, int]], deleted: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Return `ranges` without what was deleted at their beginning."""
    return {p: (max(start, deleted.get(p, (0, 0))[1]), end) for p, (start, end) in ranges.items()}


def _read(
    source: Source, name: str, ranges: Mapping[str, tuple[int, int]], n: int
) -> list[Message]:
    """Return the `n` messages of `ranges`, and leave the source at their end."""
    try:
        found = source.reread(ranges, n)
    except DeletedError as error:
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
