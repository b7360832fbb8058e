"""Split criteria: the best split has the largest sum of the scores of its two children."""

import numpy as np

from streamboost.kernels.jit import inner_kernel

NEWTON = 0  # G^2 / (H + l2); gradient and Hessian packed in one int64
NEWTON_SUMS = 1  # sum_k G_k^2 / (H_k + l2); all G_k, then all H_k, in an int64 each
GINI = 2  # sum_k S_k^2 / sum_k S_k
ERROR = 3  # max_k S_k: the weight, or the gain, of the best prediction
MH = 4  # -2 sum_k sqrt(S+_k S-_k); all S+_k, then all S-_k
STUMP = 5  # -sum_k sqrt(t_k^2 - D_k^2), D = left - right: both sides predict ±a, with t given
ENTROPY = 6  # sum_k S_k (1 + log(S_k / sum_k S_k)): 1 for a row in its own leaf, as in GINI

TREE_PARAMS = np.dtype(
    [
        ("kind", np.int64),
        ("channels", np.int64),
        ("max_leaf_nodes", np.int64),
        ("max_depth", np.int64),
        ("min_child", np.float64),  # in units of the histogram input, at least one unit
        ("l2", np.float64),  # likewise
    ],
    align=True,
)
"""Parameters of a tree: split criterion, sums per histogram bin, limits, and penalty."""

TIE = 1.0 + 1e-12
"""Factor by which a later split must be better, to exclude rounding errors."""


@inner_kernel
def has_gradient_hessian_bins(params):
    """Return True if each histogram bin has one gradient sum and one Hessian sum, both int64."""
    return params.kind == NEWTON_SUMS and params.channels == 2


@inner_kernel
def child_weight(sums, params):
    """Return the weight or Hessian sum of a child, to compare it with `params.min_child`.

    Returns infinity for the criteria ERROR and STUMP, which have no least weight.
    """
    n = params.channels
    if params.kind == ERROR or params.kind == STUMP:
        return np.inf  # these sums have no weight, and an empty child has no gain
    total = 0.0
    for k in range(n // 2 if params.kind == NEWTON_SUMS else 0, n):
        total += sums[k]
    return total


@inner_kernel
def child_score(sums, params):
    """Return the score of a child from its `sums` (channels,), for the criterion `params.kind`."""
    n = params.channels
    value = 0.0
    if params.kind == GINI:
        weight = 0.0
        for k in range(n):
            value += sums[k] * sums[k]
            weight += sums[k]
        return value / weight if weight > 0.0 else 0.0
    if params.kind == ENTROPY:
        weight = 0.0
        for k in range(n):
            weight += sums[k]
        for k in range(n):
            if sums[k] > 0.0:
                value += sums[k] * (1.0 + np.log(sums[k] / weight))
        return value
    if params.kind == ERROR:
        value = sums[0]
        for k in range(1, n):
            value = max(value, sums[k])
        return value
    half = n // 2
    for k in range(half):
        if params.kind == MH:
            value -= 2.0 * np.sqrt(max(sums[k], 0.0) * max(sums[half + k], 0.0))
        else:
            h = sums[half + k] + params.l2
            value += sums[k] * sums[k] / h if h > 0.0 else 0.0
    return value


@inner_kernel
def stump_score(left, right, params, totals):
    """Return the score of a stump, whose children have the sums `left` and `right` (channels,).

    `totals` (channels,) is the total weight of each class in all training rows.
    """
    value = 0.0
    for k in range(params.channels):
        d = left[k] - right[k]
        value -= np.sqrt(max(totals[k] * totals[k] - d * d, 0.0))
    return value
