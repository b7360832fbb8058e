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
    bound,
    coefficients,
)
from streamboost.boosting.costs.subcosts import Costs
from streamboost.boosting.similarities import Frame, Similarities, Similarity
from streamboost.boosting.training_data import TrainingData
from streamboost.errors import DataError
from streamboost.kernels import similarity as kernels
from streamboost.trees.grower import Grower

__all__ = ["SimilarityRounds", "binarize", "isolating", "refine"]

_MOST_PAIRS = 50  # two-point learners tried in a round
_EQUAL = 1e-9  # relative tolerance of equal eigenvalues
_SIGN_ROUNDS = 20


@dataclass(slots=True)
class _State(CoupledState):
    """State with one row per distinct point (U, D), which merges all records at that point."""

    points: np.ndarray


class SimilarityRounds(CoupledAlgorithm):
    """REBEL algorithm with similarities: a constant, an isolating point or a pair per round.

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
        """Set the coordinates of the points, and return a_0 or the committee's base scores.

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
        """Create similarities without rounds, in the coordinates that `base_scores` set."""
        return Similarities.empty(self._frame, len(data.classes))

    def initial_state(self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator) -> _State:
        """Create the state of the distinct points."""
        points, first, place = np.unique(
            self._frame(data.X), axis=0, return_index=True, return_inverse=True
        )
        K = len(data.classes)
        mass = np.zeros((len(points), K))
        np.add.at(mass, (place.ravel(), data.y), data.weight)
        with np.errstate(divide="ignore"):
            log_plus, log_minus = (np.log(mass @ c) for c in self._costs.subcosts(K))
        return _State(scores[first], log_plus, log_minus, float(data.weight.sum()), points)

    def grow_round(self, state: _State, grow: Grower) -> list[Similarity]:
        """Return one similarity, or none if none lowers the loss."""
        plus, minus = state.weights()
        search = _Search(state.points, plus - minus, plus + minus)
        extra = self._smoothing * float(search.total.mean())
        best = search.run(by_newton=self._refinements > 0, extra=extra)
        a = coefficients(search.total, best.slope, extra)
        a, loss = refine(plus, minus, best.values, a, self._refinements)
        if not loss < (1 - LEAST_GAIN) * search.total.sum():
            return []
        a *= self._learning_rate
        return [Similarity(state.points[best.points], best.reach, best.values, a)]

    def update_state(self, state: _State, trees: Sequence[Similarity]) -> None:
        """Add the similarities' values to the points' scores."""
        for learner in trees:
            state.scores += learner.values[:, None] * learner.coefficients


def refine(
    plus: np.ndarray, minus: np.ndarray, values: np.ndarray, a: np.ndarray, steps: int
) -> tuple[np.ndarray, float]:
    """Return the coefficients after Newton `steps` from `a` (K,), and their loss.

    The loss is sum w+ exp(f a) + w- exp(-f a), with w+ and w- `plus` and `minus` (n, K) and f
    `values` (n,). The length of a step is at most 1. The step of a class is kept only if it lowers
    the loss of that class.
    """
    f = values[:, None]
    up, down = plus * np.exp(f * a), minus * np.exp(-f * a)
    loss = (up + down).sum(axis=0)
    for _ in range(steps):
        slope, curvature = (f * (up - down)).sum(axis=0), (f * f * (up + down)).sum(axis=0)
        step = np.divide(-slope, curvature, out=np.zeros_like(a), where=curvature > 0)
        moved = np.clip(a + np.clip(step, -1, 1), -FARTHEST, FARTHEST)
        moved_up, moved_down = plus * np.exp(f * moved), minus * np.exp(-f * moved)
        lower = (moved_up + moved_down).sum(axis=0)
        better = lower < loss
        if not better.any():
            break
        a, loss = np.where(better, moved, a), np.where(better, lower, loss)
        up, down = np.where(better, moved_up, up), np.where(better, moved_down, down)
    return a, float(loss.sum())


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Candidate learner on points (indices), with its values and the sums of its derivatives."""

    points: list[int]
    reach: float
    values: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray

    def loss(self, total: np.ndarray, by_newton: bool, extra: float) -> float:
        """Return the predicted loss: an upper bound, or the prediction of Newton's method."""
        if not by_newton:
            return bound(total, self.slope, coefficients(total, self.slope, extra))
        promise = np.divide(
            self.slope**2, 2 * self.curvature, out=np.zeros_like(total), where=self.curvature > 0
        )
        return float((total - promise).sum())


