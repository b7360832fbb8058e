"""AdaBoost.A: AdaBoost from any initial distribution, under any cost (Duarte and Milidiú, 2007)."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import digamma
from sklearn.utils._param_validation import Interval, StrOptions

from streamboost.boosting.committee import Committee
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.reweighting.row_weights import Criterion
from streamboost.boosting.reweighting.voting_trees import Votes, VoteState, VotingClassifier
from streamboost.boosting.training_data import TrainingData
from streamboost.errors import ConfigurationError

__all__ = ["AdaBoostAClassifier", "log_geometric", "log_zipf"]

InitialDistribution = Literal["uniform", "geometric", "zipf"] | Any


class _TwoDistributions(Votes):
    """SAMME's votes, its trees shaped by one distribution and judged by another."""

    def __init__(
        self,
        learning_rate: float,
        criterion: Criterion,
        distribution: InitialDistribution,
        half_life: float | None,
        cost: Any,
    ) -> None:
        super().__init__(learning_rate, criterion)
        self._distribution = distribution
        self._half_life = half_life
        self._cost = cost

    def start(self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator) -> VoteState:
        state = super().start(data, scores, rng)
        state.log_shape = self._log_shape(data)
        state.log_cost = _log("cost", self._costs(data)) if self._cost is not None else None
        return state

    def _log_shape(self, data: TrainingData) -> np.ndarray | None:
        if not isinstance(self._distribution, str):
            return _log("initial_distribution", _of_rows(self._distribution, data))
        if self._distribution == "uniform":
            return None
        age = np.cumsum(data.weight) - data.weight
        if self._distribution == "zipf":
            return log_zipf(age, data.weight)
        return log_geometric(age, data.weight, self._half_life or data.weight.sum() / 4)

    def _costs(self, data: TrainingData) -> np.ndarray:
        if isinstance(self._cost, Mapping):
            named = {str(label): float(cost) for label, cost in self._cost.items()}
            by_class = np.array([named.get(str(label), 1.0) for label in data.classes.tolist()])
            return np.asarray(by_class[data.y])
        return _of_rows(self._cost, data)


def log_geometric(age: np.ndarray, weight: np.ndarray, half_life: float) -> np.ndarray:
    """Return the logarithm of what each record of a row weighs, up to a constant, float64 (n,).

    A record of age a, counted from 0, weighs q^a with q = 2^(-1 / half_life). A row of `weight`
    (n,) records has those of ages `age` (n,) to age + weight, and shares their sum, which for a
    row of one record is q^age.
    """
    log_q = -np.log(2.0) / half_life
    return np.asarray(age * log_q + np.log(np.expm1(weight * log_q) / np.expm1(log_q) / weight))


