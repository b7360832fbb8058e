"""Best-first (leaf-wise) growth of one tree on all rows, in one call."""

from typing import NamedTuple

import numpy as np

from streamboost.kernels.growing.criteria import NEWTON, has_gradient_hessian_bins
from streamboost.kernels.growing.histograms import (
    FeatureSubset,
    HistogramInputArrays,
    build_histogram,
    fuse_features,
    subtract_histogram,
)
from streamboost.kernels.growing.nodes import CODES, leaf_with_best_split, make_leaf, split_node
from streamboost.kernels.growing.splits import find_best_split
from streamboost.kernels.jit import inner_kernel, kernel


class _GrowthWorkspace(NamedTuple):
    """Reusable arrays for growing trees: histogram sums, split scores and row buffers."""

    total: np.ndarray  # float64 (channels,): sums of a node
    left: np.ndarray  # float64 (channels,): sums of its left child
    right: np.ndarray  # float64 (channels,): sums of its right child
    direction: np.ndarray  # float64 (channels,): direction on which categories are projected
    order: np.ndarray  # int64 (256,): category codes, sorted by `key`
    key: np.ndarray  # float64 (256,): sort keys of the categories
    mass: np.ndarray  # float64 (256,): weights of the categories
    profile: np.ndarray  # float64 (256, channels): see `categories._write_sort_keys`
    hist: np.ndarray  # int64 (257 x channels,): the sorted bins, then the bin of missing values
    side: np.ndarray  # uint8 (256,): 1 for codes that go left
    seen: np.ndarray  # bool (256,): codes that occur in a node
    buffer: np.ndarray  # uint32: rows that go right, while a node is partitioned
    prefix: np.ndarray  # int64 (splits,): packed sums, or gradients, left of each split
    hessians: np.ndarray  # int64 (splits,): Hessians left of each split, unless packed
    pairs: np.ndarray  # int64 (2n,): interleaved gradients and Hessians of a node's rows
    scores: np.ndarray  # float64 (splits + 1,): score of each split
    keys: np.ndarray  # int64 (splits + 1,): the bits of `scores`
    ends: np.ndarray  # uint64 (d,): end of the splits of each feature
    owner: np.ndarray  # int32 (slots,): the leaf whose histogram is in a slot, -1 if it is free


