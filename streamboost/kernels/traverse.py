"""Scoring: every row down every tree."""

import numpy as np

from streamboost.kernels.jit import kernel

__all__ = ["FOREST_NODE", "add_mixed_scores", "add_scores", "add_scores_until", "code_rows"]

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
def _leaf(nodes, at, X, i):
    while at >= 0:
        node = nodes[at]
        x = X[i, node.feature]
        goes_left = x <= node.threshold or (node.missing_left and x != x)
        at = node.left if goes_left else node.right
    return ~at


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
                leaf = _leaf(nodes, roots[t], X, i)
                for k in range(n_classes):
                    scores[i, k] += values[leaf, k]


@kernel
def add_mixed_scores(nodes, set_of, sets, roots, values, X, scores, start, stop):
    """Do what `add_scores` does, for forests with sets of categories.

    `set_of` int32 per node, its row in `sets` or -1; `sets` uint8 (sets, bytes): bit c is set where
    code c goes left. Categorical columns of `X` hold codes, as `code_rows` writes them; code 0 is a
    missing value. Kept apart from `add_scores`, with the sets outside the nodes, so that forests
    without sets pay neither for the question nor for larger nodes.
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
                    at_set = set_of[at]
                    if at_set >= 0:
                        code = np.int64(x)
                        left = (sets[at_set, code >> 3] >> (code & 7)) & 1 == 1
                    else:
                        left = x <= node.threshold or (node.missing_left and x != x)
                    at = node.left if left else node.right
                leaf = ~at
                for k in range(n_classes):
                    scores[i, k] += values[leaf, k]


@kernel
def code_rows(features, start, values, codes, X):
    """Replace the categories in `X` float32 (n, D) by their codes, 0 where they are not known.

    Feature `features[i]` knows `values[start[i]:start[i + 1]]`, ascending, as `codes`.
    """
    for i in range(X.shape[0]):
        for j in range(features.size):
            x = X[i, features[j]]
            low, high = start[j], start[j + 1]
            while low < high:
                middle = (low + high) >> 1
                if values[middle] < x:
                    low = middle + 1
                else:
                    high = middle
            # Nothing equals NaN, so that it is not found.
            found = low < start[j + 1] and values[low] == x
            X[i, features[j]] = codes[low] if found else 0


@kernel
def _margin(scores, i):
    first, second = -np.inf, -np.inf
    for k in range(scores.shape[1]):
        s = scores[i, k]
        if s > first:
            first, second = s, first
        elif s > second:
            second = s
    return first - second


@kernel
def add_scores_until(nodes, roots, values, X, scores, ends, thresholds, used):
    """Add leaf values as `add_scores` does, each row until its margin suffices.

    `ends` int64 (places,), ascending, are numbers of trees; a row whose largest score exceeds the
    second by at least `thresholds` float64 (places,) at one of them leaves there. `used` int32
    (n,) takes the number of trees each row went down.
    """
    n_classes = values.shape[1]
    alive = np.empty(_BLOCK, np.int64)
    for block in range(0, X.shape[0], _BLOCK):
        n_alive = min(_BLOCK, X.shape[0] - block)
        for a in range(n_alive):
            alive[a] = block + a
        start = 0
        for place in range(ends.size):
            for t in range(start, ends[place]):
                for a in range(n_alive):
                    i = alive[a]
                    leaf = _leaf(nodes, roots[t], X, i)
                    for k in range(n_classes):
                        scores[i, k] += values[leaf, k]
            start = ends[place]
            kept = 0
            for a in range(n_alive):
                i = alive[a]
                used[i] = start
                if not _margin(scores, i) >= thresholds[place]:
                    alive[kept] = i
                    kept += 1
            n_alive = kept
            if n_alive == 0:
                break
