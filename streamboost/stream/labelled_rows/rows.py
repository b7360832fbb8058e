"""Stores labelled rows in the order of their labels, and selects those that stay.

`RowBlock` holds rows in one array. The other classes keep the newest rows, those of the newest
seconds, a uniform sample, or a share of each class. Because all keep the order, weights by age mean
the same in each.
"""

from collections import deque
from dataclasses import dataclass, fields, replace
from math import floor
from typing import Any

import numpy as np

from streamboost.storage import Arrays

__all__ = ["BalancedRows", "ReservoirRows", "RowBlock", "Rows", "SlidingRows", "TimeRows"]


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


class SlidingRows:
    """The newest `size` rows."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._block = RowBlock(size, 0)

    def __len__(self) -> int:
        return len(self._block)

    @property
    def n_features(self) -> int:
        """Features per row."""
        return self._block.n_features

    def append(
        self,
        row: np.ndarray,
        code: int,
        tick: int,
        propensity: float,
        order: int,
        records: int,
        weight: float = 1.0,
    ) -> None:
        """Take one row (D,), with the values that `Rows` describes, and drop what is too much."""
        self._block.append(row, code, tick, propensity, order, records, weight)
        self._settle(code, tick, order)

    def _settle(self, code: int, tick: int, order: int) -> None:
        """Drop the rows that leave for the one just added, or that one itself."""
        if len(self._block) > self._size:
            self._block.drop_oldest()

    def row(self, order: int) -> tuple[np.ndarray, int] | None:
        """Return features (D,) and code of the row of `order`; None where it has left."""
        return self._block.row(order)

    def weighed(self, order: int) -> tuple[float, float]:
        """Return propensity and weight of the row of `order`, which is there."""
        return self._block.weighed(order)

    def recode(self, order: int, code: int) -> None:
        """Give the row of `order`, which is there, another class."""
        self._block.recode(order, code)

    def drop(self, order: int) -> None:
        """Drop the row of `order`, which is there."""
        self._block.drop(order)

    def rename(self, code: int, into: int | None) -> None:
        """Give the rows of one class to another; None: drop them."""
        rows = self.view()
        for order in rows.order[rows.codes == code].tolist():
            if into is None:
                self.drop(order)
            else:
                self._block.recode(order, into)

    def forget(self, before: int) -> None:
        """Drop every row whose order is below `before`."""
        for _ in range(int(np.searchsorted(self.view().order, before))):
            self._block.drop_oldest()

    def widen(self, n_features: int) -> None:
        """Let rows have `n_features` features; the ones kept miss the new ones."""
        self._block.widen(n_features)

    def view(self) -> Rows:
        """Return the rows, oldest label first, in one block."""
        return self._block.view()

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all that changes: one part as JSON can hold it, the other as arrays."""
        return {}, self._block.state()

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned for rows of the same settings."""
        self._block.resume(arrays)


class TimeRows(SlidingRows):
    """The rows of the newest `seconds` by tick, and of those the newest `size`."""

    def __init__(self, size: int, seconds: float) -> None:
        super().__init__(size)
        self._span = floor(1000 * seconds)

    def _settle(self, code: int, tick: int, order: int) -> None:
        super()._settle(code, tick, order)
        while self._block.oldest_tick < tick - self._span:
            self._block.drop_oldest()


class BalancedRows(SlidingRows):
    """The newest rows of every class: `size` shared evenly, and what a class leaves unused too.

    While there are too many, the class with most rows gives up its oldest. So a class with fewer
    rows than its share keeps all of them, the others end up level, and a new class makes room for
    itself. A row costs O(D) and a look at every class.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._orders: dict[int, deque[int]] = {}  # of the rows of each class

    def _settle(self, code: int, tick: int, order: int) -> None:
        self._orders.setdefault(code, deque()).append(order)
        if len(self._block) > self._size:
            largest = max(self._orders, key=self._size_then_age)
            self._block.drop(self._orders[largest].popleft())
            if not self._orders[largest]:
                del self._orders[largest]

    def _size_then_age(self, code: int) -> tuple[int, int]:
        """Rank a class by its rows, and among equals by how old the oldest of them is."""
        orders = self._orders[code]
        return len(orders), -orders[0]

    def recode(self, order: int, code: int) -> None:
        """Give the row of `order`, which is there, another class."""
        super().recode(order, code)
        self._sort_by_class()

    def rename(self, code: int, into: int | None) -> None:
        """Give the rows of one class to another; None: drop them."""
        super().rename(code, into)
        self._sort_by_class()

    def drop(self, order: int) -> None:
        """Drop the row of `order`, which is there."""
        super().drop(order)
        self._sort_by_class()

    def forget(self, before: int) -> None:
        """Drop every row whose order is below `before`."""
        super().forget(before)
        self._sort_by_class()

    def _sort_by_class(self) -> None:
        rows = self.view()
        self._orders = {}
        for code, order in zip(rows.codes.tolist(), rows.order.tolist(), strict=True):
            self._orders.setdefault(code, deque()).append(order)

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned for rows of the same settings."""
        super().resume(state, arrays)
        self._sort_by_class()


class ReservoirRows(SlidingRows):
    """A uniform sample of all rows so far: Vitter's algorithm R (1985).

    The t-th row is kept with chance size / t, in the place of a random one. After `forget` the
    sample starts anew with the rows that stay; where a label was taken back, the next row fills
    the hole.
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        super().__init__(size)
        self._rng = rng
        self._seen = 0
        self._orders: list[int] = []  # of the kept rows, in the places they are drawn by

    def _settle(self, code: int, tick: int, order: int) -> None:
        self._seen += 1
        if len(self._orders) < self._size:
            self._orders.append(order)
            return
        place = int(self._rng.integers(self._seen))
        if place < self._size:
            order, self._orders[place] = self._orders[place], order
        self._block.drop(order)

    def drop(self, order: int) -> None:
        """Drop the row of `order`, which is there."""
        super().drop(order)
        self._orders.remove(order)

    def forget(self, before: int) -> None:
        """Drop every row whose order is below `before`."""
        super().forget(before)
        self._orders = [order for order in self._orders if order >= before]
        self._seen = len(self._orders)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all that changes: one part as JSON can hold it, the other as arrays."""
        _, arrays = super().state()
        drawing = {"seen": self._seen, "draws": self._rng.bit_generator.state}
        return drawing, arrays | {"places": np.array(self._orders, dtype=np.int64)}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned for rows of the same settings."""
        super().resume(state, arrays)
        self._seen = state["seen"]
        self._rng.bit_generator.state = state["draws"]
        self._orders = arrays["places"].tolist()
