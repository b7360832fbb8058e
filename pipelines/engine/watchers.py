"""Those who look on as a loop works."""

import time
from collections import deque
from collections.abc import Callable

from streamboost.pipelines.engine.batch import Effects

__all__ = ["Stopwatch", "Watcher"]

BATCHES = 500
"""The newest batches, over which quantiles are taken."""


class Watcher:
    """Told what a loop does, in its own thread; whoever watches overrides what it wants to know."""

    def committed(self, effects: Effects) -> None:
        """Take note of a batch that is committed."""

    def replayed(self, effects: Effects) -> None:
        """Take note of a batch that an earlier run had committed, and that is taken once more."""

    @property
    def is_due(self) -> bool:
        """Whether `between_batches` is about to read off the pipeline how it stands."""
        return False

    def between_batches(self) -> None:
        """Do what is due, between two batches, and while nothing comes or something is retried.

        Where it `is_due`, all that the pipeline has done is committed then, or is being retried.
        """

    def trouble(self, text: str) -> None:
        """Take note of what goes wrong without ending the run."""


class Stopwatch:
    """Notes the seconds from one lap to the next, under the name of the part that ends there.

    Parameters
    ----------
    clock : gives seconds that never go back

    Examples
    --------
    >>> times = iter([0.0, 0.5, 2.5])
    >>> stopwatch = Stopwatch(clock=times.__next__)
    >>> stopwatch.begin(); stopwatch.lap("score"); stopwatch.lap("learn")
    >>> stopwatch.in_numbers()["learn"]
    {'median': 2.0, 'p99': 2.0}
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._last = 0.0
        self._laps: dict[str, deque[float]] = {}

    def begin(self) -> None:
        """Begin a batch."""
        self._last = self._clock()

    def lap(self, part: str) -> None:
        """Note the time since the lap before as that of `part`."""
        now = self._clock()
        if part not in self._laps:
            self._laps[part] = deque(maxlen=BATCHES)
        self._laps[part].append(now - self._last)
        self._last = now

    def in_numbers(self) -> dict[str, dict[str, float]]:
        """Return the median and the 99th percentile of each part's seconds, in their order."""
        found = {}
        for part, seconds in self._laps.items():
            ordered = sorted(seconds)
            median, p99 = (ordered[int(share * len(ordered))] for share in (0.5, 0.99))
            found[part] = {"median": median, "p99": p99}
        return found
