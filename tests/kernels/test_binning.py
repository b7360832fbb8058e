import numpy as np
import pytest

from streamboost.kernels.binning import bin_values, choose_cuts
from streamboost.trees.bins import _TAILS


@pytest.mark.parametrize("n", [1, 255, 256, 257, 700])
def test_codes_are_those_of_a_search_among_the_cuts(n):
    rng = np.random.default_rng(n)
    X = rng.integers(0, 40, (n, 3)).astype(np.float32) / 4
    X[rng.random(X.shape) < 0.2] = np.nan
    cuts = [np.unique(rng.integers(0, 40, k)).astype(np.float32) / 4 for k in (0, 1, 30)]
    missing = np.array([True, False, True])
    codes = np.empty((3, n), np.uint8)
    first = np.cumsum([0, *map(len, cuts)])
    bin_values(X, np.concatenate(cuts), first, missing, codes)
    for f in range(3):
        gone = len(cuts[f]) + 1 if missing[f] else 0
        expected = np.where(np.isnan(X[:, f]), gone, np.searchsorted(cuts[f], X[:, f]))
        np.testing.assert_array_equal(codes[f], expected)


def plain_cuts(values, mass, max_bins):
    """Cuts between all neighbours that differ, or those in the tails and at quantiles of both."""
    ends = np.flatnonzero(np.diff(values))
    n = len(ends)
    if n >= max_bins:
        tails = [t for t in _TAILS if t <= n // max_bins][: (max_bins - 1) // 8]
        by_record = (max_bins - 1 - 2 * len(tails)) // 2
        by_value = max_bins - 1 - 2 * len(tails) - by_record
        wanted = mass[-1] * np.arange(1, by_record + 1) / (by_record + 1)
        chosen = {min(i, n - 1) for i in np.searchsorted(mass[ends], wanted)}
        chosen |= {(n + 1) * q // (by_value + 1) - 1 for q in range(1, by_value + 1)}
        chosen |= {t - 1 for t in tails} | {n - t for t in tails}
        ends = ends[sorted(chosen)]
    low, high = values[ends], values[ends + 1]
    middle = ((low.astype(float) + high) / 2).astype(np.float32)
    return np.where(middle < high, middle, low)


@pytest.mark.parametrize("max_bins", [2, 3, 9, 64, 255])
@pytest.mark.parametrize("n", [0, 1, 2, 64, 65, 300, 5000])
def test_cuts_are_the_plain_ones(n, max_bins):
    rng = np.random.default_rng(n)
    near = 1 + rng.integers(0, 9, n) * np.finfo(np.float32).eps  # neighbouring floats among them
    made = rng.standard_normal(n), rng.integers(0, 90, n), rng.random(n) ** 20, near
    values = np.sort(np.array(made, dtype=np.float32), axis=1)
    n_values = np.array([n, n // 2, n, max(n - 1, 0)])  # what follows is missing
    mass = np.cumsum(rng.random((4, n)) + 0.1, axis=1)
    for weight in (mass, mass[:1]):
        cuts, n_cuts = np.empty((4, max_bins - 1), np.float32), np.empty(4, np.int64)
        choose_cuts(values, n_values, weight, max_bins, _TAILS, cuts, n_cuts)
        for f, own in enumerate(np.broadcast_to(weight, values.shape)):
            expected = plain_cuts(values[f, : n_values[f]], own[: n_values[f]], max_bins)
            np.testing.assert_array_equal(cuts[f, : n_cuts[f]], expected)
