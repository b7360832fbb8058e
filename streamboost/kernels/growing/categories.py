"""Splits of categorical features: orders categories so that the best prefix goes left.

A categorical feature is split into two sets of categories. At each node, the bins of the feature
are sorted, and the best prefix goes left. The order depends on the statistic:

- One gradient and Hessian: by G/H. The best prefix is the best of all subsets for any penalty, as
  the score of a child is convex in its sums (cf. Fisher, 1958).
- Class weights: by the projection of the class shares on their leading direction. For two classes,
  this is the class share, and again the best prefix is the best of all subsets.
"""

import numpy as np

from streamboost.kernels.growing.criteria import (
    ENTROPY,
    ERROR,
    GINI,
    MH,
    NEWTON,
    NEWTON_SUMS,
    STUMP,
    has_gradient_pairs,
)
from streamboost.kernels.jit import inner_kernel

__all__ = ["gather_sorted_histogram", "set_left_categories"]

_LOW = np.int64(0xFFFFFFFF)
_POWER_STEPS = 8  # of power iteration; the order of the bins needs no exact direction


@inner_kernel
def _write_profile(sums, limits, profile):
    """Write a category's profile (channels,), see `_write_sort_keys`; return its weight."""
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
    if limits.kind == GINI or limits.kind == ENTROPY:
        for k in range(n):
            profile[k] = sums[k] / mass if mass > 0.0 else 0.0
        return mass
    for k in range(half):
        a, b = float(sums[k]), float(sums[half + k])
        above, below = (a, b + limits.l2) if limits.kind == NEWTON_SUMS else (a - b, a + b)
        profile[k] = above / below if below > 0.0 else 0.0
    return mass


@inner_kernel
def _subtract_weighted_mean(profile, mass, n_profiles, width, mean):
    total = 0.0
    mean[:] = 0.0
    for i in range(n_profiles):
        total += mass[i]
        for k in range(width):
            mean[k] += mass[i] * profile[i, k]
    if total > 0.0:
        for i in range(n_profiles):
            for k in range(width):
                profile[i, k] -= mean[k] / total


@inner_kernel
def _leading_direction(profile, mass, n_profiles, width, direction, step):
    """Write the direction with the largest weighted second moment of `n_profiles` profiles."""
    largest, chosen = -1.0, 0
    for i in range(n_profiles):
        size = 0.0
        for k in range(width):
            size += mass[i] * profile[i, k] * profile[i, k]
        if size > largest:
            largest, chosen = size, i
    for k in range(width):
        direction[k] = profile[chosen, k]
    for _ in range(_POWER_STEPS):
        step[:] = 0.0
        for i in range(n_profiles):
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
def _write_sort_keys(hist, first_bin, n_categories, limits, workspace):
    """Write the sort key of each category: its profile projected on the leading direction.

    The profiles depend on the criterion:

    - GINI, ENTROPY: class shares less the mean of the node
    - NEWTON_SUMS: a Newton step per channel less the mean of the node
    - MH: (S+ - S-)/(S+ + S-) less the mean of the node
    - ERROR: gains less their mean over the predictions
    - STUMP: gains, of which only the sign matters

    The direction has the largest weighted second moment. It is found by power iteration from the
    largest profile.
    """
    width = limits.channels
    if limits.kind == NEWTON_SUMS or limits.kind == MH:
        width //= 2
    profile, mass, direction, step = (
        workspace.profile,
        workspace.mass,
        workspace.direction,
        workspace.left,
    )
    for i in range(n_categories):
        at = (first_bin + workspace.order[i]) * limits.channels
        mass[i] = _write_profile(hist[at : at + limits.channels], limits, profile[i])
    if limits.kind != ERROR and limits.kind != STUMP:
        _subtract_weighted_mean(profile, mass, n_categories, width, direction)
    _leading_direction(profile, mass, n_categories, width, direction, step)
    for i in range(n_categories):
        along = 0.0
        for k in range(width):
            along += profile[i, k] * direction[k]
        workspace.key[i] = along


@inner_kernel
def _sort_by_key(order, key, n_categories):
    # Shellsort; equal keys are sorted by code, so that the order is unique.
    for gap in (132, 57, 23, 10, 4, 1):
        for i in range(gap, n_categories):
            code, value = order[i], key[i]
            j = i
            while j >= gap and (
                key[j - gap] > value or (key[j - gap] == value and order[j - gap] > code)
            ):
                order[j], key[j] = order[j - gap], key[j - gap]
                j -= gap
            order[j], key[j] = code, value


@inner_kernel
def gather_sorted_histogram(hist, first_bin, n_bins, missing, limits, workspace):
    """Copy a feature's histogram in sorted order, then the bin of missing values.

    Categories whose sums are zero are omitted. Returns the number of categories copied.
    """
    n = limits.channels
    present = np.int64(0)
    for b in range(n_bins):
        for k in range((first_bin + b) * n, (first_bin + b + 1) * n):
            if hist[k] != 0:
                workspace.order[present] = b
                present += 1
                break
    if limits.kind == NEWTON or has_gradient_pairs(limits):
        for i in range(present):
            at = (first_bin + workspace.order[i]) * n
            g = hist[at] >> 32 if limits.kind == NEWTON else hist[at]
            h = hist[at] & _LOW if limits.kind == NEWTON else hist[at + 1]
            workspace.key[i] = float(g) / float(h)
    else:
        _write_sort_keys(hist, first_bin, present, limits, workspace)
    _sort_by_key(workspace.order, workspace.key, present)
    for i in range(present + (1 if missing else 0)):
        at = (first_bin + (workspace.order[i] if i < present else n_bins)) * n
        for k in range(n):
            workspace.hist[i * n + k] = hist[at + k]
    return present


@inner_kernel
def set_left_categories(node, sorted_categories, n_left):
    """Set the bits of the first `n_left` of `sorted_categories` in `node.members`: they go left."""
    node.members[:] = 0
    for i in range(n_left):
        node.members[sorted_categories[i] >> 3] |= np.uint8(1 << (sorted_categories[i] & 7))
