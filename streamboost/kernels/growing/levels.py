"""Growth of one tree on row shards, several leaves per turn.

Best-first growth of a tree of 80 leaves would all-reduce the histograms of the shards 79 times.
Here the best open leaves are split together, with one all-reduce. Then the best-first order is
replayed as far as the gains are known, and unused splits are dropped. The tree is identical to the
tree of `growing.grow`, as no decision depends on the rows of one shard.
"""

from typing import NamedTuple

import numpy as np

from streamboost.kernels.growing.criteria import NEWTON
from streamboost.kernels.growing.histograms import count, subtract
from streamboost.kernels.growing.nodes import best_leaf, open_leaf, partition, sides
from streamboost.kernels.growing.splits import find_best
from streamboost.kernels.jit import inner_kernel, kernel

__all__ = ["Growth", "begin", "turn"]

_LOW = np.int64(0xFFFFFFFF)


class Growth(NamedTuple):
    """State of a growing tree, with nodes split ahead of the best-first order."""

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
def begin(growth, columns, joint, rows, statistic, limits, work):
    """Start with a leaf of all `rows`; return the number of histograms in `sums` to all-reduce."""
    known, size = growth.known, growth.size
    open_leaf(known, 0, 0, 0, rows.size, 0, 0)
    open_leaf(growth.tree, 0, 0, 0, rows.size, 0, 0)
    growth.source[0], growth.taken[0], growth.bound[0] = 0, False, np.inf
    size[:] = 0
    size[0] = size[1] = 1
    work.owner[:] = -1
    if columns.features.size == 0:
        return 0
    count(known[0], columns, joint, rows, statistic, limits[0], growth.sums[0], work.pairs)
    size[3] = columns.features.size * rows.size
    return 1


@kernel
def turn(growth, columns, joint, rows, statistic, limits, work):
    """Continue with the reduced `sums`; return the number to all-reduce next, -1 at the end."""
    lim = limits[0]
    if growth.known[0].slot < 0 and growth.size[0] == 1 and columns.features.size > 0:
        _give_slot(growth, 0, -1, 0, work.owner)
        _copy(growth.pool[growth.known[0].slot], growth.sums[0])
        _look(growth, 0, 0, columns, statistic, lim, work)
        growth.tree[0] = growth.known[0]
    _receive(growth, columns, statistic, lim, work)
    wanted, n_left = _replay(growth, lim)
    if wanted < 0:
        return -1
    growth.size[2] = _choose(growth, wanted, n_left)
    c = n_sums = np.int64(0)
    while c < growth.size[2]:
        n_sums = _split(growth, c, n_left, n_sums, columns, joint, rows, statistic, lim, work)
        c += 1
    return n_sums


@inner_kernel
def _receive(growth, columns, statistic, lim, work):
    """Find the best splits of the children of the leaves that the last turn split."""
    known, at = growth.known, 0
    for c in range(growth.size[2]):
        i, staged = growth.split[c], growth.staged[c]
        left, slot = known[i].left, known[i].slot
        growth.split[c] = -1
        if staged < 0:
            _free(known, i, work.owner)
            continue
        if slot >= 0:
            small, large = left + staged, left + 1 - staged
            known[large].slot, work.owner[slot], known[i].slot = slot, large, -1
            _give_slot(growth, small, large, c + 1, work.owner)
            _copy(growth.pool[known[small].slot], growth.sums[at])
            subtract(growth.pool[slot], growth.sums[at])
            at += 1
        else:
            for child in range(left, left + 2):
                _give_slot(growth, child, left, c + 1, work.owner)
                _copy(growth.pool[known[child].slot], growth.sums[at])
                at += 1
        _look(growth, left, i, columns, statistic, lim, work)
        _look(growth, left + 1, i, columns, statistic, lim, work)
    growth.size[2] = 0


@inner_kernel
def _look(growth, i, parent, columns, statistic, lim, work):
    node = growth.known[i]
    find_best(node, growth.pool[node.slot], columns, lim, statistic.totals, work)
    growth.bound[i] = min(growth.bound[parent], node.gain)
    if node.gain <= 0.0:
        _free(growth.known, i, work.owner)


@inner_kernel
def _free(known, i, owner):
    if known[i].slot >= 0:
        owner[known[i].slot] = -1
        known[i].slot = -1


@inner_kernel
def _copy(to, values):
    for b in range(to.size):
        to[b] = values[b]


