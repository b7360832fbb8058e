"""Split search: finds the best split of a node in its histogram."""

import numpy as np

from streamboost.kernels.growing.categories import gather, keep_members
from streamboost.kernels.growing.criteria import (
    NEWTON,
    STUMP,
    TIE,
    mass,
    pairs_up,
    score,
    score_stump,
)
from streamboost.kernels.jit import inner_kernel

__all__ = ["find_best", "scan"]

_LOW = np.int64(0xFFFFFFFF)
_BLOCK = 128  # scores compared at once


@inner_kernel
def _apart(g, h, limits, total_g, total_h, both):
    """Return the score of a split, (G_left b - G_right a)^2 / (a b), or -1 if a child is too light.

    a and b are the children's Hessians plus l2. The usual score G_left^2 / a + G_right^2 / b equals
    this score plus G^2, divided by a + b. As G^2 and a + b are equal for all splits, this score
    ranks splits with one division instead of two.
    """
    a = h + limits.l2
    apart = g * both - total_g * a
    value = apart * apart / (a * (both - a))
    return value if (h >= limits.min_child) & (total_h - h >= limits.min_child) else -1.0


# These loops have no branches, so that the compiler vectorizes them.
@inner_kernel
def _score_packed(prefix, limits, total_g, total_h, scores):
    both = total_h + 2.0 * limits.l2
    for c in range(prefix.size):
        g, h = np.float64(np.int32(prefix[c] >> 32)), np.float64(np.int32(prefix[c]))
        scores[c] = _apart(g, h, limits, total_g, total_h, both)


@inner_kernel
def _score_pairs(gradients, hessians, limits, total_g, total_h, scores):
    both = total_h + 2.0 * limits.l2
    for c in range(gradients.size):
        g, h = np.float64(gradients[c]), np.float64(hessians[c])
        scores[c] = _apart(g, h, limits, total_g, total_h, both)


@inner_kernel
def _sum_up(hist, channel, channels, first, n_bins, missing, prefix, at):
    """Write the left sums of each split of one feature from `prefix[at]` on; return the end.

    Splits with missing values on the right come first, then splits with them on the left.
    """
    one = np.uint64(1)
    for side in range(2 if missing else 1):
        total = hist[(first + n_bins) * channels + channel] if side == 1 else np.int64(0)
        # With missing values on the right, all values on the left is a split too.
        last = n_bins if missing and side == 0 else n_bins - one
        for b in range(first, first + last):
            total += hist[b * channels + channel]
            prefix[at] = total
            at += one
    return at


@inner_kernel
def _none_from(scores, floor):
    n = 0
    for c in range(scores.size):
        n += scores[c] >= floor
    return n == 0


@inner_kernel
def _first_best(scores, keys, n, limits, total_g, total_h):
    """Return the index of the best split and its gain; ties go to the first; -1 and 0 if none."""
    top = np.int64(-1)
    for c in range(n):  # bits of non-negative floats have the same order, and compare in vectors
        top = max(top, keys[c])
    if top < 0:
        return -1, 0.0
    keys[n] = top
    l2, square, both = limits.l2, total_g * total_g, total_h + 2.0 * limits.l2
    lost = square * l2 / (both * (total_h + l2))  # the parent's score less G^2 / (a + b)
    if not scores[n] / both - lost > square / (total_h + l2) * (TIE - 1.0):
        return -1, 0.0
    floor, at = (scores[n] + square) / TIE - square, 0
    while _none_from(scores[at : min(at + _BLOCK, n)], floor):
        at += _BLOCK
    while scores[at] < floor:
        at += 1
    return at, scores[at] / both - lost


@inner_kernel
def _total(hist, channel, channels, n_bins):
    total = np.int64(0)
    for b in range(n_bins):
        total += hist[b * channels + channel]
    return total


