"""Scoring kernels: find the leaf of each row in each tree, and add its values to the scores.

For a few rows, each row passes from node to node. For many rows, bit masks hold the rows at each
node (`kernels.bits`).
"""

import numpy as np

from streamboost.kernels.bits import (
    CHUNK,
    VECTOR,
    allocate_workspace,
    assign_leaves,
    load_rows,
    write_leaf_positions,
)
from streamboost.kernels.jit import inner_kernel, kernel

FOREST_NODE = np.dtype(
    [
        ("feature", np.int32),
        ("threshold", np.float32),  # values up to the threshold go left
        ("left", np.int32),  # index of a node, or if negative, the complement of a leaf index
        ("right", np.int32),
        ("missing_left", np.bool_),
    ],
    align=True,
)

_BLOCK = 64  # rows that are scored by a tree together, while the tree is in the cache
_FEW = 48  # number of rows up to which traversal row by row is faster
_FEW_PLACED = 24  # the same if no leaf values are added


@kernel
def find_leaf(nodes, root, X, row):
    """Return the index of the leaf that a row of `X` reaches below the node `root`.

    A negative `root` is not a node but leaf ~`root`.
    """
    while root >= 0:
        node = nodes[root]
        x = X[row, node.feature]
        goes_left = x <= node.threshold or (node.missing_left and x != x)
        root = node.left if goes_left else node.right
    return ~root


@inner_kernel
def _add_leaf_values(values, leaves, positions, scores, first_row, n_rows):
    """Add leaf values to the scores of `n_rows` rows from row `first_row` on.

    The leaf of row `first_row` + i is `leaves[positions[i]]`.
    """
    n_classes = values.shape[1]
    if n_classes > 4:
        for i in range(n_rows):
            leaf = leaves[positions[i]]
            for k in range(n_classes):
                scores[first_row + i, k] += values[leaf, k]
        return
    for i in range(n_rows):  # unrolled, as the overhead of short loops exceeds the additions
        leaf = leaves[positions[i]]
        scores[first_row + i, 0] += values[leaf, 0]
        if n_classes > 1:
            scores[first_row + i, 1] += values[leaf, 1]
            if n_classes > 2:
                scores[first_row + i, 2] += values[leaf, 2]
                if n_classes > 3:
                    scores[first_row + i, 3] += values[leaf, 3]


@inner_kernel
def _add_tree_scores_row_by_row(nodes, root, values, X, scores, first_row, end_row):
    for i in range(first_row, end_row):
        leaf = find_leaf(nodes, root, X, i)
        for k in range(values.shape[1]):
            scores[i, k] += values[leaf, k]


@kernel
def add_scores(nodes, roots, values, X, scores, start, stop):
    """Add the leaf values of trees `start` to `stop` - 1 to `scores`, in the order of the trees.

    Shapes: `nodes` FOREST_NODE; `roots` int32 per tree, negative for a tree of one leaf;
    `values` float32 (leaves, K); `X` float32 (n, D), NaN where missing; `scores` float64 (n, K).
    """
    n, first_tree, end_tree = X.shape[0], np.int32(start), np.int32(stop)
    if n <= _FEW:
        for block in range(0, n, _BLOCK):
            for t in range(first_tree, end_tree):  # int64: 1.6 times as long for one row
                _add_tree_scores_row_by_row(
                    nodes, roots[t], values, X, scores, block, min(block + _BLOCK, n)
                )
        return
    workspace = allocate_workspace(X.shape[1])
    for chunk in range(0, n, CHUNK):
        end = min(chunk + CHUNK, n)
        n_vectors = load_rows(X, chunk, end - chunk, workspace)
        for t in range(first_tree, end_tree):
            if assign_leaves(nodes, roots[t], n_vectors, workspace) == 0:
                _add_tree_scores_row_by_row(nodes, roots[t], values, X, scores, chunk, end)
                continue
            for v in range(n_vectors):
                first = chunk + v * VECTOR
                write_leaf_positions(v, workspace)
                _add_leaf_values(
                    values,
                    workspace.leaves,
                    workspace.place,
                    scores,
                    first,
                    min(VECTOR, end - first),
                )


@inner_kernel
def _find_leaf_with_categories(nodes, set_of, sets, root, X, row):
    """Return the index of a row's leaf as `find_leaf` does, also if nodes split categories."""
    while root >= 0:
        node, in_set = nodes[root], set_of[root]
        x = X[row, node.feature]
        if in_set >= 0:
            code = np.int64(x)
            goes_left = (sets[in_set, code >> 3] >> (code & 7)) & 1 == 1
        else:
            goes_left = x <= node.threshold or (node.missing_left and x != x)
        root = node.left if goes_left else node.right
    return ~root


@kernel
def add_scores_with_categories(nodes, set_of, sets, roots, values, X, scores, start, stop):
    """Add leaf values like `add_scores`, for forests that also split categories.

    `set_of` int32 (nodes,) is the row of each node in `sets`, or -1 if the node splits numbers.
    `sets` is uint8 (sets, bytes): bit c is set if category code c goes left. Categorical columns of
    `X` hold codes, as `encode_categories` writes them; code 0 is a missing value.
    """
    n_classes = values.shape[1]
    for block in range(0, X.shape[0], _BLOCK):
        end = min(block + _BLOCK, X.shape[0])
        for t in range(start, stop):
            for i in range(block, end):
                leaf = _find_leaf_with_categories(nodes, set_of, sets, roots[t], X, i)
                for k in range(n_classes):
                    scores[i, k] += values[leaf, k]


