"""Kernels for deciding which labels to request: rank utilities, and update running means."""

from streamboost.kernels.jit import kernel


@kernel
def rank_in_window(utilities, n_in_window, window_size, low, high):
    """Write the rank of each of n new utilities among the preceding utilities in a sliding window.

    Parameters
    ----------
    utilities
        float64 (m + n,), the utilities in the window, followed by those of the n new records.
    n_in_window
        m, the number of utilities in the window.
    window_size
        Largest number of utilities in the window.
    low, high
        Outputs, float64 (n,): the interval of quantile ranks of each record, within [0, 1]. Rank 0
        is the largest utility, and equal utilities share an interval.
    """
    for i in range(len(low)):
        end = n_in_window + i
        own, above, ties = utilities[end], 0, 1
        for j in range(max(end - window_size, 0), end):
            above += utilities[j] > own
            ties += utilities[j] == own
        others = end - max(end - window_size, 0) + 1
        low[i] = above / others
        high[i] = (above + ties) / others


@kernel
def update_running_mean(values, mean, count, max_count, means):
    """Update a running mean with `values`, and write the mean after each value to `means`.

    From `max_count` values on, the weights of older values decay exponentially.

    Parameters
    ----------
    values
        float64 (n,).
    mean, count
        The mean before `values`, and its number of values.
    max_count
        Upper bound of `count`, so that the weight of a new value is at least 1 / `max_count`.
    means
        Output, float64 (n,): the mean after each value.

    Returns
    -------
    The new count of the mean, at most `max_count`.
    """
    for i in range(len(values)):
        count = min(count + 1, max_count)
        mean += (values[i] - mean) / count
        means[i] = mean
    return count
