"""Settings of authentication and limits of `serve`, and a token bucket rate limiter."""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
"""Host names that are reachable only from this machine."""


@dataclass(frozen=True)
class AuthSettings:
    """Limits and secrets of `serve`. A rate is a pair: requests per second, and burst size.

    Parameters
    ----------
    token : the secret of programs
    hosts : allowed Host headers, without the port
    port : port of the server, part of the cookie's name, so that two servers on one machine do not
        share cookies
    is_secure : whether the server uses https itself
    max_body : maximum size in bytes of a request's body
    max_message : maximum size in bytes of a websocket message; a session may have as many
        incomplete messages as websockets
    reads, writes : rate of a session's GET and HEAD requests, and of all others
    scoring_requests : rate of a session's predict and explain requests
    failures : rate of wrong tokens and cookies from one address
    messages : rate of a session's websocket messages, which are delayed instead of rejected
    bodies : bytes per second, and burst size, of a user's request bodies; bodies above the rate are
        read more slowly instead of rejected
    max_concurrent : maximum number of concurrent requests and websockets of one session
    max_concurrent_body : maximum size in bytes of the bodies of one session's concurrent requests
    max_unauthenticated : maximum number of unauthenticated connections, in all and from one
        address; the oldest is closed for a newer one
    patience : timeout in seconds for a complete request, and for a client that does not read the
        response
    """

    token: str = field(repr=False)
    hosts: frozenset[str] = LOOPBACK
    port: int = 8765
    is_secure: bool = False
    max_body: int = 4_000_000
    max_message: int = 500_000
    reads: tuple[float, float] = (100, 500)
    writes: tuple[float, float] = (20, 100)
    scoring_requests: tuple[float, float] = (1_000, 2_000)
    failures: tuple[float, float] = (2, 30)
    messages: tuple[float, float] = (50, 500)
    bodies: tuple[float, float] = (500_000, 4_000_000)
    max_concurrent: int = 200
    max_concurrent_body: int = 40_000_000
    max_unauthenticated: tuple[int, int] = (400, 100)
    patience: float = 10.0

    @property
    def cookie_name(self) -> str:
        """Name of the cookie; browsers accept the prefix ``__Host-`` only over https."""
        return f"{'__Host-' if self.is_secure else ''}streamboost-{self.port}"


class RateLimiter:
    """Token bucket rate limiter with a bucket per caller: `per_second` requests, bursts of `burst`.

    Only the `max_callers` most recent callers have a bucket. A caller whose bucket was removed
    starts with a full bucket again.

    >>> now = [0.0]
    >>> rate = RateLimiter(per_second=1, burst=2, clock=lambda: now[0])
    >>> rate.take_token("ann"), rate.take_token("ann"), rate.take_token("ann")
    (0.0, 0.0, 1.0)
    >>> now[0] = 1.0
    >>> rate.take_token("ann")
    0.0
    """

    def __init__(
        self,
        per_second: float,
        burst: float,
        max_callers: int = 1_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._max_callers = max_callers
        self._clock = clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take_token(self, caller: Hashable, amount: float = 1) -> float:
        """Take `amount` tokens of `caller`; return 0, or the seconds until these are available.

        A larger amount than the burst size counts as the burst size.
        """
        amount = min(amount, self._burst)
        now = self._clock()
        tokens, then = self._buckets.pop(caller, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._per_second)
        missing = max(0.0, amount - tokens)
        self._buckets[caller] = (tokens if missing else tokens - amount, now)
        if len(self._buckets) > self._max_callers:
            self._buckets.popitem(last=False)
        return missing / self._per_second


def client_address_key(client: tuple[str, int] | None) -> str:
    """Return the rate limit key of a client: its IPv4 address, or the /64 network of its IPv6 one.

    >>> client_address_key(("192.0.2.7", 1)), client_address_key(("2001:db8::1:2:3:4", 1))
    ('192.0.2.7', '2001:db8::/64')
    >>> client_address_key(None)
    ''
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
    # A single home connection usually has a whole /64 network.
    return str(ipaddress.ip_network((int(address), 64), strict=False))
