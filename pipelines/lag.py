"""How far behind a pipeline is, and whether a restart could still read what it needs."""

import logging
import math
import time
from collections.abc import Callable, Mapping

from streamboost.connectors.base import Position, Source
from streamboost.errors import ConnectorError
from streamboost.pipelines.inputs import Intake

__all__ = ["EVERY", "Watch", "lag_of"]

_log = logging.getLogger(__name__)

EVERY = 10.0
"""Seconds between two looks at the sources."""

_NEAR = 0.8
"""Of all that a source still holds behind the pipeline, the share that a replay may need before
somebody is warned: its retention is about to overtake the oldest checkpoint."""


class Watch:
    """Looks at the sources now and then, and warns when something is amiss.

    Parameters
    ----------
    intake : the sources, as the loop polls them
    clock : gives seconds that never go back

    Attributes
    ----------
    lag : messages there are to be read, by source, where it can tell
    stalled : the sources whose lag grew while they gave nothing
    margin : offsets that a source holds beyond what the oldest checkpoint needs; below 0, some of
        those needed are gone
    """

    def __init__(self, intake: Intake, clock: Callable[[], float] = time.monotonic) -> None:
        self.lag: dict[str, int] = {}
        self.stalled: set[str] = set()
        self.margin: dict[str, int] = {}
        self._intake = intake
        self._clock = clock
        self._looked = -math.inf
        self._silent: dict[str, bool] = {}
        self._warned: set[str] = set()

    def turn(self, oldest: Mapping[str, Position] | None) -> None:
        """Take note of the poll just made, and look at the sources if it is time.

        `oldest` is where the sources stood at the oldest checkpoint, None where there is none.
        """
        for name, n in self._intake.came.items():
            self._silent[name] = self._silent.get(name, True) and not n
        if self._clock() - self._looked >= EVERY:
            self._looked = self._clock()
            self._look(oldest or {})
            self._silent = {}

    def _look(self, oldest: Mapping[str, Position]) -> None:
        found = {}
        for name, source in self._intake.sources.items():
            lag = lag_of(source)
            if lag is not None:
                found[name] = lag
                self._judge_silence(name, lag, self.lag.get(name))
            if name in oldest:
                self._judge_retention(name, source, oldest[name])
        self.lag = found  # as a whole: another thread may be reading it

    def _judge_silence(self, name: str, lag: int, before: int | None) -> None:
        silent = self._silent.get(name)
        if silent and before is not None and lag > before and name not in self.stalled:
            self.stalled.add(name)
            _log.warning(
                "%s: %d messages are there, %d more than %.0f s ago, but none is given: see "
                "whether what writes them ends its transactions, and the source can be reached",
                name,
                lag,
                lag - before,
                EVERY,
            )
        elif silent is False and name in self.stalled:
            self.stalled.discard(name)
            _log.info("%s: messages come again", name)

    def _judge_retention(self, name: str, source: Source, oldest: Position) -> None:
        try:
            beginning, place = source.beginning(), source.position()
        except ConnectorError:
            return  # polling it will say so
        if beginning is None:
            return
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


def lag_of(source: Source) -> int | None:
    """Return how many messages there are to be read, or None where that cannot be told."""
    try:
        return source.lag()
    except ConnectorError:
        return None
