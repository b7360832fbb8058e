"""Confidence intervals and tests for proportions: Wilson, Newcombe, Fisher, a change point."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, hypot, lgamma, log, sqrt
from statistics import NormalDist

ERROR_PROBABILITY = 0.05
"""Error probability of the intervals and tests (0.05: 95 % confidence)."""

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Proportion:
    """A proportion and its sample size; for weighted observations, the effective sample size.

    >>> some = Proportion(1 / 3, 27)
    >>> [round(end, 3) for end in some.confidence_interval()]
    [0.186, 0.522]
    >>> before, after = Proportion(48 / 80, 80), Proportion(56 / 70, 70)
    >>> [round(end, 4) for end in after.difference_interval(before)]
    [0.0524, 0.3339]
    """

    value: float
    n: float

    def confidence_interval(
        self, error_probability: float = ERROR_PROBABILITY
    ) -> tuple[float, float]:
        """Return Wilson's score interval (1927) of the proportion, as (low, high)."""
        share, n, z = self.value, self.n, _NORMAL.inv_cdf(1.0 - error_probability / 2)
        middle = (share + z * z / (2 * n)) / (1 + z * z / n)
        margin = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        return max(middle - margin, 0.0), min(middle + margin, 1.0)

    def difference_interval(
        self, other: "Proportion", error_probability: float = ERROR_PROBABILITY
    ) -> tuple[float, float]:
        """Return Newcombe's interval (1998) of this proportion minus `other`, as (low, high)."""
        (low, high), (least, most) = (
            self.confidence_interval(error_probability),
            other.confidence_interval(error_probability),
        )
        change = self.value - other.value
        below, above = self.value - low, high - self.value
        return (
            change - hypot(below, most - other.value),
            change + hypot(above, other.value - least),
        )


def fisher_p_value(k: int, n: int, successes: int, total: int) -> float:
    """Return the p-value of Fisher's exact test (1935), one-sided.

    The result is the probability that a sample of `n`, drawn without replacement from a population
    of `total` with `successes` successes, has at least `k` successes (hypergeometric distribution).

    >>> round(fisher_p_value(3, 4, 4, 8), 4)
    0.2429
    """
    k, most, chance = max(k, n + successes - total), min(n, successes), 0.0  # fewer there cannot be
    one = (
        exp(
            log_binomial_coefficient(successes, k)
            + log_binomial_coefficient(total - successes, n - k)
            - log_binomial_coefficient(total, n)
        )
        if k <= most
        else 0.0
    )
    while k <= most:
        chance += one
        one *= (successes - k) * (n - k) / ((k + 1) * (total - successes - n + k + 1))
        k += 1
    return min(chance, 1.0)


def log_binomial_coefficient(n: int, k: int) -> float:
    """Return the logarithm of the binomial coefficient of `n` and `k`."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def change_point(hits: Sequence[bool]) -> int | None:
    """Return the index from which on True is rarer in `hits`; None if its rate did not fall.

    The index is the maximum-likelihood change point of a proportion (Hinkley and Hinkley 1970).

    >>> change_point([True, True, False, True, True, False, False, True, False])
    5
    """
    n, total, right = len(hits), sum(hits), 0
    best, place = -1e-9 + _bernoulli_log_likelihood(total, n), None
    for i, hit in enumerate(hits[:-1], 1):
        right += hit
        if right * (n - i) <= (total - right) * i:  # they rose there, or stayed
            continue
        found = _bernoulli_log_likelihood(right, i) + _bernoulli_log_likelihood(
            total - right, n - i
        )
        if found > best:
            best, place = found, i
    return place


def _bernoulli_log_likelihood(n_hits: int, n: int) -> float:
    """Return the maximum log-likelihood of `n_hits` true values in `n` Bernoulli trials."""
    return sum(k * log(k / n) for k in (n_hits, n - n_hits) if k)
