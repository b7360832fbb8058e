"""Reading ``status.db``, from any process and any number of threads."""

import sqlite3
import threading
from pathlib import Path
from typing import Any

import msgspec

from streamboost.pipelines.status_file import FILE

__all__ = ["StatusReader"]

_BUSY_SECONDS = 1.0

Status = dict[str, Any]


class _Look(threading.local):
    """A thread's connection, the file it leads to, and how many files that thread has opened."""

    connection: sqlite3.Connection | None = None
    file: tuple[int, int, int] = (0, 0, 0)
    opened: int = 0


class StatusReader:
    """What the pipeline whose state folder is `path` last said of itself.

    It never writes, and never waits for the pipeline. While there is no status, or it cannot be
    read, documents are None and lists are empty. Any number of threads may use it; each has a
    connection of its own.

    Examples
    --------
    >>> from pathlib import Path
    >>> reader = StatusReader(Path("nowhere"))
    >>> reader.document("pipeline"), reader.requests(), reader.stamp()
    (None, [], 0)
    """

    def __init__(self, path: Path) -> None:
        self.path = path / FILE
        self._look = _Look()

    def document(self, name: str) -> Status | None:
        """Return the document `name`, None where there is none."""
        rows = self._read("SELECT value FROM documents WHERE name = ?", (name,))
        return _object(rows[0][0]) if rows else None

    def documents(self) -> dict[str, Status]:
        """Return all documents by their names, as of one moment."""
        return {
            name: _object(value) for name, value in self._read("SELECT name, value FROM documents")
        }

    def points(self, since_ms: int = 0) -> list[Status]:
        """Return the points later than `since_ms`, the oldest first, each with its `time`."""
        rows = self._read(
            "SELECT time, sequence, value FROM points WHERE time > ? ORDER BY time, id", (since_ms,)
        )
        return [{"time": time, "sequence": n, **_object(value)} for time, n, value in rows]

    def marks(self, since_id: int = 0) -> list[Status]:
        """Return the marks after the one numbered `since_id`, the oldest first."""
        columns = ("id", "time", "sequence", "kind", "version", "text")
        rows = self._read(
            f"SELECT {', '.join(columns)} FROM marks WHERE id > ? ORDER BY id", (since_id,)
        )
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def predictions(self, limit: int = 500) -> list[Status]:
        """Return the newest predictions, the newest first."""
        return self._newest("predictions", limit)

    def dead_letters(self, limit: int = 200) -> list[Status]:
        """Return the newest dead letters, the newest first."""
        return self._newest("dead_letters", limit)

    def requests(self) -> list[Status]:
        """Return the open requests, the most useful answer first."""
        rows = self._read("SELECT value FROM requests ORDER BY utility DESC, id")
        return [_object(value) for (value,) in rows]

    def request(self, id: str) -> Status | None:
        """Return the open request for the record `id`, None where there is none."""
        rows = self._read("SELECT value FROM requests WHERE id = ?", (id,))
        return _object(rows[0][0]) if rows else None

    def stamp(self) -> int:
        """Return a number that differs from the one before, in this thread, after a change.

        0 says that there is nothing to be read.
        """
        rows = self._read("PRAGMA data_version")
        return (self._look.opened << 32) + int(rows[0][0]) if rows else 0

    def close(self) -> None:
        """Close this thread's connection; those of others go with their threads."""
        if self._look.connection is not None:
            self._look.connection.close()
            self._look.connection = None

    def _newest(self, table: str, limit: int) -> list[Status]:
        rows = self._read(f"SELECT value FROM {table} ORDER BY id DESC LIMIT ?", (limit,))
        return [_object(value) for (value,) in rows]

    def _read(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection().execute(query, values).fetchall()
        except (sqlite3.Error, OSError):
            self.close()
            return []

    def _connection(self) -> sqlite3.Connection:
        """Return this thread's connection, which leads to the file that is there now."""
        look, found = self._look, self.path.stat()
        # Without a write-ahead log the file alone is all there is: then its times tell of changes.
        file = (found.st_dev, found.st_ino, 0 if self._is_live() else found.st_mtime_ns)
        if look.connection is not None and look.file == file:
            return look.connection
        self.close()
        address = f"{self.path.resolve().as_uri()}?mode=ro"
        look.connection = _opened(address if self._is_live() else f"{address}&immutable=1")
        look.file, look.opened = file, look.opened + 1
        return look.connection

    def _is_live(self) -> bool:
        """Whether a pipeline has the file open, or was killed while it had."""
        return self.path.with_name(f"{self.path.name}-wal").exists()


def _opened(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, timeout=_BUSY_SECONDS, isolation_level=None, uri=True)
    try:
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _object(text: str) -> Status:
    found: Status = msgspec.json.decode(text)
    return found
