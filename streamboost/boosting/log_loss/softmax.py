"""What the families of the multi-class log loss share: probabilities softmax(F) that follow F."""

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
"""A Newton step on a nearly pure leaf may point anywhere; this far it is trusted."""

_FRACTION = 2.0**20  # to which the mean of scores is rounded: such sums are exact in float64

_STILL = 1e-4  # scores that move by less have nothing left to learn from a tree without a split


@dataclass(slots=True)
class RowState:
    """Where each training row stands: its scores and its probabilities, float32 (n, K)."""

    y: np.ndarray
    weight: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray


@dataclass(slots=True)
class SoftmaxState(RowState):
    """Rows whose probabilities are the softmax of their scores."""

    rounds: int = 0

    def add(self, trees: Sequence[Tree]) -> None:
        """Add one round's leaf values to the scores of all their rows, and follow in softmax."""
        self.rounds += 1
        args = self.scores, self.probabilities
        if len(trees) == 1:
            (tree,) = trees
            ends = np.stack([tree.start, tree.stop, tree.rest_start, tree.rest_stop])
            kernels.follow(*args, tree.rows, tree.rest, ends, tree.values, self.rounds)
        else:
            add_leaves(self.scores, trees)
            kernels.softmax(*args)


class SoftmaxAlgorithm(Algorithm):
    """Base of the log-loss algorithms, which may extend each other's committees."""

    family = "softmax"
    takes_new_classes = True

    def __init__(self, learning_rate: float, l2_regularization: float) -> None:
        self._learning_rate = learning_rate
        self._l2 = l2_regularization

    def base(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return the classes' log shares; see `softmax_base`."""
        return softmax_base(data, committee)

    def temperature(self, n_classes: int) -> float:
        """Return 1: probabilities are softmax(F)."""
        return 1.0

    def start(
        self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator
    ) -> SoftmaxState:
        """Return the scores and their softmax: no state of rows crosses trainings."""
        F = scores.astype(np.float32)
        P = np.empty_like(F)
        kernels.softmax(F, P)
        return SoftmaxState(data.y, data.weight.astype(np.float32), F, P)

    def update(self, state: SoftmaxState, trees: Sequence[Tree]) -> None:
        """Add the round's trees; see `SoftmaxState.add`."""
        state.add(trees)


def softmax_base(data: TrainingData, committee: Committee | None) -> np.ndarray:
    """Return the first scores of a softmax loss: centred log shares of the classes.

    On top of a committee, a class it does not know enters with the log odds of its share against
    what the committee's own scores amount to on these rows (their mean log-sum-exp), so that its
    mean probability begins near its share.
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
    """Return the mean over all rows of `values` (n,) of those here, summed in whole numbers."""
    whole = np.floor(values)
    sums = np.array([whole.sum(), np.rint((values - whole) * _FRACTION).sum()]).astype(np.int64)
    data.total.add(sums)
    return float((sums[0] + sums[1] / _FRACTION) / data.n_rows)


def class_shares(data: TrainingData) -> np.ndarray:
    """Return the share of each class in the weight, float64 (K,), one row added to each."""
    share = data.masses() + 1.0
    return np.asarray(share / share.sum())


def add_leaves(scores: np.ndarray, trees: Sequence[Tree]) -> None:
    """Add the trees' leaf values to `scores` float32 (n, K) of all their rows."""
    for tree in trees:
        kernels.add_leaf(scores, tree.rows, tree.start, tree.stop, tree.values)
        kernels.add_leaf(scores, tree.rest, tree.rest_start, tree.rest_stop, tree.values)


def leaf_values(
    leaf: Callable[..., None], state: RowState, tree: Tree, l2: float, clamp: float = CLAMP
) -> np.ndarray:
    """Return the step of each leaf in all classes, float64 (leaves, K), as kernel `leaf` has it."""
    values = np.empty((tree.n_leaves, state.scores.shape[1]))
    leaf(
        state.probabilities,
        state.y,
        state.weight,
        tree.rows,
        tree.start,
        tree.stop,
        l2,
        clamp,
        values,
    )
    return values


def or_end(trees: list[Tree], grow: Grower) -> list[Tree]:
    """Return the trees, or none to end the training where they do not help.

    A tree helps when it splits its rows, or moves them all. A round that was offered only some of
    the rows or features may have been unlucky, and ends nothing.
    """
    helps = any(t.n_leaves > 1 or np.abs(t.values).max() > _STILL for t in trees)
    return trees if helps or not grow.whole else []
