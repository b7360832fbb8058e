"""Rounds of SketchLogitBoost, many in one call, to avoid the overhead of Python on few rows."""

from typing import NamedTuple

import numpy as np

from streamboost.kernels.growing.criteria import NEWTON
from streamboost.kernels.growing.grow import allocate_workspace, grow_tree_in_workspace
from streamboost.kernels.growing.histograms import (
    FeatureSubset,
    HistogramInputArrays,
    fuse_features,
)
from streamboost.kernels.growing.nodes import CODES
from streamboost.kernels.growing.steps import (
    gradient_bounds_to_float,
    leaf_gradient_sums,
    leaf_values,
    update_gradients,
    write_row_leaves,
)
from streamboost.kernels.jit import inner_kernel, kernel
from streamboost.kernels.softmax import quantize_without_overflow


class SketchRows(NamedTuple):
    """Training rows with their class probabilities, which a round updates by the tree before it."""

    y: np.ndarray  # uint32 (n,)
    weight: np.ndarray  # float32 (n,), in lots of records
    probabilities: np.ndarray  # float32 (n, K)
    leaf: np.ndarray  # uint16 (n,): the leaf of each row in the last tree
    factors: np.ndarray  # float32 (leaves, K): the exponentials of the leaf values
    records: np.ndarray  # int64 (n,), or (1,) if equal: weights, also if 0 in float32

    def slice_rows(self, rows: slice) -> "SketchRows":
        """Return the rows of the slice `rows`, as the rows of one shard."""
        records = self.records if self.records.size < self.y.size else self.records[rows]
        of_each = self.y[rows], self.weight[rows], self.probabilities[rows], self.leaf[rows]
        return SketchRows(*of_each, self.factors.copy(), records)


class RandomDraws(NamedTuple):
    """Random draws for each boosting round: a vector over the classes, features and rows."""

    directions: np.ndarray  # float32 (rounds, K)
    features: np.ndarray  # uint32 (rounds, d), ascending; or (1, d), the same in each round
    chosen: np.ndarray  # bool (rounds, n): the rows to train on; or (0, n), all in each round


class GrownTrees(NamedTuple):
    """Grown trees of several rounds, one tree per round; each array holds all trees."""

    nodes: np.ndarray  # NODE; features are column indices, and gains are in lots of records
    sizes: np.ndarray  # int64 (rounds,): number of nodes of each tree
    values: np.ndarray  # float32 (leaves, K)
    weights: np.ndarray  # int64 (leaves,): total weight, in the units of `SketchRows.records`


class RoundWorkspace(NamedTuple):
    """Reusable arrays of a boosting round."""

    order: np.ndarray  # uint32 (n,): the rows, sampled rows first
    gradient: np.ndarray  # float32 (n,)
    hessian: np.ndarray  # float32 (n,)
    histogram_input: np.ndarray  # int64 (n x channels,)
    pool: np.ndarray  # int64 (slots, bins x channels); see `grow_tree`
    ends: np.ndarray  # int64 (4, leaves): range of each leaf in sampled rows, then in others
    sums: np.ndarray  # int64 (2, leaves, K): gradient and Hessian sums of the leaves


