"""The margin loss on simplex codewords (Saberian and Vasconcelos, 2011), shared by its boosters.

Each of K classes has a codeword y_k, the corners of a regular simplex, and a predictor f in K-1
dimensions answers the class of the largest z_k = <f, y_k>. The risk of a row of class c is
sum_k exp(-(z_c - z_k) / 2); less the constant of k = c it bounds the error. Its population minimum
is at z_k = log p_k up to a constant, so that p = softmax(z). Only the K numbers z are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.estimator import BoostingClassifier, Pruning
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.training_data import TrainingData
from streamboost.trees.tree import Tree

__all__ = ["FARTHEST", "SimplexAlgorithm", "SimplexClassifier", "SimplexState", "codewords"]

FARTHEST = 4.0
"""The longest step, as the logarithm of a factor on a row's risk; a pure tree knows no end."""


def codewords(n_classes: int) -> np.ndarray:
    """Return the codewords, float64 (K, K-1): unit vectors, each pair at -1/(K-1).

    The paper builds them from those of one class fewer (and says there is no closed form; there
    is one, and any rotation would do). Coordinate j tells class j from the later ones.

    >>> codewords(3).round(3)
    array([[ 1.   ,  0.   ],
           [-0.5  ,  0.866],
           [-0.5  , -0.866]])
    """
    Y = np.zeros((n_classes, max(n_classes - 1, 0)))
    height = 1.0  # of what is left of the unit vectors of the classes from j on
    for j in range(n_classes - 1):
        Y[j, j] = height
        Y[j + 1 :, j] = -height / (n_classes - 1 - j)
        height *= np.sqrt(1 - 1 / (n_classes - 1 - j) ** 2)
    return Y


@dataclass(slots=True)
class SimplexState:
    """Each row's class, how many records it stands for, and its scores z (n, K)."""

    y: np.ndarray
    given: np.ndarray
    z: np.ndarray
    rounds: int = 0

    def risks(self) -> np.ndarray:
        """Return e_ik = exp(-(z_ic - z_ik) / 2) of one record, 0 for k = c, the largest being 1."""
        own = np.arange(len(self.y)), self.y
        log_e = (self.z - self.z[own][:, None]) / 2
        log_e[own] = -np.inf
        return np.asarray(np.exp(log_e - log_e.max()))


class SimplexAlgorithm(Algorithm):
    """What the boosters of this risk share; a committee of one may be extended by another."""

    family = "simplex"

    def __init__(self, learning_rate: float) -> None:
        self._learning_rate = learning_rate

    def base(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return 0 for every class, or what the committee began with."""
        return np.zeros(len(data.classes)) if committee is None else committee.base

    def temperature(self, n_classes: int) -> float:
        """Return 1: z grows as log p."""
        return 1.0

    def start(
        self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator
    ) -> SimplexState:
        """Return the state of the rows."""
        return SimplexState(data.y, data.weight, scores.copy())

    def update(self, state: SimplexState, trees: Sequence[Tree]) -> None:
        """Add the trees' values to z."""
        state.rounds += 1
        for tree in trees:
            state.z += tree.values[tree.leaf_of_row(len(state.y))]


@dataclass(kw_only=True, eq=False, repr=False)
class SimplexClassifier(BoostingClassifier):
    """The parameters of the estimators of this risk.

    Parameters
    ----------
    learning_rate
        Scales every step; the paper uses 1.
    max_leaf_nodes, max_depth
        Where a tree ends; it grows the best leaf first. None: max(15, 2K) leaves, any depth.
    pruning
        ``"quick"``: QuickBoost's pruning, the same trees with fewer additions; see
        `GambleClassifier`. Not with categories.

    Attributes
    ----------
    committee_
        The trained `Committee`; its scores are z, which sums to zero.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BoostingClassifier._parameter_constraints,
        "max_leaf_nodes": [*BoostingClassifier._parameter_constraints["max_leaf_nodes"], None],
    }

    max_leaf_nodes: int | None = None
    pruning: Pruning | None = None

    def _leaves(self, n_classes: int) -> int:
        return self.max_leaf_nodes or max(15, 2 * n_classes)
