"""Boosting loop, with which all algorithms train committees."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from streamboost.boosting.committee import Committee, WeakLearners
from streamboost.boosting.early_stopping import EarlyStoppingBuilder, LearnersBuilder, ValidationSet
from streamboost.boosting.links import NO_COSTS, Link
from streamboost.boosting.training_data import TrainingData
from streamboost.errors import DataError
from streamboost.trees.bins import Bins
from streamboost.trees.forest import Forest
from streamboost.trees.grower import Grower
from streamboost.trees.sums import Shard


@dataclass(frozen=True, slots=True)
class BoostingParameters:
    """Parameters of trees and sampling that all algorithms share; see `CommitteeTrainer`."""

    max_leaf_nodes: int
    max_depth: int | None
    max_bins: int | None
    max_features: float | None
    subsample: float
    min_child_weight: float = 0.0
    l2_regularization: float = 0.0
    weight_trimming: float = 0.0
    pruning: str | None = None


@dataclass(frozen=True, slots=True)
class RoundSampler:
    """Sampler of the features and rows on which each boosting round trains, without replacement.

    `grow` is the grower of all trees, and `params` has the shares to draw. `weight` (n,) is the
    number of records of each row. `rng` makes the draws. `held_out` is the validation set of early
    stopping, and `shard` the shard that holds the rows, if any.
    """

    grow: Grower
    params: BoostingParameters
    rng: np.random.Generator
    weight: np.ndarray
    held_out: ValidationSet | None = None
    shard: Shard | None = None

    @property
    def n_rows(self) -> int:
        """Number of training rows in all shards."""
        return self.grow.n_rows if self.shard is None else self.shard.n

    @property
    def has_converged(self) -> bool:
        """Whether early stopping has ended the training."""
        return self.held_out is not None and self.held_out.has_converged

    def draw_sample(self, row_weights: np.ndarray | None) -> None:
        """Draw the features and rows of a round, and set them in the grower.

        Rows of the smallest `row_weights` (n,) are left out (weight trimming). If `row_weights` is
        None, no row is trimmed.
        """
        grow, features, params = self.grow, self.grow.splittable, self.params
        n_features = self._n_sampled_features()
        if (
            row_weights is None
            and params.subsample == 1.0
            and grow.uses_all_rows_and_features
            and n_features is None
        ):
            return
        if n_features is not None:
            features = np.sort(self.rng.choice(features, n_features, replace=False))
        chosen = np.ones(grow.n_rows, dtype=bool)
        if row_weights is not None:
            chosen = weight_trimming_mask(row_weights, self.weight, params.weight_trimming)
        if params.subsample < 1.0:
            rows = np.flatnonzero(chosen)
            chosen = np.zeros(grow.n_rows, dtype=bool)
            chosen[self.rng.choice(rows, self._n_sampled_rows(len(rows)), replace=False)] = True
        grow.set_sample(features, grow.all_rows[chosen], grow.all_rows[~chosen])

    def draw_batches(
        self, n_rounds: int, max_rounds: int
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield draws of at most `max_rounds` rounds, as tuples (n rounds, features, rows).

        The features are uint32 (rounds, d), ascending, or (1, d) if all rounds have the same. The
        rows are a mask over this shard, bool (rounds, n), or (0, n) if each round has all rows.
        The draw of a round does not depend on `max_rounds`, nor on later rounds. The
        iteration ends early if early stopping ends the training.
        """
        if self.held_out is not None:
            max_rounds = min(max_rounds, self.held_out.n_iter_no_change)
        features, rows = self.grow.splittable, np.arange(self.n_rows)
        n_features, n_rows = self._n_sampled_features(), self._n_sampled_rows(len(rows))
        by_feature = by_row = self.rng
        if n_features is not None or self.params.subsample < 1.0:
            by_feature, by_row = self.rng.spawn(2)
        here = slice(None) if self.shard is None else self.shard.row_indices
        for start in range(0, n_rounds, max_rounds):
            if self.has_converged:
                return
            n = min(max_rounds, n_rounds - start)
            offered, chosen = features[None], np.zeros((0, self.grow.n_rows), dtype=bool)
            if n_features is not None:
                offered = by_feature.permuted(np.tile(features, (n, 1)), axis=1)
                offered = np.sort(offered[:, :n_features], axis=1)
            if self.params.subsample < 1.0:
                chosen = by_row.permuted(np.tile(rows < n_rows, (n, 1)), axis=1)[:, here]
            yield n, offered, chosen

    def _n_sampled_features(self) -> int | None:
        """Return the number of features to draw per round, or None for all features."""
        n, share = len(self.grow.splittable), self.params.max_features
        if share is None:
            share = _default_share_of_features(self.grow.n_features)
        return max(1, round(share * n)) if share < 1.0 and n > 1 else None

    def _n_sampled_rows(self, n_candidates: int) -> int:
        return max(1, round(self.params.subsample * n_candidates))


