"""Kernels of `ClassRunFilter`: class probabilities of records that arrive in runs of one class.

The model is a hidden Markov model. Each record continues the run of the preceding record with some
probability, which falls with their distance; otherwise its class is drawn from the class shares.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel

_SMOOTHING = 1e-4
"""Number that is added to the probabilities of a record before they are filtered."""

_LEAST_DISTANCE = 1e-6
_FLAT = 1e-12
"""Least distance, and least variance of a column that is compared."""

_COLUMN_WINDOW = 1_000
_DISTANCE_WINDOW = 500
"""Numbers of records that mainly determine means and variances, of columns and of distances."""

_MOST_DEVIATIONS = 3.0
"""Bound of the standardized distance."""

_CARRIED = 0.7
"""Exponent of a record's likelihood in the state for the next record."""

_KNOWN = 0.98
"""Probability of the labelled class in the state after a record with a label."""

_LEAST_LIKELIHOOD = 0.02
_FADE = 0.995
"""Lower bound of a label's probability, and factor by which evidence of runs decays per label."""


@inner_kernel
def _continuation_probability(intercepts, slopes, posterior, deviation):
    """Return the probability that a record continues the run of the preceding record.

    `intercepts` and `slopes` (G,) are those of the hypotheses in `filter_class_probabilities`, and
    `posterior` (G,) is the probability of each hypothesis. `deviation` is the standardized distance
    of the two records.
    """
    total = 0.0
    for g in range(intercepts.size):
        total += posterior[g] / (1.0 + np.exp(slopes[g] * deviation - intercepts[g]))
    return total


@inner_kernel
def _filter_probabilities_of_record(
    likelihoods, class_shares, continuation_probability, previous_state, label, filtered, state
):
    """Write a record's updated probabilities, `filtered`, and the state for the next, (K,) each.

    `likelihoods` (K,) are the record's own probabilities, and `previous_state` (K,) is the state
    after the preceding record. `continuation_probability` is that of continuing its run. `label` is
    the class index of the record's label, or negative without a label.
    """
    n_classes, change_probability = class_shares.size, 1.0 - continuation_probability
    sum_of_filtered, sum_of_states = 0.0, 0.0
    for k in range(n_classes):
        prior = continuation_probability * previous_state[k] + change_probability * class_shares[k]
        ratio = likelihoods[k] / class_shares[k]
        filtered[k] = ratio * prior
        state[k] = ratio**_CARRIED * prior
        sum_of_filtered += filtered[k]
        sum_of_states += state[k]
    for k in range(n_classes):
        filtered[k] /= sum_of_filtered
        state[k] /= sum_of_states
    if label >= 0 and n_classes > 1:
        for k in range(n_classes):
            state[k] = _KNOWN if k == label else (1.0 - _KNOWN) / (n_classes - 1)


