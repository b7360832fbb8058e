"""Tree traversal: scoring kernels that find the leaf of each row in each tree.

A few rows are traversed node by node; many rows are traversed bit-parallel (`kernels.bits`).
"""

import numpy as np

from streamboost.kernels.bits import CHUNK, VECTOR, lay_out, part, read_places, room
from streamboost.kernels.jit import inner_kernel, kernel

__all__ = [
    "FOREST_NODE",
    "add_mixed_scores",
    "add_scores",
    "add_scores_until",
    "code_rows",
    "leaf_of",
    "leaf_places",
    "score_and_place",
]

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
_FEW = 128  # number of rows up to which traversal row by row is faster
_FEW_PLACED = 24  # the same if no leaf values are added


@kernel
def leaf_of(nodes, at, X, i):
    """Return the leaf of row i of `X` below `at`: a node index, or the complement of a leaf's."""
    while at >= 0:
        node = nodes[at]
        x = X[i, node.feature]
        goes_left = x <= node.threshold or (node.missing_left and x != x)
        at = node.left if goes_left else node.right
    return ~at


@inner_kernel
def _add_leaves(values, leaves, place, scores, first, n):
    """Add the leaf values of `n` rows to `scores`, from row `first` on."""
    n_classes = values.shape[1]
    if n_classes > 4:
        for i in range(n):
            leaf = leaves[place[i]]
            for k in range(n_classes):
                scores[first + i, k] += values[leaf, k]
        return
    for i in range(n):  # unrolled, as the overhead of short loops exceeds the additions
        leaf = leaves[place[i]]
        scores[first + i, 0] += values[leaf, 0]
        if n_classes > 1:
            scores[first + i, 1] += values[leaf, 1]
            if n_classes > 2:
                scores[first + i, 2] += values[leaf, 2]
                if n_classes > 3:
                    scores[first + i, 3] += values[leaf, 3]


@inner_kernel
def _walk(nodes, root, values, X, scores, first, end):
    for i in range(first, end):
        leaf = leaf_of(nodes, root, X, i)
        for k in range(values.shape[1]):
            scores[i, k] += values[leaf, k]


@kernel
def add_scores(nodes, roots, values, X, scores, start, stop):
    """Add the leaf values of trees `start` to `stop` to `scores`, in the order of the trees.

    Shapes: `nodes` FOREST_NODE; `roots` int32 per tree, negative for a tree of one leaf;
    `values` float32 (leaves, K); `X` float32 (n, D), NaN where missing; `scores` float64 (n, K).
    """
    n, first_tree, end_tree = X.shape[0], np.int32(start), np.int32(stop)
    if n <= _FEW:
        for block in range(0, n, _BLOCK):
            for t in range(first_tree, end_tree):  # int64: 1.6 times as long for one row
                _walk(nodes, roots[t], values, X, scores, block, min(block + _BLOCK, n))
        return
    work = room(X.shape[1])
    for chunk in range(0, n, CHUNK):
        end = min(chunk + CHUNK, n)
        n_vectors = lay_out(X, chunk, end - chunk, work)
        for t in range(first_tree, end_tree):
            if part(nodes, roots[t], n_vectors, work) == 0:
                _walk(nodes, roots[t], values, X, scores, chunk, end)
                continue
            for v in range(n_vectors):
                first = chunk + v * VECTOR
                read_places(v, work)
                _add_leaves(
                    values, work.leaves, work.place, scores, first, min(VECTOR, end - first)
                )


@kernel
def add_mixed_scores(nodes, set_of, sets, roots, values, X, scores, start, stop):
    """Add leaf values as `add_scores` does, for forests with splits of categories.

    `set_of` is int32 per node, its row in `sets` or -1. `sets` is uint8 (sets, bytes): bit c is set
    if code c goes left. Categorical columns of `X` hold codes, as `code_rows` writes them; code 0
    is a missing value. `add_scores` is a separate kernel, and the sets are stored outside the
    nodes. Hence forests without sets have smaller nodes and need no test.
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
def _place_many(nodes, roots, X, places):
    """Write the leaves of many rows as `leaf_places` does, bit-parallel, for trees without sets."""
    n, work = X.shape[0], room(X.shape[1])
    for chunk in range(0, n, CHUNK):
        end = min(chunk + CHUNK, n)
        n_vectors = lay_out(X, chunk, end - chunk, work)
        for t in range(roots.size):
            if part(nodes, roots[t], n_vectors, work) == 0:
                for i in range(chunk, end):
                    places[i, t] = np.uint8(leaf_of(nodes, roots[t], X, i) & 255)
                continue
            for v in range(n_vectors):
                first = chunk + v * VECTOR
                read_places(v, work)
                for i in range(min(VECTOR, end - first)):
                    places[first + i, t] = np.uint8(work.leaves[work.place[i]] & 255)


@kernel
def leaf_places(nodes, set_of, sets, roots, X, places):
    """Write the leaf of each row in each tree to `places` uint8 (n, T), modulo 256.

    The arrays are as in `add_mixed_scores`; `set_of` may be empty if there are no sets.
    """
    if sets.shape[0] == 0 and X.shape[0] > _FEW_PLACED:
        _place_many(nodes, roots, X, places)
        return
    for t in range(roots.size):
        for i in range(X.shape[0]):
            at = roots[t]
            while at >= 0:
                node = nodes[at]
                x = X[i, node.feature]
                at_set = set_of[at] if set_of.size > 0 else -1
                if at_set >= 0:
                    code = np.int64(x)
                    left = (sets[at_set, code >> 3] >> (code & 7)) & 1 == 1
                else:
                    left = x <= node.threshold or (node.missing_left and x != x)
                at = node.left if left else node.right
            places[i, t] = np.uint8(~at & 255)


@kernel
def score_and_place(nodes, set_of, sets, roots, values, base, X, scores, places):
    """Write the scores of all trees plus `base` float64 (K,), and the leaves of the first trees.

    `scores` is float64 (n, K), as in `add_scores`. `places` is uint8 (n, T) for the first T trees,
    as in `leaf_places`. A few rows are traversed only once per tree for both.
    """
    n = X.shape[0]
    for i in range(n):
        for k in range(base.size):
            scores[i, k] = base[k]
    n_placed = places.shape[1]
    if sets.shape[0] > 0:
        add_mixed_scores(nodes, set_of, sets, roots, values, X, scores, np.int64(0), roots.size)
    elif n > _FEW:
        add_scores(nodes, roots, values, X, scores, np.int64(0), roots.size)
    if sets.shape[0] > 0 or n > _FEW:
        leaf_places(nodes, set_of, sets, roots[:n_placed], X, places)
        return
    for t in range(roots.size):
        for i in range(n):
            leaf = leaf_of(nodes, roots[t], X, i)
            for k in range(base.size):
                scores[i, k] += values[leaf, k]
            if t < n_placed:
                places[i, t] = np.uint8(leaf & 255)


@kernel
def code_rows(features, start, values, codes, X):
    """Replace the categories in `X` float32 (n, D) by their codes, 0 for unknown categories.

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
    """Add leaf values as `add_scores` does, with early exit of rows by a soft cascade.

    `ends` int64 (places,), ascending, are numbers of trees. After `ends[p]` trees, a row exits if
    its largest score exceeds the second by at least `thresholds[p]`, float64 (places,). `used`
    int32 (n,) is the number of trees that scored each row.
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
                    leaf = leaf_of(nodes, roots[t], X, i)
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
