"""Which labelled rows stay: the newest, those of the newest seconds, a sample, a share per class.

Rows are always kept in the order their labels came, so that weights by age mean the same in all.
"""

from collections import deque
from math import floor
from typing import Any

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.labelled_rows.block import RowBlock, Rows

__all__ = ["BalancedRows", "ReservoirRows", "SlidingRows", "TimeRows"]


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
