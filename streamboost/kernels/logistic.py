"""Kernels of the multinomial logistic regression on vectors.

All sums are in the order of the source. The innermost loops are over classes, without dependencies
between their steps, so that the compiler vectorizes them.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel

_BLOCK = 4
"""Number of terms that one pass over the classes adds."""

_POWER_ITERATIONS = 12


@inner_kernel
def _write_scores(row, weights, scores):
    """Write the product of `row` (D,) and `weights` (D, K) to `scores` (K,)."""
    n_features, n_classes = weights.shape
    for k in range(n_classes):
        scores[k] = np.float32(0.0)
    blocks = n_features // _BLOCK * _BLOCK
    for j in range(0, blocks, _BLOCK):
        a, b, c, d = row[j], row[j + 1], row[j + 2], row[j + 3]
        for k in range(n_classes):
            scores[k] += (a * weights[j, k] + b * weights[j + 1, k]) + (
                c * weights[j + 2, k] + d * weights[j + 3, k]
            )
    for j in range(blocks, n_features):
        a = row[j]
        for k in range(n_classes):
            scores[k] += a * weights[j, k]


@inner_kernel
def _log_softmax_in_place(scores):
    """Replace `scores` float32 (K,) by their log-softmax, in place."""
    most = np.float32(-np.inf)
    for k in range(scores.size):
        most = max(most, scores[k])
    total = np.float32(0.0)
    for k in range(scores.size):
        total += np.exp(scores[k] - most)
    level = most + np.log(total)
    for k in range(scores.size):
        scores[k] -= level


@inner_kernel
def _write_gradient(X, residuals, gradient):
    """Write the transpose of `X` (n, D) times `residuals` (n, K) to `gradient` (D, K)."""
    n_rows, n_features = X.shape
    n_classes = residuals.shape[1]
    for j in range(n_features):
        for k in range(n_classes):
            gradient[j, k] = np.float32(0.0)
    blocks = n_rows // _BLOCK * _BLOCK
    for i in range(0, blocks, _BLOCK):
        for j in range(n_features):
            a, b, c, d = X[i, j], X[i + 1, j], X[i + 2, j], X[i + 3, j]
            for k in range(n_classes):
                gradient[j, k] += (a * residuals[i, k] + b * residuals[i + 1, k]) + (
                    c * residuals[i + 2, k] + d * residuals[i + 3, k]
                )
    for i in range(blocks, n_rows):
        for j in range(n_features):
            a = X[i, j]
            for k in range(n_classes):
                gradient[j, k] += a * residuals[i, k]


@inner_kernel
def _largest_eigenvalue(X, weight, n_iterations, vector, product):
    """Return a lower estimate of the largest eigenvalue of X'X, with rows weighted by `weight`.

    `vector` float64 (D,) holds the first vector of the power iteration, and `product` float64 (D,)
    is overwritten.
    """
    n_rows, n_features = X.shape
    largest = 0.0
    for _ in range(n_iterations):
        for j in range(n_features):
            product[j] = 0.0
        for i in range(n_rows):
            total = 0.0
            for j in range(n_features):
                total += X[i, j] * vector[j]
            total *= weight[i]
            for j in range(n_features):
                product[j] += total * X[i, j]
        largest = 0.0
        for j in range(n_features):
            largest += product[j] * product[j]
        largest = np.sqrt(largest)
        if largest == 0.0:
            return 0.0
        for j in range(n_features):
            vector[j] = product[j] / largest
    return largest


@kernel
def train_logistic(X, y, weight, prior, strength, n_iterations, tolerance, weights):
    """Train the `weights` float32 (D, K) of a multinomial logistic regression, in place.

    Minimizes strength * (weighted sum of log losses) + |weights - prior|^2 / 2. The method is
    Nesterov's accelerated gradient, restarted where a step increases the objective (O'Donoghue and
    Candes, 2015). The step size is the reciprocal of a bound of the curvature (Boehning, 1992).
    Returns the number of iterations.

    Parameters
    ----------
    X, y, weight
        Rows float32 (n, D), class indices int64 (n,) and weights float32 (n,).
    prior
        float32 (D, K), the mean of the weights before any row.
    strength
        Inverse of the regularization strength; scikit-learn's C.
    n_iterations, tolerance
        Largest number of iterations. Training ends earlier if no element of the gradient exceeds
        `strength * tolerance`.
    weights
        Initial weights, overwritten with the result.
    """
    n_rows, n_features = X.shape
    n_classes = weights.shape[1]
    vector = np.full(n_features, 1.0 / np.sqrt(n_features))
    largest = _largest_eigenvalue(X, weight, _POWER_ITERATIONS, vector, np.empty(n_features))
    curvature = 0.55 * strength * largest + 1.0  # the estimate is below, so 10 % are added
    step = np.float32(1.0 / curvature)
    strength32, momentum = np.float32(strength), 1.0
    ahead = weights.copy()
    gradient = np.empty((n_features, n_classes), dtype=np.float32)
    residuals = np.empty((n_rows, n_classes), dtype=np.float32)
    for iteration in range(n_iterations):
        for i in range(n_rows):
            own = residuals[i]
            _write_scores(X[i], ahead, own)
            _log_softmax_in_place(own)
            scale = strength32 * weight[i]
            for k in range(n_classes):
                own[k] = scale * np.exp(own[k])
            own[y[i]] -= scale
        _write_gradient(X, residuals, gradient)
        largest_slope, uphill = np.float32(0.0), 0.0
        for j in range(n_features):
            for k in range(n_classes):
                slope = gradient[j, k] + ahead[j, k] - prior[j, k]
                gradient[j, k] = slope
                largest_slope = max(largest_slope, abs(slope))
        before = momentum
        momentum = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * before * before))
        part = np.float32((before - 1.0) / momentum)
        for j in range(n_features):
            for k in range(n_classes):
                after = ahead[j, k] - step * gradient[j, k]
                moved = after - weights[j, k]
                uphill += gradient[j, k] * moved
                ahead[j, k] = after + part * moved
                weights[j, k] = after
        if largest_slope <= strength * tolerance:
            return iteration + 1
        if uphill > 0.0:
            momentum = 1.0
            for j in range(n_features):
                for k in range(n_classes):
                    ahead[j, k] = weights[j, k]
    return n_iterations


@kernel
def predict_logistic(X, is_predicted, weights, columns, log_probabilities):
    """Write class log probabilities of the rows of `X` (n, D) that `is_predicted` bool (n,) marks.

    On entry, `log_probabilities` float64 (n, K) has the predictions of another model. `columns`
    int64 (C,) are the indices of the regression's classes. The sum of their probabilities stays the
    same; the regression divides this sum among them. `weights` float32 (D, C) are as in
    `train_logistic`. The result of a row does not depend on other rows.
    """
    scores = np.empty(weights.shape[1], dtype=np.float32)
    for i in range(X.shape[0]):
        if not is_predicted[i]:
            continue
        _write_scores(X[i], weights, scores)
        _log_softmax_in_place(scores)
        total = 0.0
        for c in range(columns.size):
            total += np.exp(log_probabilities[i, columns[c]])
        level = np.log(total)
        for c in range(columns.size):
            log_probabilities[i, columns[c]] = scores[c] + level
