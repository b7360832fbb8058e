"""One AdaBoost for each class against all others."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.reweighting.row_weights import Criterion
from streamboost.boosting.reweighting.voting_trees import Votes, VoteState, VotingClassifier
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
    problems: dict[int, VoteState]
    grown: list[int] = field(default_factory=list)


class _OneVsAll(Algorithm):
    """One round: for each class a tree that votes for it or against it."""

    family = "one against all"
    link = "sigmoid"

    def __init__(self, learning_rate: float, criterion: Criterion) -> None:
        self._votes = Votes(learning_rate, criterion)

    def base(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        return self._votes.base(data, committee)

    def temperature(self, n_classes: int) -> float:
        return 0.5  # AdaBoost's f is half the log odds

    def start(self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator) -> _State:
        K = len(data.classes)
        problems = {}
        for k in [1] if K == 2 else range(K):  # two classes are one problem
            own = (data.y == k).astype(np.uint32)
            f = np.where(own == 1, scores[:, k], -scores[:, k])
            problems[k] = VoteState(own, data.weight, f, 2)
        return _State(K, problems)

    def influence(self, state: _State) -> np.ndarray | None:
        total = None
        for problem in state.problems.values():
            if not problem.ended and len(problem.present) == 2:
                weight = self._votes.influence(problem)
                share = weight / (weight * problem.given).sum()
                total = share if total is None else total + share
        return total

    def round(self, state: _State, grow: Grower) -> list[Tree]:
        trees: list[Tree] = []
        state.grown = []
        for k, problem in state.problems.items():
            for tree in self._votes.round(problem, grow):
                if state.n_classes > 2:
                    values = np.zeros((tree.n_leaves, state.n_classes), dtype=np.float32)
                    values[:, k] = tree.values[:, 1]
                    tree.values = values
                trees.append(tree)
                state.grown.append(k)
        return trees

    def update(self, state: _State, trees: Sequence[Tree]) -> None:
        for k, tree in zip(state.grown, trees, strict=True):
            problem = state.problems[k]
            f = tree.values[tree.leaf_of_row(len(problem.y)), k]
            problem.own_score += np.where(problem.y == 1, f, -f)


class OneVsAllAdaBoostClassifier(VotingClassifier):
    """For each class an AdaBoost that tells it from all others (Freund and Schapire, 1997).

    A round grows K trees (one, if there are two classes). Each answers h = 1 for its class or -1
    under weights of its own and adds h ln((1 - err) / err) / 2 to the score f_k of its class; the
    class of the largest score is predicted. A class whose tree is no better than chance, even with
    all rows and features offered, or whose tree makes no error (its own is then taken for 1e-10),
    grows no more; the training ends when all have ended.

    Nothing ties the scores of different classes together, so the committee may answer yes to
    several classes or to none (Saberian and Vasconcelos, 2011, compare it with their own).
    Probabilities are the sigmoids of 2 f_k, each the chance of class k against all others where
    its expected loss is least, divided by their sum.

    Parameters
    ----------
    n_estimators
        Rounds of boosting, K trees each.
    learning_rate
        Scales every vote, in (0, 1].
    criterion
        What a split makes least: ``"gini"``, the weighted impurity, or ``"error"``, the weighted
        error itself, which suits stumps but finds nothing where both sides answer alike.
    max_leaf_nodes, max_depth
        Where a tree ends; it grows the best leaf first. None: 15 leaves, any depth; 2 and
        ``criterion="error"`` make the stumps of AdaBoost.
    max_bins
        Bins per feature, at most 255, missing values aside.
    min_child_weight
        Least weight in a child, the mean record weighing 1; only for ``"gini"``.
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
        ``"quick"``: QuickBoost's pruning, the same trees with fewer additions; see
        `GambleClassifier`. Not with categories.
    categorical_features
        Which columns hold categories: ``"from_dtype"``, those of a frame whose type says so; a
        mask (D,), indices, or column names; None: none does. See
        `streamboost.boosting.categorical`.
    class_weight
        What the rows of a class count as: a dictionary, where the others weigh 1; ``"balanced"``,
        and all classes weigh alike; or None.
    early_stopping, validation_fraction, n_iter_no_change, tol
        Whether rows held out tell how many rounds to keep, and when; see
        `streamboost.boosting.early_stopping`.
    random_state
        Seed, generator or None.
    n_jobs
        Threads that score rows; training uses one. The results do not depend on it.

    Attributes
    ----------
    classes_
        Class labels (K,).
    n_features_in_
        D, as in `fit`.
    committee_
        The trained `Committee`; its scores are f_k, and for two classes -f and f.
    validation_score_
        Minus the loss of the rows held out, before the first round and after each; else empty.
    feature_importances_
        What the splits on each feature gained, as shares of all gain, float64 (D,).
    n_adds_
        Additions to histograms, one per row and feature counted, in the last `fit` or `extend`.

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

    def _algorithm(self) -> Algorithm:
        return _OneVsAll(self.learning_rate, self.criterion)

    def _leaves(self, n_classes: int) -> int:
        return self.max_leaf_nodes or 15
