"""Voting trees: the algorithm of SAMME, AdaBoost.M1 and other variants of AdaBoost."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.reweighting.parameters import ClassWeightClassifier
from streamboost.boosting.reweighting.row_weights import (
    CRITERIA,
    Criterion,
    ExponentialState,
    class_weights_of_leaves,
)
from streamboost.boosting.training_data import TrainingData
from streamboost.trees.grower import Grower
from streamboost.trees.tree import Tree

_PERFECT = 1e-10  # least error, which bounds a vote; training ends at this error
_LEVEL = 1e-6  # margin over chance, as a tree grown twice equals chance up to float32 rounding


@dataclass(slots=True)
class VoteState(ExponentialState):
    """Training rows of voting trees, with weights for growing trees and for their error rates.

    Parameters
    ----------
    log_growing_weights
        Logarithm of the initial distribution for growing trees, float64 (n,); None: uniform.
    log_error_weights
        Logarithm of the initial distribution for counting errors, float64 (n,); None: uniform.
    is_before_first_tree
        True until the first tree has voted.
    """

    log_growing_weights: np.ndarray | None = None
    log_error_weights: np.ndarray | None = None
    is_before_first_tree: bool = True

    def error_rate(self, predictions: np.ndarray) -> float:
        """Return the share of the total weight on rows whose prediction is wrong.

        `predictions` (n,) are class indices.
        """
        cost = self.record_weights(self.log_error_weights) * self.n_records
        total = float(cost.sum())
        return float(cost[predictions != self.y].sum()) / total if total > 0 else 1.0


@dataclass(eq=False)
class VotingTreeAlgorithm(Algorithm):
    """Algorithm of AdaBoost: trees whose leaves vote for the class of the largest weight.

    The vote is ln((1 - err) / err), plus ln(K - 1) if `is_samme`. A tree must have an error rate
    below 1 - 1/K for SAMME, and below 1/2 for AdaBoost.M1. With two classes, SAMME and AdaBoost.M1
    are equal, and the scores are AdaBoost's f for the second class and -f for the first. The scores
    are the votes less their mean, so that classes without rows keep their scores.
    """

    family = "votes"

    learning_rate: float
    criterion: Criterion
    is_samme: bool = True

    def base_scores(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return the initial scores (K,), or the base scores of the committee."""
        return data.initial_voting_scores() if committee is None else committee.base

    def initial_state(self, data: TrainingData, scores: np.ndarray) -> VoteState:
        """Create the state of the training rows from their `scores` (n, K)."""
        own = scores[np.arange(len(data.y)), data.y]
        return VoteState(
            data.y, data.weight, own, len(data.classes), is_before_first_tree=not bool(own.any())
        )

    def row_weights(self, state: VoteState) -> np.ndarray:
        """Return the weight of one record of each row for growing a tree, float64 (n,)."""
        return state.record_weights(state.log_growing_weights)

    def grow_round(self, state: VoteState, grower: Grower) -> list[Tree]:
        """Return a list of one tree with its vote, or an empty list if no tree beats chance."""
        n_present = len(state.present)
        if state.ended or n_present < 2:
            return []
        guess = 1.0 - 1.0 / n_present
        chance = guess if self.is_samme else 0.5
        tree, answer, wrong = self._grow_tree_with_error_rate(
            state, grower, state.log_growing_weights
        )
        if wrong >= chance - _LEVEL:
            # Grow again with all rows and features, under the weights for counting errors.
            with grower.use_all_rows_and_features():
                tree, answer, wrong = self._grow_tree_with_error_rate(
                    state, grower, state.log_error_weights
                )
        if wrong < chance - _LEVEL:
            error = max(wrong, _PERFECT)
            vote = self.learning_rate * np.log((1 - error) / error * chance / (1 - chance))
            state.ended = wrong <= _PERFECT
        elif state.is_before_first_tree and wrong < guess - _LEVEL:
            vote, state.ended = 1.0, True  # a committee of this tree alone
        else:
            return []
        values = np.zeros((tree.n_leaves, state.n_classes))
        values[:, state.present] = -vote / n_present
        values[np.arange(tree.n_leaves), answer] += vote
        tree.values = values.astype(np.float32)
        return [tree]

    def _grow_tree_with_error_rate(
        self, state: VoteState, grower: Grower, log_initial_weights: np.ndarray | None
    ) -> tuple[Tree, np.ndarray, float]:
        """Return a grown tree, the class that each leaf predicts, and the tree's error rate."""
        histogram_input = state.tree_histogram_input(
            state.record_weights(log_initial_weights), CRITERIA[self.criterion]
        )
        tree = grower(histogram_input)
        leaf = tree.leaf_indices(len(state.y))
        shape = tree.n_leaves, state.n_classes
        answer = class_weights_of_leaves(leaf, state.y, histogram_input.values, shape).argmax(
            axis=1
        )
        return tree, answer, state.error_rate(answer[leaf])

    def update_state(self, state: VoteState, trees: Sequence[Tree]) -> None:
        """Add the votes of the trees to the scores of all rows."""
        state.is_before_first_tree = False
        for tree in trees:
            state.add_tree(tree, 1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class VotingClassifier(ClassWeightClassifier):
    """Base class of the estimators with voting trees.

    Parameters
    ----------
    learning_rate
        Learning rate: factor of each vote or leaf value, in (0, 1].
    criterion
        Split criterion: the weighted ``"gini"`` impurity or ``"entropy"``, or ``"error"``, the
        weighted error. ``"error"`` is for stumps, and finds no split if both sides predict the same
        class.
    min_child_weight
        Least weight in a child, at a mean record weight of 1; not for ``"error"``.
    subsample
        Share of the rows for the search of a tree's splits, drawn without replacement. Leaf
        predictions and errors are computed on all rows.
    """

    criterion: Criterion = "gini"
