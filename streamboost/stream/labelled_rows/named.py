"""The labelled rows by the ids of their records, and who said what of each."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamboost.features.layout import Values
from streamboost.stream.checks import Label

__all__ = ["ON_CONFLICT", "Named", "NamedRow", "Vote", "verdict"]

ON_CONFLICT = ("last", "first", "vote")
"""Which of several labels of one record holds: the newest, the first, or the most frequent."""

Vote = tuple[str | None, Label]
"""Who said it, where that is known, and what."""


@dataclass(slots=True)
class NamedRow:
    """A row that is found by its record's id.

    Attributes
    ----------
    order
        How many labels had been learned with it.
    votes
        What was said of it, the oldest first; of each who is known by name only the newest.
    values
        The categories of its record, where there are any: running rates are corrected by them.
    guess
        What was predicted on arrival with confidence; None: nothing was, or nobody knows.
    said
        Labels, and the probability float32 (K,) that each was given on arrival; None: not kept.
    """

    order: int
    votes: list[Vote]
    values: Values | None = None
    guess: Label | None = None
    said: tuple[list[Label], np.ndarray] | None = None

    def say(self, source: str | None, label: Label) -> None:
        """Take in what somebody says."""
        if source is not None:
            self.votes = [vote for vote in self.votes if vote[0] != source]
        self.votes.append((source, label))


def verdict(rule: str, votes: Sequence[Vote], current: Label) -> Label:
    """Return the label that holds by a rule of `ON_CONFLICT`; in a tie `current` stays.

    >>> verdict("vote", [("ann", "ok"), ("bob", "fraud"), (None, "fraud")], "ok")
    'fraud'
    >>> verdict("vote", [("ann", "ok"), ("bob", "fraud")], "ok")
    'ok'
    """
    if rule != "vote":
        return current if rule == "first" else votes[-1][1]
    counts: dict[Label, int] = {}
    for _, label in votes:
        counts[label] = counts.get(label, 0) + 1
    return max(counts, key=lambda label: (counts[label], label == current))


class Named:
    """Finds rows by ids; those whose rows have left are forgotten in time, and never found."""

    def __init__(self) -> None:
        self._rows: dict[str, NamedRow] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, id: str, row: NamedRow) -> None:
        """Take on a row, the last; an older one of the same id is not found any more."""
        self._rows.pop(id, None)  # one whose row has left must not lend it its place
        self._rows[id] = row

    def find(self, id: str) -> NamedRow | None:
        """Return what is known of an id; its row may have left."""
        return self._rows.get(id)

    def release(self, ids: Iterable[str]) -> None:
        """Let these ids name other records from now on."""
        if self._rows:
            for id in ids:
                self._rows.pop(id, None)

    def keep(self, orders: np.ndarray) -> None:
        """Forget all rows but those of these `orders`, int64 (n,)."""
        held = set(orders.tolist())
        self._rows = {id: row for id, row in self._rows.items() if row.order in held}

    def rename(self, to: Callable[[Label], Label | None]) -> None:
        """Let what was said be as `to` has it; None was never said."""
        for row in self._rows.values():
            row.guess = None if row.guess is None else to(row.guess)
            row.said = None
            named = [(source, to(label)) for source, label in row.votes]
            row.votes = [(source, label) for source, label in named if label is not None]

    def newest(self) -> Iterable[tuple[str, NamedRow]]:
        """Give ids and rows, what was added last first."""
        return reversed(self._rows.items())

    def items(self) -> Iterable[tuple[str, NamedRow]]:
        """Give ids and rows, in the order in which they were added."""
        return self._rows.items()

    def state(self, orders: np.ndarray) -> dict[str, Any]:
        """Return all there is of rows of these `orders`, as JSON can hold it."""
        self.keep(orders)
        classes: dict[tuple[Label, ...], int] = {}
        rows = []
        for id, row in self._rows.items():
            said = None
            if row.said is not None:
                names = tuple(row.said[0])
                said = classes.setdefault(names, len(classes)), row.said[1].tolist()
            rows.append((id, row.order, row.votes, row.values, row.guess, said))
        return {"rows": rows, "classes": list(classes)}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        classes = [list(names) for names in state["classes"]]
        self._rows = {}
        for id, order, votes, values, guess, said in state["rows"]:
            row = NamedRow(order, [(source, label) for source, label in votes])
            row.values = None if values is None else tuple(values)
            row.guess = guess
            if said is not None:
                row.said = classes[said[0]], np.array(said[1], dtype=np.float32)
            self._rows[id] = row
