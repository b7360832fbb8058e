"""GAMBLE algorithm: a weighted tree per round, and the update of the weights (Huang, 2009)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.reweighting.gamble_step import LEAST_WEIGHT, Step, leaf_step
from streamboost.boosting.reweighting.row_weights import (
    CRITERIA,
    Criterion,
    ExponentialState,
    class_weights_of_leaves,
)
from streamboost.boosting.training_data import TrainingData
from streamboost.trees.grower import Grower
from streamboost.trees.tree import Tree


@dataclass(eq=False)
class GambleAlgorithm(Algorithm):
    """Algorithm of GAMBLE (Gentle Adaptive Multiclass Boosting Learning; Huang, 2009).

    Each round grows one weighted tree for the multi-class exponential loss.

    Classes without rows keep their scores, and have no effect on the other classes.

    With more than two classes, the weight of a record is at least `weight_floor` times the largest
    weight. Otherwise the weight concentrates on a few records that no split can separate, and trees
    grown on these records worsen the predictions of all other records. The reason is that the loss
    of a record falls as the score of its class rises, even if a wrong class has a larger score.
    """

    family = "gamble"

    learning_rate: float
    step: Step | None
    criterion: Criterion = "gini"
    weight_floor: float = LEAST_WEIGHT

    def base_scores(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return the initial class scores (K,), or the base scores of the committee."""
        return data.initial_voting_scores() if committee is None else committee.base

    def temperature(self, n_classes: int) -> float:
        """Return the temperature K - 1: the class probabilities are softmax(scores / (K - 1))."""
        return float(max(n_classes - 1, 1))

    def initial_state(self, data: TrainingData, scores: np.ndarray) -> ExponentialState:
        """Create the state of the training rows from their `scores` (n, K)."""
        K = len(data.classes)
        own = scores[np.arange(len(data.y)), data.y] / self.temperature(K)
        return ExponentialState(data.y, data.weight, own, K)

    def row_weights(self, state: ExponentialState) -> np.ndarray:
        """Return the weight of one record of each row, float64 (n,)."""
        weight = state.record_weights()
        return np.maximum(weight, self.weight_floor) if len(state.present) > 2 else weight

    def grow_round(self, state: ExponentialState, grower: Grower) -> list[Tree]:
        """Grow the tree of a round; return an empty list if all rows have one class."""
        K, present = state.n_classes, state.present
        if len(present) < 2:
            return []
        histogram_input = state.tree_histogram_input(
            self.row_weights(state), CRITERIA[self.criterion]
        )
        tree = grower(histogram_input)
        leaf = tree.leaf_indices(len(state.y))
        mass = class_weights_of_leaves(leaf, state.y, histogram_input.values, (tree.n_leaves, K))[
            :, present
        ]
        records = np.bincount(leaf, weights=state.n_records, minlength=tree.n_leaves)
        # The step is that of a problem with only the present classes, in this committee's units.
        unit = self.learning_rate * self.temperature(K) / (len(present) - 1)
        tree.values = np.zeros((tree.n_leaves, K), dtype=np.float32)
        tree.values[:, present] = unit * leaf_step(mass, records, self.step)
        return [tree]

    def update_state(self, state: ExponentialState, trees: Sequence[Tree]) -> None:
        """Add the leaf values of the trees to the scores of all rows."""
        for tree in trees:
            state.add_tree(tree, self.temperature(state.n_classes))
