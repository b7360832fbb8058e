"""A grown tree, and which rows each of its leaves holds."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Tree", "leaf_shares", "split_gains"]


@dataclass(slots=True)
class Tree:
    """One grown tree, its rows by leaf, and (once an algorithm has set them) its leaf values.

    `nodes` holds the kernel's records, `features` the features that were offered. Leaf m has the
    rows `rows[start[m]:stop[m]]`, and `rest[rest_start[m]:rest_stop[m]]` that were not sampled.
    `worth` is what a unit of the nodes' gain is worth; see `Statistic`.
    """

    nodes: np.ndarray
    features: np.ndarray
    rows: np.ndarray
    rest: np.ndarray
    worth: float
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

    def leaf_weights(self, weight: np.ndarray) -> np.ndarray:
        """Return what the rows of each leaf weigh, sampled or not, float64 (leaves,)."""
        weights = _span_sums(weight[self.rows], self.start, self.stop)
        if len(self.rest):
            weights += _span_sums(weight[self.rest], self.rest_start, self.rest_stop)
        return weights


def _span_sums(values: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    before = np.zeros(len(values) + 1)
    values.cumsum(out=before[1:])
    return np.asarray(before[stop] - before[start])


def split_gains(
    trees: Sequence[Tree], inner: np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """Return what splits gained for a record of the training, float32, one for each of `inner`.

    `inner` are the inner nodes of the trees, one tree after another; `weight` is what each row of
    the training weighs, float64 (n,), 1 if None.
    """
    n_records = len(trees[0].rows) + len(trees[0].rest) if weight is None else weight.sum()
    worth = np.array([tree.worth for tree in trees]) / n_records
    gains = inner["gain"] * np.repeat(worth, [tree.n_leaves - 1 for tree in trees])
    return np.asarray(gains, dtype=np.float32)


def leaf_shares(
    trees: Sequence[Tree], ends: np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """Return the share of its tree's rows that each leaf has, by weight: float32 (leaves,).

    `ends` are the leaves of the trees, one tree after another; `weight` as in `split_gains`.
    """
    if weight is None or (weight == weight[0]).all():
        sampled, others = ends["stop"] - ends["start"], ends["rest_stop"] - ends["rest_start"]
        weights = (sampled + others).astype(np.float64)
    else:
        weights = np.concatenate([tree.leaf_weights(weight) for tree in trees])
    n_leaves = np.array([tree.n_leaves for tree in trees])
    of_tree = np.add.reduceat(weights, np.cumsum(n_leaves) - n_leaves)
    return np.asarray(weights / np.repeat(of_tree, n_leaves), dtype=np.float32)
