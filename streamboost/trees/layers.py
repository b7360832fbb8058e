"""Layer-wise growth of a tree: each call splits all leaves once."""

from collections.abc import Sequence

import numpy as np

from streamboost.trees.grower import Grower
from streamboost.trees.histogram_input import HistogramInput
from streamboost.trees.tree import Tree

__all__ = ["add_layer"]


def add_layer(grower: Grower, tree: Tree, histogram_input: HistogramInput) -> Tree:
    """Return a tree in which each leaf of `tree` is split in two.

    A leaf is not split if no split improves the split criterion of `histogram_input`.
    """
    splits = [
        grower(histogram_input, rows=rows, unsampled_rows=unsampled_rows, max_leaf_nodes=2)
        for rows, unsampled_rows in zip(
            _rows_of_each_leaf(tree.rows, tree.start, tree.stop),
            _rows_of_each_leaf(tree.unsampled_rows, tree.unsampled_start, tree.unsampled_stop),
            strict=True,
        )
    ]
    return _replace_leaves(tree, splits)


def _rows_of_each_leaf(
    rows: np.ndarray, start: np.ndarray, stop: np.ndarray
) -> Sequence[np.ndarray]:
    return [rows[a:b] for a, b in zip(start, stop, strict=True)]


def _replace_leaves(tree: Tree, splits: Sequence[Tree]) -> Tree:
    """Return a copy of `tree` in which the m-th leaf is replaced by the m-th tree in `splits`.

    The trees in `splits` have one leaf (no split) or two leaves.
    """
    rows, unsampled_rows = tree.rows.copy(), tree.unsampled_rows.copy()
    nodes = [tree.nodes.copy()]
    size = len(tree.nodes)
    unit = 1.0 / tree.gain_scale if tree.gain_scale else 0.0  # 0 if all weights are 0
    for at, split in zip(np.flatnonzero(tree.leaves), splits, strict=True):
        if split.n_leaves == 1:
            continue
        leaf = nodes[0][at]
        start, unsampled_start = int(leaf["start"]), int(leaf["unsampled_start"])
        rows[start : start + len(split.rows)] = split.rows
        unsampled_rows[unsampled_start : unsampled_start + len(split.unsampled_rows)] = (
            split.unsampled_rows
        )
        children = split.nodes[1:].copy()
        children["depth"] += leaf["depth"]
        children["start"] += start
        children["stop"] += start
        children["unsampled_start"] += unsampled_start
        children["unsampled_stop"] += unsampled_start
        for name in ("feature", "bin", "missing_left", "members"):
            leaf[name] = split.nodes[0][name]
        leaf["gain"] = split.nodes[0]["gain"] * (split.gain_scale * unit)
        leaf["left"] = size
        nodes.append(children)
        size += 2
    return Tree(np.concatenate(nodes), tree.features, rows, unsampled_rows, tree.gain_scale)
