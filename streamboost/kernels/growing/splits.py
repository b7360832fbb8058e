"""Split search: finds the best split of a node in its histogram."""

import numpy as np

from streamboost.kernels.growing.categories import gather_sorted_histogram, set_left_categories
from streamboost.kernels.growing.criteria import (
    NEWTON,
    STUMP,
    TIE,
    child_score,
    child_weight,
    has_gradient_hessian_bins,
    stump_score,
)
from streamboost.kernels.jit import inner_kernel

_LOW = np.int64(0xFFFFFFFF)
_BLOCK = 128  # scores compared at once


@inner_kernel
def _newton_split_score(left_g, left_h, params, total_g, total_h, sum_ab):
    """Return the score of a split from gradient sums, or -1 if a child's Hessian sum is too small.

    The score is (G_left b - G_right a)^2 / (a b). a and b are the Hessian sums of the left and
    right child plus l2, and `sum_ab` is a + b. The usual score is G_left^2 / a + G_right^2 / b.
    This score ranks the splits of a node in the same order, and needs one division instead of two.
    """
    a = left_h + params.l2
    apart = left_g * sum_ab - total_g * a
    value = apart * apart / (a * (sum_ab - a))
    return value if (left_h >= params.min_child) & (total_h - left_h >= params.min_child) else -1.0


# These loops have no branches, so that the compiler vectorizes them.
@inner_kernel
def _write_split_scores_of_packed_sums(prefix, params, total_g, total_h, scores):
    both = total_h + 2.0 * params.l2
    for c in range(prefix.size):
        g, h = np.float64(np.int32(prefix[c] >> 32)), np.float64(np.int32(prefix[c]))
        scores[c] = _newton_split_score(g, h, params, total_g, total_h, both)


@inner_kernel
def _write_split_scores(gradients, hessians, params, total_g, total_h, scores):
    both = total_h + 2.0 * params.l2
    for c in range(gradients.size):
        g, h = np.float64(gradients[c]), np.float64(hessians[c])
        scores[c] = _newton_split_score(g, h, params, total_g, total_h, both)


@inner_kernel
def _write_left_sums_of_splits(
    hist, channel_index, n_channels, offset, n_bins, missing, prefix, position
):
    """Write the sum of one channel on the left side of each split of one feature to `prefix`.

    `offset` is the index of the feature's first bin in `hist`. Writes from index `position` on, and
    returns the index after the last sum. Splits that send missing values right come first, then
    splits that send missing values left.
    """
    one = np.uint64(1)
    for side in range(2 if missing else 1):
        total = hist[(offset + n_bins) * n_channels + channel_index] if side == 1 else np.int64(0)
        # With missing values on the right, all values on the left is a split too.
        last = n_bins if missing and side == 0 else n_bins - one
        for b in range(offset, offset + last):
            total += hist[b * n_channels + channel_index]
            prefix[position] = total
            position += one
    return position


@inner_kernel
def _are_all_scores_below(scores, threshold):
    n = 0
    for c in range(scores.size):
        n += scores[c] >= threshold
    return n == 0


@inner_kernel
def _select_best_split(scores, keys, n_splits, params, total_g, total_h):
    """Return the index and the gain of the best split, or -1 and 0 if no split has a gain.

    Ties go to the first split. `keys` are the bits of `scores`, as int64.
    """
    top = np.int64(-1)
    for c in range(
        n_splits
    ):  # bits of non-negative floats have the same order, and compare in vectors
        top = max(top, keys[c])
    if top < 0:
        return -1, 0.0
    keys[n_splits] = top
    l2, square, both = params.l2, total_g * total_g, total_h + 2.0 * params.l2
    lost = square * l2 / (both * (total_h + l2))  # the parent's score less G^2 / (a + b)
    if not scores[n_splits] / both - lost > square / (total_h + l2) * (TIE - 1.0):
        return -1, 0.0
    floor, at = (scores[n_splits] + square) / TIE - square, 0
    while _are_all_scores_below(scores[at : min(at + _BLOCK, n_splits)], floor):
        at += _BLOCK
    while scores[at] < floor:
        at += 1
    return at, scores[at] / both - lost


@inner_kernel
def _sum_channel_over_bins(hist, channel_index, n_channels, n_bins):
    total = np.int64(0)
    for b in range(n_bins):
        total += hist[b * n_channels + channel_index]
    return total


