"""Grower: grows trees on binned rows by calling the kernels, for which it allocates memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from streamboost.errors import ConfigurationError
from streamboost.kernels.growing import quick
from streamboost.kernels.growing.criteria import ERROR, NEWTON, NEWTON_SUMS, TREE_PARAMS
from streamboost.kernels.growing.grow import grow_tree
from streamboost.kernels.growing.histograms import BinnedData
from streamboost.kernels.growing.nodes import NODE
from streamboost.trees.bins import Bins
from streamboost.trees.histogram_input import HistogramInput
from streamboost.trees.tree import Tree

MOST_SUMS = 2**25
"""Size limit of all cached histograms, 256 MiB. Class weights take bins x K for each of 2 K leaves:
19 GiB for a thousand classes and twenty features. Beyond the limit, the histograms of leaves with
few rows are evicted and rebuilt."""


class HistogramPool:
    """Reusable memory for the histograms of a growing tree."""

    def __init__(self) -> None:
        self._pool = np.empty(0, dtype=np.int64)

    def __call__(self, n_leaves: int, width: int) -> np.ndarray:
        """Return memory for histograms of `width` sums, int64 (slots, width).

        There are at least two slots, and at most `n_leaves`, as far as `MOST_SUMS` allows."""
        slots = min(n_leaves, max(2, MOST_SUMS // max(width, 1)))
        if self._pool.size < slots * width:
            self._pool = np.empty(slots * width, dtype=np.int64)
        return self._pool[: slots * width].reshape(slots, width)


class Grower:
    """Grower of trees on a sample of the training rows and features.

    Parameters
    ----------
    bins, codes
        The bins of each feature, and the training rows as bin indices, uint8 (D, n).
    max_leaf_nodes, max_depth
        Limits of a tree, which is grown best-first.
    min_child_weight, l2_regularization
        Least sum of Hessians or weights in a child, and penalty on leaf values in the same unit.
    pruning
        "quick" skips features that cannot have the best split of a node, and gives the same trees.
        It supports class weights, the criterion ERROR, and gradients with Hessians.

    Attributes
    ----------
    binned
        The bin indices of the training rows, and properties of the bins of each feature.
    rows, unsampled_rows
        Indices of the sampled rows, on which splits are searched, and of the other rows, which are
        only assigned to leaves, uint32.
    features
        The features available to this round, uint32, ascending.
    n_adds
        Number of additions to histograms for all trees so far: one for each row and feature.
    all_rows, n_rows
        Indices of all training rows, uint32, and their number n.
    splittable
        Indices of the features with at least two bins, uint32, ascending.
    n_features
        Number of features D.
    histograms
        Memory for histograms.
    """

    def __init__(
        self,
        bins: Bins,
        codes: np.ndarray,
        *,
        max_leaf_nodes: int,
        max_depth: int | None,
        min_child_weight: float,
        l2_regularization: float,
        pruning: str | None = None,
    ) -> None:
        if pruning is not None and bins.categorical.any():
            raise ConfigurationError(
                "pruning='quick' does not know categories: leave it out, or give the columns as "
                "numbers"
            )
        self.binned = BinnedData(codes, bins.n_bins, bins.missing, bins.categorical)
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = np.iinfo(np.int64).max if max_depth is None else max_depth
        self._min_child_weight = min_child_weight
        self._l2 = l2_regularization
        self._pruning = pruning
        self.n_adds = 0
        self.histograms = HistogramPool()
        self.n_features, self.n_rows = codes.shape
        self.all_rows = np.arange(self.n_rows, dtype=np.uint32)
        # A feature with one bin cannot be split.
        self.splittable = np.flatnonzero((self.binned.n_bins > 1) | bins.missing).astype(np.uint32)
        self.set_sample(self.splittable, self.all_rows)

    def set_sample(
        self, features: np.ndarray, rows: np.ndarray, unsampled_rows: np.ndarray | None = None
    ) -> None:
        """Set the features and rows for growing the next trees, as uint32 indices.

        `features` must be ascending. `unsampled_rows` rows are only assigned to leaves, without an
        effect on the splits.
        """
        self.features = features
        self.rows = rows
        self.unsampled_rows = (
            np.zeros(0, dtype=np.uint32) if unsampled_rows is None else unsampled_rows
        )
        _, n_bins, missing, _ = self.binned
        widths = n_bins[features] + missing[features]
        self._first = (np.cumsum(widths) - widths).astype(np.uint64)
        self._width = int(widths.sum())

    @contextmanager
    def use_all_rows_and_features(self) -> Iterator[None]:
        """Grow trees on all rows and all splittable features inside a `with` block."""
        features, rows, unsampled_rows = self.features, self.rows, self.unsampled_rows
        self.set_sample(self.splittable, self.all_rows)
        try:
            yield
        finally:
            self.set_sample(features, rows, unsampled_rows)

    @property
    def uses_all_rows_and_features(self) -> bool:
        """Whether trees are grown on all rows and on all features that can be split."""
        return len(self.unsampled_rows) == 0 and len(self.features) == len(self.splittable)

    def __call__(
        self,
        histogram_input: HistogramInput,
        *,
        rows: np.ndarray | None = None,
        unsampled_rows: np.ndarray | None = None,
        max_leaf_nodes: int | None = None,
    ) -> Tree:
        """Grow a tree whose splits maximise the criterion of `histogram_input`, and return it.

        `rows` and `unsampled_rows` (uint32) replace the sampled and the other rows of the round,
        and `max_leaf_nodes` the limit of the constructor, if given. This is for inputs that depend
        on the node.
        """
        n_leaves = max_leaf_nodes or self.max_leaf_nodes
        params = self.tree_params(histogram_input.kind, histogram_input.channels)
        params["max_leaf_nodes"] = n_leaves
        params["min_child"] = max(1.0, self._min_child_weight * histogram_input.scale)
        params["l2"] = self._l2 * histogram_input.scale
        nodes = np.empty(2 * n_leaves - 1, dtype=NODE)
        rows = (self.rows if rows is None else rows).copy()
        unsampled_rows = (self.unsampled_rows if unsampled_rows is None else unsampled_rows).copy()
        most = None if self._pruning is None else _max_score_of_each_row(histogram_input, rows)
        codes, n_bins, missing, categorical = self.binned
        columns = codes, self.features, self._first, n_bins[self.features], missing[self.features]
        of_rows = histogram_input.values, histogram_input.channel
        width = self._width * histogram_input.channels
        # A row with an infinite bound prevents pruning.
        if most is not None and np.isfinite(most[rows]).all():
            room, heavy = self.histograms(1, width)[0], _sort_rows_by_rounded_weight(rows, most)
            grown = quick.grow_tree_with_pruning(
                *columns, rows, heavy, unsampled_rows, most, *of_rows, params, room, nodes
            )
        else:
            room, parted = self.histograms(n_leaves, width), categorical[self.features]
            given = *of_rows, histogram_input.totals, params, room, nodes
            grown = grow_tree(*columns, parted, rows, unsampled_rows, *given)
        n_nodes, n_adds = (int(count) for count in grown)
        self.n_adds += n_adds
        return Tree(
            nodes[:n_nodes], self.features, rows, unsampled_rows, histogram_input.gain_scale
        )

    def tree_params(self, kind: int, channels: int) -> np.ndarray:
        """Return the parameters of a tree with the split criterion `kind`, TREE_PARAMS (1,).

        `channels` is the number of sums per histogram bin. The least child weight and the penalty
        on leaf values are those of the constructor, not yet multiplied by `HistogramInput.scale`.
        """
        params = np.zeros(1, dtype=TREE_PARAMS)
        params["kind"], params["channels"] = kind, channels
        params["max_leaf_nodes"], params["max_depth"] = self.max_leaf_nodes, self.max_depth
        params["min_child"], params["l2"] = self._min_child_weight, self._l2
        return params


def _max_score_of_each_row(histogram_input: HistogramInput, rows: np.ndarray) -> np.ndarray:
    """Return the largest score that each of `rows` can add to the score of a leaf, float64 (n,).

    The bound is infinite for a row with a gradient but no Hessian, and 0 for rows not in `rows`.
    Raises ConfigurationError if pruning does not support the criterion.
    """
    width = 1 if histogram_input.channel.size else histogram_input.channels
    each = histogram_input.values.reshape(-1, width)
    most, each = np.zeros(len(each)), each[rows]
    if (
        histogram_input.channel.size
    ):  # class weights: the weight of the row, if its class is predicted
        most[rows] = each[:, 0]
    elif histogram_input.kind == ERROR:
        most[rows] = np.maximum(each.max(axis=1), 0)
    elif histogram_input.kind in (NEWTON, NEWTON_SUMS):
        packed = histogram_input.kind == NEWTON
        g, h = (each >> 32, each & 0xFFFFFFFF) if packed else np.hsplit(each, 2)
        square = g.astype(np.float64) ** 2
        alone = np.divide(square, h, out=np.where(g == 0, 0.0, np.inf), where=h > 0)
        most[rows] = alone.sum(axis=1)
    else:
        raise ConfigurationError(
            "pruning='quick' serves trees of gradients and Hessians, and those of least weighted "
            "error, Gini index or entropy: leave it out"
        )
    return most


def _sort_rows_by_rounded_weight(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return `rows` sorted by descending weight, up to a relative error of an eighth.

    The rounding gives keys of 16 bits, which numpy sorts in linear time. Rows of equal keys keep
    their order, so that memory is read sequentially.
    """
    key = weight[rows].astype(np.float32).view(np.uint32) >> 20
    return rows[np.argsort(~key.astype(np.uint16), kind="stable")]
