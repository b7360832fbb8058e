"""``label_studio.db``: store of requests and their tasks, written before a task is created.

A task is identified by the key in its data: the pipeline's name, a secret of this file, and the
request's batch and record. The task number is not enough, as a reset server assigns the same
numbers to other tasks.
"""

import fcntl
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Literal

import msgspec

from streamboost.connectors.base import Position, Source
from streamboost.connectors.sqlite.database import Database, table_exists
from streamboost.errors import StateError

__all__ = ["FILE", "LABELS", "RECORDS", "TaskEntry", "TaskStore"]

FILE = "label_studio.db"

TaskStage = Literal["new", "sent", "open", "expired", "refused", "done"]
"""Stages of a request: new, sent, open once the number of its task is known, and finally done.

A refused request waits for another labelling interface. An expired request, whose task an annotator
had started when the request expired or was answered elsewhere, waits for that annotator's answer.
"""

KEPT = 100_000
"""Number of requests kept after they are done, so that a replay creates no second task."""

RECORDS, LABELS = "imported records", "imported labels"
"""Names of the sources of an imported project, of which positions are stored."""

_FORMAT = 3
_TABLES = (
    "CREATE TABLE requests (number INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, "
    "id TEXT NOT NULL, sequence INTEGER NOT NULL, request BLOB, stage TEXT NOT NULL, "
    "task INTEGER, sent REAL, answered_by TEXT NOT NULL DEFAULT '[]', reason TEXT)",
    "CREATE INDEX by_id ON requests (id)",
    "CREATE INDEX in_hand ON requests (stage) WHERE stage != 'done'",
    "CREATE TABLE positions (source TEXT PRIMARY KEY, position TEXT NOT NULL)",
    "CREATE TABLE imported (id TEXT NOT NULL, annotator TEXT NOT NULL, label TEXT NOT NULL, "
    "PRIMARY KEY (id, annotator)) WITHOUT ROWID",
    "CREATE TABLE mark (secret TEXT NOT NULL)",
    "CREATE TABLE counts (kind TEXT PRIMARY KEY, n INTEGER NOT NULL)",
    f"PRAGMA user_version = {_FORMAT}",
)

_COLUMNS = "key, id, sequence, request, stage, task, sent, answered_by"

_position = msgspec.json.Decoder(Position).decode
_sources = msgspec.json.Decoder(tuple[str | None, ...]).decode


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """Label request with its task in Label Studio.

    Attributes
    ----------
    key : unique key of the request
    id, sequence : record id, and sequence of the batch with the request
    request : the request message
    stage : stage of the request
    task : number of the task in Label Studio
    sent : time at which the task was sent, in seconds since the epoch
    answered_by : annotators whose labels, as read so far, answer the request; None is an unknown
        annotator
    """

    key: str
    id: str
    sequence: int
    request: bytes
    stage: TaskStage = "new"
    task: int | None = None
    sent: float | None = None
    answered_by: tuple[str | None, ...] = ()