@kernel
def boost_rounds(binned, rows, draws, params, rate, clamp, workspace, trees):
    """Grow a tree for each round in `draws`; return the number of additions to histograms.

    `params` TREE_PARAMS (1,) are the tree's criterion and limits, in the unit of `rows.weight`.
    `clamp` bounds the Newton step of a leaf, which is then multiplied by `rate`.
    """
    lim, P, y, weight = params[0], rows.probabilities, rows.y, rows.weight
    most, least, l2, is_unpacked = lim.max_leaf_nodes, lim.min_child, lim.l2, lim.kind != NEWTON
    g, h, ends, leaf = workspace.gradient, workspace.hessian, workspace.ends, rows.leaf
    d, (slots, width) = draws.features.shape[1], workspace.pool.shape
    growing = allocate_workspace(lim.channels, np.int64(CODES), 2 * width, d, y.size, slots)
    histogram_input = HistogramInputArrays(workspace.histogram_input, y[:0], np.empty(0))
    columns, joint = select_features(binned, draws.features[0], is_unpacked)
    at, n_leaves, n_adds = 0, 0, 0
    for m in range(draws.directions.shape[0]):
        if 0 < m < draws.features.shape[0]:
            columns, joint = select_features(binned, draws.features[m], is_unpacked)
        chosen = draws.chosen[m] if draws.chosen.shape[0] > 0 else draws.chosen.ravel()
        n_rows = write_sampled_rows_first(chosen, workspace.order)
        trained, rest = workspace.order[:n_rows], workspace.order[n_rows:]
        given = P, leaf, rows.factors, draws.directions[m], y, weight, g, h
        sum_g, sum_h = gradient_bounds_to_float(*update_gradients(*given))
        scale_g, scale_h = quantize_without_overflow(
            g, h, weight, sum_g, sum_h, is_unpacked, workspace.histogram_input
        )
        lim.min_child, lim.l2 = max(1.0, least * scale_h), l2 * scale_h
        nodes = trees.nodes[at : at + 2 * most - 1]
        size, counted = grow_tree_in_workspace(
            columns, trained, rest, histogram_input, lim, workspace.pool, nodes, joint, growing
        )
        convert_grown_nodes(nodes, size, columns.features, scale_h / scale_g / scale_g, ends)
        k = (size + 1) // 2
        write_row_leaves(trained, ends[0, :k], ends[1, :k], leaf)
        write_row_leaves(rest, ends[2, :k], ends[3, :k], leaf)
        first, second = workspace.sums[0, :k], workspace.sums[1, :k]
        leaf_gradient_sums(P, y, weight, leaf, chosen, first, second)
        values = trees.values[n_leaves : n_leaves + k]
        leaf_values(first, second, l2, clamp, rate, values, rows.factors)
        sum_leaf_weights(
            workspace.order, n_rows, rows.records, ends, trees.weights[n_leaves : n_leaves + k]
        )
        trees.sizes[m] = size
        at, n_leaves, n_adds = at + size, n_leaves + k, n_adds + counted
    return n_adds


@kernel
def select_features(binned, features, is_unpacked):
    """Return a `FeatureSubset` of `features`, and a `FusedHistogram` of its features with few bins.

    `features` are column indices. If `is_unpacked`, gradients and Hessians are not packed in one
    int64, and no features are fused.
    """
    n = features.size
    first, n_bins = np.empty(n, np.uint64), np.empty(n, np.int64)
    missing, categorical = np.empty(n, np.bool_), np.empty(n, np.bool_)
    widths, end = np.empty(0 if is_unpacked else n, np.uint64), np.uint64(0)
    for j in range(n):
        f = features[j]
        first[j], n_bins[j] = end, binned.n_bins[f]
        missing[j], categorical[j] = binned.missing[f], binned.categorical[f]
        width = np.uint64(n_bins[j] + missing[j])
        end += width
        if not is_unpacked:
            widths[j] = width
    columns = FeatureSubset(binned.codes, features, first, n_bins, missing, categorical)
    return columns, fuse_features(columns, widths)


@kernel
def write_sampled_rows_first(is_sampled, order):
    """Write all row indices to `order`, sampled rows first; return the number of sampled rows."""
    n_rows = order.size
    if is_sampled.size > 0:
        n_rows = np.int64(0)
        for i in range(order.size):
            n_rows += is_sampled[i]
    at, rest = 0, n_rows
    for i in range(order.size):
        if is_sampled.size == 0 or is_sampled[i]:
            order[at] = i
            at += 1
        else:
            order[rest] = i
            rest += 1
    return n_rows


@inner_kernel
def convert_grown_nodes(nodes, n_nodes, features, gain_unit, ends):
    """Write the row ranges of the leaves to `ends` (4, leaves), and convert `nodes` for the forest.

    Indices in `features` become column indices, and gains are multiplied by `gain_unit`.
    """
    leaf = 0
    for i in range(n_nodes):
        node = nodes[i]
        if node.left < 0:
            ends[0, leaf], ends[1, leaf] = node.start, node.stop
            ends[2, leaf], ends[3, leaf] = node.unsampled_start, node.unsampled_stop
            leaf += 1
            continue
        node.feature = features[node.feature]
        node.gain *= gain_unit


@inner_kernel
def sum_leaf_weights(order, n_sampled_rows, records, ends, weights):
    """Write the total weight of all rows of each leaf, sampled or not, to `weights` int64."""
    for leaf in range(weights.size):
        total = np.int64(0)
        if records.size == 1:
            n_sampled, n_others = ends[1, leaf] - ends[0, leaf], ends[3, leaf] - ends[2, leaf]
            weights[leaf] = records[0] * (n_sampled + n_others)
            continue
        for i in range(ends[0, leaf], ends[1, leaf]):
            total += records[order[i]]
        for i in range(n_sampled_rows + ends[2, leaf], n_sampled_rows + ends[3, leaf]):
            total += records[order[i]]
        weights[leaf] = total