@inner_kernel
def _find_newton_split(node, hist, columns, params, workspace):
    first, n_bins, missing = columns.first, columns.n_bins, columns.missing
    width, zero, one = n_bins[0] + missing[0], np.uint64(0), np.uint64(1)
    if params.kind == NEWTON:
        packed = _sum_channel_over_bins(hist, 0, 1, width)
        total_g, total_h = np.float64(packed >> 32), np.float64(packed & _LOW)
    else:
        total_g, total_h = (
            np.float64(_sum_channel_over_bins(hist, 0, 2, width)),
            np.float64(_sum_channel_over_bins(hist, 1, 2, width)),
        )
    if total_h < 2 * params.min_child:
        return
    prefix, hessians, scores = workspace.prefix, workspace.hessians, workspace.scores
    at = zero
    for j in range(n_bins.size):
        bins, start, n = hist, first[j], n_bins[j]
        if columns.categorical[j]:
            n = gather_sorted_histogram(hist, np.int64(start), n, missing[j], params, workspace)
            bins, start = workspace.hist, zero
        end, before = np.uint64(n), at
        if params.kind == NEWTON:
            at = _write_left_sums_of_splits(bins, zero, one, start, end, missing[j], prefix, before)
        else:
            two = one + one
            at = _write_left_sums_of_splits(bins, zero, two, start, end, missing[j], prefix, before)
            _write_left_sums_of_splits(bins, one, two, start, end, missing[j], hessians, before)
        workspace.ends[j] = at
    if params.kind == NEWTON:
        _write_split_scores_of_packed_sums(prefix[:at], params, total_g, total_h, scores)
    else:
        _write_split_scores(prefix[:at], hessians[:at], params, total_g, total_h, scores)
    best, gain = _select_best_split(scores, workspace.keys, np.int64(at), params, total_g, total_h)
    if best < 0:
        return
    j = 0
    while workspace.ends[j] <= best:
        j += 1
    start = np.int64(workspace.ends[j - 1]) if j > 0 else np.int64(0)
    n = (np.int64(workspace.ends[j]) - start) // 2 + 1 if missing[j] else n_bins[j]
    node.gain, node.feature, node.bin = gain, j, (best - start) % n
    node.missing_left = best - start >= n
    if columns.categorical[j]:
        gather_sorted_histogram(
            hist, np.int64(first[j]), n_bins[j], missing[j], params, workspace
        )  # its order again
        set_left_categories(node, workspace.order, node.bin + 1)


@inner_kernel
def best_split_of_feature(
    hist, offset, n_bins, missing, params, min_weight, totals, total, min_score, left, right
):
    """Return the best split of one feature, whose children each have at least `min_weight`.

    `offset` is the index of the feature's first bin in `hist`, and `total` (channels,) are the sums
    over all bins. `totals` are as in `stump_score`; `left` and `right` (channels,) are workspaces.
    Returns the score, the last bin on the left, and whether missing values go left. The bin is -1
    if no split has a score above `min_score`.
    """
    best, best_bin, best_left = min_score, -1, False
    n = params.channels
    for side in range(2 if missing else 1):
        for k in range(n):
            left[k] = float(hist[(offset + n_bins) * n + k]) if side == 1 else 0.0
        # With missing values on the right, all values on the left is a split too.
        last = n_bins if missing and side == 0 else n_bins - 1
        for b in range(last):
            at = (offset + b) * n
            for k in range(n):
                left[k] += float(hist[at + k])
                right[k] = total[k] - left[k]
            if child_weight(left, params) < min_weight:
                continue
            if child_weight(right, params) < min_weight:
                break
            if params.kind == STUMP:
                worth = stump_score(left, right, params, totals)
            else:
                worth = child_score(left, params) + child_score(right, params)
            if worth > best + abs(best) * (TIE - 1.0):
                best, best_bin, best_left = worth, b, side == 1
    return best, best_bin, best_left


@inner_kernel
def _find_split_by_child_scores(node, hist, columns, params, totals, workspace):
    n_bins, missing = columns.n_bins, columns.missing
    total, left, right = workspace.total, workspace.left, workspace.right
    total[:] = 0.0
    for b in range(n_bins[0] + (1 if missing[0] else 0)):
        for k in range(params.channels):
            total[k] += float(hist[b * params.channels + k])
    if child_weight(total, params) < 2 * params.min_child:
        return
    if params.kind == STUMP:
        left[:] = 0.0
        whole = stump_score(total, left, params, totals)
    else:
        whole = child_score(total, params)
    best = whole
    for j in range(n_bins.size):
        bins, at, n = hist, np.int64(columns.first[j]), n_bins[j]
        if columns.categorical[j]:
            n = gather_sorted_histogram(hist, at, n, missing[j], params, workspace)
            bins, at = workspace.hist, np.int64(0)
        worth, bin_, side = best_split_of_feature(
            bins, at, n, missing[j], params, params.min_child, totals, total, best, left, right
        )
        if bin_ >= 0:
            best = worth
            node.gain, node.feature, node.bin, node.missing_left = worth - whole, j, bin_, side
            if columns.categorical[j]:
                set_left_categories(node, workspace.order, bin_ + 1)


@inner_kernel
def find_best_split(node, hist, columns, params, totals, workspace):
    """Find the best split of a node in its histogram `hist`, and write the split to `node`.

    Writes nothing if no split has a gain.
    """
    if params.kind == NEWTON or has_gradient_hessian_bins(params):
        _find_newton_split(node, hist, columns, params, workspace)
    else:
        _find_split_by_child_scores(node, hist, columns, params, totals, workspace)
