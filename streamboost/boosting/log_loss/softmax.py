"""Multi-class log loss: the row state, base scores and base class of its algorithms."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.training_data import TrainingData
from streamboost.kernels import softmax as kernels
from streamboost.trees.grower import Grower
from streamboost.trees.tree import Tree

CLAMP = 4.0
"""Bound of a Newton step, which is unreliable on a nearly pure leaf."""

_FRACTION = 2.0**20  # score fractions are rounded to 1/_FRACTION, so that float64 sums are exact

_STILL = 1e-4  # least change of a score by a tree without a split; otherwise the training ends


@dataclass(slots=True)
class RowState:
    """Training rows with their class scores and class probabilities, float32 (n, K) each."""

    y: np.ndarray
    weight: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray


@dataclass(slots=True)
class SoftmaxState(RowState):
    """Training rows whose probabilities are the softmax of their scores."""

    rounds: int = 0


@dataclass(eq=False)
class SoftmaxAlgorithm(Algorithm):
    """Base class of the boosting algorithms that minimise the log loss of a softmax."""

    family = "softmax"
    takes_new_classes = True

    learning_rate: float
    l2_regularization: float

    def base_scores(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return the base scores, float64 (K,): log class shares less their mean.

        If `committee` is extended, its classes keep their base scores. The base score of a new
        class is the log odds of its share against the known classes, plus the mean log-sum-exp of
        the committee's scores on these rows. Hence the mean probability of the class is near its
        share.
        """
        share = smoothed_class_shares(data)
        if committee is None:
            b = np.log(share)
            return np.asarray(b - b.mean())
        known = len(committee.classes)
        if known == len(share):
            return committee.base
        F = committee.class_scores(data.X)
        top = F.max(axis=1)
        level = _mean_over_shards(data, top + np.log(np.exp(F - top[:, None]).sum(axis=1)))
        new = level + np.log(share[known:] / share[:known].sum())
        return np.concatenate([committee.base, new])

    def initial_state(self, data: TrainingData, scores: np.ndarray) -> SoftmaxState:
        """Create the state of the training rows from their `scores` (n, K)."""
        F = scores.astype(np.float32)
        P = np.empty_like(F)
        kernels.softmax(F, P)
        return SoftmaxState(data.y, data.weight.astype(np.float32), F, P)

    def update_state(self, state: SoftmaxState, trees: Sequence[Tree]) -> None:
        """Add the leaf values of a round's trees to the scores, and update the probabilities."""
        state.rounds += 1
        args = state.scores, state.probabilities
        if len(trees) == 1:
            (tree,) = trees
            ends = np.stack([tree.start, tree.stop, tree.unsampled_start, tree.unsampled_stop])
            kernels.update_softmax_by_tree(
                *args, tree.rows, tree.unsampled_rows, ends, tree.values, state.rounds
            )
        else:
            add_leaf_values(state.scores, trees)
            kernels.softmax(*args)


def _mean_over_shards(data: TrainingData, values: np.ndarray) -> float:
    """Return the mean of `values` (n,) over the rows of all shards, independent of their order."""
    whole = np.floor(values)
    sums = np.array([whole.sum(), np.rint((values - whole) * _FRACTION).sum()]).astype(np.int64)
    data.all_reduce.sum_over_shards(sums)
    return float((sums[0] + sums[1] / _FRACTION) / data.n_rows)


def smoothed_class_shares(data: TrainingData) -> np.ndarray:
    """Return the share of each class in the total weight, float64 (K,).

    A row of weight 1 is added to each class, so that no share is 0.
    """
    share = data.class_weights() + 1.0
    return np.asarray(share / share.sum())


def add_leaf_values(scores: np.ndarray, trees: Sequence[Tree]) -> None:
    """Add the leaf values of the trees to `scores` float32 (n, K) of all rows, in place."""
    for tree in trees:
        kernels.add_leaf_values(scores, tree.rows, tree.start, tree.stop, tree.values)
        kernels.add_leaf_values(
            scores, tree.unsampled_rows, tree.unsampled_start, tree.unsampled_stop, tree.values
        )


def leaf_values(
    leaf_kernel: Callable[..., None], state: RowState, tree: Tree, l2: float, clamp: float = CLAMP
) -> np.ndarray:
    """Return the Newton step of each leaf of `tree`, float64 (leaves, K).

    `leaf_kernel` computes the steps, such as `kernels.softmax.leaf_steps_diagonal`. `l2` is the
    penalty on leaf values, and steps are clamped to ±`clamp`.
    """
    values = np.empty((tree.n_leaves, state.scores.shape[1]))
    ends = tree.start, tree.stop
    leaf_kernel(state.probabilities, state.y, state.weight, tree.rows, *ends, l2, clamp, values)
    return values


def trees_if_improved(trees: list[Tree], grower: Grower) -> list[Tree]:
    """Return the trees, or an empty list, which ends the training, if they do not help.

    A tree helps if it has a split, or if it changes the scores of all rows. The trees are always
    returned if the round used only a sample of the rows or features.
    """
    helps = any(t.n_leaves > 1 or np.abs(t.values).max() > _STILL for t in trees)
    return trees if helps or not grower.uses_all_rows_and_features else []