class Algorithm(ABC):
    """Boosting algorithm of an estimator family; the loop calls its methods in each round.

    The loop passes the state of a training to each method, without reading the state. An algorithm
    may choose new gradients or weights for each tree, grow several trees per round, or discard
    trees. `grow_round` returns the trees that are added to the committee, with their leaf values.
    An algorithm that runs many rounds in one kernel call overrides `train`.
    """

    family: ClassVar[str]
    """Name of the family; only an algorithm of the same family may extend a committee."""

    link: Link = "softmax"
    """Conversion of scores to probabilities; see `Committee`."""

    takes_new_classes: ClassVar[bool] = False
    """Whether an extension may add classes to a committee; if not, the committee is retrained."""

    def cost_matrix(self, n_classes: int) -> np.ndarray:
        """Return the cost matrix (K, K) of the committee; an empty array for equal costs."""
        return NO_COSTS

    def empty_learners(self, data: TrainingData) -> WeakLearners:
        """Return weak learners without rounds, as the start of a new committee."""
        return Forest.empty(len(data.classes))

    @abstractmethod
    def base_scores(self, data: TrainingData, committee: Committee | None) -> np.ndarray:
        """Return the base scores before the first tree, float64 (K,).

        `committee` is the committee that is extended, or None.
        """

    def temperature(self, n_classes: int) -> float:
        """Return the temperature T of the probabilities softmax(scores / T)."""
        return 1.0

    @abstractmethod
    def initial_state(self, data: TrainingData, scores: np.ndarray) -> Any:
        """Create the algorithm's state of the training rows from their `scores` float64 (n, K)."""

    def row_weights(self, state: Any) -> np.ndarray | None:
        """Return the weight of one record of each row for growing the next tree, float64 (n,).

        Weight trimming leaves out the rows of the lowest weight. None: no row is left out.
        """
        return None

    def train(self, state: Any, sampling: RoundSampler, n_rounds: int, builder: Any) -> None:
        """Append `n_rounds` rounds to `builder`, grown with `grow_round` and `update_state`."""
        for _ in range(n_rounds):
            trimmed = sampling.params.weight_trimming > 0.0
            sampling.draw_sample(self.row_weights(state) if trimmed else None)
            grown = self.grow_round(state, sampling.grow)
            if not grown:
                return
            self.update_state(state, grown)
            builder.append_round(grown)
            if sampling.has_converged:
                return

    def grow_round(self, state: Any, grower: Grower) -> list[Any]:
        """Return the trees or other weak learners of one round; an empty list ends the training."""
        raise NotImplementedError

    def update_state(self, state: Any, grown: Sequence[Any]) -> None:
        """Add the values of the round's weak learners to the state of all rows.

        The default is for trees, and for a state whose `scores` are the scores (n, K) of the rows.
        """
        for tree in grown:
            state.scores += tree.values[tree.leaf_indices(len(state.scores))]


