"""Steps of a SketchLogitBoost round: gradients before the tree, leaf values after the tree.

The probabilities are updated by a tree at the start of the next round. Hence each round reads and
writes them once, in the order of the rows. Sums over rows are sums of integers, which do not depend
on the order of the rows or on the shards.
"""

import numpy as np

from streamboost.kernels.jit import fastmath_kernel, inner_kernel

_ONE = np.float32(2.0**30)  # a probability of 1, as an integer of 32 bits
_BOUND = np.float32(2.0**24)  # a gradient of 1; sums of 2^33 rows, |g| at most 2, fit an int64
_LEAST = np.float32(1e-30)  # least probability, as factors cannot change a float32 zero
_FAR = 60.0  # bound of exponents, as exp would overflow float32


@fastmath_kernel
def update_gradients(probabilities, leaf, factors, direction, y, weight, gradient, hessian):
    """Update the probabilities by the last tree; write gradients and Hessians for the next tree.

    The `probabilities` p float32 (n, K) are multiplied by `factors` float32 (leaves, K), the
    exponentials of the values of each row's `leaf` uint16 (n,), and are then normalised. Gradients
    and Hessians are along the `direction` u, float32 (K,), for a row of weight 1. The negative
    gradient is u_y - u.p, and the Hessian is sum u^2 p - (u.p)^2. Returns upper bounds of the
    weighted sums of |gradient| and of Hessians, as integers for `gradient_bounds_to_float`.
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
def gradient_bounds_to_float(sum_g, sum_h):
    """Convert upper bounds of the sums of |gradient| and of Hessians from integers to float64.

    The integers are those of `update_gradients`, which can be summed over shards without rounding.
    """
    return sum_g / np.float64(_BOUND), sum_h / np.float64(_BOUND)


@inner_kernel
def write_row_leaves(rows, start, stop, leaf):
    """Write m to `leaf` uint16 (n,) for the rows of each leaf m, `rows[start[m]:stop[m]]`."""
    for m in range(start.size):
        for i in range(start[m], stop[m]):
            leaf[rows[i]] = m


@fastmath_kernel
def leaf_gradient_sums(probabilities, y, weight, leaf, is_sampled, gradient_sums, hessian_sums):
    """Write the gradient and Hessian sums of each leaf and class: int64 (leaves, K), times 2^30.

    `gradient_sums` is sum w (r - p), and `hessian_sums` is sum w p (1 - p). w is the weight of a
    row, p its probability of the class, and r is 1 for its own class `y`, else 0. The sums are over
    the rows that `is_sampled` bool (n,) marks, or over all rows if `is_sampled` is empty. p and
    p (1 - p), times 2^30, are rounded to integers before they are multiplied by w, so that a row of
    weight 2 equals two rows exactly.
    """
    n_classes = probabilities.shape[1]
    gradient_sums[:] = 0
    hessian_sums[:] = 0
    for i in range(leaf.size):
        if is_sampled.size > 0 and not is_sampled[i]:
            continue
        m, w = leaf[i], np.float64(weight[i])
        if w == 1.0:
            for k in range(n_classes):
                p = probabilities[i, k]
                scaled = p * _ONE
                gradient_sums[m, k] -= np.int64(np.int32(scaled))
                hessian_sums[m, k] += np.int64(np.int32(scaled - scaled * p))
        else:
            for k in range(n_classes):
                p = probabilities[i, k]
                scaled = p * _ONE
                gradient_sums[m, k] -= np.int64(w * np.int32(scaled))
                hessian_sums[m, k] += np.int64(w * np.int32(scaled - scaled * p))
        gradient_sums[m, y[i]] += np.int64(w * np.float64(_ONE))


@inner_kernel
def leaf_values(gradient_sums, hessian_sums, l2, clamp, rate, values, factors):
    """Write the `values` of the leaves, float32 (leaves, K), and their exponentials `factors`.

    A value is `rate` times a Newton step: (K-1)/K of the gradient sum divided by the Hessian sum
    plus `l2`, centred over the classes, then clamped to ±`clamp`. The sums are those of
    `leaf_gradient_sums`.
    """
    n_classes = values.shape[1]
    one = np.float64(_ONE)
    for m in range(values.shape[0]):
        mean = 0.0
        for k in range(n_classes):
            mean += _newton_step(gradient_sums[m, k], hessian_sums[m, k], l2, one) / n_classes
        for k in range(n_classes):
            step = _newton_step(gradient_sums[m, k], hessian_sums[m, k], l2, one) - mean
            step *= (n_classes - 1) / n_classes
            values[m, k] = rate * min(max(step, -clamp), clamp)
            factors[m, k] = np.exp(min(max(values[m, k], -_FAR), _FAR))


@inner_kernel
def _newton_step(gradient_sum, hessian_sum, l2, scale):
    return (gradient_sum / scale) / max(hessian_sum / scale + l2, 1e-12)
