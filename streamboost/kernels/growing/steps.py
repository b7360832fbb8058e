"""What a round of the sketch does to all rows: gradients before the tree, leaf values after it.

A tree moves its rows' probabilities when the next round looks at them, so that they are read and
written once a round, in the rows' order. Sums over rows are of whole numbers, and so the same for
any order of the rows and any parts they are summed in.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel, row_kernel

__all__ = ["advance", "bounds", "leaf_sums", "leaf_values", "mark"]

_ONE = np.float32(2.0**30)  # a probability of 1, as a whole number of 32 bits
_BOUND = np.float32(2.0**24)  # a gradient of 1; 2^33 such rows, each |g| at most 2, fit an int64
_LEAST = np.float32(1e-30)  # a float32 zero would never recover
_FAR = 60.0  # beyond, exp would leave float32; a probability is at its least anyway


@row_kernel
def advance(probabilities, leaf, factors, direction, y, weight, gradient, hessian):
    """Let probabilities follow the last tree; write gradients and Hessians for the next.

    Each row's `probabilities` float32 (n, K) become p exp(v), renormalised, with the exponentials
    `factors` float32 (leaves, K) of its `leaf` uint16 (n,): one a leaf and class, not a row.
    Along u, the `direction` (K,) float32, of a row of weight 1: negative gradient u_y - u.p, and
    Hessian sum u^2 p - (u.p)^2. Returns bounds of the weighted sums of |gradient| and of Hessians,
    as whole numbers: see `bounds`.
    """
    n, n_classes = probabilities.shape
    sum_g, sum_h = np.int64(0), np.int64(0)
    for i in range(n):
        m = leaf[i]
        total, mean, square = np.float32(0.0), np.float32(0.0), np.float32(0.0)
        for k in range(n_classes):
            p = probabilities[i, k] * factors[m, k]
            probabilities[i, k] = p
            up = direction[k] * p
            total += p
            mean += up
            square += direction[k] * up
        share = np.float32(1.0) / total
        for k in range(n_classes):
            probabilities[i, k] = max(probabilities[i, k] * share, _LEAST)
        mean *= share
        g = direction[y[i]] - mean
        h = max(square * share - mean * mean, np.float32(0.0))
        gradient[i] = g
        hessian[i] = h
        sum_g += np.int64(np.float64(weight[i]) * np.float64(abs(g) * _BOUND)) + 1
        sum_h += np.int64(np.float64(weight[i]) * np.float64(h * _BOUND)) + 1
    return sum_g, sum_h


@inner_kernel
def bounds(sum_g, sum_h):
    """Return in units of gradient and of Hessian what `advance` does, of one shard or of all."""
    return sum_g / np.float64(_BOUND), sum_h / np.float64(_BOUND)


@inner_kernel
def mark(rows, start, stop, leaf):
    """Write to `leaf` uint16 (n,) in which leaf each of `rows` is."""
    for m in range(start.size):
        for i in range(start[m], stop[m]):
            leaf[rows[i]] = m


@row_kernel
def leaf_sums(probabilities, y, weight, leaf, chosen, first, second):
    """Add up what the Newton step of each leaf is made of: int64 (leaves, K), in 2^-30.

    `first` is sum w (r - p), and `second` sum w p (1 - p), over the rows that `chosen` bool (n,)
    marks, or all where it is empty. Numbers are rounded before they are weighted, so that a row of
    weight 2 counts exactly as two rows.
    """
    n_classes = probabilities.shape[1]
    first[:] = 0
    second[:] = 0
    for i in range(leaf.size):
        if chosen.size > 0 and not chosen[i]:
            continue
        m, w = leaf[i], np.float64(weight[i])
        if w == 1.0:
            for k in range(n_classes):
                p = probabilities[i, k]
                scaled = p * _ONE
                first[m, k] -= np.int64(np.int32(scaled))
                second[m, k] += np.int64(np.int32(scaled - scaled * p))
        else:
            for k in range(n_classes):
                p = probabilities[i, k]
                scaled = p * _ONE
                first[m, k] -= np.int64(w * np.int32(scaled))
                second[m, k] += np.int64(w * np.int32(scaled - scaled * p))
        first[m, y[i]] += np.int64(w * np.float64(_ONE))


@inner_kernel
def leaf_values(first, second, l2, clamp, rate, values, factors):
    """Write each leaf's step float32 (leaves, K), `rate` times Newton's, and its exponentials.

    Newton's along each class by itself: (K-1)/K of sum w (r - p) / (sum w p (1 - p) + l2), centred,
    then clamped.
    """
    n_classes = values.shape[1]
    one = np.float64(_ONE)
    for m in range(values.shape[0]):
        mean = 0.0
        for k in range(n_classes):
            mean += _newton(first[m, k], second[m, k], l2, one) / n_classes
        for k in range(n_classes):
            step = _newton(first[m, k], second[m, k], l2, one) - mean
            step *= (n_classes - 1) / n_classes
            values[m, k] = rate * min(max(step, -clamp), clamp)
            factors[m, k] = np.exp(min(max(values[m, k], -_FAR), _FAR))


@inner_kernel
def _newton(first, second, l2, one):
    return (first / one) / max(second / one + l2, 1e-12)
