"""Which labelled rows stay: the newest, those of the newest seconds, a sample, a share per class.

Rows are always kept in the order their labels came, so that weights by age mean the same in all.
"""

from collections import deque
from math import floor
from typing import Any

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.rows import RowBlock, Rows

__all__ = ["KINDS", "BalancedRows", "ReservoirRows", "SlidingRows", "TimeRows"]


class SlidingRows:
    """The newest `size` rows.

    Parameters
    ----------
    size
        Most rows kept.
    seconds
        What `TimeRows` keeps; nothing here.
    rng
        Where `ReservoirRows` draws; unused here.
    """

    def __init__(self, size: int, seconds: float | None, rng: np.random.Generator) -> None:
        self._size = size
        self._span = floor(1000 * seconds) if seconds is not None else 0
        self._rng = rng
        self._block = RowBlock(size, 0)

    def __len__(self) -> int:
        return len(self._block)

    @property
    def n_features(self) -> int:
        """Features per row."""
        return self._block.n_features

    def append(
        self, row: np.ndarray, code: int, tick: int, propensity: float, order: int, records: int
    ) -> None:
        """Take one row (D,), with the values that `Rows` describes; others may leave for it."""
        self._block.append(row, code, tick, propensity, order, records)
        if len(self._block) > self._size:
            self._block.drop_oldest()

    def forget(self, before: int) -> None:
        """Drop every row whose order is below `before`."""
        for order in self.view().order.tolist():
            if order >= before:
                break
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

    def append(
        self, row: np.ndarray, code: int, tick: int, propensity: float, order: int, records: int
    ) -> None:
        """Take one row; those whose tick is more than `seconds` before its own leave."""
        super().append(row, code, tick, propensity, order, records)
        while self._block.oldest_tick < tick - self._span:
            self._block.drop_oldest()


class BalancedRows(SlidingRows):
    """The newest rows of every class: `size` shared evenly, and what a class leaves unused too.

    While there are too many, the class with most rows gives up its oldest. So a class with fewer
    rows than its share keeps all of them, the others end up level, and a new class makes room for
    itself. A row costs O(D) and a look at every class.
    """

    def __init__(self, size: int, seconds: float | None, rng: np.random.Generator) -> None:
        super().__init__(size, seconds, rng)
        self._orders: dict[int, deque[int]] = {}  # of the rows of each class

    def append(
        self, row: np.ndarray, code: int, tick: int, propensity: float, order: int, records: int
    ) -> None:
        """Take one row; if there are too many, the largest class gives up its oldest."""
        self._block.append(row, code, tick, propensity, order, records)
        self._orders.setdefault(code, deque()).append(order)
        if len(self._block) > self._size:
            # Where several are largest, the one whose oldest row is older.
            largest = max(self._orders, key=self._size_then_age)
            self._block.drop(self._orders[largest].popleft())
            if not self._orders[largest]:
                del self._orders[largest]

    def _size_then_age(self, code: int) -> tuple[int, int]:
        orders = self._orders[code]
        return len(orders), -orders[0]

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
    sample starts anew with the rows that stay.
    """

    def __init__(self, size: int, seconds: float | None, rng: np.random.Generator) -> None:
        super().__init__(size, seconds, rng)
        self._seen = 0
        self._orders: list[int] = []  # of the kept rows, in the places they are drawn by

    def append(
        self, row: np.ndarray, code: int, tick: int, propensity: float, order: int, records: int
    ) -> None:
        """Take one row, or pass it over."""
        self._seen += 1
        if self._seen <= self._size:
            self._orders.append(order)
        else:
            place = int(self._rng.integers(self._seen))
            if place >= self._size:
                return
            self._block.drop(self._orders[place])
            self._orders[place] = order
        self._block.append(row, code, tick, propensity, order, records)

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


KINDS: dict[str, type[SlidingRows]] = {
    "sliding": SlidingRows,
    "time": TimeRows,
    "reservoir": ReservoirRows,
    "balanced": BalancedRows,
}
"""The kinds of working set by name."""
