"""Confidence intervals and tests for proportions: Wilson, Newcombe, Fisher, a change point."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, hypot, lgamma, log, sqrt
from statistics import NormalDist

__all__ = ["CHANCE", "Share", "as_many", "fell_from"]

CHANCE = 0.05
"""Error probability of the intervals and tests (0.05: 95 % confidence)."""

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Share:
    """A proportion and its sample size; for weighted observations, the effective sample size.

    >>> some = Share(1 / 3, 27)
    >>> [round(end, 3) for end in some.interval()]
    [0.186, 0.522]
    >>> [round(end, 4) for end in Share(56 / 70, 70).less(Share(48 / 80, 80))]
    [0.0524, 0.3339]
    """

    value: float
    n: float

    def interval(self, chance: float = CHANCE) -> tuple[float, float]:
        """Return Wilson's score interval (1927) with error probability `chance`."""
        share, n, z = self.value, self.n, _NORMAL.inv_cdf(1.0 - chance / 2)
        middle = (share + z * z / (2 * n)) / (1 + z * z / n)
        margin = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        return max(middle - margin, 0.0), min(middle + margin, 1.0)

    def less(self, other: "Share", chance: float = CHANCE) -> tuple[float, float]:
        """Return Newcombe's interval (1998) of the difference: this proportion minus `other`."""
        (low, high), (least, most) = self.interval(chance), other.interval(chance)
        change = self.value - other.value
        below, above = self.value - low, high - self.value
        return (
            change - hypot(below, most - other.value),
            change + hypot(above, other.value - least),
        )


def as_many(k: int, n: int, of: int, total: int) -> float:
    """Return the p-value of Fisher's exact test (1935), one-sided.

    Of a population of `total`, `of` are successes. The result is the probability that a sample of
    `n` without replacement has `k` successes or more (hypergeometric distribution).

    >>> round(as_many(3, 4, 4, 8), 4)
    0.2429
    """
    k, most, chance = max(k, n + of - total), min(n, of), 0.0  # fewer there cannot be
    one = exp(_ways(of, k) + _ways(total - of, n - k) - _ways(total, n)) if k <= most else 0.0
    while k <= most:
        chance += one
        one *= (of - k) * (n - k) / ((k + 1) * (total - of - n + k + 1))
        k += 1
    return min(chance, 1.0)


def _ways(n: int, k: int) -> float:
    """Return the logarithm of the binomial coefficient of `n` and `k`."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def fell_from(hits: Sequence[bool]) -> int | None:
    """Return the index from which hits are rarer, or None if their share did not fall.

    The index is the maximum-likelihood change point of a proportion (Hinkley and Hinkley 1970).

    >>> fell_from([True, True, False, True, True, False, False, True, False])
    5
    """
    n, total, right = len(hits), sum(hits), 0
    best, place = -1e-9 + _likelihood(total, n), None
    for i, hit in enumerate(hits[:-1], 1):
        right += hit
        if right * (n - i) <= (total - right) * i:  # they rose there, or stayed
            continue
        found = _likelihood(right, i) + _likelihood(total - right, n - i)
        if found > best:
            best, place = found, i
    return place


def _likelihood(right: int, n: int) -> float:
    """Return the maximum log-likelihood of `right` hits in `n` Bernoulli trials."""
    return sum(k * log(k / n) for k in (right, n - right) if k)
