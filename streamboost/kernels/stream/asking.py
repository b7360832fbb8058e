"""What deciding about queries takes, a record at a time."""

from streamboost.kernels.jit import kernel

__all__ = ["follow_mean", "rank"]


@kernel
def rank(line, count, size, low, high):
    """Rank records that arrive in turn among those kept, as `Meeting.rank` ranks one.

    Parameters
    ----------
    line
        float64 (m + n,), the utilities kept, and behind them those of the n that arrive.
    count
        m, how many are kept.
    size
        How many may be.
    low, high
        float64 (n,): where in [0, 1) the part of each begins and ends; filled.
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
    """Have a mean follow `values`, over some `most` of them.

    Parameters
    ----------
    values
        float64 (n,).
    mean, count
        The mean before, and of how many.
    means
        float64 (n,), the mean with each; filled.

    Returns
    -------
    How many the mean is of by now, at the most `most`.
    """
    for i in range(len(values)):
        count = min(count + 1, most)
        mean += (values[i] - mean) / count
        means[i] = mean
    return count
