"""Row weights under an exponential loss: the state of the rows, and class weights of leaves."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from streamboost.kernels.growing.criteria import ENTROPY, ERROR, GINI
from streamboost.trees.histogram_input import HistogramInput, class_weight_histogram_input
from streamboost.trees.tree import Tree

Criterion = Literal["gini", "entropy", "error"]

CRITERIA: dict[Criterion, int] = {"gini": GINI, "entropy": ENTROPY, "error": ERROR}
"""Split criteria: the weighted impurity of both sides, or their weighted errors."""


@dataclass(slots=True)
class ExponentialState:
    """Training rows of boosting with an exponential loss. Row i has the weight s_i exp(-V_i).

    Parameters
    ----------
    y
        uint32 (n,), class indices in [0, n_classes).
    n_records
        s, float64 (n,): the number of records that each row represents.
    own_score
        V, float64 (n,): the score of the row's class, divided by the temperature of the loss.
    n_classes
        K.
    ended
        True if no further tree can improve the model.
    """

    y: np.ndarray
    n_records: np.ndarray
    own_score: np.ndarray
    n_classes: int
    ended: bool = False
    present: np.ndarray = field(init=False)
    """Indices of the classes with rows, ascending."""

    def __post_init__(self) -> None:
        self.present = np.flatnonzero(np.bincount(self.y, minlength=self.n_classes))

    def record_weights(self, log_initial_weights: np.ndarray | None = None) -> np.ndarray:
        """Return the weight of one record of each row, float64 (n,), scaled to maximum 1.

        `log_initial_weights` (n,) has the logarithms of the initial weights; None: equal weights.
        """
        log_weight = (
            -self.own_score if log_initial_weights is None else log_initial_weights - self.own_score
        )
        return np.asarray(np.exp(log_weight - log_weight.max()))

    def tree_histogram_input(self, weight: np.ndarray, kind: int = GINI) -> HistogramInput:
        """Return the weights of the rows' classes as input of a tree's histograms.

        `weight` (n,) is the weight of one record of each row. `kind` is a split criterion, one of
        the values of `CRITERIA`.
        """
        unit = float((weight * self.n_records).sum() / self.n_records.sum())
        return class_weight_histogram_input(
            weight, self.y, self.n_classes, kind, copies=self.n_records, unit=unit
        )

    def add_tree(self, tree: Tree, temperature: float) -> None:
        """Add a tree's leaf values, over `temperature`, to the scores of the rows' own classes."""
        self.own_score += tree.values[tree.leaf_indices(len(self.y)), self.y] / temperature


def class_weights_of_leaves(
    leaf_of_row: np.ndarray, y: np.ndarray, weight: np.ndarray, shape: tuple[int, int]
) -> np.ndarray:
    """Return the total weight of the rows of each class in each leaf, float64 (leaves, K).

    `leaf_of_row`, `y` and `weight` (n,) are the leaf, class and weight of each row; `shape` is
    (leaves, K). If ties must not depend on the order of the rows, pass the integers
    `HistogramInput.values` as `weight`.
    """
    n_leaves, n_classes = shape
    mass = np.bincount(leaf_of_row * n_classes + y, weights=weight, minlength=n_leaves * n_classes)
    return mass.reshape(n_leaves, n_classes)
