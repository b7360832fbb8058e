"""Growing one tree, best leaf first."""

from typing import NamedTuple

import numpy as np

from streamboost.kernels.growing.criteria import NEWTON, pairs_up
from streamboost.kernels.growing.histograms import Columns, Statistic, count, join, subtract
from streamboost.kernels.growing.nodes import CODES, best_leaf, halve, open_leaf
from streamboost.kernels.growing.splits import find_best
from streamboost.kernels.jit import inner_kernel, kernel

__all__ = ["grow", "grow_tree", "room"]


class _Work(NamedTuple):
    """Room for sums (channels,), and for a feature of categories: its bins in order."""

    total: np.ndarray
    left: np.ndarray
    right: np.ndarray
    direction: np.ndarray
    order: np.ndarray  # int64 (256,): codes
    key: np.ndarray  # float64 (256,): what they are ordered by
    mass: np.ndarray  # float64 (256,)
    profile: np.ndarray  # float64 (256, channels)
    hist: np.ndarray  # int64 (257 x channels,): the bins in order, then the missing ones
    side: np.ndarray  # uint8 (256,): 1 for codes that go left
    seen: np.ndarray  # bool (256,): codes that a node has
    buffer: np.ndarray  # uint32: rows on their way to the right
    prefix: np.ndarray  # int64 (splits,): the packed sums left of each split of each feature,
    hessians: np.ndarray  # int64 (splits,): or its gradients, and here its Hessians
    pairs: np.ndarray  # int64 (2n,): the gradients and Hessians of a node's rows, together
    scores: np.ndarray  # float64 (splits + 1,)
    keys: np.ndarray  # int64 (splits + 1,): the bits of `scores`
    ends: np.ndarray  # uint64 (d,): where the splits of each feature end
    owner: np.ndarray  # int32 (slots,): the leaf whose histogram is in a slot, -1 where it is free


@kernel
def room(n, n_codes, n_splits, n_features, n_rows, n_slots):
    """Return room for trees of `n` channels and so many codes, splits, rows and histograms."""
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
    """Grow one tree into `nodes`; `rows` and `rest` end up ordered by leaf.

    The first six are those of `Columns`, `values`, `channel` and `totals` those of `Statistic`.
    Further shapes: `rows` (sampled) and `rest` (the others) uint32; `limits` (1,) LIMITS; `pool`
    int64 (slots, bins x channels), zeros not needed; `nodes` (2 leaves - 1,) NODE. Returns the
    number of nodes, and of additions to histograms.

    A slot for each leaf is the most there is use for, and two will do: with fewer than leaves the
    tree is the same, and the children of a leaf whose histogram had to go are both counted.
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
    """Give leaf `i` a slot: a free one, or that of the leaf of fewest rows but its `sibling`."""
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
    """Find the best split of leaf `i`; where there is none its slot is free."""
    node = nodes[i]
    find_best(node, pool[node.slot], columns, lim, statistic.totals, work)
    if node.gain <= 0.0:
        work.owner[node.slot] = -1
        node.slot = -1


@inner_kernel
def grow_tree(columns, rows, rest, statistic, lim, pool, nodes, joint, work):
    """Grow one tree in the room given; see `grow`."""
    open_leaf(nodes, 0, 0, 0, rows.size, 0, rest.size)
    n_nodes = n_leaves = np.int64(1)  # as a literal it would compile its users twice
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
