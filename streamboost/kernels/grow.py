"""Growing one tree, best leaf first: histograms, split search and partition.

These kernels call each other and so live in one file: numba's disk cache notices changes only in
a kernel's own file. A row's statistic is a whole number (see `trees.grower`), so a histogram is
exact: the same for any order of the rows, and a sibling is the parent less the other child.

A feature of categories is split into two sets of them. Its bins are put in order at each node, and
the best prefix of that order goes left. One gradient and Hessian: by G/H, whose best prefix is the
best of all subsets, whatever the penalty, because the score of a child is convex in its sums (cf.
Fisher, 1958). Class weights: by the projection of the class shares on the direction in which they
differ most, which for two classes is the share itself and again the best of all subsets.
"""

from typing import NamedTuple

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel

__all__ = ["ERROR", "GINI", "LIMITS", "MH", "NEWTON", "NEWTON_SUMS", "NODE", "STUMP", "grow"]

# What a tree maximises over the children of a split, with S the child's sums:
NEWTON = 0  # G^2 / (H + l2); gradient and Hessian packed in one int64
NEWTON_SUMS = 1  # sum_k G_k^2 / (H_k + l2); all G_k, then all H_k, in an int64 each
GINI = 2  # sum_k S_k^2 / sum_k S_k
ERROR = 3  # max_k S_k: the weight, or the gain, of the best answer
MH = 4  # -2 sum_k sqrt(S+_k S-_k); all S+_k, then all S-_k
STUMP = 5  # -sum_k sqrt(t_k^2 - D_k^2), D = left - right: both sides answer ±a, with t given

