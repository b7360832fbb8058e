"""What `serve` allows, and how often."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

__all__ = ["LOOPBACK", "Rate", "Settings"]

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
"""What this machine alone can reach."""


@dataclass(frozen=True)
class Settings:
    """What `serve` allows.

    Parameters
    ----------
    token : the secret of programs, which also signs the cookies
    hosts : what a request's Host may be, without the port
    port : where it listens, so that two on one machine have cookies of their own
    is_secure : whether browsers come by https
    max_body : bytes of a request's body, and of a message on a websocket
    reads, writes, strangers : how often a second, and how often at once, a caller may send GET and
        HEAD, all else, and anything without being known
    messages : the same of a person's messages on websockets, which wait instead of being refused
    """

    token: str = field(repr=False)
    hosts: frozenset[str] = LOOPBACK
    port: int = 8765
    is_secure: bool = False
    max_body: int = 4_000_000
    reads: tuple[float, float] = (100, 500)
    writes: tuple[float, float] = (20, 100)
    strangers: tuple[float, float] = (2, 30)
    messages: tuple[float, float] = (50, 500)

    @property
    def cookie(self) -> str:
        """The name of the cookie; with this prefix a browser takes it from https alone."""
        return f"{'__Host-' if self.is_secure else ''}streamboost-{self.port}"


class Rate:
    """Lets each caller ask `per_second` times a second in the long run, and `burst` times at once.

    Each has a bucket of tokens. Only the newest `most` callers are remembered; whoever is forgotten
    begins with a full bucket.

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
