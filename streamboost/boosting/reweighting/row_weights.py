"""Boosting class weights under an exponential loss: what its families share."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from streamboost.kernels.growing.criteria import ENTROPY, ERROR, GINI
from streamboost.trees.statistics import Statistic, weight_statistic
from streamboost.trees.tree import Tree

__all__ = ["CRITERIA", "Criterion", "ExponentialState", "class_mass"]

Criterion = Literal["gini", "entropy", "error"]

CRITERIA: dict[Criterion, int] = {"gini": GINI, "entropy": ENTROPY, "error": ERROR}
"""What a split makes least: the weighted impurity of its sides, or their weighted errors."""


@dataclass(slots=True)
class ExponentialState:
    """Where each training row stands: the weight of row i is s_i exp(-V_i) up to a constant.

    Parameters
    ----------
    y
        uint32 (n,), places among all `n_classes` classes.
    given
        s, float64 (n,): how many records each row stands for.
    own_score
        V, float64 (n,): the score of the row's own class, divided by the loss's temperature.
    n_classes
        K.
    ended
        Whether no further tree can help.
    """

    y: np.ndarray
    given: np.ndarray
    own_score: np.ndarray
    n_classes: int
    ended: bool = False
    present: np.ndarray = field(init=False)
    """The classes that rows have, ascending: those to be told apart."""

    def __post_init__(self) -> None:
        self.present = np.flatnonzero(np.bincount(self.y, minlength=self.n_classes))

    def weight(self, log_initial: np.ndarray | None = None) -> np.ndarray:
        """Return what one record of each row weighs, float64 (n,), the heaviest weighing 1.

        `log_initial` (n,) holds the logarithms of the weights the boosting began with; None where
        they were equal.
        """
        log_weight = -self.own_score if log_initial is None else log_initial - self.own_score
        return np.asarray(np.exp(log_weight - log_weight.max()))

    def statistic(self, weight: np.ndarray, kind: int = GINI) -> Statistic:
        """Return the class weights of a tree, its mean record weighing 1 to the user."""
        unit = float((weight * self.given).sum() / self.given.sum())
        return weight_statistic(weight, self.y, self.n_classes, kind, copies=self.given, unit=unit)

    def follow(self, tree: Tree, temperature: float) -> None:
        """Add a tree's leaf values to the own scores of all rows."""
        self.own_score += tree.values[tree.leaf_of_row(len(self.y)), self.y] / temperature


def class_mass(
    leaf: np.ndarray, y: np.ndarray, weight: np.ndarray, shape: tuple[int, int]
) -> np.ndarray:
    """Return what the rows of each class weigh in each leaf, float64 of `shape` (leaves, K).

    `leaf` (n,) is each row's, sampled or not: rows that were only left out of the search for
    splits would be missed in the values. Weights that are a statistic's whole numbers add up
    exactly, so that equal masses are equal in any order of the rows.
    """
    n_leaves, n_classes = shape
    mass = np.bincount(leaf * n_classes + y, weights=weight, minlength=n_leaves * n_classes)
    return mass.reshape(n_leaves, n_classes)