NODE = np.dtype(
    [
        ("gain", np.float64),  # of the best split found, 0 if there is none
        ("feature", np.int32),  # position among the features offered; -1 for a leaf
        ("bin", np.int32),  # codes up to this one go left; of categories, places in their order
        ("left", np.int32),  # the right child is the next node
        ("depth", np.int32),
        ("slot", np.int32),  # the node's histogram in the pool
        ("start", np.int64),  # its rows
        ("stop", np.int64),
        ("rest_start", np.int64),  # its rows that were not sampled
        ("rest_stop", np.int64),
        ("missing_left", np.bool_),
        ("members", np.uint8, (32,)),  # of categories: a bit per code, set where it goes left
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
_CODES = 256
_BLOCK = 32  # scores compared at once
_JOINT = 16  # ways in which features counted together may fall
_POWER_STEPS = 8  # towards the leading direction; a rougher one only orders the bins less well


class _Joint(NamedTuple):
    """Features of few bins, some of them to a column: one addition a row counts them all."""

    codes: np.ndarray  # uint8 (groups, rows in all): the way in which a row's codes fall together
    groups: np.ndarray  # uint32 (groups,): 0, 1, ...
    first: np.ndarray  # uint64 (groups,): where each one's sums begin in `hist`
    ways: np.ndarray  # uint64 (groups,): how many ways there are
    start: np.ndarray  # int64 (groups + 1,): its features are `members[start[g]:start[g + 1]]`
    members: np.ndarray  # int64: places among the features offered
    widths: np.ndarray  # uint64 (d,): bins of each feature offered, the missing one counted
    hist: np.ndarray  # int64 (groups x _JOINT,)
    plain: np.ndarray  # uint32: the features that are counted by themselves,
    plain_first: np.ndarray  # uint64, and where their bins begin


class _Work(NamedTuple):
    """Room for sums (channels,), and for a feature of categories: its bins in order."""

    total: np.ndarray
    left: np.ndarray
    right: np.ndarray
    direction: np.ndarray
    order: np.ndarray  # int64 (256,): codes
    key: np.ndarray  # float64 (256,): what they are ordered by
    mass: np.ndarray  # float64 (256,)
    profile: np.ndarray  # float64 (256, channels)
    hist: np.ndarray  # int64 (257 x channels,): the bins in order, then the missing ones
    side: np.ndarray  # uint8 (256,): 1 for codes that go left
    seen: np.ndarray  # bool (256,): codes that a node has
    buffer: np.ndarray  # uint32: rows on their way to the right
    prefix: np.ndarray  # int64 (splits,): the packed sums left of each split of each feature
    score: np.ndarray  # float64 (splits,)
    ends: np.ndarray  # uint64 (d,): where the splits of each feature end


@inner_kernel
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
def _groups(widths):
    """Put features into groups of at most _JOINT ways to fall together: (start, members, others).

    Only those of which two fit; in their order, so that neighbours stand together.
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
def _join(codes, features, first, widths):
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
    return _Joint(
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
def _accumulate_joint(hist, first, joint, rows, start, stop, statistic):
    sums = joint.hist
    sums[:] = 0
    _accumulate_packed(sums, joint.codes, joint.groups, joint.first, rows, start, stop, statistic)
    # What was counted together now goes to the bins of each.
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
def _accumulate_sums(hist, codes, features, first, rows, start, stop, statistic, n):
    width = np.uint64(n)
    for j in range(features.size):
        c = codes[features[j]]
        o = first[j]
        for i in range(start, stop):
            r = rows[i]
            to, at = (o + c[r]) * width, r * width
            for k in range(width):
                hist[to + k] += statistic[at + k]


@inner_kernel
def _accumulate_classes(hist, codes, features, first, rows, start, stop, statistic, channel, n):
    width = np.uint64(n)
    for j in range(features.size):
        c = codes[features[j]]
        o = first[j]
        for i in range(start, stop):
            r = rows[i]
            hist[(o + c[r]) * width + channel[r]] += statistic[r]


@inner_kernel
def _score_newton(prefix, limits, total_g, total_h, score):
    # No branch and no exit: it runs on whole vectors, and most bins cannot be told apart early.
    least, l2 = limits.min_child, limits.l2
    all_g, all_h = np.float64(total_g), np.float64(total_h)
    for c in range(prefix.size):
        g, h = np.float64(np.int32(prefix[c] >> 32)), np.float64(np.int32(prefix[c]))
        rest_g, rest_h = all_g - g, all_h - h
        value = g * g / (h + l2) + rest_g * rest_g / (rest_h + l2)
        score[c] = value if (h >= least) & (rest_h >= least) else -1.0


@inner_kernel
def _mass(sums, limits):
    """The weight or Hessian of a child, which must reach the least allowed."""
    n = limits.channels
    if limits.kind == ERROR or limits.kind == STUMP:
        return np.inf  # gains have no weight, and an empty child gains nothing
    total = 0.0
    for k in range(n // 2 if limits.kind == NEWTON_SUMS else 0, n):
        total += sums[k]
    return total


@inner_kernel
def _score(sums, limits):
    """What a child with these sums is worth."""
    n = limits.channels
    value = 0.0
    if limits.kind == GINI:
        weight = 0.0
        for k in range(n):
            value += sums[k] * sums[k]
            weight += sums[k]
        return value / weight if weight > 0.0 else 0.0
    if limits.kind == ERROR:
        value = sums[0]
        for k in range(1, n):
            value = max(value, sums[k])
        return value
    half = n // 2
    for k in range(half):
        if limits.kind == MH:
            value -= 2.0 * np.sqrt(max(sums[k], 0.0) * max(sums[half + k], 0.0))
        else:
            h = sums[half + k] + limits.l2
            value += sums[k] * sums[k] / h if h > 0.0 else 0.0
    return value


@inner_kernel
def _score_stump(left, right, limits, totals):
    value = 0.0
    for k in range(limits.channels):
        d = left[k] - right[k]
        value -= np.sqrt(max(totals[k] * totals[k] - d * d, 0.0))
    return value


@inner_kernel
def _scan_sums(hist, first, n_bins, missing, limits, totals, total, floor, left, right):
    best, best_bin, best_left = floor, -1, False
    n = limits.channels
    for side in range(2 if missing else 1):
        for k in range(n):
            left[k] = float(hist[(first + n_bins) * n + k]) if side == 1 else 0.0
        last = n_bins if missing and side == 0 else n_bins - 1
        for b in range(last):
            at = (first + b) * n
            for k in range(n):
                left[k] += float(hist[at + k])
                right[k] = total[k] - left[k]
            if _mass(left, limits) < limits.min_child:
                continue
            if _mass(right, limits) < limits.min_child:
                break
            if limits.kind == STUMP:
                score = _score_stump(left, right, limits, totals)
            else:
                score = _score(left, limits) + _score(right, limits)
            if score > best + abs(best) * (_TIE - 1.0):
                best, best_bin, best_left = score, b, side == 1
    return best, best_bin, best_left


@inner_kernel
def _describe(sums, limits, profile):
    """Write how a category's answers lean, and return how much that counts; see `_order_sums`."""
    n, half = limits.channels, limits.channels // 2
    mass, mean = 0.0, 0.0
    if limits.kind == ERROR or limits.kind == STUMP:
        for k in range(n):
            mean += sums[k] / n if limits.kind == ERROR else 0.0
        for k in range(n):
            profile[k] = sums[k] - mean
        return 1.0
    for k in range(half if limits.kind == NEWTON_SUMS else 0, n):
        mass += sums[k]
    if limits.kind == GINI:
        for k in range(n):
            profile[k] = sums[k] / mass if mass > 0.0 else 0.0
        return mass
    for k in range(half):
        a, b = float(sums[k]), float(sums[half + k])
        above, below = (a, b + limits.l2) if limits.kind == NEWTON_SUMS else (a - b, a + b)
        profile[k] = above / below if below > 0.0 else 0.0
    return mass


@inner_kernel
def _centre(profile, mass, n, width, mean):
    total = 0.0
    mean[:] = 0.0
    for i in range(n):
        total += mass[i]
        for k in range(width):
            mean[k] += mass[i] * profile[i, k]
    if total > 0.0:
        for i in range(n):
            for k in range(width):
                profile[i, k] -= mean[k] / total


@inner_kernel
def _lead(profile, mass, n, width, direction, step):
    """Write the direction of the largest weighted second moment of `n` profiles."""
    largest, chosen = -1.0, 0
    for i in range(n):
        size = 0.0
        for k in range(width):
            size += mass[i] * profile[i, k] * profile[i, k]
        if size > largest:
            largest, chosen = size, i
    for k in range(width):
        direction[k] = profile[chosen, k]
    for _ in range(_POWER_STEPS):
        step[:] = 0.0
        for i in range(n):
            along = 0.0
            for k in range(width):
                along += profile[i, k] * direction[k]
            for k in range(width):
                step[k] += mass[i] * along * profile[i, k]
        size = 0.0
        for k in range(width):
            size = max(size, abs(step[k]))
        if size == 0.0:
            break
        for k in range(width):
            direction[k] = step[k] / size


@inner_kernel
def _order_sums(hist, first, n, limits, work):
    """Write the keys of `n` categories: their profiles' projections on the leading direction.

    The profiles: class shares (GINI), a Newton step per channel (NEWTON_SUMS), (S+ - S-)/(S+ + S-)
    (MH), each less the mean of the node; gains less their mean over the answers (ERROR), and gains
    (STUMP), where only what lies on either side of zero is to be told apart. The direction is that
    of the largest weighted second moment, by power iteration from the largest profile.
    """
    width = limits.channels
    if limits.kind == NEWTON_SUMS or limits.kind == MH:
        width //= 2
    profile, mass, direction, step = work.profile, work.mass, work.direction, work.left
    for i in range(n):
        at = (first + work.order[i]) * limits.channels
        mass[i] = _describe(hist[at : at + limits.channels], limits, profile[i])
    if limits.kind != ERROR and limits.kind != STUMP:
        _centre(profile, mass, n, width, direction)
    _lead(profile, mass, n, width, direction, step)
    for i in range(n):
        along = 0.0
        for k in range(width):
            along += profile[i, k] * direction[k]
        work.key[i] = along


@inner_kernel
def _sort(order, key, n):
    # Shell's sort; equal keys keep the codes ascending, so that the order is one.
    for gap in (132, 57, 23, 10, 4, 1):
        for i in range(gap, n):
            code, value = order[i], key[i]
            j = i
            while j >= gap and (
                key[j - gap] > value or (key[j - gap] == value and order[j - gap] > code)
            ):
                order[j], key[j] = order[j - gap], key[j - gap]
                j -= gap
            order[j], key[j] = code, value


@inner_kernel
def _gather(hist, first, n_bins, missing, limits, work):
    """Copy a feature's categories in order, missing values behind them; return how many.

    Categories that add nothing here are left out.
    """
    n = limits.channels
    present = np.int64(0)
    for b in range(n_bins):
        for k in range((first + b) * n, (first + b + 1) * n):
            if hist[k] != 0:
                work.order[present] = b
                present += 1
                break
    if limits.kind == NEWTON or (limits.kind == NEWTON_SUMS and n == 2):
        for i in range(present):
            at = (first + work.order[i]) * n
            g = hist[at] >> 32 if limits.kind == NEWTON else hist[at]
            h = hist[at] & _LOW if limits.kind == NEWTON else hist[at + 1]
            work.key[i] = float(g) / float(h)
    else:
        _order_sums(hist, first, present, limits, work)
    _sort(work.order, work.key, present)
    for i in range(present + (1 if missing else 0)):
        at = (first + (work.order[i] if i < present else n_bins)) * n
        for k in range(n):
            work.hist[i * n + k] = hist[at + k]
    return present


@inner_kernel
def _keep_members(node, order, n):
    node.members[:] = 0
    for i in range(n):
        node.members[order[i] >> 3] |= np.uint8(1 << (order[i] & 7))


@inner_kernel
def _sum_up(hist, first, n_bins, missing, prefix, at):
    """Write what goes left of each split of one feature behind `prefix[at]`; return the end.

    Missing values on the right, then on the left.
    """
    one = np.uint64(1)
    for side in range(2 if missing else 1):
        packed = hist[first + n_bins] if side == 1 else np.int64(0)
        # With missing values on the right, all values on the left is a split too.
        last = n_bins if missing and side == 0 else n_bins - one
        for b in range(first, first + last):
            packed += hist[b]
            prefix[at] = packed
            at += one
    return at


@inner_kernel
def _first_best(score, n, floor):
    """Return the place of the first of the best scores, -1 if none is better than `floor`."""
    bar, best = floor * _TIE, -1
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        better = 0
        for c in range(start, stop):
            better += score[c] > bar
        if better > 0:
            for c in range(start, stop):
                if score[c] > bar:
                    bar, best = score[c] * _TIE, c
    return best


@inner_kernel
def _best_newton(node, hist, features, first, n_bins, missing, categorical, limits, work):
    packed = np.int64(0)
    for b in range(n_bins[0] + (1 if missing[0] else 0)):
        packed += hist[b]
    total_g, total_h = packed >> 32, packed & _LOW
    if total_h < 2 * limits.min_child:
        return
    prefix, score = work.prefix, work.score
    at = np.uint64(0)
    for j in range(features.size):
        bins, start, n = hist, first[j], n_bins[j]
        if categorical[j]:
            n = _gather(hist, np.int64(start), n, missing[j], limits, work)
            bins, start = work.hist, np.uint64(0)
        at = _sum_up(bins, start, np.uint64(n), missing[j], prefix, at)
        work.ends[j] = at
    _score_newton(prefix[:at], limits, total_g, total_h, score)
    whole = float(total_g) * float(total_g) / (total_h + limits.l2)
    best = _first_best(score, np.int64(at), whole)
    if best < 0:
        return
    j = 0
    while work.ends[j] <= best:
        j += 1
    start = np.int64(work.ends[j - 1]) if j > 0 else np.int64(0)
    n = (np.int64(work.ends[j]) - start) // 2 + 1 if missing[j] else n_bins[j]
    node.gain, node.feature, node.bin = score[best] - whole, j, (best - start) % n
    node.missing_left = best - start >= n
    if categorical[j]:
        _gather(hist, np.int64(first[j]), n_bins[j], missing[j], limits, work)  # its order again
        _keep_members(node, work.order, node.bin + 1)


@inner_kernel
def _best_sums(node, hist, features, first, n_bins, missing, categorical, limits, totals, work):
    total, left, right = work.total, work.left, work.right
    total[:] = 0.0
    for b in range(n_bins[0] + (1 if missing[0] else 0)):
        for k in range(limits.channels):
            total[k] += float(hist[b * limits.channels + k])
    if _mass(total, limits) < 2 * limits.min_child:
        return
    if limits.kind == STUMP:
        left[:] = 0.0
        whole = _score_stump(total, left, limits, totals)
    else:
        whole = _score(total, limits)
    best = whole
    for j in range(features.size):
        bins, at, n = hist, np.int64(first[j]), n_bins[j]
        if categorical[j]:
            n = _gather(hist, at, n, missing[j], limits, work)
            bins, at = work.hist, np.int64(0)
        score, bin_, side = _scan_sums(
            bins, at, n, missing[j], limits, totals, total, best, left, right
        )
        if bin_ >= 0:
            best = score
            node.gain, node.feature, node.bin, node.missing_left = score - whole, j, bin_, side
            if categorical[j]:
                _keep_members(node, work.order, bin_ + 1)


@inner_kernel
def _partition(rows, start, stop, column, side, buffer):
    # Stable, so that the rows of a leaf keep their order and memory is read forwards.
    at, over = start, np.int64(0)
    for i in range(start, stop):
        r = rows[i]
        goes_left = np.int64(side[column[r]])
        rows[at] = r
        buffer[over] = r
        at += goes_left
        over += 1 - goes_left
    for i in range(over):  # assigning a slice would take seconds to compile
        rows[at + i] = buffer[i]
    return at


@inner_kernel
def _sides(node, categorical, n_bins, side):
    """Write which codes go left."""
    for code in range(_CODES):
        if categorical:
            side[code] = (node.members[code >> 3] >> (code & 7)) & 1
        else:
            side[code] = code <= node.bin
    side[n_bins] = node.missing_left


@inner_kernel
def _place_unseen(node, column, rows, n_bins, side, seen):
    """Let categories that no row of the node has follow its missing values."""
    if not node.missing_left:
        return
    seen[:] = False
    for i in range(node.start, node.stop):
        seen[column[rows[i]]] = True
    for code in range(n_bins):
        if not seen[code]:
            node.members[code >> 3] |= np.uint8(1 << (code & 7))
            side[code] = 1


@inner_kernel
def _split(node, column, categorical, n_bins, missing, rows, rest, work):
    """Part the rows of a node; return where its right ones begin, in `rows` and in `rest`."""
    side, buffer = work.side, work.buffer
    _sides(node, categorical, n_bins, side)
    middle = _partition(rows, node.start, node.stop, column, side, buffer)
    if not missing:
        # Nothing was learned about missing values here: they follow the larger child.
        node.missing_left = 2 * middle >= node.start + node.stop
    if categorical:
        _place_unseen(node, column, rows, n_bins, side, work.seen)
    return middle, _partition(rest, node.rest_start, node.rest_stop, column, side, buffer)


@inner_kernel
def _open_leaf(nodes, i, depth, start, stop, rest_start, rest_stop):
    node = nodes[i]
    node.gain, node.feature, node.bin, node.left, node.slot = 0.0, -1, -1, -1, -1
    node.depth, node.missing_left = depth, False
    node.start, node.stop = start, stop
    node.rest_start, node.rest_stop = rest_start, rest_stop


@inner_kernel
def _best_leaf(nodes, n_nodes):
    best, at = 0.0, -1
    for i in range(n_nodes):
        if nodes[i].left < 0 and nodes[i].gain > best:
            best, at = nodes[i].gain, i
    return at


@kernel
def _room(n, n_codes, n_splits, n_features, n_rows):
    return _Work(
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n_codes, np.int64),
        np.empty(n_codes),
        np.empty(n_codes),
        np.empty((n_codes, n)),
        np.empty((n_codes + 1) * n, np.int64),
        np.empty(_CODES, np.uint8),
        np.empty(_CODES, np.bool_),
        np.empty(n_rows, np.uint32),
        np.empty(n_splits, np.int64),
        np.empty(n_splits),
        np.empty(n_features, np.uint64),
    )


@kernel
def grow(
    codes, features, first, n_bins, missing, categorical, rows, rest, statistic, channel, totals,
    limits, pool, nodes,
):  # fmt: skip
    """Grow one tree into `nodes`; `rows` and `rest` end up ordered by leaf.

    Shapes: `codes` uint8 (features in all, rows in all); `features` (d,) uint32, ascending, with
    `first` (d,) uint64 the place of each one's first bin, `n_bins` (d,) int64 without the
    missing-value bin, `missing` and `categorical` (d,) bool; `rows` (sampled) and `rest` (the
    others) uint32;
    `statistic` int64, one per row in all, or as many as there are channels, row after row;
    `channel` uint32, the row's class, or empty where a row fills all channels; `totals` float64,
    the t_k of STUMP; `limits` (1,) LIMITS; `pool` int64 (leaves, bins x channels), zeros not
    needed; `nodes` (2 leaves - 1,) NODE. Returns the number of nodes.
    """
    if features.size == 0:
        _open_leaf(nodes, 0, 0, 0, rows.size, 0, rest.size)
        return 1
    lim = limits[0]
    newton = lim.kind == NEWTON
    widths = (n_bins + missing).astype(np.uint64)
    joint = _join(codes, features, first, widths[: features.size if newton else 0])
    work = _room(
        lim.channels,
        _CODES if categorical.any() else 0,
        2 * pool.shape[1] if newton else 0,
        features.size,
        max(rows.size, rest.size),
    )
    return _grow(
        codes, features, first, n_bins, missing, categorical, rows, rest, statistic, channel,
        totals, lim, pool, nodes, joint, work,
    )  # fmt: skip


@inner_kernel
def _grow(
    codes, features, first, n_bins, missing, categorical, rows, rest, statistic, channel, totals,
    lim, pool, nodes, joint, work,
):  # fmt: skip
    _open_leaf(nodes, 0, 0, 0, rows.size, 0, rest.size)
    nodes[0].slot = 0
    _fill(nodes[0], codes, features, first, joint, rows, statistic, channel, lim, pool[0])
    _best(nodes[0], pool[0], features, first, n_bins, missing, categorical, lim, totals, work)
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
        middle, rest_middle = _split(
            node, column, categorical[j], n_bins[j], missing[j], rows, rest, work
        )
        _open_leaf(nodes, a, node.depth + 1, node.start, middle, node.rest_start, rest_middle)
        _open_leaf(nodes, b, node.depth + 1, middle, node.stop, rest_middle, node.rest_stop)
        n_nodes += 2
        n_leaves += 1
        if n_leaves == lim.max_leaf_nodes or node.depth + 1 >= lim.max_depth:
            continue
        small, large = (a, b) if 2 * middle < node.start + node.stop else (b, a)
        nodes[small].slot, nodes[large].slot = n_slots, node.slot
        n_slots += 1
        hist = pool[nodes[small].slot]
        _fill(nodes[small], codes, features, first, joint, rows, statistic, channel, lim, hist)
        _subtract(pool[node.slot], hist)
        for child in (a, b):
            hist = pool[nodes[child].slot]
            _best(
                nodes[child], hist, features, first, n_bins, missing, categorical, lim, totals, work
            )
    return n_nodes


@inner_kernel
def _fill(node, codes, features, first, joint, rows, statistic, channel, limits, hist):
    hist[:] = 0
    start, stop, n = node.start, node.stop, limits.channels
    if limits.kind == NEWTON:
        plain, plain_first = features, first
        if joint.groups.size > 0 and stop - start > 2 * _JOINT:
            _accumulate_joint(hist, first, joint, rows, start, stop, statistic)
            plain, plain_first = joint.plain, joint.plain_first
        _accumulate_packed(hist, codes, plain, plain_first, rows, start, stop, statistic)
    elif channel.size:
        _accumulate_classes(hist, codes, features, first, rows, start, stop, statistic, channel, n)
    else:
        _accumulate_sums(hist, codes, features, first, rows, start, stop, statistic, n)


@inner_kernel
def _subtract(hist, other):
    for b in range(hist.size):
        hist[b] -= other[b]


@inner_kernel
def _best(node, hist, features, first, n_bins, missing, categorical, limits, totals, work):
    if limits.kind == NEWTON:
        _best_newton(node, hist, features, first, n_bins, missing, categorical, limits, work)
    else:
        _best_sums(node, hist, features, first, n_bins, missing, categorical, limits, totals, work)
