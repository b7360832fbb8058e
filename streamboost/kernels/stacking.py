"""Stacking kernels: predictions of several models (experts), and their combination.

The prediction of a row does not depend on the other rows. For one record, each kernel takes less
time than a call of a numpy function.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel
from streamboost.kernels.neighbours import (
    write_neighbour_predictions as write_neighbour_predictions,
)
from streamboost.kernels.traverse import find_leaf

_SMOOTHING = 1e-4
"""Number that is added to the stack's probabilities before they update mixture weights."""


@inner_kernel
def _normalize_log_probabilities(scores):
    """Replace `scores` (K,) by their log-softmax, in place."""
    most = -np.inf
    for k in range(scores.size):
        most = max(most, scores[k])
    total = 0.0
    for k in range(scores.size):
        total += np.exp(scores[k] - most)
    level = most + np.log(total)
    for k in range(scores.size):
        scores[k] -= level


@kernel
def predict_committee(
    scores, temperature, columns, class_shares, min_log_probability, log_probabilities
):
    """Write the committee's log probabilities (n, K) to each of the slices `log_probabilities[e]`.

    Parameters
    ----------
    scores, temperature
        Scores float64 (n, classes of the committee), and a number. Scores divided by the
        temperature are log probabilities up to a constant.
    columns
        int64 (classes of the committee,), their indices among the K classes.
    class_shares
        float64 (K,), the shares of the classes in the most recent labels. A class that the
        committee lacks gets its share as probability. Empty if the committee lacks no class.
    min_log_probability
        Least log probability of a class of the committee, before the shares are applied.
    """
    level = 0.0
    if class_shares.size > 0:
        for c in range(columns.size):
            level += class_shares[columns[c]]
        level = np.log(level)
    own = np.empty(columns.size)
    for i in range(scores.shape[0]):
        for c in range(own.size):
            own[c] = scores[i, c] / temperature
        _normalize_log_probabilities(own)
        for k in range(class_shares.size):
            log_probabilities[0, i, k] = np.log(class_shares[k])
        for c in range(own.size):
            log_probabilities[0, i, columns[c]] = max(own[c], min_log_probability) + level
        for e in range(1, log_probabilities.shape[0]):
            for k in range(log_probabilities.shape[2]):
                log_probabilities[e, i, k] = log_probabilities[0, i, k]


@kernel
def predict_corrected_committee(
    scores, initial_scores, temperature, nodes, roots, values, X, columns, log_probabilities
):
    """Write a committee's log probabilities after a correction by stumps, float64 (n, K).

    `scores` float64 (n, classes of the committee) are the committee's. `initial_scores` float64 are
    those of the classes that the committee lacks. `nodes`, `roots` and `values` are the stumps, as
    in `traverse.add_scores`. `columns` int64 are the indices of the committee's classes, and then
    of the classes that it lacks, among the K classes. `X` is float32 (n, D),
    NaN where missing.
    """
    own = scores.shape[1]
    logs = np.empty(columns.size)
    for i in range(scores.shape[0]):
        for c in range(logs.size):
            logs[c] = scores[i, c] if c < own else initial_scores[c - own]
        for t in range(roots.size):
            leaf = find_leaf(nodes, roots[t], X, i)
            for c in range(logs.size):
                logs[c] += values[leaf, c]
        for c in range(logs.size):
            logs[c] /= temperature
        _normalize_log_probabilities(logs)
        for c in range(logs.size):
            log_probabilities[i, columns[c]] = logs[c]


@kernel
def combine_experts(weights, log_probabilities, min_log_probability, probabilities, best, margins):
    """Write class probabilities, combined from the log probabilities of E experts.

    First, `log_probabilities` float64 (E, n, K) are raised to at least `min_log_probability`, in
    place. Then they are multiplied by the experts' `weights` (E,) and added. Outputs:
    `probabilities` float64 (n, K), which sum to 1; `best` int64 (n,), the index of the largest,
    where ties go to the first; `margins` float64 (n,), the difference of the two largest log
    probabilities, 0 for one class.
    """
    n_classes = log_probabilities.shape[2]
    logs = np.empty(n_classes)
    for i in range(log_probabilities.shape[1]):
        first, second, place = -np.inf, -np.inf, 0
        for k in range(n_classes):
            total = 0.0
            for e in range(weights.size):
                log_probabilities[e, i, k] = max(log_probabilities[e, i, k], min_log_probability)
                total += weights[e] * log_probabilities[e, i, k]
            logs[k] = total
        _normalize_log_probabilities(logs)
        for k in range(n_classes):
            probabilities[i, k] = np.exp(logs[k])
            if logs[k] > first:
                first, second, place = logs[k], first, k
            elif logs[k] > second:
                second = logs[k]
        best[i], margins[i] = place, first - second if n_classes > 1 else 0.0


