"""All-reduce: sums over the training rows of all shards, in threads or on machines.

The rows are divided into shards, and each shard has its own thread or machine. Only sums of
integers are exchanged. These do not depend on the order of the rows or on how they are divided.
Hence all shards compute the same committee.
"""

import math
from dataclasses import dataclass, field
from threading import Barrier
from typing import TYPE_CHECKING, Optional

import numpy as np

if TYPE_CHECKING:
    from streamboost.trees.bins import Bins

_SUM_BITS = 52  # bits of a sum, which float64 represents exactly
_LEAST_EXPONENT = -1074  # of a float64; the largest is 1024
_N_EXPONENTS = 1024 - _LEAST_EXPONENT + 1


class AllReduce:
    """Operation that sums arrays over the shards of a training. The base class is for one shard."""

    def sum_over_shards(self, values: np.ndarray) -> None:
        """Replace `values` int64 by the sum of the `values` of all shards, in place.

        The arrays have the same shape in all shards. Each shard must make the same calls, and a
        call blocks until all shards have made it. The base class leaves `values` unchanged.
        """


NO_REDUCE = AllReduce()


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows of one shard in a training whose rows are split over threads or machines.

    Parameters
    ----------
    n
        Number of rows in all shards.
    row_indices
        Indices of the rows of this shard, int64, in any order.
    all_reduce
        Operation that sums arrays over all shards.
    bins
        The bins, fitted to the rows of all shards; None: the training fits bins to its own rows.
    """

    n: int
    row_indices: np.ndarray
    all_reduce: AllReduce
    bins: Optional["Bins"] = None


@dataclass(slots=True)
class ThreadAllReduce:
    """All-reduce over the threads of one process, synchronized by a barrier.

    Thread i calls `sum_over_shards` of the object that `for_thread(i)` returns. Each thread adds up
    an equal part of the numbers. A thread that fails must call `abort`, so that the other threads
    do not block. `n` is the number of threads.
    """

    n: int
    _parts: list[np.ndarray] = field(init=False)
    _barrier: Barrier = field(init=False)

    def __post_init__(self) -> None:
        self._parts = [np.empty(0, dtype=np.int64)] * self.n
        self._barrier = Barrier(self.n)

    def for_thread(self, thread: int) -> AllReduce:
        """Return the `AllReduce` that thread number `thread` calls."""
        return _AllReduceOfThread(self, thread)

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
class _AllReduceOfThread(AllReduce):
    """All-reduce as called by one of the threads."""

    all_reduce: ThreadAllReduce
    i: int

    def sum_over_shards(self, values: np.ndarray) -> None:
        """Replace `values` int64 by the sum of the `values` of all threads, in place."""
        self.all_reduce._sum_over_threads(self.i, values)


def quantize_weights(
    weight: np.ndarray, all_reduce: AllReduce = NO_REDUCE
) -> tuple[np.ndarray, float]:
    """Convert positive weights (n,) to integer multiples of a unit; return integers and 1 / unit.

    The integers are int64 (n,), or (1,) if all weights of the shard are equal, and at least 1. The
    unit is a power of two, and the same for all shards; `all_reduce` sums over the shards. The sum
    of all integers is below 2^53.

    >>> from streamboost.trees.sums import quantize_weights
    >>> units, scale = quantize_weights(np.array([0.5, 1.0, 2.5]))
    >>> (units / scale).tolist()
    [0.5, 1.0, 2.5]
    """
    even = len(weight) > 0 and (weight == weight[0]).all()
    some = weight[:1] if even else weight
    if even and all_reduce is NO_REDUCE:  # shortcut with the same result in a tenth of the time
        bits = _SUM_BITS - math.ceil(math.log2(len(weight))) - math.frexp(weight[0])[1]
        scale = float(2.0 ** min(bits, 1000.0))
        return np.maximum(np.rint(some * scale), 1.0).astype(np.int64), scale
    counts = np.bincount(np.frexp(some)[1] - _LEAST_EXPONENT, minlength=_N_EXPONENTS)
    counts = counts.astype(np.int64) * (len(weight) if even else 1)
    all_reduce.sum_over_shards(counts)
    exponents = np.flatnonzero(counts)
    largest = exponents[-1]
    bound = np.ldexp(counts[exponents].astype(np.float64), exponents - largest).sum()
    bits = _SUM_BITS - np.ceil(np.log2(bound)) - (largest + _LEAST_EXPONENT)
    scale = float(2.0 ** min(bits, 1000.0))
    return np.maximum(np.rint(some * scale), 1.0).astype(np.int64), scale
