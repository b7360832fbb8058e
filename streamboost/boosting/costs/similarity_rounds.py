"""Search for localized similarities, the weak learners of REBEL (Appel, 2017, chapter 5)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.costs.coupled_loss import (
    FARTHEST,
    LEAST_GAIN,
    CoupledAlgorithm,
    CoupledState,
    loss_bound,
    optimal_coefficients,
)
from streamboost.boosting.similarities import (
    CoordinateSystem,
    SimilarityEnsemble,
    SimilarityLearner,
)
from streamboost.boosting.training_data import TrainingData
from streamboost.errors import DataError
from streamboost.kernels import similarity as kernels
from streamboost.trees.grower import Grower

_MOST_PAIRS = 50  # two-point learners tried in a round
_EQUAL = 1e-9  # relative tolerance of equal eigenvalues
_SIGN_ROUNDS = 20


@dataclass(slots=True)
class _DistinctRowState(CoupledState):
    """State of the U distinct training rows; the weight of each is the sum over its equal rows.

    `points` (U, D) are the coordinates of the distinct rows.
    """

    points: np.ndarray


@dataclass(eq=False)
class SimilarityAlgorithm(CoupledAlgorithm):
    """Algorithm of REBEL whose weak learners are localized similarities.

    Equal rows are first merged into points. The coefficients of a learner f minimise the bound of
    the coupled loss with the sums s+ and s- of `coupled_loss`, so that they never raise the loss.
    (The thesis uses sums over the sign of f, which can raise the loss, as f is not ±1 here.) The
    bound is far above the loss if |f| is small, as for most points in many dimensions. Hence
    `refinements` Newton steps on the loss follow. Learners are compared by the decrease of the loss
    that Newton's method predicts, sum_k slope_k^2 / (2 curvature_k), from the loss's first and
    second derivatives by each coefficient.
    """

    family = "rebel similarity"

    refinements: int
    standardize: bool

    def base_scores(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return the constant scores of least loss (K,), or the base scores of `committee`.

        Also sets the coordinates in which distances are measured. Raises DataError if the committee
        has another number of columns than `data`.
        """
        if committee is None:
            self._coordinates = CoordinateSystem.fit(
                data.X, data.weight, standardize=self.standardize
            )
        else:  # the committee's points keep the coordinates of the first training
            assert isinstance(committee.learners, SimilarityEnsemble)
            if committee.n_features != data.X.shape[1]:
                raise DataError(
                    f"the committee measures distances over {committee.n_features} columns, and X "
                    f"has {data.X.shape[1]}: its points have no values in the others; fit again"
                )
            self._coordinates = committee.learners.coordinates
        return super().base_scores(data, committee)

    def empty_learners(self, data: TrainingData) -> SimilarityEnsemble:
        """Return an ensemble without similarities, in the coordinates set by `base_scores`."""
        return SimilarityEnsemble.empty(self._coordinates, len(data.classes))

    def initial_state(self, data: TrainingData, scores: np.ndarray) -> _DistinctRowState:
        """Create the state of the distinct points from the `scores` (n, K) of the rows."""
        points, first, place = np.unique(
            self._coordinates(data.X), axis=0, return_index=True, return_inverse=True
        )
        K = len(data.classes)
        class_weight = np.zeros((len(points), K))
        np.add.at(class_weight, (place.ravel(), data.y), data.weight)
        with np.errstate(divide="ignore"):
            log_plus, log_minus = (np.log(class_weight @ c) for c in self.costs.subcosts(K))
        return _DistinctRowState(
            scores[first], log_plus, log_minus, float(data.weight.sum()), points
        )

    def grow_round(self, state: _DistinctRowState, grower: Grower) -> list[SimilarityLearner]:
        """Return a list of one similarity, or an empty list if no similarity lowers the loss."""
        plus, minus = state.weights()
        search = _SimilaritySearch(state.points, plus - minus, plus + minus)
        extra = self.smoothing * float(search.total.mean())
        best = search.best_candidate(by_newton=self.refinements > 0, smoothing=extra)
        a = optimal_coefficients(search.total, best.slope, extra)
        a, loss = refine_coefficients(plus, minus, best.values, a, self.refinements)
        if not loss < (1 - LEAST_GAIN) * search.total.sum():
            return []
        a *= self.learning_rate
        return [SimilarityLearner(state.points[best.points], best.reach, best.values, a)]

    def update_state(self, state: _DistinctRowState, trees: Sequence[SimilarityLearner]) -> None:
        """Add the values of the similarities to the scores of all points."""
        for learner in trees:
            state.scores += learner.values[:, None] * learner.coefficients


