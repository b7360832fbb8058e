"""Stacking kernels: the combination of experts, and their predictions.

The prediction of a row does not depend on the other rows. For one record, each kernel takes less
time than a call of a numpy function.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel
from streamboost.kernels.neighbours import say_neighbours
from streamboost.kernels.traverse import leaf_of

__all__ = [
    "learn_linear",
    "learn_scale",
    "learn_weights",
    "mix",
    "predict_young",
    "say_alone",
    "say_corrected",
    "say_linear",
    "say_neighbours",
    "say_sequence",
    "share_weights",
]

_SMOOTHING = 1e-4
"""Added to the probabilities of the stack where it is judged."""


@inner_kernel
def _normalize(logs):
    """Convert scores (K,) to log probabilities in place."""
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
    """Write the committee's log probabilities to `said` float64 (E, n, K), for each expert.

    Parameters
    ----------
    scores, temperature
        float64 (n, its classes): divided by the temperature, log probabilities up to a constant.
    columns
        int64 (its classes,), the indices of the committee's classes among the K classes.
    share
        float64 (K,), the shares of the classes in the most recent labels, if the committee lacks
        classes. A class that it lacks gets its share as probability. Else (0,).
    least
        Least log probability of a class of the committee, before the shares are applied.
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
    """Write a committee's log probabilities with a stump correction to `said` float64 (n, K).

    `scores` float64 (n, its classes) are the committee's. `first` float64 (others,) are the initial
    scores of the classes that the committee lacks. Stumps are as in `traverse.add_scores`, for the
    classes `columns` int64 (its and others,). `X` is float32 (n, D), NaN where missing.
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
    """Combine the experts' log probabilities `said` float64 (E, n, K) by `weights` float64 (E,).

    Log probabilities are raised to at least `least` in place. Outputs: `probabilities` float64
    (n, K), which sum to 1; `best` int64 (n,), the index of the largest, where ties go to the first;
    `margins` float64 (n,), the difference of the two largest log probabilities, 0 for one class.
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
    """Update the expert weights by one AdaGrad step for a record of class `k`.

    `logs` (E, K) are the experts' log probabilities of the record. `weights` float64 (E,) stay at
    least 0. `squares` float64 (E,) are the sums of squared gradients.
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
    """Write the log shares of `counts` float64 (k,), smoothed, to `said` (n, >= k)."""
    total = 0.0
    for k in range(counts.size):
        total += counts[k] + smoothing
    for i in range(said.shape[0]):
        for k in range(counts.size):
            said[i, k] = np.log((counts[k] + smoothing) / total)


@kernel
def learn_sequence(counts, before, k, fade, weight):
    """Count the transition from class `before` to `k` in `counts` float64 (K, K), with decay."""
    for c in range(counts.shape[1]):
        counts[before, c] *= fade
    counts[before, k] += weight


@kernel
def learn_scale(row, newest, flat, n, mean, variance, rate):
    """Update the running means and variances, float64 (D,), by a row, and write 1 / deviations.

    `n` float64 (D,) are the effective numbers of values of the running statistics, at most
    `newest`. `rate` is 0 if the variance is at most `flat` times the squared mean.
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
    """Write a constant and the standardized row to `scaled` (D + 1,), with a norm of about 1."""
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
    """Write the log probabilities of a softmax regression for `X` float32 (n, D) to `said`.

    `said` is (n, >= K). `mean` and `rate` float64 (D,) standardize the features; `rate` is 0 for
    ignored features. Missing values are replaced by the mean. `weights` is float64 (K, D + 1), with
    the constant first.
    """
    n_classes = weights.shape[0]
    scaled = np.empty(weights.shape[1])
    for i in range(X.shape[0]):
        _scale(X, i, mean, rate, furthest, scaled)
        _score(weights, scaled, said[i, :n_classes])


@kernel
def learn_linear(X, mean, rate, furthest, k, step, weight, weights, squares):
    """Update the softmax regression by one AdaGrad step for the single row of `X`, of class `k`.

    `weight` is the weight of the row. `squares` float64 (K, D + 1) are the sums of squared
    gradients.
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


@kernel
def predict_young(scores, columns, doubt, counts, probabilities):
    """Write a young committee's probabilities, shrunk to the class shares, to `probabilities`.

    Parameters
    ----------
    scores
        float64 (n, its classes): log probabilities up to a constant.
    columns
        int64 (its classes,), the indices of the committee's classes among the K classes.
    doubt
        Weight of the shares, in [0, 1].
    counts
        float64 (at most K,), the decayed counts of the classes, to which 1 is added.
    probabilities
        Output, float64 (n, K).
    """
    n_classes = probabilities.shape[1]
    n_labels = np.float64(n_classes)
    for k in range(counts.size):
        n_labels += counts[k]
    own = np.empty(columns.size)
    for i in range(scores.shape[0]):
        for c in range(own.size):
            own[c] = scores[i, c]
        _normalize(own)
        for k in range(n_classes):
            n = 1.0 + counts[k] if k < counts.size else 1.0
            probabilities[i, k] = doubt * n / n_labels
        for c in range(own.size):
            probabilities[i, columns[c]] += (1.0 - doubt) * np.exp(own[c])


@kernel
def share_weights(own, young, k, share, rate, least, floor, weights):
    """Update the weights of a fixed-share mixture by a record of class `k`.

    Fixed share (Herbster and Warmuth, 1998, section 5), where half of the shared weight goes to the
    stack, and half evenly to all others. The loss is the negative log probability, at most
    -log `least`.

    Parameters
    ----------
    own
        float64 (K,), the stack's probabilities of the record.
    young
        float64 (M, K), those of each committee, at least one.
    k
        The record's class; K or more where the class is new.
    share, rate
        The share of the weight that is given away, and the exponent of the likelihood.
    least, floor
        Lower bounds of the likelihood, and of the probabilities in the mean of a committee with the
        stack.
    weights
        float64 (1 + 2M,), updated: of the stack, of each committee, and of the geometric mean of
        each committee with the stack.
    """
    n_young, n_classes = young.shape
    weights[0] = (1.0 - share) * weights[0] + 0.5 * share
    for m in range(2 * n_young):
        weights[1 + m] = (1.0 - share) * weights[1 + m] + 0.5 * share / (2 * n_young)
    likelihood = least
    if k < n_classes:
        likelihood = max((own[k] + _SMOOTHING) / (1.0 + _SMOOTHING * n_classes), least)
    weights[0] *= likelihood**rate
    sum_of_weights = weights[0]
    for m in range(n_young):
        likelihood, both = least, least
        if k < n_classes:
            likelihood = max(young[m, k], least)
            total = 0.0
            for c in range(n_classes):
                total += np.sqrt((own[c] + _SMOOTHING) * max(young[m, c], floor))
            both = max(np.sqrt((own[k] + _SMOOTHING) * max(young[m, k], floor)) / total, least)
        weights[1 + m] *= likelihood**rate
        weights[1 + n_young + m] *= both**rate
        sum_of_weights += weights[1 + m] + weights[1 + n_young + m]
    for m in range(weights.size):
        weights[m] /= sum_of_weights