@kernel
def allocate_workspace(n_channels, n_codes, n_splits, n_features, n_rows, n_slots):
    """Allocate a workspace for growing trees whose histograms have `n_channels` sums per bin.

    Parameters
    ----------
    n_codes
        Number of category codes; 0 without categorical features.
    n_splits
        Largest number of candidate splits of a node.
    n_features, n_rows, n_slots
        Numbers of available features, of rows, and of histograms in the pool.
    """
    scores, n_pairs = np.empty(n_splits + 1), n_channels // 2 if n_splits > 0 else 0
    return _GrowthWorkspace(
        np.empty(n_channels),
        np.empty(n_channels),
        np.empty(n_channels),
        np.empty(n_channels),
        np.empty(n_codes, np.int64),
        np.empty(n_codes),
        np.empty(n_codes),
        np.empty((n_codes, n_channels)),
        np.empty((n_codes + 1) * n_channels, np.int64),
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
def grow_tree(
    codes, features, offsets, n_bins, missing, categorical, rows, unsampled_rows, values, channel,
    totals, params, histogram_pool, nodes,
):  # fmt: skip
    """Grow one tree into `nodes`, and sort `rows` and `unsampled_rows` by leaf.

    The first six arguments are those of `FeatureSubset`; `values`, `channel` and `totals` are those
    of `HistogramInputArrays`. Further arguments: `rows` uint32, on which splits are searched;
    `unsampled_rows` uint32, which are only assigned to leaves; `params` TREE_PARAMS (1,), the
    criterion and the limits of the tree; `histogram_pool` int64 (slots, bins x channels), of any
    content; `nodes` NODE (2 leaves - 1,). Returns the number of nodes, and of additions to
    histograms.

    The pool needs at least two slots, and at most one per leaf is used. With fewer slots than
    leaves the tree is the same. If the histogram of a leaf was evicted from the pool, the
    histograms of both of its children are built from rows.
    """
    columns = FeatureSubset(codes, features, offsets, n_bins, missing, categorical)
    histogram_input = HistogramInputArrays(values, channel, totals)
    lim = params[0]
    packed = lim.kind == NEWTON
    newton = packed or has_gradient_hessian_bins(lim)
    widths = (n_bins + missing).astype(np.uint64)
    fused = fuse_features(columns, widths[: features.size if packed else 0])
    workspace = allocate_workspace(
        lim.channels,
        CODES if categorical.any() else 0,
        2 * histogram_pool.shape[1] if newton else 0,
        features.size,
        max(rows.size, unsampled_rows.size),
        histogram_pool.shape[0],
    )
    return grow_tree_in_workspace(
        columns, rows, unsampled_rows, histogram_input, lim, histogram_pool, nodes, fused, workspace
    )


@inner_kernel
def _assign_histogram_slot(nodes, leaf, sibling, slot_owners):
    """Assign a slot of the histogram pool to a leaf: a free slot, if there is any.

    Otherwise the leaf gets the slot of the leaf with the fewest rows, except that of `sibling`.
    `slot_owners` (slots,) is the leaf of each slot, -1 if free.
    """
    at, fewest = -1, np.int64(0)
    for slot in range(slot_owners.size):
        j = slot_owners[slot]
        if j < 0:
            at = slot
            break
        n_rows = nodes[j].stop - nodes[j].start
        if j != sibling and (at < 0 or n_rows < fewest):
            at, fewest = slot, n_rows
    if slot_owners[at] >= 0:
        nodes[slot_owners[at]].slot = -1
    nodes[leaf].slot, slot_owners[at] = at, leaf


@inner_kernel
def _build_leaf_histogram(
    nodes, leaf, columns, fused, rows, histogram_input, params, histogram_pool, workspace
):
    """Build the histogram of a leaf in its slot of the pool; return the number of additions."""
    node = nodes[leaf]
    build_histogram(
        node,
        columns,
        fused,
        rows,
        histogram_input,
        params,
        histogram_pool[node.slot],
        workspace.pairs,
    )
    return columns.features.size * (node.stop - node.start)


@inner_kernel
def _find_split_of_leaf(nodes, leaf, columns, histogram_input, params, histogram_pool, workspace):
    """Write the best split of a leaf to its node. Without a split, free its histogram's slot."""
    node = nodes[leaf]
    find_best_split(
        node, histogram_pool[node.slot], columns, params, histogram_input.totals, workspace
    )
    if node.gain <= 0.0:
        workspace.owner[node.slot] = -1
        node.slot = -1


@inner_kernel
def grow_tree_in_workspace(
    columns, rows, unsampled_rows, histogram_input, params, histogram_pool, nodes, fused, workspace
):
    """Grow one tree as `grow_tree` does, in the arrays of `workspace`; return the same numbers."""
    make_leaf(nodes, 0, 0, 0, rows.size, 0, unsampled_rows.size)
    n_nodes = n_leaves = np.int64(1)  # with a literal, callees would be compiled twice
    if columns.features.size == 0:
        return n_nodes, np.int64(0)
    owner = workspace.owner
    for slot in range(owner.size):
        owner[slot] = -1
    _assign_histogram_slot(nodes, 0, -1, owner)
    n_adds = _build_leaf_histogram(
        nodes, 0, columns, fused, rows, histogram_input, params, histogram_pool, workspace
    )
    _find_split_of_leaf(nodes, 0, columns, histogram_input, params, histogram_pool, workspace)
    while n_leaves < params.max_leaf_nodes:
        i = leaf_with_best_split(nodes, n_nodes)
        if i < 0:
            break
        node = nodes[i]
        a, b = n_nodes, n_nodes + 1
        middle = split_node(nodes, i, a, columns, rows, unsampled_rows, workspace)
        n_nodes += 2
        n_leaves += 1
        slot, node.slot = node.slot, -1
        if n_leaves == params.max_leaf_nodes or node.depth + 1 >= params.max_depth:
            if slot >= 0:
                owner[slot] = -1
            continue
        small, large = (a, b) if 2 * middle < node.start + node.stop else (b, a)
        if slot >= 0:
            nodes[large].slot, owner[slot] = slot, large
        else:
            _assign_histogram_slot(nodes, large, -1, owner)
            n_adds += _build_leaf_histogram(
                nodes,
                large,
                columns,
                fused,
                rows,
                histogram_input,
                params,
                histogram_pool,
                workspace,
            )
        _assign_histogram_slot(nodes, small, large, owner)
        n_adds += _build_leaf_histogram(
            nodes, small, columns, fused, rows, histogram_input, params, histogram_pool, workspace
        )
        if slot >= 0:
            subtract_histogram(histogram_pool[slot], histogram_pool[nodes[small].slot])
        for child in (a, b):
            _find_split_of_leaf(
                nodes, child, columns, histogram_input, params, histogram_pool, workspace
            )
    return n_nodes, n_adds
