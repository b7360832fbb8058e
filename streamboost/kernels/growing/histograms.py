"""Histograms: sums over the rows of a node, in each bin of each feature.

The numbers of a row are integers (see `trees.histogram_input`), so that histograms are exact and do
not depend on the order of the rows. The histogram of a child is that of the parent less that of the
sibling.
"""

from typing import NamedTuple

import numpy as np

from streamboost.kernels.growing.criteria import NEWTON, has_gradient_hessian_bins
from streamboost.kernels.jit import inner_kernel, kernel

_JOINT = 16  # largest number of bin combinations of a group of features


class BinnedData(NamedTuple):
    """Training rows as bin indices, and the number and kind of bins of each of the D features."""

    codes: np.ndarray  # uint8 (D, n)
    n_bins: np.ndarray  # int64 (D,), without the missing-value bin
    missing: np.ndarray  # bool (D,): whether there is a missing-value bin
    categorical: np.ndarray  # bool (D,)

    def slice_rows(self, rows: slice) -> "BinnedData":
        """Return a copy that has only the slice `rows` of the rows."""
        return self._replace(codes=np.ascontiguousarray(self.codes[:, rows]))


class FeatureSubset(NamedTuple):
    """Training rows as bin indices, and properties of the d features that a tree may split."""

    codes: np.ndarray  # uint8 (all features, all rows)
    features: np.ndarray  # uint32 (d,), ascending
    first: np.ndarray  # uint64 (d,): index of the first bin of each feature
    n_bins: np.ndarray  # int64 (d,), without the missing-value bin
    missing: np.ndarray  # bool (d,)
    categorical: np.ndarray  # bool (d,)


class HistogramInputArrays(NamedTuple):
    """Numbers of each row that are summed in histograms, such as gradients and Hessians."""

    values: np.ndarray  # int64: one per row, or one per row and channel, row by row
    channel: np.ndarray  # uint32, the row's class; empty if a row adds to all channels
    totals: np.ndarray  # float64: the t_k of STUMP


class FusedHistogram(NamedTuple):
    """Histogram over groups of features with few bins; a row needs one addition per group."""

    codes: np.ndarray  # uint8 (groups, all rows): the combination of a row's bins in each group
    groups: np.ndarray  # uint32 (groups,): 0, 1, ...
    first: np.ndarray  # uint64 (groups,): index in `hist` of the first sum of each group
    ways: np.ndarray  # uint64 (groups,): number of bin combinations
    start: np.ndarray  # int64 (groups + 1,): group g has `members[start[g]:start[g + 1]]`
    members: np.ndarray  # int64: indices of the available features
    widths: np.ndarray  # uint64 (d,): bins of each available feature, with the missing-value bin
    hist: np.ndarray  # int64 (groups x _JOINT,)
    plain: np.ndarray  # uint32: features outside the groups
    plain_first: np.ndarray  # uint64: index of the first bin of each feature in `plain`


@inner_kernel
def add_packed_gradients_to_histogram(hist, codes, features, offsets, rows, start, stop, values):
    """Add gradients and Hessians, packed in one int64 per row, to the histograms of `features`.

    The rows are `rows[start:stop]`. `offsets` (d,) is the index of each feature's first bin in
    `hist`.
    """
    # Each pass handles four features, so that a row's index and numbers are read once for four.
    n = features.size
    j = 0
    while j + 4 <= n:
        c0, c1 = codes[features[j]], codes[features[j + 1]]
        c2, c3 = codes[features[j + 2]], codes[features[j + 3]]
        o0, o1, o2, o3 = offsets[j], offsets[j + 1], offsets[j + 2], offsets[j + 3]
        for i in range(start, stop):
            r = rows[i]
            s = values[r]
            hist[o0 + c0[r]] += s
            hist[o1 + c1[r]] += s
            hist[o2 + c2[r]] += s
            hist[o3 + c3[r]] += s
        j += 4
    while j < n:
        c0 = codes[features[j]]
        o0 = offsets[j]
        for i in range(start, stop):
            r = rows[i]
            hist[o0 + c0[r]] += values[r]
        j += 1


@inner_kernel
def _add_gradient_pairs_to_histogram(
    hist, codes, features, offsets, rows, start, stop, values, pairs
):
    """Add gradients and Hessians, two int64 per row, to the histograms of `features`.

    The rows are `rows[start:stop]`. `pairs` is a workspace of two int64 per row.
    """
    # The numbers of a node's rows are copied together, as many rows exceed the nearest caches.
    one, two, n = np.uint64(1), np.uint64(2), features.size
    for i in range(start, stop):
        to, at = two * np.uint64(i - start), two * np.uint64(rows[i])
        pairs[to] = values[at]
        pairs[to + one] = values[at + one]
    j = 0
    while j + 4 <= n:
        c0, c1 = codes[features[j]], codes[features[j + 1]]
        c2, c3 = codes[features[j + 2]], codes[features[j + 3]]
        o0, o1, o2, o3 = offsets[j], offsets[j + 1], offsets[j + 2], offsets[j + 3]
        for i in range(start, stop):
            r, at = rows[i], two * np.uint64(i - start)
            g, h = pairs[at], pairs[at + one]
            to = two * (o0 + c0[r])
            hist[to] += g
            hist[to + one] += h
            to = two * (o1 + c1[r])
            hist[to] += g
            hist[to + one] += h
            to = two * (o2 + c2[r])
            hist[to] += g
            hist[to + one] += h
            to = two * (o3 + c3[r])
            hist[to] += g
            hist[to + one] += h
        j += 4
    add_row_vectors_to_histogram(
        hist, codes, features[j:], offsets[j:], rows, start, stop, values, 2
    )


