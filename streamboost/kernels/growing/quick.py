"""Growing one tree without finishing the features that cannot win.

A feature is first counted on a node's heaviest rows alone. What those rows are wrong by under its
best split can only rise with more rows (Appel, 2017, proposition 3.2), so a feature whose error on
them exceeds the best error on all rows is left unfinished. A row's error is what it could be worth
at most, in a leaf of its own, less what it is worth: that is not negative, and a split's is the sum
over its rows at the leaves' best answers, which is all that the proposition needs. The tree is that
of `growing.grow` to the last bit.
"""

from typing import NamedTuple

import numpy as np

from streamboost.kernels.growing.criteria import TIE, mass, score
from streamboost.kernels.growing.histograms import Columns, Statistic, add_rows
from streamboost.kernels.growing.nodes import CODES, best_leaf, halve, open_leaf, partition
from streamboost.kernels.growing.splits import scan
from streamboost.kernels.jit import inner_kernel, kernel

__all__ = ["grow"]

_FIRST = 0.9  # share of a node's weight on which every feature is counted
_STEPS = 20  # equal shares of the weight in which the rest follows


class _Work(NamedTuple):
    """Room for what is known of a node and, d numbers each, of its features."""

    left: np.ndarray  # float64 (channels,): sums
    right: np.ndarray
    ends: np.ndarray  # int64 (parts,): where each part of a node's rows ends
    totals: np.ndarray  # float64 (parts, channels): the rows' sums up to there
    worth: np.ndarray  # int64 (parts,): what they are worth at most
    bound: np.ndarray  # float64 (d,): what the best split of a feature is worth at most
    finished: np.ndarray  # bool (d,): whether all rows are counted
    side: np.ndarray  # uint8 (256,): 1 for codes that go left
    seen: np.ndarray  # of categories, which there are none of
    buffer: np.ndarray  # uint32: rows on their way to the right


@inner_kernel
def _schedule(heavy, start, stop, most, statistic, least, work):
    """Cut a node's rows into the parts that are counted one after the other.

    Writes where each part ends, and the sums and the most worth up to there; returns the number of
    parts. No part is shorter than `least`, or the node is one part: looking at a histogram costs as
    much as counting some rows, and looking more often would not win that back.
    """
    values, channel, ends, totals = statistic.values, statistic.channel, work.ends, work.totals
    whole = np.int64(0)
    for i in range(start, stop):
        whole += most[heavy[i]]
    width = totals.shape[1]
    for k in range(width):
        totals[0, k] = 0.0
    n_parts, begin, so_far, wanted = 0, start, np.int64(0), _FIRST * whole
    for i in range(start, stop):
        r = heavy[i]
        if channel.size:
            totals[n_parts, channel[r]] += values[r]
        else:
            for k in range(width):
                totals[n_parts, k] += values[r * np.uint64(width) + np.uint64(k)]
        so_far += most[r]
        enough = so_far >= wanted and i + 1 - begin >= least and stop - i - 1 >= least
        if (enough and n_parts + 1 < ends.size) or i + 1 == stop:
            ends[n_parts], work.worth[n_parts] = i + 1, so_far
            n_parts += 1
            if i + 1 < stop:
                for k in range(width):
                    totals[n_parts, k] = totals[n_parts - 1, k]
            begin, wanted = i + 1, so_far + (1.0 - _FIRST) / _STEPS * whole
    return n_parts


@inner_kernel
def _scan(hist, columns, j, lim, least, total, floor, work):
    first, n_bins, missing = np.int64(columns.first[j]), columns.n_bins[j], columns.missing[j]
    return scan(
        hist, first, n_bins, missing, lim, least, total, total, floor, work.left, work.right
    )


@inner_kernel
def _bound(hist, columns, j, lim, n_parts, part, work):
    """Return what feature `j` is worth at most, its rows being counted up to the end of `part`.

    What its best split makes of those, and the most of all others. No limit binds the children
    here: under one, the error on fewer rows could be the larger.
    """
    total = work.totals[part]
    worth, _, _ = _scan(hist, columns, j, lim, 0.0, total, score(total, lim), work)
    return (work.worth[n_parts - 1] - work.worth[part]) + worth


