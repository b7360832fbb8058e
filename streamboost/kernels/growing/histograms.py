"""Histograms: sums of the row statistics of a node in each bin of each feature.

The statistic of a row is an integer (see `trees.statistics`), so that histograms are exact and do
not depend on the order of the rows. The histogram of a child is the parent's less the sibling's.
"""

from typing import NamedTuple

import numpy as np

from streamboost.kernels.growing.criteria import NEWTON, pairs_up
from streamboost.kernels.jit import inner_kernel, kernel

__all__ = [
    "Coded",
    "Columns",
    "Joint",
    "Statistic",
    "add_packed",
    "add_rows",
    "add_sums",
    "count",
    "join",
    "subtract",
]

_JOINT = 16  # largest number of bin combinations of a group of features


class Coded(NamedTuple):
    """Binned training rows, and the bins of each of their D features."""

    codes: np.ndarray  # uint8 (D, n)
    n_bins: np.ndarray  # int64 (D,), without the missing-value bin
    missing: np.ndarray  # bool (D,): whether there is a missing-value bin
    categorical: np.ndarray  # bool (D,)

    def cut(self, rows: slice) -> "Coded":
        """Return a slice of the rows."""
        return self._replace(codes=np.ascontiguousarray(self.codes[:, rows]))


class Columns(NamedTuple):
    """Binned training rows, and the subset of d features that is available to a tree."""

    codes: np.ndarray  # uint8 (all features, all rows)
    features: np.ndarray  # uint32 (d,), ascending
    first: np.ndarray  # uint64 (d,): index of the first bin of each feature
    n_bins: np.ndarray  # int64 (d,), without the missing-value bin
    missing: np.ndarray  # bool (d,)
    categorical: np.ndarray  # bool (d,)


class Statistic(NamedTuple):
    """Statistic of the rows: the numbers that each row adds to a histogram."""

    values: np.ndarray  # int64: one per row, or one per row and channel, row by row
    channel: np.ndarray  # uint32, the row's class; empty if a row adds to all channels
    totals: np.ndarray  # float64: the t_k of STUMP


class Joint(NamedTuple):
    """Fused histogram: groups of features with few bins, with one addition per row and group."""

    codes: np.ndarray  # uint8 (groups, all rows): the combination of a row's bins in each group
    groups: np.ndarray  # uint32 (groups,): 0, 1, ...
    first: np.ndarray  # uint64 (groups,): index in `hist` of the first sum of each group
    ways: np.ndarray  # uint64 (groups,): number of bin combinations
    start: np.ndarray  # int64 (groups + 1,): group g has `members[start[g]:start[g + 1]]`
    members: np.ndarray  # int64: indices of the available features
    widths: np.ndarray  # uint64 (d,): bins of each available feature, with the missing-value bin
    hist: np.ndarray  # int64 (groups x _JOINT,)
    plain: np.ndarray  # uint32: features outside the groups
    plain_first: np.ndarray  # uint64: index of the first bin of each of these


@inner_kernel
def add_packed(hist, codes, features, first, rows, start, stop, values):
    """Add the packed statistics of the rows to the bins of each feature."""
    # Each pass handles four features, so that a row's index and statistic are read once for four.
    n = features.size
    j = 0
    while j + 4 <= n:
        c0, c1 = codes[features[j]], codes[features[j + 1]]
        c2, c3 = codes[features[j + 2]], codes[features[j + 3]]
        o0, o1, o2, o3 = first[j], first[j + 1], first[j + 2], first[j + 3]
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
        o0 = first[j]
        for i in range(start, stop):
            r = rows[i]
            hist[o0 + c0[r]] += values[r]
        j += 1


@inner_kernel
def _add_pairs(hist, codes, features, first, rows, start, stop, values, pairs):
    """Add the gradients and Hessians of the rows, two numbers each, to the bins of each feature."""
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
        o0, o1, o2, o3 = first[j], first[j + 1], first[j + 2], first[j + 3]
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
    add_sums(hist, codes, features[j:], first[j:], rows, start, stop, values, 2)


