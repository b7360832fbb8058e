"""Best-first growth of a tree whose nodes each have their own gradients and Hessians."""

from collections.abc import Callable

import numpy as np

from streamboost.kernels.growing.nodes import NODE
from streamboost.trees.grower import Grower
from streamboost.trees.histogram_input import HistogramInput
from streamboost.trees.tree import Tree, replace_leaf

NodeHistogramInput = Callable[[np.ndarray], HistogramInput]
"""Function of the indices of a node's rows (uint32), which returns the input of their histograms.
"""


def grow_with_node_histogram_inputs(
    grower: Grower, histogram_input_of_node: NodeHistogramInput
) -> Tree:
    """Grow one tree best-first, with gradients and Hessians chosen separately for each node.

    `histogram_input_of_node` is called once for each node, with the node's rows. The histogram of a
    child cannot be computed by subtraction, as each node has its own gradients. A node takes about
    20 µs of Python.
    """
    growth = _GrowingTree(grower, histogram_input_of_node)
    while growth.splits and growth.n_nodes < len(growth.nodes):
        growth.split_best_leaf()
    return growth.to_tree()


class _GrowingTree:
    """State of a growing tree: nodes, rows sorted by leaf, and the best split of each leaf.

    `splits` maps the index of a leaf that can be split to a pair: the gain of its best split, and
    the split as a tree of two leaves.
    """

    def __init__(self, grower: Grower, histogram_input_of_node: NodeHistogramInput) -> None:
        self._grow = grower
        self._histogram_input_of_node = histogram_input_of_node
        self._rows, self._unsampled_rows = grower.rows.copy(), grower.unsampled_rows.copy()
        self.nodes = np.zeros(2 * grower.max_leaf_nodes - 1, dtype=NODE)
        self.n_nodes = 1
        self.splits: dict[int, tuple[float, Tree]] = {}
        root = self.nodes[0]
        root["feature"] = root["bin"] = root["left"] = root["slot"] = -1
        root["stop"], root["unsampled_stop"] = len(self._rows), len(self._unsampled_rows)
        self._find_split(0)

    def split_best_leaf(self) -> None:
        """Split the leaf with the largest gain into two leaves; ties go to the oldest leaf."""
        i = max(self.splits, key=lambda at: self.splits[at][0])
        gain, split = self.splits.pop(i)
        first = self.n_nodes
        replace_leaf(self.nodes, i, split, gain, first, self._rows, self._unsampled_rows)
        self.n_nodes += 2
        if self.n_nodes < len(self.nodes):
            self._find_split(first)
            self._find_split(first + 1)

    def to_tree(self) -> Tree:
        """Return the tree that was grown so far, with the leaf of each row."""
        return Tree(
            self.nodes[: self.n_nodes],
            self._grow.features,
            self._rows,
            self._unsampled_rows,
            gain_scale=1.0,
        )

    def _find_split(self, leaf: int) -> None:
        """Find the best split of `leaf`, and store the split in `splits`.

        Stores nothing if the leaf is at the depth limit, or if no split has a gain.
        """
        node = self.nodes[leaf]
        if node["depth"] >= self._grow.max_depth:
            return
        rows = self._rows[node["start"] : node["stop"]]
        unsampled_rows = self._unsampled_rows[node["unsampled_start"] : node["unsampled_stop"]]
        split = self._grow(
            self._histogram_input_of_node(rows),
            rows=rows,
            unsampled_rows=unsampled_rows,
            max_leaf_nodes=2,
        )
        if split.n_leaves > 1:
            self.splits[leaf] = float(split.nodes[0]["gain"]) * split.gain_scale, split
