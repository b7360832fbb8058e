"""What each row adds to a tree's histograms: gradients or weights, as whole numbers."""

from dataclasses import dataclass, field

import numpy as np

from streamboost.kernels import pairs
from streamboost.kernels.growing.criteria import GINI, NEWTON, NEWTON_SUMS
from streamboost.kernels.softmax import scale_up

__all__ = [
    "Statistic",
    "gradient_statistic",
    "newton_form",
    "pair_statistic",
    "vector_statistic",
    "weight_statistic",
]

WIDE_ROWS = 65_536
"""Beyond this many rows, or this weight, a 32-bit half is too coarse for small gradients."""

_SUM_BITS = 52  # sums in an int64 of their own still turn into float64 without rounding


@dataclass(frozen=True, slots=True)
class Statistic:
    """What each row adds to a histogram, as whole numbers of 1/scale.

    Parameters
    ----------
    kind
        One of the grow kernel's criteria.
    values
        int64: one number per row of all n, or `channels` of them, row after row.
    channels
        Numbers per histogram bin.
    scale
        Turns the user's least weight and penalty into the same units.
    channel
        uint32 (n,): the channel each row's one number goes to; empty where it fills all.
    totals
        The constants t_k of the stump criterion, in the same units.
    """

    kind: int
    values: np.ndarray
    channels: int
    scale: float
    channel: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.uint32))
    totals: np.ndarray = field(default_factory=lambda: np.zeros(0))


def gradient_statistic(
    gradient: np.ndarray, hessian: np.ndarray, weight: np.ndarray, sum_g: float, sum_h: float
) -> Statistic:
    """Return gradients and Hessians as whole numbers whose sums cannot overflow.

    `gradient` and `hessian` are those of a row of weight 1; `sum_g` and `sum_h` are the weighted
    sums of |gradient| and of Hessians.
    """
    kind, channels = newton_form(weight)
    values = np.empty(channels * len(gradient), dtype=np.int64)
    wide = kind == NEWTON_SUMS
    _, scale_h = scale_up(gradient, hessian, weight, sum_g, sum_h, wide, values)
    return Statistic(kind, values, channels, scale_h)


def newton_form(weight: np.ndarray) -> tuple[int, int]:
    """Return how rows of `weight` (n,) hold gradient and Hessian: kind of tree, and channels."""
    wide = max(len(weight), float(weight.sum())) > WIDE_ROWS
    return (NEWTON_SUMS, 2) if wide else (NEWTON, 1)


def pair_statistic(
    probabilities: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    rows: np.ndarray,
    buffer: np.ndarray,
) -> tuple[Statistic, float]:
    """Return gradients and Hessians of a node's own class pair, and what a unit of gain is worth.

    Of the node that holds `rows` (uint32); for `probabilities` float32 (n, K), `y` uint32 and
    `weight` float32 (n,). Each node has scales of its own, so gains of two nodes compare only in
    the user's units. `buffer` int64 (2n,) takes the numbers, and belongs to the statistic.
    """
    wide = len(rows) > WIDE_ROWS
    bits = _SUM_BITS if wide else 30
    scale_g, scale_h = pairs.pair_statistic(probabilities, y, weight, rows, bits, wide, buffer)
    kind = NEWTON_SUMS if wide else NEWTON
    statistic = Statistic(kind, buffer, 2 if wide else 1, scale_h)
    return statistic, scale_h / scale_g**2


def weight_statistic(
    weight: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    kind: int = GINI,
    *,
    copies: np.ndarray | None = None,
    unit: float = 1.0,
) -> Statistic:
    """Return the class weights of a tree that maximises the Gini sum, or ERROR's.

    `weight` float64 (n,), not negative, is that of one record, and `copies` (n,) how many records
    each row stands for, one if None; it is rounded before it is multiplied, so that a row of two
    records counts exactly as two rows. `y` uint32 codes (n,). A weight of `unit` is what the least
    weight of a child calls 1.
    """
    total = weight if copies is None else weight * copies
    scale = _power_of_two(_SUM_BITS, float(total.sum()))
    values = np.rint(weight * scale)
    if copies is not None:
        values = np.rint(values * copies)
    return Statistic(kind, values.astype(np.int64), n_classes, scale * unit, channel=y)


def vector_statistic(
    kind: int,
    vectors: np.ndarray,
    totals: np.ndarray | None = None,
    *,
    copies: np.ndarray | None = None,
) -> Statistic:
    """Return a statistic of several numbers per row: `vectors` float64 (n, channels).

    They are those of one record; `copies` (n,) is as in `weight_statistic`. `totals` (channels,)
    are the constants of STUMP. All channels share one scale.
    """
    size = np.abs(vectors)
    bounds = size.sum(axis=0) if copies is None else copies @ size
    scale = _power_of_two(_SUM_BITS, float(bounds.max(initial=0.0)))
    values = np.rint(np.ascontiguousarray(vectors) * scale)
    if copies is not None:
        values = np.rint(values * copies[:, None])
    values = values.astype(np.int64).ravel()
    constants = np.zeros(0) if totals is None else np.asarray(totals, dtype=np.float64) * scale
    return Statistic(kind, values, vectors.shape[1], scale, totals=constants)


def _power_of_two(bits: int, bound: float) -> float:
    # Beyond 2^1000 a weight itself is near the least number there is.
    return float(2.0 ** min(np.floor(bits - np.log2(bound)), 1000.0)) if bound > 0 else 1.0
