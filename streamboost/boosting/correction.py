"""Residual correction: boosts a few stumps on the most recent rows after each label."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.links import NO_COSTS, class_probabilities
from streamboost.kernels.stumps import boost_correction_stumps
from streamboost.kernels.traverse import FOREST_NODE, add_scores

RATE = 0.8
L2 = 1.0
"""Learning rate of the stumps, and L2 penalty on their leaf values.

On the data sets electricity, outdoor and weather, the accuracies at rates from 0.4 to 1 and
penalties from 0.1 to 1 differed by less than one percentage point."""

LEAST = 0.02  # least Hessian sum of a leaf, low as there may be only two or three recent labels
CLAMP = 4.0  # bound of a Newton step, which is unreliable on a nearly pure leaf
N_DIRECTIONS = 256  # random class directions, drawn once and cycled through label by label


class CorrectionStumps(NamedTuple):
    """A few decision stumps that correct a committee's scores, in arrays like those of `Forest`."""

    nodes: np.ndarray
    """Nodes of all stumps, FOREST_NODE (nodes,)."""
    roots: np.ndarray
    """Index of the root of each stump, int32 (stumps,); negative if the stump is one leaf."""
    values: np.ndarray
    """Leaf values of all stumps, float32 (leaves, K)."""

    def add_scores(self, X: np.ndarray, scores: np.ndarray) -> None:
        """Add the leaf values of all stumps to `scores` float64 (n, K), in place."""
        add_scores(self.nodes, self.roots, self.values, X, scores, 0, len(self.roots))


@dataclass(slots=True, eq=False)  # made with every label: frozen, in thrice the time
class CorrectedCommittee:
    """Committee whose scores are corrected by a few stumps. It has the methods of a `Model`.

    Parameters
    ----------
    committee
        The committee to correct.
    classes
        The class labels (K,): the committee's, followed by new ones.
    new_class_scores
        Scores of the new classes before the stumps, float64 (number of new classes,).
    stumps
        The correction, with leaf values in the committee's units.
    """

    committee: Committee
    classes: np.ndarray
    new_class_scores: np.ndarray
    stumps: CorrectionStumps

    @property
    def n_features(self) -> int:
        """Number of columns D of the rows to score."""
        return self.committee.n_features

    @property
    def version(self) -> int:
        """Version number of the underlying committee; the correction does not change it."""
        return self.committee.version

    @property
    def n_rounds(self) -> int:
        """Number of boosting rounds of the underlying committee, without the correction."""
        return self.committee.n_rounds

    def staged_scores(self, X: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the committee's scores of `X` after each boosting round, without the correction."""
        return self.committee.staged_scores(X)

    def class_scores(self, X: np.ndarray) -> np.ndarray:
        """Return the corrected scores of `X` (n, D), NaN where missing: float64 (n, K)."""
        X = self.committee.as_rows(X)
        return self.add_correction(self.committee.class_scores(X), X)

    def add_correction(self, scores: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return the committee's `scores` of the rows `X` plus the correction, float64 (n, K).

        Without new classes, `scores` is changed in place.
        """
        if self.new_class_scores.size:
            scores = np.hstack([scores, np.tile(self.new_class_scores, (len(X), 1))])
        self.stumps.add_scores(X, scores)
        return scores

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the class probabilities (n, K) that belong to `scores` (n, K)."""
        return class_probabilities("softmax", scores / self.committee.temperature, NO_COSTS)

    def predicted_indices(self, scores: np.ndarray) -> np.ndarray:
        """Return the index of the largest score of each row, (n,); ties go to the first class."""
        return np.asarray(scores.argmax(axis=1))


def supports_residual_correction(committee: Committee) -> bool:
    """Return True if stumps can correct the committee: if its scores are log probabilities."""
    return committee.link == "softmax"


def initial_scores_of_new_classes(scores: np.ndarray, y: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the initial scores of the classes that the committee lacks, float64 (new classes,).

    `scores` (n, known classes), at temperature 1, and `y` int64 (n,) are of the most recent rows.
    The initial score of a new class is the log odds of its share against the known classes, plus
    the mean log-sum-exp of the known scores, as in `SoftmaxAlgorithm.base_scores`. For the shares,
    one row is added to each class.
    """
    known = scores.shape[1]
    if n_classes == known:
        return np.zeros(0)
    share = np.bincount(y, minlength=n_classes) + 1.0
    top = scores.max(axis=1)
    level = np.mean(top + np.log(np.exp(scores - top[:, None]).sum(axis=1)))
    return np.asarray(level + np.log(share[known:] / share[:known].sum()))


def train_correction_stumps(
    X: np.ndarray,
    y: np.ndarray,
    age_weight: np.ndarray,
    row_weight: np.ndarray,
    scores: np.ndarray,
    features: np.ndarray,
    n_stumps: int,
    direction_offset: int,
    temperature: float = 1.0,
) -> CorrectionStumps | None:
    """Return stumps that correct `scores`, boosted on the rows as SketchLogitBoost does.

    Returns None if a class in `y` is -1.

    Parameters
    ----------
    X
        float32 (n, D), C-order, NaN where missing; few rows, as every column is sorted.
    y
        int64 (n,), indices of the K classes, -1 for any other class.
    age_weight, row_weight
        float64 (n,). The weight of a row is the product of both; the mean of `age_weight` is 1.
    scores
        float64 (n, K) at temperature 1.
    features
        int64 (d,), the columns that may be split, none of them categorical.
    n_stumps
        Stumps to grow; a stump without a split still changes all scores.
    direction_offset
        Index of the first class direction to use, of a fixed table of random vectors over the
        classes. Equal offsets give equal stumps.
    temperature
        Factor of the leaf values, the temperature of the committee.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]], dtype=np.float32)
    >>> y, one = np.array([0, 0, 1, 1]), np.ones(4)
    >>> stumps = train_correction_stumps(
    ...     X, y, one, one, np.zeros((4, 2)), features=np.array([0]), n_stumps=1, direction_offset=0
    ... )
    >>> stumps.nodes["threshold"]
    array([1.5], dtype=float32)
    """
    n_classes = scores.shape[1]
    first = direction_offset * n_stumps % N_DIRECTIONS
    drawn = _fixed_class_directions(n_classes, n_stumps)[first : first + n_stumps]
    nodes, roots = np.empty(n_stumps, FOREST_NODE), np.empty(n_stumps, np.int32)
    values = np.empty((2 * n_stumps, n_classes), np.float32)
    rows = X, features, y, age_weight, row_weight, scores
    how = RATE, L2, LEAST, CLAMP, temperature
    n_nodes = boost_correction_stumps(*rows, drawn, *how, nodes, roots, values)
    return CorrectionStumps(nodes[:n_nodes], roots, values) if n_nodes >= 0 else None


@lru_cache(maxsize=16)
def _fixed_class_directions(n_classes: int, n_repeated: int) -> np.ndarray:
    """Return fixed random vectors over the classes, float32 (N_DIRECTIONS + `n_repeated`, K).

    The entries of a vector sum to 0, and the largest entry is ±1. The last `n_repeated` rows are
    equal to the first ones.
    """
    u = np.random.default_rng(n_classes).standard_normal((N_DIRECTIONS, n_classes))
    u -= u.mean(axis=1, keepdims=True)
    if n_classes > 1:
        u /= np.abs(u).max(axis=1, keepdims=True)
    table: np.ndarray = u.astype(np.float32)
    return table[np.arange(N_DIRECTIONS + n_repeated) % N_DIRECTIONS]
