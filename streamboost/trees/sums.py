"""Sums over the rows of a training, wherever these are.

The rows may lie in shards, each with a thread or a machine of its own. All that a training learns
from them together are sums of whole numbers, which are the same in any order and in any parts; so
each shard goes on from the same sums to the same committee, bit for bit.
"""

import math
from dataclasses import dataclass, field
from threading import Barrier
from typing import TYPE_CHECKING, Optional

import numpy as np

if TYPE_CHECKING:
    from streamboost.trees.bins import Bins

__all__ = ["ALONE", "Shard", "Sum", "Together", "in_units"]

_SUM_BITS = 52  # sums still turn into float64 without rounding, and may be counted in it
_LEAST_EXPONENT = -1074  # of a float64; the largest is 1024
_N_EXPONENTS = 1024 - _LEAST_EXPONENT + 1


class Sum:
    """The sum over all shards, where there is but one: what that one has."""

    def add(self, values: np.ndarray) -> None:
        """Make `values`, int64 of one shape in all shards, their sum over all of them.

        Every shard calls it as often as the others, and waits for them.
        """


ALONE = Sum()


@dataclass(frozen=True, slots=True)
class Shard:
    """Which rows of a training are here.

    Parameters
    ----------
    n
        Rows of all shards.
    places
        Which of them are here, int64, ascending or not.
    total
        Sums over all shards.
    bins
        The cuts, chosen by the rows of all.
    """

    n: int
    places: np.ndarray
    total: Sum
    bins: Optional["Bins"] = None


@dataclass(slots=True)
class Together:
    """What threads of one process sum up: each has its `part`, and adds in step with the others.

    Each sums up a share of the numbers for all. Who cannot go on calls `end`, and nobody waits.
    """

    n: int
    _parts: list[np.ndarray] = field(init=False)
    _barrier: Barrier = field(init=False)

    def __post_init__(self) -> None:
        self._parts = [np.empty(0, dtype=np.int64)] * self.n
        self._barrier = Barrier(self.n)

    def part(self, i: int) -> Sum:
        """Return the sum as thread `i` has it."""
        return _Part(self, i)

    def end(self) -> None:
        """Have those that wait, or come to, raise `threading.BrokenBarrierError`."""
        self._barrier.abort()

    def _add(self, i: int, values: np.ndarray) -> None:
        self._parts[i] = flat = values.reshape(-1)
        self._barrier.wait()
        share = slice(len(flat) * i // self.n, len(flat) * (i + 1) // self.n)
        first, *others = (part[share] for part in self._parts)
        for part in others:
            first += part
        for part in others:
            part[:] = first
        self._barrier.wait()


@dataclass(frozen=True, slots=True)
class _Part(Sum):
    together: Together
    i: int

    def add(self, values: np.ndarray) -> None:
        """Add to the other threads'; see `Sum`."""
        self.together._add(self.i, values)


def in_units(weight: np.ndarray, total: Sum = ALONE) -> tuple[np.ndarray, float]:
    """Return `weight` (n,), positive, as whole numbers of units, int64, and the units of 1.

    At least one unit each; (1,) where all that are here weigh alike. The units of all shards are
    the same, a power of two, and so many that their sum stays below 2^53.

    >>> from streamboost.trees.sums import in_units
    >>> units, scale = in_units(np.array([0.5, 1.0, 2.5]))
    >>> (units / scale).tolist()
    [0.5, 1.0, 2.5]
    """
    even = len(weight) > 0 and (weight == weight[0]).all()
    some = weight[:1] if even else weight
    if even and total is ALONE:  # what follows comes to, in a tenth of the time
        bits = _SUM_BITS - math.ceil(math.log2(len(weight))) - math.frexp(weight[0])[1]
        scale = float(2.0 ** min(bits, 1000.0))
        return np.maximum(np.rint(some * scale), 1.0).astype(np.int64), scale
    counts = np.bincount(np.frexp(some)[1] - _LEAST_EXPONENT, minlength=_N_EXPONENTS)
    counts = counts.astype(np.int64) * (len(weight) if even else 1)
    total.add(counts)
    exponents = np.flatnonzero(counts)
    largest = exponents[-1]
    bound = np.ldexp(counts[exponents].astype(np.float64), exponents - largest).sum()
    bits = _SUM_BITS - np.ceil(np.log2(bound)) - (largest + _LEAST_EXPONENT)
    scale = float(2.0 ** min(bits, 1000.0))
    return np.maximum(np.rint(some * scale), 1.0).astype(np.int64), scale
