"""Growing one tree without finishing the features that cannot win.

A feature is first counted on a node's heaviest rows alone. What those rows are wrong by under its
best split can only rise with more rows (Appel, 2017, proposition 3.2), so a feature whose error on
them exceeds the best error on all rows is left unfinished. A row's error is what it could be worth
at most, in a leaf of its own, less what it is worth: that is not negative, and a split's is the sum
over its rows at the leaves' best answers, which is all that the proposition needs. The tree is that
of `kernels.grow` to the last bit. Its small kernels stand here again because numba's disk cache
notices changes only in a kernel's own file.
"""

import numpy as np

from streamboost.kernels.jit import kernel

__all__ = ["grow"]

_ERROR = 3  # as in kernels.grow
_TIE = 1.0 + 1e-12  # likewise: a later split must be better by more than rounding
_FIRST = 0.9  # share of a node's weight on which every feature is counted
_STEPS = 20  # equal shares of the weight in which the rest follows


@kernel
def _score(sums, n, kind):
    """What a child with these sums is worth; its error is its weight less this."""
    if kind == _ERROR:
        value = sums[0]
        for k in range(1, n):
            value = max(value, sums[k])
        return value
    value, weight = 0.0, 0.0
    for k in range(n):
        value += sums[k] * sums[k]
        weight += sums[k]
    return value / weight if weight > 0.0 else 0.0


@kernel
def _mass(sums, n, kind):
    if kind == _ERROR:
        return np.inf
    total = 0.0
    for k in range(n):
        total += sums[k]
    return total


@kernel
def _scan(hist, first, n_bins, missing, kind, total, least, floor, left, right):
    """Return the best split above `floor` whose children weigh `least`."""
    best, best_bin, best_left = floor, -1, False
    n = total.size
    for side in range(2 if missing else 1):
        for k in range(n):
            left[k] = float(hist[(first + n_bins) * n + k]) if side == 1 else 0.0
        # With missing values on the right, all values on the left is a split too.
        last = n_bins if missing and side == 0 else n_bins - 1
        for b in range(last):
            at = (first + b) * n
            for k in range(n):
                left[k] += float(hist[at + k])
                right[k] = total[k] - left[k]
            if _mass(left, n, kind) < least:
                continue
            if _mass(right, n, kind) < least:
                break
            score = _score(left, n, kind) + _score(right, n, kind)
            if score > best + abs(best) * (_TIE - 1.0):
                best, best_bin, best_left = score, b, side == 1
    return best, best_bin, best_left


@kernel
def _schedule(heavy, start, stop, most, statistic, channel, least, ends, totals, worth):
    """Cut a node's rows into the parts that are counted one after the other.

    Writes where each part ends, and the sums and the most worth up to there; returns the number of
    parts. No part is shorter than `least`, or the node is one part: looking at a histogram costs as
    much as counting some rows, and looking more often would not win that back.
    """
    mass = np.int64(0)
    for i in range(start, stop):
        mass += most[heavy[i]]
    width = totals.shape[1]
    for k in range(width):
        totals[0, k] = 0.0
    n_parts, begin, so_far, wanted = 0, start, np.int64(0), _FIRST * mass
    for i in range(start, stop):
        r = heavy[i]
        if channel.size:
            totals[n_parts, channel[r]] += statistic[r]
        else:
            for k in range(width):
                totals[n_parts, k] += statistic[r * np.uint64(width) + np.uint64(k)]
        so_far += most[r]
        enough = so_far >= wanted and i + 1 - begin >= least and stop - i - 1 >= least
        if (enough and n_parts + 1 < ends.size) or i + 1 == stop:
            ends[n_parts], worth[n_parts] = i + 1, so_far
            n_parts += 1
            if i + 1 < stop:
                for k in range(width):
                    totals[n_parts, k] = totals[n_parts - 1, k]
            begin, wanted = i + 1, so_far + (1.0 - _FIRST) / _STEPS * mass
    return n_parts


@kernel
def _accumulate(hist, column, first, heavy, start, stop, statistic, channel, n):
    width = np.uint64(n)
    if channel.size:
        for i in range(start, stop):
            r = heavy[i]
            hist[(first + column[r]) * width + channel[r]] += statistic[r]
        return
    for i in range(start, stop):
        r = heavy[i]
        to, at = (first + column[r]) * width, r * width
        for k in range(width):
            hist[to + k] += statistic[at + k]