def refine_coefficients(
    plus_weights: np.ndarray,
    minus_weights: np.ndarray,
    values: np.ndarray,
    coefficients: np.ndarray,
    n_steps: int,
) -> tuple[np.ndarray, float]:
    """Return `coefficients` (K,) after `n_steps` Newton steps, and the loss with them.

    The loss is sum w+ exp(f a) + w- exp(-f a), with w+ and w- the `plus_weights` and
    `minus_weights` (n, K), f the learner's `values` (n,), and a the coefficients. A step changes a
    coefficient by at most 1, and is made only for classes whose loss falls.
    """
    f = values[:, None]
    up, down = plus_weights * np.exp(f * coefficients), minus_weights * np.exp(-f * coefficients)
    loss = (up + down).sum(axis=0)
    for _ in range(n_steps):
        slope, curvature = (f * (up - down)).sum(axis=0), (f * f * (up + down)).sum(axis=0)
        step = np.divide(-slope, curvature, out=np.zeros_like(coefficients), where=curvature > 0)
        moved = np.clip(coefficients + np.clip(step, -1, 1), -FARTHEST, FARTHEST)
        moved_up, moved_down = plus_weights * np.exp(f * moved), minus_weights * np.exp(-f * moved)
        lower = (moved_up + moved_down).sum(axis=0)
        better = lower < loss
        if not better.any():
            break
        coefficients, loss = np.where(better, moved, coefficients), np.where(better, lower, loss)
        up, down = np.where(better, moved_up, up), np.where(better, moved_down, down)
    return coefficients, float(loss.sum())


@dataclass(frozen=True, slots=True)
class _CandidateSimilarity:
    """Candidate for the weak learner of a round, with its values and the loss's derivatives.

    The weak learner is a similarity to one or two training rows (`SimilarityLearner`).
    """

    points: list[int]
    """Indices of its one or two points."""
    reach: float
    """See `SimilarityLearner`."""
    values: np.ndarray
    """Values of the candidate at all points, (U,)."""
    slope: np.ndarray
    """First derivative of the loss with respect to each coefficient, (K,)."""
    curvature: np.ndarray
    """Second derivative of the loss with respect to each coefficient, (K,)."""

    def loss_after_adding(
        self, present_loss: np.ndarray, by_newton: bool, smoothing: float
    ) -> float:
        """Return the loss after adding this candidate, as Newton's method predicts it.

        If not `by_newton`, return an upper bound of the loss instead. `present_loss` (K,) is the
        loss of each class now. `smoothing` is as in `optimal_coefficients`.
        """
        if not by_newton:
            a = optimal_coefficients(present_loss, self.slope, smoothing)
            return loss_bound(present_loss, self.slope, a)
        decrease = np.zeros_like(present_loss)
        np.divide(self.slope**2, 2 * self.curvature, out=decrease, where=self.curvature > 0)
        return float((present_loss - decrease).sum())


