"""Binning kernels: choose the cuts between bins, and convert feature values to bin indices."""

import numpy as np

from streamboost.kernels.jit import kernel

_BLOCK = 256  # rows per block, whose values of a feature are compared with each cut


@kernel
def bin_values(X, cuts, offsets, missing, codes):
    """Write the bin index of each value to `codes`; the bin of missing values is after the last.

    Shapes: `X` float32 (n, D), C-order, NaN where missing; `cuts` float32, of which
    `cuts[offsets[f]:offsets[f + 1]]` belong to feature f, with `offsets` int64 (D + 1,); `missing`
    bool (D,), True if a feature has a bin for NaN (else NaN is in its first bin); `codes` uint8 (D,
    n).

    Each value is compared with each cut, in vector instructions without branches. Up to 255 cuts,
    this is several times faster than a binary search.
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
            for c in range(offsets[f], offsets[f + 1]):
                cut = cuts[c]
                for i in range(size):
                    below[i] += np.int32(x[i] > cut)
            if missing[f]:
                gone = offsets[f + 1] - offsets[f] + 1
                for i in range(size):
                    codes[f, start + i] = below[i] if x[i] == x[i] else gone
            else:
                for i in range(size):
                    codes[f, start + i] = below[i]


@kernel
def choose_cuts(values, n_values, cumulated_weight, max_bins, tail_sizes, cuts, n_cuts):
    """Choose at most `max_bins` - 1 cuts between the sorted values of each of k features.

    Shapes: `values` float32 (k, n), whose first `n_values[f]` values of row f are ascending and
    without NaN; `n_values` int64 (k,); `cumulated_weight` float64 (k, n), the total weight up to
    each value, or (1, n), if it is equal for all features; `tail_sizes` int64, the numbers of
    distinct values that the tail cuts separate at each end (`Bins.fit`). The cuts are written to
    `cuts` float32 (k, max_bins - 1), their numbers to `n_cuts` int64 (k,).
    """
    ends = np.empty(values.shape[1], np.int64)
    for f in range(values.shape[0]):
        weight = cumulated_weight[f if cumulated_weight.shape[0] > 1 else 0, : n_values[f]]
        n = 0
        for i in range(n_values[f] - 1):  # the last index of each value except the largest
            if values[f, i] != values[f, i + 1]:
                ends[n] = i
                n += 1
        if n >= max_bins:
            n = _select_cuts_from_candidates(ends, n, weight, max_bins, tail_sizes)
        for c in range(n):
            low, high = values[f, ends[c]], values[f, ends[c] + 1]
            middle = np.float32((np.float64(low) + np.float64(high)) / 2.0)
            # Between neighbouring floats the midpoint rounds to one of them; use the lower one.
            cuts[f, c] = low if middle >= high else middle
        n_cuts[f] = n


@kernel
def _select_cuts_from_candidates(candidates, n_candidates, cumulated_weight, max_bins, tail_sizes):
    """Move the selected cuts to the front of `candidates`; return their number.

    At most `max_bins` - 1 cuts are selected: tail cuts, and cuts at quantiles; see `Bins.fit`. A
    candidate is the index of the last value below a possible cut. The other arguments are those of
    `choose_cuts`, for one feature.
    """
    chosen = np.zeros(n_candidates, np.bool_)
    n_tails = 0
    while (
        n_tails < min(tail_sizes.size, (max_bins - 1) // 8)
        and tail_sizes[n_tails] <= n_candidates // max_bins
    ):
        chosen[tail_sizes[n_tails] - 1] = chosen[n_candidates - tail_sizes[n_tails]] = True
        n_tails += 1
    by_record = (max_bins - 1 - 2 * n_tails) // 2
    by_value = max_bins - 1 - 2 * n_tails - by_record
    e = 0
    for q in range(1, by_record + 1):
        wanted = cumulated_weight[-1] * q / (by_record + 1)
        while e < n_candidates - 1 and cumulated_weight[candidates[e]] < wanted:
            e += 1
        chosen[e] = True
    for q in range(1, by_value + 1):
        chosen[(n_candidates + 1) * q // (by_value + 1) - 1] = True
    kept = 0
    for e in range(n_candidates):
        candidates[kept] = candidates[e]
        kept += chosen[e]
    return kept