@kernel
def filter_class_probabilities(
    X,
    probabilities,
    n_records,
    class_shares,
    hypotheses,
    posterior,
    last_record,
    column_moments,
    distance_moments,
    deviations,
    labels,
    own_probabilities,
    filtered,
    states,
):
    """Update the probabilities of arriving records by preceding ones; store both in rings.

    Parameters
    ----------
    X
        float32 (n, D), the records; NaN where missing. Infinite values count as missing.
    probabilities
        float64 (n, K), the records' own probabilities; not changed.
    n_records
        Number of records that arrived earlier.
    class_shares
        float64 (K,), positive: the shares of the classes.
    hypotheses, posterior
        float64 (2, G), intercept and slope of each of G hypotheses on the probability that a run
        continues, which is a logistic function of the distance; float64 (G,), the probability of
        each hypothesis. The probability that there are no runs is 1 less their sum.
    last_record
        float32 (D,), updated: the newest record.
    column_moments
        float64 (3, D), updated: number of values, mean and variance of each column.
    distance_moments
        float64 (3,), updated: number, mean and variance of the logarithms of the distances.
    deviations, labels
        float64 (N,) and int64 (N,), rings: the standardized distance of each record from the
        preceding record; the class index of its label, or -1.
    own_probabilities, filtered, states
        float32 (N, K), rings: the own and the updated probabilities of each record, and the class
        probabilities that the next record starts from (state).
    """
    size = labels.size
    for i in range(X.shape[0]):
        total, n_compared = 0.0, 0
        for j in range(X.shape[1]):
            value = np.float64(X[i, j])
            is_known = np.isfinite(value)
            if column_moments[2, j] > _FLAT:
                n_compared += 1
                if is_known != np.isfinite(last_record[j]):
                    total += 1.0
                elif is_known:
                    total += (value - last_record[j]) ** 2 / column_moments[2, j]
            if is_known:
                column_moments[0, j] += 1.0
                rate = max(1.0 / column_moments[0, j], 1.0 / _COLUMN_WINDOW)
                off = value - column_moments[1, j]
                column_moments[1, j] += rate * off
                column_moments[2, j] = (1.0 - rate) * (column_moments[2, j] + rate * off * off)
            last_record[j] = value
        deviation, place = _MOST_DEVIATIONS, (n_records + i) % size
        if n_compared > 0:
            log = np.log(np.sqrt(total / n_compared) + _LEAST_DISTANCE)
            distance_moments[0] += 1.0
            rate = max(1.0 / distance_moments[0], 1.0 / _DISTANCE_WINDOW)
            off = log - distance_moments[1]
            distance_moments[1] += rate * off
            distance_moments[2] = (1.0 - rate) * (distance_moments[2] + rate * off * off)
            deviation = (log - distance_moments[1]) / np.sqrt(distance_moments[2] + _FLAT)
            deviation = min(max(deviation, -_MOST_DEVIATIONS), _MOST_DEVIATIONS)
        for k in range(class_shares.size):
            own_probabilities[place, k] = (probabilities[i, k] + _SMOOTHING) / (
                1.0 + _SMOOTHING * class_shares.size
            )
        if n_records + i == 0:
            for k in range(class_shares.size):
                states[size - 1, k] = class_shares[k]
        before = states[(n_records + i - 1) % size]
        continuation_probability = _continuation_probability(
            hypotheses[0], hypotheses[1], posterior, deviation
        )
        _filter_probabilities_of_record(
            own_probabilities[place],
            class_shares,
            continuation_probability,
            before,
            -1,
            filtered[place],
            states[place],
        )
        deviations[place], labels[place] = deviation, -1


@kernel
def update_run_evidence(
    position, label, n_records, class_share, hypotheses, max_steps, deviations, labels, evidence
):
    """Store a label; add its log likelihood under each hypothesis on how probably runs continue.

    `label` is compared with the nearest known label before the record and with the nearest one
    after it, each at most `max_steps` records away. Under a hypothesis, all records between two
    labels continue one run with some probability, and then the labels are equal. Otherwise they are
    equal with probability `class_share`.

    Parameters
    ----------
    position
        Number of records that arrived before the labelled record, which is still in the rings.
    label, class_share
        Class index of the label, and the share of this class.
    evidence
        float64 (G + 1,), updated: the log likelihood of each hypothesis; last, that of no runs.
    others
        As in `filter_class_probabilities`.
    """
    size, n_hypotheses = labels.size, hypotheses.shape[1]
    labels[position % size] = label
    for side in (-1, 1):
        for steps in range(1, max_steps + 1):
            other = position + side * steps
            if other < max(n_records - size, 0) or other >= n_records:
                break
            if labels[other % size] < 0:
                continue
            is_equal = labels[other % size] == label
            for g in range(n_hypotheses + 1):
                joined = 0.0
                if g < n_hypotheses:
                    joined = 1.0
                    for t in range(min(position, other) + 1, max(position, other) + 1):
                        deviation = deviations[t % size]
                        joined /= 1.0 + np.exp(hypotheses[1, g] * deviation - hypotheses[0, g])
                likelihood = (1.0 - joined) * (1.0 - class_share)
                if is_equal:
                    likelihood = joined + (1.0 - joined) * class_share
                evidence[g] = _FADE * evidence[g] + np.log(max(likelihood, _FLAT))
            break


@kernel
def recompute_states(
    first,
    n_records,
    class_shares,
    hypotheses,
    posterior,
    deviations,
    labels,
    own_probabilities,
    states,
):
    """Compute the states of the records from number `first` on again, after a label has arrived.

    The record before `first` must be in the rings. Arguments are those of
    `filter_class_probabilities`.
    """
    size, unused = labels.size, np.empty(class_shares.size, dtype=np.float32)
    for t in range(first, n_records):
        place, before = t % size, states[(t - 1) % size]
        continuation_probability = _continuation_probability(
            hypotheses[0], hypotheses[1], posterior, deviations[place]
        )
        _filter_probabilities_of_record(
            own_probabilities[place],
            class_shares,
            continuation_probability,
            before,
            labels[place],
            unused,
            states[place],
        )
