"""Growth of one tree on row shards, with several leaves split between two all-reduces (a turn).

Best-first growth of a tree of 80 leaves would all-reduce the histograms of the shards 79 times.
Here the best open leaves are split together, with one all-reduce. Then the splits are applied in
best-first order, as far as the gains are known, and unused splits are dropped. The tree is
identical to the tree of `growing.grow.grow_tree`, as no decision depends on the rows of one shard.
"""

from typing import NamedTuple

import numpy as np

from streamboost.kernels.growing.criteria import NEWTON
from streamboost.kernels.growing.histograms import build_histogram, subtract_histogram
from streamboost.kernels.growing.nodes import (
    leaf_with_best_split,
    make_leaf,
    mark_left_bins,
    partition_rows,
)
from streamboost.kernels.growing.splits import find_best_split
from streamboost.kernels.jit import inner_kernel, kernel

_LOW = np.int64(0xFFFFFFFF)


class TreeBuilderState(NamedTuple):
    """State of a growing tree, and of nodes that were split early, before their best-first turn."""

    known: np.ndarray  # NODE: all nodes, including nodes split ahead
    bound: np.ndarray  # float64: the least gain on the path to each node, the priority of its split
    taken: np.ndarray  # bool: whether the split of each node is part of the tree
    tree: np.ndarray  # NODE (2 leaves - 1,): the tree, as far as the best-first order is replayed
    source: np.ndarray  # int64 (2 leaves - 1,): index in `known` of each node of the tree
    split: np.ndarray  # int64 (leaves per turn,): the leaves split in this turn
    staged: np.ndarray  # int64 (leaves per turn,): child in `sums`: 0, 1, 2 for both, -1 for none
    size: np.ndarray  # int64 (4,): nodes known, nodes of the tree, leaves split, additions
    pool: np.ndarray  # int64 (slots, bins x channels): histograms of leaves
    sums: np.ndarray  # int64 (leaves per turn + 1, bins x channels): histograms to all-reduce


@kernel
def start_growth(growth, columns, fused, rows, histogram_input, params, workspace):
    """Start a tree with one leaf, and build its histogram on the rows of this shard.

    Returns the number of histograms in `growth.sums` that the caller must all-reduce.
    """
    known, size = growth.known, growth.size
    make_leaf(known, 0, 0, 0, rows.size, 0, 0)
    make_leaf(growth.tree, 0, 0, 0, rows.size, 0, 0)
    growth.source[0], growth.taken[0], growth.bound[0] = 0, False, np.inf
    size[:] = 0
    size[0] = size[1] = 1
    workspace.owner[:] = -1
    if columns.features.size == 0:
        return 0
    build_histogram(
        known[0], columns, fused, rows, histogram_input, params[0], growth.sums[0], workspace.pairs
    )
    size[3] = columns.features.size * rows.size
    return 1


@kernel
def continue_growth(growth, columns, fused, rows, histogram_input, params, workspace):
    """Continue the tree after the all-reduce of `growth.sums`, and split the next leaves.

    Returns the number of histograms in `growth.sums` that the caller must all-reduce next, or -1 if
    the tree is complete.
    """
    lim = params[0]
    if growth.known[0].slot < 0 and growth.size[0] == 1 and columns.features.size > 0:
        _assign_histogram_slot(growth, 0, -1, 0, workspace.owner)
        _copy_values_to(growth.pool[growth.known[0].slot], growth.sums[0])
        _find_split_of_leaf(growth, 0, 0, columns, histogram_input, lim, workspace)
        growth.tree[0] = growth.known[0]
    _find_splits_of_new_leaves(growth, columns, histogram_input, lim, workspace)
    wanted, n_left = _apply_known_splits_in_best_first_order(growth, lim)
    if wanted < 0:
        return -1
    growth.size[2] = _choose_leaves_to_split(growth, wanted, n_left)
    c = n_sums = np.int64(0)
    while c < growth.size[2]:
        n_sums = _split_leaf(
            growth, c, n_left, n_sums, columns, fused, rows, histogram_input, lim, workspace
        )
        c += 1
    return n_sums


