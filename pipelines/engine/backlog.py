"""How far behind a pipeline is, and whether a restart could still read what it needs.

The sources are asked beside the loop, in a thread with connections of its own: a broker may take
its time to answer.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple

from streamboost.connectors.base import Position, Source
from streamboost.errors import ConnectorError, StreamBoostError
from streamboost.pipelines.engine.intake import Intake

__all__ = ["EVERY", "PATIENCE", "Backlog", "OpenSources", "lag_of"]

_log = logging.getLogger(__name__)

EVERY = 10.0
"""Seconds from what the sources answered to the next look at them."""

_CLOSING = 1.0
"""Seconds to wait at the end for a look that is under way."""

PATIENCE = 30.0
"""Seconds for which a partition may give nothing of what it has, before it is opened anew."""

_IN_TURN = 10
"""Partitions that surely have their turn within that time; with more, it takes longer."""

_NEAR = 0.8
"""Of all that a source still holds behind the pipeline, the share that a replay may need before
somebody is warned: its retention is about to overtake the oldest checkpoint."""

OpenSources = Callable[[], Mapping[str, Source]]


class Backlog:
    """Looks at the sources now and then, and warns when something is amiss.

    Parameters
    ----------
    intake : the sources, as the loop polls them
    open_sources : makes them once more by their names, for a thread to ask; None: nobody asks
    clock : gives seconds that never go back

    Attributes
    ----------
    lag : what there is to be read, by source, where it can tell: messages; bytes of a file of lines
    stalled : the sources whose lag grew while they gave nothing
    margin : offsets that a source holds beyond what the oldest checkpoint needs; below 0, some of
        those needed are gone
    """

    def __init__(
        self,
        intake: Intake,
        open_sources: OpenSources | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lag: dict[str, int] = {}
        self.stalled: set[str] = set()
        self.margin: dict[str, int] = {}
        self._intake = intake
        self._open_sources = open_sources
        self._clock = clock
        self._asker: _Asker | None = None
        self._is_asking = False
        self._answered = -math.inf
        self._silent: dict[str, bool] = {}
        self._short: dict[str, bool] = {}
        self._gave: dict[str, tuple[int, float]] = {}  # the lag when it last did, and the time
        self._warned: set[str] = set()
        # The partitions that gave nothing of what they had, where they stood, and since when.
        self._stuck: dict[tuple[str, str], tuple[int, float]] = {}

    def turn(self, oldest: Mapping[str, Position] | None) -> None:
        """Take note of the poll just made; have the sources asked if it is time, and never wait.

        `oldest` is where the sources stood at the oldest checkpoint, None where there is none.
        """
        for name, n in self._intake.came.items():
            # Labels may be held back until their records come: their source is not silent then.
            is_silent = not n and name in self._intake.short
            self._silent[name] = self._silent.get(name, True) and is_silent
            self._short[name] = self._short.get(name, True) and name in self._intake.short
        if self._is_asking:
            self._take_answer(oldest or {})
        elif self._clock() - self._answered >= EVERY and self._open_sources is not None:
            self._asker = self._asker or _Asker(self._open_sources)
            self._asker.places.put((self._intake.positions(), self._intake.bookmarks()))
            self._is_asking = True

    def close(self) -> None:
        """Look once more, as what was read since the last look is no lag; end the thread.

        That is waited for, but not for long.
        """
        if self._asker is not None:
            self._asker.places.put((self._intake.positions(), self._intake.bookmarks()))
            self._asker.close(_CLOSING)
            while not self._asker.answers.empty():
                self._take_answer({})
        self._asker, self._is_asking = None, False

    def _take_answer(self, oldest: Mapping[str, Position]) -> None:
        assert self._asker is not None
        try:
            answer = self._asker.answers.get_nowait()
        except Empty:
            return
        for name, found in answer.items():
            if found.lag is not None:
                self._judge_silence(name, found.lag)
            if found.ends is not None:
                self._intake.sources[name].note_ends(found.ends)
                self._judge_partitions(name, found.ends)
            if name in oldest and found.beginning is not None:
                self._judge_retention(name, found.beginning, oldest[name])
        lags = {name: found.lag for name, found in answer.items() if found.lag is not None}
        self.lag = lags  # as a whole: another thread may be reading it
        self._is_asking, self._answered = False, self._clock()
        self._silent, self._short = {}, {}

    def _judge_silence(self, name: str, lag: int) -> None:
        silent, now = self._silent.get(name), self._clock()
        if not silent:
            self._gave[name] = (lag, now)
            if silent is False and name in self.stalled:
                self.stalled.discard(name)
                _log.info("%s: messages come again", name)
            return
        before, then = self._gave.setdefault(name, (lag, now))
        # What came only now may not have been polled yet: something must have been there before.
        if lag > before and self.lag.get(name) and name not in self.stalled:
            self.stalled.add(name)
            _log.warning(
                "%s: %d messages are there, %d more than %.0f s ago, but none is given: see "
                "whether what writes them ends its transactions, and the source can be reached",
                name,
                lag,
                lag - before,
                now - then,
            )

    def _judge_partitions(self, name: str, ends: Position) -> None:
        """Open a source anew that gave all it could, and nothing of a partition for too long."""
        source, now = self._intake.sources[name], self._clock()
        if not self._short.get(name):  # its turn may be still to come, or it was not polled
            self._stuck = {key: at for key, at in self._stuck.items() if key[0] != name}
            return
        places = source.position()
        patience = PATIENCE * max(len(places) / _IN_TURN, 1.0)
        for partition, place in places.items():
            key = (name, partition)
            before, since = self._stuck.get(key, (-1, now))
            if place >= ends.get(partition, 0):
                self._stuck.pop(key, None)
            elif place != before:
                self._stuck[key] = (place, now)
            elif now - since >= patience:
                _log.warning(
                    "%s: partition %s stands at offset %d, has messages up to %d, and has given "
                    "none for %.0f s: it is opened anew",
                    name,
                    partition,
                    place,
                    ends[partition],
                    now - since,
                )
                source.close()
                self._stuck = {}
                return

    def _judge_retention(self, name: str, beginning: Position, oldest: Position) -> None:
        place = self._intake.positions()[name]
        common = beginning.keys() & oldest.keys() & place.keys()
        margins = {p: oldest[p] - beginning[p] for p in common}
        if not margins:
            return
        self.margin = self.margin | {name: min(margins.values())}
        near = [
            p
            for p in sorted(common)
            if beginning[p] > 0 and place[p] - oldest[p] > _NEAR * (place[p] - beginning[p])
        ]
        if not near:
            self._warned.discard(name)
        elif name not in self._warned:
            self._warned.add(name)
            first = min(near, key=margins.__getitem__)
            _log.warning(
                "%s: partition %s begins at offset %d now, and a restart from the oldest "
                "checkpoint reads on from %d: keep messages for longer, or take checkpoints more "
                "often ([pipeline] checkpoint_every)",
                name,
                first,
                beginning[first],
                oldest[first],
            )


_Places = tuple[Mapping[str, Position], Mapping[str, str]]


class _Seen(NamedTuple):
    """What a source answered; None where it cannot tell, or could not be asked."""

    lag: int | None
    beginning: Position | None
    ends: Position | None


class _Asker:
    """Asks sources in a thread of its own, which makes them, uses them alone, and closes them.

    Attributes
    ----------
    places : takes the positions and bookmarks of the sources, by name, for one look each
    answers : gives what was seen
    """

    def __init__(self, open_sources: OpenSources) -> None:
        self.places: SimpleQueue[_Places | None] = SimpleQueue()
        self.answers: SimpleQueue[dict[str, _Seen]] = SimpleQueue()
        self._open_sources = open_sources
        self._has_failed = False
        self._thread = Thread(target=self._run, name="streamboost-lag", daemon=True)
        self._thread.start()

    def close(self, seconds: float) -> None:
        """End once no look is under way, which is waited for, but not for long."""
        self.places.put(None)
        self._thread.join(seconds)

    def _run(self) -> None:
        sources: Mapping[str, Source] = {}
        while (asked := self.places.get()) is not None:
            places, bookmarks = asked
            seen: dict[str, _Seen] = {}
            try:
                sources = sources or self._open_sources()
                for name in places.keys() & sources.keys():
                    seen[name] = _look(sources[name], places[name], bookmarks.get(name))
            except Exception:  # whatever it is, the pipeline has to go on
                if not self._has_failed:
                    _log.exception("how far behind the pipeline is cannot be told; it goes on")
                self._has_failed = True
            self.answers.put(seen)
        for source in sources.values():
            with suppress(StreamBoostError):
                source.close()


def _look(source: Source, place: Position, bookmark: str | None) -> _Seen:
    """Ask a source that is read from `place` on, which `bookmark` identifies."""
    try:
        if bookmark is not None:
            source.expect(bookmark)
        source.seek(place)
        return _Seen(lag_of(source), source.beginning(), source.ends())
    except StreamBoostError:
        return _Seen(None, None, None)  # polling it will say so


def lag_of(source: Source) -> int | None:
    """Return how much there is to be read, or None where that cannot be told."""
    try:
        return source.lag()
    except ConnectorError:
        return None
