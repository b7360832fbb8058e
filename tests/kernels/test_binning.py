import numpy as np
import pytest

from streamboost.kernels.binning import code_values


@pytest.mark.parametrize("n", [1, 255, 256, 257, 700])
def test_codes_are_those_of_a_search_among_the_cuts(n):
    rng = np.random.default_rng(n)
    X = rng.integers(0, 40, (n, 3)).astype(np.float32) / 4
    X[rng.random(X.shape) < 0.2] = np.nan
    cuts = [np.unique(rng.integers(0, 40, k)).astype(np.float32) / 4 for k in (0, 1, 30)]
    missing = np.array([True, False, True])
    codes = np.empty((3, n), np.uint8)
    first = np.cumsum([0, *map(len, cuts)])
    code_values(X, np.concatenate(cuts), first, missing, codes)
    for f in range(3):
        gone = len(cuts[f]) + 1 if missing[f] else 0
        expected = np.where(np.isnan(X[:, f]), gone, np.searchsorted(cuts[f], X[:, f]))
        np.testing.assert_array_equal(codes[f], expected)
