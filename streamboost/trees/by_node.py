"""Best-first growth of a tree with a separate statistic for each node."""

from collections.abc import Callable

import numpy as np

from streamboost.kernels.growing.nodes import NODE
from streamboost.trees.grower import Grower
from streamboost.trees.statistics import Statistic
from streamboost.trees.tree import Tree

__all__ = ["NodeStatistic", "grow_by_node"]

NodeStatistic = Callable[[np.ndarray], tuple[Statistic, float]]
"""Function of a node's rows (uint32) that returns its statistic and the value of a unit of gain."""


def grow_by_node(grow: Grower, choose: NodeStatistic) -> Tree:
    """Grow one tree best-first on the rows and features of the round.

    For each node, `choose` returns the statistic that its split maximises. Histograms cannot be
    subtracted, as each node has its own statistic. A node takes about 20 µs of Python.
    """
    growth = _Growth(grow, choose)
    while growth.splits and growth.n_nodes < len(growth.nodes):
        growth.split_best()
    return growth.tree()


class _Growth:
    """State of a growing tree: nodes, rows sorted by leaf, and the best split of each leaf.

    `splits` maps a leaf that can be split to its gain and a tree of two leaves.
    """

    def __init__(self, grow: Grower, choose: NodeStatistic) -> None:
        self._grow = grow
        self._choose = choose
        self._rows, self._rest = grow.rows.copy(), grow.rest.copy()
        self.nodes = np.zeros(2 * grow.max_leaf_nodes - 1, dtype=NODE)
        self.n_nodes = 0
        self.splits: dict[int, tuple[float, Tree]] = {}
        self._open(0, 0, len(self._rows), 0, len(self._rest))
        self._look(0)

    def split_best(self) -> None:
        """Split the leaf of the largest gain; ties go to the oldest leaf."""
        i = max(self.splits, key=lambda at: self.splits[at][0])
        gain, split = self.splits.pop(i)
        node, first = self.nodes[i], self.n_nodes
        for field in ("feature", "bin", "missing_left", "members"):
            node[field] = split.nodes[0][field]
        node["gain"], node["left"] = gain, first
        start, rest_start = int(node["start"]), int(node["rest_start"])
        self._rows[start : start + len(split.rows)] = split.rows
        self._rest[rest_start : rest_start + len(split.rest)] = split.rest
        for side in range(2):
            self._open(
                int(node["depth"]) + 1,
                start + int(split.start[side]),
                start + int(split.stop[side]),
                rest_start + int(split.rest_start[side]),
                rest_start + int(split.rest_stop[side]),
            )
        if self.n_nodes < len(self.nodes):
            self._look(first)
            self._look(first + 1)

    def tree(self) -> Tree:
        """Return the tree with the current nodes."""
        return Tree(
            self.nodes[: self.n_nodes], self._grow.features, self._rows, self._rest, worth=1.0
        )

    def _open(self, depth: int, start: int, stop: int, rest_start: int, rest_stop: int) -> None:
        node = self.nodes[self.n_nodes]
        node["feature"] = node["bin"] = node["left"] = node["slot"] = -1
        node["depth"], node["start"], node["stop"] = depth, start, stop
        node["rest_start"], node["rest_stop"] = rest_start, rest_stop
        self.n_nodes += 1

    def _look(self, i: int) -> None:
        """Find the best split of leaf `i`, unless it has the largest depth."""
        node = self.nodes[i]
        if node["depth"] >= self._grow.max_depth:
            return
        rows = self._rows[node["start"] : node["stop"]]
        rest = self._rest[node["rest_start"] : node["rest_stop"]]
        statistic, unit = self._choose(rows)
        split = self._grow(statistic, rows=rows, rest=rest, max_leaf_nodes=2)
        if split.n_leaves > 1:
            self.splits[i] = float(split.nodes[0]["gain"]) * unit, split
