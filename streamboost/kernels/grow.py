"""Growing one tree, best leaf first: histograms, split search and partition.

These kernels call each other and so live in one file: numba's disk cache notices changes only in
a kernel's own file. A row's statistic is a whole number (see `trees.grower`), so a histogram is
exact: the same for any order of the rows, and a sibling is the parent less the other child.
"""

import numpy as np

from streamboost.kernels.jit import kernel

__all__ = ["GINI", "LIMITS", "NEWTON", "NEWTON_WIDE", "NODE", "grow"]

# What a tree maximises, and what its rows add to a histogram bin:
NEWTON = 0  # sum of G^2 / (H + l2) over children; gradient and Hessian, packed in one int64
NEWTON_WIDE = 1  # the same; gradient and Hessian in an int64 each, for many rows
GINI = 2  # sum of S_k^2 / W over children; the weight, in the channel of the row's class

NODE = np.dtype(
    [
        ("gain", np.float64),  # of the best split found, 0 if there is none
        ("feature", np.int32),  # position among the features offered; -1 for a leaf
        ("bin", np.int32),  # codes up to this one go left
        ("left", np.int32),  # the right child is the next node
        ("depth", np.int32),
        ("slot", np.int32),  # the node's histogram in the pool
        ("start", np.int64),  # its rows
        ("stop", np.int64),
        ("rest_start", np.int64),  # its rows that were not sampled
        ("rest_stop", np.int64),
        ("missing_left", np.bool_),
    ],
    align=True,
)

LIMITS = np.dtype(
    [
        ("kind", np.int64),
        ("channels", np.int64),
        ("max_leaf_nodes", np.int64),
        ("max_depth", np.int64),
        ("min_child", np.float64),  # in the statistic's units, at least one unit
        ("l2", np.float64),  # likewise
    ],
    align=True,
)

_TIE = 1.0 + 1e-12  # a later split must be better by more than rounding
_LOW = np.int64(0xFFFFFFFF)


@kernel
def _accumulate_packed(hist, codes, features, first, rows, start, stop, statistic):
    # Four features a pass: the row's index and statistic are read once for all four.
    n = features.size
    j = 0
    while j + 4 <= n:
        c0, c1 = codes[features[j]], codes[features[j + 1]]
        c2, c3 = codes[features[j + 2]], codes[features[j + 3]]
        o0, o1, o2, o3 = first[j], first[j + 1], first[j + 2], first[j + 3]
        for i in range(start, stop):
            r = rows[i]
            s = statistic[r]
            hist[o0 + c0[r]] += s
            hist[o1 + c1[r]] += s
            hist[o2 + c2[r]] += s
            hist[o3 + c3[r]] += s
        j += 4
    while j < n:
        c0 = codes[features[j]]
        o0 = first[j]
        for i in range(start, stop):
            r = rows[i]
            hist[o0 + c0[r]] += statistic[r]
        j += 1


@kernel
def _accumulate_wide(hist, codes, features, first, rows, start, stop, statistic):
    half = statistic.size // 2
    for j in range(features.size):
        c = codes[features[j]]
        o = first[j]
        for i in range(start, stop):
            r = rows[i]
            b = (o + c[r]) * np.uint64(2)
            hist[b] += statistic[r]
            hist[b + np.uint64(1)] += statistic[half + r]


@kernel
def _accumulate_classes(hist, codes, features, first, rows, start, stop, statistic, channel, n):
    width = np.uint64(n)
    for j in range(features.size):
        c = codes[features[j]]
        o = first[j]
        for i in range(start, stop):
            r = rows[i]
            hist[(o + c[r]) * width + channel[r]] += statistic[r]


@kernel
def _newton_at(hist, bin_, kind):
    if kind == NEWTON:
        return hist[bin_] >> 32, hist[bin_] & _LOW
    return hist[2 * bin_], hist[2 * bin_ + 1]


