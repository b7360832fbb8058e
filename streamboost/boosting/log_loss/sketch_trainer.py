"""Algorithm and trainer of SketchLogitBoost; its classifier is in `sketch`."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from streamboost.boosting.committee_trainer import CommitteeTrainer
from streamboost.boosting.log_loss.sharded import ShardTrainer, multithreaded_tree_grower
from streamboost.boosting.log_loss.softmax import CLAMP, SoftmaxAlgorithm
from streamboost.boosting.loop import Algorithm, BoostingParameters, RoundSampler
from streamboost.boosting.training_data import TrainingData
from streamboost.kernels.growing.nodes import NODE
from streamboost.kernels.growing.sketch import (
    GrownTrees,
    RandomDraws,
    RoundWorkspace,
    SketchRows,
    boost_rounds,
)
from streamboost.kernels.softmax import softmax
from streamboost.trees.forest import ForestBuilder
from streamboost.trees.grower import Grower
from streamboost.trees.histogram_input import choose_gradient_format
from streamboost.trees.sums import ThreadAllReduce, quantize_weights

_ROWS_A_CALL = 2**17
"""Rows times rounds in one call of the kernel. A call takes milliseconds, so that the overhead of
Python is negligible, and the arrays of drawn features and rows stay small."""


@dataclass(frozen=True, slots=True)
class _SketchState:
    """Training rows before the first round: classes, weights float32 (n,), probabilities (n, K).

    `records` are the weights as integer multiples of 1/`scale`, int64 (n,), or (1,) if all weights
    are equal. `total` is the total weight over all shards.
    """

    y: np.ndarray
    weight: np.ndarray
    probabilities: np.ndarray
    records: np.ndarray
    scale: float
    total: float


_ROWS_A_THREAD = 100_000
"""Least rows per thread: with fewer rows, a round takes less time than its twenty or so thread
synchronizations."""


@dataclass(eq=False)
class _SketchLogitBoost(SoftmaxAlgorithm):
    """Algorithm of SketchLogitBoost: each round grows a Newton tree along one random K-vector."""

    n_jobs: int

    def initial_state(self, data: TrainingData, scores: np.ndarray) -> Any:
        """Create the state of the rows: probabilities, and weights as integers."""
        P = scores.astype(np.float32)
        softmax(P, P)
        records, scale = quantize_weights(data.weight, data.all_reduce)
        n_alike = len(P) // max(len(records), 1)  # an array (1,) is for all rows
        total = np.array([records.sum() * n_alike])
        data.all_reduce.sum_over_shards(total)
        return _SketchState(
            data.y, data.weight.astype(np.float32), P, records, scale, total[0] / scale
        )

    def train(
        self, state: _SketchState, sampling: RoundSampler, n_rounds: int, builder: ForestBuilder
    ) -> None:
        """Train `n_rounds` rounds, many per kernel call, and append them to `builder`."""
        grow, n, n_classes = sampling.grow, sampling.n_rows, state.probabilities.shape[1]
        weight, lot, kind, channels = choose_gradient_format(state.weight, state.total, n)
        most = min(grow.max_leaf_nodes, n)  # no tree has more leaves than rows
        params = grow.tree_params(kind, channels)
        params["max_leaf_nodes"] = most
        params["min_child"] /= lot
        params["l2"] /= lot
        leaf = np.zeros(len(weight), dtype=np.uint16)
        factors = np.ones((most, n_classes), dtype=np.float32)
        rows = SketchRows(state.y, weight, state.probabilities, leaf, factors, state.records)
        with self._round_grower(rows, sampling, params) as grown_of:
            for n_next, features, chosen in sampling.draw_batches(
                n_rounds, max(1, _ROWS_A_CALL // n)
            ):
                directions = draw_class_directions(n_next, n_classes, sampling.rng)
                grown = grown_of(RandomDraws(directions, features, chosen))
                weights = grown.weights / (state.scale * lot)
                builder.append_rounds(grown.nodes, grown.sizes, grown.values, weights)

    @contextmanager
    def _round_grower(
        self, rows: SketchRows, sampling: RoundSampler, params: np.ndarray
    ) -> Iterator[Callable[[RandomDraws], GrownTrees]]:
        """Yield a function that grows one tree for each round of the random draws passed to it.

        If training is distributed, the function grows the trees together with the other shards.
        Else it uses up to `n_jobs` threads if there are enough rows.
        """
        n, binned, shard = len(rows.y), sampling.grow.binned, sampling.shard
        n_threads = min(self.n_jobs, n // _ROWS_A_THREAD)
        given = params, self.learning_rate, CLAMP
        if shard is not None:
            rounds = ShardTrainer(rows, binned, *given, shard.all_reduce)
            yield rounds
            sampling.grow.n_adds += rounds.n_adds
        elif n_threads > 1:
            all_reduce = ThreadAllReduce(n_threads)
            cuts = [slice(n * i // n_threads, n * (i + 1) // n_threads) for i in range(n_threads)]
            of_each = [
                ShardTrainer(
                    rows.slice_rows(at), binned.slice_rows(at), *given, all_reduce.for_thread(i)
                )
                for i, at in enumerate(cuts)
            ]
            with multithreaded_tree_grower(of_each, cuts, all_reduce) as grow:
                yield grow
            sampling.grow.n_adds += sum(rounds.n_adds for rounds in of_each)
        else:
            yield partial(self._grow_rounds, rows, sampling.grow, params)

    def _grow_rounds(
        self, rows: SketchRows, grower: Grower, params: np.ndarray, draws: RandomDraws
    ) -> GrownTrees:
        n, n_classes = draws.directions.shape
        params = params.copy()
        most = int(params["max_leaf_nodes"][0])
        grown = GrownTrees(
            np.empty(n * (2 * most - 1), dtype=NODE),
            np.empty(n, dtype=np.int64),
            np.empty((n * most, n_classes), dtype=np.float32),
            np.empty(n * most, dtype=np.int64),
        )
        work = _allocate_round_workspace(
            rows, grower, draws.features, most, int(params["channels"][0])
        )
        grower.n_adds += boost_rounds(
            grower.binned, rows, draws, params, self.learning_rate, CLAMP, work, grown
        )
        n_nodes = int(grown.sizes.sum())
        n_leaves = (n_nodes + n) // 2  # each tree has one more than it has inner nodes
        nodes, values = grown.nodes[:n_nodes].copy(), grown.values[:n_leaves].copy()
        return GrownTrees(nodes, grown.sizes, values, grown.weights[:n_leaves].copy())


def _allocate_round_workspace(
    rows: SketchRows, grower: Grower, features: np.ndarray, max_leaves: int, channels: int
) -> RoundWorkspace:
    n, n_classes = rows.probabilities.shape
    widths = (grower.binned.n_bins + grower.binned.missing)[features].sum(axis=1)
    return RoundWorkspace(
        np.empty(n, dtype=np.uint32),
        np.empty(n, dtype=np.float32),
        np.empty(n, dtype=np.float32),
        np.empty(n * channels, dtype=np.int64),
        grower.histograms(max_leaves, channels * int(widths.max())),
        np.empty((4, max_leaves), dtype=np.int64),
        np.empty((2, max_leaves, n_classes), dtype=np.int64),
    )


def draw_class_directions(
    n_directions: int, n_classes: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw `n_directions` random directions, vectors over the classes: float32 (n_directions, K).

    The entries of a direction sum to 0, and the largest entry is ±1.
    """
    u = rng.standard_normal((n_directions, n_classes))
    u -= u.mean(axis=1, keepdims=True)
    return np.asarray(u / np.abs(u).max(axis=1, keepdims=True), dtype=np.float32)


