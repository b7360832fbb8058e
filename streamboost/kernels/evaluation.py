"""Evaluation kernels: add records to the sums of `SufficientStats`, from which metrics follow.

The same sums in about thirty numpy calls take 8 (26 classes) to 17 (2 classes) times as long, for
200 records at a time.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel


@kernel
def add_to_label_sums(P, truth, n_represented, counts, seen, labels, shift, first, second, model):
    """Add evaluated records to the sums that do not depend on the predicted class.

    Parameters
    ----------
    P, truth, n_represented
        float64 (n, K), int64 (n,) and float64 (n,): the probabilities, the class index (negative if
        unknown), and how many records without a request each record represents (`others`), as in
        `EvaluatedRecords`.
    counts, seen, labels, shift, first, second, model
        Sums to update: "counts", "seen", "truth", "truth_shift", "first", "second" and "model" of
        `SufficientStats.sums`.
    """
    n, K = P.shape
    d = np.empty(K)
    for i in range(n):
        k, v = truth[i], n_represented[i]
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
def add_to_class_sums(
    P,
    predicted,
    truth,
    n_represented,
    hits,
    predicted_counts,
    cells,
    cells_shift,
    first_own,
    second_own,
    represented,
    model_own,
):
    """Add evaluated records to the sums that are kept for each predictor and predicted class.

    Parameters
    ----------
    P, predicted, truth, n_represented
        float64 (n, K), int64 (n, J), int64 (n,) and float64 (n,): the probabilities, the classes
        predicted by each of J predictors, and the others as in `add_to_label_sums`.
    hits, predicted_counts, cells, cells_shift, first_own, second_own, represented, model_own
        Sums to update: "hits", "predicted", ... of `SufficientStats.sums`; see `_SHAPES` there.
    """
    n, K = P.shape
    for i in range(n):
        k, v = truth[i], n_represented[i]
        for j in range(predicted.shape[1]):
            a = predicted[i, j]
            if a < 0:
                continue
            predicted_counts[j, a] += 1.0
            if k >= 0:
                cells[j, a, k] += 1.0
                if a == k:
                    hits[j] += 1.0
                wrong = v * (v + 1.0) * ((1.0 if a == k else 0.0) - P[i, a])
                first_own[j, a] += wrong
                for c in range(K):
                    d = (1.0 if c == k else 0.0) - P[i, c]
                    cells_shift[j, a, c] += v * d
                    second_own[j, a, c] += wrong * d
            else:
                for c in range(K):
                    cells[j, a, c] += P[i, c]
            chance = v * P[i, a]
            model_own[j, a, a] += chance
            for c in range(K):
                represented[j, a, c] += v * P[i, c]
                model_own[j, a, c] -= chance * P[i, c]


@kernel
def add_to_accuracy_sums(P, predicted, truth, n_represented, min_probability, means):
    """Add evaluated records to the sums for accuracy, calibration and log loss.

    Parameters
    ----------
    P, predicted, truth, n_represented
        float64 (n, K), int64 (n,), int64 (n,) and float64 (n,), as in `add_to_class_sums`, but with
        the predictions of one predictor. P is 0 before the first label.
    min_probability
        Lower bound of probabilities in the log loss.
    means
        Sums to update, float64 (bins + 1 + K, `MEAN_COLUMNS`): a row for each bin of the predicted
        probability, one for the log loss, and one for the accuracy of each predicted class.
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
            cost[c] = -np.log(min(max(P[i, c], min_probability), 1.0))
        entropy, spread, doubt = _mean_and_variances_over_classes(P[i], cost)
        loss = cost[k] if k >= 0 else np.nan
        sure = P[i, a]
        right = np.nan if k < 0 else (1.0 if k == a else 0.0)
        unsure, square = sure * (1.0 - sure), sure * sure
        bin = min(int(sure * bins), bins - 1)
        _add_record_to_mean(means[bin], right, sure, unsure, square, n_represented[i], sure)
        _add_record_to_mean(
            means[bins + 1 + a], right, sure, unsure, square, n_represented[i], sure
        )
        _add_record_to_mean(means[bins], loss, entropy, spread, doubt, n_represented[i], sure)


@kernel
def add_to_cost_sums(P, costs, truth, n_represented, sums):
    """Add the costs of the records' decisions to the sums of a mean; skip records without decision.

    Parameters
    ----------
    P, costs, truth, n_represented
        float64 (n, K), float64 (n, K), int64 (n,) and float64 (n,), as in `add_to_label_sums`.
        `costs` is the cost of the record's decision for each true class, NaN without a decision.
    sums
        Sums to update, float64 (`MEAN_COLUMNS`,).
    """
    for i in range(P.shape[0]):
        if P.shape[1] > 0 and np.isnan(costs[i, 0]):
            continue
        mean, spread, doubt = _mean_and_variances_over_classes(P[i], costs[i])
        value = costs[i, truth[i]] if truth[i] >= 0 else np.nan
        _add_record_to_mean(sums, value, mean, max(spread, 0.0), doubt, n_represented[i], 0.0)


@inner_kernel
def _mean_and_variances_over_classes(probabilities, values):
    """Return the mean and variance of `values` (K,), and the mean square of a label error's effect.

    `values` has one value per class, weighted by `probabilities` (K,). The effect of a wrong label
    is its value less the mean. A wrong label is uniform over K - 1 classes.
    """
    mean = square = doubt = 0.0
    for c in range(probabilities.size):
        mean += probabilities[c] * values[c]
        square += probabilities[c] * values[c] * values[c]
    for c in range(probabilities.size):
        doubt += (values[c] - mean) ** 2
    return mean, square - mean * mean, doubt / max(probabilities.size - 1, 1)


@inner_kernel
def _add_record_to_mean(sums, value, mean, variance, error_variance, n_represented, confidence):
    """Add one record to the sums from which a mean is estimated, (`MEAN_COLUMNS`,).

    `value` is the record's value, or NaN if the label is unknown. `mean`, `variance` and
    `error_variance` are the results of `_mean_and_variances_over_classes`. `n_represented` is how
    many records without a request the record represents, and `confidence` the predicted
    probability.
    """
    sums[0] += 1.0
    if np.isnan(value):
        sums[1] += 1.0
        sums[2] += mean
    else:
        residual, u = value - mean, n_represented * (n_represented + 1.0)
        sums[2] += value
        sums[3] += n_represented
        sums[4] += u
        sums[5] += n_represented * residual
        sums[6] += u * residual
        sums[7] += u * residual * residual
    sums[8] += n_represented * variance
    sums[9] += confidence
    sums[10] += n_represented * error_variance
