"""Reading an SQLite file again and again."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamboost.connectors.sqlite.database import Database

__all__ = ["Reader"]

_Seen = tuple[int, ...]


class Reader:
    """A connection that stays open from one look to the next, as opening it costs most of a look.

    Nothing is locked in between. But whoever closes the file meanwhile is not the last, who folds
    the write-ahead log into it: who looks at it again and again `rest`s when there is no more.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: tuple[sqlite3.Connection, _Seen] | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Give what `Database.reading` gives."""
        with self._database.told():
            try:
                connection = self._current()
                if connection is None:
                    yield None
                    return
                connection.execute("BEGIN")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self.rest()
                raise

    def rest(self) -> None:
        """Close the file until the next look."""
        if self._open is not None:
            (connection, _), self._open = self._open, None
            connection.close()

    def _current(self) -> sqlite3.Connection | None:
        """Return a connection to the file that is there now; None: there is none.

        What SQLite keeps in memory of a file holds good as long as all write through SQLite. Who
        puts another in its place, or copies over it, does not: it is opened anew.
        """
        there = _seen(self._database.path)
        if self._open is not None and self._open[1] == there:
            return self._open[0]
        self.rest()
        if there is None:
            return None
        connection = self._database.open_for_reading()
        self._open = connection, there
        return connection


def _seen(path: Path) -> _Seen | None:
    """Return what tells a file, and its write-ahead log, from others; None where there is none."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        log = os.stat(f"{path}-wal").st_ino
    except FileNotFoundError:
        log = 0
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, log
