"""Row buffers: store labelled rows in the order of their labels, with four eviction rules.

`RowBlock` stores rows in arrays. The other buffers keep the newest rows, the rows of the last
seconds, a uniform sample (reservoir), or equally many rows of each class. All classes keep the
order of the labels, so that weights by age have the same meaning in each.
"""

from collections import deque
from dataclasses import dataclass, fields, replace
from math import floor
from typing import Any

import numpy as np

from streamboost.storage import Arrays


@dataclass(frozen=True, slots=True, eq=False)
class RowBuffer:
    """Arrays of n labelled rows, oldest label first: views that the next append may change.

    The class index is the label's position among the learner's classes. The sequence number is the
    number of labels learned up to and including this one; it identifies the row.

    Attributes
    ----------
    X
        float32 (n, D), NaN where missing.
    codes
        int64 (n,), the class index of each label.
    ticks
        int64 (n,), the time at which each label was learned, in milliseconds since the epoch.
    propensity
        float64 (n,), the inclusion probability of each request, NaN without a request.
    order
        int64 (n,), ascending: the sequence number of each label.
    records
        int64 (n,), ascending: number of records queried when the label was learned.
    weight
        float64 (n,), positive: the weight of the record.
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

    def as_tuple(self) -> tuple[np.ndarray, ...]:
        """Return the arrays in the order of the attributes."""
        return tuple(getattr(self, field.name) for field in fields(self))


class RowBlock:
    """Growing arrays of labelled rows in the order of their labels.

    There are at most `bound` rows, and one more between an append and the eviction that follows.
    The capacity is at most twice `bound`. A row dropped from the middle leaves a hole. Holes are
    closed when the array is full or the rows are read. So a row costs amortized O(D), and training
    reads contiguous arrays.
    """

    def __init__(self, bound: int, n_features: int) -> None:
        self._bound = bound
        self._rows = _empty_buffer(min(64, 2 * bound), n_features)
        self._held = np.zeros(len(self._rows), dtype=bool)
        self._start = 0
        self._stop = 0
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def n_features(self) -> int:
        """Number of features per row."""
        return int(self._rows.X.shape[1])

    @property
    def oldest_tick(self) -> int:
        """Time of the oldest label in milliseconds since the epoch; the block must not be empty."""
        return int(self._rows.ticks[self._start])

    def append(
        self,
        row: np.ndarray,
        class_index: int,
        tick: int,
        propensity: float,
        sequence: int,
        n_records: int,
        weight: float,
    ) -> None:
        """Add one row (D,) with the values described in `RowBuffer`."""
        if self._stop == len(self._rows):
            self._reserve_space_for_row()
        rows, place = self._rows, self._stop
        rows.X[place] = row
        rows.codes[place] = class_index
        rows.ticks[place] = tick
        rows.propensity[place] = propensity
        rows.order[place] = sequence
        rows.records[place] = n_records
        rows.weight[place] = weight
        self._held[place] = True
        self._stop += 1
        self._n += 1

    def drop_oldest(self) -> None:
        """Drop the row with the oldest label."""
        self._drop_row_at_index(self._start)

    def drop_row(self, sequence: int) -> None:
        """Drop the row with sequence number `sequence`, which must exist."""
        self._drop_row_at_index(self._index_of_row(sequence))

    def _index_of_row(self, sequence: int) -> int:
        """Return the index of the first row with sequence number `sequence` or more."""
        orders = self._rows.order[self._start : self._stop]
        return self._start + int(np.searchsorted(orders, sequence))

    def find_row(self, sequence: int) -> tuple[np.ndarray, int] | None:
        """Return features (D,) and class index of the row with number `sequence`, or None."""
        place = self._index_of_row(sequence)
        if place == self._stop or not self._held[place] or self._rows.order[place] != sequence:
            return None
        return self._rows.X[place].copy(), int(self._rows.codes[place])

    def propensity_and_weight(self, sequence: int) -> tuple[float, float]:
        """Return propensity and weight of the row with number `sequence`, which must exist."""
        place = self._index_of_row(sequence)
        return float(self._rows.propensity[place]), float(self._rows.weight[place])

    def set_class_index(self, sequence: int, class_index: int) -> None:
        """Set the class index of the row with sequence number `sequence`, which must exist."""
        self._rows.codes[self._index_of_row(sequence)] = class_index

    def _drop_row_at_index(self, index: int) -> None:
        self._held[index] = False
        self._n -= 1
        while self._start < self._stop and not self._held[self._start]:
            self._start += 1

    def _reserve_space_for_row(self) -> None:
        kept = self.view()
        n = len(kept)
        self._rows = _empty_buffer(min(2 * self._bound, max(64, 2 * n)), self.n_features)
        for new, old in zip(self._rows.as_tuple(), kept.as_tuple(), strict=True):
            new[:n] = old
        self._held = np.arange(len(self._rows)) < n
        self._start, self._stop = 0, n

    def widen_rows(self, n_features: int) -> None:
        """Set the number of features to `n_features`; stored rows get NaN in new columns."""
        old = self._rows.X
        filler = np.full((len(old), n_features - old.shape[1]), np.nan, dtype=np.float32)
        self._rows = replace(self._rows, X=np.hstack([old, filler]))

    def view(self) -> RowBuffer:
        """Return the rows as arrays without holes; they are copied only if there are holes."""
        if self._n < self._stop - self._start:
            self._remove_holes()
        return RowBuffer(*(array[self._start : self._stop] for array in self._rows.as_tuple()))

    def _remove_holes(self) -> None:
        places = self._start + np.flatnonzero(self._held[self._start : self._stop])
        for array in self._rows.as_tuple():
            array[: self._n] = array[places]
        self._held = np.arange(len(self._rows)) < self._n
        self._start, self._stop = 0, self._n

    def state(self) -> Arrays:
        """Return copies of the arrays of rows, as the state for `resume`."""
        rows = self.view()
        return {f.name: getattr(rows, f.name).copy() for f in fields(rows)}

    def resume(self, arrays: Arrays) -> None:
        """Replace all rows by those that `state` returned for a block with an equal bound."""
        n, n_features = arrays["X"].shape
        self._rows = _empty_buffer(max(min(64, 2 * self._bound), n), n_features)
        for field, array in zip(fields(RowBuffer), self._rows.as_tuple(), strict=True):
            array[:n] = arrays[field.name]
        self._held = np.arange(len(self._rows)) < n
        self._start, self._stop, self._n = 0, n, n


def _empty_buffer(capacity: int, n_features: int) -> RowBuffer:
    whole = [np.empty(capacity, dtype=np.int64) for _ in range(4)]
    X = np.empty((capacity, n_features), dtype=np.float32)
    chances, weight = np.empty(capacity), np.empty(capacity)
    return RowBuffer(X, whole[0], whole[1], chances, whole[2], whole[3], weight)


class SlidingRows:
    """Sliding window of the newest `size` rows."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._block = RowBlock(size, 0)

    def __len__(self) -> int:
        return len(self._block)

    @property
    def n_features(self) -> int:
        """Number of features per row."""
        return self._block.n_features

    def append(
        self,
        row: np.ndarray,
        class_index: int,
        tick: int,
        propensity: float,
        sequence: int,
        n_records: int,
        weight: float = 1.0,
    ) -> None:
        """Add one row (D,) with the values described in `RowBuffer`, and evict excess rows."""
        self._block.append(row, class_index, tick, propensity, sequence, n_records, weight)
        self._evict_excess_rows(class_index, tick, sequence)

    def _evict_excess_rows(self, class_index: int, tick: int, sequence: int) -> None:
        """Evict rows after an append if there are too many, or if some are too old.

        `class_index`, `tick` and `sequence` describe the new row, which may be evicted, too.
        """
        if len(self._block) > self._size:
            self._block.drop_oldest()

    def find_row(self, sequence: int) -> tuple[np.ndarray, int] | None:
        """Return features (D,) and class index of the row with number `sequence`, or None."""
        return self._block.find_row(sequence)

    def propensity_and_weight(self, sequence: int) -> tuple[float, float]:
        """Return propensity and weight of the row with number `sequence`, which must exist."""
        return self._block.propensity_and_weight(sequence)

    def set_class_index(self, sequence: int, class_index: int) -> None:
        """Set the class index of the row with sequence number `sequence`, which must exist."""
        self._block.set_class_index(sequence, class_index)

    def drop_row(self, sequence: int) -> None:
        """Drop the row with sequence number `sequence`, which must exist."""
        self._block.drop_row(sequence)

    def recode_or_drop_class(self, class_index: int, into: int | None) -> None:
        """Change the class of all rows of class `class_index` to `into`; None drops the rows."""
        rows = self.view()
        for order in rows.order[rows.codes == class_index].tolist():
            if into is None:
                self.drop_row(order)
            else:
                self._block.set_class_index(order, into)

    def drop_rows_before(self, sequence: int) -> None:
        """Drop all rows with a sequence number below `sequence`."""
        for _ in range(int(np.searchsorted(self.view().order, sequence))):
            self._block.drop_oldest()

    def widen_rows(self, n_features: int) -> None:
        """Set the number of features to `n_features`; stored rows get NaN in new columns."""
        self._block.widen_rows(n_features)

    def view(self) -> RowBuffer:
        """Return the arrays of all rows, oldest label first."""
        return self._block.view()

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        return {}, self._block.state()

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that an object with the same settings returned."""
        self._block.resume(arrays)


class TimeRows(SlidingRows):
    """Sliding window of at most `size` rows whose labels were learned in the last `seconds`."""

    def __init__(self, size: int, seconds: float) -> None:
        super().__init__(size)
        self._span = floor(1000 * seconds)

    def _evict_excess_rows(self, class_index: int, tick: int, sequence: int) -> None:
        super()._evict_excess_rows(class_index, tick, sequence)
        while self._block.oldest_tick < tick - self._span:
            self._block.drop_oldest()


class BalancedRows(SlidingRows):
    """Newest rows of every class: `size` is shared evenly, with unused shares redistributed.

    If the buffer is full, the class with most rows evicts its oldest row. So a class with fewer
    rows than its share keeps all of them, the larger classes become equal, and a new class
    displaces rows of the largest. A row costs O(D) and a comparison for each class.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._orders: dict[int, deque[int]] = {}  # of the rows of each class

    def _evict_excess_rows(self, class_index: int, tick: int, sequence: int) -> None:
        self._orders.setdefault(class_index, deque()).append(sequence)
        if len(self._block) > self._size:
            largest = max(self._orders, key=self._class_eviction_priority)
            self._block.drop_row(self._orders[largest].popleft())
            if not self._orders[largest]:
                del self._orders[largest]

    def _class_eviction_priority(self, class_index: int) -> tuple[int, int]:
        """Return a sort key; the class with the largest key evicts its oldest row next.

        A class with more rows has a larger key; among equals, the class with the oldest row.
        """
        orders = self._orders[class_index]
        return len(orders), -orders[0]

    def set_class_index(self, sequence: int, class_index: int) -> None:
        """Set the class index of the row with sequence number `sequence`, which must exist."""
        super().set_class_index(sequence, class_index)
        self._rebuild_class_orders()

    def recode_or_drop_class(self, class_index: int, into: int | None) -> None:
        """Change the class of all rows of class `class_index` to `into`; None drops the rows."""
        super().recode_or_drop_class(class_index, into)
        self._rebuild_class_orders()

    def drop_row(self, sequence: int) -> None:
        """Drop the row with sequence number `sequence`, which must exist."""
        super().drop_row(sequence)
        self._rebuild_class_orders()

    def drop_rows_before(self, sequence: int) -> None:
        """Drop all rows with a sequence number below `sequence`."""
        super().drop_rows_before(sequence)
        self._rebuild_class_orders()

    def _rebuild_class_orders(self) -> None:
        rows = self.view()
        self._orders = {}
        for code, order in zip(rows.codes.tolist(), rows.order.tolist(), strict=True):
            self._orders.setdefault(code, deque()).append(order)

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that an object with the same settings returned."""
        super().resume(state, arrays)
        self._rebuild_class_orders()


class ReservoirRows(SlidingRows):
    """Uniform sample of all rows so far, by Vitter's algorithm R (1985).

    The t-th row is stored with probability size / t, and replaces a random row. `drop_rows_before`
    restarts the sample with the remaining rows. If a label is retracted, the next row takes the
    free place.
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        super().__init__(size)
        self._rng = rng
        self._seen = 0
        self._orders: list[int] = []  # sequence number of the row in each place

    def _evict_excess_rows(self, class_index: int, tick: int, sequence: int) -> None:
        self._seen += 1
        if len(self._orders) < self._size:
            self._orders.append(sequence)
            return
        place = int(self._rng.integers(self._seen))
        if place < self._size:
            sequence, self._orders[place] = self._orders[place], sequence
        self._block.drop_row(sequence)

    def drop_row(self, sequence: int) -> None:
        """Drop the row with sequence number `sequence`, which must exist."""
        super().drop_row(sequence)
        self._orders.remove(sequence)

    def drop_rows_before(self, sequence: int) -> None:
        """Drop all rows with a sequence number below `sequence`."""
        super().drop_rows_before(sequence)
        self._orders = [order for order in self._orders if order >= sequence]
        self._seen = len(self._orders)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        _, arrays = super().state()
        drawing = {"seen": self._seen, "draws": self._rng.bit_generator.state}
        return drawing, arrays | {"places": np.array(self._orders, dtype=np.int64)}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that an object with the same settings returned."""
        super().resume(state, arrays)
        self._seen = state["seen"]
        self._rng.bit_generator.state = state["draws"]
        self._orders = arrays["places"].tolist()
