"""Compilation of kernels before any training: a committee to call them, and a listener."""

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.kernels.jit import watch_compilations as watch_compilations
from streamboost.kernels.traverse import FOREST_NODE
from streamboost.trees.forest import Forest


def stump_committee(n_features: int, n_classes: int) -> Committee:
    """Return a committee of one stump, which splits the first feature at zero.

    Examples
    --------
    >>> stump_committee(n_features=1, n_classes=2).class_scores([[-1.0], [1.0]]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    nodes = np.zeros(1, dtype=FOREST_NODE)
    nodes["left"], nodes["right"] = ~0, ~1
    forest = Forest(
        nodes,
        roots=np.zeros(1, dtype=np.int32),
        values=np.eye(2, n_classes, dtype=np.float32),
        rounds=np.arange(2, dtype=np.int32),
        set_of=np.full(1, -1, dtype=np.int32),
        gain=np.ones(1, dtype=np.float32),
        cover=np.full(2, 0.5, dtype=np.float32),
    )
    classes, base = np.arange(n_classes), np.zeros(n_classes)
    return Committee(classes, base, forest, n_features=n_features, family="stump")
