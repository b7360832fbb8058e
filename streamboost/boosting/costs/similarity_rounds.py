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
from streamboost.boosting.costs.subcosts import Costs
from streamboost.boosting.similarities import Frame, Similarities, Similarity
from streamboost.boosting.training_data import TrainingData
from streamboost.errors import DataError
from streamboost.kernels import similarity as kernels
from streamboost.trees.grower import Grower

__all__ = [
    "SimilarityAlgorithm",
    "most_isolated_point",
    "refine_coefficients",
    "split_points_in_two",
]

_MOST_PAIRS = 50  # two-point learners tried in a round
_EQUAL = 1e-9  # relative tolerance of equal eigenvalues
_SIGN_ROUNDS = 20


@dataclass(slots=True)
class _State(CoupledState):
    """State of the distinct points (U, D), each with the summed weights of its rows."""

    points: np.ndarray


class SimilarityAlgorithm(CoupledAlgorithm):
    """Algorithm of REBEL whose weak learners are localized similarities.

    Rows are first merged into distinct points, which share their scores. The coefficients of a
    learner are computed from the soft sums of the coupled loss (w (1 ± f) / 2), which lower the
    loss at least as much as its bound. The thesis's sums over the sign of f can raise the loss, as
    f is not ±1 here. The bound is loose if |f| is small, as for most points in many dimensions.
    Hence `refinements` Newton steps on the loss follow. Learners are then compared by the decrease
    that Newton's method predicts, sum_k slope_k^2 / curvature_k.
    """

    family = "rebel similarity"

    def __init__(
        self,
        learning_rate: float,
        smoothing: float,
        costs: Costs,
        *,
        refinements: int,
        standardize: bool,
    ) -> None:
        super().__init__(learning_rate, smoothing, costs)
        self._refinements = refinements
        self._standardize = standardize

    def base_scores(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Choose the distance frame; return the constant a_0 (K,) or the committee's base scores.

        Raises DataError if the committee measures distances over fewer columns.
        """
        if committee is None:
            self._frame = Frame.fit(data.X, data.weight, standardize=self._standardize)
        else:  # the committee's points keep the coordinates of the first training
            assert isinstance(committee.learners, Similarities)
            if committee.n_features != data.X.shape[1]:
                raise DataError(
                    f"the committee measures distances over {committee.n_features} columns, and X "
                    f"has {data.X.shape[1]}: its points have no values in the others; fit again"
                )
            self._frame = committee.learners.frame
        return super().base_scores(data, committee)

    def empty_learners(self, data: TrainingData) -> Similarities:
        """Create similarities without rounds in the frame that `base_scores` chose."""
        return Similarities.empty(self._frame, len(data.classes))

    def initial_state(
        self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator
    ) -> _State:
        """Create the state of the distinct points from the rows' `scores` (n, K)."""
        points, first, place = np.unique(
            self._frame(data.X), axis=0, return_index=True, return_inverse=True
        )
        K = len(data.classes)
        mass = np.zeros((len(points), K))
        np.add.at(mass, (place.ravel(), data.y), data.weight)
        with np.errstate(divide="ignore"):
            log_plus, log_minus = (np.log(mass @ c) for c in self._costs.subcosts(K))
        return _State(scores[first], log_plus, log_minus, float(data.weight.sum()), points)

    def grow_round(self, state: _State, grower: Grower) -> list[Similarity]:
        """Return a list of one similarity, or an empty list if none lowers the loss."""
        plus, minus = state.weights()
        search = _Search(state.points, plus - minus, plus + minus)
        extra = self._smoothing * float(search.total.mean())
        best = search.best_candidate(by_newton=self._refinements > 0, smoothing=extra)
        a = optimal_coefficients(search.total, best.slope, extra)
        a, loss = refine_coefficients(plus, minus, best.values, a, self._refinements)
        if not loss < (1 - LEAST_GAIN) * search.total.sum():
            return []
        a *= self._learning_rate
        return [Similarity(state.points[best.points], best.reach, best.values, a)]

    def update_state(self, state: _State, trees: Sequence[Similarity]) -> None:
        """Add the values of the similarities to the scores of all points."""
        for learner in trees:
            state.scores += learner.values[:, None] * learner.coefficients


def refine_coefficients(
    plus: np.ndarray, minus: np.ndarray, values: np.ndarray, start: np.ndarray, n_steps: int
) -> tuple[np.ndarray, float]:
    """Return coefficients (K,) refined by Newton steps from `start` (K,), and their loss.

    The loss is sum w+ exp(f a) + w- exp(-f a), with w+ and w- `plus` and `minus` (n, K) and f
    `values` (n,). The length of a step is at most 1. The step of a class is kept only if it lowers
    the loss of that class.
    """
    f = values[:, None]
    up, down = plus * np.exp(f * start), minus * np.exp(-f * start)
    loss = (up + down).sum(axis=0)
    for _ in range(n_steps):
        slope, curvature = (f * (up - down)).sum(axis=0), (f * f * (up + down)).sum(axis=0)
        step = np.divide(-slope, curvature, out=np.zeros_like(start), where=curvature > 0)
        moved = np.clip(start + np.clip(step, -1, 1), -FARTHEST, FARTHEST)
        moved_up, moved_down = plus * np.exp(f * moved), minus * np.exp(-f * moved)
        lower = (moved_up + moved_down).sum(axis=0)
        better = lower < loss
        if not better.any():
            break
        start, loss = np.where(better, moved, start), np.where(better, lower, loss)
        up, down = np.where(better, moved_up, up), np.where(better, moved_down, down)
    return start, float(loss.sum())


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Candidate for the similarity of a round, with its values and loss derivatives."""

    points: list[int]
    reach: float
    values: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray

    def predicted_loss(self, total: np.ndarray, by_newton: bool, smoothing: float) -> float:
        """Return the loss after adding the candidate: an upper bound, or Newton's prediction."""
        if not by_newton:
            return loss_bound(total, self.slope, optimal_coefficients(total, self.slope, smoothing))
        promise = np.divide(
            self.slope**2, 2 * self.curvature, out=np.zeros_like(total), where=self.curvature > 0
        )
        return float((total - promise).sum())


class _Search:
    """Search for the best similarity of one round (section 5.4)."""

    def __init__(self, points: np.ndarray, pull: np.ndarray, mass: np.ndarray) -> None:
        self._points = points
        self._pull = pull
        self._mass = mass
        self.total = mass.sum(axis=0)

    def best_candidate(self, *, by_newton: bool, smoothing: float) -> _Candidate:
        """Return the candidate with the least predicted loss; ties go to the first."""
        return min(
            self._candidates(), key=lambda c: c.predicted_loss(self.total, by_newton, smoothing)
        )

    def _candidates(self) -> Iterator[_Candidate]:
        n = len(self._points)
        yield self._make_candidate([0], np.inf, np.zeros(n))  # 0: the constant
        if n == 1:
            return
        group = split_points_in_two(self._pull, self.total)  # 1
        i = most_isolated_point(self._pull, self.total)  # 2
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

    def _squared_distances_from(self, point: int) -> np.ndarray:
        distances = np.empty(len(self._points))
        kernels.squared_distances(self._points, point, distances)
        return distances

    def _make_candidate(
        self,
        points: list[int],
        reach: float,
        squared_to_first: np.ndarray,
        squared_to_second: np.ndarray | None = None,
    ) -> _Candidate:
        squared_to_second = np.zeros(0) if squared_to_second is None else squared_to_second
        values, (slope, curvature) = np.empty(len(squared_to_first)), np.empty((2, len(self.total)))
        kernels.evaluate_similarity(
            squared_to_first,
            squared_to_second,
            reach,
            self._pull,
            self._mass,
            values,
            slope,
            curvature,
        )
        return _Candidate(points, reach, values, slope, curvature)


def most_isolated_point(weight_difference: np.ndarray, total_weight: np.ndarray) -> int:
    """Return the index of the point whose separation from all others lowers the loss most.

    `weight_difference` is w+ - w- (n, K), and `total_weight` is the sum of w+ + w- (K,). The point
    minimises sum_k sqrt(total_k^2 - D_k^2), with D = 2 pull_i - sum pull.
    """
    difference = 2 * weight_difference - weight_difference.sum(axis=0)
    rest = np.maximum((total_weight - difference) * (total_weight + difference), 0)
    return int(np.sqrt(rest).sum(axis=1).argmin())


def split_points_in_two(weight_difference: np.ndarray, total_weight: np.ndarray) -> np.ndarray:
    """Split n points into two groups for a weak learner to separate; return ±1, float64 (n,).

    This is the partition of section 5.3.

    With u_i = pull_i / sqrt(total), a learner f lowers the loss by at least half of
    |sum f_i u_i|^2. The relaxed maximum of this sum is the leading eigenvector of the (K, K) Gram
    matrix of the u_i. The signs of the relaxed solution are not optimal, contrary to the thesis.
    Hence the signs are refined: b becomes sign(u_i . sum b_j u_j), until b is unchanged. A
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
        direction = top @ top[_first_maximum_index((top**2).sum(axis=1))]
    direction = direction * np.sign(direction[_first_maximum_index(np.abs(direction))])
    group = _nonzero_sign(u @ direction)
    for _ in range(_SIGN_ROUNDS):
        refined = _nonzero_sign(u @ (group @ u))
        if (refined == group).all():
            break
        group = refined
    return group


def _first_maximum_index(values: np.ndarray) -> int:
    """Return the first index whose value equals the maximum, up to rounding errors."""
    return int(np.flatnonzero(values >= values.max() * (1 - _EQUAL))[0])


def _nonzero_sign(values: np.ndarray) -> np.ndarray:
    return np.where(values >= 0, 1.0, -1.0)
