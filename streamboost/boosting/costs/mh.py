"""AdaBoost.MH with real-valued trees (Schapire and Singer, 1999)."""

from dataclasses import dataclass

import numpy as np

from streamboost.boosting.costs.coupled_loss import (
    LEAST_GAIN,
    CoupledAlgorithm,
    CoupledState,
    loss_bound,
    optimal_coefficients,
)
from streamboost.boosting.costs.subcosts import Costs
from streamboost.boosting.estimator import BoostingClassifier
from streamboost.boosting.loop import Algorithm
from streamboost.kernels.growing.criteria import MH
from streamboost.trees.grower import Grower
from streamboost.trees.histogram_input import vector_histogram_input
from streamboost.trees.tree import Tree

_SMOOTHING = 1e-3  # of the base scores, as in `RebelClassifier`


class _AdaBoostMH(CoupledAlgorithm):
    """Algorithm of AdaBoost.MH: each round grows a tree with half log odds as leaf values."""

    def grow_round(self, state: CoupledState, grower: Grower) -> list[Tree]:
        """Return a list of one tree, or an empty list if the tree does not lower the loss."""
        plus, minus = state.weights()
        n_records = state.n_records
        unit = n_records / (plus.sum() + minus.sum())  # scales the mean record weight to 1
        tree = grower(vector_histogram_input(MH, np.hstack([plus, minus]) * unit))
        against, in_favour = tree.leaf_sums(plus), tree.leaf_sums(minus)
        total, difference = against + in_favour, against - in_favour
        extra = float(total.sum()) / (n_records * total.shape[1])
        values = optimal_coefficients(total, difference, extra)
        if not loss_bound(total, difference, values) < (1 - LEAST_GAIN) * total.sum():
            return []
        tree.values = (self.learning_rate * values).astype(np.float32)
        return [tree]


@dataclass(kw_only=True, eq=False, repr=False)
class AdaBoostMHClassifier(BoostingClassifier):
    """AdaBoost.MH: K coupled two-class problems on shared trees (Schapire and Singer, 1999).

    Each row is a positive example of its class and a negative example of each other class. Each
    round grows one tree that minimises Z = 2 sum sqrt(W+ W-) over its leaves and the classes, with
    W+ and W- the weights of positive and negative examples. A leaf adds log(W+ / W-) / 2 to each
    class's score H, smoothed by 1/(nK) of the total weight and within ±4. The loss sum exp(-Y H) /
    2, with Y = 1 for the row's class and -1 for others, bounds the training error, and the best H_k
    is half the log odds of class k. `predict_proba` is sigmoid(2 H_k), divided by the sum over the
    classes.

    The variant with ±1 trees and one coefficient per class is `RebelClassifier` without costs. As
    in that class, the base scores are the best constants, whereas AdaBoost.MH begins at 0.

    Parameters
    ----------
    learning_rate
        Learning rate: factor of each leaf value; the paper uses 1.
    max_leaf_nodes, max_depth
        Limits of a tree, which is grown best-first. Two leaves are a stump. None: no bound on the
        depth.
    min_child_weight
        Least weight in a child, at a mean row weight of 1.

    Attributes
    ----------
    committee_
        The trained `Committee`; its scores are H.

    References
    ----------
    R. E. Schapire and Y. Singer, "Improved boosting algorithms using confidence-rated
    predictions", Machine Learning 37, 1999; as compared with in M. J. Saberian and N. Vasconcelos,
    "Multiclass Boosting: Theory and Algorithms", NIPS 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import AdaBoostMHClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AdaBoostMHClassifier(n_estimators=20, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    max_leaf_nodes: int = 15
    min_child_weight: float = 0.0

    def _create_algorithm(self) -> Algorithm:
        return _AdaBoostMH(self.learning_rate, _SMOOTHING, Costs())
