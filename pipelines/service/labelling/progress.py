"""Labelling progress of an annotator, and disagreements between annotators."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from sqlite3 import Connection
from statistics import median

__all__ = ["LabellingProgress", "answered", "disagreements", "progress_of"]

BREAK = 300_000
"""Milliseconds between two answers that are no time spent on the second."""

_GIVEN = "action = 'label' AND stage != 'undone'"

_COUNTED = f"{_GIVEN} AND stage != 'late'"


@dataclass(frozen=True, slots=True)
class LabellingProgress:
    """What somebody has labelled.

    `today` counts the labels of today, but for those that came too late, `seconds` is the median
    time that one took, None where there are too few, and `first` when they gave their first, in
    milliseconds since 1970.
    """

    today: int = 0
    seconds: float | None = None
    first: int | None = None


def progress_of(connection: Connection, person: str, midnight: int) -> LabellingProgress:
    """Return how far a person has come; `midnight` is when today began."""
    rows = connection.execute(
        f"SELECT time FROM entries WHERE person = ? AND {_COUNTED} AND time >= ? ORDER BY time",
        (person, midnight),
    )
    times = [time for (time,) in rows]
    gaps = [b - a for a, b in pairwise(times) if b - a < BREAK]
    (first,) = connection.execute(
        f"SELECT min(time) FROM entries WHERE person = ? AND {_COUNTED}", (person,)
    ).fetchone()
    return LabellingProgress(len(times), median(gaps) / 1000 if gaps else None, first)


def answered(connection: Connection, person: str, ids: Iterable[str]) -> set[str]:
    """Return those of the records `ids` that a person has labelled."""
    query = f"SELECT 1 FROM entries WHERE id = ? AND person = ? AND {_GIVEN} LIMIT 1"
    return {id for id in ids if connection.execute(query, (id, person)).fetchone()}


def disagreements(
    connection: Connection, ids: Iterable[str]
) -> dict[str, list[tuple[str, str | int]]]:
    """Return who said what of those of the records `ids` of which not everybody says the same.

    Of each person their newest label counts.
    """
    found = {}
    for id in set(ids):
        rows = connection.execute(
            f"SELECT person, label FROM entries WHERE id = ? AND {_COUNTED} ORDER BY number", (id,)
        )
        said: dict[str, str | int] = dict(rows)
        if len(set(said.values())) > 1:
            found[id] = sorted(said.items())
    return found
