"""``labelling.db``: the leases of records, and the log of annotators' actions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from sqlite3 import Connection
from typing import Literal

from streamboost.connectors.sqlite.database import Database, table_exists
from streamboost.errors import StateError
from streamboost.pipelines.config.masking import mask_secrets_in_errors

FILE = "labelling.db"

_BUSY_SECONDS = 2.0
"""Seconds to wait for a locked file: a waiting call occupies a thread that serves other users."""

Action = Literal["label", "skip", "not_sure"]
EntryStage = Literal["held", "writing", "written", "late", "noted", "undone"]
"""State of an action. A label is held, writing, then written; late if its request had expired when
the pipeline read the label. Other actions are noted."""

_FORMAT = 1
_TABLES = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, "
    "person TEXT NOT NULL, seat TEXT NOT NULL, id TEXT NOT NULL, sequence INTEGER NOT NULL, "
    "action TEXT NOT NULL, label, stage TEXT NOT NULL)",
    "CREATE INDEX of_record ON entries (id, sequence)",
    "CREATE INDEX of_seat ON entries (seat)",
    "CREATE INDEX of_person ON entries (person, time)",
    "CREATE INDEX to_write ON entries (stage) WHERE stage IN ('held', 'writing')",
    "CREATE TABLE leases (id TEXT PRIMARY KEY, seat TEXT NOT NULL, until INTEGER NOT NULL)",
    f"PRAGMA user_version = {_FORMAT}",
)
_COLUMNS = "number, time, person, seat, id, sequence, action, label, stage"


@dataclass(frozen=True, slots=True)
class LabellingEntry:
    """An action of an annotator on a record, at a time in milliseconds since 1970, UTC.

    `seat` is the id of the annotator's session. `sequence` is the batch that requested the record's
    label; 0 without a request.
    """

    number: int
    time: int
    person: str
    seat: str
    id: str
    sequence: int
    action: Action
    label: str | int | None
    stage: EntryStage


class LabellingStore:
    """SQLite file with the annotators' actions and their leases on records.

    Safe for threads and processes. `mask` returns an error message without passwords and tokens.
    """

    def __init__(self, path: Path, mask: Callable[[str], str]) -> None:
        self.path = path
        self._database = Database(path, busy_seconds=_BUSY_SECONDS)
        self._mask = mask

    @contextmanager
    def read_transaction(self) -> Iterator[Connection | None]:
        """Context manager that yields a connection to a consistent snapshot; None: no tables."""
        with mask_secrets_in_errors(self._mask), self._database.read_transaction() as connection:
            yield connection if connection and table_exists(connection, "entries") else None

    @contextmanager
    def write_transaction(self) -> Iterator[Connection]:
        """Context manager that yields a write transaction's connection; creates missing tables."""
        with mask_secrets_in_errors(self._mask), self._database.write_transaction() as connection:
            if not table_exists(connection, "entries"):
                for statement in _TABLES:
                    connection.execute(statement)
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != _FORMAT:
                raise StateError(
                    f"{self._database.path} has format {version}, and this release reads "
                    f"{_FORMAT}: use the release that wrote it, or move the file away"
                )
            yield connection

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._database.close()


def insert_entry(connection: Connection, entry: LabellingEntry) -> LabellingEntry:
    """Insert `entry`; return a copy with its assigned number."""
    cursor = connection.execute(
        "INSERT INTO entries (time, person, seat, id, sequence, action, label, stage) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        astuple(entry)[1:],
    )
    return replace(entry, number=int(cursor.lastrowid or 0))


def newest_entries(
    connection: Connection, limit: int, *, below: int = 2**62, session_id: str = ""
) -> list[LabellingEntry]:
    """Return up to `limit` labelling entries with a number less than `below`, the newest first.

    If `session_id` is given, only entries of this session are returned, without undone ones.
    """
    where = "seat = ? AND stage != 'undone'" if session_id else "? = ''"
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM entries WHERE {where} AND number < ? ORDER BY number DESC LIMIT ?",
        (session_id, below, limit),
    )
    return [LabellingEntry(*row) for row in rows]


def newest_label(connection: Connection, id: str, above: int = 0) -> LabellingEntry | None:
    """Return the newest valid label of a record with a number greater than `above`, or None."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM entries WHERE id = ? AND number > ? AND action = 'label' "
        "AND stage NOT IN ('undone', 'late') ORDER BY number DESC LIMIT 1",
        (id, above),
    ).fetchone()
    return None if row is None else LabellingEntry(*row)


def annotator_names(connection: Connection) -> list[str]:
    """Return the names of all annotators with an entry, sorted.

    The index is searched once per name, whatever the number of entries.
    """
    query = (
        "WITH RECURSIVE names (name) AS (SELECT min(person) FROM entries UNION ALL "
        "SELECT (SELECT min(person) FROM entries WHERE person > name) FROM names "
        "WHERE name IS NOT NULL) SELECT name FROM names WHERE name IS NOT NULL"
    )
    return [name for (name,) in connection.execute(query)]


def undoable_entries(connection: Connection) -> list[LabellingEntry]:
    """Return the labels that can still be undone, the oldest first."""
    return _entries_in_stage(connection, "held")


def entries_to_write(connection: Connection) -> list[LabellingEntry]:
    """Return the labels in stage "writing", the oldest first."""
    return _entries_in_stage(connection, "writing")


def _entries_in_stage(connection: Connection, stage: EntryStage) -> list[LabellingEntry]:
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM entries WHERE stage IN ('held', 'writing') AND stage = ? "
        "ORDER BY number",
        (stage,),
    )
    return [LabellingEntry(*row) for row in rows]


def written_answers(connection: Connection, limit: int) -> list[LabellingEntry]:
    """Return the written labels of requested records among the newest `limit` entries."""
    return [
        entry
        for entry in newest_entries(connection, limit)
        if entry.stage == "written" and entry.sequence > 0
    ]
