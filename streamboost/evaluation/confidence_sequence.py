"""Widths of confidence sequences: intervals that simultaneously contain the truth at all times.

A 95 % interval contains the true value at a given time with a probability of 95 %. Over a long
time, there are times at which an interval does not contain the true value. A confidence sequence is
wider, so that no such time exists with a probability of 95 %. Both factors in this module assume
that the error of the estimate is a Brownian motion as labels arrive. This is an approximation: the
sampling design selects one record in each stratum, and labels are late. Coverage is therefore
simulated, not proven.
"""

from functools import lru_cache
from math import ceil, exp, log, pi, sqrt

_LEVEL = 0.05
"""Probability that the true value is outside of the confidence sequence at any time."""

_QUANTILE = 1.959964
"""97.5 % quantile of the normal distribution, to which the factors refer."""

_RHO = 32.0
"""Scale of the mixture in labels: the sequence is relatively narrowest at 254 labels."""

_WIDEST = 40.0
"""Upper bound of the normal quantiles that are searched."""


def relative_width_since_start(n_labels: int) -> float:
    """Return the width of the confidence sequence since the start, relative to the 95 % interval.

    This is the mixture boundary of Robbins (1970), as Waudby-Smith et al. (2024, Theorem 2.2) use
    it for asymptotic confidence sequences. From 100 to 1,100 labels the factor is at most 1.6.

    >>> [round(relative_width_since_start(n), 2) for n in (25, 250, 2_500)]
    [1.97, 1.55, 1.65]
    """
    ratio = max(n_labels, 1) / _RHO
    return sqrt((1.0 + 1.0 / ratio) * log((1.0 + ratio) / _LEVEL**2)) / _QUANTILE


def relative_width_of_window(n_labels: int, in_window: int) -> float:
    """Return the width of a sliding window's confidence sequence, relative to the 95 % interval.

    The `n_labels` labels since the start are divided into periods of `in_window` labels each, the
    number of labels in the window. In the k-th period the window's error exceeds its bound at any
    time with a probability of at most 0.05 / (k (k + 1)). These probabilities add up to 0.05. As
    long as the window has all labels, its factor is at least that since the start.

    >>> [round(relative_width_of_window(n, 200), 2) for n in (200, 2_000, 20_000)]
    [1.58, 2.17, 2.67]
    """
    sliding = _quantile_in_period(max(ceil(n_labels / max(in_window, 1)), 1)) / _QUANTILE
    return max(sliding, relative_width_since_start(n_labels)) if n_labels <= in_window else sliding


@lru_cache(maxsize=16)
def _quantile_in_period(k: int) -> float:
    """Return the bound for the k-th period, in standard errors."""
    from scipy.optimize import brentq  # imported here: a slow import delays short commands

    level = _LEVEL / (k * (k + 1))
    return float(brentq(lambda z: _probability_of_exceeding(z) - level, 1.0, _WIDEST))


def _probability_of_exceeding(z: float) -> float:
    """Return an upper bound of the probability that |W(t + 1) - W(t)| > `z` for any t in [0, 1].

    W is a Brownian motion. The distribution of the maximum is from Slepian (1961).
    """
    from scipy.special import ndtr

    density, below, above = exp(-0.5 * z**2) / sqrt(2.0 * pi), ndtr(z), ndtr(-z)
    return float(2.0 * (above * (1.0 + below) + density * (z * below + density)))
