"""Shard kernels: steps of a SketchLogitBoost round on one row shard, between all-reduces."""

import numpy as np

from streamboost.kernels.growing.nodes import (
    CODES,
    mark_left_bins,
    partition_rows,
    send_unseen_categories_left,
)
from streamboost.kernels.growing.sketch import convert_grown_nodes, sum_leaf_weights
from streamboost.kernels.growing.steps import (
    gradient_bounds_to_float,
    leaf_gradient_sums,
    leaf_values,
    update_gradients,
    write_row_leaves,
)
from streamboost.kernels.jit import kernel
from streamboost.kernels.softmax import quantize_without_overflow


@kernel
def update_and_bound_gradients(rows, direction, workspace, sums):
    """Update the probabilities by the last tree; compute gradients and Hessians of this shard.

    Writes bounds of the sums of |gradient| and of Hessians to `sums` (2,), for an all-reduce.
    """
    P, y, weight = rows.probabilities, rows.y, rows.weight
    sums[0], sums[1] = update_gradients(
        P, rows.leaf, rows.factors, direction, y, weight, workspace.gradient, workspace.hessian
    )


@kernel
def quantize_gradients(rows, workspace, sums, is_unpacked):
    """Convert gradients and Hessians to integers in the workspace, and return both scales.

    `sums` (2,) are the bounds of `update_and_bound_gradients`, summed over all shards.
    `is_unpacked` is as in `softmax.quantize`.
    """
    sum_g, sum_h = gradient_bounds_to_float(sums[0], sums[1])
    return quantize_without_overflow(
        workspace.gradient,
        workspace.hessian,
        rows.weight,
        sum_g,
        sum_h,
        is_unpacked,
        workspace.histogram_input,
    )


@kernel
def count_node_rows(tree, n_nodes, columns, rows, counts):
    """Write the number of this shard's rows in each node of the tree to `counts[:n_nodes]`, int64.

    The entries after the first `n_nodes` are 256 counts for each node that splits a categorical
    feature: the number of rows with each category. `counts` must contain zeros before the call.
    """
    at = n_nodes
    for i in range(n_nodes):
        node = tree[i]
        counts[i] = node.stop - node.start
        if node.left >= 0 and columns.categorical[node.feature]:
            column = columns.codes[columns.features[node.feature]]
            for r in range(node.start, node.stop):
                counts[at + column[rows[r]]] += 1
            at += CODES


@kernel
def partition_unsampled_rows(tree, n_nodes, columns, counts, unsampled, workspace):
    """Sort the unsampled rows of this shard by leaf of the tree, and set their ranges in its nodes.

    `counts` are those of `count_node_rows`, summed over all shards. They decide to which side
    missing values and absent categories go, by the rules of `split_node`.
    """
    at = n_nodes
    tree[0].unsampled_start, tree[0].unsampled_stop = 0, unsampled.size
    for i in range(n_nodes):
        node = tree[i]
        if node.left < 0:
            continue
        j = node.feature
        if not columns.missing[j]:
            node.missing_left = 2 * counts[node.left] >= counts[i]
        mark_left_bins(node, columns.categorical[j], columns.n_bins[j], workspace.side)
        if columns.categorical[j]:
            if node.missing_left:
                for code in range(CODES):
                    workspace.seen[code] = counts[at + code] > 0
                send_unseen_categories_left(node, columns.n_bins[j], workspace.side, workspace.seen)
            at += CODES
        column = columns.codes[columns.features[j]]
        middle = partition_rows(
            unsampled,
            node.unsampled_start,
            node.unsampled_stop,
            column,
            workspace.side,
            workspace.buffer,
        )
        left, right = tree[node.left], tree[node.left + 1]
        left.unsampled_start, left.unsampled_stop = node.unsampled_start, middle
        right.unsampled_start, right.unsampled_stop = middle, node.unsampled_stop


@kernel
def write_row_leaves_and_leaf_sums(
    tree, n_nodes, columns, gain_unit, rows, is_sampled, sampled, unsampled, ends, sums, weights
):
    """Write the leaf of each row of this shard to `rows.leaf`, and sums over the rows of each leaf.

    `sums` int64 (2, leaves, K) gets the gradient and Hessian sums of the rows that `is_sampled`
    marks, and `weights` int64 (leaves,) the total weights of all rows. `gain_unit` multiplies the
    gains of the nodes, and `ends` (4, leaves) is a workspace.
    """
    convert_grown_nodes(tree, n_nodes, columns.features, gain_unit, ends)
    write_row_leaves(sampled, ends[0], ends[1], rows.leaf)
    write_row_leaves(unsampled, ends[2], ends[3], rows.leaf)
    leaf_gradient_sums(
        rows.probabilities, rows.y, rows.weight, rows.leaf, is_sampled, sums[0], sums[1]
    )
    order = np.concatenate((sampled, unsampled))
    sum_leaf_weights(order, sampled.size, rows.records, ends, weights)


@kernel
def write_leaf_values(rows, sums, l2, clamp, rate, values):
    """Write the leaf values float32 (leaves, K) from `sums`, and exponentials to `rows.factors`.

    `sums` are those of `write_row_leaves_and_leaf_sums`, summed over all shards. The other
    arguments are those of `steps.leaf_values`.
    """
    leaf_values(sums[0], sums[1], l2, clamp, rate, values, rows.factors)
