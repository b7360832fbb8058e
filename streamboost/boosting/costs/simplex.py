"""Margin loss with a codeword per class, and base classes (Saberian and Vasconcelos, 2011).

Each of the K classes has a codeword y_k, a corner of a regular simplex. A predictor f in K-1
dimensions predicts the class of the largest z_k = <f, y_k>. The risk of a row of class c is
sum_k exp(-(z_c - z_k) / 2). Without the constant term k = c, the risk bounds the error. The risk of
the population is least at z_k = log p_k up to a constant, so that p = softmax(z). Only the K
numbers z are stored.
"""

from dataclasses import dataclass

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.estimator import BoostingClassifier, Pruning
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.training_data import TrainingData

FARTHEST = 4.0
"""Bound of a step, as the logarithm of its factor on a row's risk.

The optimal step of a pure tree would be infinite."""


def simplex_codewords(n_classes: int) -> np.ndarray:
    """Return the codewords of K classes, float64 (K, K-1): unit vectors at equal angles.

    The scalar product of each two codewords is -1/(K-1).

    The paper constructs the codewords recursively; here they have a closed form. Coordinate j
    separates class j from the later classes.

    >>> simplex_codewords(3).round(3)
    array([[ 1.   ,  0.   ],
           [-0.5  ,  0.866],
           [-0.5  , -0.866]])
    """
    Y = np.zeros((n_classes, max(n_classes - 1, 0)))
    height = 1.0  # norm of the remaining coordinates of the classes from j on
    for j in range(n_classes - 1):
        Y[j, j] = height
        Y[j + 1 :, j] = -height / (n_classes - 1 - j)
        height *= np.sqrt(1 - 1 / (n_classes - 1 - j) ** 2)
    return Y


@dataclass(slots=True)
class SimplexState:
    """State of the training rows: class indices (n,), numbers of records (n,), scores z (n, K).

    `rounds` is the number of rounds so far.
    """

    y: np.ndarray
    n_records: np.ndarray
    scores: np.ndarray
    rounds: int = 0

    def risks(self) -> np.ndarray:
        """Return the risk exp(-(z_ic - z_ik) / 2) of each row i and class k, scaled to maximum 1.

        The result is float64 (n, K); c is the class of row i.
        """
        own = np.arange(len(self.y)), self.y
        log_e = (self.scores - self.scores[own][:, None]) / 2
        log_e[own] = -np.inf
        return np.asarray(np.exp(log_e - log_e.max()))


@dataclass(eq=False)
class SimplexAlgorithm(Algorithm):
    """Base class of the boosting algorithms that minimise the margin risk on simplex codewords."""

    family = "simplex"

    learning_rate: float

    def base_scores(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return zeros (K,), or the base scores of the committee."""
        return np.zeros(len(data.classes)) if committee is None else committee.base

    def initial_state(self, data: TrainingData, scores: np.ndarray) -> SimplexState:
        """Create the state of the training rows from their `scores` (n, K)."""
        return SimplexState(data.y, data.weight, scores.copy())


@dataclass(kw_only=True, eq=False, repr=False)
class SimplexClassifier(BoostingClassifier):
    """Base class of the estimators that minimise the margin risk, with their parameters.

    Parameters
    ----------
    learning_rate
        Learning rate: factor of each step; the paper uses 1.

    Attributes
    ----------
    committee_
        The trained `Committee`; its scores are z, which sum to zero.
    """

    max_leaf_nodes: int | None = None
    pruning: Pruning | None = None
