"""Grown trees as forests keep them: their inner nodes, and what leaves and splits are worth."""

import numpy as np

from streamboost.kernels.jit import kernel

__all__ = ["pack_trees"]


@kernel
def pack_trees(
    grown, sizes, weights, cuts, first, n_nodes, n_leaves, nodes, roots, gain, cover, at
):
    """Write the inner nodes of `grown` trees, one behind the other, and link them.

    Parameters
    ----------
    grown, sizes
        NODE, and int64 (trees,): how many of them each tree has.
    weights
        float64 (leaves,), what the rows of each leaf weigh.
    cuts, first
        float32, the cuts between the bins of each feature, those of feature f from `first[f]` to
        `first[f + 1]`, int64 (D + 1,). Past the last cut no value goes right.
    n_nodes, n_leaves
        Behind so many others the nodes and the leaves go.
    nodes, roots, gain, cover, at
        Filled: FOREST_NODE (inner,); int32 (trees,); float32 (inner,), a record's; float32
        (leaves,), shares of their trees; int64 (inner,), the place of each among `grown`.
    """
    place = np.empty(grown.size, np.int32)
    start, inner, leaf = 0, 0, 0
    for t in range(sizes.size):
        end, first_inner, first_leaf, total = start + sizes[t], inner, leaf, 0.0
        for i in range(start, end):
            if grown[i].left < 0:
                place[i] = ~(leaf + n_leaves)
                total += weights[leaf]
                leaf += 1
            else:
                place[i], at[inner] = inner + n_nodes, i
                inner += 1
        roots[t] = place[start]
        for m in range(first_leaf, leaf):
            cover[m] = weights[m] / total
        for m in range(first_inner, inner):
            node, into = grown[at[m]], nodes[m]
            f, left = node.feature, start + node.left
            cut = first[f] + node.bin
            into.feature, into.missing_left = f, node.missing_left
            into.threshold = cuts[cut] if cut < first[f + 1] else np.float32(np.inf)
            into.left, into.right = place[left], place[left + 1]
            gain[m] = node.gain / total
        start = end
