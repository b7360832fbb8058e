"""All-reduce: sums over the training rows of all shards, in threads or on machines.

Each shard of the rows has its own thread or machine. A training combines the shards only by sums of
integers, which do not depend on the order or the partition. Hence each shard continues from equal
sums to an identical committee.
"""

import math
from dataclasses import dataclass, field
from threading import Barrier
from typing import TYPE_CHECKING, Optional

import numpy as np

if TYPE_CHECKING:
    from streamboost.trees.bins import Bins

__all__ = ["NO_REDUCE", "AllReduce", "Shard", "ThreadAllReduce", "weights_in_units"]

_SUM_BITS = 52  # bits of a sum, which float64 represents exactly
_LEAST_EXPONENT = -1074  # of a float64; the largest is 1024
_N_EXPONENTS = 1024 - _LEAST_EXPONENT + 1


class AllReduce:
    """Sum over the shards of a training; the base class, for one shard, changes nothing."""

    def sum_over_shards(self, values: np.ndarray) -> None:
        """Replace `values` int64, of equal shape in all shards, by their sum, in place.

        Each shard must make the same calls. A call blocks until all shards have called.
        """


NO_REDUCE = AllReduce()


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows of one shard in a training whose rows are split over threads or machines.

    Parameters
    ----------
    n
        Number of rows in all shards.
    places
        Indices of the rows of this shard, int64, in any order.
    total
        Sum (all-reduce) over all shards.
    bins
        The bins, fitted to the rows of all shards.
    """

    n: int
    places: np.ndarray
    total: AllReduce
    bins: Optional["Bins"] = None


@dataclass(slots=True)
class ThreadAllReduce:
    """Sum over the threads of one process, synchronized by a barrier.

    Each thread calls `sum_over_shards` of its own `for_thread(i)`, and adds a share of the numbers
    for all threads. A thread that fails must call `abort`, so that the other threads do not block.
    """

    n: int
    _parts: list[np.ndarray] = field(init=False)
    _barrier: Barrier = field(init=False)

    def __post_init__(self) -> None:
        self._parts = [np.empty(0, dtype=np.int64)] * self.n
        self._barrier = Barrier(self.n)

    def for_thread(self, thread: int) -> AllReduce:
        """Return the `AllReduce` that thread number `thread` calls."""
        return _ThreadPart(self, thread)

    def abort(self) -> None:
        """Break the barrier: current and later waits raise `threading.BrokenBarrierError`."""
        self._barrier.abort()

    def _sum_over_threads(self, thread: int, values: np.ndarray) -> None:
        self._parts[thread] = flat = values.reshape(-1)
        self._barrier.wait()
        share = slice(len(flat) * thread // self.n, len(flat) * (thread + 1) // self.n)
        first, *others = (part[share] for part in self._parts)
        for part in others:
            first += part
        for part in others:
            part[:] = first
        self._barrier.wait()


@dataclass(frozen=True, slots=True)
class _ThreadPart(AllReduce):
    all_reduce: ThreadAllReduce
    i: int

    def sum_over_shards(self, values: np.ndarray) -> None:
        """Replace `values` by the sum over all threads, in place; see `AllReduce`."""
        self.all_reduce._sum_over_threads(self.i, values)


def weights_in_units(weight: np.ndarray, total: AllReduce = NO_REDUCE) -> tuple[np.ndarray, float]:
    """Convert positive weights (n,) to int64 multiples of a unit; return them and 1 / unit.

    Each weight is at least one unit. The array is (1,) if all weights of the shard are equal. 1 /
    unit is a power of two, equal for all shards, with which the total is below 2^53.

    >>> from streamboost.trees.sums import weights_in_units
    >>> units, scale = weights_in_units(np.array([0.5, 1.0, 2.5]))
    >>> (units / scale).tolist()
    [0.5, 1.0, 2.5]
    """
    even = len(weight) > 0 and (weight == weight[0]).all()
    some = weight[:1] if even else weight
    if even and total is NO_REDUCE:  # shortcut with the same result in a tenth of the time
        bits = _SUM_BITS - math.ceil(math.log2(len(weight))) - math.frexp(weight[0])[1]
        scale = float(2.0 ** min(bits, 1000.0))
        return np.maximum(np.rint(some * scale), 1.0).astype(np.int64), scale
    counts = np.bincount(np.frexp(some)[1] - _LEAST_EXPONENT, minlength=_N_EXPONENTS)
    counts = counts.astype(np.int64) * (len(weight) if even else 1)
    total.sum_over_shards(counts)
    exponents = np.flatnonzero(counts)
    largest = exponents[-1]
    bound = np.ldexp(counts[exponents].astype(np.float64), exponents - largest).sum()
    bits = _SUM_BITS - np.ceil(np.log2(bound)) - (largest + _LEAST_EXPONENT)
    scale = float(2.0 ** min(bits, 1000.0))
    return np.maximum(np.rint(some * scale), 1.0).astype(np.int64), scale