class _SimilaritySearch:
    """Search for the similarity of one round that lowers the loss most (section 5.4).

    `points` are (U, D). `weight_difference` is w+ - w-, and `weight_sum` is w+ + w-, of each point
    and class, (U, K). These are the weights of `CoupledState.weights`.
    """

    def __init__(
        self, points: np.ndarray, weight_difference: np.ndarray, weight_sum: np.ndarray
    ) -> None:
        self._points = points
        self._weight_difference = weight_difference
        self._weight_sum = weight_sum
        self.total = weight_sum.sum(axis=0)

    def best_candidate(self, *, by_newton: bool, smoothing: float) -> _CandidateSimilarity:
        """Return the candidate with the least `loss_after_adding`; ties go to the first."""
        return min(
            self._yield_candidates(),
            key=lambda c: c.loss_after_adding(self.total, by_newton, smoothing),
        )

    def _yield_candidates(self) -> Iterator[_CandidateSimilarity]:
        n = len(self._points)
        yield self._make_candidate([0], np.inf, np.zeros(n))  # 0: the constant
        if n == 1:
            return
        group = split_points_in_two(self._weight_difference, self.total)  # 1
        i = best_point_to_separate(self._weight_difference, self.total)  # 2
        near = self._squared_distances_from(i)
        yield self._make_candidate([i], float(np.delete(near, i).min()) / 2, near)  # 3
        left = group != group[i]
        for _ in range(_MOST_PAIRS):
            if not left.any():  # 6: the opposite group is exhausted; only its points are removed
                return
            j = int(np.where(left, near, np.inf).argmin())  # 4
            pair = self._make_candidate(
                [i, j], float(near[j]), near, self._squared_distances_from(j)
            )  # 5
            yield pair
            left &= pair.values > -0.5
            left[j] = False

    def _squared_distances_from(self, point_index: int) -> np.ndarray:
        distances = np.empty(len(self._points))
        kernels.squared_distances(self._points, point_index, distances)
        return distances

    def _make_candidate(
        self,
        point_indices: list[int],
        reach: float,
        squared_to_first: np.ndarray,
        squared_to_second: np.ndarray | None = None,
    ) -> _CandidateSimilarity:
        squared_to_second = np.zeros(0) if squared_to_second is None else squared_to_second
        values, (slope, curvature) = np.empty(len(squared_to_first)), np.empty((2, len(self.total)))
        kernels.evaluate_similarity(
            squared_to_first,
            squared_to_second,
            reach,
            self._weight_difference,
            self._weight_sum,
            values,
            slope,
            curvature,
        )
        return _CandidateSimilarity(point_indices, reach, values, slope, curvature)


def best_point_to_separate(weight_difference: np.ndarray, total_weight: np.ndarray) -> int:
    """Return the index of the point that a learner best separates from all others.

    With f = 1 at this point and -1 at the others, the learner lowers the loss most.
    `weight_difference` v = w+ - w- is (n, K), and `total_weight` (K,) is the sum of w+ + w- over
    the points. Point i minimises sum_k sqrt(total_weight_k^2 - D_k^2), with D = 2 v_i - sum_j v_j.
    """
    difference = 2 * weight_difference - weight_difference.sum(axis=0)
    rest = np.maximum((total_weight - difference) * (total_weight + difference), 0)
    return int(np.sqrt(rest).sum(axis=1).argmin())


def split_points_in_two(weight_difference: np.ndarray, total_weight: np.ndarray) -> np.ndarray:
    """Split n points into two groups for a weak learner to separate; return ±1, float64 (n,).

    This is the partition of section 5.3.

    `weight_difference` (n, K) and `total_weight` (K,) are as in `best_point_to_separate`. With
    u_i = weight_difference_i / sqrt(total_weight), a learner f lowers the loss by at least half of
    |sum f_i u_i|^2. The relaxed maximum of this sum is the leading eigenvector of the (K, K) Gram
    matrix of the u_i. The signs b of the relaxed solution are not optimal, contrary to the thesis.
    Hence the signs are refined: b_i becomes sign(u_i . sum b_j u_j), until b is unchanged. A
    refinement never lowers the sum.

    If the largest eigenvalue is multiple (balanced classes), the eigenvector closest to a class
    axis is used, and the lowest such axis. Any other choice would depend on rounding errors.
    """
    u = np.divide(
        weight_difference,
        np.sqrt(total_weight),
        out=np.zeros_like(weight_difference),
        where=total_weight > 0,
    )
    values, vectors = np.linalg.eigh(u.T @ u)
    top = vectors[:, values >= values[-1] * (1 - _EQUAL)]
    direction = top[:, -1]
    if top.shape[1] > 1:
        direction = top @ top[_index_of_first_maximum((top**2).sum(axis=1))]
    direction = direction * np.sign(direction[_index_of_first_maximum(np.abs(direction))])
    group = _sign_without_zero(u @ direction)
    for _ in range(_SIGN_ROUNDS):
        refined = _sign_without_zero(u @ (group @ u))
        if (refined == group).all():
            break
        group = refined
    return group


def _index_of_first_maximum(values: np.ndarray) -> int:
    """Return the first index at which `values` are maximal, up to rounding errors."""
    return int(np.flatnonzero(values >= values.max() * (1 - _EQUAL))[0])


def _sign_without_zero(values: np.ndarray) -> np.ndarray:
    return np.where(values >= 0, 1.0, -1.0)
