"""Retention in an SQLite log: deletes old messages and journal entries.

The table `_ends` has the end offset of each stream at moments, which are pairs of record count and
processing time. So messages can be deleted by age although they have no time.
"""

import os
import sqlite3
from collections.abc import Mapping, Sequence

from streamboost.connectors.sqlite.database import (
    Database,
    check_stream_name,
    stream_end_offset,
    table_exists,
)

_STEP = 5_000
"""Maximum number of messages that one transaction deletes, so that it blocks other writers only for
some milliseconds."""

_STEP_LENGTH = 10_000_000
"""Total length of payloads above which a transaction deletes no further message, as SQLite may
write zeros over all of them."""

_TOGETHER = 100
"""Number of messages per statement."""

_AT_LEAST = 100_000
"""Minimum limit of the messages and journal entries that a call of `delete_before` deletes."""

_PAGES = 2_000
"""Number of free pages above which the file is truncated, if they are most of the file."""


StreamMoment = tuple[int, int]
"""Number of records so far, and the processing time in milliseconds since the epoch."""


class StreamRetention:
    """Deletes old messages of streams, and old journal entries of a pipeline, from an SQLite file.

    A moment is a pair: the number of records so far, and the processing time in milliseconds since
    the epoch. The newest message of a stream is never deleted: in a table that another program
    created, the end offset may follow from this message only.

    Parameters
    ----------
    path : path to the file
    pipeline : name of the pipeline with the journal
    streams : names of the streams

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
    >>> path = Path(tempfile.mkdtemp()) / "log.db"
    >>> sink = SqliteSink(path, "predictions")
    >>> retention = StreamRetention(path, "demo", ["predictions"])
    >>> sink.write([b"1", b"2"]); sink.flush(); retention.store_end_offsets((2, 1_000))
    >>> sink.write([b"3"]); sink.flush(); retention.store_end_offsets((3, 2_000))
    >>> retention.stored_moments((3, 2_000))
    [(2, 1000), (3, 2000)]
    >>> retention.delete_before((2, 1_000), {}, 0)
    2
    >>> [message.payload for message in SqliteSource(path, "predictions").poll(10)]
    [b'3']
    >>> retention.close(); sink.close()
    """

    def __init__(self, path: str | os.PathLike[str], pipeline: str, streams: Sequence[str]) -> None:
        self._database = Database(path)
        self._pipeline = pipeline
        self._streams = [check_stream_name(stream) for stream in streams]
        self._last_total_end: int | None = None

    def store_end_offsets(self, moment: StreamMoment) -> None:
        """Store the current end of each stream as its end at `moment`.

        Stored moments later than `moment` are deleted, as they are from a state that was replaced.
        """
        with self._database.write_transaction() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS _ends (pipeline TEXT, n_records INTEGER, "
                "time_ms INTEGER, stream TEXT, end INTEGER)"
            )
            connection.execute(
                "DELETE FROM _ends WHERE pipeline = ? AND (n_records > ? OR time_ms > ?)",
                (self._pipeline, *moment),
            )
            ends = [(stream, stream_end_offset(connection, stream)) for stream in self._streams]
            connection.executemany(
                "INSERT INTO _ends VALUES (?, ?, ?, ?, ?)",
                [(self._pipeline, *moment, *end) for end in ends],
            )

    def stored_moments(self, now: StreamMoment) -> list[StreamMoment]:
        """Return the moments up to `now` whose end offsets are stored, oldest first."""
        with self._database.read_transaction() as connection:
            if connection is None or not table_exists(connection, "_ends"):
                return []
            found = connection.execute(
                "SELECT DISTINCT n_records, time_ms FROM _ends "
                "WHERE pipeline = ? AND n_records <= ? AND time_ms <= ? ORDER BY 1, 2",
                (self._pipeline, *now),
            )
            return found.fetchall()

    def delete_before(
        self, moment: StreamMoment, first_needed_offsets: Mapping[str, int], sequence: int
    ) -> int:
        """Delete messages older than `moment`, and journal entries up to batch `sequence`.

        The transactions are short. A call deletes a limited number of messages, at least twice the
        number appended since the last call. The next call deletes further messages.

        Parameters
        ----------
        moment : one of `stored_moments`
        first_needed_offsets : maps a stream to the first offset that must be kept; a stream may be
            missing
        sequence : newest batch whose journal entry may be deleted

        Returns
        -------
        int
            Number of deleted messages and journal entries.
        """
        n_deleted, limit = 0, max(_AT_LEAST, 2 * self._count_appended_messages())
        while n_deleted < limit:
            with self._database.write_transaction() as connection:
                n = self._delete_messages_and_entries(
                    connection, moment, first_needed_offsets, sequence
                )
                if not n:
                    self._delete_moments_before(connection, moment)
            n_deleted += n
            if not n:
                break
        if n_deleted:
            self._truncate_if_mostly_free()
        return n_deleted

    def _count_appended_messages(self) -> int:
        with self._database.read_transaction() as connection:
            if connection is None:
                return 0
            ends = sum(stream_end_offset(connection, stream) for stream in self._streams)
        before, self._last_total_end = self._last_total_end, ends
        return 0 if before is None else ends - before

    def _delete_messages_and_entries(
        self,
        connection: sqlite3.Connection,
        moment: StreamMoment,
        first_needed_offsets: Mapping[str, int],
        sequence: int,
    ) -> int:
        """Delete up to `_STEP` old messages and journal entries; return the number of deletions."""
        left, length = _STEP, 0
        # The journal first: a backup finds by its entries that older messages are deleted.
        if table_exists(connection, "_journal"):
            left -= connection.execute(
                "DELETE FROM _journal WHERE pipeline = ? AND sequence IN (SELECT sequence FROM "
                "_journal WHERE pipeline = ? AND sequence <= ? ORDER BY sequence LIMIT ?)",
                (self._pipeline, self._pipeline, sequence, left),
            ).rowcount
        for stream, end in connection.execute(
            "SELECT stream, end FROM _ends WHERE (pipeline, n_records, time_ms) = (?, ?, ?)",
            (self._pipeline, *moment),
        ).fetchall():
            if not table_exists(connection, stream):
                continue
            (newest,) = connection.execute(f'SELECT max(offset) FROM "{stream}"').fetchone()
            before = min(end, first_needed_offsets.get(stream, end), newest or 0)
            while left > 0 and length < _STEP_LENGTH:
                rows = connection.execute(
                    f'SELECT offset, length(payload) FROM "{stream}" WHERE offset < ? '
                    "ORDER BY offset LIMIT ?",
                    (before, min(left, _TOGETHER)),
                ).fetchall()
                if not rows:
                    break
                connection.execute(f'DELETE FROM "{stream}" WHERE offset <= ?', (rows[-1][0],))
                left -= len(rows)
                length += sum(n or 0 for _, n in rows)
        return _STEP - left

    def _delete_moments_before(self, connection: sqlite3.Connection, moment: StreamMoment) -> None:
        connection.execute(
            "DELETE FROM _ends WHERE pipeline = ? AND (n_records, time_ms) < (?, ?)",
            (self._pipeline, *moment),
        )

    def _truncate_if_mostly_free(self) -> None:
        with self._database.write_transaction() as connection:
            free, pages = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("freelist_count", "page_count")
            )
            if free > max(_PAGES, pages // 2):
                for _ in range(_PAGES):  # for Python's sqlite3, a statement frees only one page
                    connection.execute("PRAGMA incremental_vacuum(1)")

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._database.close()
