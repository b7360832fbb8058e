"""Growing trees on coded rows: what the kernel needs, allocated, scaled and checked."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from streamboost.errors import ConfigurationError
from streamboost.kernels.growing import quick
from streamboost.kernels.growing.criteria import ERROR, LIMITS, NEWTON, NEWTON_SUMS
from streamboost.kernels.growing.grow import grow
from streamboost.kernels.growing.histograms import Coded
from streamboost.kernels.growing.nodes import NODE
from streamboost.trees.bins import Bins
from streamboost.trees.statistics import Statistic
from streamboost.trees.tree import Tree

__all__ = ["MOST_SUMS", "Grower", "Histograms"]

MOST_SUMS = 2**25
"""Of all histograms kept, 256 MiB: class weights take bins x K for each of 2 K leaves, 19 GiB for a
thousand classes on twenty features. Beyond, leaves of few rows are counted once more."""


class Histograms:
    """Room for histograms, which is taken once for all trees that need no more."""

    def __init__(self) -> None:
        self._pool = np.empty(0, dtype=np.int64)

    def __call__(self, n_leaves: int, width: int) -> np.ndarray:
        """Return room for those of each leaf or for as many as fit, int64 (slots, width)."""
        slots = min(n_leaves, max(2, MOST_SUMS // max(width, 1)))
        if self._pool.size < slots * width:
            self._pool = np.empty(slots * width, dtype=np.int64)
        return self._pool[: slots * width].reshape(slots, width)


class Grower:
    """Grows trees on the sampled rows and features of one round.

    Parameters
    ----------
    bins, codes
        The training rows as `Bins` coded them: uint8 (D, n).
    max_leaf_nodes, max_depth
        Where a tree ends; best leaf first.
    min_child_weight, l2_regularization
        In the units of the statistic's user: Hessian, or weight.
    pruning
        "quick" leaves features unfinished that cannot win a node: the same trees, of class weights
        and of statistics of the kinds ERROR and Newton's.

    Attributes
    ----------
    n_adds
        Additions to histograms, one per row and feature counted, of all trees so far.
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
        self._codes = codes
        self._n_bins = bins.n_bins
        self._missing = bins.missing
        self._categorical = bins.categorical
        self._max_leaf_nodes = max_leaf_nodes
        self._max_depth = np.iinfo(np.int64).max if max_depth is None else max_depth
        self._min_child_weight = min_child_weight
        self._l2 = l2_regularization
        self._pruning = pruning
        self.n_adds = 0
        self.histograms = Histograms()
        self.n_features, self.n_rows = codes.shape
        self.all_rows = np.arange(self.n_rows, dtype=np.uint32)
        # A feature with one bin cannot be split.
        self.splittable = np.flatnonzero((self._n_bins > 1) | self._missing).astype(np.uint32)
        self.sample(self.splittable, self.all_rows)

    def sample(
        self, features: np.ndarray, rows: np.ndarray, rest: np.ndarray | None = None
    ) -> None:
        """Offer `features` (ascending) and train on `rows`; `rest` are all others, uint32."""
        self._features = features
        self._rows = rows
        self._rest = np.zeros(0, dtype=np.uint32) if rest is None else rest
        widths = self._n_bins[features] + self._missing[features]
        self._first = (np.cumsum(widths) - widths).astype(np.uint64)
        self._width = int(widths.sum())

    @contextmanager
    def everything(self) -> Iterator[None]:
        """Offer all features and all rows for a while."""
        features, rows, rest = self._features, self._rows, self._rest
        self.sample(self.splittable, self.all_rows)
        try:
            yield
        finally:
            self.sample(features, rows, rest)

    @property
    def rows(self) -> np.ndarray:
        """The rows this round trains on, uint32."""
        return self._rows

    @property
    def rest(self) -> np.ndarray:
        """The rows this round only routes, uint32."""
        return self._rest

    @property
    def features(self) -> np.ndarray:
        """The features this round is offered, uint32, ascending."""
        return self._features

    @property
    def coded(self) -> Coded:
        """The training rows, and what there is to know of each feature."""
        return Coded(self._codes, self._n_bins, self._missing, self._categorical)

    @property
    def max_leaf_nodes(self) -> int:
        """Most leaves of a tree."""
        return self._max_leaf_nodes

    @property
    def max_depth(self) -> int:
        """Most splits above a leaf."""
        return self._max_depth

    @property
    def whole(self) -> bool:
        """Whether this round is offered every row, and every feature that can be split."""
        return len(self._rest) == 0 and len(self._features) == len(self.splittable)

    def __call__(
        self,
        statistic: Statistic,
        *,
        rows: np.ndarray | None = None,
        rest: np.ndarray | None = None,
        max_leaf_nodes: int | None = None,
    ) -> Tree:
        """Grow one tree that maximises the statistic's criterion.

        On `rows` and `rest` (uint32) instead of the round's sample, and to fewer leaves, where
        they are given: a node at a time, for statistics that depend on the node.
        """
        n_leaves = max_leaf_nodes or self._max_leaf_nodes
        limits = self.limits(statistic.kind, statistic.channels)
        limits["max_leaf_nodes"] = n_leaves
        limits["min_child"] = max(1.0, self._min_child_weight * statistic.scale)
        limits["l2"] = self._l2 * statistic.scale
        nodes = np.empty(2 * n_leaves - 1, dtype=NODE)
        rows = (self._rows if rows is None else rows).copy()
        rest = (self._rest if rest is None else rest).copy()
        most = None if self._pruning is None else _most(statistic, rows)
        # Where a row may be worth anything, none can be left for later.
        if most is not None and np.isfinite(most[rows]).all():
            n_nodes = self._grow_quick(statistic, rows, rest, most, limits, nodes)
        else:
            n_nodes = self._grow(statistic, rows, rest, limits, nodes)
        return Tree(nodes[:n_nodes], self._features, rows, rest, statistic.worth)

    def _grow(
        self,
        statistic: Statistic,
        rows: np.ndarray,
        rest: np.ndarray,
        limits: np.ndarray,
        nodes: np.ndarray,
    ) -> int:
        features = self._features
        n_nodes, n_adds = grow(
            self._codes,
            features,
            self._first,
            self._n_bins[features],
            self._missing[features],
            self._categorical[features],
            rows,
            rest,
            statistic.values,
            statistic.channel,
            statistic.totals,
            limits,
            self.histograms((len(nodes) + 1) // 2, self._width * statistic.channels),
            nodes,
        )
        self.n_adds += int(n_adds)
        return int(n_nodes)

    def _grow_quick(
        self,
        statistic: Statistic,
        rows: np.ndarray,
        rest: np.ndarray,
        most: np.ndarray,
        limits: np.ndarray,
        nodes: np.ndarray,
    ) -> int:
        features = self._features
        n_nodes, n_adds = quick.grow(
            self._codes,
            features,
            self._first,
            self._n_bins[features],
            self._missing[features],
            rows,
            _heavy_first(rows, most),
            rest,
            most,
            statistic.values,
            statistic.channel,
            limits,
            self.histograms(1, self._width * statistic.channels)[0],
            nodes,
        )
        self.n_adds += int(n_adds)
        return int(n_nodes)

    def limits(self, kind: int, channels: int) -> np.ndarray:
        """Return where trees of such a statistic end, LIMITS (1,), in the user's units."""
        limits = np.zeros(1, dtype=LIMITS)
        limits["kind"], limits["channels"] = kind, channels
        limits["max_leaf_nodes"], limits["max_depth"] = self._max_leaf_nodes, self._max_depth
        limits["min_child"], limits["l2"] = self._min_child_weight, self._l2
        return limits


def _most(statistic: Statistic, rows: np.ndarray) -> np.ndarray:
    """Return what each of `rows` adds at most to the worth of a leaf, float64 (n,), 0 elsewhere.

    Infinite for a row with a gradient and no Hessian.
    """
    width = 1 if statistic.channel.size else statistic.channels
    each = statistic.values.reshape(-1, width)
    most, each = np.zeros(len(each)), each[rows]
    if statistic.channel.size:  # class weights: all of its weight, if its class is the answer
        most[rows] = each[:, 0]
    elif statistic.kind == ERROR:
        most[rows] = np.maximum(each.max(axis=1), 0)
    elif statistic.kind in (NEWTON, NEWTON_SUMS):
        packed = statistic.kind == NEWTON
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


def _heavy_first(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return `rows` by falling weight, coarsely: any order will do, and this one is cheap.

    Weights are told apart to an eighth, and rows as heavy as each other stay in their order, so
    that memory is read forwards; numpy sorts keys of 16 bits in linear time.
    """
    key = weight[rows].astype(np.float32).view(np.uint32) >> 20
    return rows[np.argsort(~key.astype(np.uint16), kind="stable")]
