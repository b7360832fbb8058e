"""Coupled exponential loss of REBEL and AdaBoost.MH, and the coefficients that lower the loss.

A row of class c has a cost c+_ck for a high score H_k of class k, and a cost c-_ck for a low score
(the subcosts, see `subcosts`). Its loss is sum_k c+_ck exp(H_k) + c-_ck exp(-H_k). The two terms
of the sum are its weights w+ and w- for class k. A weak learner f between -1 and 1 with
coefficients a adds f(x) a to the scores H. Let s+ = sum w+ (1 + f) / 2 + w- (1 - f) / 2 over the
rows, and s- the same with w+ and w- exchanged. The loss is at most s+ exp(a) + s- exp(-a), with
equality if f is ±1 (Appel, 2017, equations 4.8-4.10). As s+ + s- is equal for all f, algorithms
compute s+ + s- once, and s+ - s- for each f.
"""

from dataclasses import dataclass

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.costs.subcosts import Costs
from streamboost.boosting.links import NO_COSTS, Link
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.training_data import TrainingData

FARTHEST = 4.0
"""Largest coefficient: one round changes a weight by at most exp(±4)."""

LEAST_GAIN = 1e-10
"""Least relative decrease of the loss; a smaller decrease may be a rounding error."""


@dataclass(slots=True)
class CoupledState:
    """State of the training rows under the coupled exponential loss.

    `scores` are (n, K). `log_plus` and `log_minus` (n, K) are the logs of row weight times c+ and
    c-, the loss weights of a high and of a low score (`Costs.subcosts`). `n_records` is the total
    row weight.
    """

    scores: np.ndarray
    log_plus: np.ndarray
    log_minus: np.ndarray
    n_records: float

    @classmethod
    def from_rows(
        cls, data: TrainingData, scores: np.ndarray, plus_costs: np.ndarray, minus_costs: np.ndarray
    ) -> "CoupledState":
        """Create the state of the rows; the costs (K, K) are c+ and c- of `Costs.subcosts`."""
        given = np.log(data.weight)[:, None]
        with np.errstate(divide="ignore"):
            log_plus, log_minus = np.log(plus_costs)[data.y], np.log(minus_costs)[data.y]
        return cls(scores.copy(), given + log_plus, given + log_minus, float(data.weight.sum()))

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the loss terms w+ = c+ exp(H) and w- = c- exp(-H), (n, K) each, for scores H.

        The terms are multiplied by the row weights, and divided by the largest term.
        """
        log_plus, log_minus = self.log_plus + self.scores, self.log_minus - self.scores
        top = max(log_plus.max(initial=-np.inf), log_minus.max(initial=-np.inf))
        if top == -np.inf:  # the errors on all rows cost nothing
            top = 0.0
        return np.exp(log_plus - top), np.exp(log_minus - top)


def optimal_coefficients(
    weight_sum: np.ndarray, weight_difference: np.ndarray, smoothing: float
) -> np.ndarray:
    """Return the coefficients a in [-4, 4] that minimise s+ exp(a) + s- exp(-a).

    s+ and s- are sums of the weights with which the loss rises and falls with a.

    Parameters
    ----------
    weight_sum, weight_difference
        s+ + s- and s+ - s-, of any shape.
    smoothing
        Number that is added to s+ and to s-, so that coefficients are finite. The loss does not
        rise, as the added term, smoothing (exp(a) + exp(-a)), is least at a = 0.

    Examples
    --------
    >>> optimal_coefficients(np.array([1.0, 1.0]), np.array([-0.6, 0.0]), 0.0).round(6)
    array([0.693147, 0.      ])
    """
    plus = np.maximum(weight_sum + weight_difference, 0) + 2 * smoothing
    minus = np.maximum(weight_sum - weight_difference, 0) + 2 * smoothing
    with np.errstate(divide="ignore", invalid="ignore"):
        a = np.log(minus / plus) / 2
    return np.asarray(np.clip(np.nan_to_num(a), -FARTHEST, FARTHEST))


def loss_bound(
    weight_sum: np.ndarray, weight_difference: np.ndarray, coefficients: np.ndarray
) -> float:
    """Return the coupled loss, or a bound of it: the sum over classes of s+ exp(a) + s- exp(-a).

    `weight_sum` is s+ + s-, `weight_difference` is s+ - s-, and `coefficients` is a, (K,) each; see
    `optimal_coefficients`.
    """
    return float(
        (weight_sum * np.cosh(coefficients) + weight_difference * np.sinh(coefficients)).sum()
    )


@dataclass(eq=False)
class CoupledAlgorithm(Algorithm):
    """Base class of the boosting algorithms that minimise the coupled exponential loss.

    The base scores are the constants of least loss, a_0 (Appel, 2017, equation 4.7).
    """

    family = "rebel"

    learning_rate: float
    smoothing: float
    costs: Costs

    @property
    def link(self) -> Link:  # type: ignore[override]
        """Conversion of scores to probabilities; see `Committee`."""
        return "costs" if self.costs.minimizes_expected_cost else "sigmoid"

    def cost_matrix(self, n_classes: int) -> np.ndarray:
        """Return the cost matrix (K, K) if predictions need one, else an empty array."""
        return (
            self.costs.validated_matrix(n_classes)
            if self.costs.minimizes_expected_cost
            else NO_COSTS
        )

    def base_scores(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return the constant scores of least loss (K,), or the base scores of `committee`."""
        if committee is not None:
            return committee.base
        mass = np.bincount(data.y, weights=data.weight, minlength=len(data.classes))
        plus, minus = (mass @ c for c in self.costs.subcosts(len(data.classes)))
        return self._optimal_coefficients(plus + minus, plus - minus)

    def temperature(self, n_classes: int) -> float:
        """Return the temperature 1/2: sigmoid(2 H) is a class's probability against all others."""
        return 0.5

    def initial_state(self, data: TrainingData, scores: np.ndarray) -> CoupledState:
        """Create the state of the training rows from their `scores` (n, K)."""
        return CoupledState.from_rows(data, scores, *self.costs.subcosts(len(data.classes)))

    def _optimal_coefficients(
        self, weight_sum: np.ndarray, weight_difference: np.ndarray
    ) -> np.ndarray:
        """Return `optimal_coefficients`; `smoothing` is a share of the mean of `weight_sum`."""
        return optimal_coefficients(
            weight_sum, weight_difference, self.smoothing * float(weight_sum.mean())
        )