def boost(
    algorithm: Algorithm,
    data: TrainingData,
    n_estimators: int,
    params: BoostingParameters,
    rng: np.random.Generator,
    committee: Committee | None = None,
    held_out: ValidationSet | None = None,
) -> tuple[Committee, int]:
    """Train a committee of `n_estimators` rounds, or add `n_estimators` rounds to `committee`.

    With a validation set `held_out`, early stopping may keep fewer rounds. The committee's classes
    must be the first of `data.classes`. Returns the committee and the number of additions to
    histograms: one for each row and feature counted. Raises DataError if `committee` is of another
    family, has columns that `data` lacks, or has other categorical columns.
    """
    bins = data.shard.bins if data.shard is not None else None
    if bins is None:
        bins = Bins.fit(data.X, data.weight, params.max_bins, data.categorical)
    if committee is not None:
        _require_extendable_committee(algorithm, data, committee, bins)
    base = algorithm.base_scores(data, committee)
    learners = committee.learners if committee else algorithm.empty_learners(data)
    learners = learners.with_new_classes(len(base))
    scores = np.tile(base, (len(data.X), 1))
    learners.add_scores(data.X, scores)
    state = algorithm.initial_state(data, scores)
    del scores
    names = ["max_leaf_nodes", "max_depth", "min_child_weight", "l2_regularization", "pruning"]
    ends = {name: getattr(params, name) for name in names}
    grow = Grower(bins, bins.transform(data.X), **ends)
    into = learners.builder(bins, data.weight)
    builder: LearnersBuilder | EarlyStoppingBuilder = into
    if held_out is not None:
        held_out.set_initial_scores(base, learners, algorithm.temperature(len(base)))
        builder = EarlyStoppingBuilder(
            into, lambda: algorithm.empty_learners(data).builder(bins), held_out
        )
    if len(base) > 1:  # with one class there is nothing to learn
        sampling = RoundSampler(grow, params, rng, data.weight, held_out, data.shard)
        algorithm.train(state, sampling, n_estimators, builder)
    trained = Committee(
        classes=data.classes,
        base=base,
        learners=builder.build(),
        n_features=data.X.shape[1],
        family=algorithm.family,
        temperature=algorithm.temperature(len(base)),
        link=algorithm.link,
        costs=algorithm.cost_matrix(len(base)),
    )
    return trained, grow.n_adds


def _require_extendable_committee(
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
    # Otherwise older trees would compare categories as numbers, or numbers as categories.
    ours = np.flatnonzero(bins.categorical[: committee.n_features])
    theirs = committee.learners.category_codes.features
    if not np.array_equal(ours, theirs):
        raise DataError(
            f"the committee knows columns {theirs.tolist()} as categories, and this training "
            f"{ours.tolist()}: extend it with the categorical_features it was trained with"
        )


def weight_trimming_mask(
    row_weights: np.ndarray, n_records: np.ndarray, trimmed_share: float
) -> np.ndarray:
    """Return the mask of the rows that remain after weight trimming, bool (n,).

    The rows of the lowest `row_weights` are dropped, with at most `trimmed_share` of the total
    weight (weight trimming: Friedman, Hastie and Tibshirani, 2000). Row i represents `n_records[i]`
    records of weight `row_weights[i]` each. Rows of equal `row_weights` are all kept or all
    dropped, so that the result does not depend on the order of the rows.
    """
    order = np.argsort(row_weights)
    mass = np.cumsum((row_weights * n_records)[order])
    n_out = np.searchsorted(mass, trimmed_share * mass[-1], side="right")
    return np.asarray(row_weights >= row_weights[order[min(int(n_out), len(order) - 1)]])


def _default_share_of_features(n_features: int) -> float:
    # Measured on letter, satimage, usps and others: the wider the data, the fewer a tree needs.
    return 1.0 if n_features <= 20 else 0.5 if n_features < 300 else 0.2
