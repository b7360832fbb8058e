"""Nodes of a growing tree, and the partition of their rows."""

import numpy as np

from streamboost.kernels.jit import inner_kernel

NODE = np.dtype(
    [
        ("gain", np.float64),  # of the best split found, 0 if there is none
        ("feature", np.int32),  # index among the available features; -1 for a leaf
        ("bin", np.int32),  # last bin that goes left; for categories, last rank in sorted order
        ("left", np.int32),  # the right child is the next node
        ("depth", np.int32),
        ("slot", np.int32),  # a leaf's histogram in the pool, -1 if it has none
        ("start", np.int64),  # range of the sampled rows
        ("stop", np.int64),
        ("unsampled_start", np.int64),  # range of the rows that were not sampled
        ("unsampled_stop", np.int64),
        ("missing_left", np.bool_),
        ("members", np.uint8, (32,)),  # for categories: a bit per code, set if it goes left
    ],
    align=True,
)

CODES = 256


@inner_kernel
def make_leaf(nodes, leaf, depth, start, stop, unsampled_start, unsampled_stop):
    """Make the node at index `leaf` a leaf at this depth, and set the ranges of its rows.

    Sampled rows are at positions `start` to `stop` - 1, and unsampled rows at `unsampled_start` to
    `unsampled_stop` - 1.
    """
    node = nodes[leaf]
    node.gain, node.feature, node.bin, node.left, node.slot = 0.0, -1, -1, -1, -1
    node.depth, node.missing_left = depth, False
    node.start, node.stop = start, stop
    node.unsampled_start, node.unsampled_stop = unsampled_start, unsampled_stop


@inner_kernel
def leaf_with_best_split(nodes, n_nodes):
    """Return the index of the leaf whose split has the largest gain; -1 if no gain is positive."""
    best, at = 0.0, -1
    for i in range(n_nodes):
        if nodes[i].left < 0 and nodes[i].gain > best:
            best, at = nodes[i].gain, i
    return at


@inner_kernel
def partition_rows(rows, start, stop, column, left_mask, buffer):
    """Move the rows in `rows[start:stop]` that go left to the front of this range.

    Returns the position of the first row that goes right. `column` is the bin index of each
    training row, and `left_mask` (256,) is 1 for bins that go left. `buffer` is a workspace.

    The partition is stable, so that the rows of a leaf keep their order and memory is read
    sequentially.
    """
    at, over = start, np.int64(0)
    for i in range(start, stop):
        r = rows[i]
        goes_left = np.int64(left_mask[column[r]])
        rows[at] = r
        buffer[over] = r
        at += goes_left
        over += 1 - goes_left
    for i in range(over):  # assigning a slice would take seconds to compile
        rows[at + i] = buffer[i]
    return at


@inner_kernel
def mark_left_bins(node, categorical, n_bins, left_mask):
    """Set `left_mask` uint8 (256,) to 1 for the bins that the node sends left, else to 0."""
    for code in range(CODES):
        if categorical:
            left_mask[code] = (node.members[code >> 3] >> (code & 7)) & 1
        else:
            left_mask[code] = code <= node.bin
    left_mask[n_bins] = node.missing_left


@inner_kernel
def _mark_seen_categories(node, column, rows, seen):
    """Set `seen` bool (256,) to True for each category among the rows of the node, else False."""
    seen[:] = False
    for i in range(node.start, node.stop):
        seen[column[rows[i]]] = True


@inner_kernel
def send_unseen_categories_left(node, n_bins, left_mask, seen):
    """Let the node send categories without rows left, for a node that sends missing values left.

    `seen` (256,) is True for the categories among the node's rows. `left_mask` is updated.
    """
    for code in range(n_bins):
        if not seen[code]:
            node.members[code >> 3] |= np.uint8(1 << (code & 7))
            left_mask[code] = 1


@inner_kernel
def split_node(nodes, parent, first_child, columns, rows, unsampled, workspace):
    """Split node `parent` into two leaves, and partition its rows between these leaves.

    Returns the position in `rows` of the first row that goes right.
    """
    node = nodes[parent]
    j = node.feature
    column, side, buffer = columns.codes[columns.features[j]], workspace.side, workspace.buffer
    categorical, n_bins = columns.categorical[j], columns.n_bins[j]
    node.left = first_child
    mark_left_bins(node, categorical, n_bins, side)
    middle = partition_rows(rows, node.start, node.stop, column, side, buffer)
    if not columns.missing[j]:
        # The feature has no missing values in training: later ones go to the larger child.
        node.missing_left = 2 * middle >= node.start + node.stop
    if categorical and node.missing_left:
        _mark_seen_categories(node, column, rows, workspace.seen)
        send_unseen_categories_left(node, n_bins, side, workspace.seen)
    unsampled_middle = partition_rows(
        unsampled, node.unsampled_start, node.unsampled_stop, column, side, buffer
    )
    make_leaf(
        nodes,
        first_child,
        node.depth + 1,
        node.start,
        middle,
        node.unsampled_start,
        unsampled_middle,
    )
    make_leaf(
        nodes,
        first_child + 1,
        node.depth + 1,
        middle,
        node.stop,
        unsampled_middle,
        node.unsampled_stop,
    )
    return middle
