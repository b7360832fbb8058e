"""ABC-LogitBoost: boosting with an adaptive base class and K-1 trees per round (Li, 2010)."""

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from streamboost.boosting.log_loss.logit import TreePerClassAlgorithm
from streamboost.boosting.log_loss.parameters import NewtonTreesClassifier
from streamboost.boosting.log_loss.softmax import (
    SoftmaxState,
    add_leaf_values,
    trees_if_improved,
)
from streamboost.boosting.loop import Algorithm
from streamboost.kernels import pairs
from streamboost.kernels import softmax as kernels
from streamboost.trees.grower import Grower
from streamboost.trees.tree import Tree

Base = Literal["worst", "search"]

_TIE = 1e-9  # relative tolerance of ties between losses; the first class wins a tie


@dataclass(eq=False)
class _ABCLogitBoost(TreePerClassAlgorithm):
    """Algorithm of ABC-LogitBoost: each round grows K-1 trees, one per class but the base class."""

    base: Base

    def grow_round(self, state: SoftmaxState, grower: Grower) -> list[Tree]:
        """Return one tree for each class but the base class of the round."""
        K = state.scores.shape[1]
        if self.base == "search":
            # The trees of the pairs (a, b) and (b, a) are equal, so that each is grown once.
            of_pair = {
                pair: self._grow_tree_of_class_pair(state, grower, *pair)
                for pair in combinations(range(K), 2)
            }
            rounds = [[t for pair, t in of_pair.items() if base in pair] for base in range(K)]
            return trees_if_improved(_round_of_least_loss(state, rounds), grower)
        own = state.probabilities[np.arange(len(state.y)), state.y].astype(np.float64)
        loss = -state.weight * np.log(np.maximum(own, 1e-30))
        base = int(np.bincount(state.y, weights=loss, minlength=K).argmax())
        return trees_if_improved(
            [self._grow_tree_of_class_pair(state, grower, k, base) for k in range(K) if k != base],
            grower,
        )

    def _grow_tree_of_class_pair(
        self, state: SoftmaxState, grower: Grower, raised_class: int, lowered_class: int
    ) -> Tree:
        g, h = np.empty((2, len(state.y)), dtype=np.float32)
        sums = pairs.class_pair_gradients(
            state.probabilities,
            state.y,
            state.weight,
            grower.all_rows,
            raised_class,
            lowered_class,
            g,
            h,
        )
        unit = np.eye(state.scores.shape[1])
        return self.grow_tree(
            state, grower, (g, h, *sums), unit[raised_class] - unit[lowered_class]
        )


def _round_of_least_loss(state: SoftmaxState, candidate_rounds: list[list[Tree]]) -> list[Tree]:
    """Return the trees of the candidate round with the lowest training loss.

    Each item of `candidate_rounds` is the list of the trees of one round.
    """
    losses = []
    for trees in candidate_rounds:
        scores = state.scores.copy()
        add_leaf_values(scores, trees)
        losses.append(kernels.log_loss(scores, state.y, state.weight))
    least = min(losses) * (1.0 + _TIE)
    return next(
        trees for trees, loss in zip(candidate_rounds, losses, strict=True) if loss <= least
    )


@dataclass(kw_only=True, eq=False, repr=False)
class ABCLogitBoostClassifier(NewtonTreesClassifier):
    """Multi-class LogitBoost with an adaptive base class: K-1 trees per round (Li, 2010).

    The scores sum to zero, so that the scores of K-1 classes determine the score of the base class
    b. Let p = softmax(F) be the probabilities, and r_k 1 for rows of class k, else 0. Tree k
    changes F_k and F_b in opposite directions, with negative gradient (r_k - p_k) - (r_b - p_b) and
    Hessian (p_k + p_b) - (p_k - p_b)^2 (Sun, Reid and Zhou, 2014, section 3.2). The trees of a
    round are independent, and each changes the base class. If K is large, the sum of these K-1
    steps may be far longer than a Newton step.

    Parameters
    ----------
    n_estimators
        Rounds of boosting, K-1 trees each.
    base
        Base class of a round. ``"worst"``: the class of the largest training loss before the round.
        ``"search"``: of all K classes, the class with the lowest training loss after the round. As
        the trees k against b and b against k are equal, K (K-1) / 2 trees are grown per round. They
        take 4 bytes per row and tree until the best class is known.
    min_child_weight
        Least sum of Hessians (of the tree's pair) in a child.
    max_features
        Share of the features that are available to a round. None: all features if there are at
        most 20, half of them if there are fewer than 300, else a fifth.
    subsample
        Share of the rows that a round is grown on, drawn without replacement.

    Notes
    -----
    Training ends before `n_estimators` rounds if no tree of a round can split and none changes the
    scores.

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

    base: Base = "worst"

    def _create_algorithm(self) -> Algorithm:
        return _ABCLogitBoost(self.learning_rate, self.l2_regularization, self.base)
