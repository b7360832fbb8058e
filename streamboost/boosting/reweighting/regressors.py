"""GAMBLE with a scikit-learn regressor as weak learner (Huang, 2009, Algorithm 1)."""

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

from streamboost.boosting.early_stopping import ValidationSet
from streamboost.boosting.reweighting.gamble_step import Step, quasi_newton_step
from streamboost.boosting.training_data import TrainingData
from streamboost.errors import ConfigurationError

_LONGEST = 4.0  # largest factor of the line search
_NOTHING = 1e-12  # length of a step below which the training ends


@dataclass(frozen=True, slots=True)
class _RegressorRound:
    """Regressors of one round, for the coded labels y and for y^2, and the factor of their step.

    `of_square` is None if the estimate of y^2 follows from that of y. The step is multiplied by
    `length`.
    """

    of_y: Any
    of_square: Any | None
    length: float = 1.0

    def score_increments(self, X: np.ndarray, n_classes: int) -> np.ndarray:
        """Return the changes of the scores of the rows `X` by this round, (n, K)."""
        K = n_classes
        g = np.clip(self.of_y.predict(X), -1.0 / (K - 1), 1.0)
        if self.of_square is None:
            h = ((K - 2) * g + 1) / (K - 1)
        else:
            h = np.clip(self.of_square.predict(X), 1.0 / (K - 1) ** 2, 1.0)
        return self.length * quasi_newton_step(g, h)


@dataclass(frozen=True, slots=True)
class BoostedRegressors:
    """Boosted model whose weak learners are scikit-learn regressors, with the methods of `Model`.

    Parameters
    ----------
    n_classes
        Number of classes K.
    rounds
        The fitted regressors of each round.
    """

    n_classes: int
    rounds: Sequence[_RegressorRound]

    def class_scores(self, X: np.ndarray) -> np.ndarray:
        """Return the scores F, float64 (n, K), of `X` (n, D)."""
        scores = np.zeros((len(X), self.n_classes))
        for scores in self.staged_scores(X):  # noqa: B007
            pass
        return scores

    def staged_scores(self, X: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the scores of `X`, float64 (n, K), after each boosting round."""
        X = X.astype(np.float64)
        scores = np.zeros((len(X), self.n_classes))
        for one in self.rounds:
            scores = scores + one.score_increments(X, self.n_classes)
            yield scores

    def predicted_indices(self, scores: np.ndarray) -> np.ndarray:
        """Return the index of the largest score of each row, (n,); ties go to the first class."""
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
    held_out: ValidationSet | None = None,
) -> BoostedRegressors:
    """Train `n_estimators` rounds of clones of a scikit-learn regressor; return the model.

    With a validation set `held_out`, early stopping may keep fewer rounds.

    Raises
    ------
    ConfigurationError
        If the regressor does not support sample weights, or `step` is ``"exact"``.
    """
    K = len(data.classes)
    step = step or "line"
    if step == "exact":
        raise ConfigurationError(
            'step="exact" needs the leaves of streamboost\'s own trees: give "paper", "scaled" or '
            '"line" with a weak_learner'
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
    rounds: list[_RegressorRound] = []
    if held_out is not None:
        held_out.set_initial_scores(np.zeros(K), None, max(K - 1, 1))
    for _ in range(n_estimators if K > 1 else 0):
        weight = data.weight * np.maximum(np.exp((own.min() - own) / (K - 1)), least)
        weight *= data.weight.sum() / weight.sum()
        one = _fit_regressors_of_round(weak_learner, X, coded, weight, int(rng.integers(2**31 - 1)))
        own_f = one.score_increments(X, K)[rows, data.y]
        length = learning_rate * _factor_of_step(step, own_f, weight, K)
        if length * np.abs(own_f).max() < _NOTHING:
            break
        rounds.append(replace(one, length=length))
        own += length * own_f
        if held_out is not None:
            held_out.scores += rounds[-1].score_increments(held_out.X.astype(np.float64), K)
            held_out.record_loss(held_out.scores)
            if held_out.has_converged:
                break
    return BoostedRegressors(K, rounds if held_out is None else rounds[: held_out.best_n_rounds])


def _fit_regressors_of_round(
    weak_learner: Any, X: np.ndarray, targets: np.ndarray, weight: np.ndarray, seed: int
) -> _RegressorRound:
    """Fit clones of the regressor to `targets` (n, K), and to their squares if needed."""
    # For two classes y^2 is always 1, and so is the formula that replaces its estimate.
    once = targets.shape[1] == 2 or _determines_estimate_of_square(weak_learner)
    fitted = []
    for target in [targets] if once else [targets, targets**2]:
        regressor = clone(weak_learner)
        regressor.set_params(**dict.fromkeys(_names_of_seed_parameters(regressor), seed))
        if not get_tags(regressor).target_tags.multi_output:
            regressor = MultiOutputRegressor(regressor)
        fitted.append(regressor.fit(X, target, sample_weight=weight))
    return _RegressorRound(*fitted) if len(fitted) == 2 else _RegressorRound(fitted[0], None)


def _names_of_seed_parameters(regressor: Any) -> list[str]:
    """Return the names of the random_state parameters of a regressor and its components."""
    names = sorted(regressor.get_params(deep=True))
    return [name for name in names if name.split("__")[-1] == "random_state"]


def _determines_estimate_of_square(weak_learner: Any) -> bool:
    """Return True if the estimate of y^2 follows from the regressor's estimate of y.

    This is possible for a least-squares tree without pruning (Theorem 2 and Corollary 1): the
    estimate of y^2 is (K-2)/(K-1) times that of y, plus 1/(K-1).
    """
    return (
        isinstance(weak_learner, DecisionTreeRegressor)
        and weak_learner.criterion == "squared_error"
        and weak_learner.ccp_alpha == 0.0
        and weak_learner.min_impurity_decrease == 0.0
    )


def _factor_of_step(
    step: Step, own_class_step: np.ndarray, weight: np.ndarray, n_classes: int
) -> float:
    """Return the factor by which the quasi-Newton step of a round is multiplied.

    `own_class_step` (n,) is the step of each row's own class. For ``"line"``, the factor minimises
    the exponential loss.
    """
    K = n_classes
    if step != "line":
        return (K - 1) / K if step == "scaled" else 1.0
    low, high = 0.0, _LONGEST
    for _ in range(40):
        t = (low + high) / 2
        slope = float((weight * own_class_step * np.exp(-t * own_class_step / (K - 1))).sum())
        low, high = (t, high) if slope > 0 else (low, t)
    return high
