"""Scoring: every row down every tree."""

import numpy as np

from streamboost.kernels.jit import kernel

__all__ = ["FOREST_NODE", "add_scores"]

FOREST_NODE = np.dtype(
    [
        ("feature", np.int32),
        ("threshold", np.float32),  # values up to it go left
        ("left", np.int32),  # a node, or where negative the complement of a leaf's index
        ("right", np.int32),
        ("missing_left", np.bool_),
    ],
    align=True,
)

_BLOCK = 64  # rows that go down a tree together, while it is in the cache


@kernel
def add_scores(nodes, roots, values, X, scores, start, stop):
    """Add the leaf values of trees `start` to `stop` to `scores`, tree after tree for each row.

    Shapes: `nodes` FOREST_NODE; `roots` int32 per tree, negative for a tree that is one leaf;
    `values` float32 (leaves, K); `X` float32 (n, D), NaN where missing; `scores` float64 (n, K).
    """
    n_classes = values.shape[1]
    for block in range(0, X.shape[0], _BLOCK):
        end = min(block + _BLOCK, X.shape[0])
        for t in range(start, stop):
            for i in range(block, end):
                at = roots[t]
                while at >= 0:
                    node = nodes[at]
                    x = X[i, node.feature]
                    if x <= node.threshold or (node.missing_left and x != x):
                        at = node.left
                    else:
                        at = node.right
                leaf = ~at
                for k in range(n_classes):
                    scores[i, k] += values[leaf, k]
