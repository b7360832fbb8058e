"""Query-decision kernels: rank a record's utility and update running means."""

from streamboost.kernels.jit import kernel

__all__ = ["follow_mean", "rank"]


@kernel
def rank(line, count, size, low, high):
    """Rank the utilities of n new records in a sliding window, one record after another.

    Parameters
    ----------
    line
        float64 (m + n,), the utilities in the window, followed by those of the n new records.
    count
        m, the number of utilities in the window.
    size
        Largest number of utilities in the window.
    low, high
        Outputs, float64 (n,): the interval of quantile ranks of each record, within [0, 1]. Rank 0
        is the largest utility, and equal utilities share an interval.
    """
    for i in range(len(low)):
        end = count + i
        own, above, ties = line[end], 0, 1
        for j in range(max(end - size, 0), end):
            above += line[j] > own
            ties += line[j] == own
        others = end - max(end - size, 0) + 1
        low[i] = above / others
        high[i] = (above + ties) / others


@kernel
def follow_mean(values, mean, count, most, means):
    """Update a running mean by `values`; after `most` values, it is an exponential moving average.

    Parameters
    ----------
    values
        float64 (n,).
    mean, count
        The mean before `values`, and its number of values.
    most
        Largest count of the mean: the weight of a new value is at least 1 / `most`.
    means
        Output, float64 (n,): the mean after each value.

    Returns
    -------
    The new count of the mean, at most `most`.
    """
    for i in range(len(values)):
        count = min(count + 1, most)
        mean += (values[i] - mean) / count
        means[i] = mean
    return count
