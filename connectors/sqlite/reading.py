"""Repeated reads of an SQLite file with a persistent connection."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamboost.connectors.sqlite.database import Database

__all__ = ["Reader"]

_Seen = tuple[int, ...]


class Reader:
    """Keeps a connection open between reads, because opening costs most of a read.

    The connection holds no lock between reads. But while it is open, another process that closes
    the file is not the last one, which would checkpoint the write-ahead log. So call `rest` when
    there is nothing more to read.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: tuple[sqlite3.Connection, _Seen] | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Yield a connection as `Database.reading` does."""
        with self._database.translate_errors():
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
        """Close the file until the next read."""
        if self._open is not None:
            (connection, _), self._open = self._open, None
            connection.close()

    def _current(self) -> sqlite3.Connection | None:
        """Return a connection to the file that is there now, or None.

        SQLite's cache of a file is valid as long as all processes write through SQLite. If another
        file was copied or moved in its place, the file is opened again.
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
    """Return the identity of a file and its write-ahead log, or None if it does not exist."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        log = os.stat(f"{path}-wal").st_ino
    except FileNotFoundError:
        log = 0
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, log
