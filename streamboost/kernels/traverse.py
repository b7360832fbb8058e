"""Scoring: every row down every tree.

A few rows walk down node by node. Many rows are scored as by V-QuickScorer (Lucchese et al., 2016):
each row starts with all leaves of a tree, every node that sends it right strikes out the leaves on
its left, and the first leaf that remains is the row's. Nodes are taken one after another, so that
whole vectors of rows are compared with one threshold, and no branch can be mispredicted.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel

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
_VECTOR = 256  # rows from which leaves are struck out together
_CHUNK = 2048  # rows whose columns are laid out at a time
_WORD = 64  # leaves to a word
_LEAVES = 2 * _WORD  # in trees with more, rows walk
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel
def _leaf(nodes, at, X, i):
    while at >= 0:
        node = nodes[at]
        x = X[i, node.feature]
        goes_left = x <= node.threshold or (node.missing_left and x != x)
        at = node.left if goes_left else node.right
    return ~at


@inner_kernel
def _add_leaf(values, leaf, scores, i):
    for k in range(values.shape[1]):
        scores[i, k] += values[leaf, k]


@inner_kernel
def _lay_out(nodes, root, inner, left, leaves, stack):
    """List a tree's inner nodes and leaves from left to right; return how many leaves.

    Node q of `inner` has the leaves `left[q, 0]` to `left[q, 1]` on its left. Returns 0 where the
    tree has more than _LEAVES.
    """
    n_inner, n_leaves, top = 0, 0, 1
    stack[0] = root
    # Two entries for each inner node: its right child, and under that the mark of its left end.
    while top > 0:
        top -= 1
        at = stack[top]
        if at >= nodes.size:  # all on the left of this node is listed
            left[at - nodes.size, 1] = n_leaves
            continue
        if at < 0:
            leaves[n_leaves] = ~at
            n_leaves += 1
            continue
        if n_inner == _LEAVES - 1:
            return 0
        inner[n_inner], left[n_inner, 0] = at, n_leaves
        stack[top] = nodes[at].right
        stack[top + 1] = nodes.size + n_inner
        stack[top + 2] = nodes[at].left
        n_inner += 1
        top += 3
    return n_leaves


@inner_kernel
def _kept(begin, end, word):
    """Return a word of leaves without those from `begin` to `end`."""
    low, high = max(begin - word * _WORD, 0), min(end - word * _WORD, _WORD)
    if high - low == _WORD:
        return np.uint64(0)  # a shift by the whole width is not defined
    return ~(((np.uint64(1) << np.uint64(high - low)) - np.uint64(1)) << np.uint64(low))


@inner_kernel
def _strike(column, threshold, missing_left, kept, alive):
    if missing_left:
        for i in range(alive.size):
            alive[i] &= kept if column[i] > threshold else _ALL  # nothing is less than NaN
    else:
        for i in range(alive.size):
            alive[i] &= _ALL if column[i] <= threshold else kept


@inner_kernel
def _first_leaf(word):
    """Return the place of the lowest bit set, by counting those below it."""
    below = (word & (~word + np.uint64(1))) - np.uint64(1)
    below -= (below >> np.uint64(1)) & np.uint64(0x5555555555555555)
    below = (below & np.uint64(0x3333333333333333)) + (
        (below >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    below = (below + (below >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((below * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inner_kernel
def _add_struck(nodes, inner, left, leaves, n_leaves, columns, values, scores, first, alive):
    """Add one tree's leaf values to the rows from `first`: their values are `columns` (D, rows)."""
    n_words = (n_leaves + _WORD - 1) // _WORD
    for word in range(n_words):
        rows = alive[word]
        rows[:] = _ALL
        for q in range(n_leaves - 1):
            if left[q, 1] > word * _WORD and left[q, 0] < (word + 1) * _WORD:
                node = nodes[inner[q]]
                kept = _kept(left[q, 0], left[q, 1], word)
                _strike(columns[node.feature], node.threshold, node.missing_left, kept, rows)
    for i in range(_VECTOR):
        word = 0 if n_words == 1 or alive[0, i] != 0 else 1
        leaf = leaves[word * _WORD + _first_leaf(alive[word, i])]
        _add_leaf(values, leaf, scores, first + i)


@kernel
def add_scores(nodes, roots, values, X, scores, start, stop):
    """Add the leaf values of trees `start` to `stop` to `scores`, tree after tree for each row.

    Shapes: `nodes` FOREST_NODE; `roots` int32 per tree, negative for a tree that is one leaf;
    `values` float32 (leaves, K); `X` float32 (n, D), NaN where missing; `scores` float64 (n, K).
    """
    n, n_features = X.shape
    n_vectors = n // _VECTOR
    if n_vectors > 0:
        columns = np.empty((_CHUNK // _VECTOR, n_features, _VECTOR), np.float32)
        inner, left = np.empty(_LEAVES, np.int64), np.empty((_LEAVES, 2), np.int64)
        leaves, stack = np.empty(_LEAVES + 1, np.int64), np.empty(3 * _LEAVES, np.int64)
        alive = np.empty((2, _VECTOR), np.uint64)
        for chunk in range(0, n_vectors * _VECTOR, _CHUNK):
            end = min(chunk + _CHUNK, n_vectors * _VECTOR)
            for i in range(chunk, end):
                vector = columns[(i - chunk) // _VECTOR]
                for f in range(n_features):
                    vector[f, i % _VECTOR] = X[i, f]
            for t in range(start, stop):
                n_leaves = _lay_out(nodes, roots[t], inner, left, leaves, stack)
                for first in range(chunk, end, _VECTOR):
                    if n_leaves == 0:
                        for i in range(first, first + _VECTOR):
                            _add_leaf(values, _leaf(nodes, roots[t], X, i), scores, i)
                        continue
                    _add_struck(
                        nodes, inner, left, leaves, n_leaves,
                        columns[(first - chunk) // _VECTOR], values, scores, first, alive,
                    )  # fmt: skip
    for block in range(n_vectors * _VECTOR, n, _BLOCK):
        end = min(block + _BLOCK, n)
        for t in range(start, stop):
            for i in range(block, end):
                _add_leaf(values, _leaf(nodes, roots[t], X, i), scores, i)


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