@kernel
def _scan_newton(hist, first, n_bins, missing, limits, total_g, total_h, floor):
    best, best_bin, best_left = floor, -1, False
    l2 = limits.l2
    for side in range(2 if missing else 1):
        g, h = np.int64(0), np.int64(0)
        if side == 1:
            g, h = _newton_at(hist, first + n_bins, limits.kind)
        # With missing values on the right, all values on the left is a split too.
        last = n_bins if missing and side == 0 else n_bins - 1
        for b in range(last):
            bin_g, bin_h = _newton_at(hist, first + b, limits.kind)
            g += bin_g
            h += bin_h
            if h < limits.min_child:
                continue
            if total_h - h < limits.min_child:
                break
            left, right = float(g), float(total_g - g)
            score = left * left / (h + l2) + right * right / (total_h - h + l2)
            if score > best * _TIE:
                best, best_bin, best_left = score, b, side == 1
    return best, best_bin, best_left


@kernel
def _scan_gini(hist, first, n_bins, missing, limits, total, total_w, floor, left):
    best, best_bin, best_left = floor, -1, False
    n = limits.channels
    for side in range(2 if missing else 1):
        w = 0.0
        for k in range(n):
            left[k] = float(hist[(first + n_bins) * n + k]) if side == 1 else 0.0
            w += left[k]
        last = n_bins if missing and side == 0 else n_bins - 1
        for b in range(last):
            at = (first + b) * n
            for k in range(n):
                s = float(hist[at + k])
                left[k] += s
                w += s
            if w < limits.min_child:
                continue
            if total_w - w < limits.min_child:
                break
            squares_left, squares_right = 0.0, 0.0
            for k in range(n):
                squares_left += left[k] * left[k]
                squares_right += (total[k] - left[k]) * (total[k] - left[k])
            score = squares_left / w + squares_right / (total_w - w)
            if score > best * _TIE:
                best, best_bin, best_left = score, b, side == 1
    return best, best_bin, best_left


@kernel
def _best_newton(node, hist, features, first, n_bins, missing, limits):
    total_g, total_h = np.int64(0), np.int64(0)
    for b in range(n_bins[0] + (1 if missing[0] else 0)):
        g, h = _newton_at(hist, b, limits.kind)
        total_g += g
        total_h += h
    if total_h < 2 * limits.min_child:
        return
    whole = float(total_g) * float(total_g) / (total_h + limits.l2)
    best = whole
    for j in range(features.size):
        score, bin_, left = _scan_newton(
            hist, np.int64(first[j]), n_bins[j], missing[j], limits, total_g, total_h, best
        )
        if bin_ >= 0:
            best = score
            node.gain, node.feature, node.bin, node.missing_left = score - whole, j, bin_, left


@kernel
def _best_gini(node, hist, features, first, n_bins, missing, limits, total, left):
    total[:] = 0.0
    for b in range(n_bins[0] + (1 if missing[0] else 0)):
        for k in range(limits.channels):
            total[k] += float(hist[b * limits.channels + k])
    weight, squares = 0.0, 0.0
    for k in range(limits.channels):
        weight += total[k]
        squares += total[k] * total[k]
    if weight < 2 * limits.min_child:
        return
    whole = squares / weight
    best = whole
    for j in range(features.size):
        score, bin_, side = _scan_gini(
            hist, np.int64(first[j]), n_bins[j], missing[j], limits, total, weight, best, left
        )
        if bin_ >= 0:
            best = score
            node.gain, node.feature, node.bin, node.missing_left = score - whole, j, bin_, side