@kernel
def update_expert_weights(log_probabilities, true_class, weight, learning_rate, weights, squares):
    """Update the expert weights (E,) with one AdaGrad step of the log loss of a labelled record.

    `log_probabilities` (E, K) are the experts' log probabilities of the record, and `weight` is the
    record's weight. `weights` float64 (E,) stay at least 0. `squares` float64 (E,) are the sums of
    squared gradients.
    """
    n_experts, n_classes = log_probabilities.shape
    off = np.zeros(n_classes)
    for c in range(n_classes):
        for e in range(n_experts):
            off[c] += weights[e] * log_probabilities[e, c]
    _normalize_log_probabilities(off)
    for c in range(n_classes):
        off[c] = np.exp(off[c]) - (c == true_class)
    for e in range(n_experts):
        slope = 0.0
        for c in range(n_classes):
            slope += log_probabilities[e, c] * off[c]
        slope *= weight
        squares[e] += slope * slope
        weights[e] = max(weights[e] - learning_rate * slope / np.sqrt(squares[e]), 0.0)


@kernel
def predict_from_transitions(counts, smoothing, log_probabilities):
    """Write class log probabilities, estimated from the transition `counts` (k,), to each row.

    A probability is the share of a class in the counts, after `smoothing` is added to each count.
    """
    total = 0.0
    for k in range(counts.size):
        total += counts[k] + smoothing
    for i in range(log_probabilities.shape[0]):
        for k in range(counts.size):
            log_probabilities[i, k] = np.log((counts[k] + smoothing) / total)


@kernel
def update_transition_counts(counts, previous_class, next_class, decay, weight):
    """Update the counts of the classes that follow `previous_class`, after one more transition.

    The counts are multiplied by `decay`. Then `weight` is added to the count of `next_class`.
    """
    for c in range(counts.shape[1]):
        counts[previous_class, c] *= decay
    counts[previous_class, next_class] += weight


@kernel
def update_scaler(
    row, max_count, min_relative_variance, n_values, mean, variance, inverse_deviation
):
    """Update the running mean and variance of each feature with one row.

    `n_values` float64 (D,) are the effective numbers of values of the running statistics, at most
    `max_count`. `inverse_deviation` is set to 1 / standard deviation, or to 0 if the variance is
    at most `min_relative_variance` times the squared mean.
    """
    for j in range(row.size):
        x = np.float64(row[j])
        if x == x:
            n_values[j] = min(n_values[j] + 1.0, max_count)
            share = 1.0 / n_values[j]
            off = x - mean[j]
            mean[j] += share * off
            variance[j] += share * (off * (1.0 - share) * off - variance[j])
        varies = variance[j] > min_relative_variance * (mean[j] * mean[j] + min_relative_variance)
        inverse_deviation[j] = 1.0 / np.sqrt(variance[j]) if varies else 0.0


@inner_kernel
def _standardize_row(X, row_index, mean, inverse_deviation, limit, scaled):
    """Write 1, and a row's features less `mean` in standard deviations, to `scaled` (D + 1,).

    Features are clamped to ±`limit`; a missing value becomes 0.
    """
    part = 1.0 / np.sqrt(scaled.size)
    scaled[0] = part
    for j in range(mean.size):
        z = (X[row_index, j] - mean[j]) * inverse_deviation[j]
        scaled[j + 1] = min(max(z, -limit), limit) * part if z == z else 0.0


@inner_kernel
def _write_linear_log_probabilities(weights, scaled, logs):
    for k in range(weights.shape[0]):
        score = 0.0
        for j in range(scaled.size):
            score += weights[k, j] * scaled[j]
        logs[k] = score
    _normalize_log_probabilities(logs)


@kernel
def predict_softmax_regression(X, mean, inverse_deviation, limit, weights, log_probabilities):
    """Write the log probabilities of a softmax regression for the rows of `X` (n, D).

    `log_probabilities` float64 has n rows and at least K columns. A feature is standardized by its
    `mean`, and by its `inverse_deviation`, 1 / standard deviation, float64 (D,) each.
    `inverse_deviation` is 0 for ignored features. Standardized features are clamped to ±`limit`.
    Missing values are replaced by the mean. `weights` is float64 (K, D + 1), with the constant
    first.
    """
    n_classes = weights.shape[0]
    scaled = np.empty(weights.shape[1])
    for i in range(X.shape[0]):
        _standardize_row(X, i, mean, inverse_deviation, limit, scaled)
        _write_linear_log_probabilities(weights, scaled, log_probabilities[i, :n_classes])


