"""Class pairs of AOSO-LogitBoost: the choice of a pair, its gradients, and the leaf steps.

In a step that raises class a by t and lowers class b by t, the log loss of a row has the negative
gradient (r_a - p_a) - (r_b - p_b) and the Hessian (p_a + p_b) - (p_a - p_b)^2.
"""

import numpy as np

from streamboost.kernels.jit import kernel

_TIE = 1e-9  # relative tolerance of ties; the first class wins a tie


@kernel
def _write_gradient_and_hessian_of_classes(
    probabilities, y, weight, rows, start, stop, gradient, hessian
):
    # G_k = sum w (r_k - p_k), and the diagonal of the Hessian, sum w p_k (1 - p_k).
    n_classes = probabilities.shape[1]
    gradient[:] = 0.0
    hessian[:] = 0.0
    mass = 0.0
    for i in range(start, stop):
        r = rows[i]
        w = np.float64(weight[r])
        for k in range(n_classes):
            p = np.float64(probabilities[r, k])
            gradient[k] -= w * p
            hessian[k] += w * (p * (1.0 - p))
        gradient[y[r]] += w
        mass += w
    return mass


@kernel
def _write_probability_products(probabilities, weight, rows, start, stop, class_index, products):
    # sum w p_a p_k: the off-diagonal entries of the Hessian in row a, with opposite sign.
    n_classes = probabilities.shape[1]
    products[:] = 0.0
    for i in range(start, stop):
        r = rows[i]
        wp = np.float64(weight[r]) * np.float64(probabilities[r, class_index])
        for k in range(n_classes):
            products[k] += wp * np.float64(probabilities[r, k])


@kernel
def _choose_class_pair(probabilities, y, weight, rows, start, stop, by_gain, workspace):
    """Return the class pair (a, b) of a node, and the gradient and Hessian sums of the pair.

    The node has the rows `rows[start:stop]`. `by_gain` is as in `choose_node_class_pair`.
    """
    gradient, hessian, products = workspace[0], workspace[1], workspace[2]
    mass = _write_gradient_and_hessian_of_classes(
        probabilities, y, weight, rows, start, stop, gradient, hessian
    )
    a = 0
    for k in range(1, gradient.size):
        if gradient[k] > gradient[a] + _TIE * mass:
            a = k
    _write_probability_products(probabilities, weight, rows, start, stop, a, products)
    b, best, sum_g, sum_h = -1, -1.0, 0.0, 0.0
    for k in range(gradient.size):
        if k == a:
            continue
        g = gradient[a] - gradient[k]
        h = hessian[a] + hessian[k] + 2.0 * products[k]
        score = g * g / max(h, 1e-300) if by_gain else g
        least = best * (1.0 + _TIE) if by_gain else best + _TIE * mass
        if b < 0 or score > least:
            b, best, sum_g, sum_h = k, score, g, h
    return a, b, sum_g, sum_h


@kernel
def choose_node_class_pair(probabilities, y, weight, rows, by_gain):
    """Return the class pair (a, b) of a node; its step raises the score of a and lowers that of b.

    Class a has the largest gradient sum G. If `by_gain`, class b has the largest (G_a - G_b)^2
    divided by the Hessian of the pair; else b has the smallest G. Ties go to the first class.
    Shapes: `probabilities` float32 (n, K), `y` uint32 (n,), `weight` float32 (n,), `rows` uint32.
    """
    workspace = np.empty((3, probabilities.shape[1]))
    a, b, _, _ = _choose_class_pair(
        probabilities, y, weight, rows, 0, rows.size, by_gain, workspace
    )
    return a, b


@kernel
def class_pair_gradients(
    probabilities, y, weight, rows, raised_class, lowered_class, gradient, hessian
):
    """Write the negative gradient and Hessian of `rows` for a step in a pair of classes.

    The step adds t to the score of `raised_class`, and subtracts t from that of `lowered_class`.

    The values are for a row of weight 1. Returns the weighted sums of |gradient| and of Hessians.
    """
    one, zero = np.float32(1.0), np.float32(0.0)
    sum_g, sum_h = 0.0, 0.0
    for i in range(rows.size):
        r = rows[i]
        p, q = probabilities[r, raised_class], probabilities[r, lowered_class]
        own = one if y[r] == raised_class else -one if y[r] == lowered_class else zero
        g = own - (p - q)
        h = max(p + q - (p - q) * (p - q), zero)
        gradient[i] = g
        hessian[i] = h
        sum_g += weight[r] * abs(g)
        sum_h += weight[r] * h
    return sum_g, sum_h


