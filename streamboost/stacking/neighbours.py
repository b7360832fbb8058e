"""Nearest-neighbour experts over the newest labelled records."""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from streamboost.checks import Label
from streamboost.stacking.experts import (
    TREES,
    Expert,
    ExpertRecords,
    RunningScaler,
    stacking_kernels,
)
from streamboost.storage import Arrays

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

_SIZE = 1_000
"""Number of labelled records stored."""

_NEAR = 200
"""Number of newest records in which the nearest record by features is searched."""

_COLUMNS = 64
"""Number of compared columns: the columns that the committee splits most often."""

_UNUSED = 0.1
"""Number added to the split count of each column, as columns without splits may be useful."""


class NeighboursExpert(Expert):
    """Predicts the labels of nearest neighbours among the newest labelled records.

    There are three predictions: from the nearest record in the feature space, and from the nearest
    and the five nearest records in the leaf space. In the feature space, each difference is divided
    by the column's standard deviation, and its square is multiplied by the committee's number of
    splits on the column. In the leaf space, the nearest records share the most leaves of the
    committee's first trees (the proximity of Breiman's random forests), a metric learned from
    labels. With recurring records, or classes of many small clusters, neighbours are accurate
    before boosted trees are.
    """

    output_names: ClassVar[tuple[str, ...]] = ("nearest", "leaf neighbour", "leaf neighbours")

    def __init__(self, scale: RunningScaler) -> None:
        self._scale = scale
        self._X = np.zeros((0, _SIZE), dtype=np.float32)  # (D, rows)
        self._y = np.zeros(_SIZE, dtype=np.int64)
        self._weight = np.ones(_SIZE)
        self._n = 0
        self._newest = _SIZE - 1
        self._committee: Committee | None = None
        self._leaves = np.zeros((0, _SIZE), dtype=np.uint8)
        self._unread = 0  # number of newest rows whose leaves are not computed yet
        self._metric: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def set_n_features(self, n_features: int) -> None:
        """Set the number of features to `n_features`; stored rows get NaN in new columns."""
        filler = np.full((n_features - len(self._X), _SIZE), np.nan, dtype=np.float32)
        self._X = np.vstack([self._X, filler])
        self._metric = None

    def learn(
        self,
        committee: "Committee | None",
        row: np.ndarray,
        label: Label,
        class_index: int,
        weight: float,
        scored: ExpertRecords | None = None,
    ) -> None:
        """Learn the class `class_index` of one record with features `row` (D,)."""
        self._newest = newest = (self._newest + 1) % _SIZE
        self._X[:, newest], self._y[newest] = row, class_index
        self._weight[newest] = weight
        self._n = min(self._n + 1, _SIZE)
        if scored is not None and scored.committee is self._committee and not self._unread:
            self._leaves[:, newest] = scored.leaves[0]
        else:
            self._unread = min(self._unread + 1, _SIZE)

    def predict(self, records: ExpertRecords, outputs: np.ndarray) -> None:
        """Write class log probabilities into `outputs`, float64 (number of outputs, n, K)."""
        if not self._n:
            return
        self._update_leaves_of_rows(records.committee)
        if self._metric is None:
            self._metric = self._column_distance_weights(records.committee)
        ring = self._X, self._y, self._weight, self._leaves, self._n, self._newest
        metric = *self._metric, self._scale.rate
        stacking_kernels().write_neighbour_predictions(
            *ring, _NEAR, records.X, records.leaves, *metric, outputs
        )

    def _update_leaves_of_rows(self, committee: "Committee") -> None:
        """Compute the leaves that the stored rows reach in the trees of `committee`.

        For a new committee all rows are computed, else only rows added since the last call.
        """
        if committee is not self._committee:
            self._committee, self._metric, self._unread = committee, None, self._n
            self._leaves = np.zeros((0, _SIZE), dtype=np.uint8)
        if self._unread:
            rows = (self._newest - np.arange(self._unread)) % _SIZE
            X = np.ascontiguousarray(self._X[: committee.n_features, rows].T)
            leaves = committee.learners.leaf_indices(X, TREES).T
            if len(self._leaves) < len(leaves):
                self._leaves = np.zeros((len(leaves), _SIZE), dtype=np.uint8)
            self._leaves[:, rows] = leaves
            self._unread = 0

    def _column_distance_weights(
        self, committee: "Committee"
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the m columns that distances use, the roots of their weights, and the weights.

        The root is 0 for categorical columns. A column that was constant so far is compared as a
        category, too.
        """
        splits = np.full(len(self._X), _UNUSED)
        splits[: committee.n_features] += committee.learners.split_counts(committee.n_features)
        weight = splits / splits.mean()
        root = np.sqrt(weight)
        root[committee.learners.category_codes.features] = 0.0
        columns = np.sort(np.argsort(-weight, kind="stable")[:_COLUMNS])
        return columns, root[columns], weight[columns].astype(np.float32)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`, with rows in the order of the ring buffer."""
        n = self._n
        rows: Arrays = {"X": self._X[:, :n].T, "y": self._y[:n], "weight": self._weight[:n]}
        return {"newest": self._newest}, {name: array.copy() for name, array in rows.items()}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        self._n = self._unread = len(arrays["y"])
        self._newest = state["newest"]
        self._X[:, : self._n], self._y[: self._n] = arrays["X"].T, arrays["y"]
        self._weight[: self._n] = arrays["weight"]
        self._committee, self._metric = None, None