@dataclass(kw_only=True, eq=False, repr=False)
class SketchLogitBoost(CommitteeTrainer):
    """Trainer of the committees of `SketchLogitBoostClassifier`, with the same parameters."""

    n_estimators: int = 400
    learning_rate: float | None = None  # type: ignore[assignment]
    max_leaf_nodes: int | None = None
    max_bins: int | None = None  # type: ignore[assignment]
    min_child_weight: float = 0.1
    l2_regularization: float = 0.1

    def _make_boosting_parameters(self, data: TrainingData) -> BoostingParameters:
        decided = copy(self)
        n, n_features = data.n_rows, data.X.shape[1]
        if self.max_leaf_nodes is None:
            decided.max_leaf_nodes = min(max(31, n // 50), max(80, min(5 * len(data.classes), 250)))
        if self.max_features is None:
            few = n_features <= 20
            decided.max_features = 1.0 if few else max(0.2, 4 / math.sqrt(n_features))
        return super(SketchLogitBoost, decided)._make_boosting_parameters(data)

    def _create_algorithm(self) -> Algorithm:
        rate = self.learning_rate
        if rate is None:
            rate = min(0.2, 0.07 * math.sqrt(400 / self.n_estimators))
        return _SketchLogitBoost(rate, self.l2_regularization, _n_threads(self.n_jobs))


def _n_threads(n_jobs: int | None) -> int:
    """Return the number of threads as joblib does, without importing joblib for the default."""
    if n_jobs is None and "joblib" not in sys.modules:
        return 1
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))
