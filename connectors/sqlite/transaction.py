"""Commits to the embedded log: a batch's writes, its sources' positions, and its journal entry.

All of these are one transaction of the SQLite file with the streams.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from streamboost.connectors.base import CommittedBatch, Position, Sink, Transaction
from streamboost.connectors.sqlite.database import (
    Database,
    append_payloads,
    decode_if_utf8,
    table_exists,
)
from streamboost.connectors.sqlite.stream import SqliteSink
from streamboost.errors import ConfigurationError, StateError

_PAGE = 256


class SqliteTransaction(Transaction):
    """Commits writes, positions and journal entry of each batch as one SQLite transaction.

    After a crash, the file has the whole batch or nothing of it. Several pipelines may share a
    file. If two processes run the same pipeline, the second to commit a batch is refused.

    Parameters
    ----------
    path : path to the file
    pipeline : str
        Name of the pipeline, under which positions and journal entries are stored in the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "log.db"
    >>> transaction, sink = SqliteTransaction(path, "demo"), SqliteSink(path, "predictions")
    >>> transaction.commit(1, [(sink, [b"{}"])], {"records": {"0": 7}}, b'{"sequence": 1}')
    >>> transaction.last_committed_batch()
    CommittedBatch(sequence=1, positions={'records': {'0': 7}})
    >>> list(transaction.read_journal())
    [(1, b'{"sequence": 1}')]
    >>> transaction.close(); sink.close()
    """

    def __init__(self, path: str | os.PathLike[str], pipeline: str) -> None:
        if not pipeline:
            raise ConfigurationError("a pipeline needs a name: its journal is kept under it")
        self._database = Database(path)
        self._pipeline = pipeline

    def last_committed_batch(self) -> CommittedBatch | None:
        """Return the newest committed batch, or None before the first."""
        with self._database.read_transaction() as connection:
            return None if connection is None else self._read_committed_batch(connection)

    def commit(
        self,
        sequence: int,
        writes: Sequence[tuple[Sink, Sequence[bytes]]],
        positions: Mapping[str, Position],
        journal: bytes,
    ) -> None:
        """Commit a batch; `sequence` must be the last committed batch's number plus 1, or 1.

        Raises StateError for another number: another process has committed, or the state was not
        recovered. Raises UnavailableError if other processes keep the file locked, or its disk is
        full; the file then has nothing of the batch. Sinks of other files are written before the
        file is locked. The next call with the same batch does not write these sinks again.
        """
        if not all(self.enlists(sink) for sink, _ in writes):
            with self._database.read_transaction() as connection:
                self._read_previous_batch(sequence, connection)
            self.write_non_transactional(sequence, writes)
        with self._database.write_transaction() as connection:
            last = self._read_previous_batch(sequence, connection)
            for sink, payloads in writes:
                if isinstance(sink, SqliteSink) and self.enlists(sink):
                    append_payloads(connection, sink.stream, payloads)
            _create_journal_tables(connection)
            everywhere = last.positions | dict(positions)
            self._store_committed_batch(connection, CommittedBatch(sequence, everywhere))
            connection.execute(
                "INSERT INTO _journal VALUES (?, ?, ?)",
                (self._pipeline, sequence, decode_if_utf8(journal)),
            )

    def initialize_last_batch(self, committed: CommittedBatch) -> None:
        """Store `committed` as the pipeline's last batch, so that the next commit follows it.

        Raises StateError if the file already has a batch of the pipeline.
        """
        with self._database.write_transaction() as connection:
            if self._read_committed_batch(connection) is not None:
                raise StateError(
                    f"{self._database.path} holds batches of {self._pipeline!r}: it continues "
                    "after these, and nowhere else"
                )
            _create_journal_tables(connection)
            self._store_committed_batch(connection, committed)

    def pipeline_names(self) -> list[str]:
        """Return the names of the pipelines with batches in the file."""
        with self._database.read_transaction() as connection:
            if connection is None or not table_exists(connection, "_committed"):
                return []
            return [name for (name,) in connection.execute("SELECT pipeline FROM _committed")]

    def enlists(self, sink: Sink) -> bool:
        """Return whether `sink` writes to the transaction's file."""
        return isinstance(sink, SqliteSink) and sink.path == self._database.path

    def read_journal(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield (batch number, journal entry) of every batch after batch `after`."""
        while True:
            with self._database.read_transaction() as connection:
                if connection is None or not table_exists(connection, "_journal"):
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

    def _store_committed_batch(
        self, connection: sqlite3.Connection, committed: CommittedBatch
    ) -> None:
        positions = msgspec.json.encode(committed.positions).decode()
        connection.execute(
            "INSERT OR REPLACE INTO _committed VALUES (?, ?, ?)",
            (self._pipeline, committed.sequence, positions),
        )

    def _read_previous_batch(
        self, sequence: int, connection: sqlite3.Connection | None
    ) -> CommittedBatch:
        """Return the last committed batch; StateError if its number is not `sequence` - 1."""
        found = None if connection is None else self._read_committed_batch(connection)
        last = found or CommittedBatch(0, {})
        if sequence != last.sequence + 1:
            raise StateError(
                f"pipeline {self._pipeline!r} cannot commit batch {sequence} after batch "
                f"{last.sequence} in {self._database.path}: another process commits here, or "
                "the state is from another run; stop the other, then start again"
            )
        return last

    def _read_committed_batch(self, connection: sqlite3.Connection) -> CommittedBatch | None:
        if not table_exists(connection, "_committed"):
            return None
        row = connection.execute(
            "SELECT sequence, positions FROM _committed WHERE pipeline = ?", (self._pipeline,)
        ).fetchone()
        if row is None:
            return None
        return CommittedBatch(row[0], msgspec.json.decode(row[1], type=dict[str, dict[str, int]]))


def _create_journal_tables(connection: sqlite3.Connection) -> None:
    if table_exists(connection, "_committed"):
        return
    connection.execute(
        "CREATE TABLE _committed "
        "(pipeline TEXT PRIMARY KEY, sequence INTEGER NOT NULL, positions TEXT NOT NULL)"
    )
    connection.execute(
        "CREATE TABLE _journal (pipeline TEXT, sequence INTEGER, entry NOT NULL, "
        "PRIMARY KEY (pipeline, sequence)) WITHOUT ROWID"
    )
