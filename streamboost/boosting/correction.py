"""Residual correction: boosts a few stumps on the most recent rows after each label."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.links import NO_COSTS, class_probabilities
from streamboost.kernels.stumps import correct_rows
from streamboost.kernels.traverse import FOREST_NODE, add_scores

__all__ = ["Corrected", "Stumps", "correct", "correctable", "first_scores"]

RATE = 0.8
L2 = 1.0
"""On electricity, outdoor and weather, the accuracies at rates from 0.4 to 1 and penalties from 0.1
to 1 differed by less than one percentage point."""

LEAST = 0.02  # least Hessian sum of a leaf, low as there may be only two or three recent labels
CLAMP = 4.0  # bound of a Newton step, which is unreliable on a nearly pure leaf
N_DIRECTIONS = 256  # random class directions, drawn once and cycled through label by label


class Stumps(NamedTuple):
    """Correction by stumps, packed like a forest and replaced after each label."""

    nodes: np.ndarray
    """FOREST_NODE (nodes,)."""
    roots: np.ndarray
    """Int32 (stumps,), negative where a stump is one leaf."""
    values: np.ndarray
    """Float32 (leaves, K)."""

    def add_scores(self, X: np.ndarray, scores: np.ndarray) -> None:
        """Add the values of all stumps to `scores` float64 (n, K)."""
        add_scores(self.nodes, self.roots, self.values, X, scores, 0, len(self.roots))


@dataclass(slots=True, eq=False)  # made with every label: frozen, in thrice the time
class Corrected:
    """Committee plus a few stumps, with the scoring methods of a committee.

    Parameters
    ----------
    committee
        The committee to correct.
    classes
        The class labels (K,): the committee's, followed by new ones.
    first_scores
        Initial scores of the new classes, before the stumps, float64 (K - known,).
    stumps
        The correction, with leaf values in the committee's units.
    """

    committee: Committee
    classes: np.ndarray
    first_scores: np.ndarray
    stumps: Stumps

    @property
    def n_features(self) -> int:
        """D, the number of columns of the rows to score."""
        return self.committee.n_features

    @property
    def version(self) -> int:
        """The committee's version."""
        return self.committee.version

    @property
    def n_rounds(self) -> int:
        """The committee's number of boosting rounds."""
        return self.committee.n_rounds

    def staged_decision(self, X: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the committee's scores after 1, 2, ... rounds, without the correction."""
        return self.committee.staged_decision(X)

    def decision(self, X: np.ndarray) -> np.ndarray:
        """Return the scores, float64 (n, K), of `X` (n, D), NaN where missing."""
        X = self.committee.as_rows(X)
        return self.corrected(self.committee.decision(X), X)

    def corrected(self, scores: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Add the correction to the committee's `scores` of rows `X`, in place if K is equal."""
        if self.first_scores.size:
            scores = np.hstack([scores, np.tile(self.first_scores, (len(X), 1))])
        self.stumps.add_scores(X, scores)
        return scores

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the class probabilities (n, K) of `scores` (n, K)."""
        return class_probabilities("softmax", scores / self.committee.temperature, NO_COSTS)

    def best(self, scores: np.ndarray) -> np.ndarray:
        """Return the index of the largest score (n,); ties go to the first."""
        return np.asarray(scores.argmax(axis=1))


def correctable(committee: Committee) -> bool:
    """Return True if the committee's scores are log probabilities, which stumps can correct."""
    return committee.link == "softmax"


def first_scores(scores: np.ndarray, y: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the initial scores of classes that the committee lacks, float64 (n_classes - known,).

    `scores` (n, known) at temperature 1 and `y` int64 (n,) belong to the most recent rows. As in
    an extension (`softmax_base`), a new class starts at the log odds of its share against the known
    classes. One row is added to each class. The mean log-sum-exp of the known scores is added.
    """
    known = scores.shape[1]
    if n_classes == known:
        return np.zeros(0)
    share = np.bincount(y, minlength=n_classes) + 1.0
    top = scores.max(axis=1)
    level = np.mean(top + np.log(np.exp(scores - top[:, None]).sum(axis=1)))
    return np.asarray(level + np.log(share[known:] / share[:known].sum()))


def correct(
    X: np.ndarray,
    y: np.ndarray,
    age: np.ndarray,
    given: np.ndarray,
    scores: np.ndarray,
    features: np.ndarray,
    n_stumps: int,
    turn: int,
    temperature: float = 1.0,
) -> Stumps | None:
    """Boost stumps on `scores`: rounds of SketchLogitBoost with two leaves each.

    Returns None if a row's class is not among the K classes.

    Parameters
    ----------
    X
        float32 (n, D), C-order, NaN where missing; few rows, as every column is sorted.
    y
        int64 (n,), indices of the K classes, -1 for any other class.
    age, given
        float64 (n,), whose product is the row weight; the mean of `age` is 1.
    scores
        float64 (n, K) at temperature 1.
    features
        int64 (d,), the columns that may be split, none of them categorical.
    n_stumps
        Stumps to grow; a stump without a split still changes all scores.
    turn
        Offset into the fixed random class directions: an equal offset gives equal stumps.
    temperature
        Factor of the leaf values.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]], dtype=np.float32)
    >>> y, one = np.array([0, 0, 1, 1]), np.ones(4)
    >>> stumps = correct(
    ...     X, y, one, one, np.zeros((4, 2)), features=np.array([0]), n_stumps=1, turn=0
    ... )
    >>> stumps.nodes["threshold"]
    array([1.5], dtype=float32)
    """
    n_classes = scores.shape[1]
    first = turn * n_stumps % N_DIRECTIONS
    drawn = _directions(n_classes, n_stumps)[first : first + n_stumps]
    nodes, roots = np.empty(n_stumps, FOREST_NODE), np.empty(n_stumps, np.int32)
    values = np.empty((2 * n_stumps, n_classes), np.float32)
    rows, how = (X, features, y, age, given, scores), (RATE, L2, LEAST, CLAMP, temperature)
    n_nodes = correct_rows(*rows, drawn, *how, nodes, roots, values)
    return Stumps(nodes[:n_nodes], roots, values) if n_nodes >= 0 else None


@lru_cache(maxsize=16)
def _directions(n_classes: int, more: int) -> np.ndarray:
    """Return centred random class directions, float32 (N_DIRECTIONS + `more`, K).

    The largest entry of each is ±1. The last `more` rows repeat the first `more`.
    """
    u = np.random.default_rng(n_classes).standard_normal((N_DIRECTIONS, n_classes))
    u -= u.mean(axis=1, keepdims=True)
    if n_classes > 1:
        u /= np.abs(u).max(axis=1, keepdims=True)
    table: np.ndarray = u.astype(np.float32)
    return table[np.arange(N_DIRECTIONS + more) % N_DIRECTIONS]
