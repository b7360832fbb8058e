"""Layer-wise growth of a tree: each call splits all leaves once."""

import numpy as np

from streamboost.trees.grower import Grower
from streamboost.trees.histogram_input import HistogramInput
from streamboost.trees.tree import Tree, replace_leaf


def add_layer(grower: Grower, tree: Tree, histogram_input: HistogramInput) -> Tree:
    """Return a tree in which each leaf of `tree` is split in two.

    A leaf is not split if no split improves the split criterion of `histogram_input`.
    """
    rows, unsampled_rows = tree.rows.copy(), tree.unsampled_rows.copy()
    size = len(tree.nodes)
    nodes = np.concatenate([tree.nodes, np.empty(2 * tree.n_leaves, dtype=tree.nodes.dtype)])
    unit = 1.0 / tree.gain_scale if tree.gain_scale else 0.0  # 0 if all weights are 0
    for m, leaf in enumerate(np.flatnonzero(tree.leaves).tolist()):
        split = grower(
            histogram_input,
            rows=tree.rows[tree.start[m] : tree.stop[m]],
            unsampled_rows=tree.unsampled_rows[tree.unsampled_start[m] : tree.unsampled_stop[m]],
            max_leaf_nodes=2,
        )
        if split.n_leaves > 1:
            gain = split.nodes[0]["gain"] * (split.gain_scale * unit)
            replace_leaf(nodes, leaf, split, gain, size, rows, unsampled_rows)
            size += 2
    return Tree(nodes[:size], tree.features, rows, unsampled_rows, tree.gain_scale)
