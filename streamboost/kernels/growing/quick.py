"""Growing one tree without finishing the features that cannot win.

A feature is first counted on a node's heaviest rows alone. What those rows are wrong by under its
best split can only rise with more rows (Appel, 2017, proposition 3.2 and appendix 7.2), so a
feature whose error on them exceeds the best error on all rows is left unfinished. A row's error is
what it could be worth at most, in a leaf of its own, less what it is worth: that is not negative,
and a split's is the sum over its rows at the leaves' best answers, which is all that the
proposition needs. Of a row with gradient g and Hessian h it is h (g / h - f)^2 at the leaf's
answer f, the weighted variance of the appendix, and what it could be worth g^2 / h. The tree is
that of `growing.grow` to the last bit.
"""

from typing import Any, NamedTuple

import numpy as np

from streamboost.kernels.growing.criteria import (
    NEWTON,
    NEWTON_SUMS,
    TIE,
    mass,
    pairs_up,
    score,
)
from streamboost.kernels.growing.grow import room
from streamboost.kernels.growing.histograms import Columns, Statistic, add_packed, add_rows
from streamboost.kernels.growing.nodes import CODES, best_leaf, halve, open_leaf, partition
from streamboost.kernels.growing.splits import find_best, scan
from streamboost.kernels.jit import inner_kernel, kernel

__all__ = ["grow"]

_FIRST = 0.9  # share of a node's weight on which every feature is counted
_STEPS = 20  # equal shares of the weight in which the rest follows
_ABOVE = 1.0 + 1e-6  # a sum of as many rows as there can be is not rounded by more
_LOW = np.int64(0xFFFFFFFF)


class _Work(NamedTuple):
    """Room for what is known of a node and, d numbers each, of its features."""

    sums: np.ndarray  # LIMITS (1,), of sums that are not packed
    bins: np.ndarray  # int64 (2 x codes,): a packed feature's sums, apart
    ends: np.ndarray  # int64 (parts,): where each part of a node's rows ends
    totals: np.ndarray  # float64 (parts, sums): the rows' sums up to there
    rest: np.ndarray  # float64 (parts,): what the rows behind it are worth at most
    bound: np.ndarray  # float64 (d,): what the best split of a feature is worth at most
    finished: np.ndarray  # bool (d,): whether all rows are counted
    places: np.ndarray  # int64 (d,): the features that may have won,
    some: Columns  # and what there is to know of them
    room: Any  # that of `growing.grow`, for finding the split and parting the rows


@inner_kernel
def _add_to_total(r, statistic, lim, total):
    values, channel, width = statistic.values, statistic.channel, total.size
    if channel.size:
        total[channel[r]] += values[r]
    elif lim.kind == NEWTON:
        total[0] += values[r] >> 32
        total[1] += values[r] & _LOW
    else:
        for k in range(width):
            total[k] += values[r * np.uint64(width) + np.uint64(k)]


@inner_kernel
def _schedule(heavy, start, stop, most, statistic, lim, least, work):
    """Cut a node's rows into the parts that are counted one after the other.

    Writes where each part ends, the sums up to there, and the most that those behind it are worth;
    returns the number of parts. No part is shorter than `least`, or the node is one part: looking
    at a histogram costs as much as counting some rows, and looking more often would not win that
    back.
    """
    ends, totals, rest = work.ends, work.totals, work.rest
    whole = 0.0
    for i in range(start, stop):
        whole += most[heavy[i]]
    for k in range(totals.shape[1]):
        totals[0, k] = 0.0
    n_parts, begin, before, so_far, wanted = 0, start, 0.0, 0.0, _FIRST * whole
    for i in range(start, stop):
        _add_to_total(heavy[i], statistic, lim, totals[n_parts])
        so_far += most[heavy[i]]
        enough = before + so_far >= wanted and i + 1 - begin >= least and stop - i - 1 >= least
        if (enough and n_parts + 1 < ends.size) or i + 1 == stop:
            ends[n_parts], rest[n_parts] = i + 1, so_far
            n_parts += 1
            if i + 1 < stop:
                for k in range(totals.shape[1]):
                    totals[n_parts, k] = totals[n_parts - 1, k]
            before += so_far
            begin, so_far, wanted = i + 1, 0.0, before + (1.0 - _FIRST) / _STEPS * whole
    # From the end: the rows that matter least would be lost in the rounding of those that do most.
    behind = 0.0
    for part in range(n_parts - 1, -1, -1):
        behind, rest[part] = behind + rest[part], behind * _ABOVE
    return n_parts


