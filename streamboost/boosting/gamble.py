"""GAMBLE: Gentle Adaptive Multiclass Boosting Learning (Huang, 2009)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import StrOptions

from streamboost.boosting.committee import Committee
from streamboost.boosting.estimator import BoostingClassifier
from streamboost.boosting.loop import Algorithm, TrainingData
from streamboost.trees.grower import Grower, Tree, weight_statistic

__all__ = ["GambleClassifier", "leaf_step"]

Step = Literal["paper", "scaled", "line", "exact"]

_LONGEST = 4.0  # how far the line search may stretch the printed step; a pure leaf has no optimum


@dataclass(slots=True)
class _State:
    """Each row's class, the logarithm of its given weight, and the score of its own class."""

    y: np.ndarray
    n_classes: int
    log_weight: np.ndarray
    own_score: np.ndarray

    def weight(self) -> np.ndarray:
        """Return w = s exp(-y.F / K) = s exp(-F_c / (K - 1)), its mean being 1."""
        log_w = self.log_weight - self.own_score / (self.n_classes - 1)
        w = np.exp(log_w - log_w.max())
        return np.asarray(w / w.mean())


class _Gamble(Algorithm):
    """One round: a weighted Gini tree, its leaves a quasi-Newton step of the exponential loss."""

    family = "gamble"

    def __init__(self, learning_rate: float, step: Step | None) -> None:
        self._learning_rate = learning_rate
        self._step = step

    def base(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        return np.zeros(len(data.classes)) if committee is None else committee.base

    def temperature(self, n_classes: int) -> float:
        return float(max(n_classes - 1, 1))

    def start(self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator) -> _State:
        own = scores[np.arange(len(data.y)), data.y]
        return _State(data.y, len(data.classes), np.log(data.weight), own)

    def round(self, state: _State, grow: Grower) -> list[Tree]:
        weight = state.weight()
        tree = grow(weight_statistic(weight, state.y, state.n_classes))
        mass = np.zeros((tree.n_leaves, state.n_classes))
        for m, (start, stop) in enumerate(zip(tree.start, tree.stop, strict=True)):
            rows = tree.rows[start:stop]
            mass[m] = np.bincount(state.y[rows], weights=weight[rows], minlength=state.n_classes)
        values = leaf_step(mass, tree.stop - tree.start, self._step)
        tree.values = (self._learning_rate * values).astype(np.float32)
        return [tree]

    def update(self, state: _State, trees: Sequence[Tree]) -> None:
        for tree in trees:
            state.own_score += tree.values[tree.leaf_of_row(len(state.y)), state.y]


def leaf_step(mass: np.ndarray, n_rows: np.ndarray, step: Step | None = None) -> np.ndarray:
    """Return each leaf's scores f, float64 (leaves, K), summing to zero.

    Parameters
    ----------
    mass
        Weight of each class in each leaf (leaves, K).
    n_rows
        Rows in each leaf (leaves,); only ``"exact"`` asks for it.
    step
        ``"paper"`` is the printed quasi-Newton step (Algorithm 2): r_k = K g_k / h_k with the leaf
        means g and h of y and y^2, less its mean over the classes. ``"scaled"`` is (K-1)/K of it:
        exact Newton near uniform shares, and Gentle AdaBoost's step for two classes, where the
        printed one is twice that and need not descend. ``"line"`` stretches the printed step to
        the least loss of the leaf. ``"exact"`` goes to the leaf's own optimum, its shares smoothed
        by one row. None chooses by the number of classes: scaled for 2, paper up to 10, and exact
        beyond, where the printed step can raise the loss.

    Examples
    --------
    >>> leaf_step(np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 2.0]]), np.array([2, 4]), "paper")
    array([[ 6. , -3. , -3. ],
           [-4.8,  2.4,  2.4]])
    """
    K = mass.shape[1]
    step = step or ("scaled" if K == 2 else "paper" if K <= 10 else "exact")
    total = mass.sum(axis=1, keepdims=True)
    share = np.divide(mass, total, out=np.full_like(mass, 1 / K), where=total > 0)
    if step == "exact":
        n = n_rows[:, None]
        log_q = np.log((n * share + 1 / K) / (n + 1))
        return np.asarray((K - 1) * (log_q - log_q.mean(axis=1, keepdims=True)))
    r = K * (K - 1) * (K * share - 1) / (K * (K - 2) * share + 1)
    f = r - r.mean(axis=1, keepdims=True)
    if step == "line":
        return np.asarray(f * _line_search(share, f)[:, None])
    return np.asarray(f * (K - 1) / K if step == "scaled" else f)


def _line_search(share: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Return for each leaf the t up to 4 that minimises sum_c share_c exp(-t f_c / (K - 1))."""
    low, high = np.zeros(len(f)), np.full(len(f), _LONGEST)
    for _ in range(40):
        t = (low + high) / 2
        slope = (share * f * np.exp(-t[:, None] * f / (f.shape[1] - 1))).sum(axis=1)
        low, high = np.where(slope > 0, t, low), np.where(slope > 0, high, t)
    return high


class GambleClassifier(BoostingClassifier):
    """Multi-class gentle boosting with one regression tree a round (Huang, 2009, Algorithm 2).

    Each round fits one tree to the coded labels (1 for the own class, -1/(K-1) for the others)
    under the weights of the exponential loss exp(-y.F/K). By the thesis's Theorem 2 the trees for
    y and for y^2 are the same, and the criterion is the weighted Gini index, so one histogram
    serves all classes. Class probabilities are softmax(F / (K-1)).

    The exponential loss of this family does not bound the training error when K > 2, and trees
    with fewer than K leaves can stall; by default a tree has at least twice as many.

    Parameters
    ----------
    n_estimators
        Rounds of boosting, one tree each.
    learning_rate
        Scales every leaf value, in (0, 1]; the thesis uses 1.
    step
        The leaf's step: ``"paper"``, ``"scaled"``, ``"line"``, ``"exact"``, or None for a choice
        by the number of classes; see `leaf_step`.
    max_leaf_nodes, max_depth
        Where a tree ends; it grows the best leaf first. None: max(15, 2K) leaves, any depth.
    max_bins
        Bins per feature of numbers, at most 255, missing values aside.
    min_child_weight
        Least weight in a child, the mean row weighing 1.
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

    Notes
    -----
    `extend` with a class the committee does not know trains anew on the rows it is given, with as
    many rounds in all: in the exponential loss a class that was absent has no finite score to
    begin from.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import GambleClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GambleClassifier(n_estimators=20, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BoostingClassifier._parameter_constraints,
        "max_leaf_nodes": [*BoostingClassifier._parameter_constraints["max_leaf_nodes"], None],
        "step": [StrOptions({"paper", "scaled", "line", "exact"}), None],
    }
    _parameter_constraints.pop("l2_regularization")

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        learning_rate: float = 1.0,
        step: Step | None = None,
        max_leaf_nodes: int | None = None,
        max_depth: int | None = None,
        max_bins: int = 64,
        min_child_weight: float = 0.0,
        max_features: float | None = None,
        subsample: float = 1.0,
        categorical_features: Any = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.step = step
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.max_bins = max_bins
        self.min_child_weight = min_child_weight
        self.max_features = max_features
        self.subsample = subsample
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _algorithm(self) -> Algorithm:
        return _Gamble(self.learning_rate, self.step)

    def _leaves(self, n_classes: int) -> int:
        return self.max_leaf_nodes or max(15, 2 * n_classes)

    def _boost(
        self,
        data: TrainingData,
        rounds: int,
        rng: np.random.Generator,
        committee: Committee | None,
    ) -> Committee:
        if committee is not None and len(data.classes) > len(committee.classes):
            rounds, committee = committee.n_rounds + rounds, None
        return super()._boost(data, rounds, rng, committee)
