"""Splits of categorical features: sorts the categories of a node, so that a prefix goes left.

A node splits a categorical feature into two sets of categories. The categories are sorted, and each
prefix of the sorted categories is a candidate for the left set. The sort key depends on the numbers
that histograms sum:

- One gradient and one Hessian per row: the key is G/H. The best prefix is then the best of all
  sets, as the score of a child is convex in its sums (cf. Fisher, 1958).
- Class weights: the key is the projection of the category's class shares on the direction in which
  they vary most. For two classes this is a class share, and the best prefix is the best of all
  sets.
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
    has_gradient_hessian_bins,
)
from streamboost.kernels.jit import inner_kernel

_LOW = np.int64(0xFFFFFFFF)
_POWER_STEPS = 8  # of power iteration; the order of the bins needs no exact direction


@inner_kernel
def _write_category_profile(sums, params, profile):
    """Write the profile of a category, (channels,), from its histogram `sums`; return its weight.

    A profile is a vector by which categories are compared; see `_write_sort_keys`.
    """
    n, half = params.channels, params.channels // 2
    mass, mean = 0.0, 0.0
    if params.kind == ERROR or params.kind == STUMP:
        for k in range(n):
            mean += sums[k] / n if params.kind == ERROR else 0.0
        for k in range(n):
            profile[k] = sums[k] - mean
        return 1.0
    for k in range(half if params.kind == NEWTON_SUMS else 0, n):
        mass += sums[k]
    if params.kind == GINI or params.kind == ENTROPY:
        for k in range(n):
            profile[k] = sums[k] / mass if mass > 0.0 else 0.0
        return mass
    for k in range(half):
        a, b = float(sums[k]), float(sums[half + k])
        above, below = (a, b + params.l2) if params.kind == NEWTON_SUMS else (a - b, a + b)
        profile[k] = above / below if below > 0.0 else 0.0
    return mass


@inner_kernel
def _center_profiles(profiles, weights, n_profiles, width, workspace):
    """Subtract the weighted mean from the first `n_profiles` category profiles, in place."""
    total = 0.0
    workspace[:] = 0.0
    for i in range(n_profiles):
        total += weights[i]
        for k in range(width):
            workspace[k] += weights[i] * profiles[i, k]
    if total > 0.0:
        for i in range(n_profiles):
            for k in range(width):
                profiles[i, k] -= workspace[k] / total


@inner_kernel
def _write_leading_direction(profiles, weights, n_profiles, width, direction, buffer):
    """Write the direction in which `n_profiles` profiles have the largest weighted second moment.

    `profiles` is (categories, width), `weights` (categories,) are the weights, `direction` (width,)
    is the output, and `buffer` (width,) a workspace.
    """
    largest, chosen = -1.0, 0
    for i in range(n_profiles):
        size = 0.0
        for k in range(width):
            size += weights[i] * profiles[i, k] * profiles[i, k]
        if size > largest:
            largest, chosen = size, i
    for k in range(width):
        direction[k] = profiles[chosen, k]
    for _ in range(_POWER_STEPS):
        buffer[:] = 0.0
        for i in range(n_profiles):
            along = 0.0
            for k in range(width):
                along += profiles[i, k] * direction[k]
            for k in range(width):
                buffer[k] += weights[i] * along * profiles[i, k]
        size = 0.0
        for k in range(width):
            size = max(size, abs(buffer[k]))
        if size == 0.0:
            break
        for k in range(width):
            direction[k] = buffer[k] / size


@inner_kernel
def _write_sort_keys(hist, first_bin, n_categories, params, workspace):
    """Write the sort key of each category: its profile projected on the leading direction.

    A profile is a vector that describes a category. It depends on the split criterion, where S+, S-
    and gains are the sums in the histogram (see `criteria`):

    - GINI, ENTROPY: class shares less the mean of the node
    - NEWTON_SUMS: a Newton step per channel less the mean of the node
    - MH: (S+ - S-)/(S+ + S-) less the mean of the node
    - ERROR: gains less their mean over the predictions
    - STUMP: gains, of which only the sign matters

    The leading direction has the largest weighted second moment of the profiles. It is found by
    power iteration, which starts at the largest profile.
    """
    width = params.channels
    if params.kind == NEWTON_SUMS or params.kind == MH:
        width //= 2
    profile, mass, direction, buffer = (
        workspace.profile,
        workspace.mass,
        workspace.direction,
        workspace.left,
    )
    for i in range(n_categories):
        at = (first_bin + workspace.order[i]) * params.channels
        mass[i] = _write_category_profile(hist[at : at + params.channels], params, profile[i])
    if params.kind != ERROR and params.kind != STUMP:
        _center_profiles(profile, mass, n_categories, width, direction)
    _write_leading_direction(profile, mass, n_categories, width, direction, buffer)
    for i in range(n_categories):
        along = 0.0
        for k in range(width):
            along += profile[i, k] * direction[k]
        workspace.key[i] = along


@inner_kernel
def _sort_categories_by_key(order, key, n_categories):
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
def gather_sorted_histogram(hist, first_bin, n_bins, missing, params, workspace):
    """Copy a feature's histogram to `workspace.hist`, with the categories sorted by sort key.

    The bin of missing values comes last. Categories whose sums are all zero are omitted. Returns
    the number of copied categories.
    """
    n = params.channels
    present = np.int64(0)
    for b in range(n_bins):
        for k in range((first_bin + b) * n, (first_bin + b + 1) * n):
            if hist[k] != 0:
                workspace.order[present] = b
                present += 1
                break
    if params.kind == NEWTON or has_gradient_hessian_bins(params):
        for i in range(present):
            at = (first_bin + workspace.order[i]) * n
            g = hist[at] >> 32 if params.kind == NEWTON else hist[at]
            h = hist[at] & _LOW if params.kind == NEWTON else hist[at + 1]
            workspace.key[i] = float(g) / float(h)
    else:
        _write_sort_keys(hist, first_bin, present, params, workspace)
    _sort_categories_by_key(workspace.order, workspace.key, present)
    for i in range(present + (1 if missing else 0)):
        at = (first_bin + (workspace.order[i] if i < present else n_bins)) * n
        for k in range(n):
            workspace.hist[i * n + k] = hist[at + k]
    return present


@inner_kernel
def set_left_categories(node, sorted_categories, n_left):
    """Store the set of categories that go left, the first `n_left` of `sorted_categories`.

    The set is stored as bits in `node.members`.
    """
    node.members[:] = 0
    for i in range(n_left):
        node.members[sorted_categories[i] >> 3] |= np.uint8(1 << (sorted_categories[i] & 7))
