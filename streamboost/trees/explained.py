"""What a forest's features are to its scores: how much they gained, and what each did to a row."""

from functools import lru_cache

import numpy as np

from streamboost.errors import DataError
from streamboost.kernels.shap import BLOCK, add_contributions, weigh_paths
from streamboost.trees.forest import Forest

__all__ = ["contributions", "importances"]


def importances(forest: Forest, n_features: int) -> np.ndarray:
    """Return each feature's share of what all splits gained, float64 (D,); 0 without a split.

    Raises
    ------
    DataError
        When an older release has grown some of the trees.
    """
    _require_known(forest, forest.gain)
    gain = forest.gain.astype(np.float64)
    gains = np.bincount(forest.nodes["feature"], weights=gain, minlength=n_features)
    total = gains.sum()
    return np.asarray(gains / total if total > 0 else gains)


def contributions(forest: Forest, X: np.ndarray) -> np.ndarray:
    """Return what each feature of `X` float32 (n, D) does to each score, float64 (n, K, D + 1).

    The last column is the mean score over the training's rows.

    Raises
    ------
    DataError
        When an older release has grown some of the trees.
    """
    _require_known(forest, forest.cover)
    X = forest.categories.transform(X)
    n, n_features = X.shape
    left_share, expected = np.empty(len(forest.nodes)), np.zeros(forest.n_classes)
    most = weigh_paths(
        forest.nodes, forest.roots, forest.values, forest.cover, left_share, expected
    )
    out = np.zeros((n, forest.n_classes, n_features + 1))
    out[:, :, n_features] = expected
    rules = _rules(-(-min(most, n_features) // (2 * BLOCK)))
    add_contributions(
        forest.nodes,
        forest.set_of,
        forest.sets,
        forest.roots,
        forest.values,
        left_share,
        X,
        rules,
        most,
        out,
    )
    return out


@lru_cache(maxsize=32)
def _rules(n_blocks: int) -> np.ndarray:
    """Return Gauss's rules between 0 and 1 of up to so many blocks of points.

    float64 (n_blocks + 1, 2, points): rule b has b blocks of points and of their weights.
    """
    rules = np.zeros((n_blocks + 1, 2, n_blocks * BLOCK))
    for b in range(1, n_blocks + 1):
        points, weights = np.polynomial.legendre.leggauss(b * BLOCK)
        rules[b, :, : b * BLOCK] = (points + 1) / 2, weights / 2
    return rules


def _require_known(forest: Forest, kept: np.ndarray) -> None:
    unknown = int(np.isnan(kept).sum())
    if unknown:
        raise DataError(
            f"of {len(kept)} nodes, {unknown} were grown by an older release, which did not keep "
            "what explains them: train the committee anew"
        )
