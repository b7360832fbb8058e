"""ABC-LogitBoost: an adaptive base class, and a tree for each other class (Li, 2010)."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import StrOptions

from streamboost.boosting.log_loss.logit import TreePerClass
from streamboost.boosting.log_loss.parameters import NewtonTreesClassifier
from streamboost.boosting.log_loss.softmax import SoftmaxState, add_leaves, or_end
from streamboost.boosting.loop import Algorithm
from streamboost.kernels import pairs
from streamboost.kernels import softmax as kernels
from streamboost.trees.grower import Grower
from streamboost.trees.tree import Tree

__all__ = ["ABCLogitBoostClassifier"]

Base = Literal["worst", "search"]

_TIE = 1e-9  # equal losses differ in their last digits: a later class must be better by more


class _ABCLogitBoost(TreePerClass):
    """One round: K-1 trees, each of a class against the base class."""

    def __init__(self, learning_rate: float, l2_regularization: float, base: Base) -> None:
        super().__init__(learning_rate, l2_regularization)
        self._base = base

    def round(self, state: SoftmaxState, grow: Grower) -> list[Tree]:
        K = state.scores.shape[1]
        if self._base == "search":
            # The tree of the pair (a, b) is that of (b, a), whichever is the base class.
            of_pair = {
                pair: self._against(state, grow, *pair) for pair in combinations(range(K), 2)
            }
            rounds = [[t for pair, t in of_pair.items() if base in pair] for base in range(K)]
            return or_end(_of_least_loss(state, rounds), grow)
        own = state.probabilities[np.arange(len(state.y)), state.y].astype(np.float64)
        loss = -state.weight * np.log(np.maximum(own, 1e-30))
        base = int(np.bincount(state.y, weights=loss, minlength=K).argmax())
        return or_end([self._against(state, grow, k, base) for k in range(K) if k != base], grow)

    def _against(self, state: SoftmaxState, grow: Grower, a: int, b: int) -> Tree:
        g, h = np.empty((2, len(state.y)), dtype=np.float32)
        sums = pairs.pair_gradients(
            state.probabilities, state.y, state.weight, grow.all_rows, a, b, g, h
        )
        unit = np.eye(state.scores.shape[1])
        return self.tree(state, grow, (g, h, *sums), unit[a] - unit[b])


def _of_least_loss(state: SoftmaxState, rounds: list[list[Tree]]) -> list[Tree]:
    """Return the trees that leave the lowest training loss; of equal ones the first."""
    losses = []
    for trees in rounds:
        scores = state.scores.copy()
        add_leaves(scores, trees)
        losses.append(kernels.log_loss(scores, state.y, state.weight))
    least = min(losses) * (1.0 + _TIE)
    return next(trees for trees, loss in zip(rounds, losses, strict=True) if loss <= least)


@dataclass(kw_only=True, eq=False, repr=False)
class ABCLogitBoostClassifier(NewtonTreesClassifier):
    """Multi-class LogitBoost with an adaptive base class: K-1 trees a round (Li, 2010).

    The scores sum to zero, so that those of K-1 classes settle that of the base class b. Tree k
    moves F_k and F_b in opposite ways: negative gradient (r_k - p_k) - (r_b - p_b), Hessian
    (p_k + p_b) - (p_k - p_b)^2 (Sun, Reid and Zhou, 2014, section 3.2). Probabilities are
    softmax(F). The trees of a round do not know of each other, and all move the base class: its
    step is the sum of K-1 and may be far longer than a Newton step where K is large.

    Parameters
    ----------
    n_estimators
        Rounds of boosting, K-1 trees each.
    learning_rate
    base
        The base class of a round. ``"worst"``: that with the largest training loss, before the
        round. ``"search"``: all K are tried, and the one with the lowest training loss after the
        round is kept. As trees k against b and b against k are the same, that grows K (K-1) / 2
        trees a round, and holds them, 4 bytes per row and tree, until the best is known.
    max_leaf_nodes, max_depth
    max_bins
    min_child_weight
        Least sum of Hessians (of the tree's pair) in a child.
    l2_regularization
    max_features
        Share of the features offered to a round. None: all up to 20 features, half of them up to
        300, a fifth beyond.
    subsample
        Share of the rows a round is grown on, drawn without replacement.
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
    Training ends before `n_estimators` rounds when no tree of a round can split and none moves the
    scores. `extend` with a class the committee does not know gives it first scores near the log
    odds of its share; absent classes stay.

    References
    ----------
    P. Li: Robust LogitBoost and adaptive base class (ABC) LogitBoost. Uncertainty in Artificial
    Intelligence, 2010.
    P. Sun, M. D. Reid and J. Zhou: An improved multiclass LogitBoost using adaptive-one-vs-one.
    Machine Learning 97(3), 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import ABCLogitBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ABCLogitBoostClassifier(n_estimators=20, base="search").fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NewtonTreesClassifier._parameter_constraints,
        "base": [StrOptions({"worst", "search"})],
    }

    base: Base = "worst"

    def _algorithm(self) -> Algorithm:
        return _ABCLogitBoost(self.learning_rate, self.l2_regularization, self.base)
