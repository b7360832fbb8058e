"""Bounded set of unauthenticated connections, with eviction of the oldest."""

from collections import defaultdict
from typing import Protocol

__all__ = ["Connection", "UnauthenticatedConnections"]


class Connection(Protocol):
    """A connection that can be closed."""

    def end(self) -> None:
        """Close the connection at once."""


class UnauthenticatedConnections:
    """Unauthenticated connections by address, the oldest first.

    If a limit is exceeded, the oldest connection of the address with the most connections is
    closed. An attacker thus evicts only own connections. Authenticated connections do not count.

    Parameters
    ----------
    most : maximum number of connections in all
    each : maximum number of connections from one address
    """

    def __init__(self, most: int, each: int) -> None:
        self._most = most
        self._each = each
        self._n = 0
        self._of = defaultdict[str, dict[Connection, None]](dict)

    def __len__(self) -> int:
        return self._n

    def enter(self, connection: Connection, address: str) -> None:
        """Add a new connection, and evict one if a limit is exceeded."""
        self._of[address][connection] = None
        self._n += 1
        if len(self._of[address]) > self._each:
            self._crowd_out(address)
        elif self._n > self._most:
            self._crowd_out(max(self._of, key=lambda one: len(self._of[one])))

    def leave(self, connection: Connection, address: str) -> None:
        """Remove a connection that has ended or is authenticated now."""
        if connection in self._of.get(address, ()):
            del self._of[address][connection]
            self._n -= 1
            if not self._of[address]:
                del self._of[address]

    def _crowd_out(self, address: str) -> None:
        oldest = next(iter(self._of[address]))
        self.leave(oldest, address)
        oldest.end()
