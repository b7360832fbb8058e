"""Source and sink for the embedded log: any number of streams in one SQLite file.

Each stream is a table `(offset, payload)`, which the sqlite3 shell reads and writes as well:
`INSERT INTO labels (payload) VALUES ('{"id": "7", "label": "grass"}')`. Offsets start at 0 and are
never reused, so that old rows may be deleted when they are not needed for a replay.

The file must be on a local disk: SQLite's locks and write-ahead log do not work on a network file
system. The files with the endings `-wal` and `-shm` belong to it: move all of them, or none.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from sqlite3 import Connection

from streamboost.connectors.base import PARTITION, Message, Position, Sink
from streamboost.connectors.last_read import LastMessageFingerprint, ReplacementDetectingSource
from streamboost.connectors.sqlite.database import (
    Database,
    append_payloads,
    check_stream_name,
    stream_end_offset,
    table_exists,
)
from streamboost.connectors.sqlite.reading import PersistentReader
from streamboost.errors import ConfigurationError, DeletedError

_log = logging.getLogger(__name__)

_BEGINNING = 1_000
"""Number of first bytes of a message that its digest covers."""


class SqliteSource(ReplacementDetectingSource):
    """Reads a stream; polls are empty while the stream, or the file, does not exist.

    The file stays open between polls, because opening it costs most of the time of a poll. No lock
    is held between polls. `release_resources` closes the file.

    Parameters
    ----------
    path : path to the file
    stream : str
        Lower-case letters, digits, `_`, `-` and `.`, starting with a letter.
    max_bytes : int
        Limit per payload in memory. A longer payload is truncated to `max_bytes` + 1 bytes; the
        `size` of its message is the full length.
    on_data_loss : {"fail", "continue"}
        Reaction if unread messages were deleted: "continue" skips them (`skipped_ranges`).

    Raises
    ------
    ConnectorError
        While polling, when the stream ends before the position, as it was replaced by another; and
        when unread messages were deleted, unless `on_data_loss` is "continue".
    UnavailableError
        When other processes keep the file locked.

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
        self,
        path: str | os.PathLike[str],
        stream: str,
        max_bytes: int = 1_000_000,
        on_data_loss: str = "fail",
    ) -> None:
        if max_bytes < 1:
            raise ConfigurationError(f"max_bytes = {max_bytes}: write a number of at least 1")
        super().__init__(f"stream {stream!r}")
        self._database = Database(path)
        self._reader = PersistentReader(self._database)
        self._stream = check_stream_name(stream)
        self._max_bytes = max_bytes
        self._on_data_loss = on_data_loss
        self._gaps: dict[str, tuple[int, int]] = {}

    @property
    def skipped_ranges(self) -> Mapping[str, tuple[int, int]]:
        """Offsets [start, end) that were deleted before the last poll could read them."""
        return dict(self._gaps)

    def poll(self, limit: int) -> list[Message]:
        """Return at most `limit` messages."""
        self._gaps = {}
        if limit < 1:
            return []
        with self._reader.read_transaction() as connection:
            end = 0 if connection is None else stream_end_offset(connection, self._stream)
            if end < self._next or (
                connection and end > self._next and self._is_last_message_replaced(connection)
            ):
                raise DeletedError(
                    f"stream {self._stream!r} in {self._database.path} ends at offset {end}, and "
                    f"reading should continue at {self._next}: this is not the file that was read "
                    "before; put that one back, or start again with an empty state"
                )
            if connection is None or end == self._next:
                return []
            # Read as a blob: text is returned as its bytes, valid or not.
            rows = connection.execute(
                f"SELECT offset, substr(CAST(payload AS BLOB), 1, ?), "
                f'length(CAST(payload AS BLOB)) FROM "{self._stream}" '
                "WHERE offset >= ? ORDER BY offset LIMIT ?",
                (self._max_bytes + 1, self._next, limit),
            ).fetchall()
            first = rows[0][0] if rows else end
            if first > self._next > 0 and not self._has_message_before(connection, first):
                self._skip_deleted_messages(first)
        messages = [
            Message(payload or b"", PARTITION, offset, size or 0) for offset, payload, size in rows
        ]
        self._next = messages[-1].offset + 1 if messages else end
        if messages and messages[-1].offset > self._last.offset:
            self._last = LastMessageFingerprint.from_message(
                messages[-1].offset, messages[-1].payload[:_BEGINNING]
            )
        return messages

    def _has_message_before(self, connection: Connection, offset: int) -> bool:
        query = f'SELECT 1 FROM "{self._stream}" WHERE offset < ? LIMIT 1'
        return connection.execute(query, (offset,)).fetchone() is not None

    def _skip_deleted_messages(self, first: int) -> None:
        """Skip deleted messages up to offset `first`; DeletedError if `on_data_loss` is "fail"."""
        text = (
            f"{self._database.path}: offsets {self._next} to {first - 1} of stream "
            f"{self._stream!r} were deleted before they were read"
        )
        if self._on_data_loss != "continue":
            raise DeletedError(
                f"{text}: raise the [pipeline] retention of the pipeline that writes this file; "
                'and put the messages back, or set [pipeline] on_data_loss = "continue" to '
                "continue without them"
            )
        _log.error("%s, and are passed over", text, extra={"event": "offsets_deleted"})
        self._gaps = {PARTITION: (self._next, first)}

    def _is_last_message_replaced(self, connection: Connection) -> bool:
        row = connection.execute(
            f'SELECT substr(CAST(payload AS BLOB), 1, ?) FROM "{self._stream}" WHERE offset = ?',
            (min(self._max_bytes + 1, _BEGINNING), self._last.offset),
        ).fetchone()
        return row is not None and self._last.has_changed(row[0] or b"")

    def release_resources(self) -> None:
        """Close the file until the next poll."""
        self._reader.release_resources()

    def lag(self) -> int:
        """Return the number of unread offsets."""
        with self._database.read_transaction() as connection:
            end = 0 if connection is None else stream_end_offset(connection, self._stream)
        return max(end - self._next, 0)

    def beginning_offsets(self) -> Position | None:
        """Return the first retained offset."""
        with self._database.read_transaction() as connection:
            if connection is None or not table_exists(connection, self._stream):
                return {PARTITION: 0}
            found = connection.execute(f'SELECT min(offset) FROM "{self._stream}"').fetchone()
            first = (
                stream_end_offset(connection, self._stream) if found[0] is None else int(found[0])
            )
        return {PARTITION: first}

    def close(self) -> None:
        """Close the file; polling opens it again."""
        self._reader.release_resources()


class SqliteSink(Sink):
    """Appends to a stream, which it creates with its first message.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log.db"
    >>> sink = SqliteSink(path, "predictions")
    >>> sink.write([b"{}"]); sink.flush(); sink.close()
    """

    def __init__(self, path: str | os.PathLike[str], stream: str) -> None:
        self._database = Database(path)
        self._stream = check_stream_name(stream)
        self._written: list[bytes] = []

    @property
    def path(self) -> Path:
        """The file of the stream."""
        return self._database.path

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return self._stream

    def write(self, payloads: Sequence[bytes]) -> None:
        """Buffer `payloads` until `flush`."""
        self._written.extend(payloads)

    def flush(self) -> None:
        """Append the buffered payloads in one transaction. After an error, call it again."""
        if self._written:
            with self._database.write_transaction() as connection:
                append_payloads(connection, self._stream, self._written)
            self._written.clear()

    def close(self) -> None:
        """Close the file and drop unflushed payloads; the next flush opens it again."""
        self._written.clear()
        self._database.close()
