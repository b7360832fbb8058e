"""Tree that was just grown, with the indices of the training rows in each leaf."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(slots=True)
class Tree:
    """Grown tree with its rows sorted by leaf; the boosting algorithm sets the leaf values.

    `nodes` are the NODE records of the kernel, and `features` the features available to the tree.
    `rows` are the indices of the sampled rows, on which splits were searched, and `unsampled_rows`
    those of the other rows. Leaf m has the rows `rows[start[m]:stop[m]]` and
    `unsampled_rows[unsampled_start[m]:unsampled_stop[m]]`. Split gains are multiplied by
    `gain_scale` before gains of different trees are compared. `values` (leaves, K) are the leaf
    values, and `leaves` is the mask of the nodes that are leaves.
    """

    nodes: np.ndarray
    features: np.ndarray
    rows: np.ndarray
    unsampled_rows: np.ndarray
    gain_scale: float
    values: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    leaves: np.ndarray = field(init=False)
    start: np.ndarray = field(init=False)
    stop: np.ndarray = field(init=False)
    unsampled_start: np.ndarray = field(init=False)
    unsampled_stop: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.leaves = self.nodes["left"] < 0
        ends = self.nodes[self.leaves]
        self.start, self.stop = ends["start"].copy(), ends["stop"].copy()
        self.unsampled_start, self.unsampled_stop = (
            ends["unsampled_start"].copy(),
            ends["unsampled_stop"].copy(),
        )

    @property
    def n_leaves(self) -> int:
        """Number of leaves of the tree."""
        return len(self.start)

    def leaf_indices(self, n_rows: int) -> np.ndarray:
        """Return the leaf index of each of the `n_rows` training rows, int64 (n_rows,)."""
        leaf = np.empty(n_rows, dtype=np.int64)
        for m in range(self.n_leaves):
            leaf[self.rows[self.start[m] : self.stop[m]]] = m
            leaf[self.unsampled_rows[self.unsampled_start[m] : self.unsampled_stop[m]]] = m
        return leaf

    def leaf_sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sums of `values` (n, ...) over the sampled rows of each leaf.

        The sums are float64 (leaves, ...).
        """
        spans = zip(self.start, self.stop, strict=True)
        return np.stack([values[self.rows[a:b]].sum(axis=0) for a, b in spans])

    def leaf_weights(self, weight: np.ndarray | float) -> np.ndarray:
        """Return the total weight of all rows of each leaf, sampled or not, float64 (leaves,).

        `weight` is the weight of each row (n,), or one number for all rows.
        """
        if isinstance(weight, float):
            counts = self.stop - self.start + self.unsampled_stop - self.unsampled_start
            return np.asarray(weight * counts)
        weights = _sum_of_each_range(weight[self.rows], self.start, self.stop)
        if len(self.unsampled_rows):
            weights += _sum_of_each_range(
                weight[self.unsampled_rows], self.unsampled_start, self.unsampled_stop
            )
        return weights


def replace_leaf(
    nodes: np.ndarray,
    leaf: int,
    split: Tree,
    gain: float,
    first_child: int,
    rows: np.ndarray,
    unsampled_rows: np.ndarray,
) -> None:
    """Replace a leaf in `nodes` by `split`, a tree of two leaves that was grown on its rows.

    The new leaves get the indices `first_child` and `first_child` + 1. The leaf's rows in `rows`
    and `unsampled_rows` are sorted by new leaf.
    """
    node, children = nodes[leaf], nodes[first_child : first_child + 2]
    children[:] = split.nodes[1:]
    children["depth"] += node["depth"]
    for kind, all_rows, own in (
        ("", rows, split.rows),
        ("unsampled_", unsampled_rows, split.unsampled_rows),
    ):
        start = node[f"{kind}start"]
        all_rows[start : start + len(own)] = own
        children[f"{kind}start"] += start
        children[f"{kind}stop"] += start
    for name in ("feature", "bin", "missing_left", "members"):
        node[name] = split.nodes[0][name]
    node["gain"], node["left"] = gain, first_child


def _sum_of_each_range(values: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    before = np.zeros(len(values) + 1)
    values.cumsum(out=before[1:])
    return np.asarray(before[stop] - before[start])