@kernel
def write_class_pair_gradients(probabilities, y, weight, rows, by_gain, bits, is_unpacked, values):
    """Choose the class pair of a node with the given `rows`; write its gradients and Hessians.

    They are written to `values` int64, as integers. `by_gain` is as in `choose_node_class_pair`.
    The gradient and Hessian of row r are the upper and lower half of `values[r]`, or if
    `is_unpacked`, `values[2 * r]` and `values[2 * r + 1]`. Both are multiples of 1/scale, and their
    sums have at most `bits` bits. Numbers are rounded before they are multiplied by the weight, so
    that a row of weight 2 equals two rows exactly. Returns the scales of gradient and Hessian,
    which are powers of two.
    """
    a, b = choose_node_class_pair(probabilities, y, weight, rows, by_gain)
    gradient, hessian = np.empty(rows.size, np.float32), np.empty(rows.size, np.float32)
    sum_g, sum_h = class_pair_gradients(probabilities, y, weight, rows, a, b, gradient, hessian)
    scale_g = 2.0 ** np.floor(bits - np.log2(sum_g)) if sum_g > 0.0 else 1.0
    scale_h = 2.0 ** np.floor(bits - np.log2(sum_h)) if sum_h > 0.0 else 1.0
    for i in range(rows.size):
        r = rows[i]
        g = np.int64(np.rint(np.rint(gradient[i] * scale_g) * weight[r]))
        h = np.int64(np.rint(np.rint(hessian[i] * scale_h) * weight[r]))
        if is_unpacked:
            values[2 * r] = g
            values[2 * r + 1] = h
        else:
            values[r] = (g << 32) + h
    return scale_g, scale_h


@kernel
def leaf_steps_in_class_pairs(
    probabilities, y, weight, rows, start, stop, l2, clamp, values, by_gain
):
    """Write the Newton step of each leaf in its class pair to `values` (leaves, K).

    Class a of the pair gets t = G / (H + l2), clamped to ±`clamp`, and class b gets -t; G and H are
    the gradient and Hessian sums of the pair. `start` and `stop` are the ranges of the leaves in
    `rows`. `by_gain` is as in `choose_node_class_pair`.
    """
    workspace = np.empty((3, probabilities.shape[1]))
    values[:] = 0.0
    for leaf in range(start.size):
        first, end = start[leaf], stop[leaf]
        a, b, g, h = _choose_class_pair(
            probabilities, y, weight, rows, first, end, by_gain, workspace
        )
        t = min(g / max(h + l2, 1e-12), clamp)
        values[leaf, a] = t
        values[leaf, b] = -t


@kernel
def _write_gradient_and_full_hessian(probabilities, y, weight, rows, start, stop, gradient, matrix):
    # G, and the lower half of the Hessian sum w (diag p - p p').
    gradient[:] = 0.0
    matrix[:] = 0.0
    for i in range(start, stop):
        r = rows[i]
        w = np.float64(weight[r])
        for j in range(gradient.size):
            p = np.float64(probabilities[r, j])
            wp = w * p
            gradient[j] -= wp
            for k in range(j):
                matrix[j, k] -= wp * np.float64(probabilities[r, k])
            matrix[j, j] += wp * (1.0 - p)
        gradient[y[r]] += w


@kernel
def _solve_linear_system(matrix, right_side, min_pivot):
    # Cholesky decomposition in place; pivots lost to rounding errors are raised to `min_pivot`.
    n = right_side.size
    for j in range(n):
        for k in range(j + 1):
            s = matrix[j, k]
            for m in range(k):
                s -= matrix[j, m] * matrix[k, m]
            matrix[j, k] = s / matrix[k, k] if k < j else np.sqrt(max(s, min_pivot))
        s = right_side[j]
        for m in range(j):
            s -= matrix[j, m] * right_side[m]
        right_side[j] = s / matrix[j, j]
    for j in range(n - 1, -1, -1):
        s = right_side[j]
        for m in range(j + 1, n):
            s -= matrix[m, j] * right_side[m]
        right_side[j] = s / matrix[j, j]


@kernel
def leaf_steps_full_hessian(probabilities, y, weight, rows, start, stop, l2, clamp, values):
    """Write the Newton step of each leaf with the full K x K Hessian to `values` (leaves, K).

    The step f solves (H + l2 I + c 11') f = G, with the gradient sums G and c = trace(H) / K^2,
    which regularizes the null direction of H. The step is centred, then clamped. `start` and `stop`
    are the ranges of the leaves in `rows`.
    """
    n = probabilities.shape[1]
    matrix = np.empty((n, n))
    for leaf in range(start.size):
        f = values[leaf]
        _write_gradient_and_full_hessian(
            probabilities, y, weight, rows, start[leaf], stop[leaf], f, matrix
        )
        trace = n * l2
        for j in range(n):
            trace += matrix[j, j]
        for j in range(n):
            matrix[j, j] += l2
            for k in range(j + 1):
                matrix[j, k] += trace / (n * n)
        _solve_linear_system(matrix, f, 1e-10 * trace / n + 1e-12)
        mean = 0.0
        for k in range(n):
            mean += f[k] / n
        for k in range(n):
            f[k] = min(max(f[k] - mean, -clamp), clamp)
