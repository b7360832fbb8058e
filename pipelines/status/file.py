"""``status.db``: what a pipeline last said of itself, for others to look at.

It holds no more than fits a screen's worth of history, and nothing that the pipeline reads to do
its work: it may be deleted at any time. All values are JSON texts.

=================  ==========================================================================
``documents``      one per ``name``: how things stand; ``time`` in milliseconds since the epoch
``points``         what the curves are drawn from, the older ones ever wider apart
``marks``          what happened when: promotions, trainings, drift, commands, troubles, gaps
``predictions``    the newest, as they were sent, in arrays of those that came together
``dead_letters``   the newest, their payload cut
``requests``       those that are open, exactly, with the record's other fields
``records``        the newest that were asked about or labelled: when that was, what they are
                   (`truth`) and were predicted to be (`said`), and all that is known of them
``versions``       the committees that served, what they were made of, and how much they predicted
=================  ==========================================================================
"""

import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["COUNTED", "FILE", "FORMAT", "RATES", "TABLES", "Content", "StatusFile", "rates"]

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
"""What a point says besides what was written, after what it counts."""

COUNTED = ("seconds", "batches", "records", "labels", "busy", "margins")
"""What a point counts since the one before, from which its rates are."""

MOST_WAL = 64_000_000
"""Bytes of the write-ahead log at which the file is begun anew: somebody who looks and never
finishes, such as a stopped process, keeps it from being folded in."""

BUSY_SECONDS = 1.0
"""To wait for another who writes."""

Row = tuple[Any, ...]
Content = Mapping[str, Mapping[Any, Row]]
"""For each table its rows, by their first column."""


def rates(
    seconds: float, batches: int, records: int, labels: int, busy: float, margins: float
) -> tuple[float | None, ...]:
    """Return the `RATES` of what a point counts."""
    return (
        records / seconds if seconds else 0.0,
        labels / seconds if seconds else 0.0,
        busy / batches if batches else None,
        margins / records if records else None,
    )


class StatusFile:
    """The file, kept equal to the content it is given, writing what has changed.

    One thread alone may use it. Rows are compared by identity: one that changes must be another
    object.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._file = (0, 0)
        self._there: dict[str, dict[Any, Row]] = {}

    def write(self, content: Content) -> None:
        """Bring the file to `content`; sqlite3.Error or OSError where that cannot be.

        A file that is damaged, of another format or too large is begun anew, and so is one that
        was deleted.
        """
        try:
            self._sync(content)
        except sqlite3.DatabaseError as error:
            self.close()
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise
            self._remove()
            self._sync(content)
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

    def _sync(self, content: Content) -> None:
        connection = self._opened()
        connection.execute("BEGIN IMMEDIATE")
        try:
            for table, rows in content.items():
                _sync_table(connection, table, self._there.get(table, {}), rows)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        self._there = {table: dict(rows) for table, rows in content.items()}

    def _opened(self) -> sqlite3.Connection:
        if self._connection is not None and self._is_same():
            return self._connection
        self.close()
        self._connection = connection = self._open()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != FORMAT:
            self.close()
            self._remove()
            self._connection = connection = self._open()
        self._make_tables(connection)
        self._file = _identity(self.path)
        return connection

    def _is_same(self) -> bool:
        """Whether the path still leads to the file that is open, and its log can be borne."""
        try:
            size = self.path.with_name(f"{self.path.name}-wal").stat().st_size
            same = _identity(self.path) == self._file
        except FileNotFoundError:
            same, size = False, 0
        if size > MOST_WAL:
            self.close()
            self._remove()
        return same and size <= MOST_WAL

    def _open(self) -> sqlite3.Connection:
        if not self.path.exists():
            self._remove()  # what is left of a deleted file's log would be taken for this one's
        # Only one thread uses it, but another may close it at the end.
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            # A power cut may spoil it; to wait for the disk would cost the pipeline's commits time.
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA journal_size_limit = 1000000")
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for table, columns in TABLES.items():
            connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
            connection.execute(f"DELETE FROM {table}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.commit()

    def _remove(self) -> None:
        """Delete the file and then its companions: who looks meanwhile finds none."""
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _sync_table(
    connection: sqlite3.Connection, table: str, there: Mapping[Any, Row], rows: Mapping[Any, Row]
) -> None:
    key = TABLES[table].split()[0]
    gone = [(name,) for name in there.keys() - rows.keys()]
    if gone:
        connection.executemany(f"DELETE FROM {table} WHERE {key} = ?", gone)
    changed = [(name, *row) for name, row in rows.items() if there.get(name) is not row]
    if changed:
        marks = ", ".join("?" * len(changed[0]))
        connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", changed)
