"""Growing trees on coded rows: what the kernel needs, allocated, scaled and checked."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from streamboost.errors import ConfigurationError
from streamboost.kernels import grow as kernels
from streamboost.kernels import quick
from streamboost.trees.bins import Bins

__all__ = [
    "Grower",
    "Statistic",
    "Tree",
    "gradient_statistic",
    "pair_statistic",
    "vector_statistic",
    "weight_statistic",
]

WIDE_ROWS = 65_536
"""Beyond this many rows, or this weight, a 32-bit half is too coarse for small gradients."""

_SUM_BITS = 52  # sums in an int64 of their own still turn into float64 without rounding


@dataclass(frozen=True, slots=True)
class Statistic:
    """What each row adds to a histogram, as whole numbers of 1/scale.

    Parameters
    ----------
    kind
        One of the grow kernel's criteria.
    values
        int64: one number per row of all n, or `channels` of them, row after row.
    channels
        Numbers per histogram bin.
    scale
        Turns the user's least weight and penalty into the same units.
    channel
        uint32 (n,): the channel each row's one number goes to; empty where it fills all.
    totals
        The constants t_k of the stump criterion, in the same units.
    """

    kind: int
    values: np.ndarray
    channels: int
    scale: float
    channel: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.uint32))
    totals: np.ndarray = field(default_factory=lambda: np.zeros(0))


@dataclass(slots=True)
class Tree:
    """One grown tree, its rows by leaf, and (once an algorithm has set them) its leaf values.

    `nodes` holds the kernel's records, `features` the features that were offered. Leaf m has the
    rows `rows[start[m]:stop[m]]`, and `rest[rest_start[m]:rest_stop[m]]` that were not sampled.
    """

    nodes: np.ndarray
    features: np.ndarray
    rows: np.ndarray
    rest: np.ndarray
    values: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    leaves: np.ndarray = field(init=False)
    start: np.ndarray = field(init=False)
    stop: np.ndarray = field(init=False)
    rest_start: np.ndarray = field(init=False)
    rest_stop: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.leaves = self.nodes["left"] < 0
        ends = self.nodes[self.leaves]
        self.start, self.stop = ends["start"].copy(), ends["stop"].copy()
        self.rest_start, self.rest_stop = ends["rest_start"].copy(), ends["rest_stop"].copy()

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.start)

    def leaf_of_row(self, n: int) -> np.ndarray:
        """Return the leaf of each of all `n` rows, int64."""
        leaf = np.empty(n, dtype=np.int64)
        for m in range(self.n_leaves):
            leaf[self.rows[self.start[m] : self.stop[m]]] = m
            leaf[self.rest[self.rest_start[m] : self.rest_stop[m]]] = m
        return leaf

    def leaf_sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sums of `values` (n, ...), a number or more for each row, over sampled rows.

        float64 (leaves, ...).
        """
        spans = zip(self.start, self.stop, strict=True)
        return np.stack([values[self.rows[a:b]].sum(axis=0) for a, b in spans])


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
        "quick" leaves features unfinished that cannot win a node: the same trees, of statistics of
        kind GINI and ERROR only.

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
        self._pool = np.empty(0, dtype=np.int64)
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
        limits = np.zeros(1, dtype=kernels.LIMITS)
        limits["kind"] = statistic.kind
        limits["channels"] = statistic.channels
        limits["max_leaf_nodes"] = n_leaves
        limits["max_depth"] = self._max_depth
        limits["min_child"] = max(1.0, self._min_child_weight * statistic.scale)
        limits["l2"] = self._l2 * statistic.scale
        nodes = np.empty(2 * n_leaves - 1, dtype=kernels.NODE)
        rows = (self._rows if rows is None else rows).copy()
        rest = (self._rest if rest is None else rest).copy()
        if self._pruning == "quick":
            n_nodes = self._grow_quick(statistic, rows, rest, limits, nodes)
        else:
            n_nodes = self._grow(statistic, rows, rest, limits, nodes)
        return Tree(nodes[:n_nodes], self._features, rows, rest)

    def _grow(
        self,
        statistic: Statistic,
        rows: np.ndarray,
        rest: np.ndarray,
        limits: np.ndarray,
        nodes: np.ndarray,
    ) -> int:
        features = self._features
        n_nodes = kernels.grow(
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
            self._histograms((len(nodes) + 1) // 2, self._width * statistic.channels),
            nodes,
        )
        self.n_adds += len(features) * _counted_rows(nodes[:n_nodes])
        return int(n_nodes)

    def _grow_quick(
        self,
        statistic: Statistic,
        rows: np.ndarray,
        rest: np.ndarray,
        limits: np.ndarray,
        nodes: np.ndarray,
    ) -> int:
        most = _most(statistic)
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
            self._histograms(1, self._width * statistic.channels)[0],
            nodes,
        )
        self.n_adds += int(n_adds)
        return int(n_nodes)

    def _histograms(self, n_leaves: int, width: int) -> np.ndarray:
        if self._pool.size < n_leaves * width:
            self._pool = np.empty(n_leaves * width, dtype=np.int64)
        return self._pool[: n_leaves * width].reshape(n_leaves, width)


