"""From values to codes: where to cut, and how many cuts lie below each value."""

import numpy as np

from streamboost.kernels.jit import kernel

__all__ = ["choose_cuts", "code_values"]

_BLOCK = 256  # rows whose values of one feature are compared with one cut after another


@kernel
def code_values(X, cuts, first, missing, codes):
    """Write the bin of each value to `codes`, the bin behind the last for a missing one.

    Shapes: `X` float32 (n, D), C-order, NaN where missing; `cuts` float32, feature after feature,
    those of feature f from `first[f]` to `first[f + 1]`, int64 (D + 1,); `missing` bool (D,), where
    a feature has a bin for NaN (else NaN is in its first bin); `codes` uint8 (D, n).

    Every cut is compared with every value: whole vectors of them, without a branch, which up to
    255 cuts is several times faster than a binary search.
    """
    n, n_features = X.shape
    x = np.empty(_BLOCK, np.float32)
    below = np.empty(_BLOCK, np.int32)
    for start in range(0, n, _BLOCK):
        size = min(_BLOCK, n - start)
        for f in range(n_features):
            for i in range(size):
                x[i] = X[start + i, f]
                below[i] = 0
            for c in range(first[f], first[f + 1]):
                cut = cuts[c]
                for i in range(size):
                    below[i] += np.int32(x[i] > cut)
            if missing[f]:
                gone = first[f + 1] - first[f] + 1
                for i in range(size):
                    codes[f, start + i] = below[i] if x[i] == x[i] else gone
            else:
                for i in range(size):
                    codes[f, start + i] = below[i]


@kernel
def choose_cuts(values, mass, max_bins, tails, cuts):
    """Write at most `max_bins` - 1 cuts between `values`; return how many.

    Shapes: `values` float32 (m,), ascending, without NaN; `mass` float64 (m,), the weight up to
    each; `tails` int64, how many of the lowest and of the highest distinct values to cut off;
    `cuts` float32 (max_bins - 1,).
    """
    ends, n = np.empty(values.size, np.int64), 0
    for i in range(values.size - 1):  # the last place of each value but the largest
        if values[i] != values[i + 1]:
            ends[n] = i
            n += 1
    if n >= max_bins:
        n = _thin_out(ends, n, mass, max_bins, tails)
    for c in range(n):
        low, high = values[ends[c]], values[ends[c] + 1]
        middle = np.float32((np.float64(low) + np.float64(high)) / 2.0)
        # Between neighbouring floats the midpoint rounds to one of them, not to the right one.
        cuts[c] = low if middle >= high else middle
    return n


@kernel
def _thin_out(ends, n, mass, max_bins, tails):
    """Leave of `n` ends those in the tails, at quantiles of mass and of values; return how many."""
    chosen = np.zeros(n, np.bool_)
    n_tails = 0
    while n_tails < min(tails.size, (max_bins - 1) // 8) and tails[n_tails] <= n // max_bins:
        chosen[tails[n_tails] - 1] = chosen[n - tails[n_tails]] = True
        n_tails += 1
    by_record = (max_bins - 1 - 2 * n_tails) // 2
    by_value = max_bins - 1 - 2 * n_tails - by_record
    e = 0
    for q in range(1, by_record + 1):
        wanted = mass[-1] * q / (by_record + 1)
        while e < n - 1 and mass[ends[e]] < wanted:
            e += 1
        chosen[e] = True
    for q in range(1, by_value + 1):
        chosen[(n + 1) * q // (by_value + 1) - 1] = True
    kept = 0
    for e in range(n):
        ends[kept] = ends[e]
        kept += chosen[e]
    return kept
