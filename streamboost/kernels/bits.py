"""Many rows down one tree, whose nodes are visited once.

A bit for each row says whether it is at the node, the comparison parts these bits among the
children, and in the end each row's leaf is read off the bits. An instruction serves many rows, and
no branch depends on one.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel

__all__ = ["CHUNK", "LEAVES", "VECTOR", "WORDS", "lay_out", "part", "read_places"]

_BYTES = 32  # of bits, one for each row of a vector: bit b of byte i is row 32 b + i's
VECTOR = 8 * _BYTES
WORDS = _BYTES // 8
CHUNK = 8 * VECTOR  # rows whose columns are laid out at a time
_LINE = 16  # values that are laid out at a time, a number the compiler knows
LEAVES = 256  # the leaf's place has eight bits; in trees with more, rows walk
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@inner_kernel
def lay_out(X, first, n, columns):
    """Copy `n` rows of `X` from `first` on to `columns` (D, CHUNK)."""
    whole = n - n % _LINE
    for row in range(0, whole, _LINE):
        for f in range(X.shape[1]):
            for i in range(_LINE):
                columns[f, row + i] = X[first + row + i, f]
    for f in range(X.shape[1]):
        for i in range(whole, n):
            columns[f, i] = X[first + i, f]


@inner_kernel
def _test(column, threshold, bits):
    """Set the bits of the rows of a vector whose value goes left."""
    for byte in range(_BYTES):
        eight = np.uint8(0)
        for b in range(8):
            eight |= np.uint8(column[b * _BYTES + byte] <= threshold) << np.uint8(b)
        bits[byte] = eight


@inner_kernel
def _add_missing(column, bits):
    for byte in range(_BYTES):
        eight = np.uint8(0)
        for b in range(8):
            x = column[b * _BYTES + byte]
            eight |= np.uint8(x != x) << np.uint8(b)
        bits[byte] |= eight


@inner_kernel
def _ask(nodes, at, column, n_vectors, last, bits):
    """Set the bits of the rows that go left at a node.

    They are kept with the node, `last[feature]`: where values are few, the next node that asks for
    the feature often asks the same.
    """
    node = nodes[at]
    if last[node.feature] >= 0:
        before = nodes[last[node.feature]]
        if before.threshold == node.threshold and before.missing_left == node.missing_left:
            return
    last[node.feature] = at
    for v in range(n_vectors):
        values = column[v * VECTOR : (v + 1) * VECTOR]
        _test(values, node.threshold, bits[v])
        if node.missing_left:
            _add_missing(values, bits[v])


@inner_kernel
def part(nodes, root, columns, n_vectors, stack, rows, last, tests, test_bytes, planes, leaves):
    """Part the rows of `columns` among the leaves of a tree; return how many leaves it has.

    `leaves` takes them from left to right; `planes[v, j]` bit j of the place in `leaves` of each
    row of vector v. `rows[s]` are the rows at the node `stack[s]`. Returns 0 where the tree has
    more than LEAVES.
    """
    n_leaves, top = 0, 0
    stack[0] = root
    for v in range(n_vectors):
        for w in range(WORDS):
            rows[0, v, w] = _ALL
            for j in range(8):
                planes[v, j, w] = np.uint64(0)
    while top >= 0:
        at = stack[top]
        if at < 0:
            leaves[n_leaves] = ~at
            for j in range(8):
                if (n_leaves >> j) & 1:
                    for v in range(n_vectors):
                        for w in range(WORDS):
                            planes[v, j, w] |= rows[top, v, w]
            n_leaves += 1
            top -= 1
            continue
        if n_leaves + top >= LEAVES - 1:
            return 0
        f = nodes[at].feature
        _ask(nodes, at, columns[f], n_vectors, last, test_bytes[f])
        for v in range(n_vectors):
            for w in range(WORDS):
                left = rows[top, v, w] & tests[f, v, w]
                rows[top + 1, v, w] = left
                rows[top, v, w] ^= left
        stack[top], stack[top + 1] = nodes[at].right, nodes[at].left
        top += 1
    return n_leaves


@inner_kernel
def read_places(planes, place):
    """Gather the eight bits of each row of a vector from `planes` uint8 (8, _BYTES)."""
    for byte in range(_BYTES):
        for b in range(8):
            gathered = np.uint8(0)
            for j in range(8):
                bit = (planes[j, byte] >> np.uint8(b)) & np.uint8(1)
                gathered |= np.uint8(bit) << np.uint8(j)
            place[b * _BYTES + byte] = gathered