class TaskStore:
    """Store of requests and their tasks, in the SQLite file at `path`.

    Each method is one transaction.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = Database(path)

    def key_prefix(self, pipeline_name: str) -> str:
        """Return the prefix of request keys: the pipeline's name, and a random token of the store.

        The token is created on the first call.
        """
        with self._write_transaction() as connection:
            found = connection.execute("SELECT secret FROM mark").fetchone()
            if found is None:
                found = (secrets.token_hex(8),)
                connection.execute("INSERT INTO mark VALUES (?)", found)
        return f"{pipeline_name}/{found[0]}"

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Context manager that locks the store; StateError if another process has locked it."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StateError(
                    f"{self.path} is in use: `streamboost label-studio` runs for this pipeline "
                    "already; stop it first"
                ) from None
            try:
                yield
            finally:
                self._database.close()

    def stored_position(self, source: str) -> Position:
        """Return the stored position of `source`; empty if none is stored."""
        found = self._stored_position_text(source)
        return {} if found is None else _position(found)

    def seek_to_stored_position(self, source_name: str, source: Source) -> None:
        """Seek the source `source_name` to its stored position."""
        if (bookmark := self._stored_position_text(f"{source_name}.bookmark")) is not None:
            source.set_expected_content(bookmark)
        source.seek(self.stored_position(source_name))

    def _stored_position_text(self, source: str) -> str | None:
        with self._write_transaction() as connection:
            query = "SELECT position FROM positions WHERE source = ?"
            found = connection.execute(query, (source,)).fetchone()
        return None if found is None else str(found[0])

    def add_requests(
        self,
        source: str,
        position: Position,
        entries: Iterable[TaskEntry],
        bookmark: str | None = None,
    ) -> None:
        """Store new requests, ignoring known ones, and the progress of reading `source`.

        `position` is the position up to which the source was read. `bookmark` is the fingerprint of
        the content that was read; None: unchanged.
        """
        with self._write_transaction() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO requests (key, id, sequence, request, stage) "
                "VALUES (?, ?, ?, ?, 'new')",
                ((entry.key, entry.id, entry.sequence, entry.request) for entry in entries),
            )
            _store_source_position(connection, source, position, bookmark)

    def mark_answered(
        self,
        source: str,
        position: Position,
        answered_by: Mapping[str, Collection[str | None]],
        bookmark: str | None = None,
    ) -> None:
        """Store the annotators who answered each request, and the progress of reading `source`.

        `answered_by` maps a request key to these annotators. `position` and `bookmark` are as in
        `add_requests`.
        """
        with self._write_transaction() as connection:
            connection.executemany(
                "UPDATE requests SET answered_by = ? WHERE key = ?",
                ((msgspec.json.encode([*by]).decode(), key) for key, by in answered_by.items()),
            )
            _store_source_position(connection, source, position, bookmark)

    def add_imported(
        self,
        source: str,
        position: Position,
        rows: Iterable[tuple[str, str, str]],
        bookmark: str | None = None,
    ) -> None:
        """Store the records and labels that `source` has, and the progress of reading it.

        A row is (record id, annotator, newest label of this annotator). For a record itself, the
        annotator is empty, and a digest of the record is in place of the label. `position` and
        `bookmark` are as in `add_requests`.
        """
        with self._write_transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO imported VALUES (?, ?, ?)", rows)
            _store_source_position(connection, source, position, bookmark)

    def forget_imported(self) -> None:
        """Delete the rows of `add_imported`, and the progress of reading their sources."""
        with self._write_transaction() as connection:
            connection.execute("DELETE FROM imported")
            names = [f"{name}{end}" for name in (RECORDS, LABELS) for end in ("", ".bookmark")]
            connection.executemany("DELETE FROM positions WHERE source = ?", zip(names))

    def imported(self) -> dict[tuple[str, str], str]:
        """Return the rows of `add_imported`: labels by (record id, annotator)."""
        with self._write_transaction() as connection:
            rows = connection.execute("SELECT id, annotator, label FROM imported").fetchall()
        return {(id, annotator): label for id, annotator, label in rows}

    def entries_at_stage(self, *stages: TaskStage) -> list[TaskEntry]:
        """Return the requests at one of `stages`, the oldest first."""
        return self._select_entries(f"stage IN ({', '.join('?' * len(stages))})", stages)

    def entries_for_records(self, ids: Sequence[str]) -> list[TaskEntry]:
        """Return the requests for the records `ids` that are not done, the oldest first."""
        condition = "stage != 'done' AND id IN (SELECT value FROM json_each(?))"
        return self._select_entries(condition, (msgspec.json.encode(ids).decode(),))

    def _select_entries(self, condition: str, values: Sequence[str]) -> list[TaskEntry]:
        query = f"SELECT {_COLUMNS} FROM requests WHERE {condition} ORDER BY number"
        with self._write_transaction() as connection:
            return [_entry_from_row(row) for row in connection.execute(query, values)]

    def mark_sent(self, entries: Iterable[TaskEntry], time_sent: float) -> None:
        """Mark `entries` as sent, before their tasks are created."""
        self._update_requests(
            "stage = 'sent', sent = ?", [(time_sent, entry.key) for entry in entries]
        )

    def mark_unsent(self, entries: Iterable[TaskEntry]) -> None:
        """Mark `entries` as new again, as their tasks were not created."""
        self._update_requests(
            "stage = 'new', sent = NULL, reason = NULL", [(e.key,) for e in entries]
        )

    def mark_refused(self, entry: TaskEntry, reason: str) -> None:
        """Mark `entry` as refused by Label Studio for `reason`."""
        self._update_requests("stage = 'refused', reason = ?", [(reason, entry.key)])

    def refusal_reasons(self) -> list[str]:
        """Return the reasons why tasks were refused, the oldest first; do not write to the file."""
        with self._database.read_transaction() as connection:
            if connection is None or not table_exists(connection, "requests"):
                return []
            query = "SELECT reason FROM requests WHERE stage = 'refused' ORDER BY number"
            return [str(reason) for (reason,) in connection.execute(query)]

    def mark_expired(self, entries: Iterable[TaskEntry]) -> None:
        """Mark `entries` as expired: their requests are closed, but their tasks were started."""
        self._update_requests("stage = 'expired'", [(entry.key,) for entry in entries])

    def add_to_counter(self, counter: str, n: int) -> int:
        """Add `n` to the stored counter with the name `counter`; return its new value."""
        with self._write_transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO counts VALUES (?, 0)", (counter,))
            connection.execute("UPDATE counts SET n = n + ? WHERE kind = ?", (n, counter))
            found = connection.execute("SELECT n FROM counts WHERE kind = ?", (counter,)).fetchone()
        return int(found[0])

    def mark_open(self, tasks: Mapping[str, int]) -> None:
        """Mark requests as open; `tasks` are the numbers of their tasks, keyed by request key."""
        self._update_requests(
            "stage = 'open', task = ?", [(task, key) for key, task in tasks.items()]
        )

    def mark_done(self, entries: Iterable[TaskEntry]) -> None:
        """Mark `entries` as done, and delete the oldest done and expired requests."""
        self._update_requests("stage = 'done', request = NULL", [(entry.key,) for entry in entries])
        with self._write_transaction() as connection:
            connection.execute(
                "DELETE FROM requests WHERE stage IN ('done', 'expired') AND number <= "
                "(SELECT max(number) FROM requests) - ?",
                (KEPT,),
            )

    def _update_requests(self, assignments: str, parameters: Sequence[tuple[object, ...]]) -> None:
        with self._write_transaction() as connection:
            connection.executemany(f"UPDATE requests SET {assignments} WHERE key = ?", parameters)

    @contextmanager
    def _write_transaction(self) -> Iterator[Connection]:
        with self._database.write_transaction() as connection:
            if not table_exists(connection, "requests"):
                for statement in _TABLES:
                    connection.execute(statement)
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != _FORMAT:
                raise StateError(
                    f"{self.path} has format {version}, and this release reads {_FORMAT}: move the "
                    "file away, and delete the unanswered tasks in Label Studio"
                )
            yield connection


def _entry_from_row(row: tuple[Any, ...]) -> TaskEntry:
    key, id, sequence, request, stage, task, sent, answered_by = row
    return TaskEntry(key, id, sequence, request, stage, task, sent, _sources(answered_by))


def _store_source_position(
    connection: Connection, source: str, position: Position, bookmark: str | None
) -> None:
    places = {source: msgspec.json.encode(position).decode()}
    if bookmark is not None:
        places[f"{source}.bookmark"] = bookmark
    connection.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?)", places.items())
