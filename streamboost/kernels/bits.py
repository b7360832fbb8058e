"""Bit-parallel tree traversal: many rows per tree, with one visit of each node.

Each node has a mask with one bit per row, which is 1 if the row reaches the node. The comparison
at a node divides the bits between its two children. At the end, the leaf of each row is read from
the masks. An instruction processes many rows at once, a vector, and no branch depends on a row.
"""

from typing import NamedTuple

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel

_BYTES = 32  # bytes of a vector, one bit per row: bit b of byte i belongs to row 32 b + i
VECTOR = 8 * _BYTES
_WORDS = _BYTES // 8
CHUNK = 8 * VECTOR  # rows whose columns are copied at a time
_LINE = 16  # values that are copied at a time, a compile-time constant
_LEAVES = 256  # a leaf index has eight bits; in larger trees, rows are traversed one by one
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


class _TraversalWorkspace(NamedTuple):
    """Reusable arrays for finding the leaves of a chunk of rows in one tree after another."""

    columns: np.ndarray  # float32 (D, CHUNK)
    stack: np.ndarray  # int64: nodes to visit
    rows: np.ndarray  # uint64 (nodes, vectors, words): masks of the rows at each of these nodes
    last: np.ndarray  # int64 (D,): the last node that tested a feature, -1 for none
    tests: np.ndarray  # uint64 (D, vectors, words): masks of the rows that went left at that node
    test_bytes: np.ndarray  # `tests` as bytes
    planes: np.ndarray  # uint64 (vectors, 8, words): bit j of the leaf index of each row
    plane_bytes: np.ndarray  # `planes` as bytes
    leaves: np.ndarray  # int64: the leaves of a tree, from left to right
    place: np.ndarray  # uint8 (VECTOR,): leaf positions, written by `write_leaf_positions`


@kernel
def allocate_workspace(n_features):
    """Allocate the workspace for a chunk of rows with `n_features` features."""
    most = CHUNK // VECTOR
    tests = np.empty((n_features, most, _WORDS), np.uint64)
    planes = np.empty((most, 8, _WORDS), np.uint64)
    return _TraversalWorkspace(
        np.empty((n_features, CHUNK), np.float32),
        np.empty(_LEAVES, np.int64),
        np.empty((_LEAVES, most, _WORDS), np.uint64),
        np.empty(n_features, np.int64),
        tests,
        tests.view(np.uint8),
        planes,
        planes.view(np.uint8),
        np.empty(_LEAVES, np.int64),
        np.empty(VECTOR, np.uint8),
    )


@inner_kernel
def load_rows(X, first_row, n_rows, workspace):
    """Copy `n_rows` rows of `X` from `first_row` on into the workspace.

    Returns the number of vectors, each of `VECTOR` rows. The last vector may contain fewer rows.
    Its remaining entries are undefined, and callers must ignore them.
    """
    columns = workspace.columns
    workspace.last[:] = -1
    whole = n_rows - n_rows % _LINE
    for row in range(0, whole, _LINE):
        for f in range(X.shape[1]):
            for i in range(_LINE):
                columns[f, row + i] = X[first_row + row + i, f]
    for f in range(X.shape[1]):
        for i in range(whole, n_rows):
            columns[f, i] = X[first_row + i, f]
    return (n_rows + VECTOR - 1) // VECTOR


@inner_kernel
def _write_threshold_mask(column, threshold, mask):
    """Write a bit mask of the rows in one vector: 1 if the row's value is at most `threshold`."""
    for byte in range(_BYTES):
        eight = np.uint8(0)
        for b in range(8):
            eight |= np.uint8(column[b * _BYTES + byte] <= threshold) << np.uint8(b)
        mask[byte] = eight


@inner_kernel
def _add_missing_rows_to_mask(column, mask):
    for byte in range(_BYTES):
        eight = np.uint8(0)
        for b in range(8):
            x = column[b * _BYTES + byte]
            eight |= np.uint8(x != x) << np.uint8(b)
        mask[byte] |= eight


@inner_kernel
def _write_node_mask(nodes, node_index, column, n_vectors, last_tests, mask):
    """Write a bit mask of the rows in all vectors: 1 if the row goes left at the node.

    On entry, `mask` is the mask of node `last_tests[feature]`, the last node that split the same
    feature. If both nodes have the same threshold and send missing values to the same side, the
    mask is kept. This is frequent for features of few values.
    """
    node = nodes[node_index]
    if last_tests[node.feature] >= 0:
        before = nodes[last_tests[node.feature]]
        if before.threshold == node.threshold and before.missing_left == node.missing_left:
            return
    last_tests[node.feature] = node_index
    for v in range(n_vectors):
        values = column[v * VECTOR : (v + 1) * VECTOR]
        _write_threshold_mask(values, node.threshold, mask[v])
        if node.missing_left:
            _add_missing_rows_to_mask(values, mask[v])


@inner_kernel
def assign_leaves(nodes, root, n_vectors, workspace):
    """Write a bit mask of the rows in each leaf of a tree to the workspace; return the leaf count.

    Returns 0 if the tree has more than 256 leaves. The caller must then traverse it row by row.
    """
    stack, rows, tests, planes = workspace.stack, workspace.rows, workspace.tests, workspace.planes
    columns, leaves = workspace.columns, workspace.leaves
    n_leaves, top = 0, 0
    stack[0] = root
    for v in range(n_vectors):
        for w in range(_WORDS):
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
                        for w in range(_WORDS):
                            planes[v, j, w] |= rows[top, v, w]
            n_leaves += 1
            top -= 1
            continue
        if n_leaves + top >= _LEAVES - 1:
            return 0
        f = nodes[at].feature
        _write_node_mask(nodes, at, columns[f], n_vectors, workspace.last, workspace.test_bytes[f])
        for v in range(n_vectors):
            for w in range(_WORDS):
                left = rows[top, v, w] & tests[f, v, w]
                rows[top + 1, v, w] = left
                rows[top, v, w] ^= left
        stack[top], stack[top + 1] = nodes[at].right, nodes[at].left
        top += 1
    return n_leaves


@inner_kernel
def write_leaf_positions(vector, workspace):
    """Write the index in `workspace.leaves` of the leaf of each row of a vector.

    The indices are written to `workspace.place`.
    """
    planes, place = workspace.plane_bytes[vector], workspace.place
    for byte in range(_BYTES):
        for b in range(8):
            gathered = np.uint8(0)
            for j in range(8):
                bit = (planes[j, byte] >> np.uint8(b)) & np.uint8(1)
                gathered |= np.uint8(bit) << np.uint8(j)
            place[b * _BYTES + byte] = gathered
