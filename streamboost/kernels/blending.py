"""Experts' log probabilities as one prediction, and the linear expert's own.

Row by row: what is said of one does not depend on the rows it is scored with.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel

__all__ = ["learn_linear", "mix", "say_linear"]


@inner_kernel
def _normalize(logs):
    """Make log probabilities of scores (K,)."""
    most = -np.inf
    for k in range(logs.size):
        most = max(most, logs[k])
    total = 0.0
    for k in range(logs.size):
        total += np.exp(logs[k] - most)
    level = most + np.log(total)
    for k in range(logs.size):
        logs[k] -= level


@kernel
def mix(weights, said, logs):
    """Write the sum of what experts `said` float64 (E, n, K), by `weights` (E,), to `logs` (n, K).

    Of each row the log probabilities: exponentials sum to 1.
    """
    for i in range(said.shape[1]):
        for k in range(said.shape[2]):
            total = 0.0
            for e in range(weights.size):
                total += weights[e] * said[e, i, k]
            logs[i, k] = total
        _normalize(logs[i])


@inner_kernel
def _scale(X, i, mean, rate, furthest, scaled):
    """Write a row (D,) in standard deviations to `scaled` (D + 1,) behind 1, of length about 1."""
    part = 1.0 / np.sqrt(scaled.size)
    scaled[0] = part
    for j in range(mean.size):
        z = (X[i, j] - mean[j]) * rate[j]
        scaled[j + 1] = min(max(z, -furthest), furthest) * part if z == z else 0.0


@inner_kernel
def _score(weights, scaled, logs):
    for k in range(weights.shape[0]):
        score = 0.0
        for j in range(scaled.size):
            score += weights[k, j] * scaled[j]
        logs[k] = score
    _normalize(logs)


@kernel
def say_linear(X, mean, rate, furthest, weights, said):
    """Write what a softmax regression says of rows `X` float32 (n, D) to `said` (n, >= K).

    `mean` and `rate` float64 (D,) scale the features, by 0 those that are left out; missing ones
    are at the mean. `weights` float64 (K, D + 1), the constant first.
    """
    n_classes = weights.shape[0]
    scaled = np.empty(weights.shape[1])
    for i in range(X.shape[0]):
        _scale(X, i, mean, rate, furthest, scaled)
        _score(weights, scaled, said[i, :n_classes])


@kernel
def learn_linear(X, mean, rate, furthest, k, step, weight, weights, squares):
    """Take one step of AdaGrad for the only row of `X`, of class `k`, that counts as `weight`.

    `squares` float64 (K, D + 1) are those of the gradients so far.
    """
    scaled, logs = np.empty(weights.shape[1]), np.empty(weights.shape[0])
    _scale(X, 0, mean, rate, furthest, scaled)
    _score(weights, scaled, logs)
    for c in range(weights.shape[0]):
        off = weight * (np.exp(logs[c]) - (c == k))
        for j in range(scaled.size):
            slope = off * scaled[j]
            squares[c, j] += slope * slope
            weights[c, j] -= step * slope / np.sqrt(squares[c, j])