@kernel
def _group_features_with_few_bins(n_bins):
    """Group features with few bins, so that a group has at most 16 combinations of bins.

    `n_bins` (d,) is the number of bins of each feature. Returns (start, members, others): group g
    has the features `members[start[g]:start[g + 1]]`, and the features `others` are in no group, as
    they have too many bins for a group of two. Groups are formed in the order of the features.
    """
    n = n_bins.size
    start = np.zeros(n + 1, np.int64)
    members, others = np.empty(n, np.int64), np.empty(n, np.int64)
    n_groups, n_members, n_others, ways = 0, 0, 0, np.uint64(_JOINT)
    for j in range(n):
        if n_bins[j] * n_bins[j] > _JOINT:
            others[n_others] = j
            n_others += 1
            continue
        if ways * n_bins[j] > _JOINT:
            n_groups += 1
            ways = np.uint64(1)
        ways *= n_bins[j]
        members[n_members] = j
        n_members += 1
        start[n_groups] = n_members
    return start[: n_groups + 1], members[:n_members], others[:n_others]


@kernel
def fuse_features(columns, n_bins):
    """Combine features with few bins into groups, and return a `FusedHistogram` of the groups.

    `n_bins` (d,) is the number of bins of each feature. If `n_bins` is empty, there are no groups.
    """
    codes, features, first = columns.codes, columns.features, columns.first
    start, members, others = _group_features_with_few_bins(n_bins)
    n_groups = start.size - 1
    joint, all_ways = np.zeros((n_groups, codes.shape[1]), np.uint8), np.empty(n_groups, np.uint64)
    for g in range(n_groups):
        ways = np.uint64(1)
        for m in range(start[g], start[g + 1]):
            column, stride = codes[features[members[m]]], np.uint8(ways)
            for i in range(column.size):
                joint[g, i] += stride * column[i]
            ways *= n_bins[members[m]]
        all_ways[g] = ways
    return FusedHistogram(
        joint,
        np.arange(n_groups).astype(np.uint32),
        (np.arange(n_groups) * _JOINT).astype(np.uint64),
        all_ways,
        start,
        members,
        n_bins,
        np.empty(n_groups * _JOINT, np.int64),
        features[others],
        first[others],
    )


@inner_kernel
def _add_fused_features_to_histogram(hist, offsets, fused, rows, start, stop, values):
    sums = fused.hist
    sums[:] = 0
    add_packed_gradients_to_histogram(
        sums, fused.codes, fused.groups, fused.first, rows, start, stop, values
    )
    # The sums of the combinations are added to the bins of each feature.
    for g in range(fused.groups.size):
        begin, ways = fused.first[g], np.uint64(1)
        for m in range(fused.start[g], fused.start[g + 1]):
            j = fused.members[m]
            period = ways * fused.widths[j]
            for at in range(begin, begin + fused.ways[g], period):
                to = offsets[j]
                for b in range(at, at + period, ways):
                    total = np.int64(0)
                    for way in range(b, b + ways):
                        total += sums[way]
                    hist[to] += total
                    to += np.uint64(1)
            ways = period


@inner_kernel
def add_row_vectors_to_histogram(
    hist, codes, features, offsets, rows, start, stop, values, n_channels
):
    """Add the `n_channels` numbers of each row to the row's bin of each of the `features`."""
    width = np.uint64(n_channels)
    for j in range(features.size):
        c = codes[features[j]]
        o = offsets[j]
        for i in range(start, stop):
            r = rows[i]
            to, at = (o + c[r]) * width, r * width
            for k in range(width):
                hist[to + k] += values[at + k]


@inner_kernel
def _add_class_weights_to_histogram(
    hist, codes, features, offsets, rows, start, stop, values, channel, n_channels
):
    width = np.uint64(n_channels)
    for j in range(features.size):
        c = codes[features[j]]
        o = offsets[j]
        for i in range(start, stop):
            r = rows[i]
            hist[(o + c[r]) * width + channel[r]] += values[r]


@inner_kernel
def add_input_to_histogram(
    hist, codes, features, offsets, rows, start, stop, histogram_input, n_channels
):
    """Add the numbers of each row, a vector or a class weight, to the histograms of `features`."""
    values, channel = histogram_input.values, histogram_input.channel
    if channel.size:
        _add_class_weights_to_histogram(
            hist, codes, features, offsets, rows, start, stop, values, channel, n_channels
        )
    else:
        add_row_vectors_to_histogram(
            hist, codes, features, offsets, rows, start, stop, values, n_channels
        )


@inner_kernel
def build_histogram(node, columns, fused, rows, histogram_input, params, hist, workspace):
    """Write the histogram of a node to `hist`. `workspace` is memory of two int64 per row."""
    hist[:] = 0
    codes, features, first = columns.codes, columns.features, columns.first
    start, stop = node.start, node.stop
    if has_gradient_hessian_bins(params):
        _add_gradient_pairs_to_histogram(
            hist, codes, features, first, rows, start, stop, histogram_input.values, workspace
        )
        return
    if params.kind != NEWTON:
        add_input_to_histogram(
            hist, codes, features, first, rows, start, stop, histogram_input, params.channels
        )
        return
    values = histogram_input.values
    if fused.groups.size > 0 and stop - start > 2 * _JOINT:
        _add_fused_features_to_histogram(hist, first, fused, rows, start, stop, values)
        features, first = fused.plain, fused.plain_first
    add_packed_gradients_to_histogram(hist, codes, features, first, rows, start, stop, values)


@inner_kernel
def subtract_histogram(hist, child_hist):
    """Subtract a child's histogram from its parent's, `hist`, which becomes that of the sibling."""
    for b in range(hist.size):
        hist[b] -= child_hist[b]
