"""Inputs of histograms for growing trees: gradients or class weights of the rows, as integers.

Histograms add up these integers. Sums of integers do not depend on the order of the rows.
"""

from dataclasses import dataclass, field

import numpy as np

from streamboost.kernels import pairs
from streamboost.kernels.growing.criteria import GINI, NEWTON, NEWTON_SUMS
from streamboost.kernels.softmax import quantize_without_overflow

WIDE_ROWS = 2**20
"""Number of rows, or total weight, above which 32 bits are too coarse for small gradients.

A sum of absolute gradients has 30 bits, and the mean gradient of a row at least 10."""

_HEAVY = 65_536
"""Total weight above which gradients of at most as many rows, with a weight above 1, keep 52 bits.

Gradients are rounded before they are multiplied by the weight."""

_MOST_RECORDS = 2.0**32
"""Total weight above which weights are divided by a lot, a number of records.

Otherwise the gradient of one record, which is rounded to an integer before it is multiplied by the
weight, would be rounded to zero."""

_SUM_BITS = 52  # bits of a sum in a whole int64, which float64 represents exactly


@dataclass(frozen=True, slots=True)
class HistogramInput:
    """Numbers of each row that histograms add up, such as gradients, as multiples of 1/`scale`.

    Parameters
    ----------
    kind
        Split criterion, see `streamboost.kernels.growing.criteria`.
    values
        int64: one number for each of the n rows, or `channels` consecutive numbers for each row.
    channels
        Number of sums in each histogram bin.
    scale
        Factor that converts the least child weight and the penalty on leaf values to the unit of
        `values`, which is 1/scale.
    channel
        uint32 (n,): index of the sum to which each row adds its number, such as its class. Empty if
        each row adds to all sums of a bin.
    totals
        float64 (channels,): the total weight of each class, which the criterion STUMP needs, as
        multiples of 1/scale; else empty.
    gain_scale
        Factor by which gains of integer sums are multiplied, so that gains of different trees are
        comparable. The product is the decrease of the loss for Newton trees, else a gain per record
        at a mean weight of 1.
    """

    kind: int
    values: np.ndarray
    channels: int
    scale: float
    gain_scale: float
    channel: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.uint32))
    totals: np.ndarray = field(default_factory=lambda: np.zeros(0))


def gradient_histogram_input(
    gradient: np.ndarray, hessian: np.ndarray, weight: np.ndarray, sum_g: float, sum_h: float
) -> HistogramInput:
    """Return the rows' weighted gradients and Hessians as integers, for a Newton tree.

    `gradient`, `hessian` and `weight` are (n,). Gradients and Hessians are not yet multiplied by
    the weights. `sum_g` and `sum_h` are the weighted sums of |gradient| and of Hessians.
    """
    weight, lot, kind, channels = choose_gradient_format(weight, float(weight.sum()), len(weight))
    values = np.empty(channels * len(gradient), dtype=np.int64)
    bounds, is_unpacked = (sum_g / lot, sum_h / lot), kind == NEWTON_SUMS
    scale_g, scale_h = quantize_without_overflow(
        gradient, hessian, weight, *bounds, is_unpacked, values
    )
    return HistogramInput(kind, values, channels, scale_h / lot, lot * scale_h / scale_g / scale_g)


def choose_gradient_format(
    weight: np.ndarray, total: float, n_rows: int
) -> tuple[np.ndarray, float, int, int]:
    """Choose the integer format of gradients and Hessians for `n_rows` rows of weight `total`.

    If weights are huge, they are divided by a power of two, so that the integers do not overflow.
    Returns the divided `weight`, the divisor (1 without division), the split criterion, and the
    number of sums per histogram bin.
    """
    weight, total, lot = _divide_weights_by_lot(weight, total, n_rows)
    is_unpacked = _are_sums_wide(n_rows, total)
    return weight, lot, *((NEWTON_SUMS, 2) if is_unpacked else (NEWTON, 1))


