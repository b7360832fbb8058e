"""Nodes of a growing tree, and the partition of their rows."""

import numpy as np

from streamboost.kernels.jit import inner_kernel

__all__ = [
    "CODES",
    "NODE",
    "best_leaf",
    "halve",
    "open_leaf",
    "partition",
    "place_unseen",
    "sides",
]

NODE = np.dtype(
    [
        ("gain", np.float64),  # of the best split found, 0 if there is none
        ("feature", np.int32),  # index among the available features; -1 for a leaf
        ("bin", np.int32),  # codes up to this one go left; for categories, ranks in their order
        ("left", np.int32),  # the right child is the next node
        ("depth", np.int32),
        ("slot", np.int32),  # a leaf's histogram in the pool, -1 if it has none
        ("start", np.int64),  # range of the sampled rows
        ("stop", np.int64),
        ("rest_start", np.int64),  # range of the rows that were not sampled
        ("rest_stop", np.int64),
        ("missing_left", np.bool_),
        ("members", np.uint8, (32,)),  # for categories: a bit per code, set if it goes left
    ],
    align=True,
)

CODES = 256


@inner_kernel
def open_leaf(nodes, i, depth, start, stop, rest_start, rest_stop):
    """Make node `i` a leaf with these rows."""
    node = nodes[i]
    node.gain, node.feature, node.bin, node.left, node.slot = 0.0, -1, -1, -1, -1
    node.depth, node.missing_left = depth, False
    node.start, node.stop = start, stop
    node.rest_start, node.rest_stop = rest_start, rest_stop


@inner_kernel
def best_leaf(nodes, n_nodes):
    """Return the leaf whose split has the largest gain; ties go to the first; -1 without gain."""
    best, at = 0.0, -1
    for i in range(n_nodes):
        if nodes[i].left < 0 and nodes[i].gain > best:
            best, at = nodes[i].gain, i
    return at


@inner_kernel
def partition(rows, start, stop, column, side, buffer):
    """Move the rows whose code goes left to the front; return the index of the first other row.

    The partition is stable, so that the rows of a leaf keep their order and memory is read
    sequentially.
    """
    at, over = start, np.int64(0)
    for i in range(start, stop):
        r = rows[i]
        goes_left = np.int64(side[column[r]])
        rows[at] = r
        buffer[over] = r
        at += goes_left
        over += 1 - goes_left
    for i in range(over):  # assigning a slice would take seconds to compile
        rows[at + i] = buffer[i]
    return at


@inner_kernel
def sides(node, categorical, n_bins, side):
    """Write the mask of the codes that go left to `side`."""
    for code in range(CODES):
        if categorical:
            side[code] = (node.members[code >> 3] >> (code & 7)) & 1
        else:
            side[code] = code <= node.bin
    side[n_bins] = node.missing_left


@inner_kernel
def _look_for(node, column, rows, seen):
    """Write the mask of the categories of the node's rows to `seen`."""
    seen[:] = False
    for i in range(node.start, node.stop):
        seen[column[rows[i]]] = True


@inner_kernel
def place_unseen(node, n_bins, side, seen):
    """Send the categories absent from the node's rows left, together with missing values."""
    for code in range(n_bins):
        if not seen[code]:
            node.members[code >> 3] |= np.uint8(1 << (code & 7))
            side[code] = 1


@inner_kernel
def halve(nodes, i, left, columns, rows, rest, work):
    """Partition the rows of node `i` into the leaves `left` and `left + 1`; write `work.side`."""
    node = nodes[i]
    j = node.feature
    column, side, buffer = columns.codes[columns.features[j]], work.side, work.buffer
    categorical, n_bins = columns.categorical[j], columns.n_bins[j]
    node.left = left
    sides(node, categorical, n_bins, side)
    middle = partition(rows, node.start, node.stop, column, side, buffer)
    if not columns.missing[j]:
        # The feature has no missing values in training: later ones go to the larger child.
        node.missing_left = 2 * middle >= node.start + node.stop
    if categorical and node.missing_left:
        _look_for(node, column, rows, work.seen)
        place_unseen(node, n_bins, side, work.seen)
    rest_middle = partition(rest, node.rest_start, node.rest_stop, column, side, buffer)
    open_leaf(nodes, left, node.depth + 1, node.start, middle, node.rest_start, rest_middle)
    open_leaf(nodes, left + 1, node.depth + 1, middle, node.stop, rest_middle, node.rest_stop)
    return middle
