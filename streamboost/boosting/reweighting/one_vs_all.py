"""One-vs-all AdaBoost: a binary booster for each class against all others."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.reweighting.gamble_round import GambleAlgorithm
from streamboost.boosting.reweighting.row_weights import ExponentialState
from streamboost.boosting.reweighting.voting_trees import VotingClassifier, VotingTreeAlgorithm
from streamboost.boosting.training_data import TrainingData
from streamboost.trees.grower import Grower
from streamboost.trees.tree import Tree


@dataclass(slots=True)
class _OneVsAllState:
    """State of K binary problems: each class against all other classes.

    `problems` maps a class index to the state of its booster. `last_classes` has the class of each
    tree of the last round.
    """

    n_classes: int
    problems: dict[int, Any]
    last_classes: list[int] = field(default_factory=list)


@dataclass(eq=False)
class _OneVsAll(Algorithm):
    """Algorithm that grows one binary tree for each class, against all others, in each round.

    In `booster`, the score of the second class is half the log odds.
    """

    family = "one against all"
    link = "sigmoid"

    booster: VotingTreeAlgorithm | GambleAlgorithm

    def base_scores(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return the base scores (K,) of the binary booster."""
        return self.booster.base_scores(data, committee)

    def temperature(self, n_classes: int) -> float:
        """Return the temperature 1/2, as a score is half the log odds."""
        return 0.5

    def initial_state(self, data: TrainingData, scores: np.ndarray) -> _OneVsAllState:
        """Return one binary problem for each class; two classes are one problem."""
        K = len(data.classes)
        problems = {}
        for k in [1] if K == 2 else range(K):  # two classes are one binary problem
            own = replace(data, y=(data.y == k).astype(np.uint32), classes=np.arange(2))
            f = scores[:, [k]] * [-1.0, 1.0]
            problems[k] = self.booster.initial_state(own, f)
        return _OneVsAllState(K, problems)

    def row_weights(self, state: _OneVsAllState) -> np.ndarray | None:
        """Return the row weights summed over the binary problems, float64 (n,).

        The weights of each problem are first divided by their total. Problems whose training has
        ended, or whose rows are of one class, are left out; None if no problem remains.
        """
        total = None
        for problem in state.problems.values():
            if not problem.ended and len(problem.present) == 2:
                weight = self.booster.row_weights(problem)
                share = weight / (weight * problem.n_records).sum()
                total = share if total is None else total + share
        return total

    def grow_round(self, state: _OneVsAllState, grower: Grower) -> list[Tree]:
        """Return one tree of each problem, with values in the column of its class."""
        trees: list[Tree] = []
        state.last_classes = []
        for k, problem in state.problems.items():
            for tree in self.booster.grow_round(problem, grower):
                if state.n_classes > 2:
                    values = np.zeros((tree.n_leaves, state.n_classes), dtype=np.float32)
                    values[:, k] = tree.values[:, 1]
                    tree.values = values
                trees.append(tree)
                state.last_classes.append(k)
        return trees

    def update_state(self, state: _OneVsAllState, trees: Sequence[Tree]) -> None:
        """Add the values of the round's trees to the scores of their problems."""
        for k, tree in zip(state.last_classes, trees, strict=True):
            problem: ExponentialState = state.problems[k]
            f = tree.values[tree.leaf_indices(len(problem.y)), k]
            problem.own_score += np.where(problem.y == 1, f, -f)


@dataclass(kw_only=True, eq=False, repr=False)
class OneVsAllAdaBoostClassifier(VotingClassifier):
    """One-vs-all AdaBoost: a binary booster for each class (Freund and Schapire, 1997).

    A round grows K trees (one tree for two classes), each under its own weights. The predicted
    class has the largest score f_k.

    ``"discrete"``: a tree predicts h = 1 for its class or -1, and adds h ln((1 - err) / err) / 2 to
    the score. A class ends if its tree is no better than chance, even with all rows and features,
    or if its tree makes no error. An error of 0 is replaced by 1e-10. Training ends after all
    classes have ended.

    ``"gentle"`` is Gentle AdaBoost.MH, the baseline of GAMBLE in Huang (2009, section 3.3). A leaf
    adds the difference of the shares of its class and of all others, as in
    `GentleAdaBoostClassifier`. As a tree's values depend only on ratios of weights, AdaBoost.MH
    with a tree per class separates into K independent problems.

    The scores of different classes are independent, so that several classes or no class may have a
    positive score. Saberian and Vasconcelos (2011) compare their algorithm with this one. At the
    least expected loss, the sigmoid of 2 f_k is the probability of class k against all others.
    Class probabilities are these sigmoids, divided by their sum.

    Parameters
    ----------
    variant
        ``"discrete"`` or ``"gentle"``; either may extend the other's committee.
    n_estimators
        Rounds of boosting, K trees each.
    max_leaf_nodes, max_depth
        Limits of a tree, which is grown best-first. None: 15 leaves, any depth. Two leaves and
        ``criterion="error"`` give the stumps of AdaBoost.
    max_features
        Share of the features that are available to a round. None: all features if there are at
        most 20, half of them if there are fewer than 300, else a fifth.
    subsample
        Share of the rows for the search of a round's splits, drawn without replacement. Leaf
        predictions and errors are computed on all rows.
    weight_trimming
        Share of the total weight over all K problems that may be trimmed, in [0, 1): the rows of
        the lowest weight are left out of the split search of a round (Friedman, Hastie and
        Tibshirani, 2000).

    Attributes
    ----------
    committee_
        The trained `Committee`; its scores are f_k, and for two classes -f and f.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import OneVsAllAdaBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OneVsAllAdaBoostClassifier(n_estimators=20, max_leaf_nodes=4, random_state=0)
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    variant: Literal["discrete", "gentle"] = "discrete"

    def _create_algorithm(self) -> Algorithm:
        if self.variant == "gentle":
            return _OneVsAll(GambleAlgorithm(self.learning_rate, "scaled", self.criterion))
        return _OneVsAll(VotingTreeAlgorithm(self.learning_rate, self.criterion))

    def _max_leaf_nodes_for_classes(self, n_classes: int) -> int:
        return self.max_leaf_nodes or 15