def log_zipf(age: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the same for records that weigh 1 / (a + 1); their sums are harmonic numbers."""
    return np.asarray(np.log((digamma(age + weight + 1) - digamma(age + 1)) / weight))


def _of_rows(values: Any, data: TrainingData) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    return values if data.places is None else np.asarray(values[data.places])


def _log(name: str, values: np.ndarray) -> np.ndarray:
    if not values.any():
        raise ConfigurationError(
            f"{name} is 0 on all rows of positive weight: give one of them a positive number, or "
            "another row its weight"
        )
    with np.errstate(divide="ignore"):  # a record without weight: exp(-inf) is what it weighs
        return np.asarray(np.log(values))


@dataclass(kw_only=True, eq=False, repr=False)
class AdaBoostAClassifier(VotingClassifier):
    """AdaBoost whose rows need not begin alike, nor cost alike (Duarte and Milidiú, 2007).

    Two distributions follow the votes f: D, proportional to D1 exp(-y f), under which the trees
    are grown, and q, proportional to p exp(-y f), under which their errors are counted. The vote
    ln((1 - A) / A) / 2, A being the tree's share of q that is answered wrongly, makes the bound
    on the error weighted by p, sum p exp(-y f), least along the tree. D1 only decides which tree
    is grown: the paper writes q as D p / D1, which is the same while D1 > 0 and undefined where
    it is 0, and its formulas change between D1 and the weights it comes from, which is the same
    vote, since constants cancel. With p proportional to D1 this is AdaBoost, not only when both
    are uniform, as the paper says.

    For several classes the votes are SAMME's, ln((1 - A) / A) + ln(K - 1), on the same q; the
    paper has two classes. A tree may beat chance under D and not under q (the paper's A >= 1/2,
    which need not occur with weak trees but can): it is then grown again under q, and if that one
    does not either, the training ends; so it does after a tree that makes no error, which is taken
    for 1e-10.

    Probabilities are the softmax of the votes. They are the class probabilities of records drawn
    in proportion to p: of the rows as they are if there are no costs.

    Parameters
    ----------
    initial_distribution
        D1. The order of the rows is that in time, and the first, the oldest, weigh most:
        ``"uniform"``, ``"geometric"`` or ``"zipf"`` (1/i for the i-th record); or an array (n,) of
        weights for the rows given, not negative. Give the rows the other way round where the
        newest matter most. A row of weight w is w records, one after the other.
    half_life
        For ``"geometric"``: after how many records the weight has halved. None: a quarter of them.
    cost
        p, what an error costs: an array (n,) for the rows given, not negative, or a dictionary
        from class, or its text as in configuration files, to cost, where a class not named costs
        1. None: all alike.
    n_estimators
    learning_rate
        Scales every vote, in (0, 1].
    criterion
    max_leaf_nodes, max_depth
    max_bins
    min_child_weight
    max_features
    subsample
    weight_trimming
    pruning
    categorical_features
    class_weight
    early_stopping, validation_fraction, n_iter_no_change, tol
    random_state
    n_jobs

    Attributes
    ----------
    classes_
    n_features_in_
    committee_
        The trained `Committee`; its scores are the votes less their mean, for two classes -f and
        f.
    validation_score_
    feature_importances_
    n_adds_

    Raises
    ------
    ConfigurationError
        When an array has another length than the rows, or a weight or cost is negative, infinite,
        or none of them positive on a row that weighs something.

    Notes
    -----
    `extend` with a class the committee does not know trains anew on the rows it is given, with as
    many rounds in all. A class that these rows do not have keeps its score.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **VotingClassifier._parameter_constraints,
        "initial_distribution": [StrOptions({"uniform", "geometric", "zipf"}), "array-like"],
        "half_life": [Interval(Real, 0, None, closed="neither"), None],
        "cost": [dict, "array-like", None],
    }

    initial_distribution: InitialDistribution = "uniform"
    half_life: float | None = None
    cost: Any = None

    def _algorithm(self) -> Algorithm:
        return _TwoDistributions(
            self.learning_rate, self.criterion, self.initial_distribution, self.half_life, self.cost
        )

    def _train(
        self,
        X: np.ndarray,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        *,
        seed: int,
        committee: Committee | None = None,
        n_estimators: int | None = None,
    ) -> Committee:
        """Train a committee and return it; see `BoostingClassifier.train`."""
        if not isinstance(self.initial_distribution, str):
            _check("initial_distribution", self.initial_distribution, len(X))
        if isinstance(self.cost, Mapping):
            _check("cost", list(self.cost.values()), len(self.cost))
        elif self.cost is not None:
            _check("cost", self.cost, len(X))
        return super()._train(
            X, y, sample_weight, seed=seed, committee=committee, n_estimators=n_estimators
        )


def _check(name: str, values: Any, n: int) -> None:
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (n,):
        raise ConfigurationError(
            f"{name} has shape {values.shape}, and there are {n} rows: give one number for each"
        )
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(wrong):
        raise ConfigurationError(
            f"{name} holds {values[wrong[0]]} at place {wrong[0]}: give finite numbers, 0 or more"
        )
    if not values.any():
        raise ConfigurationError(f"{name} is 0 throughout: give some row a positive number")
