"""Conversion of grown trees to the arrays of a forest: inner nodes, split gains, leaf weights."""

import numpy as np

from streamboost.kernels.jit import kernel


@kernel
def pack_trees(
    grown_nodes, sizes, weights, cuts, offsets, n_nodes, n_leaves, nodes, roots, gain, cover, source
):
    """Copy the inner nodes of the `grown_nodes` trees into the arrays of a forest, and link them.

    Parameters
    ----------
    grown_nodes, sizes
        NODE, the nodes of all trees, and int64 (trees,), the number of nodes of each tree.
    weights
        float64 (leaves,), the total weight of the rows of each leaf.
    cuts, offsets
        float32, the cuts between the bins of each feature. The cuts of feature f are
        `cuts[offsets[f]:offsets[f + 1]]`, with `offsets` int64 (D + 1,). A split after the last cut
        sends all values left.
    n_nodes, n_leaves
        Numbers of nodes and leaves of the forest so far; new nodes and leaves get the next indices.
    nodes, roots, gain, cover, source
        Outputs: FOREST_NODE (inner,); int32 (trees,); float32 (inner,), the gain per record;
        float32 (leaves,), the share of the tree's weight; int64 (inner,), the index of each node
        in `grown_nodes`.
    """
    place = np.empty(grown_nodes.size, np.int32)
    start, inner, leaf = 0, 0, 0
    for t in range(sizes.size):
        end, first_inner, first_leaf, total = start + sizes[t], inner, leaf, 0.0
        for i in range(start, end):
            if grown_nodes[i].left < 0:
                place[i] = ~(leaf + n_leaves)
                total += weights[leaf]
                leaf += 1
            else:
                place[i], source[inner] = inner + n_nodes, i
                inner += 1
        roots[t] = place[start]
        for m in range(first_leaf, leaf):
            cover[m] = weights[m] / total
        for m in range(first_inner, inner):
            node, into = grown_nodes[source[m]], nodes[m]
            f, left = node.feature, start + node.left
            cut = offsets[f] + node.bin
            into.feature, into.missing_left = f, node.missing_left
            into.threshold = cuts[cut] if cut < offsets[f + 1] else np.float32(np.inf)
            into.left, into.right = place[left], place[left + 1]
            gain[m] = node.gain / total
        start = end
