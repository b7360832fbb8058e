"""Experts' log probabilities as one prediction, and the small experts' own.

Row by row: what is said of one does not depend on the rows it is scored with. Of one record each
takes less than numpy takes to call a function.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel
from streamboost.kernels.stream.neighbours import say_neighbours
from streamboost.kernels.traverse import leaf_of

__all__ = [
    "learn_linear",
    "learn_scale",
    "learn_weights",
    "mix",
    "say_alone",
    "say_corrected",
    "say_linear",
    "say_neighbours",
    "say_sequence",
]


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
def say_alone(scores, temperature, columns, share, least, said):
    """Write what the committee says, in the place of every expert, to `said` float64 (E, n, K).

    Parameters
    ----------
    scores, temperature
        float64 (n, its classes): divided by the temperature, log probabilities but for their level.
    columns
        int64 (its classes,), which of the K they are.
    share
        float64 (K,), what the classes have of the newest labels, where the committee does not know
        all: those that it does not know get their share. Else (0,).
    least
        The least log probability of a class that it knows, before others get their share.
    """
    level = 0.0
    if share.size > 0:
        for c in range(columns.size):
            level += share[columns[c]]
        level = np.log(level)
    own = np.empty(columns.size)
    for i in range(scores.shape[0]):
        for c in range(own.size):
            own[c] = scores[i, c] / temperature
        _normalize(own)
        for k in range(share.size):
            said[0, i, k] = np.log(share[k])
        for c in range(own.size):
            said[0, i, columns[c]] = max(own[c], least) + level
        for e in range(1, said.shape[0]):
            for k in range(said.shape[2]):
                said[e, i, k] = said[0, i, k]


@kernel
def say_corrected(scores, first, temperature, nodes, roots, values, X, columns, said):
    """Write what a committee says once stumps correct it to `columns` of `said` float64 (n, K).

    `scores` float64 (n, its classes) are its own; `first` float64 (others,) those with which
    classes enter that it does not know. Stumps as `traverse.add_scores` takes them, of as many
    classes as `columns` int64 (its and others,) has; `X` float32 (n, D), NaN where missing.
    """
    own = scores.shape[1]
    logs = np.empty(columns.size)
    for i in range(scores.shape[0]):
        for c in range(logs.size):
            logs[c] = scores[i, c] if c < own else first[c - own]
        for t in range(roots.size):
            leaf = leaf_of(nodes, roots[t], X, i)
            for c in range(logs.size):
                logs[c] += values[leaf, c]
        for c in range(logs.size):
            logs[c] /= temperature
        _normalize(logs)
        for c in range(logs.size):
            said[i, columns[c]] = logs[c]


@kernel
def mix(weights, said, least, probabilities, best, margins):
    """Add what experts `said` float64 (E, n, K), at least `least`, by `weights` float64 (E,).

    Filled: `probabilities` float64 (n, K), which sum to 1; `best` int64 (n,), the place of the
    largest, the first of those that tie; `margins` float64 (n,), the logarithm of the largest less
    that of the second, 0 where there is no second.
    """
    n_classes = said.shape[2]
    logs = np.empty(n_classes)
    for i in range(said.shape[1]):
        first, second, place = -np.inf, -np.inf, 0
        for k in range(n_classes):
            total = 0.0
            for e in range(weights.size):
                said[e, i, k] = max(said[e, i, k], least)
                total += weights[e] * said[e, i, k]
            logs[k] = total
        _normalize(logs)
        for k in range(n_classes):
            probabilities[i, k] = np.exp(logs[k])
            if logs[k] > first:
                first, second, place = logs[k], first, k
            elif logs[k] > second:
                second = logs[k]
        best[i], margins[i] = place, first - second if n_classes > 1 else 0.0


@kernel
def learn_weights(logs, k, weight, step, weights, squares):
    """Take one step of AdaGrad for a record of class `k` of which experts said `logs` (E, K).

    `weights` float64 (E,) stay at least 0; `squares` float64 (E,) are those of the slopes so far.
    """
    n_experts, n_classes = logs.shape
    off = np.zeros(n_classes)
    for c in range(n_classes):
        for e in range(n_experts):
            off[c] += weights[e] * logs[e, c]
    _normalize(off)
    for c in range(n_classes):
        off[c] = np.exp(off[c]) - (c == k)
    for e in range(n_experts):
        slope = 0.0
        for c in range(n_classes):
            slope += logs[e, c] * off[c]
        slope *= weight
        squares[e] += slope * slope
        weights[e] = max(weights[e] - step * slope / np.sqrt(squares[e]), 0.0)


@kernel
def say_sequence(counts, smoothing, said):
    """Write the logs of the shares of `counts` float64 (k,), smoothed, to `said` (n, >= k)."""
    total = 0.0
    for k in range(counts.size):
        total += counts[k] + smoothing
    for i in range(said.shape[0]):
        for k in range(counts.size):
            said[i, k] = np.log((counts[k] + smoothing) / total)


@kernel
def learn_sequence(counts, before, k, fade, weight):
    """Let the counts float64 (K, K) of what followed class `before` fade, and count class `k`."""
    for c in range(counts.shape[1]):
        counts[before, c] *= fade
    counts[before, k] += weight


@kernel
def learn_scale(row, newest, flat, n, mean, variance, rate):
    """Take a row (D,) into means and variances, float64 (D,), and write one over the deviations.

    `n` float64 (D,) are the values known, at most `newest`, over which both are taken. `rate` is 0
    where the variance is no more than `flat` of the squared mean.
    """
    for j in range(row.size):
        x = np.float64(row[j])
        if x == x:
            n[j] = min(n[j] + 1.0, newest)
            share = 1.0 / n[j]
            off = x - mean[j]
            mean[j] += share * off
            variance[j] += share * (off * (1.0 - share) * off - variance[j])
        varies = variance[j] > flat * (mean[j] * mean[j] + flat)
        rate[j] = 1.0 / np.sqrt(variance[j]) if varies else 0.0


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
