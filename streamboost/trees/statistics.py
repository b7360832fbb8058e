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

_MOST_RECORDS = 2.0**32
"""So many rows have no numbers here. Where weights say more, they are counted in larger units: what
one record adds is rounded before it is weighted, and would be nothing beside them."""

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
    worth
        What a unit of gain is worth where the mean record weighs 1, so that the gains of trees may
        be compared: Newton's are of the loss, the others' of a record.
    """

    kind: int
    values: np.ndarray
    channels: int
    scale: float
    worth: float
    channel: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.uint32))
    totals: np.ndarray = field(default_factory=lambda: np.zeros(0))


def gradient_statistic(
    gradient: np.ndarray, hessian: np.ndarray, weight: np.ndarray, sum_g: float, sum_h: float
) -> Statistic:
    """Return gradients and Hessians as whole numbers whose sums cannot overflow.

    `gradient` and `hessian` are those of a row of weight 1; `sum_g` and `sum_h` are the weighted
    sums of |gradient| and of Hessians.
    """
    weight, lot, kind, channels = newton_form(weight, float(weight.sum()), len(weight))
    values = np.empty(channels * len(gradient), dtype=np.int64)
    bounds, wide = (sum_g / lot, sum_h / lot), kind == NEWTON_SUMS
    scale_g, scale_h = scale_up(gradient, hessian, weight, *bounds, wide, values)
    return Statistic(kind, values, channels, scale_h / lot, lot * scale_h / scale_g / scale_g)


def newton_form(weight: np.ndarray, total: float, n: int) -> tuple[np.ndarray, float, int, int]:
    """Return how rows of `weight` hold gradient and Hessian, `n` of them in all, of such a `total`.

    That is their weight in lots, the records of a lot, the kind of tree and its channels.
    """
    weight, total, lot = _in_lots(weight, total, n)
    wide = max(n, total) > WIDE_ROWS
    return weight, lot, *((NEWTON_SUMS, 2) if wide else (NEWTON, 1))


def pair_statistic(
    probabilities: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    rows: np.ndarray,
    buffer: np.ndarray,
    by_gain: bool = True,
) -> tuple[Statistic, float]:
    """Return gradients and Hessians of a node's own class pair, and what a unit of gain is worth.

    Of the node that holds `rows` (uint32); for `probabilities` float32 (n, K), `y` uint32 and
    `weight` float32 (n,). Each node has scales of its own, so gains of two nodes compare only in
    the user's units. `buffer` int64 (2n,) takes the numbers, and belongs to the statistic.
    `by_gain` is as in `kernels.pairs.node_pair`.
    """
    weight, total, lot = _in_lots(weight, float(weight[rows].sum()), len(rows))
    wide = max(len(rows), total) > WIDE_ROWS
    bits = _SUM_BITS if wide else 30
    scale_g, scale_h = pairs.pair_statistic(
        probabilities, y, weight, rows, by_gain, bits, wide, buffer
    )
    kind = NEWTON_SUMS if wide else NEWTON
    worth = lot * scale_h / scale_g**2
    return Statistic(kind, buffer, 2 if wide else 1, scale_h / lot, worth), worth


def weight_statistic(
    weight: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    kind: int = GINI,
    *,
    copies: np.ndarray | None = None,
    unit: float = 1.0,
) -> Statistic:
    """Return the class weights of a tree that maximises the Gini sum, or the sum of another kind.

    `weight` float64 (n,), not negative, is that of one record, and `copies` (n,) how many records
    each row stands for, one if None; it is rounded before it is multiplied, so that a row of two
    records counts exactly as two rows. `y` uint32 codes (n,). A weight of `unit` is what the least
    weight of a child calls 1.
    """
    lot = 1.0
    if copies is not None:
        copies, _, lot = _in_lots(copies, float(copies.sum()), len(copies))
    total = weight if copies is None else weight * copies
    scale = _power_of_two(_SUM_BITS, float(total.sum()))
    values = np.rint(weight * scale)
    if copies is not None:
        values = np.rint(values * copies)
    scale *= unit / lot
    return Statistic(kind, values.astype(np.int64), n_classes, scale, _inverse(scale), channel=y)


def vector_statistic(
    kind: int,
    vectors: np.ndarray,
    totals: np.ndarray | None = None,
    *,
    copies: np.ndarray | None = None,
    unit: float = 1.0,
) -> Statistic:
    """Return a statistic of several numbers per row: `vectors` float64 (n, channels).

    They are those of one record; `copies` (n,) is as in `weight_statistic`. `totals` (channels,)
    are the constants of STUMP. All channels share one scale. `unit` is what the mean record adds
    to them all, by which gains are measured.
    """
    lot = 1.0
    if copies is not None:
        copies, _, lot = _in_lots(copies, float(copies.sum()), len(copies))
    size = np.abs(vectors)
    bounds = size.sum(axis=0) if copies is None else copies @ size
    scale = _power_of_two(_SUM_BITS, float(bounds.max(initial=0.0)))
    values = np.rint(np.ascontiguousarray(vectors) * scale)
    if copies is not None:
        values = np.rint(values * copies[:, None])
    values = values.astype(np.int64).ravel()
    scale /= lot
    constants = np.zeros(0) if totals is None else np.asarray(totals, dtype=np.float64) * scale
    worth = _inverse(scale * unit)
    return Statistic(kind, values, vectors.shape[1], scale, worth, totals=constants)


def _inverse(scale: float) -> float:
    return 1.0 / scale if scale > 0 else 0.0  # where nothing weighs anything, nothing is gained


def _in_lots(weight: np.ndarray, total: float, n: int) -> tuple[np.ndarray, float, float]:
    """Return `weight` and its `total` over `n` rows, both in lots, and the records of a lot.

    That is 1 up to 2^32 records, so that a row of weight 2 counts exactly as two rows; beyond, a
    power of two that leaves the mean row between 1 and 2.
    """
    if total <= _MOST_RECORDS:
        return weight, total, 1.0
    lot = float(2.0 ** np.floor(np.log2(total / n)))
    return weight / weight.dtype.type(lot), total / lot, lot


def _power_of_two(bits: int, bound: float) -> float:
    # Beyond 2^1000 a weight itself is near the least number there is.
    return float(2.0 ** min(np.floor(bits - np.log2(bound)), 1000.0)) if bound > 0 else 1.0
