"""The rounds of the sketch, many in one call: of few rows, Python between kernels took longer."""

from typing import NamedTuple

import numpy as np

from streamboost.kernels.growing.criteria import NEWTON
from streamboost.kernels.growing.grow import grow_tree, room
from streamboost.kernels.growing.histograms import Columns, Statistic, join
from streamboost.kernels.growing.nodes import CODES
from streamboost.kernels.jit import inner_kernel, kernel
from streamboost.kernels.softmax import follow, leaf_newton, project, scale_up

__all__ = ["Drawn", "Grown", "Rows", "boost"]


class Rows(NamedTuple):
    """The n rows of a training; their scores and probabilities follow the trees."""

    y: np.ndarray  # uint32 (n,)
    weight: np.ndarray  # float32 (n,)
    scores: np.ndarray  # float32 (n, K)
    probabilities: np.ndarray  # float32 (n, K)


class Drawn(NamedTuple):
    """What chance decides in each round."""

    directions: np.ndarray  # float32 (rounds, K)
    features: np.ndarray  # uint32 (rounds, d), ascending; or (1, d), the same in each round
    chosen: np.ndarray  # bool (rounds, n): the rows to train on; or (0, n), all in each round


class Grown(NamedTuple):
    """Room for a tree a round, one behind the other."""

    nodes: np.ndarray  # NODE; their features are those of the codes
    sizes: np.ndarray  # int64 (rounds,): nodes of each tree
    values: np.ndarray  # float32 (leaves, K)


class _Work(NamedTuple):
    order: np.ndarray  # uint32 (n,): the rows, those to train on first
    gradient: np.ndarray  # float32 (n,)
    hessian: np.ndarray  # float32 (n,)
    ends: np.ndarray  # int64 (4, leaves): each one's start and stop in its rows, and in the rest
    steps: np.ndarray  # float64 (leaves, K)


@kernel
def boost(coded, rows, drawn, limits, rate, clamp, done, pool, grown):
    """Grow a tree for each round drawn; return the additions to histograms.

    `limits` (1,) LIMITS are in the user's units, and are scaled for each tree; `rate` scales the
    leaf values, once they are clamped; `done` rounds were grown before; `pool` int64 (leaves, bins
    x channels), zeros not needed.
    """
    lim = limits[0]
    most, least, l2 = lim.max_leaf_nodes, lim.min_child, lim.l2
    work, statistic = _room(rows, lim)
    n_codes, n_features = CODES if coded.categorical.any() else 0, drawn.features.shape[1]
    growing = room(lim.channels, n_codes, 2 * pool.shape[1], n_features, work.order.size)
    columns, joint = _offer(coded, drawn.features[0], lim)
    at, n_leaves, n_adds = 0, 0, 0
    for m in range(drawn.directions.shape[0]):
        if 0 < m < drawn.features.shape[0]:
            columns, joint = _offer(coded, drawn.features[m], lim)
        n_rows = _deal(drawn.chosen, m, work.order)
        scale = _write_statistic(rows, drawn.directions[m], lim, work, statistic)
        lim.min_child, lim.l2 = max(1.0, least * scale), l2 * scale
        trained, rest = work.order[:n_rows], work.order[n_rows:]
        nodes = grown.nodes[at : at + 2 * most - 1]
        size = grow_tree(columns, trained, rest, statistic, lim, pool, nodes, joint, growing)
        values = grown.values[n_leaves : n_leaves + (size + 1) // 2]
        n_adds += n_features * _finish(nodes, size, columns.features, work.ends)
        _add_leaves(rows, trained, rest, l2, rate, clamp, done + m + 1, work, values)
        grown.sizes[m] = size
        at += size
        n_leaves += values.shape[0]
    return n_adds


@kernel
def _room(rows, limits):
    n, n_classes = rows.scores.shape
    n_leaves = limits.max_leaf_nodes
    return _Work(
        np.empty(n, np.uint32),
        np.empty(n, np.float32),
        np.empty(n, np.float32),
        np.empty((4, n_leaves), np.int64),
        np.empty((n_leaves, n_classes)),
    ), Statistic(np.empty(n * limits.channels, np.int64), np.empty(0, np.uint32), np.empty(0))


@kernel
def _offer(coded, features, limits):
    """Return the columns of these features, and which of them are counted together."""
    n = features.size
    n_bins, missing = coded.n_bins[features], coded.missing[features]
    widths = (n_bins + missing).astype(np.uint64)
    first, end = np.empty(n, np.uint64), np.uint64(0)
    for j in range(n):
        first[j] = end
        end += widths[j]
    columns = Columns(
        coded.codes, features, first, n_bins, missing, coded.categorical[features]
    )
    return columns, join(columns, widths[: n if limits.kind == NEWTON else 0])


@inner_kernel
def _deal(chosen, m, order):
    """Write the rows to `order`, those to train on in round `m` first; return how many these are."""
    n_rows = order.size
    if chosen.shape[0] > 0:
        n_rows = np.int64(0)
        for i in range(order.size):
            n_rows += chosen[m, i]
    at, rest = 0, n_rows
    for i in range(order.size):
        if chosen.shape[0] == 0 or chosen[m, i]:
            order[at] = i
            at += 1
        else:
            order[rest] = i
            rest += 1
    return n_rows


@kernel
def _write_statistic(rows, direction, limits, work, statistic):
    """Write what each row adds to the tree along `direction`; return the scale of Hessians."""
    args = rows.probabilities, rows.y, rows.weight
    sum_g, sum_h = project(*args, direction, work.gradient, work.hessian)
    wide = limits.kind != NEWTON
    _, scale = scale_up(
        work.gradient, work.hessian, rows.weight, sum_g, sum_h, wide, statistic.values
    )
    return scale


@inner_kernel
def _finish(nodes, size, features, ends):
    """Name the nodes' features as the codes do, write the leaves' `ends`, return rows counted."""
    leaf, counted = 0, nodes[0].stop - nodes[0].start if nodes[0].slot >= 0 else 0
    for i in range(size):
        node = nodes[i]
        if node.left < 0:
            ends[0, leaf], ends[1, leaf] = node.start, node.stop
            ends[2, leaf], ends[3, leaf] = node.rest_start, node.rest_stop
            leaf += 1
            continue
        node.feature = features[node.feature]
        a, b = nodes[node.left], nodes[node.left + 1]
        if a.slot >= 0:  # the last pairs are leaves, and not counted
            counted += min(a.stop - a.start, b.stop - b.start)
    return counted


@kernel
def _add_leaves(rows, trained, rest, l2, rate, clamp, n_rounds, work, values):
    """Write the leaf values, and add them to the rows' scores and probabilities."""
    n, scores, P = values.shape[0], rows.scores, rows.probabilities
    start, stop, steps = work.ends[0, :n], work.ends[1, :n], work.steps[:n]
    leaf_newton(P, rows.y, rows.weight, trained, start, stop, l2, clamp, steps)
    for leaf in range(n):
        for k in range(values.shape[1]):
            values[leaf, k] = rate * steps[leaf, k]
    rest_ends = work.ends[2, :n], work.ends[3, :n]
    follow(scores, P, trained, (start, stop), rest, rest_ends, values, n_rounds)
