"""Many rows down one tree, whose nodes are visited once.

A bit for each row says whether it is at the node, the comparison parts these bits among the
children, and in the end each row's leaf is read off the bits. An instruction serves many rows, and
no branch depends on one.
"""

from typing import NamedTuple

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel

__all__ = ["CHUNK", "VECTOR", "lay_out", "part", "read_places", "room"]

_BYTES = 32  # of bits, one for each row of a vector: bit b of byte i is row 32 b + i's
VECTOR = 8 * _BYTES
_WORDS = _BYTES // 8
CHUNK = 8 * VECTOR  # rows whose columns are laid out at a time
_LINE = 16  # values that are laid out at a time, a number the compiler knows
_LEAVES = 256  # the leaf's place has eight bits; in trees with more, rows walk
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


class _Room(NamedTuple):
    """Room for a chunk of rows on their way down one tree after another."""

    columns: np.ndarray  # float32 (D, CHUNK)
    stack: np.ndarray  # int64: nodes,
    rows: np.ndarray  # uint64 (nodes, vectors, words): and the rows that are at each
    last: np.ndarray  # int64 (D,): the node that asked for a feature last, -1 for none,
    tests: np.ndarray  # uint64 (D, vectors, words): the rows that went left there,
    test_bytes: np.ndarray  # and their bytes
    planes: np.ndarray  # uint64 (vectors, 8, words): bit j of the place of each row's leaf,
    plane_bytes: np.ndarray  # and their bytes
    leaves: np.ndarray  # int64: the leaves of a tree, from left to right
    place: np.ndarray  # uint8 (VECTOR,): for whoever reads the places of a vector


@kernel
def room(n_features):
    """Return room for rows of so many features, whatever the trees."""
    most = CHUNK // VECTOR
    tests = np.empty((n_features, most, _WORDS), np.uint64)
    planes = np.empty((most, 8, _WORDS), np.uint64)
    return _Room(
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
def lay_out(X, first, n, room):
    """Copy `n` rows of `X` from `first` on to the room; return how many vectors they fill.

    What stands in the last vector behind the last row goes down the trees too: leave it out.
    """
    columns = room.columns
    room.last[:] = -1
    whole = n - n % _LINE
    for row in range(0, whole, _LINE):
        for f in range(X.shape[1]):
            for i in range(_LINE):
                columns[f, row + i] = X[first + row + i, f]
    for f in range(X.shape[1]):
        for i in range(whole, n):
            columns[f, i] = X[first + i, f]
    return (n + VECTOR - 1) // VECTOR


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
def part(nodes, root, n_vectors, room):
    """Part the rows laid out in the room among the leaves of a tree; return how many it has.

    Returns 0 where that is more than a place can name: its rows must walk.
    """
    stack, rows, tests, planes = room.stack, room.rows, room.tests, room.planes
    columns, leaves = room.columns, room.leaves
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
        _ask(nodes, at, columns[f], n_vectors, room.last, room.test_bytes[f])
        for v in range(n_vectors):
            for w in range(_WORDS):
                left = rows[top, v, w] & tests[f, v, w]
                rows[top + 1, v, w] = left
                rows[top, v, w] ^= left
        stack[top], stack[top + 1] = nodes[at].right, nodes[at].left
        top += 1
    return n_leaves


@inner_kernel
def read_places(v, room):
    """Gather where in `room.leaves` each row of vector `v` is, in `room.place`."""
    planes, place = room.plane_bytes[v], room.place
    for byte in range(_BYTES):
        for b in range(8):
            gathered = np.uint8(0)
            for j in range(8):
                bit = (planes[j, byte] >> np.uint8(b)) & np.uint8(1)
                gathered |= np.uint8(bit) << np.uint8(j)
            place[b * _BYTES + byte] = gathered
