"""Reader of ``status.db``, for any process and any number of threads."""

import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from streamboost.pipelines.status.file import COUNTED, FILE, FORMAT, RATES, point_rates
from streamboost.pipelines.status.record_filter import CHOSEN, DISPUTED, RecordFilter

_BUSY_SECONDS = 1.0

_MARK = ("id", "time", "sequence", "kind", "version", "text")

Status = dict[str, Any]
Found = TypeVar("Found")


class LabelledPrediction(NamedTuple):
    """An answered request: model version, true label (`truth`) and predicted label (`said`).

    `propensity` is the inclusion probability of the request. `arrived` is the record's arrival
    time, in milliseconds since 1970. `source` is the annotator of the newest label; None if it is
    unknown.
    """

    version: int
    truth: str
    said: str
    propensity: float
    arrived: int = 0
    source: str | None = None


class _Connection(sqlite3.Connection):
    """A SQLite connection that closes itself when its thread ends."""

    def __del__(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # one that was never opened
            self.close()


class _ThreadConnection(threading.local):
    """The current thread's connection, the identity of its file, and how often it was opened."""

    connection: _Connection | None = None
    file: tuple[int, int, int] = (0, 0, 0)
    opened: int = 0


class StatusReader:
    """Reader of the published status of the pipeline with the state folder `path`.

    A reader never writes and never waits for the pipeline. If there is no readable status,
    documents are None and lists are empty. Any number of threads may share a reader; each has its
    own connection.

    Examples
    --------
    >>> from pathlib import Path
    >>> reader = StatusReader(Path("nowhere"))
    >>> reader.document("pipeline"), reader.requests(), reader.change_counter()
    (None, [], 0)
    """

    def __init__(self, path: Path) -> None:
        self.path = path / FILE
        self._of_thread = _ThreadConnection()

    def document(self, name: str) -> Status | None:
        """Return the status document `name` as a dict, or None if there is none."""
        found = self._query_rows(
            "SELECT value FROM documents WHERE name = ?", (name,), _decode_json_object
        )
        return found[0] if found else None

    def documents(self) -> dict[str, Status]:
        """Return all documents by name, in one consistent snapshot."""
        query = "SELECT name, value FROM documents"
        return dict(self._query_rows(query, (), lambda row: (row[0], _decode_json_object(row))))

    def chart_points(self, since_ms: int = 0) -> list[Status]:
        """Return the points later than `since_ms`, the oldest first.

        The counts and rates of a point cover the time since the previous point, `seconds`.
        """
        return list(self.chart_points_by_row(since_ms).values())

    def chart_points_by_row(
        self, since_ms: int = 0, known: Mapping[tuple[Any, ...], Status] | None = None
    ) -> dict[tuple[Any, ...], Status]:
        """Return the points later than `since_ms`, keyed by database row.

        `known` is the result of an earlier call; points in it are not decoded again.
        """
        query = "SELECT time, sequence, id, value FROM points WHERE time > ? ORDER BY time, id"
        found = known or {}
        rows = self._query_rows(
            query, (since_ms,), lambda row: (row, found.get(row) or _decode_point(row))
        )
        return dict(rows)

    def chart_marks(self, since_id: int = 0) -> list[Status]:
        """Return the chart events with an id above `since_id`, the oldest first."""
        query = f"SELECT {', '.join(_MARK)} FROM marks WHERE id > ? ORDER BY id"
        return self._query_rows(query, (since_id,), lambda row: dict(zip(_MARK, row, strict=True)))

    def predictions(self, limit: int = 500) -> list[Status]:
        """Return the newest `limit` predictions, the newest first."""
        rows = self._query_rows(
            "SELECT value FROM predictions ORDER BY id DESC", (), _decode_json_objects
        )
        return [prediction for row in rows for prediction in reversed(row)][:limit]

    def dead_letters(self, limit: int = 200) -> list[Status]:
        """Return dead letters, the newest first; payloads have at most 4,096 characters."""
        query = "SELECT value FROM dead_letters ORDER BY id DESC LIMIT ?"
        return self._query_rows(query, (limit,), _decode_json_object)

    def requests(self, limit: int = -1) -> list[Status]:
        """Return the open requests by utility, the largest first; `limit` -1 returns all.

        In addition to the keys of the request, `fields` has the record's fields that are not
        features.
        """
        query = "SELECT value FROM requests ORDER BY utility DESC, id LIMIT ?"
        return self._query_rows(query, (limit,), _decode_json_object)

    def request_ids(self) -> list[str]:
        """Return the ids of the open requests by utility, the largest first."""
        query = "SELECT id FROM requests ORDER BY utility DESC, id"
        return self._query_rows(query, (), lambda row: str(row[0]))

    def request(self, id: str) -> Status | None:
        """Return the open request for the record `id`, or None."""
        found = self._query_rows(
            "SELECT value FROM requests WHERE id = ?", (id,), _decode_json_object
        )
        return found[0] if found else None

    def labelled_record(self, id: str) -> Status | None:
        """Return the data of a requested or labelled record; None if it is not kept.

        `truth` is the record's label as text; None if it has none.
        """
        query = "SELECT truth, value FROM records WHERE id = ?"
        found = self._query_rows(query, (id,), _decode_labelled_record)
        return found[0] if found else None

    def labelled_records(
        self, record_filter: RecordFilter, limit: int = 100, offset: int = 0
    ) -> list[Status]:
        """Return the labelled records that match a filter, the newest first, from `offset` on."""
        query = (
            f"SELECT truth, value FROM records WHERE {CHOSEN} "
            "ORDER BY time DESC, id LIMIT :limit OFFSET :offset"
        )
        values = {**asdict(record_filter), "limit": limit, "offset": offset}
        return self._query_rows(query, values, _decode_labelled_record)

    def count_records(self, record_filter: RecordFilter | None) -> int:
        """Return the number of labelled records that match a filter; None: all stored records."""
        query = "SELECT count(*) FROM records" + (f" WHERE {CHOSEN}" if record_filter else "")
        return sum(
            self._query_rows(
                query, asdict(record_filter) if record_filter else {}, lambda row: int(row[0])
            )
        )

    def class_counts(self, record_filter: RecordFilter) -> list[tuple[str, str | None, int]]:
        """Count the records that match a filter, by label and predicted label.

        Returns (label, predicted label, count), the largest count first. The predicted label is
        None for records without a prediction.
        """
        query = (
            f"SELECT truth, said, count(*) FROM records WHERE {CHOSEN} "
            "GROUP BY truth, said ORDER BY count(*) DESC, truth, said"
        )
        return self._query_rows(
            query, asdict(record_filter), lambda row: (row[0], row[1], int(row[2]))
        )

    def labelled_predictions(self) -> list[LabelledPrediction]:
        """Return the requests with a label and a prediction, in the arrival order of the records.

        Model versions are compared on them. Records with a disputed label are left out.
        """
        query = (
            "SELECT json_extract(value, '$.version') AS version, truth, said, "
            "json_extract(value, '$.propensity') AS chance, "
            "coalesce(json_extract(value, '$.arrived'), 0) AS arrived, "
            "json_extract(value, '$.labels[#-1][2]') FROM records "
            "WHERE truth IS NOT NULL AND said IS NOT NULL AND version > 0 AND chance > 0 "
            f"AND NOT {DISPUTED} ORDER BY arrived, id"
        )
        return self._query_rows(query, (), lambda row: LabelledPrediction(*row))

    def ids_with_prefix(self, start: str, limit: int = 20) -> list[str]:
        """Return up to `limit` ids of stored records that begin with `start`, the newest first."""
        query = "SELECT id FROM records WHERE substr(id, 1, ?) = ? ORDER BY time DESC, id LIMIT ?"
        return self._query_rows(query, (len(start), start, limit), lambda row: str(row[0]))

    def record_rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of the table ``records``, the oldest first."""
        query = "SELECT id, time, truth, said, value FROM records ORDER BY time, id"
        return self._query_rows(query, (), tuple)

    def versions(self) -> list[Status]:
        """Return the model versions that have been active, the oldest first."""
        return self._query_rows("SELECT value FROM versions ORDER BY id", (), _decode_json_object)

    def change_counter(self) -> int:
        """Return a number that changes whenever the file changes; 0 without a readable status.

        Each thread has its own numbers: compare only those of one thread.
        """
        found = self._query_rows("PRAGMA data_version", (), lambda row: int(row[0]))
        return (self._of_thread.opened << 32) + found[0] if found else 0

    def close(self) -> None:
        """Close this thread's connection; those of other threads are closed when they end."""
        if self._of_thread.connection is not None:
            self._of_thread.connection.close()
            self._of_thread.connection = None

    def _query_rows(
        self,
        query: str,
        values: tuple[Any, ...] | dict[str, Any],
        convert_row: Callable[[tuple[Any, ...]], Found],
    ) -> list[Found]:
        """Run `query`, and return its rows, each converted by `convert_row`; [] if unreadable."""
        try:
            return [convert_row(row) for row in self._connect().execute(query, values)]
        except (sqlite3.Error, OSError, msgspec.MsgspecError):
            self.close()
            return []

    def _connect(self) -> sqlite3.Connection:
        """Return this thread's connection; open a new one if the file was replaced."""
        look, found = self._of_thread, self.path.stat()
        # Without a write-ahead log, the modification time of the file shows changes.
        file = (found.st_dev, found.st_ino, 0 if self._has_write_ahead_log() else found.st_mtime_ns)
        if look.connection is not None and look.file == file:
            return look.connection
        self.close()
        address = f"{self.path.resolve().as_uri()}?mode=ro"
        look.connection = _open_connection(
            address if self._has_write_ahead_log() else f"{address}&immutable=1"
        )
        look.file, look.opened = file, look.opened + 1
        return look.connection

    def _has_write_ahead_log(self) -> bool:
        """Return whether a write-ahead log exists, because a writer is open or was killed."""
        return self.path.with_name(f"{self.path.name}-wal").exists()


def _open_connection(address: str) -> _Connection:
    connection = sqlite3.connect(
        address,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=_Connection,
        uri=True,
    )
    if connection.execute("PRAGMA user_version").fetchone() != (FORMAT,):
        raise sqlite3.DatabaseError("the status is that of another release")
    return connection


def _decode_json_object(row: tuple[Any, ...]) -> Status:
    found: Status = msgspec.json.decode(row[-1], type=dict[str, Any])
    return found


def _decode_json_objects(row: tuple[Any, ...]) -> list[Status]:
    return msgspec.json.decode(row[-1], type=list[dict[str, Any]])


def _decode_labelled_record(row: tuple[Any, ...]) -> Status:
    return _decode_json_object(row) | {"truth": row[0]}


def _decode_point(row: tuple[Any, ...]) -> Status:
    value = _decode_json_object(row)
    counts = {key: value[key] for key in COUNTED}
    found = dict(zip(RATES, point_rates(**counts), strict=True))
    return {"time": row[0], "sequence": row[1], **value, **found}
