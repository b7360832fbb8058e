"""SketchLogitBoost: multi-class log-loss boosting along one class direction per tree."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.estimator import BoostingClassifier
from streamboost.boosting.loop import Algorithm, TrainingData
from streamboost.kernels import softmax as kernels
from streamboost.trees.grower import Grower, Tree, gradient_statistic

__all__ = ["SketchLogitBoostClassifier"]

_CLAMP = 4.0  # a Newton step on a nearly pure leaf may point anywhere; this far it is trusted
_REBUILD = 32  # rounds after which probabilities are computed afresh: a float32 zero never recovers
_FAR = 30.0  # a factor beyond exp(±30) would lose the small probabilities at once


@dataclass(slots=True)
class SoftmaxState:
    """Where each training row stands: its scores and their softmax, float32 (n, K)."""

    y: np.ndarray
    weight: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray
    rng: np.random.Generator
    rounds: int = 0

    def add(self, tree: Tree) -> None:
        """Add a tree's leaf values to the scores of all its rows, and follow in softmax."""
        args = self.scores, self.probabilities
        kernels.multiply_leaf(*args, tree.rows, tree.start, tree.stop, tree.values)
        kernels.multiply_leaf(*args, tree.rest, tree.rest_start, tree.rest_stop, tree.values)
        self.rounds += 1
        if self.rounds % _REBUILD == 0 or np.abs(tree.values).max() > _FAR:
            kernels.softmax(*args)


class _SketchLogitBoost(Algorithm):
    """One round: a random class direction, a Newton tree along it, K-vector leaves."""

    family = "softmax"

    def __init__(self, learning_rate: float, l2_regularization: float) -> None:
        self._learning_rate = learning_rate
        self._l2 = l2_regularization

    def base(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        return softmax_base(data, committee)

    def temperature(self, n_classes: int) -> float:
        return 1.0

    def start(
        self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator
    ) -> SoftmaxState:
        F = scores.astype(np.float32)
        P = np.empty_like(F)
        kernels.softmax(F, P)
        return SoftmaxState(data.y, data.weight.astype(np.float32), F, P, rng)

    def round(self, state: SoftmaxState, grow: Grower) -> list[Tree]:
        direction = class_direction(state.probabilities.shape[1], state.rng)
        gradient = np.empty(len(state.y), dtype=np.float32)
        hessian = np.empty_like(gradient)
        bounds = kernels.project(
            state.probabilities, state.y, state.weight, direction, gradient, hessian
        )
        tree = grow(gradient_statistic(gradient, hessian, state.weight, *bounds))
        values = np.empty((tree.n_leaves, len(direction)))
        kernels.leaf_newton(
            state.probabilities,
            state.y,
            state.weight,
            tree.rows,
            tree.start,
            tree.stop,
            self._l2,
            _CLAMP,
            values,
        )
        tree.values = (self._learning_rate * values).astype(np.float32)
        return [tree]

    def update(self, state: SoftmaxState, trees: Sequence[Tree]) -> None:
        for tree in trees:
            state.add(tree)


def class_direction(n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a centred random direction over the classes, float32 (K,), its largest entry ±1."""
    u = rng.standard_normal(n_classes)
    u -= u.mean()
    return np.asarray(u / np.abs(u).max(), dtype=np.float32)


def softmax_base(data: TrainingData, committee: Committee | None) -> np.ndarray:
    """Return the first scores of a softmax loss: centred log shares of the classes.

    On top of a committee, a class it does not know enters with the log odds of its share against
    what the committee's own scores amount to on these rows (their mean log-sum-exp), so that its
    mean probability begins near its share.
    """
    K = len(data.classes)
    share = np.bincount(data.y, weights=data.weight, minlength=K) + 1.0
    share /= share.sum()
    if committee is None:
        b = np.log(share)
        return np.asarray(b - b.mean())
    known = len(committee.classes)
    if known == K:
        return committee.base
    F = committee.decision(data.X)
    top = F.max(axis=1)
    level = np.mean(top + np.log(np.exp(F - top[:, None]).sum(axis=1)))
    new = level + np.log(share[known:] / share[:known].sum())
    return np.concatenate([committee.base, new])


class SketchLogitBoostClassifier(BoostingClassifier):
    """Multi-class LogitBoost with one tree a round, split along a random class direction.

    Each round draws a centred direction u over the classes. The tree's splits maximise the Newton
    gain of the log loss along u (gradient u_y - u.p, Hessian sum u_k^2 p_k - (u.p)^2), and each
    leaf takes the diagonal Newton step in all K classes, centred and clamped to ±4. One histogram
    serves all classes, whatever their number. The idea of sketching the class gradients is that of
    SketchBoost (Iosipoi and Vakhrushev, 2022); the single Newton direction and the leaf are ours.

    Parameters
    ----------
    n_estimators
        Rounds of boosting, one tree each.
    learning_rate
        Scales every leaf value, in (0, 1].
    max_leaf_nodes, max_depth
        Where a tree ends; it grows the best leaf first. None: no bound on the depth.
    max_bins
        Bins per feature of numbers, at most 255, missing values aside.
    min_child_weight
        Least sum of Hessians (along u) in a child. With a few hundred labels use 0.01 to 0.03.
    l2_regularization
        Penalty λ on leaf values, in units of Hessian.
    max_features
        Share of the features offered to a tree. None: all up to 20 features, half of them up to
        300, a fifth beyond.
    subsample
        Share of the rows a tree is grown on, drawn without replacement.
    categorical_features
        Which columns hold categories: a mask (D,), indices, or column names. Their values are
        whole numbers from 0 on; a split sends a set of them left. Negative numbers, NaN and
        categories not met in training are missing. Beyond 254 the rare ones are as one. None: no
        column.
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
        The trained `Committee`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import SketchLogitBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SketchLogitBoostClassifier(n_estimators=50, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    def __init__(
        self,
        *,
        n_estimators: int = 400,
        learning_rate: float = 0.07,
        max_leaf_nodes: int = 40,
        max_depth: int | None = None,
        max_bins: int = 64,
        min_child_weight: float = 0.3,
        l2_regularization: float = 0.1,
        max_features: float | None = None,
        subsample: float = 1.0,
        categorical_features: Any = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.max_bins = max_bins
        self.min_child_weight = min_child_weight
        self.l2_regularization = l2_regularization
        self.max_features = max_features
        self.subsample = subsample
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _algorithm(self) -> Algorithm:
        return _SketchLogitBoost(self.learning_rate, self.l2_regularization)
