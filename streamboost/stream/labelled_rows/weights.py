"""What each labelled record weighs in training, by its age and by its chance of being asked for."""

from collections.abc import Callable

import numpy as np

__all__ = ["AGEING", "by_half_life", "by_propensity", "by_rank"]


def by_half_life(n: int, half_life: float) -> np.ndarray:
    """Return the weights (n,), oldest first, that halve with every `half_life` places.

    The geometric initial distribution of AdaBoost.A with ratio 2^(-1/half_life), up to a factor.
    An age too large for a float is infinite, and its weight 0.

    >>> by_half_life(3, 1.0)
    array([0.25, 0.5 , 1.  ])
    """
    with np.errstate(over="ignore"):
        ages = np.arange(n - 1, -1, -1) / float(half_life)
    return np.exp2(-ages)


def by_rank(n: int) -> np.ndarray:
    """Return the weights (n,), oldest first, of Zipf's law: 1/i for the i-th newest.

    >>> by_rank(4)
    array([0.25      , 0.33333333, 0.5       , 1.        ])
    """
    return np.asarray(1.0 / np.arange(n, 0, -1))


def by_propensity(propensity: np.ndarray, clip: float) -> np.ndarray:
    """Return the weights (n,) 1/propensity, at most `clip`; 1 where nobody asked (NaN).

    >>> by_propensity(np.array([1.0, 0.5, 0.01, np.nan]), clip=10)
    array([ 1.,  2., 10.,  1.])
    """
    chances = np.where(np.isnan(propensity), 1.0, propensity)
    with np.errstate(over="ignore"):  # a chance may be so small that 1/p is no float
        return np.asarray(np.minimum(1.0 / chances, float(clip)))


AGEING: dict[str, Callable[[int, float], np.ndarray] | None] = {
    "uniform": None,
    "half_life": by_half_life,
    "zipf": lambda n, half_life: by_rank(n),
}
"""The choices of weights by age, each from n and the half-life."""