@inner_kernel
def _add(hist, columns, j, end, heavy, start, stop, statistic, lim):
    """Count rows in the bins of the features from `j` to `end`."""
    codes, features, first = columns.codes, columns.features[j:end], columns.first[j:end]
    if lim.kind == NEWTON:
        add_packed(hist, codes, features, first, heavy, start, stop, statistic.values)
    else:
        add_rows(hist, codes, features, first, heavy, start, stop, statistic, lim.channels)


@inner_kernel
def _worth(hist, columns, j, lim, least, total, floor, work):
    """Return what the best split of feature `j` is worth whose children weigh `least`."""
    first, n_bins, missing = np.int64(columns.first[j]), columns.n_bins[j], columns.missing[j]
    if lim.kind == NEWTON:
        for b in range(n_bins + missing):
            packed = hist[first + b]
            work.bins[2 * b], work.bins[2 * b + 1] = packed >> 32, packed & _LOW
        hist, first = work.bins, np.int64(0)
    left, right = work.room.left, work.room.right
    worth, _, _ = scan(
        hist, first, n_bins, missing, work.sums[0], least, total, total, floor, left, right
    )
    return worth


@inner_kernel
def _bound(hist, columns, j, lim, part, work):
    """Return what feature `j` is worth at most, its rows being counted up to the end of `part`.

    What its best split makes of those, and the most of all others. No limit binds the children
    here: under one, the error on fewer rows could be the larger.
    """
    total = work.totals[part]
    worth = _worth(hist, columns, j, lim, 0.0, total, score(total, work.sums[0]), work)
    return work.rest[part] + worth


@kernel
def _finish(node, columns, heavy, statistic, lim, hist, n_parts, whole, slack, work):
    """Count the features that may win, the likeliest first, as far as they may.

    Returns the worth of the best split, and the number of additions.
    """
    ends, bound, total, d = work.ends, work.bound, work.totals[n_parts - 1], columns.features.size
    hist[:] = 0
    _add(hist, columns, 0, d, heavy, node.start, ends[0], statistic, lim)
    for j in range(d):
        bound[j] = _bound(hist, columns, j, lim, 0, work)
    adds = d * (ends[0] - node.start)
    best = whole
    work.finished[:] = False
    for j in np.argsort(-bound, kind="mergesort"):
        part = 1
        while part < n_parts and bound[j] >= best - abs(best) * slack:
            start, stop = ends[part - 1], ends[part]
            _add(hist, columns, j, j + 1, heavy, start, stop, statistic, lim)
            adds += stop - start
            if part + 1 < n_parts:
                bound[j] = _bound(hist, columns, j, lim, part, work)
            part += 1
        if part == n_parts:
            work.finished[j] = True
            bound[j] = _worth(hist, columns, j, lim, lim.min_child, total, whole, work)
            best = max(best, bound[j])
    return best, adds


@inner_kernel
def _choose(node, hist, columns, lim, totals, least_worth, work):
    """Write the best split of the features that may have won, as if all had been finished."""
    places, some, n = work.places, work.some, 0
    for j in range(columns.features.size):
        if work.finished[j] and work.bound[j] >= least_worth:
            places[n], some.features[n] = j, columns.features[j]
            some.n_bins[n], some.missing[n] = columns.n_bins[j], columns.missing[j]
            some.first[n] = columns.first[j] - columns.first[places[0]]
            n += 1
    if n == 0:
        return
    these = Columns(
        columns.codes,
        some.features[:n],
        some.first[:n],
        some.n_bins[:n],
        some.missing[:n],
        some.categorical[:n],
    )
    begin = np.int64(columns.first[places[0]]) * lim.channels
    find_best(node, hist[begin:], these, lim, totals, work.room)
    if node.gain > 0.0:
        node.feature = places[node.feature]


