"""The boosting loop, written once for every family."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.boosting.early_stopping import HeldOut, WatchedBuilder
from streamboost.boosting.learners import LearnersBuilder, WeakLearners
from streamboost.boosting.links import NO_COSTS, Link
from streamboost.boosting.training_data import TrainingData
from streamboost.errors import DataError
from streamboost.trees.bins import Bins
from streamboost.trees.forest import Forest
from streamboost.trees.grower import Grower
from streamboost.trees.sums import Shard

__all__ = ["Algorithm", "BoostingParameters", "Sampling", "Work", "boost", "heavy"]


@dataclass(frozen=True, slots=True)
class BoostingParameters:
    """How trees are grown, whatever the algorithm; the estimators document each."""

    max_leaf_nodes: int
    max_depth: int | None
    max_bins: int | None
    max_features: float | None
    subsample: float
    min_child_weight: float = 0.0
    l2_regularization: float = 0.0
    weight_trimming: float = 0.0
    pruning: str | None = None


@dataclass(slots=True)
class Work:
    """What a training took: additions to histograms, one per row and feature counted."""

    n_adds: int = 0


@dataclass(frozen=True, slots=True)
class Sampling:
    """Draws the features and rows that rounds are offered, without replacement."""

    grow: Grower
    params: BoostingParameters
    rng: np.random.Generator
    weight: np.ndarray
    held: HeldOut | None = None
    shard: Shard | None = None

    @property
    def n_rows(self) -> int:
        """Rows of the training, here or in other shards."""
        return self.grow.n_rows if self.shard is None else self.shard.n

    @property
    def enough(self) -> bool:
        """Whether rows held out tell that no more rounds are wanted."""
        return self.held is not None and self.held.enough

    def draw(self, influence: np.ndarray | None) -> None:
        """Offer a round's to `grow`, of the rows that are not trimmed by `influence` (n,)."""
        grow, features, params = self.grow, self.grow.splittable, self.params
        n_features = self._n_features()
        if influence is None and params.subsample == 1.0 and grow.whole and n_features is None:
            return
        if n_features is not None:
            features = np.sort(self.rng.choice(features, n_features, replace=False))
        chosen = np.ones(grow.n_rows, dtype=bool)
        if influence is not None:
            chosen = heavy(influence, self.weight, params.weight_trimming)
        if params.subsample < 1.0:
            rows = np.flatnonzero(chosen)
            chosen = np.zeros(grow.n_rows, dtype=bool)
            chosen[self.rng.choice(rows, self._n_rows(len(rows)), replace=False)] = True
        grow.sample(features, grow.all_rows[chosen], grow.all_rows[~chosen])

    def batches(self, n_rounds: int, most: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield how many rounds come next, at most `most`, and what they are offered.

        Features uint32 (rounds, d), ascending, or (1, d) where each round has the same; which of
        the rows here, bool (rounds, n), or (0, n) where each has all. A round's do not depend on
        `most`, nor on how many rounds follow. Ends early where there were enough.
        """
        if self.held is not None:
            most = min(most, self.held.n_iter_no_change)
        features, rows = self.grow.splittable, np.arange(self.n_rows)
        n_features, n_rows = self._n_features(), self._n_rows(len(rows))
        by_feature = by_row = self.rng
        if n_features is not None or self.params.subsample < 1.0:
            by_feature, by_row = self.rng.spawn(2)
        here = slice(None) if self.shard is None else self.shard.places
        for start in range(0, n_rounds, most):
            if self.enough:
                return
            n = min(most, n_rounds - start)
            offered, chosen = features[None], np.zeros((0, self.grow.n_rows), dtype=bool)
            if n_features is not None:
                offered = by_feature.permuted(np.tile(features, (n, 1)), axis=1)
                offered = np.sort(offered[:, :n_features], axis=1)
            if self.params.subsample < 1.0:
                chosen = by_row.permuted(np.tile(rows < n_rows, (n, 1)), axis=1)[:, here]
            yield n, offered, chosen

    def _n_features(self) -> int | None:
        """Return how many features a round is offered, None for all."""
        n, share = len(self.grow.splittable), self.params.max_features
        if share is None:
            share = _share_of_features(self.grow.n_features)
        return max(1, round(share * n)) if share < 1.0 and n > 1 else None

    def _n_rows(self, n: int) -> int:
        return max(1, round(self.params.subsample * n))


class Algorithm(ABC):
    """What one family of boosting does in a round.

    Its state for one training is its own: the loop only hands it back. An algorithm may choose
    its statistic anew for each tree, grow several trees a round, or grow and discard; `round`
    returns those that join the committee, with their leaf values set. One whose rounds need no
    Python has a `train` of its own instead, which runs many of them in a kernel.
    """

    family: ClassVar[str]
    """Names the kind of scores a committee holds; only the same family may extend it."""

    link: Link = "softmax"
    """What makes probabilities of scores; see `Committee`."""

    takes_new_classes: ClassVar[bool] = False
    """Whether a committee can go on with classes it does not know; else it is trained anew."""

    def costs(self, n_classes: int) -> np.ndarray:
        """Return what the committee's answers cost, (K, K), or an empty array if all the same."""
        return NO_COSTS

    def empty(self, data: TrainingData) -> WeakLearners:
        """Return the weak learners of a committee that has none yet: trees."""
        return Forest.empty(len(data.classes))

    @abstractmethod
    def base(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return the scores b of the committee, float64 (K,), as the training starts."""

    @abstractmethod
    def temperature(self, n_classes: int) -> float:
        """Return T by which scores are divided before the link, as in softmax(F / T)."""

    @abstractmethod
    def start(self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator) -> Any:
        """Return the state for rows whose scores are now `scores`, float64 (n, K)."""

    def influence(self, state: Any) -> np.ndarray | None:
        """Return what one record of each row weighs in the next tree, float64 (n,).

        Weight trimming leaves out the lightest; None, and it leaves out nothing.
        """
        return None

    def train(self, state: Any, sampling: Sampling, n_rounds: int, builder: Any) -> None:
        """Grow `n_rounds` rounds into the learners' `builder`: `round`, `update`, and again."""
        for _ in range(n_rounds):
            trimmed = sampling.params.weight_trimming > 0.0
            sampling.draw(self.influence(state) if trimmed else None)
            grown = self.round(state, sampling.grow)
            if not grown:
                return
            self.update(state, grown)
            builder.append_round(grown)
            if sampling.enough:
                return

    def round(self, state: Any, grow: Grower) -> list[Any]:
        """Return this round's trees, or other weak learners; an empty list ends the training."""
        raise NotImplementedError

    def update(self, state: Any, grown: Sequence[Any]) -> None:
        """Add the values of what `round` returned to the state of every row, sampled or not."""
        raise NotImplementedError


def boost(
    algorithm: Algorithm,
    data: TrainingData,
    n_estimators: int,
    params: BoostingParameters,
    rng: np.random.Generator,
    committee: Committee | None = None,
    work: Work | None = None,
    held: HeldOut | None = None,
) -> Committee:
    """Grow `n_estimators` rounds, on top of `committee` where one is given.

    With rows `held` out it may be fewer: as many as are best for these. The committee's classes
    must be the first of `data.classes`; `work` is added to. Raises
    DataError when the committee is of another family, scores columns that `data` does not have, or
    knows other columns as categories.
    """
    bins = data.shard.bins if data.shard is not None else None
    if bins is None:
        bins = Bins.fit(data.X, data.weight, params.max_bins, data.categorical)
    if committee is not None:
        _check_extension(algorithm, data, committee, bins)
    base = algorithm.base(data, committee)
    learners = committee.learners if committee else algorithm.empty(data)
    learners = learners.widened(len(base))
    scores = np.tile(base, (len(data.X), 1))
    learners.add_scores(data.X, scores)
    state = algorithm.start(data, scores, rng)
    del scores
    grow = _grower(bins, data, params)
    builder: LearnersBuilder = learners.builder(bins, data.weight)
    if held is not None:
        held.begin(base, learners, algorithm.temperature(len(base)))
        builder = WatchedBuilder(builder, lambda: algorithm.empty(data).builder(bins), held)
    if len(base) > 1:  # one class leaves nothing to tell apart
        sampling = Sampling(grow, params, rng, data.weight, held, data.shard)
        algorithm.train(state, sampling, n_estimators, builder)
    if work is not None:
        work.n_adds += grow.n_adds
    return Committee(
        classes=data.classes,
        base=base,
        learners=builder.freeze(),
        n_features=data.X.shape[1],
        family=algorithm.family,
        temperature=algorithm.temperature(len(base)),
        link=algorithm.link,
        costs=algorithm.costs(len(base)),
    )


def _check_extension(
    algorithm: Algorithm, data: TrainingData, committee: Committee, bins: Bins
) -> None:
    if committee.family != algorithm.family:
        raise DataError(
            f"the committee holds {committee.family} scores, and this estimator adds "
            f"{algorithm.family} ones: extend it with an estimator of its own family"
        )
    if committee.n_features > data.X.shape[1]:
        raise DataError(
            f"the committee scores {committee.n_features} features, and X has {data.X.shape[1]}: "
            "give all of them; a missing value is NaN"
        )
    # Older trees would compare as numbers what is read as categories now, or the reverse.
    ours = np.flatnonzero(bins.categorical[: committee.n_features])
    theirs = committee.learners.categories.features
    if not np.array_equal(ours, theirs):
        raise DataError(
            f"the committee knows columns {theirs.tolist()} as categories, and this training "
            f"{ours.tolist()}: extend it with the categorical_features it was trained with"
        )


def _grower(bins: Bins, data: TrainingData, params: BoostingParameters) -> Grower:
    return Grower(
        bins,
        bins.transform(data.X),
        max_leaf_nodes=params.max_leaf_nodes,
        max_depth=params.max_depth,
        min_child_weight=params.min_child_weight,
        l2_regularization=params.l2_regularization,
        pruning=params.pruning,
    )


def heavy(influence: np.ndarray, weight: np.ndarray, share: float) -> np.ndarray:
    """Return which rows stay, bool (n,), when the lightest of at most `share` of all weight go.

    `influence` (n,) is what one of a row's `weight` (n,) records weighs. Rows of equal influence
    stay or go together, so that neither their order nor their being counted as one row matters
    (weight trimming: Friedman, Hastie and Tibshirani, 2000).
    """
    order = np.argsort(influence)
    mass = np.cumsum((influence * weight)[order])
    n_out = np.searchsorted(mass, share * mass[-1], side="right")
    return np.asarray(influence >= influence[order[min(int(n_out), len(order) - 1)]])


def _share_of_features(n_features: int) -> float:
    # Measured on letter, satimage, usps and others: the wider the data, the fewer a tree needs.
    return 1.0 if n_features <= 20 else 0.5 if n_features < 300 else 0.2
