"""What `serve` allows, and how often."""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

__all__ = ["LOOPBACK", "Rate", "Settings", "address_of"]

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
"""What this machine alone can reach."""


@dataclass(frozen=True)
class Settings:
    """What `serve` allows.

    Parameters
    ----------
    token : the secret of programs
    hosts : what a request's Host may be, without the port
    port : where it listens, so that two on one machine have cookies of their own
    is_secure : whether it speaks https itself
    max_body : bytes of a request's body, and of a message on a websocket
    reads, writes : how often a second, and how often at once, somebody may send GET and HEAD, and
        all else
    failures : the same of an address' secrets that are none
    messages : the same of a person's messages on websockets, which wait instead of being refused
    at_once : requests and websockets that one login has open together
    strangers : connections on which nobody has logged in yet, in all and of one address; the
        oldest ends for a newer one
    patience : seconds within which a connection has to send a request, its body included
    """

    token: str = field(repr=False)
    hosts: frozenset[str] = LOOPBACK
    port: int = 8765
    is_secure: bool = False
    max_body: int = 4_000_000
    reads: tuple[float, float] = (100, 500)
    writes: tuple[float, float] = (20, 100)
    asks: tuple[float, float] = (1_000, 2_000)
    failures: tuple[float, float] = (2, 30)
    messages: tuple[float, float] = (50, 500)
    at_once: int = 200
    strangers: tuple[int, int] = (400, 100)
    patience: float = 10.0

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


def address_of(client: tuple[str, int] | None) -> str:
    """Return what bounds count by: an IPv4 address, or the /64 of which an IPv6 one is a part.

    >>> address_of(("192.0.2.7", 1)), address_of(("2001:db8::1:2:3:4", 1)), address_of(None)
    ('192.0.2.7', '2001:db8::/64', '')
    """
    host = client[0] if client else ""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    # A single line at home has as many addresses as a /64 holds.
    return str(ipaddress.ip_network((int(address), 64), strict=False))