@kernel
def _best(
    node, codes, features, first, n_bins, missing, heavy, most, statistic, channel, lim, hist, ends,
    totals, work,
):  # fmt: skip
    """Find the node's best split; return the number of additions that took."""
    n, d, kind = lim.channels, features.size, lim.kind
    left, right = work[0], work[1]
    least = hist.size // (2 * d)
    worth = np.empty(ends.size, np.int64)
    n_parts = _schedule(
        heavy, node.start, node.stop, most, statistic, channel, least, ends, totals, worth
    )
    if n_parts == 0:
        return 0
    total = totals[n_parts - 1]
    if _mass(total, n, kind) < 2 * lim.min_child:
        return 0
    whole = _score(total, n, kind)
    # Beyond rounding, features within this of the best could still decide between near ties:
    # every candidate may move the best by up to a tie.
    slack = (_TIE - 1.0) * (hist.size // n * 2 + 16)

    hist[:] = 0
    bound = np.empty(d)
    mass = worth[n_parts - 1]
    for j in range(d):
        _accumulate(
            hist, codes[features[j]], first[j], heavy, node.start, ends[0], statistic, channel, n
        )
        bound[j] = (mass - worth[0]) + _worth(
            hist, first[j], n_bins[j], missing[j], kind, totals[0], left, right
        )
    adds = d * (ends[0] - node.start)
    best = whole
    finished = np.zeros(d, np.bool_)
    for j in np.argsort(-bound, kind="mergesort"):
        part = 1
        while part < n_parts and bound[j] >= best - abs(best) * slack:
            _accumulate(
                hist, codes[features[j]], first[j], heavy, ends[part - 1], ends[part], statistic,
                channel, n,
            )  # fmt: skip
            adds += ends[part] - ends[part - 1]
            part += 1
            if part < n_parts:
                bound[j] = (mass - worth[part - 1]) + _worth(
                    hist, first[j], n_bins[j], missing[j], kind, totals[part - 1], left, right
                )
        if part == n_parts:
            finished[j] = True
            bound[j], _, _ = _scan(
                hist, np.int64(first[j]), n_bins[j], missing[j], kind, total, lim.min_child, whole,
                left, right,
            )  # fmt: skip
            best = max(best, bound[j])
    # Among those that may have won, the first and lowest, as if all had been finished.
    least_worth, best = best - abs(best) * slack, whole
    for j in range(d):
        if finished[j] and bound[j] >= least_worth:
            score, bin_, side = _scan(
                hist, np.int64(first[j]), n_bins[j], missing[j], kind, total, lim.min_child, best,
                left, right,
            )  # fmt: skip
            if bin_ >= 0:
                best = score
                node.gain, node.feature, node.bin = score - whole, j, bin_
                node.missing_left = side
    return adds


@kernel
def _worth(hist, first, n_bins, missing, kind, total, left, right):
    """What a feature's best split makes of the rows counted so far, whose sums are `total`.

    All rows are worth no more than that and the most of those still to come. No limit binds the
    children here: under one, the error on fewer rows could be the larger.
    """
    whole = _score(total, total.size, kind)
    score, _, _ = _scan(
        hist, np.int64(first), n_bins, missing, kind, total, 0.0, whole, left, right
    )
    return score


@kernel
def _partition(rows, start, stop, column, node_bin, missing_left, missing_code, buffer):
    at, over = start, 0
    for i in range(start, stop):
        r = rows[i]
        code = column[r]
        goes_left = code <= node_bin or (missing_left and code == missing_code)
        rows[at] = r
        buffer[over] = r
        at += goes_left
        over += not goes_left
    for i in range(over):  # assigning a slice would take seconds to compile
        rows[at + i] = buffer[i]
    return at


@kernel
def _open_leaf(nodes, i, depth, start, stop, rest_start, rest_stop):
    node = nodes[i]
    node.gain, node.feature, node.bin, node.left, node.slot = 0.0, -1, -1, -1, -1
    node.depth, node.missing_left = depth, False
    node.start, node.stop = start, stop
    node.rest_start, node.rest_stop = rest_start, rest_stop


@kernel
def _best_leaf(nodes, n_nodes):
    best, at = 0.0, -1
    for i in range(n_nodes):
        if nodes[i].left < 0 and nodes[i].gain > best:
            best, at = nodes[i].gain, i
    return at


@kernel
def grow(
    codes, features, first, n_bins, missing, rows, heavy, rest, most, statistic, channel, limits,
    hist, nodes,
):  # fmt: skip
    """Grow one tree into `nodes` as `kernels.grow.grow` does, for GINI on class weights or ERROR.

    Shapes are that kernel's, and: `most` int64 (n,), what each row adds at most to the worth of a
    leaf, not negative; `heavy` uint32, the same rows as `rows`, those of much first; `hist` int64
    (bins x channels,), zeros not needed. Returns the number of nodes, and of additions to
    histograms.
    """
    lim = limits[0]
    buffer = np.empty(max(rows.size, rest.size), rows.dtype)
    ends = np.empty(_STEPS + 2, np.int64)
    totals = np.empty((_STEPS + 2, lim.channels))
    work = np.empty((2, lim.channels))
    _open_leaf(nodes, 0, 0, 0, rows.size, 0, rest.size)
    if features.size == 0:
        return 1, 0
    n_adds = _best(
        nodes[0], codes, features, first, n_bins, missing, heavy, most, statistic, channel, lim,
        hist, ends, totals, work,
    )  # fmt: skip
    n_nodes, n_leaves = 1, 1
    while n_leaves < lim.max_leaf_nodes:
        i = _best_leaf(nodes, n_nodes)
        if i < 0:
            break
        node = nodes[i]
        j = node.feature
        a, b = n_nodes, n_nodes + 1
        node.left = a
        column, cut, side, gone = codes[features[j]], node.bin, node.missing_left, n_bins[j]
        middle = _partition(rows, node.start, node.stop, column, cut, side, gone, buffer)
        _partition(heavy, node.start, node.stop, column, cut, side, gone, buffer)
        rest_middle = _partition(
            rest, node.rest_start, node.rest_stop, column, cut, side, gone, buffer
        )
        if not missing[j]:
            # Nothing was learned about missing values here: they follow the larger child.
            node.missing_left = 2 * middle >= node.start + node.stop
        _open_leaf(nodes, a, node.depth + 1, node.start, middle, node.rest_start, rest_middle)
        _open_leaf(nodes, b, node.depth + 1, middle, node.stop, rest_middle, node.rest_stop)
        n_nodes += 2
        n_leaves += 1
        if n_leaves == lim.max_leaf_nodes or node.depth + 1 >= lim.max_depth:
            continue
        for child in (a, b):
            n_adds += _best(
                nodes[child], codes, features, first, n_bins, missing, heavy, most, statistic,
                channel, lim, hist, ends, totals, work,
            )  # fmt: skip
    return n_nodes, n_adds
