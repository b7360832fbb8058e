"""Widths of confidence sequences: intervals that hold the truth at all times together.

A 95 % interval holds the truth at a given time. Somebody who watches an interval for long meets a
time at which it does not. A confidence sequence is wider, so that with a probability of 95 % no
such time comes. Both factors here are for estimates whose error moves like a Brownian motion as
labels arrive. This is an approximation: the sampling design selects one record in each stratum, and
labels are late. Coverage is therefore simulated, not proven.
"""

from functools import lru_cache
from math import ceil, exp, log, pi, sqrt

__all__ = ["factor_of_window", "factor_since_start"]

_LEVEL = 0.05
"""Probability that the truth is ever outside of a confidence sequence."""

_QUANTILE = 1.959964
"""97.5 % quantile of the normal distribution, to which the factors refer."""

_RHO = 32.0
"""Scale of the mixture in labels: the sequence is relatively narrowest at 254 labels."""

_WIDEST = 40.0
"""Upper bound of the normal quantiles that are searched."""


def factor_since_start(n_labels: int) -> float:
    """Return how many times wider than the interval the confidence sequence since the start is.

    This is the mixture boundary of Robbins (1970), as Waudby-Smith et al. (2024, Theorem 2.2) use
    it for asymptotic confidence sequences. From 100 to 1,100 labels the factor is at most 1.6.

    >>> [round(factor_since_start(n), 2) for n in (25, 250, 2_500)]
    [1.97, 1.55, 1.65]
    """
    ratio = max(n_labels, 1) / _RHO
    return sqrt((1.0 + 1.0 / ratio) * log((1.0 + ratio) / _LEVEL**2)) / _QUANTILE


def factor_of_window(n_labels: int, in_window: int) -> float:
    """Return how many times wider than the interval the sequence of a sliding window is.

    The `n_labels` labels since the start are divided into periods of as many labels as the window
    has, `in_window`. In the k-th period the window's error exceeds its bound at any time with a
    probability of at most 0.05 / (k (k + 1)). These probabilities add up to 0.05. As long as the
    window has all labels, its factor is at least that since the start.

    >>> [round(factor_of_window(n, 200), 2) for n in (200, 2_000, 20_000)]
    [1.58, 2.17, 2.67]
    """
    sliding = _quantile_in_period(max(ceil(n_labels / max(in_window, 1)), 1)) / _QUANTILE
    return max(sliding, factor_since_start(n_labels)) if n_labels <= in_window else sliding


@lru_cache(maxsize=16)
def _quantile_in_period(k: int) -> float:
    """Return the bound for the k-th period, in standard errors."""
    from scipy.optimize import brentq  # imported here: a slow import delays short commands

    level = _LEVEL / (k * (k + 1))
    return float(brentq(lambda z: _probability_beyond(z) - level, 1.0, _WIDEST))


def _probability_beyond(z: float) -> float:
    """Return the probability that |W(t + 1) - W(t)| exceeds `z` for a t from 0 to 1, at most.

    W is a Brownian motion. The distribution of the maximum is from Slepian (1961).
    """
    from scipy.special import ndtr

    density, below, above = exp(-0.5 * z**2) / sqrt(2.0 * pi), ndtr(z), ndtr(-z)
    return float(2.0 * (above * (1.0 + below) + density * (z * below + density)))
