"""The embedded log: any number of streams, a journal and positions in one SQLite file.

Each stream is a table `(offset, payload)`, which the sqlite3 shell reads and writes as well:
`INSERT INTO labels (payload) VALUES ('{"id": "7", "label": "grass"}')`. Offsets start at 0 and are
never given twice, so old rows may be deleted once nobody needs to read them again.

The file must be on a local disk: SQLite's locks and its write-ahead log do not hold over a network
file system. Its `-wal` and `-shm` companions belong to it: they move with it, or not at all.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from streamboost.connectors.base import (
    Committed,
    Message,
    Position,
    Sink,
    Source,
    Transaction,
    write_outside,
)
from streamboost.connectors.database import (
    Database,
    append,
    as_stored,
    checked_stream,
    end_of,
    table_exists,
)
from streamboost.errors import ConfigurationError, ConnectorError, StateError

__all__ = ["SqliteSink", "SqliteSource", "SqliteTransaction"]

_PARTITION = "0"
_PAGE = 256
_FORMAT = 1


class SqliteSource(Source):
    """Reads a stream; it gives nothing as long as the stream, or the file, is not there yet.

    Parameters
    ----------
    path : path to the file
    stream : str
        Lower-case letters, digits, `_`, `-` and `.`, starting with a letter.
    max_bytes : int
        What of a payload is held in memory: of a longer one, the first `max_bytes` + 1 bytes are
        given, with its true size.

    Raises
    ------
    ConnectorError
        While polling, when the stream ends before the position: it is not the one read before.
    UnavailableError
        When others keep the file locked.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log.db"
    >>> source, sink = SqliteSource(path, "labels"), SqliteSink(path, "labels")
    >>> source.poll(10)
    []
    >>> sink.write([b'{"id": "7", "label": "grass"}']); sink.flush()
    >>> source.poll(10)
    [Message(payload=b'{"id": "7", "label": "grass"}', partition='0', offset=0, size=29)]
    >>> source.close(); sink.close()
    """

    def __init__(
        self, path: str | os.PathLike[str], stream: str, max_bytes: int = 1_000_000
    ) -> None:
        if max_bytes < 1:
            raise ConfigurationError(f"max_bytes = {max_bytes}: write a number of at least 1")
        self._database = Database(path)
        self._stream = checked_stream(stream)
        self._max_bytes = max_bytes
        self._next = 0

    def poll(self, limit: int) -> list[Message]:
        """Read at most `limit` messages."""
        if limit < 1:
            return []
        with self._database.reading() as connection:
            end = 0 if connection is None else end_of(connection, self._stream)
            if end < self._next:
                raise ConnectorError(
                    f"stream {self._stream!r} in {self._database.path} ends at offset {end}, and "
                    f"reading should go on at {self._next}: this is not the file that was read "
                    "before; put that one back, or begin anew with an empty state"
                )
            if connection is None or end == self._next:
                return []
            # As a blob: text is given byte for byte, whatever it holds.
            rows = connection.execute(
                f"SELECT offset, substr(CAST(payload AS BLOB), 1, ?), "
                f'length(CAST(payload AS BLOB)) FROM "{self._stream}" '
                "WHERE offset >= ? ORDER BY offset LIMIT ?",
                (self._max_bytes + 1, self._next, limit),
            ).fetchall()
        messages = [
            Message(payload or b"", _PARTITION, offset, size or 0) for offset, payload, size in rows
        ]
        self._next = messages[-1].offset + 1 if messages else end
        return messages

    def position(self) -> Position:
        """Return the offset of the next message."""
        return {_PARTITION: self._next}

    def lag(self) -> int:
        """Return how many offsets lie between the next message and the stream's end."""
        with self._database.reading() as connection:
            end = 0 if connection is None else end_of(connection, self._stream)
        return max(end - self._next, 0)

    def beginning(self) -> Position:
        """Return the offset of the oldest message that was not deleted."""
        with self._database.reading() as connection:
            if connection is None or not table_exists(connection, self._stream):
                return {_PARTITION: 0}
            found = connection.execute(f'SELECT min(offset) FROM "{self._stream}"').fetchone()
            first = end_of(connection, self._stream) if found[0] is None else int(found[0])
        return {_PARTITION: first}

    def seek(self, position: Position) -> None:
        """Go on from an offset."""
        unknown = sorted(set(position) - {_PARTITION})
        if unknown:
            raise ConnectorError(
                f"stream {self._stream!r} has one partition, {_PARTITION!r}; the position names "
                f"{unknown[0]!r}"
            )
        self._next = position.get(_PARTITION, 0)

    def close(self) -> None:
        """Close the file; polling opens it again."""
        self._database.close()


class SqliteSink(Sink):
    """Appends to a stream, which it creates with its first message.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log.db"
    >>> sink = SqliteSink(path, "predictions")
    >>> sink.write([b"{}"]); sink.flush(); sink.close()
    """

    def __init__(self, path: str | os.PathLike[str], stream: str) -> None:
        self._database = Database(path)
        self._stream = checked_stream(stream)
        self._written: list[bytes] = []

    @property
    def path(self) -> Path:
        """The file it writes to."""
        return self._database.path

    @property
    def stream(self) -> str:
        """The stream it appends to."""
        return self._stream

    def write(self, payloads: Sequence[bytes]) -> None:
        """Keep `payloads` until `flush`."""
        self._written.extend(payloads)

    def flush(self) -> None:
        """Append what was written, in one transaction; after an error it can be called again."""
        if self._written:
            with self._database.writing() as connection:
                append(connection, self._stream, self._written)
            self._written.clear()

    def close(self) -> None:
        """Close the file; flushing opens it again. What was not flushed is not written."""
        self._written.clear()
        self._database.close()


