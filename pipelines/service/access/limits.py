"""How often somebody may ask: token buckets."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

__all__ = ["Rate"]


class Rate:
    """Lets each caller ask `per_second` times a second in the long run, and `burst` times at once.

    Only the newest `most` callers are remembered; whoever is forgotten begins with a full bucket.

    >>> now = [0.0]
    >>> rate = Rate(per_second=1, burst=2, clock=lambda: now[0])
    >>> rate.wait("ann"), rate.wait("ann"), rate.wait("ann")
    (0.0, 0.0, 1.0)
    >>> now[0] = 1.0
    >>> rate.wait("ann")
    0.0
    """

    def __init__(
        self,
        per_second: float,
        burst: float,
        most: int = 1_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._most = most
        self._clock = clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait(self, caller: Hashable) -> float:
        """Count a question of `caller`; return 0, or the seconds after which it may be asked."""
        now = self._clock()
        tokens, then = self._buckets.pop(caller, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._per_second)
        missing = max(0.0, 1 - tokens)
        self._buckets[caller] = (tokens if missing else tokens - 1, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return missing / self._per_second
