"""Rows for the tests of the families that boost class weights."""

import numpy as np


def clouds(seed, n=220, K=3, noise=0.15):
    """Return X (n, 4) and y in K classes, some of them wrong, and weights without ties.

    Fewer than 255 rows: every distinct value has a bin, as scikit-learn's trees see them.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)).astype(np.float32)
    centres = rng.standard_normal((K, 4)) * 1.5
    y = ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    noisy = rng.random(n) < noise
    y[noisy] = rng.integers(0, K, noisy.sum())
    return X, y, rng.random(n) + 0.5


ALL = {"max_bins": 255, "max_features": 1.0}
"""Every value and every feature, as in the references."""
