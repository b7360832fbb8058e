"""Kernels of committees of different birth: their predictions, and the fixed-share mixture."""

import numpy as np

from streamboost.kernels.jit import kernel

__all__ = ["mix_young", "predict_young", "share_weights"]


@kernel
def predict_young(scores, columns, doubt, counts, probabilities):
    """Write a committee's probabilities, shrunk to the class shares, to `probabilities`.

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
    for i in range(scores.shape[0]):
        most = -np.inf
        for c in range(columns.size):
            most = max(most, scores[i, c])
        total = 0.0
        for c in range(columns.size):
            total += np.exp(scores[i, c] - most)
        for k in range(n_classes):
            n = 1.0 + counts[k] if k < counts.size else 1.0
            probabilities[i, k] = doubt * n / n_labels
        for c in range(columns.size):
            p = np.exp(scores[i, c] - most) / total
            probabilities[i, columns[c]] += (1.0 - doubt) * p


@kernel
def mix_young(own, weights, young, least, probabilities, best, margins):
    """Mix the stack's probabilities with those of young committees, in logarithms.

    Parameters
    ----------
    own
        Weight of the stack.
    weights
        float64 (M,), the weight of each committee.
    young
        float64 (M, n, K), the probabilities of each committee.
    least
        Lower bound of the probabilities in the mixture.
    probabilities
        float64 (n, K): those of the stack, replaced by those of the mixture.
    best, margins
        Outputs, int64 (n,) and float64 (n,): the index of the largest probability, where ties go to
        the first, and the difference of the two largest log probabilities, 0 for one class.
    """
    n_classes = probabilities.shape[1]
    for i in range(probabilities.shape[0]):
        first, second, place = -np.inf, -np.inf, 0
        for k in range(n_classes):
            total = own * np.log(max(probabilities[i, k], least))
            for m in range(weights.size):
                total += weights[m] * np.log(max(young[m, i, k], least))
            probabilities[i, k] = total
            if total > first:
                first, second, place = total, first, k
            elif total > second:
                second = total
        best[i], margins[i] = place, first - second if n_classes > 1 else 0.0
        total = 0.0
        for k in range(n_classes):
            probabilities[i, k] = np.exp(probabilities[i, k] - first)
            total += probabilities[i, k]
        for k in range(n_classes):
            probabilities[i, k] /= total


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
        float64 (M, K), those of each committee.
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
    prior = share * 0.5
    each = prior / (2 * n_young) if n_young > 0 else 0.0
    weights[0] = (1.0 - share) * weights[0] + (prior if n_young > 0 else share)
    for m in range(2 * n_young):
        weights[1 + m] = (1.0 - share) * weights[1 + m] + each
    likelihood = least
    if k < n_classes:
        likelihood = max((own[k] + 1e-4) / (1.0 + 1e-4 * n_classes), least)
    weights[0] *= likelihood**rate
    sum_of_weights = weights[0]
    for m in range(n_young):
        likelihood, both = least, least
        if k < n_classes:
            likelihood = max(young[m, k], least)
            total = 0.0
            for c in range(n_classes):
                total += np.sqrt((own[c] + 1e-4) * max(young[m, c], floor))
            both = max(np.sqrt((own[k] + 1e-4) * max(young[m, k], floor)) / total, least)
        weights[1 + m] *= likelihood**rate
        weights[1 + n_young + m] *= both**rate
        sum_of_weights += weights[1 + m] + weights[1 + n_young + m]
    for m in range(weights.size):
        weights[m] /= sum_of_weights