@kernel
def _groups(widths):
    """Group features with at most _JOINT bin combinations; return (start, members, others).

    A feature is only grouped if two features of its size fit into a group. Groups are formed in the
    order of the features.
    """
    n = widths.size
    start = np.zeros(n + 1, np.int64)
    members, others = np.empty(n, np.int64), np.empty(n, np.int64)
    n_groups, n_members, n_others, ways = 0, 0, 0, np.uint64(_JOINT)
    for j in range(n):
        if widths[j] * widths[j] > _JOINT:
            others[n_others] = j
            n_others += 1
            continue
        if ways * widths[j] > _JOINT:
            n_groups += 1
            ways = np.uint64(1)
        ways *= widths[j]
        members[n_members] = j
        n_members += 1
        start[n_groups] = n_members
    return start[: n_groups + 1], members[:n_members], others[:n_others]


@kernel
def join(columns, widths):
    """Group features for fused histograms; `widths` are the numbers of bins, empty for none."""
    codes, features, first = columns.codes, columns.features, columns.first
    start, members, others = _groups(widths)
    n_groups = start.size - 1
    joint, all_ways = np.zeros((n_groups, codes.shape[1]), np.uint8), np.empty(n_groups, np.uint64)
    for g in range(n_groups):
        ways = np.uint64(1)
        for m in range(start[g], start[g + 1]):
            column, stride = codes[features[members[m]]], np.uint8(ways)
            for i in range(column.size):
                joint[g, i] += stride * column[i]
            ways *= widths[members[m]]
        all_ways[g] = ways
    return Joint(
        joint,
        np.arange(n_groups).astype(np.uint32),
        (np.arange(n_groups) * _JOINT).astype(np.uint64),
        all_ways,
        start,
        members,
        widths,
        np.empty(n_groups * _JOINT, np.int64),
        features[others],
        first[others],
    )


@inner_kernel
def _add_joint(hist, first, joint, rows, start, stop, values):
    sums = joint.hist
    sums[:] = 0
    add_packed(sums, joint.codes, joint.groups, joint.first, rows, start, stop, values)
    # The sums of the combinations are added to the bins of each feature.
    for g in range(joint.groups.size):
        begin, ways = joint.first[g], np.uint64(1)
        for m in range(joint.start[g], joint.start[g + 1]):
            j = joint.members[m]
            period = ways * joint.widths[j]
            for at in range(begin, begin + joint.ways[g], period):
                to = first[j]
                for b in range(at, at + period, ways):
                    total = np.int64(0)
                    for way in range(b, b + ways):
                        total += sums[way]
                    hist[to] += total
                    to += np.uint64(1)
            ways = period


@inner_kernel
def add_sums(hist, codes, features, first, rows, start, stop, values, n):
    """Add all `n` numbers of each row to the bins of each feature."""
    width = np.uint64(n)
    for j in range(features.size):
        c = codes[features[j]]
        o = first[j]
        for i in range(start, stop):
            r = rows[i]
            to, at = (o + c[r]) * width, r * width
            for k in range(width):
                hist[to + k] += values[at + k]


@inner_kernel
def _add_classes(hist, codes, features, first, rows, start, stop, values, channel, n):
    width = np.uint64(n)
    for j in range(features.size):
        c = codes[features[j]]
        o = first[j]
        for i in range(start, stop):
            r = rows[i]
            hist[(o + c[r]) * width + channel[r]] += values[r]


@inner_kernel
def add_rows(hist, codes, features, first, rows, start, stop, statistic, n):
    """Add the statistics of the rows, `n` numbers or one for the class, to each feature's bins."""
    values, channel = statistic.values, statistic.channel
    if channel.size:
        _add_classes(hist, codes, features, first, rows, start, stop, values, channel, n)
    else:
        add_sums(hist, codes, features, first, rows, start, stop, values, n)


@inner_kernel
def count(node, columns, joint, rows, statistic, limits, hist, pairs):
    """Build the histogram of a node; `pairs` is a workspace of two numbers per row."""
    hist[:] = 0
    codes, features, first = columns.codes, columns.features, columns.first
    start, stop = node.start, node.stop
    if pairs_up(limits):
        _add_pairs(hist, codes, features, first, rows, start, stop, statistic.values, pairs)
        return
    if limits.kind != NEWTON:
        add_rows(hist, codes, features, first, rows, start, stop, statistic, limits.channels)
        return
    values = statistic.values
    if joint.groups.size > 0 and stop - start > 2 * _JOINT:
        _add_joint(hist, first, joint, rows, start, stop, values)
        features, first = joint.plain, joint.plain_first
    add_packed(hist, codes, features, first, rows, start, stop, values)


@inner_kernel
def subtract(hist, other):
    """Subtract a child's histogram `other` from its parent's `hist`, to get the sibling's."""
    for b in range(hist.size):
        hist[b] -= other[b]
