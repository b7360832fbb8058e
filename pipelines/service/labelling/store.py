"""``labelling.db``: who has which record before them, and who did what with one, and when."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from sqlite3 import Connection
from typing import Literal

from streamboost.connectors.sqlite.database import Database, table_exists
from streamboost.errors import StateError
from streamboost.pipelines.config.masking import mask_errors

__all__ = [
    "FILE",
    "Action",
    "EntryStage",
    "LabellingEntry",
    "LabellingStore",
    "annotators",
    "entries_to_write",
    "newest",
    "newest_label",
    "newly_written",
    "put",
    "undoable_entries",
]

FILE = "labelling.db"

Action = Literal["label", "skip", "not_sure"]
EntryStage = Literal["held", "writing", "written", "late", "noted", "undone"]
"""What became of an action: a label is held, being written, then written, and late where its
request had expired when the pipeline read it; the others are noted."""

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
    """What somebody did with a record, and when (milliseconds since 1970, UTC).

    `sequence` is the batch that asked for the record, 0 where none did.
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
    """The file at `path`, for any number of threads and processes; `mask` is for its errors."""

    def __init__(self, path: Path, mask: Callable[[str], str]) -> None:
        self._database = Database(path)
        self._mask = mask

    @contextmanager
    def reading(self) -> Iterator[Connection | None]:
        """Give a connection that sees one moment, None where nothing was ever written."""
        with mask_errors(self._mask), self._database.read_transaction() as connection:
            yield connection if connection and table_exists(connection, "entries") else None

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give a connection within a transaction, with the tables made if need be."""
        with mask_errors(self._mask), self._database.write_transaction() as connection:
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


def put(connection: Connection, entry: LabellingEntry) -> LabellingEntry:
    """Add `entry`, and return it with its number."""
    cursor = connection.execute(
        "INSERT INTO entries (time, person, seat, id, sequence, action, label, stage) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        astuple(entry)[1:],
    )
    return replace(entry, number=int(cursor.lastrowid or 0))


def newest(
    connection: Connection, limit: int, *, below: int = 2**62, seat: str = ""
) -> list[LabellingEntry]:
    """Return the newest entries numbered under `below`, the newest first.

    With `seat`, those of that seat which were not undone.
    """
    where = "seat = ? AND stage != 'undone'" if seat else "? = ''"
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM entries WHERE {where} AND number < ? ORDER BY number DESC LIMIT ?",
        (seat, below, limit),
    )
    return [LabellingEntry(*row) for row in rows]


def newest_label(connection: Connection, id: str, above: int = 0) -> LabellingEntry | None:
    """Return the newest label of a record that counts, of those numbered over `above`."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM entries WHERE id = ? AND number > ? AND action = 'label' "
        "AND stage NOT IN ('undone', 'late') ORDER BY number DESC LIMIT 1",
        (id, above),
    ).fetchone()
    return None if row is None else LabellingEntry(*row)


def annotators(connection: Connection) -> list[str]:
    """Return the names under which anything was done, sorted.

    The index is searched once a name, however many entries there are.
    """
    query = (
        "WITH RECURSIVE names (name) AS (SELECT min(person) FROM entries UNION ALL "
        "SELECT (SELECT min(person) FROM entries WHERE person > name) FROM names "
        "WHERE name IS NOT NULL) SELECT name FROM names WHERE name IS NOT NULL"
    )
    return [name for (name,) in connection.execute(query)]


def undoable_entries(connection: Connection) -> list[LabellingEntry]:
    """Return the labels that can still be undone, the oldest first."""
    return _in_stage(connection, "held")


def entries_to_write(connection: Connection) -> list[LabellingEntry]:
    """Return the labels that are being written, the oldest first."""
    return _in_stage(connection, "writing")


def _in_stage(connection: Connection, stage: EntryStage) -> list[LabellingEntry]:
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM entries WHERE stage IN ('held', 'writing') AND stage = ? "
        "ORDER BY number",
        (stage,),
    )
    return [LabellingEntry(*row) for row in rows]


def newly_written(connection: Connection, limit: int) -> list[LabellingEntry]:
    """Return those of the newest `limit` entries that are written answers to a request."""
    return [
        entry
        for entry in newest(connection, limit)
        if entry.stage == "written" and entry.sequence > 0
    ]
