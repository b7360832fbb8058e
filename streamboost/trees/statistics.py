"""Statistics for growing trees: gradients or class weights of the rows as integers."""

from dataclasses import dataclass, field

import numpy as np

from streamboost.kernels import pairs
from streamboost.kernels.growing.criteria import GINI, NEWTON, NEWTON_SUMS
from streamboost.kernels.softmax import quantize_without_overflow

__all__ = [
    "Statistic",
    "gradient_statistic",
    "newton_format",
    "pair_statistic",
    "vector_statistic",
    "weight_statistic",
]

WIDE_ROWS = 65_536
"""Number of rows, or total weight, above which 32 bits are too coarse for small gradients."""

_MOST_RECORDS = 2.0**32
"""Total weight above which weights are converted to larger units (lots). The number of one record
is rounded before it is multiplied by the weight, and would be rounded to zero."""

_SUM_BITS = 52  # bits of a sum in a whole int64, which float64 represents exactly


@dataclass(frozen=True, slots=True)
class Statistic:
    """Numbers of the rows that histograms sum, stored as integer multiples of 1/scale.

    Parameters
    ----------
    kind
        Split criterion, see `streamboost.kernels.growing.criteria`.
    values
        int64: one number for each of the n rows, or `channels` numbers per row, row by row.
    channels
        Numbers per histogram bin.
    scale
        Factor that converts the least weight of a child and the penalty to the same units.
    channel
        uint32 (n,): the channel of each row's number; empty if a row adds to all channels.
    totals
        The constants t_k of the stump criterion, in the same units.
    worth
        Value of a unit of gain at a mean record weight of 1, so that gains of trees are comparable.
        Gains of Newton trees are in units of the loss, other gains are per record.
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
    """Return the statistic of a Newton tree: gradients and Hessians as integers.

    `gradient` and `hessian` are for a row of weight 1; `sum_g` and `sum_h` are the weighted sums of
    |gradient| and of Hessians.
    """
    weight, lot, kind, channels = newton_format(weight, float(weight.sum()), len(weight))
    values = np.empty(channels * len(gradient), dtype=np.int64)
    bounds, wide = (sum_g / lot, sum_h / lot), kind == NEWTON_SUMS
    scale_g, scale_h = quantize_without_overflow(gradient, hessian, weight, *bounds, wide, values)
    return Statistic(kind, values, channels, scale_h / lot, lot * scale_h / scale_g / scale_g)


def newton_format(
    weight: np.ndarray, total: float, n_rows: int
) -> tuple[np.ndarray, float, int, int]:
    """Choose the integer format of gradients and Hessians for `n_rows` rows with this total weight.

    Returns the `weight` in lots, the number of records per lot, the split criterion and the number
    of channels.
    """
    weight, total, lot = _weights_in_lots(weight, total, n_rows)
    wide = max(n_rows, total) > WIDE_ROWS
    return weight, lot, *((NEWTON_SUMS, 2) if wide else (NEWTON, 1))


def pair_statistic(
    probabilities: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    rows: np.ndarray,
    buffer: np.ndarray,
    by_gain: bool = True,
) -> tuple[Statistic, float]:
    """Choose the class pair of an AOSO-LogitBoost node; return its Newton statistic and its worth.

    The statistic holds the rows' gradients and Hessians for a step that raises the score of one
    class and lowers that of the other, as integers. Its scale differs between nodes: multiply a
    node's gain by the worth, a factor, to compare it with the gains of other nodes.

    Parameters
    ----------
    probabilities
        float32 (n, K), the predicted probabilities.
    y, weight
        uint32 (n,) class indices, and float32 (n,) weights.
    rows
        uint32, the indices of the node's rows.
    buffer
        int64 (2n,), memory for the statistic.
    by_gain
        True: choose the second class by the largest gain; False: by the smallest gradient sum.
    """
    weight, total, lot = _weights_in_lots(weight, float(weight[rows].sum()), len(rows))
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
    """Return the rows' class weights as integers, for a tree with the split criterion `kind`.

    Parameters
    ----------
    weight
        float64 (n,), the weight of one record of each row, at least 0.
    y
        uint32 (n,), class indices.
    kind
        Split criterion, such as `GINI`.
    copies
        (n,), the number of equal records that each row represents; None: one each. Weights are
        rounded before this multiplication, so that a row of two copies equals two rows exactly.
    unit
        Weight that counts as 1 for the least weight of a child.
    """
    lot = 1.0
    if copies is not None:
        copies, _, lot = _weights_in_lots(copies, float(copies.sum()), len(copies))
    total = weight if copies is None else weight * copies
    scale = _scale_of_bits(_SUM_BITS, float(total.sum()))
    values = np.rint(weight * scale)
    if copies is not None:
        values = np.rint(values * copies)
    scale *= unit / lot
    return Statistic(
        kind, values.astype(np.int64), n_classes, scale, _inverse_or_zero(scale), channel=y
    )


def vector_statistic(
    kind: int,
    vectors: np.ndarray,
    totals: np.ndarray | None = None,
    *,
    copies: np.ndarray | None = None,
    unit: float = 1.0,
) -> Statistic:
    """Return the statistic of rows with several numbers each: `vectors` float64 (n, channels).

    The vectors are for one record; `copies` (n,) is as in `weight_statistic`. `totals` (channels,)
    are the constants of STUMP. All channels have the same scale. `unit` is the sum over the
    channels of the mean record, in which gains are measured.
    """
    lot = 1.0
    if copies is not None:
        copies, _, lot = _weights_in_lots(copies, float(copies.sum()), len(copies))
    size = np.abs(vectors)
    bounds = size.sum(axis=0) if copies is None else copies @ size
    scale = _scale_of_bits(_SUM_BITS, float(bounds.max(initial=0.0)))
    values = np.rint(np.ascontiguousarray(vectors) * scale)
    if copies is not None:
        values = np.rint(values * copies[:, None])
    values = values.astype(np.int64).ravel()
    scale /= lot
    constants = np.zeros(0) if totals is None else np.asarray(totals, dtype=np.float64) * scale
    worth = _inverse_or_zero(scale * unit)
    return Statistic(kind, values, vectors.shape[1], scale, worth, totals=constants)


def _inverse_or_zero(scale: float) -> float:
    return 1.0 / scale if scale > 0 else 0.0  # without weight there is no gain


def _weights_in_lots(
    weight: np.ndarray, total: float, n_rows: int
) -> tuple[np.ndarray, float, float]:
    """Return `weight` and `total` in units of a lot, and the number of records per lot.

    Up to 2^32 records, a lot is 1 record, so that a row of weight 2 equals two rows exactly.
    Beyond, a lot is a power of two at which the mean row weight is between 1 and 2.
    """
    if total <= _MOST_RECORDS:
        return weight, total, 1.0
    lot = float(2.0 ** np.floor(np.log2(total / n_rows)))
    return weight / weight.dtype.type(lot), total / lot, lot


def _scale_of_bits(bits: int, largest: float) -> float:
    # A scale beyond 2^1000 would only be needed for weights near the least positive float64.
    return float(2.0 ** min(np.floor(bits - np.log2(largest)), 1000.0)) if largest > 0 else 1.0
