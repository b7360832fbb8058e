"""Evaluation kernels: add records to the sufficient statistics that `SufficientStats` defines.

In numpy, the terms of each record would be arrays, in thirty calls. For the 200 records of a
stride, this takes 8 (26 classes) to 17 (2 classes) times as long.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel

__all__ = ["add_costs", "add_judged", "add_means", "add_predicted"]


@kernel
def add_judged(P, truth, others, counts, seen, labels, shift, first, second, model):
    """Add records to the sums that are not grouped by predicted class.

    Parameters
    ----------
    P, truth, others
        float64 (n, K), int64 (n,) and float64 (n,), as in `JudgedRecords`.
    counts, seen, labels, shift, first, second, model
        The sums "counts", "seen", "truth", "truth_shift", "first", "second" and "model".
    """
    n, K = P.shape
    d = np.empty(K)
    for i in range(n):
        k, v = truth[i], others[i]
        counts[0] += 1.0
        if k >= 0:
            u = v * (v + 1.0)
            counts[1] += 1.0
            counts[2] += v
            counts[3] += u
            seen[k] += 1.0
            labels[k] += 1.0
            for c in range(K):
                d[c] = (1.0 if c == k else 0.0) - P[i, c]
            for c in range(K):
                shift[c] += v * d[c]
                first[c] += u * d[c]
                for e in range(K):
                    second[c, e] += u * d[c] * d[e]
        for c in range(K):
            if k < 0:
                labels[c] += P[i, c]
            stands = v * P[i, c]
            model[c, c] += stands
            for e in range(K):
                model[c, e] -= stands * P[i, e]


@kernel
def add_predicted(
    P,
    predicted,
    truth,
    others,
    hits,
    counts,
    cells,
    shift,
    first,
    second,
    stands,
    model,
):
    """Add records to the sums that are grouped by the class of each predictor.

    Parameters
    ----------
    P, predicted, truth, others
        float64 (n, K), int64 (n, J), int64 (n,) and float64 (n,), as in `JudgedRecords`.
    hits
        The sums "hits", by predictor. The remaining arguments are the other sums by predicted
        class, in the order of `_BY_PREDICTED` next to `SufficientStats`.
    """
    n, K = P.shape
    for i in range(n):
        k, v = truth[i], others[i]
        for j in range(predicted.shape[1]):
            a = predicted[i, j]
            if a < 0:
                continue
            counts[j, a] += 1.0
            if k >= 0:
                cells[j, a, k] += 1.0
                if a == k:
                    hits[j] += 1.0
                wrong = v * (v + 1.0) * ((1.0 if a == k else 0.0) - P[i, a])
                first[j, a] += wrong
                for c in range(K):
                    d = (1.0 if c == k else 0.0) - P[i, c]
                    shift[j, a, c] += v * d
                    second[j, a, c] += wrong * d
            else:
                for c in range(K):
                    cells[j, a, c] += P[i, c]
            chance = v * P[i, a]
            model[j, a, a] += chance
            for c in range(K):
                stands[j, a, c] += v * P[i, c]
                model[j, a, c] -= chance * P[i, c]


@kernel
def add_means(P, predicted, truth, others, least, means):
    """Add records with predictions to the accuracies by bin and by class, and to the log loss.

    Parameters
    ----------
    P, predicted, truth, others
        float64 (n, K), int64 (n,), int64 (n,) and float64 (n,); P is 0 before the first label.
    least
        Lower bound of probabilities in the log loss.
    means
        Sums to update, float64 (bins + 1 + K, `MEAN_COLUMNS`).
    """
    n, K = P.shape
    cost = np.empty(K)
    bins = means.shape[0] - 1 - K
    for i in range(n):
        a, k = predicted[i], truth[i]
        total = 0.0
        for c in range(K):
            total += P[i, c]
        if a < 0 or not total > 0.0:
            continue
        # A class that the committee lacks has probability 0 and adds nothing to the entropy.
        for c in range(K):
            cost[c] = -np.log(min(max(P[i, c], least), 1.0))
        entropy, spread, doubt = _moments(P[i], cost)
        loss = cost[k] if k >= 0 else np.nan
        sure = P[i, a]
        right = np.nan if k < 0 else (1.0 if k == a else 0.0)
        unsure, square = sure * (1.0 - sure), sure * sure
        bin = min(int(sure * bins), bins - 1)
        _add_mean(means[bin], right, sure, unsure, square, others[i], sure)
        _add_mean(means[bins + 1 + a], right, sure, unsure, square, others[i], sure)
        _add_mean(means[bins], loss, entropy, spread, doubt, others[i], sure)


@kernel
def add_costs(P, paid, truth, others, total):
    """Add the costs of decisions, for the records that have a decision.

    Parameters
    ----------
    P, paid, truth, others
        float64 (n, K), float64 (n, K), int64 (n,) and float64 (n,), as in `JudgedRecords`.
    total
        Sums to update, float64 (`MEAN_COLUMNS`,).
    """
    for i in range(P.shape[0]):
        if P.shape[1] > 0 and np.isnan(paid[i, 0]):
            continue
        mean, spread, doubt = _moments(P[i], paid[i])
        value = paid[i, truth[i]] if truth[i] >= 0 else np.nan
        _add_mean(total, value, mean, max(spread, 0.0), doubt, others[i], 0.0)


@inner_kernel
def _moments(p, values):
    """Return mean and variance of `values` (K,) under p (K,), and the mean r² of a label error.

    An erroneous label is uniform over the K - 1 other classes.
    """
    mean = square = doubt = 0.0
    for c in range(p.size):
        mean += p[c] * values[c]
        square += p[c] * values[c] * values[c]
    for c in range(p.size):
        doubt += (values[c] - mean) ** 2
    return mean, square - mean * mean, doubt / max(p.size - 1, 1)


@inner_kernel
def _add_mean(row, value, expected, spread, doubt, others, sure):
    """Add a record to a row of the means; `value` is NaN if the label is unknown."""
    row[0] += 1.0
    if np.isnan(value):
        row[1] += 1.0
        row[2] += expected
    else:
        residual, u = value - expected, others * (others + 1.0)
        row[2] += value
        row[3] += others
        row[4] += u
        row[5] += others * residual
        row[6] += u * residual
        row[7] += u * residual * residual
    row[8] += others * spread
    row[9] += sure
    row[10] += others * doubt
