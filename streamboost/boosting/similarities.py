"""Localized similarities as the weak learners of a committee (Appel, 2017, section 5.4)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamboost.errors import ModelFileError
from streamboost.kernels.similarity import add_similarities
from streamboost.storage import Arrays
from streamboost.trees.bins import Bins
from streamboost.trees.categories import CategoryCodes


@dataclass(frozen=True, slots=True)
class CoordinateSystem:
    """Coordinates in which distances are measured: columns are centred, and may be scaled.

    Parameters
    ----------
    centre, scale
        float64 (D,). A value x becomes (x - centre) scale; a missing value becomes 0, the centre.
    """

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, X: np.ndarray, weight: np.ndarray, *, standardize: bool) -> "CoordinateSystem":
        """Return coordinates whose centre is the mean of `X` (n, D), weighted by `weight` (n,).

        If `standardize`, columns are divided by their standard deviations.

        A constant or empty column gets scale 0: the column cannot distinguish training rows, and
        later differences in the column have no meaning for the model.
        """
        known = ~np.isnan(X)
        values = np.where(known, X, 0.0).astype(np.float64)
        mass = weight @ known
        some = np.maximum(mass, np.finfo(float).tiny)
        centre = (weight @ values) / some
        deviation = np.sqrt(weight @ np.where(known, values - centre, 0.0) ** 2 / some)
        varied = deviation > 1e-7 * np.abs(centre)  # smaller deviations are float32 rounding errors
        scale = np.where(varied, 1.0, 0.0)
        if standardize:
            scale = np.divide(scale, deviation, out=scale, where=varied)
        return cls(centre, scale)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the coordinates of the rows `X` (n, D): float32 (n, D), C-order, without NaN."""
        Z = (X - self.centre) * self.scale
        return np.ascontiguousarray(np.where(np.isnan(Z), 0.0, Z), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class SimilarityLearner:
    """Weak learner whose value f depends on the distances to one or two points.

    The learner adds f times the coefficient of a class to the score of this class.

    Parameters
    ----------
    points
        float32 (1, D) or (2, D), in the coordinates of a `CoordinateSystem`: f is 1 at the first
        point. With one point, f falls to 0 at the squared distance `reach` and towards -1 beyond.
        With two points, f is -1 at the second.
    reach
        Squared distance at which a one-point f is 0 (infinite: f is 1 everywhere), or the squared
        distance of two points.
    values
        f at the training rows (n,).
    coefficients
        Coefficient of each class, float64 (K,).
    """

    points: np.ndarray
    reach: float
    values: np.ndarray
    coefficients: np.ndarray


@dataclass(frozen=True, slots=True)
class SimilarityEnsemble:
    """Immutable ensemble of similarity learners, one per boosting round.

    Parameters
    ----------
    coordinates
        The coordinate system of the points.
    points
        float32 (P, D), the training rows that learners refer to.
    pairs
        int32 (rounds, 2): indices of the points, the second -1 for a one-point learner.
    reach
        float64 (rounds,): the squared distance from its one point at which a learner is 0, or the
        squared distance of its two points.
    coefficients
        Coefficient of each learner and class, float64 (rounds, K).
    """

    kind: ClassVar[str] = "similarities"

    coordinates: CoordinateSystem
    points: np.ndarray
    pairs: np.ndarray
    reach: np.ndarray
    coefficients: np.ndarray

    @classmethod
    def empty(cls, coordinates: CoordinateSystem, n_classes: int) -> "SimilarityEnsemble":
        """Create an ensemble without rounds for `n_classes` classes."""
        return cls(
            coordinates,
            np.zeros((0, len(coordinates.centre)), dtype=np.float32),
            np.zeros((0, 2), dtype=np.int32),
            np.zeros(0),
            np.zeros((0, n_classes)),
        )

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.coefficients.shape[1])

    @property
    def n_rounds(self) -> int:
        """Number of boosting rounds."""
        return len(self.pairs)

    @property
    def n_learners(self) -> int:
        """Number of weak learners, one per round."""
        return len(self.pairs)

    @property
    def category_codes(self) -> CategoryCodes:
        """Empty category codes, as similarities do not support categories."""
        return CategoryCodes()

    def add_scores(
        self, X: np.ndarray, scores: np.ndarray, rounds: tuple[int, int] | None = None
    ) -> None:
        """Add the learners' values at the rows `X` (n, D) to `scores` (n, K), in place.

        `rounds` is a half-open range of rounds; None: all rounds.
        """
        first, end = rounds or (0, self.n_rounds)
        Z = self.coordinates(X)
        add_similarities(
            self.points, self.pairs, self.reach, self.coefficients, Z, scores, first, end
        )

    def split_counts(self, n_features: int) -> np.ndarray:
        """Return zeros, int64 (D,), as similarities split no feature."""
        return np.zeros(n_features, dtype=np.int64)

    def leaf_indices(self, X: np.ndarray, n_trees: int) -> np.ndarray:
        """Return an empty array, uint8 (n, 0), as similarities have no leaves."""
        return np.zeros((len(X), 0), dtype=np.uint8)

    def scores_and_leaves(
        self, base: np.ndarray, X: np.ndarray, n_trees: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores of all rounds plus `base` (K,), and the empty `leaf_indices`."""
        scores = np.tile(base, (len(X), 1))
        self.add_scores(np.ascontiguousarray(X[:, : len(self.coordinates.centre)]), scores)
        return scores, self.leaf_indices(X, n_trees)

    def staged_scores(self, X: np.ndarray, scores: np.ndarray) -> Iterator[np.ndarray]:
        """Add the rounds one by one to `scores` float64 (n, K); yield `scores` after each."""
        Z = self.coordinates(X)
        learners = self.points, self.pairs, self.reach, self.coefficients
        for m in range(self.n_rounds):
            add_similarities(*learners, Z, scores, m, m + 1)
            yield scores

    def with_new_classes(self, n_classes: int) -> "SimilarityEnsemble":
        """Return a copy for `n_classes` classes, with coefficients of 0 for new classes."""
        wide = np.pad(self.coefficients, ((0, 0), (0, n_classes - self.n_classes)))
        return SimilarityEnsemble(self.coordinates, self.points, self.pairs, self.reach, wide)

    def builder(self, bins: Bins, weight: np.ndarray | None = None) -> "SimilarityEnsembleBuilder":
        """Create a builder that appends rounds; `bins` and `weight` are ignored."""
        return SimilarityEnsembleBuilder(self)

    def to_arrays(self) -> Arrays:
        """Return the ensemble as a dictionary of arrays for storage."""
        return {
            "frame.centre": self.coordinates.centre,
            "frame.scale": self.coordinates.scale,
            "points": self.points,
            "pairs": self.pairs,
            "reach": self.reach,
            "coefficients": self.coefficients,
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "SimilarityEnsemble":
        """Create the ensemble from the arrays of `to_arrays`, without validation."""
        coordinates = CoordinateSystem(arrays["frame.centre"], arrays["frame.scale"])
        return cls(
            coordinates, arrays["points"], arrays["pairs"], arrays["reach"], arrays["coefficients"]
        )

    def validate(self, n_features: int) -> None:
        """Raise ModelFileError if shapes do not fit together, or values are out of range.

        Point indices must be in range, and each `reach`, a squared distance, must be positive.
        """
        n = self.pairs.shape[:1]
        fits = (
            self.points.shape[1:] == (n_features,)
            and self.coordinates.centre.shape == self.coordinates.scale.shape == (n_features,)
            and self.pairs.shape == (*n, 2)
            and self.reach.shape == n
            and self.coefficients.ndim == 2
            and self.coefficients.shape[:1] == n
        )
        if not fits:
            raise ModelFileError(
                "the similarities' arrays do not fit together: the file is damaged"
            )
        first, second = self.pairs.T
        for what, places, least in (("first", first, 0), ("second", second, -1)):
            wrong = (places < least) | (places >= len(self.points))
            if wrong.any():
                at = int(np.flatnonzero(wrong)[0])
                raise ModelFileError(
                    f"point index out of range: {what} {int(places[at])} of learner {at}: the file "
                    "is damaged"
                )
        if not (self.reach > 0).all():
            raise ModelFileError("a reach (squared distance) is not positive: the file is damaged")


class SimilarityEnsembleBuilder:
    """Builder of an ensemble: `build` returns the old ensemble with the new rounds appended."""

    def __init__(self, old: SimilarityEnsemble) -> None:
        self._old = old
        self._new: list[SimilarityLearner] = []

    def append_round(self, learners: Sequence[SimilarityLearner]) -> None:
        """Append the weak learner of one round.

        `learners` contains exactly one similarity; `ForestBuilder.append_round` accepts several
        trees.
        """
        self._new.extend(learners)

    def build(self) -> SimilarityEnsemble:
        """Return the ensemble of all rounds, with each distinct point stored once."""
        old = self._old
        if not self._new:
            return old
        place = {point.tobytes(): at for at, point in enumerate(old.points)}
        points = list(old.points)
        pairs = np.full((len(self._new), 2), -1, dtype=np.int32)
        for m, learner in enumerate(self._new):
            for side, point in enumerate(learner.points):
                key = point.tobytes()
                if key not in place:
                    place[key] = len(points)
                    points.append(point)
                pairs[m, side] = place[key]
        return SimilarityEnsemble(
            old.coordinates,
            np.stack(points),
            np.concatenate([old.pairs, pairs]),
            np.concatenate([old.reach, [learner.reach for learner in self._new]]),
            np.concatenate([old.coefficients, [learner.coefficients for learner in self._new]]),
        )