@kernel
def _find_best(node, columns, heavy, most, statistic, lim, hist, work):
    """Write the node's best split; return the number of additions that took."""
    least = hist.size // (2 * columns.features.size)
    n_parts = _schedule(heavy, node.start, node.stop, most, statistic, lim, least, work)
    if n_parts == 0:
        return 0
    total = work.totals[n_parts - 1]
    if mass(total, work.sums[0]) < 2 * lim.min_child:
        return 0
    whole = score(total, work.sums[0])
    # Beyond rounding, features within this of the best could still decide between near ties:
    # every candidate may move the best by up to a tie, and Newton's worth is a difference.
    slack = (TIE - 1.0) * (hist.size // lim.channels * 2 + 16)
    if lim.kind == NEWTON or lim.kind == NEWTON_SUMS:
        slack += 1e-7
    best, adds = _finish(node, columns, heavy, statistic, lim, hist, n_parts, whole, slack, work)
    _choose(node, hist, columns, lim, statistic.totals, best - abs(best) * slack, work)
    return adds


@kernel
def _make_room(columns, sums, lim, n_bins, n_rows):
    d, n, n_splits = columns.features.size, sums[0].channels, 0
    if lim.kind == NEWTON or pairs_up(lim):
        n_splits = 2 * n_bins
    return _Work(
        sums,
        np.empty(2 * CODES, np.int64),
        np.empty(_STEPS + 2, np.int64),
        np.empty((_STEPS + 2, n)),
        np.empty(_STEPS + 2),
        np.empty(d),
        np.empty(d, np.bool_),
        np.empty(d, np.int64),
        Columns(
            columns.codes,
            columns.features.copy(),
            columns.first.copy(),
            columns.n_bins.copy(),
            columns.missing.copy(),
            columns.categorical,
        ),
        room(n, 0, n_splits, d, n_rows, 0),
    )


@kernel
def grow(
    codes, features, first, n_bins, missing, rows, heavy, rest, most, values, channel, limits,
    hist, nodes,
):  # fmt: skip
    """Grow one tree into `nodes` as `growing.grow` does: ERROR, Newton's, or of class weights.

    Shapes are that kernel's, and: `most` float64 (n,), what each row adds at most to the worth of a
    leaf, not negative, nor infinite; `heavy` uint32, the same rows as `rows`, those of much first;
    `hist` int64 (bins x channels,), zeros not needed. Returns the number of nodes, and of additions
    to histograms.
    """
    open_leaf(nodes, 0, 0, 0, rows.size, 0, rest.size)
    if features.size == 0:
        return 1, 0
    lim = limits[0]
    columns = Columns(codes, features, first, n_bins, missing, np.zeros(features.size, np.bool_))
    statistic = Statistic(values, channel, np.empty(0))
    apart = limits.copy()
    if lim.kind == NEWTON:
        apart[0].kind, apart[0].channels = NEWTON_SUMS, 2
    work = _make_room(columns, apart, lim, hist.size, max(rows.size, rest.size))
    n_adds = _find_best(nodes[0], columns, heavy, most, statistic, lim, hist, work)
    n_nodes, n_leaves = 1, 1
    while n_leaves < lim.max_leaf_nodes:
        i = best_leaf(nodes, n_nodes)
        if i < 0:
            break
        node = nodes[i]
        halve(nodes, i, n_nodes, columns, rows, rest, work.room)
        column = codes[features[node.feature]]
        partition(heavy, node.start, node.stop, column, work.room.side, work.room.buffer)
        n_nodes += 2
        n_leaves += 1
        if n_leaves == lim.max_leaf_nodes or node.depth + 1 >= lim.max_depth:
            continue
        for child in (n_nodes - 2, n_nodes - 1):
            n_adds += _find_best(nodes[child], columns, heavy, most, statistic, lim, hist, work)
    return n_nodes, n_adds