@kernel
def _partition(rows, start, stop, column, node_bin, missing_left, missing_code, buffer):
    # Stable, so that the rows of a leaf keep their order and memory is read forwards.
    at, over = start, 0
    for i in range(start, stop):
        r = rows[i]
        code = column[r]
        goes_left = code <= node_bin or (missing_left and code == missing_code)
        rows[at] = r
        buffer[over] = r
        at += goes_left
        over += not goes_left
    rows[at:stop] = buffer[:over]
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
    codes, features, first, n_bins, missing, rows, rest, statistic, channel, limits, pool, nodes
):
    """Grow one tree into `nodes`; `rows` and `rest` end up ordered by leaf.

    Shapes: `codes` uint8 (features in all, rows in all); `features` (d,) uint32, ascending, with
    `first` (d,) uint64 the place of each one's first bin, `n_bins` (d,) int64 without the
    missing-value bin, `missing` (d,) bool; `rows` (sampled) and `rest` (the others) uint32;
    `statistic` int64, one per row in all, or all gradients, then all Hessians; `channel` uint32,
    the row's class; `limits` (1,) LIMITS; `pool` int64 (leaves, bins x channels), zeros not
    needed; `nodes` (2 leaves - 1,) NODE. Returns the number of nodes.
    """
    lim = limits[0]
    buffer = np.empty(max(rows.size, rest.size), rows.dtype)
    total, left = np.empty(lim.channels), np.empty(lim.channels)
    _open_leaf(nodes, 0, 0, 0, rows.size, 0, rest.size)
    if features.size == 0:
        return 1
    nodes[0].slot = 0
    _fill(nodes[0], codes, features, first, rows, statistic, channel, lim, pool[0])
    _best(nodes[0], pool[0], features, first, n_bins, missing, lim, total, left)
    n_nodes, n_slots, n_leaves = 1, 1, 1
    while n_leaves < lim.max_leaf_nodes:
        i = _best_leaf(nodes, n_nodes)
        if i < 0:
            break
        node = nodes[i]
        j = node.feature
        a, b = n_nodes, n_nodes + 1
        node.left = a
        column = codes[features[j]]
        middle = _partition(
            rows, node.start, node.stop, column, node.bin, node.missing_left, n_bins[j], buffer
        )
        rest_middle = _partition(
            rest, node.rest_start, node.rest_stop, column, node.bin, node.missing_left, n_bins[j],
            buffer,
        )  # fmt: skip
        if not missing[j]:
            # Nothing was learned about missing values here: they follow the larger child.
            node.missing_left = 2 * middle >= node.start + node.stop
        _open_leaf(nodes, a, node.depth + 1, node.start, middle, node.rest_start, rest_middle)
        _open_leaf(nodes, b, node.depth + 1, middle, node.stop, rest_middle, node.rest_stop)
        n_nodes += 2
        n_leaves += 1
        if n_leaves == lim.max_leaf_nodes or node.depth + 1 >= lim.max_depth:
            continue
        small, large = (a, b) if 2 * middle < node.start + node.stop else (b, a)
        nodes[small].slot, nodes[large].slot = n_slots, node.slot
        n_slots += 1
        _fill(
            nodes[small], codes, features, first, rows, statistic, channel, lim,
            pool[nodes[small].slot],
        )  # fmt: skip
        _subtract(pool[node.slot], pool[nodes[small].slot])
        for child in (a, b):
            _best(
                nodes[child], pool[nodes[child].slot], features, first, n_bins, missing, lim, total,
                left,
            )  # fmt: skip
    return n_nodes


@kernel
def _fill(node, codes, features, first, rows, statistic, channel, limits, hist):
    hist[:] = 0
    start, stop = node.start, node.stop
    if limits.kind == NEWTON:
        _accumulate_packed(hist, codes, features, first, rows, start, stop, statistic)
    elif limits.kind == NEWTON_WIDE:
        _accumulate_wide(hist, codes, features, first, rows, start, stop, statistic)
    else:
        _accumulate_classes(
            hist, codes, features, first, rows, start, stop, statistic, channel, limits.channels
        )


@kernel
def _subtract(hist, other):
    for b in range(hist.size):
        hist[b] -= other[b]


@kernel
def _best(node, hist, features, first, n_bins, missing, limits, total, left):
    if limits.kind == GINI:
        _best_gini(node, hist, features, first, n_bins, missing, limits, total, left)
    else:
        _best_newton(node, hist, features, first, n_bins, missing, limits)