@inner_kernel
def _best_newton(node, hist, columns, limits, work):
    first, n_bins, missing = columns.first, columns.n_bins, columns.missing
    width, zero, one = n_bins[0] + missing[0], np.uint64(0), np.uint64(1)
    if limits.kind == NEWTON:
        packed = _total(hist, 0, 1, width)
        total_g, total_h = np.float64(packed >> 32), np.float64(packed & _LOW)
    else:
        total_g, total_h = (
            np.float64(_total(hist, 0, 2, width)),
            np.float64(_total(hist, 1, 2, width)),
        )
    if total_h < 2 * limits.min_child:
        return
    prefix, hessians, scores = work.prefix, work.hessians, work.scores
    at = zero
    for j in range(n_bins.size):
        bins, start, n = hist, first[j], n_bins[j]
        if columns.categorical[j]:
            n = gather(hist, np.int64(start), n, missing[j], limits, work)
            bins, start = work.hist, zero
        end, before = np.uint64(n), at
        if limits.kind == NEWTON:
            at = _sum_up(bins, zero, one, start, end, missing[j], prefix, before)
        else:
            two = one + one
            at = _sum_up(bins, zero, two, start, end, missing[j], prefix, before)
            _sum_up(bins, one, two, start, end, missing[j], hessians, before)
        work.ends[j] = at
    if limits.kind == NEWTON:
        _score_packed(prefix[:at], limits, total_g, total_h, scores)
    else:
        _score_pairs(prefix[:at], hessians[:at], limits, total_g, total_h, scores)
    best, gain = _first_best(scores, work.keys, np.int64(at), limits, total_g, total_h)
    if best < 0:
        return
    j = 0
    while work.ends[j] <= best:
        j += 1
    start = np.int64(work.ends[j - 1]) if j > 0 else np.int64(0)
    n = (np.int64(work.ends[j]) - start) // 2 + 1 if missing[j] else n_bins[j]
    node.gain, node.feature, node.bin = gain, j, (best - start) % n
    node.missing_left = best - start >= n
    if columns.categorical[j]:
        gather(hist, np.int64(first[j]), n_bins[j], missing[j], limits, work)  # its order again
        keep_members(node, work.order, node.bin + 1)


@inner_kernel
def scan(hist, first, n_bins, missing, limits, least, totals, total, floor, left, right):
    """Return the best split of a feature with a score above `floor` and children of `least` weight.

    Returns the score, the bin (-1 if there is no split), and whether missing values go left.
    """
    best, best_bin, best_left = floor, -1, False
    n = limits.channels
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
            if mass(left, limits) < least:
                continue
            if mass(right, limits) < least:
                break
            if limits.kind == STUMP:
                worth = score_stump(left, right, limits, totals)
            else:
                worth = score(left, limits) + score(right, limits)
            if worth > best + abs(best) * (TIE - 1.0):
                best, best_bin, best_left = worth, b, side == 1
    return best, best_bin, best_left


@inner_kernel
def _best_sums(node, hist, columns, limits, totals, work):
    n_bins, missing = columns.n_bins, columns.missing
    total, left, right = work.total, work.left, work.right
    total[:] = 0.0
    for b in range(n_bins[0] + (1 if missing[0] else 0)):
        for k in range(limits.channels):
            total[k] += float(hist[b * limits.channels + k])
    if mass(total, limits) < 2 * limits.min_child:
        return
    if limits.kind == STUMP:
        left[:] = 0.0
        whole = score_stump(total, left, limits, totals)
    else:
        whole = score(total, limits)
    best = whole
    for j in range(n_bins.size):
        bins, at, n = hist, np.int64(columns.first[j]), n_bins[j]
        if columns.categorical[j]:
            n = gather(hist, at, n, missing[j], limits, work)
            bins, at = work.hist, np.int64(0)
        worth, bin_, side = scan(
            bins, at, n, missing[j], limits, limits.min_child, totals, total, best, left, right
        )
        if bin_ >= 0:
            best = worth
            node.gain, node.feature, node.bin, node.missing_left = worth - whole, j, bin_, side
            if columns.categorical[j]:
                keep_members(node, work.order, bin_ + 1)


@inner_kernel
def find_best(node, hist, columns, limits, totals, work):
    """Write the best split of a node, if any, from its histogram `hist`."""
    if limits.kind == NEWTON or pairs_up(limits):
        _best_newton(node, hist, columns, limits, work)
    else:
        _best_sums(node, hist, columns, limits, totals, work)
