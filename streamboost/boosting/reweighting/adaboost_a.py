"""AdaBoost.A: AdaBoost with an initial distribution and row costs (Duarte and Milidiú, 2007)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import digamma

from streamboost.boosting.constraints import (
    ARRAY_LIKE,
    DICTIONARY,
    NONE,
    Constraint,
    number_in,
    one_of,
)
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.reweighting.voting_trees import (
    VoteState,
    VotingClassifier,
    VotingTreeAlgorithm,
)
from streamboost.boosting.training_data import TrainingData
from streamboost.errors import ConfigurationError

InitialDistribution = Literal["uniform", "geometric", "zipf"] | Any


@dataclass(eq=False)
class _AdaBoostAAlgorithm(VotingTreeAlgorithm):
    """Algorithm of AdaBoost.A (Duarte and Milidiú, 2007), with weights and costs of rows.

    Trees are grown with the row weights, and their errors are measured with the row costs.
    """

    distribution: InitialDistribution = "uniform"
    half_life: float | None = None
    cost: Any = None

    def initial_state(self, data: TrainingData, scores: np.ndarray) -> VoteState:
        """Return the state of all rows, with the logarithms of their initial weights and costs."""
        state = super().initial_state(data, scores)
        state.log_growing_weights = self._log_initial_weight_of_each_row(data)
        state.log_error_weights = (
            _log_of_row_weights("cost", self._cost_of_each_row(data))
            if self.cost is not None
            else None
        )
        return state

    def _log_initial_weight_of_each_row(self, data: TrainingData) -> np.ndarray | None:
        if not isinstance(self.distribution, str):
            return _log_of_row_weights(
                "initial_distribution", _values_of_training_rows(self.distribution, data)
            )
        if self.distribution == "uniform":
            return None
        age = np.cumsum(data.weight) - data.weight
        if self.distribution == "zipf":
            return log_zipf_weights(age, data.weight)
        return log_geometric_weights(age, data.weight, self.half_life or data.weight.sum() / 4)

    def _cost_of_each_row(self, data: TrainingData) -> np.ndarray:
        if isinstance(self.cost, Mapping):
            named = {str(label): float(cost) for label, cost in self.cost.items()}
            by_class = np.array([named.get(str(label), 1.0) for label in data.classes.tolist()])
            return np.asarray(by_class[data.y])
        return _values_of_training_rows(self.cost, data)


def log_geometric_weights(age: np.ndarray, n_records: np.ndarray, half_life: float) -> np.ndarray:
    """Return the log of the mean weight of each row's records, float64 (n,).

    A record of age a, counted from 0, has a weight of 2^(-a / half_life). A row represents
    `n_records` (n,) records, whose ages are `age` (n,) to `age` + `n_records`.
    """
    log_q = -np.log(2.0) / half_life
    return np.asarray(
        age * log_q + np.log(np.expm1(n_records * log_q) / np.expm1(log_q) / n_records)
    )


def log_zipf_weights(age: np.ndarray, n_records: np.ndarray) -> np.ndarray:
    """Return the log of the mean weight of each row's records, float64 (n,).

    A record of age a, counted from 0, has a weight of 1 / (a + 1). A row represents `n_records`
    (n,) records, whose ages are `age` (n,) to `age` + `n_records`.
    """
    return np.asarray(np.log((digamma(age + n_records + 1) - digamma(age + 1)) / n_records))


def _values_of_training_rows(values: Any, data: TrainingData) -> np.ndarray:
    """Return `values`, one for each given row, without those of rows that were dropped."""
    values = np.asarray(values, dtype=np.float64)
    return values if data.row_indices is None else np.asarray(values[data.row_indices])


def _log_of_row_weights(name: str, values: np.ndarray) -> np.ndarray:
    """Return the log of `values` (n,); raise ConfigurationError with `name` if all values are 0."""
    if not values.any():
        raise ConfigurationError(
            f"{name} is 0 on all rows of positive weight: give one of them a positive number, or "
            "another row its weight"
        )
    with np.errstate(divide="ignore"):  # the log of weight 0 is -inf, and exp(-inf) is 0
        return np.asarray(np.log(values))


@dataclass(kw_only=True, eq=False, repr=False)
class AdaBoostAClassifier(VotingClassifier):
    """AdaBoost with an initial distribution and costs of the rows (Duarte and Milidiú, 2007).

    Two distributions depend on the votes f; y is the class of a row, 1 or -1. Trees are grown under
    D, proportional to D1 exp(-y f). Errors are counted under q, proportional to p exp(-y f). Let A
    be the share of q that the tree predicts wrongly. The vote ln((1 - A) / A) / 2 minimises sum p
    exp(-y f) along the tree, a bound of the error weighted by p. D1 only affects which tree is
    grown.

    The paper writes q as D p / D1, which is equal if D1 > 0 and undefined if D1 is 0. The paper's
    formulas use both D1 and its unnormalized weights, which give equal votes, as constants cancel.
    If p is proportional to D1, this is AdaBoost, not only if both are uniform, as in the paper.

    The paper has two classes. For several classes the votes are SAMME's,
    ln((1 - A) / A) + ln(K - 1), on the same q. A tree may be better than chance under D but not
    under q (the paper's A >= 1/2). The tree is then grown again under q; if it is still no better
    than chance, training ends. Training also ends after a tree without errors, whose error is set
    to 1e-10.

    Probabilities are the softmax of the votes. They are the class probabilities of records drawn
    in proportion to p; without costs, of the training rows.

    Parameters
    ----------
    initial_distribution
        D1: ``"uniform"``, ``"geometric"`` or ``"zipf"`` (1/i for the i-th record); or an array (n,)
        of row weights, not negative. The rows are in order of time, and the first, the oldest, have
        the largest weights. To give the largest weights to recent rows, reverse the order. A row of
        weight w is w consecutive records.
    half_life
        For ``"geometric"``: the number of records after which the weight halves. None: a quarter of
        the records.
    cost
        p, the cost of an error: an array (n,) for the rows, not negative; or a dictionary from
        class, or its text as in configuration files, to cost, with cost 1 for other classes. None:
        equal costs.
    learning_rate
        Learning rate: factor of each vote, in (0, 1].

    Attributes
    ----------
    committee_
        The trained `Committee`; its scores are the votes less their mean. For two classes, the
        scores are -f and f.

    Raises
    ------
    ConfigurationError
        If the length of an array differs from the number of rows; if a weight or cost is negative
        or infinite; or if no weight or cost is positive on a row of positive weight.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from streamboost import AdaBoostAClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AdaBoostAClassifier(
    ...     initial_distribution="zipf", cost={0: 5.0}, n_estimators=20, max_leaf_nodes=4
    ... )
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    _constraints: ClassVar[Mapping[str, Sequence[Constraint]]] = {
        "initial_distribution": [one_of("uniform", "geometric", "zipf"), ARRAY_LIKE],
        "half_life": [number_in("(0, inf)"), NONE],
        "cost": [DICTIONARY, ARRAY_LIKE, NONE],
    }

    initial_distribution: InitialDistribution = "uniform"
    half_life: float | None = None
    cost: Any = None

    def _create_algorithm(self) -> Algorithm:
        return _AdaBoostAAlgorithm(
            self.learning_rate,
            self.criterion,
            distribution=self.initial_distribution,
            half_life=self.half_life,
            cost=self.cost,
        )

    def _check_training(self, n_rows: int, classes: np.ndarray) -> None:
        if not isinstance(self.initial_distribution, str):
            _require_valid_row_values("initial_distribution", self.initial_distribution, n_rows)
        if isinstance(self.cost, Mapping):
            _require_valid_row_values("cost", list(self.cost.values()), len(self.cost))
        elif self.cost is not None:
            _require_valid_row_values("cost", self.cost, n_rows)


def _require_valid_row_values(name: str, values: Any, n_rows: int) -> None:
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (n_rows,):
        raise ConfigurationError(
            f"{name} has shape {values.shape}, and there are {n_rows} rows: give one number for "
            "each"
        )
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(wrong):
        raise ConfigurationError(
            f"{name} holds {values[wrong[0]]} at place {wrong[0]}: give finite numbers, 0 or more"
        )
    if not values.any():
        raise ConfigurationError(f"{name} is 0 throughout: give some row a positive number")
