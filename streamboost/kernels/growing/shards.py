"""Shard kernels: the steps of a SketchLogitBoost round on one shard, between all-reduces."""

import numpy as np

from streamboost.kernels.growing.nodes import CODES, partition, place_unseen, sides
from streamboost.kernels.growing.sketch import finish, weigh
from streamboost.kernels.growing.steps import advance, bounds, leaf_sums, leaf_values, mark
from streamboost.kernels.jit import kernel
from streamboost.kernels.softmax import scale_up

__all__ = ["follow", "scale", "settle", "step", "sum_up", "tell"]


@kernel
def follow(rows, direction, work, sums):
    """Update the probabilities by the last tree; write bounds of gradients and Hessians, (2,)."""
    P, y, weight = rows.probabilities, rows.y, rows.weight
    sums[0], sums[1] = advance(
        P, rows.leaf, rows.factors, direction, y, weight, work.gradient, work.hessian
    )


@kernel
def scale(rows, work, sums, wide):
    """Quantize gradients and Hessians with the global bounds; return the scale factors."""
    sum_g, sum_h = bounds(sums[0], sums[1])
    return scale_up(work.gradient, work.hessian, rows.weight, sum_g, sum_h, wide, work.statistic)


@kernel
def tell(tree, size, columns, rows, told):
    """Count the rows of each node, int64 (size,), followed by the rows of each category.

    Each node that splits a categorical feature has counts (256,), the rows of each category.
    `told` must contain zeros.
    """
    at = size
    for i in range(size):
        node = tree[i]
        told[i] = node.stop - node.start
        if node.left >= 0 and columns.categorical[node.feature]:
            column = columns.codes[columns.features[node.feature]]
            for r in range(node.start, node.stop):
                told[at + column[rows[r]]] += 1
            at += CODES


@kernel
def settle(tree, size, columns, told, rest, work):
    """Set the side of unseen missing values by the global counts, and partition the `rest` rows.

    The rules are those of `halve`, for a tree whose sampled rows are already partitioned.
    """
    at = size
    tree[0].rest_start, tree[0].rest_stop = 0, rest.size
    for i in range(size):
        node = tree[i]
        if node.left < 0:
            continue
        j = node.feature
        if not columns.missing[j]:
            node.missing_left = 2 * told[node.left] >= told[i]
        sides(node, columns.categorical[j], columns.n_bins[j], work.side)
        if columns.categorical[j]:
            if node.missing_left:
                for code in range(CODES):
                    work.seen[code] = told[at + code] > 0
                place_unseen(node, columns.n_bins[j], work.side, work.seen)
            at += CODES
        column = columns.codes[columns.features[j]]
        middle = partition(rest, node.rest_start, node.rest_stop, column, work.side, work.buffer)
        left, right = tree[node.left], tree[node.left + 1]
        left.rest_start, left.rest_stop = node.rest_start, middle
        right.rest_start, right.rest_stop = middle, node.rest_stop


@kernel
def sum_up(tree, size, columns, worth, rows, chosen, trained, rest, ends, sums, weights):
    """Finish the tree, and write the sums for its leaf values, and the weights of its leaves.

    `sums` is int64 (2, leaves, K), `weights` int64 (leaves,), and `ends` (4, leaves) a workspace.
    """
    finish(tree, size, columns.features, worth, ends)
    mark(trained, ends[0], ends[1], rows.leaf)
    mark(rest, ends[2], ends[3], rows.leaf)
    leaf_sums(rows.probabilities, rows.y, rows.weight, rows.leaf, chosen, sums[0], sums[1])
    order = np.concatenate((trained, rest))
    weigh(order, trained.size, rows.records, ends, weights)


@kernel
def step(rows, sums, l2, clamp, rate, values):
    """Write the leaf values float32 (leaves, K), and the factors that update probabilities."""
    leaf_values(sums[0], sums[1], l2, clamp, rate, values, rows.factors)
