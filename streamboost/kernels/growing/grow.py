"""Best-first (leaf-wise) growth of one tree."""

from typing import NamedTuple

import numpy as np

from streamboost.kernels.growing.criteria import NEWTON, pairs_up
from streamboost.kernels.growing.histograms import Columns, Statistic, count, join, subtract
from streamboost.kernels.growing.nodes import CODES, best_leaf, halve, open_leaf
from streamboost.kernels.growing.splits import find_best
from streamboost.kernels.jit import inner_kernel, kernel

__all__ = ["grow", "grow_tree", "room"]


class _Work(NamedTuple):
    """Workspace: sums (channels,), and the sorted bins of a categorical feature."""

    total: np.ndarray
    left: np.ndarray
    right: np.ndarray
    direction: np.ndarray
    order: np.ndarray  # int64 (256,): codes
    key: np.ndarray  # float64 (256,): sort keys
    mass: np.ndarray  # float64 (256,)
    profile: np.ndarray  # float64 (256, channels)
    hist: np.ndarray  # int64 (257 x channels,): the sorted bins, then the bin of missing values
    side: np.ndarray  # uint8 (256,): 1 for codes that go left
    seen: np.ndarray  # bool (256,): codes that occur in a node
    buffer: np.ndarray  # uint32: rows that go right, while a node is partitioned
    prefix: np.ndarray  # int64 (splits,): packed sums, or gradients, left of each split
    hessians: np.ndarray  # int64 (splits,): Hessians left of each split, unless packed
    pairs: np.ndarray  # int64 (2n,): interleaved gradients and Hessians of a node's rows
    scores: np.ndarray  # float64 (splits + 1,)
    keys: np.ndarray  # int64 (splits + 1,): the bits of `scores`
    ends: np.ndarray  # uint64 (d,): end of the splits of each feature
    owner: np.ndarray  # int32 (slots,): the leaf whose histogram is in a slot, -1 if it is free


@kernel
def room(n, n_codes, n_splits, n_features, n_rows, n_slots):
    """Allocate a workspace for trees of `n` channels, by numbers of codes, splits and so on."""
    scores, n_pairs = np.empty(n_splits + 1), n // 2 if n_splits > 0 else 0
    return _Work(
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n_codes, np.int64),
        np.empty(n_codes),
        np.empty(n_codes),
        np.empty((n_codes, n)),
        np.empty((n_codes + 1) * n, np.int64),
        np.empty(CODES, np.uint8),
        np.empty(CODES, np.bool_),
        np.empty(n_rows, np.uint32),
        np.empty(n_splits, np.int64),
        np.empty(n_splits * n_pairs, np.int64),
        np.empty(2 * n_rows * n_pairs, np.int64),
        scores,
        scores.view(np.int64),
        np.empty(n_features, np.uint64),
        np.empty(n_slots, np.int32),
    )


@kernel
def grow(
    codes, features, first, n_bins, missing, categorical, rows, rest, values, channel, totals,
    limits, pool, nodes,
):  # fmt: skip
    """Grow one tree into `nodes`, and sort `rows` and `rest` by leaf.

    The first six arguments are those of `Columns`; `values`, `channel` and `totals` are those of
    `Statistic`. Further shapes: `rows` (sampled) and `rest` (not sampled) uint32; `limits` (1,)
    LIMITS; `pool` int64 (slots, bins x channels), of any content; `nodes` (2 leaves - 1,) NODE.
    Returns the number of nodes, and of additions to histograms.

    The pool needs at least two slots, and at most one per leaf is used. With fewer slots than
    leaves the tree is the same. If the histogram of a leaf was evicted from the pool, the
    histograms of both of its children are built from rows.
    """
    columns = Columns(codes, features, first, n_bins, missing, categorical)
    statistic = Statistic(values, channel, totals)
    lim = limits[0]
    packed = lim.kind == NEWTON
    newton = packed or pairs_up(lim)
    widths = (n_bins + missing).astype(np.uint64)
    joint = join(columns, widths[: features.size if packed else 0])
    work = room(
        lim.channels,
        CODES if categorical.any() else 0,
        2 * pool.shape[1] if newton else 0,
        features.size,
        max(rows.size, rest.size),
        pool.shape[0],
    )
    return grow_tree(columns, rows, rest, statistic, lim, pool, nodes, joint, work)


@inner_kernel
def _take_slot(nodes, i, sibling, owner):
    """Assign leaf `i` a slot: a free one, or the slot of the smallest leaf except `sibling`."""
    at, fewest = -1, np.int64(0)
    for slot in range(owner.size):
        j = owner[slot]
        if j < 0:
            at = slot
            break
        n_rows = nodes[j].stop - nodes[j].start
        if j != sibling and (at < 0 or n_rows < fewest):
            at, fewest = slot, n_rows
    if owner[at] >= 0:
        nodes[owner[at]].slot = -1
    nodes[i].slot, owner[at] = at, i


@inner_kernel
def _count(nodes, i, columns, joint, rows, statistic, lim, pool, work):
    """Write the histogram of leaf `i` to its slot; return the number of additions."""
    node = nodes[i]
    count(node, columns, joint, rows, statistic, lim, pool[node.slot], work.pairs)
    return columns.features.size * (node.stop - node.start)


@inner_kernel
def _look(nodes, i, columns, statistic, lim, pool, work):
    """Find the best split of leaf `i`; if there is none, release its slot."""
    node = nodes[i]
    find_best(node, pool[node.slot], columns, lim, statistic.totals, work)
    if node.gain <= 0.0:
        work.owner[node.slot] = -1
        node.slot = -1


@inner_kernel
def grow_tree(columns, rows, rest, statistic, lim, pool, nodes, joint, work):
    """Grow one tree in the workspace `work`; see `grow`."""
    open_leaf(nodes, 0, 0, 0, rows.size, 0, rest.size)
    n_nodes = n_leaves = np.int64(1)  # with a literal, callees would be compiled twice
    if columns.features.size == 0:
        return n_nodes, np.int64(0)
    owner = work.owner
    for slot in range(owner.size):
        owner[slot] = -1
    _take_slot(nodes, 0, -1, owner)
    n_adds = _count(nodes, 0, columns, joint, rows, statistic, lim, pool, work)
    _look(nodes, 0, columns, statistic, lim, pool, work)
    while n_leaves < lim.max_leaf_nodes:
        i = best_leaf(nodes, n_nodes)
        if i < 0:
            break
        node = nodes[i]
        a, b = n_nodes, n_nodes + 1
        middle = halve(nodes, i, a, columns, rows, rest, work)
        n_nodes += 2
        n_leaves += 1
        slot, node.slot = node.slot, -1
        if n_leaves == lim.max_leaf_nodes or node.depth + 1 >= lim.max_depth:
            if slot >= 0:
                owner[slot] = -1
            continue
        small, large = (a, b) if 2 * middle < node.start + node.stop else (b, a)
        if slot >= 0:
            nodes[large].slot, owner[slot] = slot, large
        else:
            _take_slot(nodes, large, -1, owner)
            n_adds += _count(nodes, large, columns, joint, rows, statistic, lim, pool, work)
        _take_slot(nodes, small, large, owner)
        n_adds += _count(nodes, small, columns, joint, rows, statistic, lim, pool, work)
        if slot >= 0:
            subtract(pool[slot], pool[nodes[small].slot])
        for child in (a, b):
            _look(nodes, child, columns, statistic, lim, pool, work)
    return n_nodes, n_adds