class _Search:
    """Search of one round (section 5.4), with the thesis's numbering of the steps."""

    def __init__(self, points: np.ndarray, pull: np.ndarray, mass: np.ndarray) -> None:
        self._points = points
        self._pull = pull
        self._mass = mass
        self.total = mass.sum(axis=0)

    def run(self, *, by_newton: bool, extra: float) -> _Candidate:
        """Return the candidate of least predicted loss; ties go to the first."""
        return min(self._candidates(), key=lambda c: c.loss(self.total, by_newton, extra))

    def _candidates(self) -> Iterator[_Candidate]:
        n = len(self._points)
        yield self._candidate([0], np.inf, np.zeros(n))  # 0: the constant
        if n == 1:
            return
        group = binarize(self._pull, self.total)  # 1
        i = isolating(self._pull, self.total)  # 2
        near = self._distances(i)
        yield self._candidate([i], float(np.delete(near, i).min()) / 2, near)  # 3
        left = group != group[i]
        for _ in range(_MOST_PAIRS):
            if not left.any():  # 6: the opposite group is exhausted; only its points are removed
                return
            j = int(np.where(left, near, np.inf).argmin())  # 4
            pair = self._candidate([i, j], float(near[j]), near, self._distances(j))  # 5
            yield pair
            left &= pair.values > -0.5
            left[j] = False

    def _distances(self, at: int) -> np.ndarray:
        distances = np.empty(len(self._points))
        kernels.squared_distances(self._points, at, distances)
        return distances

    def _candidate(
        self, points: list[int], reach: float, near: np.ndarray, far: np.ndarray | None = None
    ) -> _Candidate:
        far = np.zeros(0) if far is None else far
        values, (slope, curvature) = np.empty(len(near)), np.empty((2, len(self.total)))
        kernels.evaluate_similarity(
            near, far, reach, self._pull, self._mass, values, slope, curvature
        )
        return _Candidate(points, reach, values, slope, curvature)


def isolating(pull: np.ndarray, total: np.ndarray) -> int:
    """Return the index of the point whose exact separation from all others lowers the loss most.

    `pull` is w+ - w- (n, K), and `total` is the sum of w+ + w- (K,). The point minimises
    sum_k sqrt(total_k^2 - D_k^2), with D = 2 pull_i - sum pull.
    """
    difference = 2 * pull - pull.sum(axis=0)
    rest = np.maximum((total - difference) * (total + difference), 0)
    return int(np.sqrt(rest).sum(axis=1).argmin())


def binarize(pull: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return b, the group of each point, ±1 (n,), which a weak learner separates (section 5.3).

    With u_i = pull_i / sqrt(total), a learner f lowers the loss by at least half of
    |sum f_i u_i|^2. The relaxed maximum of this sum is the leading eigenvector of the (K, K) Gram
    matrix of the u_i. The signs of the relaxed solution are not optimal, contrary to the thesis.
    Hence the signs are refined: b becomes sign(u_i . sum b_j u_j), until b is unchanged. A
    refinement never lowers the sum.

    If the largest eigenvalue is multiple (balanced classes), the eigenvector closest to a class
    axis is used, and the lowest such axis. Any other choice would depend on rounding errors.
    """
    u = np.divide(pull, np.sqrt(total), out=np.zeros_like(pull), where=total > 0)
    values, vectors = np.linalg.eigh(u.T @ u)
    top = vectors[:, values >= values[-1] * (1 - _EQUAL)]
    direction = top[:, -1]
    if top.shape[1] > 1:
        direction = top @ top[_first_largest((top**2).sum(axis=1))]
    direction = direction * np.sign(direction[_first_largest(np.abs(direction))])
    group = _sign(u @ direction)
    for _ in range(_SIGN_ROUNDS):
        refined = _sign(u @ (group @ u))
        if (refined == group).all():
            break
        group = refined
    return group


def _first_largest(values: np.ndarray) -> int:
    """Return the first index whose value equals the maximum up to rounding errors."""
    return int(np.flatnonzero(values >= values.max() * (1 - _EQUAL))[0])


def _sign(values: np.ndarray) -> np.ndarray:
    return np.where(values >= 0, 1.0, -1.0)
