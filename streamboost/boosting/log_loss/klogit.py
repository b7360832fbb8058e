"""K-LogitBoost: boosting without the sum-to-one constraint (Sun, Reid and Zhou, 2014)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.log_loss.parameters import NewtonTreesClassifier
from streamboost.boosting.log_loss.softmax import (
    RowState,
    add_leaf_values,
    leaf_values,
    smoothed_class_shares,
    trees_if_improved,
)
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.training_data import TrainingData
from streamboost.kernels import softmax as kernels
from streamboost.kernels.growing.criteria import NEWTON_SUMS
from streamboost.trees.grower import Grower
from streamboost.trees.histogram_input import vector_histogram_input
from streamboost.trees.tree import Tree

_CLAMP = 2.0  # bound of a Newton step, which overshoots if p is tiny
_TOP = 30.0  # p = exp(F - 1) is at most exp(30)


class _KLogitState(RowState):
    """State of the training rows, with probabilities exp(F - 1) for scores F.

    The probabilities of a row need not sum to 1."""

    def derivatives(self) -> np.ndarray:
        """Return the negative gradients and the Hessians of all classes, float64 (n, 2K).

        Columns 0 to K - 1 are the negative gradients w (r - p), and columns K to 2K - 1 the
        Hessians w p. r is 1 for the class of the row, else 0; w is the row's weight.
        """
        p = self.probabilities.astype(np.float64)
        gradient = -p
        gradient[np.arange(len(p)), self.y] += 1.0
        return np.asarray(np.hstack([gradient, p]) * self.weight[:, None])


@dataclass(eq=False)
class _KLogitBoost(Algorithm):
    """Algorithm of K-LogitBoost: one tree per round, whose leaves have a value for each class."""

    family = "k-logit"  # this loss changes if a constant is added to all scores, unlike softmax
    takes_new_classes = True

    learning_rate: float
    l2_regularization: float

    def base_scores(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return 1 + log of the class shares (K,); classes of `committee` keep their scores."""
        b = 1.0 + np.log(smoothed_class_shares(data))
        known = 0 if committee is None else len(committee.classes)
        return b if committee is None else np.concatenate([committee.base, b[known:]])

    def initial_state(self, data: TrainingData, scores: np.ndarray) -> _KLogitState:
        """Return the state of all rows at `scores` (n, K)."""
        F = scores.astype(np.float32)
        return _KLogitState(
            data.y, data.weight.astype(np.float32), F, _unnormalised_probabilities(F)
        )

    def grow_round(self, state: _KLogitState, grower: Grower) -> list[Tree]:
        """Return one tree, whose leaves have a separate Newton step for each class."""
        tree = grower(vector_histogram_input(NEWTON_SUMS, state.derivatives()))
        values = leaf_values(
            kernels.leaf_steps_independent, state, tree, self.l2_regularization, _CLAMP
        )
        tree.values = (self.learning_rate * values).astype(np.float32)
        return trees_if_improved([tree], grower)

    def update_state(self, state: _KLogitState, trees: Sequence[Tree]) -> None:
        """Add the values of the round's trees to the scores, and update the probabilities."""
        add_leaf_values(state.scores, trees)
        state.probabilities = _unnormalised_probabilities(state.scores)


def _unnormalised_probabilities(scores: np.ndarray) -> np.ndarray:
    return np.exp(np.minimum(scores - np.float32(1.0), np.float32(_TOP)))


@dataclass(kw_only=True, eq=False, repr=False)
class KLogitBoostClassifier(NewtonTreesClassifier):
    """Multi-class LogitBoost without the sum-to-one constraint: one vector tree per round.

    (Sun, Reid and Zhou, 2014, section 6.) With the link p_k = exp(F_k - 1), the loss sum_k p_k -
    F_c of a row of class c has the gradient p - r and the diagonal Hessian p; r_c is 1, and other
    r_k are 0. In each leaf, all K classes are fitted independently by G_k / (sum p_k + λ), with G_k
    the sum of r_k - p_k. A split maximises sum_k G_k^2 / (sum p_k + λ). In the paper, K-LogitBoost
    converges more slowly than AOSO. A histogram has 2K numbers per bin, so that the cost of a tree
    grows with K.

    The p need not sum to one; `predict_proba` gives p / sum p = softmax(F).

    Parameters
    ----------
    min_child_weight
        Least sum of Hessians in a child, over all classes. This is about the number of rows, as the
        p of a row sum to about one.

    Notes
    -----
    The paper starts at F = 0, which is p = exp(-1) for each class. Here F_k starts at 1 plus the
    log share of class k, the constant of least loss. This is 1 - log K if the classes are equal.
    Before the learning rate, steps are clamped to ±2, as the Newton step overshoots if p is tiny.

    If `extend` gets a new class, its initial score is also 1 plus its log share. As the loss is a
    sum over independent classes, this is the best constant for any scores of the other classes.
    Training ends before `n_estimators` rounds if a tree neither splits nor changes the scores.

    References
    ----------
    P. Sun, M. D. Reid and J. Zhou: An improved multiclass LogitBoost using adaptive-one-vs-one.
    Machine Learning 97(3), 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import KLogitBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KLogitBoostClassifier(n_estimators=50).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    n_estimators: int = 200
    min_child_weight: float = 1.0

    def _create_algorithm(self) -> Algorithm:
        return _KLogitBoost(self.learning_rate, self.l2_regularization)
