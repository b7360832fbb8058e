"""Labelled records in memory: in the order their labels came, any of them free to leave."""

from dataclasses import dataclass, fields, replace

import numpy as np

from streamboost.storage import Arrays

__all__ = ["RowBlock", "Rows"]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Labelled records, oldest label first, as views that the next label may change.

    Attributes
    ----------
    X
        float32 (n, D), NaN where missing.
    codes
        int64 (n,), each label's place among the learner's classes.
    ticks
        int64 (n,), the tick at which each label was learned.
    propensity
        float64 (n,), the chance with which each label was asked for, NaN where nobody asked.
    order
        int64 (n,), ascending: how many labels had been learned with this one.
    records
        int64 (n,), ascending: how many records had been queried when the label was learned.
    weight
        float64 (n,), positive: as how many records each counts.
    """

    X: np.ndarray
    codes: np.ndarray
    ticks: np.ndarray
    propensity: np.ndarray
    order: np.ndarray
    records: np.ndarray
    weight: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)

    def parts(self) -> tuple[np.ndarray, ...]:
        """Return the arrays in the order of the attributes."""
        return tuple(getattr(self, field.name) for field in fields(self))


class RowBlock:
    """At most `bound` rows (one more until it is dropped), in arrays that grow as they fill.

    There is room for twice `bound`. A row that leaves from the middle leaves a hole; holes are
    closed when the room is used up or when the rows are read, so that a row costs O(D) on
    average, and training reads one block.
    """

    def __init__(self, bound: int, n_features: int) -> None:
        self._bound = bound
        self._rows = _blank(min(64, 2 * bound), n_features)
        self._held = np.zeros(len(self._rows), dtype=bool)
        self._start = 0
        self._stop = 0
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def n_features(self) -> int:
        """Features per row."""
        return int(self._rows.X.shape[1])

    @property
    def oldest_tick(self) -> int:
        """The tick of the oldest row; there must be one."""
        return int(self._rows.ticks[self._start])

    def append(
        self,
        row: np.ndarray,
        code: int,
        tick: int,
        propensity: float,
        order: int,
        records: int,
        weight: float,
    ) -> None:
        """Add one row (D,) with the values that `Rows` describes."""
        if self._stop == len(self._rows):
            self._make_room()
        rows, place = self._rows, self._stop
        rows.X[place] = row
        rows.codes[place] = code
        rows.ticks[place] = tick
        rows.propensity[place] = propensity
        rows.order[place] = order
        rows.records[place] = records
        rows.weight[place] = weight
        self._held[place] = True
        self._stop += 1
        self._n += 1

    def drop_oldest(self) -> None:
        """Drop the row whose label came first."""
        self._drop(self._start)

    def drop(self, order: int) -> None:
        """Drop the row that `append` was given with `order`."""
        self._drop(self._place(order))

    def _place(self, order: int) -> int:
        """Return where the row of `order` stands, or would."""
        orders = self._rows.order[self._start : self._stop]
        return self._start + int(np.searchsorted(orders, order))

    def row(self, order: int) -> tuple[np.ndarray, int] | None:
        """Return features (D,) and code of the row of `order`; None where it has left."""
        place = self._place(order)
        if place == self._stop or not self._held[place] or self._rows.order[place] != order:
            return None
        return self._rows.X[place].copy(), int(self._rows.codes[place])

    def weighed(self, order: int) -> tuple[float, float]:
        """Return propensity and weight of the row of `order`, which is there."""
        place = self._place(order)
        return float(self._rows.propensity[place]), float(self._rows.weight[place])

    def recode(self, order: int, code: int) -> None:
        """Give the row of `order`, which is there, another class."""
        self._rows.codes[self._place(order)] = code

    def _drop(self, place: int) -> None:
        self._held[place] = False
        self._n -= 1
        while self._start < self._stop and not self._held[self._start]:
            self._start += 1

    def _make_room(self) -> None:
        kept = self.view()
        n = len(kept)
        self._rows = _blank(min(2 * self._bound, max(64, 2 * n)), self.n_features)
        for new, old in zip(self._rows.parts(), kept.parts(), strict=True):
            new[:n] = old
        self._held = np.arange(len(self._rows)) < n
        self._start, self._stop = 0, n

    def widen(self, n_features: int) -> None:
        """Let rows have `n_features` features; the ones kept miss the new ones."""
        old = self._rows.X
        filler = np.full((len(old), n_features - old.shape[1]), np.nan, dtype=np.float32)
        self._rows = replace(self._rows, X=np.hstack([old, filler]))

    def view(self) -> Rows:
        """Return the rows in one block, without copying them unless there are holes."""
        if self._n < self._stop - self._start:
            self._close_holes()
        return Rows(*(array[self._start : self._stop] for array in self._rows.parts()))

    def _close_holes(self) -> None:
        places = self._start + np.flatnonzero(self._held[self._start : self._stop])
        for array in self._rows.parts():
            array[: self._n] = array[places]
        self._held = np.arange(len(self._rows)) < self._n
        self._start, self._stop = 0, self._n

    def state(self) -> Arrays:
        """Return the rows as arrays of their own."""
        rows = self.view()
        return {f.name: getattr(rows, f.name).copy() for f in fields(rows)}

    def resume(self, arrays: Arrays) -> None:
        """Hold exactly the rows that `state` returned for a block of the same bound."""
        n, n_features = arrays["X"].shape
        self._rows = _blank(max(min(64, 2 * self._bound), n), n_features)
        for field, array in zip(fields(Rows), self._rows.parts(), strict=True):
            array[:n] = arrays[field.name]
        self._held = np.arange(len(self._rows)) < n
        self._start, self._stop, self._n = 0, n, n


def _blank(capacity: int, n_features: int) -> Rows:
    whole = [np.empty(capacity, dtype=np.int64) for _ in range(4)]
    X = np.empty((capacity, n_features), dtype=np.float32)
    chances, weight = np.empty(capacity), np.empty(capacity)
    return Rows(X, whole[0], whole[1], chances, whole[2], whole[3], weight)
