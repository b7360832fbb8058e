"""Log-loss kernels: gradients, leaf values and probabilities of a boosting round."""

import numpy as np

from streamboost.kernels.jit import kernel

_REBUILD = 32  # rounds between exact softmax computations, as factors cannot change a zero
_FAR = 30.0  # a factor beyond exp(±30) would round small probabilities to zero
_NARROW_BITS = 30  # of a sum in half of an int64
_WIDE_BITS = 52  # of a sum in a whole int64, which float64 represents exactly


@kernel
def softmax(scores, probabilities):
    """Write the softmax of each row of `scores` to `probabilities`, both float32 (n, K)."""
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
def class_gradients(probabilities, y, weight, class_index, gradient, hessian):
    """Write the negative gradient r - p and the Hessian p (1 - p) of one class, (n,) each.

    p is the probability of class `class_index`, and r is 1 for its rows, else 0. The values are for
    a row of weight 1. Returns the weighted sums of |gradient| and of Hessians.
    """
    one = np.float32(1.0)
    sum_g, sum_h = 0.0, 0.0
    for i in range(y.size):
        p = probabilities[i, class_index]
        g = one - p if y[i] == class_index else -p
        h = p * (one - p)
        gradient[i] = g
        hessian[i] = h
        sum_g += weight[i] * abs(g)
        sum_h += weight[i] * h
    return sum_g, sum_h


@kernel
def quantize(gradient, hessian, weight, scale_g, scale_h, is_unpacked, histogram_input):
    """Write gradients and Hessians, times weight and scale, as integers to `histogram_input` int64.

    Row i has its gradient and Hessian in the upper and lower half of `histogram_input[i]`, or if
    `is_unpacked`, in `histogram_input[2 * i]` and `histogram_input[2 * i + 1]`. Numbers are rounded
    before they are multiplied by the weight, so that a row of weight 2 equals two rows exactly.
    """
    n = gradient.size
    for i in range(n):
        g = np.int64(np.rint(np.rint(gradient[i] * scale_g) * weight[i]))
        h = np.int64(np.rint(np.rint(hessian[i] * scale_h) * weight[i]))
        if is_unpacked:
            histogram_input[2 * i] = g
            histogram_input[2 * i + 1] = h
        else:
            histogram_input[i] = (g << 32) + h


@kernel
def quantize_without_overflow(
    gradient, hessian, weight, sum_g, sum_h, is_unpacked, histogram_input
):
    """Write gradients and Hessians as integers whose sums do not overflow; return both scales.

    `sum_g` and `sum_h` are the weighted sums of |gradient| and of Hessians, which bound the sums of
    any node. The integers are written to `histogram_input`, see `quantize`. Each scale is a power
    of two, so that rounding errors of the bounds do not change the scale.
    """
    scale_g, scale_h = _scale_for_bound(sum_g, is_unpacked), _scale_for_bound(sum_h, is_unpacked)
    quantize(gradient, hessian, weight, scale_g, scale_h, is_unpacked, histogram_input)
    return scale_g, scale_h


@kernel
def _scale_for_bound(sum_bound, is_unpacked):
    if not sum_bound > 0.0:
        return 1.0
    bits = _WIDE_BITS if is_unpacked else _NARROW_BITS
    # A scale beyond 2^1000 would only be needed for weights near the least positive float64.
    return 2.0 ** min(np.floor(bits - np.log2(sum_bound)), 1000.0)


@kernel
def leaf_steps(gradient, hessian, weight, rows, start, stop, l2, clamp, steps):
    """Write the Newton step of each leaf, sum w g / (sum w h + `l2`), to `steps` (leaves,).

    g, h and w are the `gradient`, `hessian` and `weight` of a row. Leaf m has the rows
    `rows[start[m]:stop[m]]`. Steps are clamped to ±`clamp`.
    """
    for leaf in range(start.size):
        g, h = 0.0, l2
        for i in range(start[leaf], stop[leaf]):
            r = rows[i]
            w = np.float64(weight[r])
            g += w * gradient[r]
            h += w * hessian[r]
        steps[leaf] = min(max(g / max(h, 1e-12), -clamp), clamp)


@kernel
def leaf_steps_independent(probabilities, y, weight, rows, start, stop, l2, clamp, values):
    """Write each leaf's Newton step without the sum-to-one constraint to `values` (leaves, K).

    The step of a class is sum w (r - p) / (sum w p + `l2`), clamped to ±`clamp` and not centred. w
    is a row's weight, p its probability, and r is 1 for its own class `y`, else 0. Leaf m has the
    rows `rows[start[m]:stop[m]]`.
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
def leaf_steps_diagonal(probabilities, y, weight, rows, start, stop, l2, clamp, values):
    """Write each leaf's Newton step with the diagonal Hessian to `values` float64 (leaves, K).

    The step is (K-1)/K of sum w (r - p) / (sum w p (1 - p) + `l2`), centred, then clamped to
    ±`clamp`. w is a row's weight, p its probability, and r is 1 for its own class `y`, else 0.
    `start` and `stop` are the ranges of the leaves in `rows`.
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
def update_softmax_by_leaves(scores, probabilities, rows, start, stop, values):
    """Add leaf `values` (leaves, K) to the scores of the leaves' rows; update the probabilities.

    A probability p becomes p exp(v) for the leaf value v, and is then normalised. This needs one
    exponential per leaf and class instead of per row.
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
def update_softmax_by_tree(scores, probabilities, rows, unsampled, ends, values, n_rounds):
    """Add a tree's leaf values to the scores of all rows, and update their probabilities.

    `ends` int64 (4, leaves) holds the start and stop of each leaf in `rows`, and in `unsampled`.
    `n_rounds` is the number of this round. Every 32 rounds, the probabilities are computed again
    from the scores, as rounding errors accumulate.
    """
    update_softmax_by_leaves(scores, probabilities, rows, ends[0], ends[1], values)
    update_softmax_by_leaves(scores, probabilities, unsampled, ends[2], ends[3], values)
    furthest = np.float32(0.0)
    for leaf in range(values.shape[0]):
        for k in range(values.shape[1]):
            furthest = max(furthest, abs(values[leaf, k]))
    if n_rounds % _REBUILD == 0 or furthest > _FAR:
        softmax(scores, probabilities)


@kernel
def add_leaf_values(scores, rows, start, stop, values):
    """Add leaf values float32 (leaves, K) to the scores of the rows of each leaf."""
    for leaf in range(start.size):
        for i in range(start[leaf], stop[leaf]):
            r = rows[i]
            for k in range(scores.shape[1]):
                scores[r, k] += values[leaf, k]


@kernel
def log_loss(scores, y, weight):
    """Return the sum over the rows of `weight` times the log loss of softmax(scores)."""
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
