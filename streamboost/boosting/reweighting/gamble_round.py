"""GAMBLE's round: a weighted tree, and what its leaves do to the weights (Huang, 2009)."""

from collections.abc import Sequence

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.reweighting.gamble_step import LEAST_WEIGHT, Step, leaf_step
from streamboost.boosting.reweighting.row_weights import (
    CRITERIA,
    Criterion,
    ExponentialState,
    class_mass,
)
from streamboost.boosting.training_data import TrainingData
from streamboost.trees.grower import Grower
from streamboost.trees.tree import Tree

__all__ = ["Gamble"]


class Gamble(Algorithm):
    """One round: a weighted Gini tree, its leaves a step of the exponential loss.

    Classes without rows are left alone: the others are boosted as if there were no more.

    With more than two classes no record weighs less than `floor` of the heaviest. Wherever
    one class is missing, the loss falls towards zero as the scores of all others rise, whether the
    right one among them leads or not. The weight would gather on the few records near which every
    class is met and no split can part them, and the trees grown for these would undo what is known
    of all others.
    """

    family = "gamble"

    def __init__(
        self,
        learning_rate: float,
        step: Step | None,
        criterion: Criterion = "gini",
        floor: float = LEAST_WEIGHT,
    ) -> None:
        self._learning_rate = learning_rate
        self._step = step
        self._kind = CRITERIA[criterion]
        self._floor = floor

    def base(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return zeros: the weights begin as they are given."""
        return data.votes_before() if committee is None else committee.base

    def temperature(self, n_classes: int) -> float:
        """Return K - 1."""
        return float(max(n_classes - 1, 1))

    def start(
        self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator
    ) -> ExponentialState:
        """Return the weights that belong to `scores`."""
        K = len(data.classes)
        own = scores[np.arange(len(data.y)), data.y] / self.temperature(K)
        return ExponentialState(data.y, data.weight, own, K)

    def influence(self, state: ExponentialState) -> np.ndarray:
        """Return the weights."""
        weight = state.weight()
        return np.maximum(weight, self._floor) if len(state.present) > 2 else weight

    def round(self, state: ExponentialState, grow: Grower) -> list[Tree]:
        """Grow a tree; none where there is one class."""
        K, present = state.n_classes, state.present
        if len(present) < 2:
            return []
        statistic = state.statistic(self.influence(state), self._kind)
        tree = grow(statistic)
        leaf = tree.leaf_of_row(len(state.y))
        mass = class_mass(leaf, state.y, statistic.values, (tree.n_leaves, K))[:, present]
        records = np.bincount(leaf, weights=state.given, minlength=tree.n_leaves)
        # The step of a problem with the classes at hand, in this committee's units.
        unit = self._learning_rate * self.temperature(K) / (len(present) - 1)
        tree.values = np.zeros((tree.n_leaves, K), dtype=np.float32)
        tree.values[:, present] = unit * leaf_step(mass, records, self._step)
        return [tree]

    def update(self, state: ExponentialState, trees: Sequence[Tree]) -> None:
        """Let the weights follow the tree."""
        for tree in trees:
            state.follow(tree, self.temperature(state.n_classes))