def class_pair_histogram_input(
    probabilities: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    rows: np.ndarray,
    buffer: np.ndarray,
    by_gain: bool = True,
) -> HistogramInput:
    """Choose the class pair of an AOSO-LogitBoost node; return the rows' gradients and Hessians.

    The input is for a Newton step that raises the score of one class and lowers that of the other.
    Its scale differs between nodes.

    Parameters
    ----------
    probabilities
        float32 (n, K), the predicted probabilities.
    y, weight
        uint32 (n,) class indices, and float32 (n,) weights.
    rows
        uint32, the indices of the node's rows.
    buffer
        int64 (2n,), memory for `HistogramInput.values`.
    by_gain
        True: choose the second class by the largest gain; False: by the smallest gradient sum.
    """
    weight, total, lot = _divide_weights_by_lot(weight, float(weight[rows].sum()), len(rows))
    is_unpacked = _are_sums_wide(len(rows), total)
    bits = _SUM_BITS if is_unpacked else 30
    scale_g, scale_h = pairs.write_class_pair_gradients(
        probabilities, y, weight, rows, by_gain, bits, is_unpacked, buffer
    )
    kind = NEWTON_SUMS if is_unpacked else NEWTON
    channels = 2 if is_unpacked else 1
    return HistogramInput(kind, buffer, channels, scale_h / lot, lot * scale_h / scale_g**2)


def class_weight_histogram_input(
    weight: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    kind: int = GINI,
    *,
    copies: np.ndarray | None = None,
    unit: float = 1.0,
) -> HistogramInput:
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
        copies, _, lot = _divide_weights_by_lot(copies, float(copies.sum()), len(copies))
    total = weight if copies is None else weight * copies
    scale = _scale_for_bits(_SUM_BITS, float(total.sum()))
    values = np.rint(weight * scale)
    if copies is not None:
        values = np.rint(values * copies)
    scale *= unit / lot
    gain_scale = _inverse_or_zero(scale)
    channel = np.ascontiguousarray(y)  # another layout would compile kernels again
    return HistogramInput(
        kind, values.astype(np.int64), n_classes, scale, gain_scale, channel=channel
    )


def vector_histogram_input(
    kind: int,
    vectors: np.ndarray,
    totals: np.ndarray | None = None,
    *,
    copies: np.ndarray | None = None,
    unit: float = 1.0,
) -> HistogramInput:
    """Return the rows' `vectors` float64 (n, channels) as integers.

    A vector has the numbers of one record of the row. `copies` (n,) is the number of records of
    each row; None: one each. `kind` is the split criterion, and `totals` (channels,) are the total
    weights of the classes, for the criterion STUMP. All numbers have the same scale. Gains are
    divided by `unit`, the weight of a mean record.
    """
    lot = 1.0
    if copies is not None:
        copies, _, lot = _divide_weights_by_lot(copies, float(copies.sum()), len(copies))
    size = np.abs(vectors)
    bounds = size.sum(axis=0) if copies is None else copies @ size
    scale = _scale_for_bits(_SUM_BITS, float(bounds.max(initial=0.0)))
    values = np.rint(np.ascontiguousarray(vectors) * scale)
    if copies is not None:
        values = np.rint(values * copies[:, None])
    values = values.astype(np.int64).ravel()
    scale /= lot
    constants = np.zeros(0) if totals is None else np.asarray(totals, dtype=np.float64) * scale
    gain_scale = _inverse_or_zero(scale * unit)
    return HistogramInput(kind, values, vectors.shape[1], scale, gain_scale, totals=constants)


def _inverse_or_zero(scale: float) -> float:
    return 1.0 / scale if scale > 0 else 0.0  # without weight there is no gain


def _are_sums_wide(n_rows: int, total: float) -> bool:
    """Return whether sums of gradients, and of Hessians, have an int64 each, not half of one."""
    return max(n_rows, total) > WIDE_ROWS or total > _HEAVY >= n_rows


def _divide_weights_by_lot(
    weight: np.ndarray, total: float, n_rows: int
) -> tuple[np.ndarray, float, float]:
    """Return `weight` and its sum `total`, both divided by the lot, and the lot.

    The lot is a number of records. It is 1 if `total` is at most 2^32, so that a row of weight 2
    equals two rows exactly. If `total` is larger, the lot is the power of two that makes the mean
    row weight 1 to 2.
    """
    if total <= _MOST_RECORDS:
        return weight, total, 1.0
    lot = float(2.0 ** np.floor(np.log2(total / n_rows)))
    return weight / weight.dtype.type(lot), total / lot, lot


def _scale_for_bits(bits: int, largest_sum: float) -> float:
    """Return a power of two that scales sums up to `largest_sum` to at most `bits` bits."""
    # A scale beyond 2^1000 would only be needed for weights near the least positive float64.
    return (
        float(2.0 ** min(np.floor(bits - np.log2(largest_sum)), 1000.0)) if largest_sum > 0 else 1.0
    )