def gradient_statistic(
    gradient: np.ndarray, hessian: np.ndarray, weight: np.ndarray, sum_g: float, sum_h: float
) -> Statistic:
    """Return gradients and Hessians as whole numbers whose sums cannot overflow.

    `gradient` and `hessian` are those of a row of weight 1; `sum_g` and `sum_h` are the weighted
    sums of |gradient| and of Hessians, the exact bounds of any
    node's sums. Scales are powers of two, so that the order of the rows, which moves the bounds by
    a rounding, does not move the scale.
    """
    from streamboost.kernels.softmax import pack

    n = len(gradient)
    wide = max(n, float(weight.sum())) > WIDE_ROWS
    bits = _SUM_BITS if wide else 30
    scale_g, scale_h = _power_of_two(bits, sum_g), _power_of_two(bits, sum_h)
    values = np.empty(2 * n if wide else n, dtype=np.int64)
    pack(gradient, hessian, weight, scale_g, scale_h, wide, values)
    kind = kernels.NEWTON_SUMS if wide else kernels.NEWTON
    return Statistic(kind, values, 2 if wide else 1, scale_h)


def pair_statistic(
    probabilities: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    rows: np.ndarray,
    buffer: np.ndarray,
) -> tuple[Statistic, float]:
    """Return gradients and Hessians of a node's own class pair, and what a unit of gain is worth.

    Of the node that holds `rows` (uint32); for `probabilities` float32 (n, K), `y` uint32 and
    `weight` float32 (n,). Each node has scales of its own, so gains of two nodes compare only in
    the user's units. `buffer` int64 (2n,) takes the numbers, and belongs to the statistic.
    """
    from streamboost.kernels import pairs

    wide = len(rows) > WIDE_ROWS
    bits = _SUM_BITS if wide else 30
    scale_g, scale_h = pairs.pair_statistic(probabilities, y, weight, rows, bits, wide, buffer)
    kind = kernels.NEWTON_SUMS if wide else kernels.NEWTON
    statistic = Statistic(kind, buffer, 2 if wide else 1, scale_h)
    return statistic, scale_h / scale_g**2


def weight_statistic(
    weight: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    kind: int = kernels.GINI,
    *,
    copies: np.ndarray | None = None,
    unit: float = 1.0,
) -> Statistic:
    """Return the class weights of a tree that maximises the Gini sum, or kernels.ERROR's.

    `weight` float64 (n,), not negative, is that of one record, and `copies` (n,) how many records
    each row stands for, one if None; it is rounded before it is multiplied, so that a row of two
    records counts exactly as two rows. `y` uint32 codes (n,). A weight of `unit` is what the least
    weight of a child calls 1.
    """
    total = weight if copies is None else weight * copies
    scale = _power_of_two(_SUM_BITS, float(total.sum()))
    values = np.rint(weight * scale)
    if copies is not None:
        values = np.rint(values * copies)
    return Statistic(kind, values.astype(np.int64), n_classes, scale * unit, channel=y)


def vector_statistic(
    kind: int,
    vectors: np.ndarray,
    totals: np.ndarray | None = None,
    *,
    copies: np.ndarray | None = None,
) -> Statistic:
    """Return a statistic of several numbers per row: `vectors` float64 (n, channels).

    They are those of one record; `copies` (n,) is as in `weight_statistic`. `totals` (channels,)
    are the constants of kernels.STUMP. All channels share one scale.
    """
    size = np.abs(vectors)
    bounds = size.sum(axis=0) if copies is None else copies @ size
    scale = _power_of_two(_SUM_BITS, float(bounds.max(initial=0.0)))
    values = np.rint(np.ascontiguousarray(vectors) * scale)
    if copies is not None:
        values = np.rint(values * copies[:, None])
    values = values.astype(np.int64).ravel()
    constants = np.zeros(0) if totals is None else np.asarray(totals, dtype=np.float64) * scale
    return Statistic(kind, values, vectors.shape[1], scale, totals=constants)


def _most(statistic: Statistic) -> np.ndarray:
    """Return what each row adds at most to the worth of a leaf, int64 (n,)."""
    if statistic.channel.size:  # class weights: all of its weight, if its class is the answer
        return statistic.values
    if statistic.kind != kernels.ERROR:
        raise ConfigurationError(
            "pruning='quick' serves trees that make a weighted error or Gini index least: leave it "
            "out"
        )
    gains = statistic.values.reshape(-1, statistic.channels)
    return np.asarray(np.maximum(gains.max(axis=1), 0))


def _heavy_first(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return `rows` by falling weight, coarsely: any order will do, and this one is cheap.

    Weights are told apart to an eighth, and rows as heavy as each other stay in their order, so
    that memory is read forwards; numpy sorts keys of 16 bits in linear time.
    """
    key = weight[rows].astype(np.float32).view(np.uint32) >> 20
    return rows[np.argsort(~key.astype(np.uint16), kind="stable")]


def _counted_rows(nodes: np.ndarray) -> int:
    """Return the rows counted to grow a tree: the root's, then the smaller child's of each pair."""
    n_rows = nodes["stop"] - nodes["start"]
    left = nodes["left"][nodes["left"] >= 0]
    left = left[nodes["slot"][left] >= 0]  # the last pairs are leaves, and not counted
    root = int(n_rows[0]) if nodes["slot"][0] >= 0 else 0
    return root + int(np.minimum(n_rows[left], n_rows[left + 1]).sum())


def _power_of_two(bits: int, bound: float) -> float:
    # Beyond 2^1000 a weight itself is near the least number there is.
    return float(2.0 ** min(np.floor(bits - np.log2(bound)), 1000.0)) if bound > 0 else 1.0
