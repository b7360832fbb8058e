"""Explanations of a forest: feature importances from split gains, and SHAP values of rows."""

from functools import lru_cache

import numpy as np

from streamboost.kernels.shap import (
    PATH_STEP,
    POINTS,
    RULE,
    TESTED_FEATURE,
    add_contributions,
    write_left_shares,
)
from streamboost.trees.forest import Forest


def feature_importances(forest: Forest, n_features: int) -> np.ndarray:
    """Return the share of each feature in the total split gain of the forest, float64 (D,)."""
    gain = forest.gain.astype(np.float64)
    gains = np.bincount(forest.nodes["feature"], weights=gain, minlength=n_features)
    total = gains.sum()
    return np.asarray(gains / total if total > 0 else gains)


def shap_values(forest: Forest, X: np.ndarray) -> np.ndarray:
    """Return the SHAP value of each row, class and feature of `X` float32 (n, D).

    The result is float64 (n, K, D + 1). The last column is the mean score over the training rows.
    """
    X = forest.category_codes.transform(X)
    n, n_features = X.shape
    left_share, expected = np.empty(len(forest.nodes)), np.zeros(forest.n_classes)
    grown = forest.nodes, forest.roots, forest.values
    most = write_left_shares(*grown, forest.cover, left_share, expected)
    out = np.zeros((n, forest.n_classes, n_features + 1))
    out[:, :, n_features] = expected
    trees = forest.nodes, forest.set_of, forest.sets, forest.roots, forest.values
    rules = _quadrature_rules(-(-min(most, n_features) // (2 * POINTS)))
    work = np.empty(most + 1, dtype=PATH_STEP), np.empty(most, dtype=TESTED_FEATURE)
    add_contributions(*trees, left_share, X, rules, *work, out)
    return out


@lru_cache(maxsize=32)
def _quadrature_rules(n_blocks: int) -> np.ndarray:
    """Return the Gauss-Legendre rules on [0, 1] with 4 to 4 `n_blocks` points.

    The array is RULE (n_blocks + 1, n_blocks), each entry a block of 4 points. Row b is the rule
    with b blocks, which is exact for polynomials of degree 8 b - 1. Row 0 is empty.
    """
    rules = np.zeros((n_blocks + 1, n_blocks), dtype=RULE)
    for b in range(1, n_blocks + 1):
        points, weights = np.polynomial.legendre.leggauss(b * POINTS)
        rules["point"][b, :b] = (points.reshape(b, POINTS) + 1) / 2
        rules["weight"][b, :b] = weights.reshape(b, POINTS) / 2
    return rules
