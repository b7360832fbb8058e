"""What the log-loss family does to rows each round: statistics, leaf values, probabilities."""

import numpy as np

from streamboost.kernels.jit import kernel

__all__ = ["leaf_newton", "multiply_leaf", "pack", "project", "softmax"]


@kernel
def softmax(scores, probabilities):
    """Write the softmax of `scores` float32 (n, K) to `probabilities` float32 (n, K)."""
    n, n_classes = scores.shape
    for i in range(n):
        top = scores[i, 0]
        for k in range(1, n_classes):
            top = max(top, scores[i, k])
        total = np.float32(0.0)
        for k in range(n_classes):
            e = np.exp(scores[i, k] - top)
            probabilities[i, k] = e
            total += e
        for k in range(n_classes):
            probabilities[i, k] /= total


@kernel
def project(probabilities, y, weight, direction, gradient, hessian):
    """Write each row's negative gradient and Hessian along `direction`; return their bounds.

    With u the direction (K,) float32: gradient w (u_y - u.p), Hessian w (sum u^2 p - (u.p)^2).
    Returns the sums of |gradient| and of Hessians.
    """
    n, n_classes = probabilities.shape
    sum_g, sum_h = 0.0, 0.0
    for i in range(n):
        mean, square = np.float32(0.0), np.float32(0.0)
        for k in range(n_classes):
            up = direction[k] * probabilities[i, k]
            mean += up
            square += direction[k] * up
        g = weight[i] * (direction[y[i]] - mean)
        h = weight[i] * max(square - mean * mean, np.float32(0.0))
        gradient[i] = g
        hessian[i] = h
        sum_g += abs(g)
        sum_h += h
    return sum_g, sum_h


@kernel
def pack(gradient, hessian, scale_g, scale_h, wide, statistic):
    """Write gradients and Hessians as whole numbers of 1/scale: in halves, or one after the other."""
    n = gradient.size
    if wide:
        for i in range(n):
            statistic[i] = np.int64(np.rint(gradient[i] * scale_g))
            statistic[n + i] = np.int64(np.rint(hessian[i] * scale_h))
    else:
        for i in range(n):
            g = np.int64(np.rint(gradient[i] * scale_g))
            statistic[i] = (g << 32) + np.int64(np.rint(hessian[i] * scale_h))


@kernel
def leaf_newton(probabilities, y, weight, rows, start, stop, l2, clamp, values):
    """Write each leaf's K-vector diagonal Newton step to `values` float64 (leaves, K).

    (K-1)/K of sum w (r - p) / (sum w p (1 - p) + l2), centred, then clamped; `start` and `stop`
    give each leaf's range in `rows`.
    """
    n_classes = probabilities.shape[1]
    hessian = np.empty(n_classes)
    for leaf in range(start.size):
        step = values[leaf]
        step[:] = 0.0
        hessian[:] = l2
        for i in range(start[leaf], stop[leaf]):
            r = rows[i]
            w = weight[r]
            for k in range(n_classes):
                p = probabilities[r, k]
                step[k] -= w * p
                hessian[k] += w * p * (np.float32(1.0) - p)
            step[y[r]] += w
        mean = 0.0
        for k in range(n_classes):
            step[k] /= max(hessian[k], 1e-12)
            mean += step[k] / n_classes
        for k in range(n_classes):
            centred = (n_classes - 1) / n_classes * (step[k] - mean)
            step[k] = min(max(centred, -clamp), clamp)


@kernel
def multiply_leaf(scores, probabilities, rows, start, stop, values):
    """Add each leaf's `values` float32 (leaves, K) to its rows' scores, and follow in softmax.

    One exponential per leaf and class, not per row: p becomes p exp(v), renormalised.
    """
    n_classes = scores.shape[1]
    factor = np.empty(n_classes, np.float32)
    for leaf in range(start.size):
        for k in range(n_classes):
            factor[k] = np.exp(values[leaf, k])
        for i in range(start[leaf], stop[leaf]):
            r = rows[i]
            total = np.float32(0.0)
            for k in range(n_classes):
                scores[r, k] += values[leaf, k]
                p = probabilities[r, k] * factor[k]
                probabilities[r, k] = p
                total += p
            share = np.float32(1.0) / total
            for k in range(n_classes):
                probabilities[r, k] *= share
