"""How far a share may be off that few tell of, and how far two such shares may lie apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, hypot, lgamma, log, sqrt
from statistics import NormalDist

__all__ = ["CHANCE", "Share", "as_many", "fell_from"]

CHANCE = 0.05
"""How often an interval misses what it is of, at most."""

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Share:
    """A share, and how many tell of it; where they count differently, as many as would if alike.

    >>> some = Share(1 / 3, 27)
    >>> [round(end, 3) for end in some.interval()]
    [0.186, 0.522]
    >>> [round(end, 4) for end in Share(56 / 70, 70).less(Share(48 / 80, 80))]
    [0.0524, 0.3339]
    """

    value: float
    n: float

    def interval(self, chance: float = CHANCE) -> tuple[float, float]:
        """Return Wilson's interval (1927), which misses the true share by `chance` at most."""
        share, n, z = self.value, self.n, _NORMAL.inv_cdf(1.0 - chance / 2)
        middle = (share + z * z / (2 * n)) / (1 + z * z / n)
        margin = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        return max(middle - margin, 0.0), min(middle + margin, 1.0)

    def less(self, other: "Share", chance: float = CHANCE) -> tuple[float, float]:
        """Return the interval of this share less another: Newcombe's (1998), of the two above."""
        (low, high), (least, most) = self.interval(chance), other.interval(chance)
        change = self.value - other.value
        below, above = self.value - low, high - self.value
        return (
            change - hypot(below, most - other.value),
            change + hypot(above, other.value - least),
        )


def as_many(k: int, n: int, of: int, total: int) -> float:
    """Return the chance that among `n` of a `total` there are `k` or more of so many special ones.

    It is Fisher's exact test (1935), one-sided.

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
    """Return the logarithm of the ways to choose `k` of `n`."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def fell_from(hits: Sequence[bool]) -> int | None:
    """Return the place from which on hits are rarer, where they fell once; None: nowhere.

    It is the likeliest place of one change of a share (Hinkley and Hinkley 1970).

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
    """Return the greatest logarithmic likelihood of so many hits of n."""
    return sum(k * log(k / n) for k in (right, n - right) if k)
