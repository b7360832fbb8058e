"""The boosting loop, written once for every family."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.errors import DataError
from streamboost.trees.bins import Bins
from streamboost.trees.forest import Forest, ForestBuilder
from streamboost.trees.grower import Grower, Tree

__all__ = ["Algorithm", "BoostingParameters", "TrainingData", "boost"]


@dataclass(frozen=True, slots=True)
class BoostingParameters:
    """How trees are grown, whatever the algorithm; the estimators document each."""

    max_leaf_nodes: int
    max_depth: int | None
    max_bins: int
    min_child_weight: float
    l2_regularization: float
    max_features: float | None
    subsample: float


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The rows of one training.

    Parameters
    ----------
    X
        float32 (n, D), C-order; NaN where missing.
    y
        uint32 (n,), places in `classes`.
    weight
        float64 (n,), positive; a row of weight 2 counts as two rows.
    classes
        The class labels (K,).
    categorical
        Which columns hold categories, bool (D,); None: none does.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    classes: np.ndarray
    categorical: np.ndarray | None = None


class Algorithm(ABC):
    """What one family of boosting does in a round.

    Its state for one training is its own: the loop only hands it back. An algorithm may choose
    its statistic anew for each tree, grow several trees a round, or grow and discard; it returns
    those that join the committee, with their leaf values set.
    """

    family: ClassVar[str]
    """Names the kind of scores a committee holds; only the same family may extend it."""

    @abstractmethod
    def base(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return the scores b of the committee, float64 (K,), as the training starts."""

    @abstractmethod
    def temperature(self, n_classes: int) -> float:
        """Return T where probabilities are softmax(F / T)."""

    @abstractmethod
    def start(self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator) -> Any:
        """Return the state for rows whose scores are now `scores`, float64 (n, K)."""

    @abstractmethod
    def round(self, state: Any, grow: Grower) -> list[Tree]:
        """Grow this round's trees; an empty list ends the training."""

    @abstractmethod
    def update(self, state: Any, trees: Sequence[Tree]) -> None:
        """Add the trees' values to the state of every row, sampled or not."""


def boost(
    algorithm: Algorithm,
    data: TrainingData,
    n_estimators: int,
    params: BoostingParameters,
    rng: np.random.Generator,
    committee: Committee | None = None,
) -> Committee:
    """Grow `n_estimators` rounds, on top of `committee` where one is given.

    The committee's classes must be the first of `data.classes`. Raises DataError when the
    committee is of another family, or knows other columns as categories.
    """
    if committee is not None and committee.family != algorithm.family:
        raise DataError(
            f"the committee holds {committee.family} scores, and this estimator adds "
            f"{algorithm.family} ones: extend it with an estimator of its own family"
        )
    bins = Bins.fit(data.X, data.weight, params.max_bins, data.categorical)
    if committee is not None:
        _require_same_categories(committee, bins)
    base = algorithm.base(data, committee)
    forest = committee.forest if committee else Forest.empty(len(base))
    forest = forest.widened(len(base))
    scores = np.tile(base, (len(data.X), 1))
    forest.add_scores(data.X, scores)
    state = algorithm.start(data, scores, rng)
    del scores
    grow = Grower(
        bins,
        bins.transform(data.X),
        max_leaf_nodes=params.max_leaf_nodes,
        max_depth=params.max_depth,
        min_child_weight=params.min_child_weight,
        l2_regularization=params.l2_regularization,
    )
    builder = ForestBuilder(forest, bins)
    for _ in range(n_estimators if len(base) > 1 else 0):  # one class leaves nothing to tell apart
        _sample(grow, params, rng)
        trees = algorithm.round(state, grow)
        if not trees:
            break
        algorithm.update(state, trees)
        builder.append_round(trees)
    return Committee(
        classes=data.classes,
        base=base,
        forest=builder.freeze(),
        n_features=data.X.shape[1],
        family=algorithm.family,
        temperature=algorithm.temperature(len(base)),
    )


def _require_same_categories(committee: Committee, bins: Bins) -> None:
    """Refuse to read a column as categories whose values older trees compare as numbers."""
    ours = np.flatnonzero(bins.categorical[: committee.n_features])
    theirs = committee.forest.categories.features
    if not np.array_equal(ours, theirs):
        raise DataError(
            f"the committee knows columns {theirs.tolist()} as categories, and this training "
            f"{ours.tolist()}: extend it with the categorical_features it was trained with"
        )


def _sample(grow: Grower, params: BoostingParameters, rng: np.random.Generator) -> None:
    """Draw this round's features and rows, without replacement."""
    features = grow.splittable
    share = _share_of_features(params.max_features, grow.n_features)
    if share < 1.0 and len(features) > 1:
        n = max(1, round(share * len(features)))
        features = np.sort(rng.choice(features, n, replace=False))
    rows, rest = grow.all_rows, None
    if params.subsample < 1.0:
        chosen = np.zeros(grow.n_rows, dtype=bool)
        n = max(1, round(params.subsample * grow.n_rows))
        chosen[rng.choice(grow.n_rows, n, replace=False)] = True
        rows, rest = grow.all_rows[chosen], grow.all_rows[~chosen]
    grow.sample(features, rows, rest)


def _share_of_features(max_features: float | None, n_features: int) -> float:
    if max_features is not None:
        return max_features
    # Measured on letter, satimage, usps and others: the wider the data, the fewer a tree needs.
    return 1.0 if n_features <= 20 else 0.5 if n_features < 300 else 0.2