@kernel
def update_softmax_regression(
    X, mean, inverse_deviation, limit, true_class, learning_rate, weight, weights, squares
):
    """Update the `weights` of a softmax regression with one AdaGrad step for one row, `X` (1, D).

    `mean`, `inverse_deviation`, `limit` and `weights` are as in `predict_softmax_regression`.
    `weight` is the weight of the row. `squares` float64 (K, D + 1) are the sums of squared
    gradients.
    """
    scaled, logs = np.empty(weights.shape[1]), np.empty(weights.shape[0])
    _standardize_row(X, 0, mean, inverse_deviation, limit, scaled)
    _write_linear_log_probabilities(weights, scaled, logs)
    for c in range(weights.shape[0]):
        off = weight * (np.exp(logs[c]) - (c == true_class))
        for j in range(scaled.size):
            slope = off * scaled[j]
            squares[c, j] += slope * slope
            weights[c, j] -= learning_rate * slope / np.sqrt(squares[c, j])


@kernel
def predict_young_committee(scores, columns, shrinkage, counts, probabilities):
    """Write the class probabilities of a young committee, float64 (n, K), mixed with class shares.

    A young committee was trained on few rows, so that its own probabilities are unreliable.

    Parameters
    ----------
    scores
        float64 (n, classes of the committee): log probabilities up to a constant.
    columns
        int64 (classes of the committee,), their indices among the K classes.
    shrinkage
        Weight of the class shares in the mixture, in [0, 1].
    counts
        float64 (at most K,), the decayed counts of the classes. Their shares are computed after 1
        is added to each count.
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
        _normalize_log_probabilities(own)
        for k in range(n_classes):
            n = 1.0 + counts[k] if k < counts.size else 1.0
            probabilities[i, k] = shrinkage * n / n_labels
        for c in range(own.size):
            probabilities[i, columns[c]] += (1.0 - shrinkage) * np.exp(own[c])


@kernel
def update_fixed_share_weights(
    stack_probabilities,
    young_probabilities,
    true_class,
    shared_weight,
    exponent,
    min_likelihood,
    min_probability,
    weights,
):
    """Update the mixture weights of the stack and of young committees with a labelled record.

    This is the fixed-share algorithm (Herbster and Warmuth, 1998, section 5). First a share of all
    weights is redistributed: half goes to the stack, and half evenly to all others. Then each
    weight is multiplied by a power of the probability of the true class.

    Parameters
    ----------
    stack_probabilities
        float64 (K,), the stack's probabilities of the record.
    young_probabilities
        float64 (M, K), the probabilities of each of M >= 1 young committees.
    true_class
        Index of the record's class; K or more if the class is new.
    shared_weight, exponent
        The share of all weights that is redistributed, and the exponent of the probability of the
        true class.
    min_likelihood, min_probability
        Lower bounds of the probability of the true class, and of the probabilities in the geometric
        mean of a committee with the stack.
    weights
        float64 (1 + 2M,), updated: of the stack, of each committee, and of the geometric mean of
        each committee with the stack.
    """
    n_young, n_classes = young_probabilities.shape
    weights[0] = (1.0 - shared_weight) * weights[0] + 0.5 * shared_weight
    for m in range(2 * n_young):
        weights[1 + m] = (1.0 - shared_weight) * weights[1 + m] + 0.5 * shared_weight / (
            2 * n_young
        )
    likelihood = min_likelihood
    if true_class < n_classes:
        likelihood = max(
            (stack_probabilities[true_class] + _SMOOTHING) / (1.0 + _SMOOTHING * n_classes),
            min_likelihood,
        )
    weights[0] *= likelihood**exponent
    sum_of_weights = weights[0]
    for m in range(n_young):
        likelihood, both = min_likelihood, min_likelihood
        if true_class < n_classes:
            likelihood = max(young_probabilities[m, true_class], min_likelihood)
            total = 0.0
            for c in range(n_classes):
                total += np.sqrt(
                    (stack_probabilities[c] + _SMOOTHING)
                    * max(young_probabilities[m, c], min_probability)
                )
            both = max(
                np.sqrt(
                    (stack_probabilities[true_class] + _SMOOTHING)
                    * max(young_probabilities[m, true_class], min_probability)
                )
                / total,
                min_likelihood,
            )
        weights[1 + m] *= likelihood**exponent
        weights[1 + n_young + m] *= both**exponent
        sum_of_weights += weights[1 + m] + weights[1 + n_young + m]
    for m in range(weights.size):
        weights[m] /= sum_of_weights