@inner_kernel
def _find_splits_of_new_leaves(growth, columns, histogram_input, params, workspace):
    """Write the best split of each leaf that the last turn created to the leaf's node."""
    known, at = growth.known, 0
    for c in range(growth.size[2]):
        i, staged = growth.split[c], growth.staged[c]
        left, slot = known[i].left, known[i].slot
        growth.split[c] = -1
        if staged < 0:
            _free_histogram_slot(known, i, workspace.owner)
            continue
        if slot >= 0:
            small, large = left + staged, left + 1 - staged
            known[large].slot, workspace.owner[slot], known[i].slot = slot, large, -1
            _assign_histogram_slot(growth, small, large, c + 1, workspace.owner)
            _copy_values_to(growth.pool[known[small].slot], growth.sums[at])
            subtract_histogram(growth.pool[slot], growth.sums[at])
            at += 1
        else:
            for child in range(left, left + 2):
                _assign_histogram_slot(growth, child, left, c + 1, workspace.owner)
                _copy_values_to(growth.pool[known[child].slot], growth.sums[at])
                at += 1
        _find_split_of_leaf(growth, left, i, columns, histogram_input, params, workspace)
        _find_split_of_leaf(growth, left + 1, i, columns, histogram_input, params, workspace)
    growth.size[2] = 0


@inner_kernel
def _find_split_of_leaf(growth, leaf, parent, columns, histogram_input, params, workspace):
    node = growth.known[leaf]
    find_best_split(
        node, growth.pool[node.slot], columns, params, histogram_input.totals, workspace
    )
    growth.bound[leaf] = min(growth.bound[parent], node.gain)
    if node.gain <= 0.0:
        _free_histogram_slot(growth.known, leaf, workspace.owner)


@inner_kernel
def _free_histogram_slot(nodes, leaf, slot_owners):
    if nodes[leaf].slot >= 0:
        slot_owners[nodes[leaf].slot] = -1
        nodes[leaf].slot = -1


@inner_kernel
def _copy_values_to(target, values):
    for b in range(target.size):
        target[b] = values[b]


@inner_kernel
def _assign_histogram_slot(growth, leaf, sibling, first_split, slot_owners):
    """Assign a slot of the histogram pool to a leaf: a free slot, if there is any.

    Otherwise the leaf gets the slot of the leaf of lowest priority (`bound`). This is never
    `sibling`, nor a leaf that this turn splits from number `first_split` on.
    """
    known, at = growth.known, -1
    for slot in range(slot_owners.size):
        j = slot_owners[slot]
        if j < 0:
            at = slot
            break
        if j == sibling or (at >= 0 and growth.bound[j] >= growth.bound[slot_owners[at]]):
            continue
        pending = False
        for c in range(first_split, growth.size[2]):
            pending |= growth.split[c] == j
        if not pending:
            at = slot
    if slot_owners[at] >= 0:
        known[slot_owners[at]].slot = -1
    known[leaf].slot, slot_owners[at] = at, leaf


@inner_kernel
def _apply_known_splits_in_best_first_order(growth, params):
    """Split the leaves of the tree in best-first order, until a leaf has no known children.

    Returns the index of this leaf in `growth.known`, or -1 if the tree is complete, and the number
    of splits that the tree may still have.
    """
    tree, known, source, size = growth.tree, growth.known, growth.source, growth.size
    while True:
        n_left = params.max_leaf_nodes - (size[1] + 1) // 2
        i = leaf_with_best_split(tree, size[1]) if n_left > 0 else -1
        if i < 0:
            return np.int64(-1), n_left
        s = source[i]
        if known[s].left < 0:
            return s, n_left
        tree[i] = known[s]
        tree[i].left = size[1]
        growth.taken[s] = True
        for side in range(2):
            child = known[s].left + side
            source[size[1]] = child
            tree[size[1]] = known[child]
            tree[size[1]].left = -1
            size[1] += 1


