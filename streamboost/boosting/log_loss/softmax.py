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

__all__ = [
    "CLAMP",
    "RowState",
    "SoftmaxAlgorithm",
    "SoftmaxState",
    "add_leaves",
    "class_shares",
    "leaf_values",
    "or_end",
    "softmax_base",
]

CLAMP = 4.0
"""Bound of a Newton step, which is unreliable on a nearly pure leaf."""

_FRACTION = 2.0**20  # score fractions are rounded to 1/_FRACTION, so that float64 sums are exact

_STILL = 1e-4  # least change of a score by a tree without a split; otherwise the training ends


@dataclass(slots=True)
class RowState:
    """State of the training rows: scores and probabilities, float32 (n, K)."""

    y: np.ndarray
    weight: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray


@dataclass(slots=True)
class SoftmaxState(RowState):
    """State of rows whose probabilities are the softmax of their scores."""

    rounds: int = 0

    def add(self, trees: Sequence[Tree]) -> None:
        """Add one round's leaf values to the scores of their rows, and update the softmax."""
        self.rounds += 1
        args = self.scores, self.probabilities
        if len(trees) == 1:
            (tree,) = trees
            ends = np.stack([tree.start, tree.stop, tree.rest_start, tree.rest_stop])
            kernels.add_tree_and_update(*args, tree.rows, tree.rest, ends, tree.values, self.rounds)
        else:
            add_leaves(self.scores, trees)
            kernels.softmax(*args)


class SoftmaxAlgorithm(Algorithm):
    """Base class of the log-loss algorithms, which may extend each other's committees."""

    family = "softmax"
    takes_new_classes = True

    def __init__(self, learning_rate: float, l2_regularization: float) -> None:
        self._learning_rate = learning_rate
        self._l2 = l2_regularization

    def base_scores(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return the base scores: log shares of the classes; see `softmax_base`."""
        return softmax_base(data, committee)

    def initial_state(
        self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator
    ) -> SoftmaxState:
        """Create the row state: the scores and their softmax."""
        F = scores.astype(np.float32)
        P = np.empty_like(F)
        kernels.softmax(F, P)
        return SoftmaxState(data.y, data.weight.astype(np.float32), F, P)

    def update_state(self, state: SoftmaxState, trees: Sequence[Tree]) -> None:
        """Add the trees of a round to the state; see `SoftmaxState.add`."""
        state.add(trees)


def softmax_base(data: TrainingData, committee: Committee | None) -> np.ndarray:
    """Return the base scores of a softmax loss: centred log shares of the classes.

    In an extension, the base score of a new class is the sum of two terms: the log odds of its
    share against the known classes, and the mean log-sum-exp of the committee's scores on these
    rows. Hence the initial mean probability of the class is near its share.
    """
    share = class_shares(data)
    if committee is None:
        b = np.log(share)
        return np.asarray(b - b.mean())
    known = len(committee.classes)
    if known == len(share):
        return committee.base
    F = committee.decision(data.X)
    top = F.max(axis=1)
    level = _mean(data, top + np.log(np.exp(F - top[:, None]).sum(axis=1)))
    new = level + np.log(share[known:] / share[:known].sum())
    return np.concatenate([committee.base, new])


def _mean(data: TrainingData, values: np.ndarray) -> float:
    """Return the mean of `values` (n,) over the rows of all shards, summed in integers."""
    whole = np.floor(values)
    sums = np.array(
        [whole.sum(), np.rint((values - whole) * _FRACTION).sum()]
    ).astype(np.int64)
    data.total.sum_over_shards(sums)
    return float((sums[0] + sums[1] / _FRACTION) / data.n_rows)


def class_shares(data: TrainingData) -> np.ndarray:
    """Return the share of each class in the total weight, float64 (K,), with one row added."""
    share = data.masses() + 1.0
    return np.asarray(share / share.sum())


def add_leaves(scores: np.ndarray, trees: Sequence[Tree]) -> None:
    """Add the trees' leaf values to `scores` float32 (n, K) of all their rows."""
    for tree in trees:
        kernels.add_leaf_values(scores, tree.rows, tree.start, tree.stop, tree.values)
        kernels.add_leaf_values(scores, tree.rest, tree.rest_start, tree.rest_stop, tree.values)


def leaf_values(
    leaf: Callable[..., None], state: RowState, tree: Tree, l2: float, clamp: float = CLAMP
) -> np.ndarray:
    """Return the step of each leaf in all classes, float64 (leaves, K), from the kernel `leaf`."""
    values = np.empty((tree.n_leaves, state.scores.shape[1]))
    ends = tree.start, tree.stop
    leaf(state.probabilities, state.y, state.weight, tree.rows, *ends, l2, clamp, values)
    return values


def or_end(trees: list[Tree], grow: Grower) -> list[Tree]:
    """Return the trees, or an empty list to end the training if they do not improve the model.

    A tree improves the model if it has a split, or changes all scores. A round on a sample of the
    rows or features never ends the training.
    """
    helps = any(t.n_leaves > 1 or np.abs(t.values).max() > _STILL for t in trees)
    return trees if helps or not grow.is_full_sample else []