@inner_kernel
def _give_slot(growth, i, sibling, begin, owner):
    """Assign leaf `i` a slot: a free one, or the slot of the leaf of the lowest priority.

    The slot of its `sibling`, and slots of leaves split in this turn from the `begin`-th on, are
    not evicted.
    """
    known, at = growth.known, -1
    for slot in range(owner.size):
        j = owner[slot]
        if j < 0:
            at = slot
            break
        if j == sibling or (at >= 0 and growth.bound[j] >= growth.bound[owner[at]]):
            continue
        pending = False
        for c in range(begin, growth.size[2]):
            pending |= growth.split[c] == j
        if not pending:
            at = slot
    if owner[at] >= 0:
        known[owner[at]].slot = -1
    known[i].slot, owner[at] = at, i


@inner_kernel
def _replay(growth, lim):
    """Replay the best-first order: split the tree's best leaves while their children are known.

    Returns the index in `known` of the first leaf without known children, or -1 if the tree is
    complete, and the number of remaining splits.
    """
    tree, known, source, size = growth.tree, growth.known, growth.source, growth.size
    while True:
        n_left = lim.max_leaf_nodes - (size[1] + 1) // 2
        i = best_leaf(tree, size[1]) if n_left > 0 else -1
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
def _choose(growth, wanted, n_left):
    """Write the leaves to split next, `wanted` and the best others; return their number.

    A leaf is not split if there are enough better leaves to complete the tree.
    """
    known, bound, split, n_known = growth.known, growth.bound, growth.split, growth.size[0]
    room = (known.size - n_known) // 2 - n_left
    most = max(1, min(split.size, n_left, room))
    split[0], n = wanted, 1
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
        if ahead >= n_left:
            break
        split[n] = at
        n += 1
    return n


@inner_kernel
def _split(growth, c, n_left, n_sums, columns, joint, rows, statistic, lim, work):
    """Partition the rows of the `c`-th leaf to split, and build the histograms that are needed.

    If the parent's histogram is in the pool, only one child's histogram is built. This is the child
    with less Hessian, as the numbers of rows in all shards are unknown. Returns the number of
    histograms in `sums`.
    """
    known, i, left = growth.known, growth.split[c], growth.size[0]
    node, slot = known[i], known[i].slot
    j = node.feature
    column = columns.codes[columns.features[j]]
    sides(node, columns.categorical[j], columns.n_bins[j], work.side)
    light = _lighter(growth.pool[slot], columns, j, work.side, lim) if slot >= 0 else np.int64(2)
    middle = partition(rows, node.start, node.stop, column, work.side, work.buffer)
    open_leaf(known, left, node.depth + 1, node.start, middle, 0, 0)
    open_leaf(known, left + 1, node.depth + 1, middle, node.stop, 0, 0)
    node.left = left
    for child in range(left, left + 2):
        growth.taken[child], growth.bound[child] = False, 0.0
    growth.size[0] += 2
    if n_left == 1 or node.depth + 1 >= lim.max_depth:
        light = np.int64(-1)
    elif n_sums + (2 if light == 2 else 1) > growth.sums.shape[0]:
        return _put_off(growth, c, n_sums)
    growth.staged[c] = light
    for side in range(2):
        if light == side or light == 2:
            child = known[left + side]
            hist = growth.sums[n_sums]
            count(child, columns, joint, rows, statistic, lim, hist, work.pairs)
            growth.size[3] += columns.features.size * (child.stop - child.start)
            n_sums += 1
    return n_sums


@inner_kernel
def _put_off(growth, c, n_sums):
    """Undo the `c`-th split, whose histograms do not fit into `sums`, and drop the later ones."""
    growth.known[growth.split[c]].left = -1
    growth.size[0] -= 2
    growth.size[2] = c
    return n_sums


@inner_kernel
def _lighter(hist, columns, j, side, lim):
    """Return the child with less Hessian after a split of feature `j`: 0 for left, 1 for right."""
    left, right = np.int64(0), np.int64(0)
    for b in range(columns.n_bins[j] + columns.missing[j]):
        at = np.int64(columns.first[j]) + b
        h = hist[at] & _LOW if lim.kind == NEWTON else hist[2 * at + 1]
        if side[b]:
            left += h
        else:
            right += h
    return np.int64(0) if left < right else np.int64(1)
