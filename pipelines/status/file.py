"""``status.db``: a pipeline's published status, a SQLite file for other processes to read.

The file has a bounded history. The pipeline does not need the file: it may be deleted at any time.
All values are JSON texts.

=================  ==========================================================================
``documents``      one per ``name``: current state; ``time`` in milliseconds since the epoch
``points``         points of the curves, thinned with age
``marks``          events: promotions, trainings, drift, commands, errors, gaps
``predictions``    the newest, as they were sent, one array per batch
``dead_letters``   the newest, their payload truncated
``requests``       all open requests, with the record's other fields
``records``        the newest requested or labelled records: time, label (`truth`), prediction
                   (`said`), and everything known about the record
``versions``       committees that have been active, their size, and number of predictions
=================  ==========================================================================
"""

import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

FILE = "status.db"
FORMAT = 3

TABLES = {
    "documents": "name TEXT PRIMARY KEY, time INTEGER, value TEXT",
    "points": "id INTEGER PRIMARY KEY, time INTEGER, sequence INTEGER, value TEXT",
    "marks": "id INTEGER PRIMARY KEY, time INTEGER, sequence INTEGER, kind TEXT, version INTEGER, "
    "text TEXT",
    "predictions": "id INTEGER PRIMARY KEY, value TEXT",
    "dead_letters": "id INTEGER PRIMARY KEY, value TEXT",
    "requests": "id TEXT PRIMARY KEY, utility REAL, expires INTEGER, value TEXT",
    "records": "id TEXT PRIMARY KEY, time INTEGER, truth TEXT, said TEXT, value TEXT",
    "versions": "id INTEGER PRIMARY KEY, value TEXT",
}

RATES = ("records_per_second", "labels_per_second", "batch_seconds", "margin")
"""Rates of a point, computed from its counts when the point is read."""

COUNTED = ("seconds", "batches", "records", "labels", "busy", "margins")
"""Counts of a point since the point before, from which the rates are computed."""

MOST_WAL = 64_000_000
"""Size in bytes of SQLite's write-ahead log at which the file is recreated. A reader that never
ends its transaction, such as a stopped process, blocks the checkpoint of that log."""

BUSY_SECONDS = 1.0
"""Timeout for the lock of another writer."""

Row = tuple[Any, ...]
Content = Mapping[str, Mapping[Any, Row]]
"""Rows by table name and primary key (the first column)."""


def point_rates(
    seconds: float, batches: int, records: int, labels: int, busy: float, margins: float
) -> tuple[float | None, ...]:
    """Compute the rates of a chart point, in the order of `RATES`, from its counts.

    `busy` is the processing time in seconds, `margins` the sum of the records' margins.
    """
    return (
        records / seconds if seconds else 0.0,
        labels / seconds if seconds else 0.0,
        busy / batches if batches else None,
        margins / records if records else None,
    )


class StatusFile:
    """Writer of ``status.db`` that writes only changed rows.

    Only one thread may use a writer. Rows are compared by identity: a changed row must be a new
    object.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._file = (0, 0)
        self._there: dict[str, dict[Any, Row]] = {}

    def write(self, content: Content) -> None:
        """Make the tables of the file equal to `content`.

        The file is recreated if it is damaged, has another format, has too large a log or was
        deleted. Raises sqlite3.Error or OSError if the file cannot be written.
        """
        try:
            self._write_changed_tables(content)
        except sqlite3.DatabaseError as error:
            self.close()
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise
            self._delete_files()
            self._write_changed_tables(content)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; the next `write` opens it again."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None
        self._there = {}

    def _write_changed_tables(self, content: Content) -> None:
        connection = self._connect_to_current_file()
        connection.execute("BEGIN IMMEDIATE")
        try:
            for table, rows in content.items():
                _write_changed_rows(connection, table, self._there.get(table, {}), rows)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        self._there = {table: dict(rows) for table, rows in content.items()}

    def _connect_to_current_file(self) -> sqlite3.Connection:
        if self._connection is not None and self._is_open_file_usable():
            return self._connection
        self.close()
        self._connection = connection = self._open_file()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != FORMAT:
            self.close()
            self._delete_files()
            self._connection = connection = self._open_file()
        self._create_empty_tables(connection)
        self._file = _device_and_inode(self.path)
        return connection

    def _is_open_file_usable(self) -> bool:
        """Return whether the open file is still at the path and its write-ahead log is small.

        If the log has more than `MOST_WAL` bytes, the file is closed and deleted.
        """
        try:
            size = self.path.with_name(f"{self.path.name}-wal").stat().st_size
            same = _device_and_inode(self.path) == self._file
        except FileNotFoundError:
            same, size = False, 0
        if size > MOST_WAL:
            self.close()
            self._delete_files()
        return same and size <= MOST_WAL

    def _open_file(self) -> sqlite3.Connection:
        if not self.path.exists():
            self._delete_files()  # SQLite would apply the left-over log of a deleted file
        # Only one thread uses the connection, but another may close it at the end.
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            # A power loss may damage the file, but fsync would slow the pipeline's commits down.
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA journal_size_limit = 1000000")
        except BaseException:
            connection.close()
            raise
        return connection

    def _create_empty_tables(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for table, columns in TABLES.items():
            connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
            connection.execute(f"DELETE FROM {table}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.commit()

    def _delete_files(self) -> None:
        """Delete the file before its log files, as no reader may open the file without its log."""
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)


def _device_and_inode(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _write_changed_rows(
    connection: sqlite3.Connection,
    table: str,
    old_rows: Mapping[Any, Row],
    new_rows: Mapping[Any, Row],
) -> None:
    key = TABLES[table].split()[0]
    gone = [(name,) for name in old_rows.keys() - new_rows.keys()]
    if gone:
        connection.executemany(f"DELETE FROM {table} WHERE {key} = ?", gone)
    changed = [(name, *row) for name, row in new_rows.items() if old_rows.get(name) is not row]
    if changed:
        marks = ", ".join("?" * len(changed[0]))
        connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", changed)
