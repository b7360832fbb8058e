"""Bounded set of unauthenticated connections, with eviction of the oldest."""

from collections import defaultdict
from typing import Protocol


class Connection(Protocol):
    """A connection that can be closed."""

    def abort(self) -> None:
        """Close the connection at once."""


class UnauthenticatedConnections:
    """Unauthenticated connections by address, the oldest first.

    If a limit is exceeded, the oldest connection of the address with the most connections is
    closed. An attacker thus evicts only own connections. Authenticated connections do not count.

    Parameters
    ----------
    max_connections : maximum number of connections in all
    max_per_address : maximum number of connections from one address
    """

    def __init__(self, max_connections: int, max_per_address: int) -> None:
        self._max_connections = max_connections
        self._max_per_address = max_per_address
        self._n = 0
        self._by_address = defaultdict[str, dict[Connection, None]](dict)

    def __len__(self) -> int:
        return self._n

    def add(self, connection: Connection, address: str) -> None:
        """Add a new connection, and evict one if a limit is exceeded."""
        self._by_address[address][connection] = None
        self._n += 1
        if len(self._by_address[address]) > self._max_per_address:
            self._evict_oldest(address)
        elif self._n > self._max_connections:
            self._evict_oldest(max(self._by_address, key=lambda one: len(self._by_address[one])))

    def remove(self, connection: Connection, address: str) -> None:
        """Remove a connection that has ended or is authenticated now."""
        if connection in self._by_address.get(address, ()):
            del self._by_address[address][connection]
            self._n -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def _evict_oldest(self, address: str) -> None:
        oldest = next(iter(self._by_address[address]))
        self.remove(oldest, address)
        oldest.abort()
