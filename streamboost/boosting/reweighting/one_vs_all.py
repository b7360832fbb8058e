"""One AdaBoost for each class against all others."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import StrOptions

from streamboost.boosting.committee import Committee
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.reweighting.gamble_round import Gamble
from streamboost.boosting.reweighting.row_weights import ExponentialState
from streamboost.boosting.reweighting.voting_trees import Votes, VotingClassifier
from streamboost.boosting.training_data import TrainingData
from streamboost.trees.grower import Grower
from streamboost.trees.tree import Tree

__all__ = ["OneVsAllAdaBoostClassifier"]


@dataclass(slots=True)
class _State:
    """A two-class problem for each class that is told from the others.

    `grown` names the classes whose trees the last round grew, in order.
    """

    n_classes: int
    problems: dict[int, Any]
    grown: list[int] = field(default_factory=list)


class _OneVsAll(Algorithm):
    """One round: for each class a tree that speaks for it or against it."""

    family = "one against all"
    link = "sigmoid"

    def __init__(self, booster: Votes | Gamble) -> None:
        """`booster` is that of two classes, its score for the second half the log odds."""
        self._booster = booster

    def base(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        return self._booster.base(data, committee)

    def temperature(self, n_classes: int) -> float:
        return 0.5

    def start(self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator) -> _State:
        K = len(data.classes)
        problems = {}
        for k in [1] if K == 2 else range(K):  # two classes are one problem
            own = replace(data, y=(data.y == k).astype(np.uint32), classes=np.arange(2))
            f = scores[:, [k]] * [-1.0, 1.0]
            problems[k] = self._booster.start(own, f, rng)
        return _State(K, problems)

    def influence(self, state: _State) -> np.ndarray | None:
        total = None
        for problem in state.problems.values():
            if not problem.ended and len(problem.present) == 2:
                weight = self._booster.influence(problem)
                share = weight / (weight * problem.given).sum()
                total = share if total is None else total + share
        return total

    def round(self, state: _State, grow: Grower) -> list[Tree]:
        trees: list[Tree] = []
        state.grown = []
        for k, problem in state.problems.items():
            for tree in self._booster.round(problem, grow):
                if state.n_classes > 2:
                    values = np.zeros((tree.n_leaves, state.n_classes), dtype=np.float32)
                    values[:, k] = tree.values[:, 1]
                    tree.values = values
                trees.append(tree)
                state.grown.append(k)
        return trees

    def update(self, state: _State, trees: Sequence[Tree]) -> None:
        for k, tree in zip(state.grown, trees, strict=True):
            problem: ExponentialState = state.problems[k]
            f = tree.values[tree.leaf_of_row(len(problem.y)), k]
            problem.own_score += np.where(problem.y == 1, f, -f)


@dataclass(kw_only=True, eq=False, repr=False)
class OneVsAllAdaBoostClassifier(VotingClassifier):
    """For each class an AdaBoost that tells it from all others (Freund and Schapire, 1997).

    A round grows K trees (one, if there are two classes), each under weights of its own, and the
    class of the largest score f_k is predicted.

    ``"discrete"``: a tree answers h = 1 for its class or -1 and adds h ln((1 - err) / err) / 2 to
    the score. A class whose tree is no better than chance, even with all rows and features offered,
    or whose tree makes no error (its own is then taken for 1e-10), grows no more; the training ends
    when all have ended.

    ``"gentle"`` is Gentle AdaBoost.MH, which Huang (2009, section 3.3) holds GAMBLE, of one tree a
    round, against: a leaf adds the difference of the shares of its class and of all others, as in
    `GentleAdaBoostClassifier`. The K problems of AdaBoost.MH's pairs of rows and classes come apart
    where each class has a tree of its own, as a tree's values depend on ratios of weights alone.

    Nothing ties the scores of different classes together, so the committee may answer yes to
    several classes or to none (Saberian and Vasconcelos, 2011, compare it with their own).
    Probabilities are the sigmoids of 2 f_k, each the chance of class k against all others where
    its expected loss is least, divided by their sum.

    Parameters
    ----------
    variant
        ``"discrete"`` or ``"gentle"``; either may extend the other's committee.
    n_estimators
        Rounds of boosting, K trees each.
    learning_rate
    criterion
    max_leaf_nodes, max_depth
        Where a tree ends; it grows the best leaf first. None: 15 leaves, any depth; 2 and
        ``criterion="error"`` make the stumps of AdaBoost.
    max_bins
    min_child_weight
    max_features
        Share of the features offered in a round. None: all up to 20 features, half of them up to
        300, a fifth beyond.
    subsample
        Share of the rows among which a round's splits are sought, drawn without replacement; what
        the leaves answer, and the errors, are those of all rows.
    weight_trimming
        Share of the total weight over all K problems, its lightest rows, that may be left out of
        the search for a round's splits, in [0, 1); they may return later (Friedman, Hastie and
        Tibshirani, 2000).
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
        The trained `Committee`; its scores are f_k, and for two classes -f and f.
    validation_score_
    feature_importances_
    n_adds_

    Notes
    -----
    `extend` with a class the committee does not know trains anew on the rows it is given, with as
    many rounds in all. A class that these rows do not have keeps its score.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import OneVsAllAdaBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OneVsAllAdaBoostClassifier(n_estimators=20, max_leaf_nodes=4, random_state=0)
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **VotingClassifier._parameter_constraints,
        "variant": [StrOptions({"discrete", "gentle"})],
    }

    variant: Literal["discrete", "gentle"] = "discrete"

    def _algorithm(self) -> Algorithm:
        if self.variant == "gentle":
            return _OneVsAll(Gamble(self.learning_rate, "scaled", self.criterion))
        return _OneVsAll(Votes(self.learning_rate, self.criterion))

    def _leaves(self, n_classes: int) -> int:
        return self.max_leaf_nodes or 15
