"""What the newest labelled records say that are most like another."""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.blend.experts import TREES, Expert, Records, Scale, kernels
from streamboost.stream.checks import Label

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Neighbours"]

_SIZE = 1_000
"""Labelled records that are kept."""

_NEAR = 200
"""Of these, the newest among which the nearest by its features is looked for."""

_COLUMNS = 64
"""Columns by which features are compared, those that the committee splits most often."""

_UNUSED = 0.1
"""Splits that count for every column: the committee may not need one that neighbours tell by."""


class Neighbours(Expert):
    """The label of the nearest by features; of the nearest, and the five nearest, by leaves.

    Features are compared as far as the committee uses them: each is divided by its standard
    deviation, and its square weighs as often as trees split it. By leaves those are near that
    share the most leaves of the committee's first trees (the proximity of Breiman's random
    forests): a metric that was learned from labels. On streams that repeat themselves, or whose
    classes are many small heaps, neighbours are right where no boosted tree is yet.
    """

    opinions: ClassVar[tuple[str, ...]] = ("nearest", "leaf neighbour", "leaf neighbours")

    def __init__(self, scale: Scale) -> None:
        self._scale = scale
        self._X = np.zeros((0, _SIZE), dtype=np.float32)  # by column
        self._y = np.zeros(_SIZE, dtype=np.int64)
        self._weight = np.ones(_SIZE)
        self._n = 0
        self._newest = _SIZE - 1
        self._committee: Committee | None = None
        self._leaves = np.zeros((0, _SIZE), dtype=np.uint8)
        self._unread = 0  # rows whose leaves are not known yet, the newest
        self._metric: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def widen(self, n_features: int) -> None:
        """See `Expert`."""
        filler = np.full((n_features - len(self._X), _SIZE), np.nan, dtype=np.float32)
        self._X = np.vstack([self._X, filler])
        self._metric = None

    def learn(
        self,
        committee: "Committee | None",
        row: np.ndarray,
        label: Label,
        k: int,
        weight: float,
        scored: Records | None = None,
    ) -> None:
        """See `Expert`."""
        self._newest = newest = (self._newest + 1) % _SIZE
        self._X[:, newest], self._y[newest] = row, k
        self._weight[newest] = weight
        self._n = min(self._n + 1, _SIZE)
        if scored is not None and scored.committee is self._committee and not self._unread:
            self._leaves[:, newest] = scored.leaves[0]
        else:
            self._unread = min(self._unread + 1, _SIZE)

    def say(self, records: Records, said: np.ndarray) -> None:
        """See `Expert`."""
        if not self._n:
            return
        self._read(records.committee)
        if self._metric is None:
            self._metric = self._measured(records.committee)
        ring = self._X, self._y, self._weight, self._leaves, self._n, self._newest
        metric = *self._metric, self._scale.rate
        kernels().say_neighbours(*ring, _NEAR, records.X, records.leaves, *metric, said)

    def _read(self, committee: "Committee") -> None:
        """Find the leaves of the rows that are new, or of all if the committee is."""
        if committee is not self._committee:
            self._committee, self._metric, self._unread = committee, None, self._n
            self._leaves = np.zeros((0, _SIZE), dtype=np.uint8)
        if self._unread:
            rows = (self._newest - np.arange(self._unread)) % _SIZE
            X = np.ascontiguousarray(self._X[: committee.n_features, rows].T)
            leaves = committee.learners.leaves(X, TREES).T
            if len(self._leaves) < len(leaves):
                self._leaves = np.zeros((len(leaves), _SIZE), dtype=np.uint8)
            self._leaves[:, rows] = leaves
            self._unread = 0

    def _measured(self, committee: "Committee") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the columns that count, their weights' roots, 0 for categories, and their weights.

        A column whose values were all the same is scaled by 0, too: another value then is as far as
        another category.
        """
        splits = np.full(len(self._X), _UNUSED)
        splits[: committee.n_features] += committee.learners.splits(committee.n_features)
        weight = splits / splits.mean()
        root = np.sqrt(weight)
        root[committee.learners.categories.features] = 0.0
        columns = np.sort(np.argsort(-weight, kind="stable")[:_COLUMNS])
        return columns, root[columns], weight[columns].astype(np.float32)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """See `Expert`; as they stand in the ring: sums of weights depend on the order."""
        n = self._n
        rows: Arrays = {"X": self._X[:, :n].T, "y": self._y[:n], "weight": self._weight[:n]}
        return {"newest": self._newest}, {name: array.copy() for name, array in rows.items()}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """See `Expert`."""
        self._n = self._unread = len(arrays["y"])
        self._newest = state["newest"]
        self._X[:, : self._n], self._y[: self._n] = arrays["X"].T, arrays["y"]
        self._weight[: self._n] = arrays["weight"]
        self._committee, self._metric = None, None
