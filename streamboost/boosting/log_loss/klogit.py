"""K-LogitBoost: the log loss without its sum-to-one constraint (Sun, Reid and Zhou, 2014)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.log_loss.parameters import NewtonTreesClassifier
from streamboost.boosting.log_loss.softmax import (
    RowState,
    add_leaves,
    class_shares,
    leaf_values,
    or_end,
)
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.training_data import TrainingData
from streamboost.kernels import softmax as kernels
from streamboost.kernels.growing.criteria import NEWTON_SUMS
from streamboost.trees.grower import Grower
from streamboost.trees.statistics import vector_statistic
from streamboost.trees.tree import Tree

__all__ = ["KLogitBoostClassifier"]

_CLAMP = 2.0  # where p is tiny the Newton step upwards overshoots without bound
_TOP = 30.0  # p = exp(F - 1) is held below exp(30)


class _State(RowState):
    """Rows whose p = exp(F - 1) need not sum to one."""

    def derivatives(self) -> np.ndarray:
        """Return K negative gradients r - p and K Hessians p, weighted, float64 (n, 2K)."""
        p = self.probabilities.astype(np.float64)
        gradient = -p
        gradient[np.arange(len(p)), self.y] += 1.0
        return np.asarray(np.hstack([gradient, p]) * self.weight[:, None])


class _KLogitBoost(Algorithm):
    """One round: one vector tree, each class by itself in split and leaf."""

    family = "k-logit"  # others move scores by constants, which this loss does see
    takes_new_classes = True

    def __init__(self, learning_rate: float, l2_regularization: float) -> None:
        self._learning_rate = learning_rate
        self._l2 = l2_regularization

    def base(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        b = 1.0 + np.log(class_shares(data))
        known = 0 if committee is None else len(committee.classes)
        return b if committee is None else np.concatenate([committee.base, b[known:]])

    def temperature(self, n_classes: int) -> float:
        return 1.0

    def start(self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator) -> _State:
        F = scores.astype(np.float32)
        return _State(data.y, data.weight.astype(np.float32), F, _unnormalised(F))

    def round(self, state: _State, grow: Grower) -> list[Tree]:
        tree = grow(vector_statistic(NEWTON_SUMS, state.derivatives()))
        values = leaf_values(kernels.leaf_separate, state, tree, self._l2, _CLAMP)
        tree.values = (self._learning_rate * values).astype(np.float32)
        return or_end([tree], grow)

    def update(self, state: _State, trees: Sequence[Tree]) -> None:
        add_leaves(state.scores, trees)
        state.probabilities = _unnormalised(state.scores)


def _unnormalised(scores: np.ndarray) -> np.ndarray:
    return np.exp(np.minimum(scores - np.float32(1.0), np.float32(_TOP)))


@dataclass(kw_only=True, eq=False, repr=False)
class KLogitBoostClassifier(NewtonTreesClassifier):
    """Multi-class LogitBoost without the sum-to-one constraint: one vector tree a round.

    (Sun, Reid and Zhou, 2014, section 6.) With the link p_k = exp(F_k - 1), the loss
    sum_k p_k - F_c has the gradient p - r and the diagonal Hessian p: all K classes are fitted in
    each leaf, every one by itself, G_k / (sum p_k + λ), and a split maximises
    sum_k G_k^2 / (sum p_k + λ). The paper finds that it converges more slowly than AOSO; and its
    histogram holds 2K numbers per bin, so that a tree costs some K times as much to grow.

    The p need not sum to one; `predict_proba` gives p / sum p = softmax(F).

    Parameters
    ----------
    n_estimators
    learning_rate
    max_leaf_nodes, max_depth
    max_bins
    min_child_weight
        Least sum of Hessians in a child, over all classes: about its number of rows, as each row's
        p sum to about one.
    l2_regularization
    max_features
    subsample
    pruning
    categorical_features
    class_weight
    early_stopping, validation_fraction, n_iter_no_change, tol
    random_state
    n_jobs

    Attributes
    ----------
    classes_
    n_features_in_
    committee_
    validation_score_
    feature_importances_

    Notes
    -----
    The paper starts at F = 0, which says p = exp(-1) for every class. Here F_k starts at 1 plus the
    log share of class k, the constant of least loss: 1 - log K where the classes are equal. Steps
    are clamped to ±2 before the rate, because where p is tiny the Newton step overshoots.

    `extend` gives a class that the committee does not know the score 1 plus its log share too. The
    loss is a sum over the classes, each with its own score, so that this is the best constant
    whatever the others have learned; absent classes stay. Training ends before `n_estimators`
    rounds when a tree neither splits nor moves the scores.

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

    def _algorithm(self) -> Algorithm:
        return _KLogitBoost(self.learning_rate, self.l2_regularization)
