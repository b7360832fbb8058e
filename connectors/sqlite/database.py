"""SQLite file shared by threads and processes, and the tables of its streams."""

import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from streamboost.errors import ConfigurationError, ConnectorError, UnavailableError

_STREAM = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_BUSY_SECONDS = 30.0
_TURN_SECONDS = 1.0
_RETRY_SECONDS = 0.005
_AT_ONCE = 100
"""Number of rows per statement. One row per statement takes three times as long; more than this
number is not faster."""

_RETRIABLE = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_NO_COMPANIONS = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY_DIRECTORY,
    sqlite3.SQLITE_IOERR_SHMSIZE,  # on a full disk
}
"""Errors of SQLite if the companions of a write-ahead file are missing and cannot be made."""


class Database:
    """SQLite file, with one write connection per thread.

    Reading does not change the file or its journal mode, and needs no write permission. If other
    processes keep the file locked for about `busy_seconds`, UnavailableError is raised.
    """

    def __init__(self, path: str | os.PathLike[str], *, busy_seconds: float | None = None) -> None:
        self.path = Path(path).resolve()
        self._busy_seconds = _BUSY_SECONDS if busy_seconds is None else busy_seconds
        self._lock = threading.Lock()
        self._connections: dict[int, sqlite3.Connection] = {}
        self._writing: set[int] = set()  # threads whose connections are in use

    @contextmanager
    def read_transaction(self) -> Iterator[sqlite3.Connection | None]:
        """Context manager: yields a connection that reads a snapshot, or None without a file."""
        with self.translate_errors():
            if not self.path.exists():
                yield None
                return
            with closing(self.open_for_reading()) as connection:
                connection.execute("BEGIN")
                yield connection

    @contextmanager
    def write_transaction(self) -> Iterator[sqlite3.Connection]:
        """Context manager: yields a connection in a write transaction.

        The transaction is committed at the end, or rolled back on an error.
        """
        with self.translate_errors():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._thread_connection() as connection:
                self._begin_write_transaction(connection)
                try:
                    yield connection
                    connection.commit()
                except BaseException:
                    connection.rollback()
                    raise

    def _begin_write_transaction(self, connection: sqlite3.Connection) -> None:
        """Begin a write transaction; wait for the lock, and handle signals every second."""
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode not in _RETRIABLE or time.monotonic() > deadline:
                    raise

    def copy_to(self, path: str | os.PathLike[str]) -> None:
        """Write the content of one read transaction to the new file `path`.

        Writers are not blocked. Errors name `path` if it cannot be written.
        """
        with self.read_transaction() as connection:
            if connection is not None:
                try:
                    with closing(sqlite3.connect(path)) as target:
                        connection.backup(target)
                        target.execute("PRAGMA journal_mode = DELETE")  # a file without companions
                except sqlite3.OperationalError as error:  # damage is no OperationalError
                    with Database(path).translate_errors():
                        raise error

    def find_damage(self) -> str | None:
        """Return a description of the file's damage; None if it is intact or missing."""
        try:
            with self.read_transaction() as connection:
                if connection is None:
                    return None
                found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        except ConnectorError as error:
            if getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
                raise
            return str(error.__cause__)
        return None if found == "ok" else " ".join(found.split())

    def close(self) -> None:
        """Close the connections of all threads; one in a transaction is closed when it ends."""
        with self._lock:
            connections, self._connections = self._connections, {}
            idle = [one for thread, one in connections.items() if thread not in self._writing]
        for connection in idle:
            connection.close()

    @contextmanager
    def _thread_connection(self) -> Iterator[sqlite3.Connection]:
        """Context manager: yields this thread's write connection, which later calls reuse.

        `close` leaves a connection in use open; this context manager then closes the connection.
        """
        thread = threading.get_ident()
        with self._lock:
            connection = self._connections.get(thread)
            self._writing.add(thread)
        try:
            if connection is None:
                connection = self._connect_for_writing()
                with self._lock:
                    self._connections[thread] = connection
            yield connection
        finally:
            with self._lock:
                self._writing.discard(thread)
                is_kept = self._connections.get(thread) is connection
            if connection is not None and not is_kept:
                connection.close()

    def open_for_reading(self) -> sqlite3.Connection:
        """Return a read-only connection to the existing file.

        Raises sqlite3.Error, or ConnectorError if it is not a regular file or its text is not
        UTF-8.
        """
        self._raise_if_not_regular_file()
        connection = self._open_read_only()
        try:
            self._raise_if_not_utf8(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_read_only(self) -> sqlite3.Connection:
        address = f"{self.path.as_uri()}?mode=ro"
        try:
            return _connect_read_only(address, self._busy_seconds)
        except sqlite3.OperationalError as error:
            # Without a write-ahead log there is no writer, and the file alone is complete.
            if error.sqlite_errorcode not in _NO_COMPANIONS or self._has_write_ahead_log():
                raise
            return _connect_read_only(f"{address}&immutable=1", self._busy_seconds)

    def _raise_if_not_utf8(self, connection: sqlite3.Connection) -> None:
        """Raise ConnectorError if the file stores text as UTF-16, as payloads are bytes of UTF-8.

        SQLite sets the encoding when it creates a file, and never changes it.
        """
        (encoding,) = connection.execute("PRAGMA encoding").fetchone()
        if encoding != "UTF-8":
            raise ConnectorError(
                f"cannot use {self.path}: its text is stored as {encoding}, and streams are UTF-8; "
                f"copy the file with `sqlite3 {self.path.name} .dump | sqlite3 copy.db`, and move "
                "the copy to its path"
            )

    def _raise_if_not_regular_file(self) -> None:
        """Raise ConnectorError for a device, pipe or folder, where SQLite might wait forever."""
        if self.path.exists() and not self.path.is_file():
            raise ConnectorError(
                f"cannot use {self.path}: it is not a regular file; name an SQLite file"
            )

    def _has_write_ahead_log(self) -> bool:
        log = self.path.with_name(f"{self.path.name}-wal")
        return log.exists() and log.stat().st_size > 0

    def _connect_for_writing(self) -> sqlite3.Connection:
        self._raise_if_not_regular_file()
        # A connection is used by its own thread alone, but another thread may close it.
        connection = sqlite3.connect(
            self.path, timeout=_TURN_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA synchronous = FULL")
            self._enable_write_ahead_log(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _enable_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                self._raise_if_not_utf8(connection)
                if not connection.execute("PRAGMA page_count").fetchone()[0]:  # a new file
                    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                break
            except sqlite3.OperationalError as error:
                # While another process changes a new file's mode, SQLite refuses at once.
                if error.sqlite_errorcode not in _RETRIABLE or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
        if mode != "wal":
            raise ConnectorError(
                f"{self.path} takes no write-ahead log (its journal mode stays {mode!r}): name a "
                "file on a local disk"
            )

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Context manager that raises errors of SQLite as ConnectorError."""
        try:
            yield
        except sqlite3.Error as error:
            detailed = getattr(error, "sqlite_errorcode", 0)
            code = detailed & 0xFF
            if code == sqlite3.SQLITE_FULL or detailed == sqlite3.SQLITE_IOERR_SHMSIZE:
                raise UnavailableError(
                    f"{self.path} cannot grow ({error}): make room on its disk"
                ) from error
            if code in _RETRIABLE:
                raise UnavailableError(
                    f"{self.path} is locked by another process ({error}): try again, or stop "
                    "the other"
                ) from error
            raise ConnectorError(
                f"SQLite cannot use {self.path}: {error}; see that it is an SQLite file on a local "
                "disk that may be read and, for outputs, written, with free space"
            ) from error
        except OSError as error:
            raise ConnectorError(
                f"cannot use {self.path}: {error.strerror or error}; name a file that can be used"
            ) from error


def _connect_read_only(address: str, busy_seconds: float) -> sqlite3.Connection:
    """Return a read-only connection to the URI `address`; sqlite3.Error if reading fails."""
    connection = sqlite3.connect(
        address, timeout=busy_seconds, isolation_level=None, check_same_thread=False, uri=True
    )
    try:
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def check_stream_name(name: str) -> str:
    """Return `name`; raise ConfigurationError if it is not valid as a table name."""
    if _STREAM.fullmatch(name) is None or name.startswith("sqlite_"):
        raise ConfigurationError(
            f"the stream name {name!r} cannot be a table: use lower-case letters, digits, '_', "
            "'-' and '.', starting with a letter (not 'sqlite_'), at most 64 characters"
        )
    return name


def table_exists(connection: sqlite3.Connection, name: str) -> bool:
    """Return whether the file has a table with this name."""
    found = connection.execute(
        "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (name,)
    )
    return found.fetchone() is not None


def stream_end_offset(connection: sqlite3.Connection, stream: str) -> int:
    """Return the offset that the next message of the stream will get."""
    if not table_exists(connection, stream):
        return 0
    highest = connection.execute(f'SELECT max(offset) FROM "{stream}"').fetchone()
    given = None
    # A table made by another program may not store its highest offset.
    if table_exists(connection, "sqlite_sequence"):
        query = "SELECT seq FROM sqlite_sequence WHERE name = ?"
        given = connection.execute(query, (stream,)).fetchone()
    return 1 + max(-1 if row is None or row[0] is None else int(row[0]) for row in (highest, given))


def append_payloads(
    connection: sqlite3.Connection, stream: str, payloads: Sequence[bytes], min_offset: int = 0
) -> None:
    """Append `payloads` to the stream, which is created if it does not exist.

    The offset of the first payload is at least `min_offset`.
    """
    # AUTOINCREMENT stores the highest offset ever used, so that none is used twice.
    connection.execute(
        f'CREATE TABLE IF NOT EXISTS "{stream}" '
        "(offset INTEGER PRIMARY KEY AUTOINCREMENT, payload NOT NULL)"
    )
    start = max(stream_end_offset(connection, stream), min_offset)
    values: list[object] = []
    for offset, payload in enumerate(payloads, start):
        values += offset, decode_if_utf8(payload)
    for first in range(0, len(values), 2 * _AT_ONCE):
        part = values[first : first + 2 * _AT_ONCE]
        places = ", ".join(["(?, ?)"] * (len(part) // 2))
        connection.execute(f'INSERT INTO "{stream}" (offset, payload) VALUES {places}', part)


def decode_if_utf8(payload: bytes) -> str | bytes:
    """Return UTF-8 bytes as text, which the sqlite3 shell displays; other bytes unchanged."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return payload