@kernel
def _finish(node, columns, heavy, statistic, lim, hist, n_parts, whole, slack, work):
    """Count the features that may win, the likeliest first, as far as they may.

    Returns the worth of the best split, and the number of additions.
    """
    codes, features, first = columns.codes, columns.features, columns.first
    n, ends, bound, total = lim.channels, work.ends, work.bound, work.totals[n_parts - 1]
    hist[:] = 0
    add_rows(hist, codes, features, first, heavy, node.start, ends[0], statistic, n)
    for j in range(features.size):
        bound[j] = _bound(hist, columns, j, lim, n_parts, 0, work)
    adds = features.size * (ends[0] - node.start)
    best = whole
    work.finished[:] = False
    for j in np.argsort(-bound, kind="mergesort"):
        one, its_first, part = features[j : j + 1], first[j : j + 1], 1
        while part < n_parts and bound[j] >= best - abs(best) * slack:
            start, stop = ends[part - 1], ends[part]
            add_rows(hist, codes, one, its_first, heavy, start, stop, statistic, n)
            adds += stop - start
            if part + 1 < n_parts:
                bound[j] = _bound(hist, columns, j, lim, n_parts, part, work)
            part += 1
        if part == n_parts:
            work.finished[j] = True
            bound[j], _, _ = _scan(hist, columns, j, lim, lim.min_child, total, whole, work)
            best = max(best, bound[j])
    return best, adds


@kernel
def _find_best(node, columns, heavy, most, statistic, lim, hist, work):
    """Write the node's best split; return the number of additions that took."""
    d = columns.features.size
    least = hist.size // (2 * d)
    n_parts = _schedule(heavy, node.start, node.stop, most, statistic, least, work)
    if n_parts == 0:
        return 0
    total = work.totals[n_parts - 1]
    if mass(total, lim) < 2 * lim.min_child:
        return 0
    whole = score(total, lim)
    # Beyond rounding, features within this of the best could still decide between near ties:
    # every candidate may move the best by up to a tie.
    slack = (TIE - 1.0) * (hist.size // lim.channels * 2 + 16)
    best, adds = _finish(node, columns, heavy, statistic, lim, hist, n_parts, whole, slack, work)
    # Among those that may have won, the first and lowest, as if all had been finished.
    least_worth, best = best - abs(best) * slack, whole
    for j in range(d):
        if work.finished[j] and work.bound[j] >= least_worth:
            worth, bin_, side = _scan(hist, columns, j, lim, lim.min_child, total, best, work)
            if bin_ >= 0:
                best = worth
                node.gain, node.feature, node.bin = worth - whole, j, bin_
                node.missing_left = side
    return adds


@kernel
def _room(n, d, n_rows):
    return _Work(
        np.empty(n),
        np.empty(n),
        np.empty(_STEPS + 2, np.int64),
        np.empty((_STEPS + 2, n)),
        np.empty(_STEPS + 2, np.int64),
        np.empty(d),
        np.empty(d, np.bool_),
        np.empty(CODES, np.uint8),
        np.empty(0, np.bool_),
        np.empty(n_rows, np.uint32),
    )


@kernel
def grow(
    codes, features, first, n_bins, missing, rows, heavy, rest, most, values, channel, limits,
    hist, nodes,
):  # fmt: skip
    """Grow one tree into `nodes` as `growing.grow` does, for ERROR, or class weights of any kind.

    Shapes are that kernel's, and: `most` int64 (n,), what each row adds at most to the worth of a
    leaf, not negative; `heavy` uint32, the same rows as `rows`, those of much first; `hist` int64
    (bins x channels,), zeros not needed. Returns the number of nodes, and of additions to
    histograms.
    """
    open_leaf(nodes, 0, 0, 0, rows.size, 0, rest.size)
    if features.size == 0:
        return 1, 0
    lim = limits[0]
    columns = Columns(codes, features, first, n_bins, missing, np.zeros(features.size, np.bool_))
    statistic = Statistic(values, channel, np.empty(0))
    work = _room(lim.channels, features.size, max(rows.size, rest.size))
    n_adds = _find_best(nodes[0], columns, heavy, most, statistic, lim, hist, work)
    n_nodes, n_leaves = 1, 1
    while n_leaves < lim.max_leaf_nodes:
        i = best_leaf(nodes, n_nodes)
        if i < 0:
            break
        node = nodes[i]
        halve(nodes, i, n_nodes, columns, rows, rest, work)
        column = codes[features[node.feature]]
        partition(heavy, node.start, node.stop, column, work.side, work.buffer)
        n_nodes += 2
        n_leaves += 1
        if n_leaves == lim.max_leaf_nodes or node.depth + 1 >= lim.max_depth:
            continue
        for child in (n_nodes - 2, n_nodes - 1):
            n_adds += _find_best(nodes[child], columns, heavy, most, statistic, lim, hist, work)
    return n_nodes, n_adds
