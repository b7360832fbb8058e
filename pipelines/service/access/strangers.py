"""Connections on which nobody has logged in yet: there is room for so many, and no more."""

from collections import defaultdict
from typing import Protocol

__all__ = ["Connection", "Strangers"]


class Connection(Protocol):
    """A connection that can be ended."""

    def end(self) -> None:
        """End it at once."""


class Strangers:
    """The connections of whoever has not logged in, the oldest first.

    Where one too many comes, the oldest of the address that has most is ended: whoever fills the
    room crowds out themselves, and those who are logged in are not counted.

    Parameters
    ----------
    most : connections in all
    each : connections of one address
    """

    def __init__(self, most: int, each: int) -> None:
        self._most = most
        self._each = each
        self._n = 0
        self._of = defaultdict[str, dict[Connection, None]](dict)

    def __len__(self) -> int:
        return self._n

    def enter(self, connection: Connection, address: str) -> None:
        """Count a new connection, and end one for it where there are too many."""
        self._of[address][connection] = None
        self._n += 1
        if len(self._of[address]) > self._each:
            self._crowd_out(address)
        elif self._n > self._most:
            self._crowd_out(max(self._of, key=lambda one: len(self._of[one])))

    def leave(self, connection: Connection, address: str) -> None:
        """Count it no longer: it has ended, or somebody has logged in on it."""
        if connection in self._of.get(address, ()):
            del self._of[address][connection]
            self._n -= 1
            if not self._of[address]:
                del self._of[address]

    def _crowd_out(self, address: str) -> None:
        oldest = next(iter(self._of[address]))
        self.leave(oldest, address)
        oldest.end()
