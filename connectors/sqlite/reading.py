"""Repeated reads of an SQLite file with a persistent connection."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamboost.connectors.sqlite.database import Database

_FileIdentity = tuple[int, ...]


class PersistentReader:
    """Reads an SQLite file with a connection that stays open between reads, for speed.

    The connection holds no lock between reads. But SQLite removes the write-ahead log only when the
    last connection to the file is closed. So call `release_resources` when there is nothing more to
    read.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: tuple[sqlite3.Connection, _FileIdentity] | None = None

    @contextmanager
    def read_transaction(self) -> Iterator[sqlite3.Connection | None]:
        """Context manager: yields a connection as `Database.read_transaction` does."""
        with self._database.translate_errors():
            try:
                connection = self._current_connection()
                if connection is None:
                    yield None
                    return
                connection.execute("BEGIN")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self.release_resources()
                raise

    def release_resources(self) -> None:
        """Close the file until the next read."""
        if self._open is not None:
            (connection, _), self._open = self._open, None
            connection.close()

    def _current_connection(self) -> sqlite3.Connection | None:
        """Return a connection to the file that is at the path now; None if there is none.

        The open connection is reused while the same file is at the path. If another file was copied
        or moved to the path, a connection to this file is opened.
        """
        there = _read_file_identity(self._database.path)
        if self._open is not None and self._open[1] == there:
            return self._open[0]
        self.release_resources()
        if there is None:
            return None
        connection = self._database.open_for_reading()
        self._open = connection, there
        return connection


def _read_file_identity(path: Path) -> _FileIdentity | None:
    """Return numbers that identify a file and its write-ahead log; None if the file is missing."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        log = os.stat(f"{path}-wal").st_ino
    except FileNotFoundError:
        log = 0
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, log