@kernel
def _write_leaf_indices_by_bit_masks(nodes, roots, X, places):
    """Write the leaf indices of many rows, found with bit masks, as `write_leaf_indices` does.

    The trees must not split categories.
    """
    n, workspace = X.shape[0], allocate_workspace(X.shape[1])
    for chunk in range(0, n, CHUNK):
        end = min(chunk + CHUNK, n)
        n_vectors = load_rows(X, chunk, end - chunk, workspace)
        for t in range(roots.size):
            if assign_leaves(nodes, roots[t], n_vectors, workspace) == 0:
                for i in range(chunk, end):
                    places[i, t] = np.uint8(find_leaf(nodes, roots[t], X, i) & 255)
                continue
            for v in range(n_vectors):
                first = chunk + v * VECTOR
                write_leaf_positions(v, workspace)
                for i in range(min(VECTOR, end - first)):
                    places[first + i, t] = np.uint8(workspace.leaves[workspace.place[i]] & 255)


@kernel
def write_leaf_indices(nodes, set_of, sets, roots, X, leaves):
    """Write the leaf index of each row in each tree, modulo 256, to `leaves` uint8 (n, T).

    The arrays are as in `add_scores_with_categories`; `set_of` may be empty if there are no sets.
    """
    if sets.shape[0] == 0 and X.shape[0] > _FEW_PLACED:
        _write_leaf_indices_by_bit_masks(nodes, roots, X, leaves)
    elif sets.shape[0] == 0:
        for t in range(roots.size):
            for i in range(X.shape[0]):
                leaves[i, t] = np.uint8(find_leaf(nodes, roots[t], X, i) & 255)
    else:
        for t in range(roots.size):
            for i in range(X.shape[0]):
                leaf = _find_leaf_with_categories(nodes, set_of, sets, roots[t], X, i)
                leaves[i, t] = np.uint8(leaf & 255)


@kernel
def write_scores_and_leaves(nodes, set_of, sets, roots, values, base, X, scores, leaf_indices):
    """Write the scores of all trees plus `base` (K,), and the leaf indices in the first trees.

    `scores` is float64 (n, K), as in `add_scores`. `leaf_indices` is uint8 (n, T) for the first T
    trees, as in `write_leaf_indices`. If there are few rows, each tree is traversed once for both
    outputs.
    """
    n = X.shape[0]
    for i in range(n):
        for k in range(base.size):
            scores[i, k] = base[k]
    n_placed = leaf_indices.shape[1]
    if sets.shape[0] > 0:
        add_scores_with_categories(
            nodes, set_of, sets, roots, values, X, scores, np.int64(0), roots.size
        )
    elif n > _FEW:
        add_scores(nodes, roots, values, X, scores, np.int64(0), roots.size)
    if sets.shape[0] > 0 or n > _FEW:
        write_leaf_indices(nodes, set_of, sets, roots[:n_placed], X, leaf_indices)
        return
    for t in range(roots.size):
        for i in range(n):
            leaf = find_leaf(nodes, roots[t], X, i)
            for k in range(base.size):
                scores[i, k] += values[leaf, k]
            if t < n_placed:
                leaf_indices[i, t] = np.uint8(leaf & 255)


@kernel
def encode_categories(features, start, values, codes, X):
    """Replace the categories in `X` float32 (n, D) by their codes, in place.

    Missing and unknown categories become code 0.

    The categories of feature `features[i]` are `values[start[i]:start[i + 1]]`, ascending, and
    their codes are in the same range of `codes`.
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
            # NaN is never found, as NaN is unequal to all values.
            found = low < start[j + 1] and values[low] == x
            X[i, features[j]] = codes[low] if found else 0


@kernel
def _margin_of_largest_score(scores, row):
    first, second = -np.inf, -np.inf
    for k in range(scores.shape[1]):
        s = scores[row, k]
        if s > first:
            first, second = s, first
        elif s > second:
            second = s
    return first - second


@kernel
def add_scores_with_early_exit(nodes, roots, values, X, scores, ends, thresholds, n_trees_used):
    """Add leaf values like `add_scores`, but stop for each row once its class is decided.

    `ends` int64 (exits,), ascending, are numbers of trees. After `ends[p]` trees, a row exits if
    its largest score exceeds its second largest by at least `thresholds[p]`, float64 (exits,). The
    number of trees that scored each row is written to `n_trees_used` int32 (n,).
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
                    leaf = find_leaf(nodes, roots[t], X, i)
                    for k in range(n_classes):
                        scores[i, k] += values[leaf, k]
            start = ends[place]
            kept = 0
            for a in range(n_alive):
                i = alive[a]
                n_trees_used[i] = start
                if not _margin_of_largest_score(scores, i) >= thresholds[place]:
                    alive[kept] = i
                    kept += 1
            n_alive = kept
            if n_alive == 0:
                break
