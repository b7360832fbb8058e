"""Trees that vote: AdaBoost for two classes, SAMME and AdaBoost.M1 for several."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from streamboost.boosting.committee import Committee
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.reweighting.parameters import ClassWeightClassifier
from streamboost.boosting.reweighting.row_weights import (
    CRITERIA,
    Criterion,
    ExponentialState,
    class_mass,
)
from streamboost.boosting.training_data import TrainingData
from streamboost.trees.grower import Grower
from streamboost.trees.tree import Tree

__all__ = ["VoteState", "Votes", "VotingClassifier"]

_PERFECT = 1e-10  # an error under this counts as this: a vote stays finite, and boosting ends
_LEVEL = 1e-6  # by how much to beat chance: a tree grown twice is level but for its vote's float32


@dataclass(slots=True)
class VoteState(ExponentialState):
    """Class weights of trees that vote, under two distributions.

    Parameters
    ----------
    log_shape
        Logarithm of the distribution the trees are grown under, float64 (n,), as it was before
        any vote; None: all records alike.
    log_cost
        Likewise the distribution under which a tree's errors are counted.
    unused
        Whether no tree has voted yet.
    """

    log_shape: np.ndarray | None = None
    log_cost: np.ndarray | None = None
    unused: bool = True

    def wrong(self, answers: np.ndarray) -> float:
        """Return the share of the cost that falls on rows answered (n,) wrongly."""
        cost = self.weight(self.log_cost) * self.given
        total = float(cost.sum())
        return float(cost[answers != self.y].sum()) / total if total > 0 else 1.0


class Votes(Algorithm):
    """One round: a tree that answers each leaf's heaviest class, and its vote.

    The vote is ln((1 - err) / err), for SAMME plus ln(K - 1). With two classes SAMME's and
    AdaBoost.M1's are the same, and scores are AdaBoost's f for the second class and -f for the
    first. The scores are the votes less their mean, so classes without rows stay where they are.
    """

    family = "votes"

    def __init__(
        self, learning_rate: float, criterion: Criterion = "gini", *, beats_guessing: bool = True
    ) -> None:
        """`beats_guessing`: whether beating a guess among the classes (SAMME) is enough."""
        self._learning_rate = learning_rate
        self._kind = CRITERIA[criterion]
        self._beats_guessing = beats_guessing

    def base(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return zeros: nobody has voted."""
        return data.votes_before() if committee is None else committee.base

    def temperature(self, n_classes: int) -> float:
        """Return 1: the votes are log shares as they stand."""
        return 1.0

    def start(self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator) -> VoteState:
        """Return the weights that belong to `scores`."""
        own = scores[np.arange(len(data.y)), data.y]
        return VoteState(data.y, data.weight, own, len(data.classes), unused=not bool(own.any()))

    def influence(self, state: VoteState) -> np.ndarray:
        """Return the weights that shape the tree."""
        return state.weight(state.log_shape)

    def round(self, state: VoteState, grow: Grower) -> list[Tree]:
        """Grow a tree and count its errors; none once no tree beats chance."""
        n_present = len(state.present)
        if state.ended or n_present < 2:
            return []
        guess = 1.0 - 1.0 / n_present
        chance = guess if self._beats_guessing else 0.5
        tree, answer, wrong = self._grow(state, grow, state.log_shape)
        if wrong >= chance - _LEVEL:
            # Once more with all there is to choose from, and by the weights that judge it.
            with grow.everything():
                tree, answer, wrong = self._grow(state, grow, state.log_cost)
        if wrong < chance - _LEVEL:
            error = max(wrong, _PERFECT)
            vote = self._learning_rate * np.log((1 - error) / error * chance / (1 - chance))
            state.ended = wrong <= _PERFECT
        elif state.unused and wrong < guess - _LEVEL:
            vote, state.ended = 1.0, True  # a committee of this tree alone
        else:
            return []
        values = np.zeros((tree.n_leaves, state.n_classes))
        values[:, state.present] = -vote / n_present
        values[np.arange(tree.n_leaves), answer] += vote
        tree.values = values.astype(np.float32)
        return [tree]

    def _grow(
        self, state: VoteState, grow: Grower, log_initial: np.ndarray | None
    ) -> tuple[Tree, np.ndarray, float]:
        """Return a tree, the class each of its leaves answers, and its error."""
        statistic = state.statistic(state.weight(log_initial), self._kind)
        tree = grow(statistic)
        leaf = tree.leaf_of_row(len(state.y))
        shape = tree.n_leaves, state.n_classes
        answer = class_mass(leaf, state.y, statistic.values, shape).argmax(axis=1)
        return tree, answer, state.wrong(answer[leaf])

    def update(self, state: VoteState, trees: Sequence[Tree]) -> None:
        """Let the weights follow the vote."""
        state.unused = False
        for tree in trees:
            state.follow(tree, 1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class VotingClassifier(ClassWeightClassifier):
    """Base of the estimators whose trees vote.

    Parameters
    ----------
    learning_rate
        Scales every vote or leaf value, in (0, 1].
    criterion
        What a split makes least: the weighted ``"gini"`` impurity or ``"entropy"``, or ``"error"``,
        the weighted error itself, which suits stumps but finds nothing where both sides answer
        alike.
    min_child_weight
        Least weight in a child, the mean record weighing 1; not for ``"error"``.
    subsample
        Share of the rows among which a tree's splits are sought, drawn without replacement; what
        its leaves answer, and its error, are those of all rows.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClassWeightClassifier._parameter_constraints,
        "criterion": [StrOptions(set(CRITERIA))],
    }

    criterion: Criterion = "gini"
