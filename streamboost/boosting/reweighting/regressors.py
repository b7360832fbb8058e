"""GAMBLE over a scikit-learn regressor (Huang, 2009, Algorithm 1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import clone
from sklearn.multioutput import MultiOutputRegressor
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from streamboost.boosting.early_stopping import HeldOut
from streamboost.boosting.reweighting.gamble_step import Step, quasi_newton
from streamboost.boosting.training_data import TrainingData
from streamboost.errors import ConfigurationError

__all__ = ["RegressorRounds", "boost_regressor"]

_LONGEST = 4.0  # how far the line search may stretch a round's step
_NOTHING = 1e-12  # a step this short tells that the regressors have nothing more to say


@dataclass(frozen=True, slots=True)
class _Round:
    """Fitted regressors of y and of y^2, None where the first gives both, and a step's length."""

    of_y: Any
    of_square: Any | None
    length: float = 1.0

    def step(self, X: np.ndarray, n_classes: int) -> np.ndarray:
        """Return the step (n, K) at `X`, from estimates clipped to what they estimate."""
        K = n_classes
        g = np.clip(self.of_y.predict(X), -1.0 / (K - 1), 1.0)
        if self.of_square is None:
            h = ((K - 2) * g + 1) / (K - 1)
        else:
            h = np.clip(self.of_square.predict(X), 1.0 / (K - 1) ** 2, 1.0)
        return self.length * quasi_newton(g, h)


@dataclass(frozen=True, slots=True)
class RegressorRounds:
    """A boosted model F(x) = sum of the rounds' steps; scored as a `Committee` is.

    Parameters
    ----------
    n_classes
        K.
    rounds
        The fitted regressors, one round after the other.
    """

    n_classes: int
    rounds: Sequence[_Round]

    def decision(self, X: np.ndarray) -> np.ndarray:
        """Return the scores F, float64 (n, K), of `X` (n, D)."""
        scores = np.zeros((len(X), self.n_classes))
        for scores in self.staged_decision(X):  # noqa: B007
            pass
        return scores

    def staged_decision(self, X: np.ndarray) -> Iterator[np.ndarray]:
        """Yield `decision` after each round."""
        X = X.astype(np.float64)
        scores = np.zeros((len(X), self.n_classes))
        for one in self.rounds:
            scores = scores + one.step(X, self.n_classes)
            yield scores

    def best(self, scores: np.ndarray) -> np.ndarray:
        """Return the place of the largest score (n,) of `scores` (n, K); ties go to the first."""
        return np.asarray(scores.argmax(axis=1))

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the class probabilities (n, K) that belong to `scores` (n, K)."""
        return np.asarray(softmax(scores / max(self.n_classes - 1, 1), axis=1))


def boost_regressor(
    weak_learner: Any,
    data: TrainingData,
    n_estimators: int,
    *,
    learning_rate: float,
    step: Step | None,
    weight_floor: float,
    rng: np.random.Generator,
    held: HeldOut | None = None,
) -> RegressorRounds:
    """Fit `n_estimators` rounds of clones of `weak_learner`; fewer once a step changes nothing.

    With rows `held` out, as many as are best for these.

    Raises
    ------
    ConfigurationError
        When the regressor takes no sample weights, or `step` asks for leaves.
    """
    K = len(data.classes)
    step = step or "line"
    if step == "exact":
        raise ConfigurationError(
            'step="exact" needs the leaves of streamboost\'s own trees: give "paper", "scaled" or '
            '"line" beside a weak_learner'
        )
    if not has_fit_parameter(weak_learner, "sample_weight"):
        raise ConfigurationError(
            f"the weak_learner {type(weak_learner).__name__} takes no sample_weight in fit: "
            "boosting needs a regressor that does"
        )
    X = data.X.astype(np.float64)
    rows = np.arange(len(X))
    coded = np.full((len(X), K), -1.0 / max(K - 1, 1))
    coded[rows, data.y] = 1.0
    own = np.zeros(len(X))
    least = weight_floor if K > 2 else 0.0
    rounds: list[_Round] = []
    if held is not None:
        held.begin(np.zeros(K), None, max(K - 1, 1))
    for _ in range(n_estimators if K > 1 else 0):
        weight = data.weight * np.maximum(np.exp((own.min() - own) / (K - 1)), least)
        weight *= data.weight.sum() / weight.sum()
        one = _fit(weak_learner, X, coded, weight, int(rng.integers(2**31 - 1)))
        own_f = one.step(X, K)[rows, data.y]
        length = learning_rate * _length(step, own_f, weight, K)
        if length * np.abs(own_f).max() < _NOTHING:
            break
        rounds.append(replace(one, length=length))
        own += length * own_f
        if held is not None:
            held.scores += rounds[-1].step(held.X.astype(np.float64), K)
            held.look(held.scores)
            if held.enough:
                break
    return RegressorRounds(K, rounds if held is None else rounds[: held.best])


def _fit(
    weak_learner: Any, X: np.ndarray, coded: np.ndarray, weight: np.ndarray, seed: int
) -> _Round:
    """Fit one clone to y (n, K), and another to y^2 unless the first gives both."""
    # For two classes y^2 is 1 throughout, and so is the formula that stands in for its estimate.
    once = coded.shape[1] == 2 or _one_fit_gives_both(weak_learner)
    fitted = []
    for target in [coded] if once else [coded, coded**2]:
        regressor = clone(weak_learner)
        regressor.set_params(**dict.fromkeys(_seeds(regressor), seed))
        if not get_tags(regressor).target_tags.multi_output:
            regressor = MultiOutputRegressor(regressor)
        fitted.append(regressor.fit(X, target, sample_weight=weight))
    return _Round(*fitted) if len(fitted) == 2 else _Round(fitted[0], None)


def _seeds(regressor: Any) -> list[str]:
    """Return the parameters that seed the regressor or what it is made of."""
    names = sorted(regressor.get_params(deep=True))
    return [name for name in names if name.split("__")[-1] == "random_state"]


def _one_fit_gives_both(weak_learner: Any) -> bool:
    """Whether the fit to y^2 is (K-2)/(K-1) of the fit to y, plus 1/(K-1).

    So it is for a least-squares tree (Theorem 2 and Corollary 1): y^2 is that function of y, the
    same for every class, and the sums of squares keep their order. Pruning compares them with a
    number of the user's, and they are not the same for both.
    """
    return (
        isinstance(weak_learner, DecisionTreeRegressor)
        and weak_learner.criterion == "squared_error"
        and weak_learner.ccp_alpha == 0.0
        and weak_learner.min_impurity_decrease == 0.0
    )


def _length(step: Step, own_f: np.ndarray, weight: np.ndarray, n_classes: int) -> float:
    """Return by what the printed step, `own_f` (n,) at each row's own class, is multiplied."""
    K = n_classes
    if step != "line":
        return (K - 1) / K if step == "scaled" else 1.0
    low, high = 0.0, _LONGEST
    for _ in range(40):
        t = (low + high) / 2
        slope = float((weight * own_f * np.exp(-t * own_f / (K - 1))).sum())
        low, high = (t, high) if slope > 0 else (low, t)
    return high
