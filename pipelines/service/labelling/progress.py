"""Labelling progress of an annotator, and disagreements between annotators."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from sqlite3 import Connection
from statistics import median

BREAK = 300_000
"""Milliseconds between two labels from which the gap counts as a break."""

_GIVEN = "action = 'label' AND stage != 'undone'"

_COUNTED = f"{_GIVEN} AND stage != 'late'"


@dataclass(frozen=True, slots=True)
class LabellingProgress:
    """Progress of an annotator: labels today, time per label, and time of the first label.

    Attributes
    ----------
    today : number of today's labels, without late ones
    seconds : median time per answer, which may label several records; None if there are too few
    first : time of the annotator's first label, in milliseconds since 1970
    """

    today: int = 0
    seconds: float | None = None
    first: int | None = None


def annotator_progress(connection: Connection, person: str, midnight: int) -> LabellingProgress:
    """Return the progress of `person` since `midnight` (milliseconds since 1970)."""
    rows = connection.execute(
        f"SELECT time FROM entries WHERE person = ? AND {_COUNTED} AND time >= ? ORDER BY time",
        (person, midnight),
    )
    times = [time for (time,) in rows]
    gaps = [b - a for a, b in pairwise(times) if 0 < b - a < BREAK]
    (first,) = connection.execute(
        f"SELECT min(time) FROM entries WHERE person = ? AND {_COUNTED}", (person,)
    ).fetchone()
    return LabellingProgress(len(times), median(gaps) / 1000 if gaps else None, first)


def answered_ids(connection: Connection, person: str, ids: Iterable[str]) -> set[str]:
    """Return the subset of the record `ids` that `person` has labelled."""
    query = f"SELECT 1 FROM entries WHERE id = ? AND person = ? AND {_GIVEN} LIMIT 1"
    return {id for id in ids if connection.execute(query, (id, person)).fetchone()}


def conflicting_labels(
    connection: Connection, ids: Iterable[str]
) -> dict[str, list[tuple[str, str | int]]]:
    """Map the id of each record with differing labels to pairs of annotator and label.

    Only the newest label of each annotator counts.
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