class SqliteTransaction(Transaction):
    """Commits streams, positions and journal of one pipeline as one; it binds sinks of its file.

    A crash at any moment leaves the batch whole or not there. Several pipelines may share a file;
    of two processes that run the same one, the second to commit a batch is refused.

    Parameters
    ----------
    path : path to the file
    pipeline : str
        The name under which positions and journal are kept.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log.db"
    >>> transaction, sink = SqliteTransaction(path, "demo"), SqliteSink(path, "predictions")
    >>> transaction.commit(1, [(sink, [b"{}"])], {"records": {"0": 7}}, b'{"sequence": 1}')
    >>> transaction.committed()
    Committed(sequence=1, positions={'records': {'0': 7}})
    >>> list(transaction.journal())
    [(1, b'{"sequence": 1}')]
    >>> transaction.close(); sink.close()
    """

    def __init__(self, path: str | os.PathLike[str], pipeline: str) -> None:
        if not pipeline:
            raise ConfigurationError("a pipeline needs a name: its journal is kept under it")
        self._database = Database(path)
        self._pipeline = pipeline

    def committed(self) -> Committed | None:
        """Return the newest batch that was committed, or None before the first."""
        with self._database.reading() as connection:
            return None if connection is None else self._committed(connection)

    def commit(
        self,
        sequence: int,
        writes: Sequence[tuple[Sink, Sequence[bytes]]],
        positions: Mapping[str, Position],
        journal: bytes,
    ) -> None:
        """Commit batch `sequence`, which must be the one after the last; the first is 1.

        Raises StateError when it is not: somebody else has committed, or nothing was recovered.
        Nothing is written then, nor while others keep the file locked (UnavailableError).
        """
        with self._database.writing() as connection:
            last = self._committed(connection) or Committed(0, {})
            if sequence != last.sequence + 1:
                raise StateError(
                    f"pipeline {self._pipeline!r} cannot commit batch {sequence} after batch "
                    f"{last.sequence} in {self._database.path}: another process commits here, or "
                    "the state is from another run; stop the other, then start again"
                )
            for sink, payloads in writes:
                if isinstance(sink, SqliteSink) and self.binds(sink):
                    append(connection, sink.stream, payloads)
                else:
                    write_outside(sink, payloads)
            _create_journal(connection)
            everywhere = last.positions | dict(positions)
            connection.execute(
                "INSERT OR REPLACE INTO _committed VALUES (?, ?, ?)",
                (self._pipeline, sequence, msgspec.json.encode(everywhere).decode()),
            )
            connection.execute(
                "INSERT INTO _journal VALUES (?, ?, ?)",
                (self._pipeline, sequence, as_stored(journal)),
            )

    def pipelines(self) -> list[str]:
        """Return the names under which batches were committed to the file."""
        with self._database.reading() as connection:
            if connection is None or not _has_journal(connection, self._database.path):
                return []
            return [name for (name,) in connection.execute("SELECT pipeline FROM _committed")]

    def binds(self, sink: Sink) -> bool:
        """Tell whether `sink` writes to the transaction's file."""
        return isinstance(sink, SqliteSink) and sink.path == self._database.path

    def journal(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Give sequence and entry of every batch after batch `after`, reading page by page."""
        while True:
            with self._database.reading() as connection:
                if connection is None or not _has_journal(connection, self._database.path):
                    return
                rows = connection.execute(
                    "SELECT sequence, CAST(entry AS BLOB) FROM _journal "
                    "WHERE pipeline = ? AND sequence > ? ORDER BY sequence LIMIT ?",
                    (self._pipeline, after, _PAGE),
                ).fetchall()
            if not rows:
                return
            yield from rows
            after = rows[-1][0]

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._database.close()

    def _committed(self, connection: sqlite3.Connection) -> Committed | None:
        if not _has_journal(connection, self._database.path):
            return None
        row = connection.execute(
            "SELECT sequence, positions FROM _committed WHERE pipeline = ?", (self._pipeline,)
        ).fetchone()
        if row is None:
            return None
        return Committed(row[0], msgspec.json.decode(row[1], type=dict[str, dict[str, int]]))


def _create_journal(connection: sqlite3.Connection) -> None:
    if table_exists(connection, "_format"):
        return
    connection.execute("CREATE TABLE _format (version INTEGER NOT NULL)")
    connection.execute("INSERT INTO _format VALUES (?)", (_FORMAT,))
    connection.execute(
        "CREATE TABLE _committed "
        "(pipeline TEXT PRIMARY KEY, sequence INTEGER NOT NULL, positions TEXT NOT NULL)"
    )
    connection.execute(
        "CREATE TABLE _journal (pipeline TEXT, sequence INTEGER, entry NOT NULL, "
        "PRIMARY KEY (pipeline, sequence)) WITHOUT ROWID"
    )


def _has_journal(connection: sqlite3.Connection, path: Path) -> bool:
    """Tell whether anything was ever committed; StateError when it cannot be read."""
    if not table_exists(connection, "_format"):
        return False
    (version,) = connection.execute("SELECT max(version) FROM _format").fetchone()
    if version != _FORMAT:
        raise StateError(
            f"the journal in {path} has format {version}, and this release reads {_FORMAT}: use "
            "the release that wrote it, or begin anew with an empty state folder"
        )
    return True