@inner_kernel
def _choose_leaves_to_split(growth, first_leaf, n_splits_left):
    """Choose the leaves to split in this turn: `first_leaf`, and the leaves of the largest gains.

    Leaves are not chosen if better leaves suffice to complete the tree. The leaves are written to
    `growth.split`. Returns their number.
    """
    known, bound, split, n_known = growth.known, growth.bound, growth.split, growth.size[0]
    room = (known.size - n_known) // 2 - n_splits_left
    most = max(1, min(split.size, n_splits_left, room))
    split[0], n = first_leaf, 1
    while n < most:
        best, at = 0.0, -1
        for i in range(n_known):
            if known[i].left >= 0 or known[i].gain <= 0.0 or bound[i] <= best:
                continue
            there = False
            for c in range(n):
                there |= split[c] == i
            if not there:
                best, at = bound[i], i
        if at < 0:
            break
        ahead = n
        for i in range(n_known):
            ahead += known[i].left >= 0 and not growth.taken[i] and bound[i] >= best
        if ahead >= n_splits_left:
            break
        split[n] = at
        n += 1
    return n


@inner_kernel
def _split_leaf(
    growth,
    turn_split,
    n_splits_left,
    n_sums,
    columns,
    fused,
    rows,
    histogram_input,
    params,
    workspace,
):
    """Split leaf number `turn_split` of this turn: partition its rows, and build child histograms.

    If the parent's histogram is in the pool, only the histogram of one child is built: the child
    with the smaller Hessian sum, as the number of rows in all shards is unknown. `n_splits_left` is
    how many splits the tree may still have, and `n_sums` the number of histograms in `growth.sums`.
    Returns the new number.
    """
    known, i, left = growth.known, growth.split[turn_split], growth.size[0]
    node, slot = known[i], known[i].slot
    j = node.feature
    column = columns.codes[columns.features[j]]
    mark_left_bins(node, columns.categorical[j], columns.n_bins[j], workspace.side)
    light = (
        _child_with_smaller_hessian(growth.pool[slot], columns, j, workspace.side, params)
        if slot >= 0
        else np.int64(2)
    )
    middle = partition_rows(rows, node.start, node.stop, column, workspace.side, workspace.buffer)
    make_leaf(known, left, node.depth + 1, node.start, middle, 0, 0)
    make_leaf(known, left + 1, node.depth + 1, middle, node.stop, 0, 0)
    node.left = left
    for child in range(left, left + 2):
        growth.taken[child], growth.bound[child] = False, 0.0
    growth.size[0] += 2
    if n_splits_left == 1 or node.depth + 1 >= params.max_depth:
        light = np.int64(-1)
    elif n_sums + (2 if light == 2 else 1) > growth.sums.shape[0]:
        return _undo_split(growth, turn_split, n_sums)
    growth.staged[turn_split] = light
    for side in range(2):
        if light == side or light == 2:
            child = known[left + side]
            hist = growth.sums[n_sums]
            build_histogram(
                child, columns, fused, rows, histogram_input, params, hist, workspace.pairs
            )
            growth.size[3] += columns.features.size * (child.stop - child.start)
            n_sums += 1
    return n_sums


@inner_kernel
def _undo_split(growth, turn_split, n_sums):
    """Undo a split whose histograms do not fit into `growth.sums`, and end this turn's splits.

    Returns `n_sums`, the number of histograms in `growth.sums`.
    """
    growth.known[growth.split[turn_split]].left = -1
    growth.size[0] -= 2
    growth.size[2] = turn_split
    return n_sums


@inner_kernel
def _child_with_smaller_hessian(hist, columns, feature, goes_left, params):
    """Return the child of a split that has the smaller Hessian sum: 0 for left, 1 for right."""
    left, right = np.int64(0), np.int64(0)
    for b in range(columns.n_bins[feature] + columns.missing[feature]):
        at = np.int64(columns.first[feature]) + b
        h = hist[at] & _LOW if params.kind == NEWTON else hist[2 * at + 1]
        if goes_left[b]:
            left += h
        else:
            right += h
    return np.int64(0) if left < right else np.int64(1)
