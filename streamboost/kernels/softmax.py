"""What the log-loss family does to rows each round: statistics, leaf values, probabilities."""

import numpy as np

from streamboost.kernels.jit import kernel

__all__ = [
    "add_leaf",
    "class_gradients",
    "follow",
    "leaf_newton",
    "leaf_separate",
    "leaf_step",
    "log_loss",
    "multiply_leaf",
    "pack",
    "scale_up",
    "softmax",
]

_REBUILD = 32  # rounds after which probabilities are computed afresh: a float32 zero never recovers
_FAR = 30.0  # a factor beyond exp(±30) would lose the small probabilities at once
_NARROW_BITS = 30  # of a sum in half of an int64
_WIDE_BITS = 52  # sums in an int64 of their own still turn into float64 without rounding


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
def class_gradients(probabilities, y, weight, k, gradient, hessian):
    """Write each row's negative gradient r_k - p_k and Hessian p_k (1 - p_k) in class k alone.

    Of a row of weight 1. Returns the weighted sums of |gradient| and of Hessians.
    """
    one = np.float32(1.0)
    sum_g, sum_h = 0.0, 0.0
    for i in range(y.size):
        p = probabilities[i, k]
        g = one - p if y[i] == k else -p
        h = p * (one - p)
        gradient[i] = g
        hessian[i] = h
        sum_g += weight[i] * abs(g)
        sum_h += weight[i] * h
    return sum_g, sum_h


@kernel
def pack(gradient, hessian, weight, scale_g, scale_h, wide, statistic):
    """Write weighted gradients and Hessians as whole numbers of 1/scale.

    Each in half of an int64, or in an int64 of its own, one after the other (`wide`). They are
    rounded before they are weighted, so that a row of weight 2 counts exactly as two rows.
    """
    n = gradient.size
    for i in range(n):
        g = np.int64(np.rint(np.rint(gradient[i] * scale_g) * weight[i]))
        h = np.int64(np.rint(np.rint(hessian[i] * scale_h) * weight[i]))
        if wide:
            statistic[2 * i] = g
            statistic[2 * i + 1] = h
        else:
            statistic[i] = (g << 32) + h


@kernel
def scale_up(gradient, hessian, weight, sum_g, sum_h, wide, statistic):
    """Write gradients and Hessians as whole numbers whose sums cannot overflow, as `pack` does.

    `sum_g` and `sum_h` are the weighted sums of |gradient| and of Hessians, the exact bounds of any
    node's sums. Returns the scales: powers of two, so that the order of the rows, which moves the
    bounds by a rounding, does not move the scale.
    """
    scale_g, scale_h = _power_of_two(sum_g, wide), _power_of_two(sum_h, wide)
    pack(gradient, hessian, weight, scale_g, scale_h, wide, statistic)
    return scale_g, scale_h


@kernel
def _power_of_two(bound, wide):
    if not bound > 0.0:
        return 1.0
    bits = _WIDE_BITS if wide else _NARROW_BITS
    # Beyond 2^1000 a weight itself is near the least number there is.
    return 2.0 ** min(np.floor(bits - np.log2(bound)), 1000.0)


@kernel
def leaf_step(gradient, hessian, weight, rows, start, stop, l2, clamp, steps):
    """Write each leaf's Newton step sum w g / (sum w h + l2), clamped, to `steps` (leaves,)."""
    for leaf in range(start.size):
        g, h = 0.0, l2
        for i in range(start[leaf], stop[leaf]):
            r = rows[i]
            w = np.float64(weight[r])
            g += w * gradient[r]
            h += w * hessian[r]
        steps[leaf] = min(max(g / max(h, 1e-12), -clamp), clamp)


@kernel
def leaf_separate(probabilities, y, weight, rows, start, stop, l2, clamp, values):
    """Write each leaf's Newton step of a loss without sum-to-one to `values` float64 (leaves, K).

    Each class by itself: sum w (r - p) / (sum w p + l2), clamped and not centred.
    """
    n_classes = probabilities.shape[1]
    hessian = np.empty(n_classes)
    for leaf in range(start.size):
        step = values[leaf]
        step[:] = 0.0
        hessian[:] = 0.0
        for i in range(start[leaf], stop[leaf]):
            r = rows[i]
            w = np.float64(weight[r])
            for k in range(n_classes):
                hessian[k] += w * np.float64(probabilities[r, k])
            step[y[r]] += w
        for k in range(n_classes):
            t = (step[k] - hessian[k]) / max(hessian[k] + l2, 1e-12)
            step[k] = min(max(t, -clamp), clamp)


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
            w = np.float64(weight[r])
            for k in range(n_classes):
                p = np.float64(probabilities[r, k])
                step[k] -= w * p
                hessian[k] += w * (p * (1.0 - p))
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
    for leaf in range(values.shape[0]):
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


@kernel
def follow(scores, probabilities, rows, rest, ends, values, n_rounds):
    """Add a tree's leaf values to the scores of all rows, sampled or not, and follow in softmax.

    `ends` int64 (4, leaves): each leaf's start and stop in `rows`, and in `rest`. Probabilities are
    computed afresh every so many rounds, of which this one is the `n_rounds`-th.
    """
    multiply_leaf(scores, probabilities, rows, ends[0], ends[1], values)
    multiply_leaf(scores, probabilities, rest, ends[2], ends[3], values)
    furthest = np.float32(0.0)
    for leaf in range(values.shape[0]):
        for k in range(values.shape[1]):
            furthest = max(furthest, abs(values[leaf, k]))
    if n_rounds % _REBUILD == 0 or furthest > _FAR:
        softmax(scores, probabilities)


@kernel
def add_leaf(scores, rows, start, stop, values):
    """Add each leaf's `values` float32 (leaves, K) to its rows' scores."""
    for leaf in range(start.size):
        for i in range(start[leaf], stop[leaf]):
            r = rows[i]
            for k in range(scores.shape[1]):
                scores[r, k] += values[leaf, k]


@kernel
def log_loss(scores, y, weight):
    """Return the weighted sum of -log softmax(scores)_y."""
    n, n_classes = scores.shape
    loss = 0.0
    for i in range(n):
        top = scores[i, 0]
        for k in range(1, n_classes):
            top = max(top, scores[i, k])
        total = np.float32(0.0)
        for k in range(n_classes):
            total += np.exp(scores[i, k] - top)
        loss += weight[i] * (np.log(np.float64(total)) + (top - scores[i, y[i]]))
    return loss
