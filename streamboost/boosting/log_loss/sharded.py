"""SketchLogitBoost on row shards: data-parallel training in threads or on several machines."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import BrokenBarrierError
from typing import Any

import numpy as np

from streamboost.kernels.growing import shards
from streamboost.kernels.growing.criteria import NEWTON
from streamboost.kernels.growing.grow import allocate_workspace
from streamboost.kernels.growing.histograms import (
    BinnedData,
    FeatureSubset,
    FusedHistogram,
    HistogramInputArrays,
)
from streamboost.kernels.growing.levels import TreeBuilderState, continue_growth, start_growth
from streamboost.kernels.growing.nodes import CODES, NODE
from streamboost.kernels.growing.sketch import (
    GrownTrees,
    RandomDraws,
    RoundWorkspace,
    SketchRows,
    select_features,
    write_sampled_rows_first,
)
from streamboost.trees.grower import HistogramPool
from streamboost.trees.sums import AllReduce, ThreadAllReduce

_LEAVES_PER_TURN = 8
"""Number of leaves that all shards split before their sums are exchanged.

A tree of 80 leaves takes 14 turns, and a tenth of its splits are unused."""


class ShardTrainer:
    """Trainer of SketchLogitBoost on one shard of the rows, together with the other shards.

    Each shard has its own object, and all shards get equal trees. `binned` are the rows of this
    shard as bin indices, and `params` TREE_PARAMS (1,) are in the same unit as the weights of
    `rows`. `max_step` is the bound of a Newton step. `all_reduce` sums arrays over all shards.
    `n_adds` counts the additions to histograms.
    """

    def __init__(
        self,
        rows: SketchRows,
        binned: BinnedData,
        params: np.ndarray,
        learning_rate: float,
        max_step: float,
        all_reduce: AllReduce,
    ) -> None:
        self.n_adds = 0
        self._rows = rows
        self._binned = binned
        self._params = params
        self._learning_rate = learning_rate
        self._max_step = max_step
        self._all_reduce = all_reduce
        self._histograms = HistogramPool()
        n, channels = len(rows.y), int(params["channels"][0])
        self._work = RoundWorkspace(
            np.empty(n, dtype=np.uint32),
            np.empty(n, dtype=np.float32),
            np.empty(n, dtype=np.float32),
            np.empty(n * channels, dtype=np.int64),
            np.empty((0, 0), dtype=np.int64),
            np.empty((4, 0), dtype=np.int64),
            np.empty((2, 0, 0), dtype=np.int64),
        )

    def __call__(self, draws: RandomDraws) -> GrownTrees:
        """Grow a tree for each round in `draws`, with histograms summed over all shards."""
        n = len(draws.directions)
        trees = []
        for m in range(n):
            features = draws.features[min(m, len(draws.features) - 1)]
            chosen = draws.chosen[m] if len(draws.chosen) else np.zeros(0, dtype=bool)
            trees.append(self._train_round(draws.directions[m], features, chosen))
        nodes, values, weights = (np.concatenate(part) for part in zip(*trees, strict=True))
        sizes = np.array([len(tree[0]) for tree in trees], dtype=np.int64)
        return GrownTrees(nodes, sizes, values, weights)

    def _train_round(
        self, direction: np.ndarray, features: np.ndarray, is_sampled: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Train one round; return the tree's nodes, leaf values and leaf weights."""
        rows, work, params = self._rows, self._work, self._params.copy()
        is_unpacked = params["kind"][0] != NEWTON
        bounds = np.empty(2, dtype=np.int64)
        shards.update_and_bound_gradients(rows, direction, work, bounds)
        self._all_reduce.sum_over_shards(bounds)
        scale_g, scale_h = shards.quantize_gradients(rows, work, bounds, is_unpacked)
        l2 = float(params["l2"][0])
        params["min_child"] = max(1.0, float(params["min_child"][0]) * scale_h)
        params["l2"] = l2 * scale_h
        columns, joint = select_features(self._binned, features, is_unpacked)
        n_rows = write_sampled_rows_first(is_sampled, work.order)
        trained, rest = work.order[:n_rows], work.order[n_rows:]
        tree, growing = self._grow_tree_on_all_shards(params, columns, joint, trained)
        size, n_leaves = len(tree), (len(tree) + 1) // 2
        n_sets = int(columns.categorical[tree["feature"][tree["left"] >= 0]].sum())
        told = np.zeros(size + n_sets * CODES, dtype=np.int64)
        shards.count_node_rows(tree, size, columns, trained, told)
        self._all_reduce.sum_over_shards(told)
        shards.partition_unsampled_rows(tree, size, columns, told, rest, growing)
        n_classes = rows.probabilities.shape[1]
        flat = np.empty(n_leaves * (2 * n_classes + 1), dtype=np.int64)
        sums, weights = flat[:-n_leaves].reshape(2, n_leaves, n_classes), flat[-n_leaves:]
        ends, worth = np.empty((4, n_leaves), dtype=np.int64), scale_h / scale_g / scale_g
        shards.write_row_leaves_and_leaf_sums(
            tree, size, columns, worth, rows, is_sampled, trained, rest, ends, sums, weights
        )
        self._all_reduce.sum_over_shards(flat)
        values = np.empty((n_leaves, n_classes), dtype=np.float32)
        shards.write_leaf_values(rows, sums, l2, self._max_step, self._learning_rate, values)
        return tree, values, weights

    def _grow_tree_on_all_shards(
        self,
        params: np.ndarray,
        columns: FeatureSubset,
        fused: FusedHistogram,
        sampled_rows: np.ndarray,
    ) -> tuple[np.ndarray, Any]:
        """Grow a tree together with all shards; return its nodes, and the kernel workspace."""
        most, channels = int(params["max_leaf_nodes"][0]), int(params["channels"][0])
        width = channels * int((columns.n_bins + columns.missing).sum())
        pool = self._histograms(most, width)
        n_slots = len(pool)
        a_turn = max(1, min(_LEAVES_PER_TURN, n_slots - 1))
        n_known = 4 * most + 2 * a_turn
        growth = TreeBuilderState(
            np.empty(n_known, dtype=NODE),
            np.empty(n_known),
            np.empty(n_known, dtype=bool),
            np.empty(2 * most - 1, dtype=NODE),
            np.empty(2 * most - 1, dtype=np.int64),
            np.full(a_turn, -1, dtype=np.int64),
            np.empty(a_turn, dtype=np.int64),
            np.empty(4, dtype=np.int64),
            pool,
            np.empty((a_turn + 1, width), dtype=np.int64),
        )
        n = max(len(sampled_rows), len(self._work.order) - len(sampled_rows))
        growing = allocate_workspace(channels, CODES, 2 * width, len(columns.features), n, n_slots)
        histogram_input = HistogramInputArrays(
            self._work.histogram_input, self._rows.y[:0], np.empty(0)
        )
        given = growth, columns, fused, sampled_rows, histogram_input, params, growing
        n_sums = start_growth(*given)
        while n_sums >= 0:
            if n_sums:
                self._all_reduce.sum_over_shards(growth.sums[:n_sums])
            n_sums = continue_growth(*given)
        self.n_adds += int(growth.size[3])
        return growth.tree[: growth.size[1]], growing


@contextmanager
def multithreaded_tree_grower(
    trainers: Sequence[ShardTrainer], shard_slices: Sequence[slice], all_reduce: ThreadAllReduce
) -> Iterator[Callable[[RandomDraws], GrownTrees]]:
    """Yield a function that grows one tree for each round of the random draws passed to it.

    The function uses one thread per shard. `trainers` has one object per shard, and `shard_slices`
    the shard's slice of the rows. An error in a thread ends all threads, and is raised.
    """

    def grow_shard(drawn: RandomDraws, shard: int) -> GrownTrees:
        try:
            return trainers[shard](drawn._replace(chosen=drawn.chosen[:, shard_slices[shard]]))
        except BaseException:
            all_reduce.abort()  # otherwise the other threads would wait for this thread
            raise

    def grow_all(drawn: RandomDraws) -> GrownTrees:
        futures = [pool.submit(grow_shard, drawn, shard) for shard in range(len(trainers))]
        errors = [future.exception() for future in futures]
        for error in errors:
            if error is not None and not isinstance(error, BrokenBarrierError):
                raise error
        return futures[0].result()

    with ThreadPoolExecutor(len(trainers)) as pool:
        try:
            yield grow_all
        except BaseException:
            all_reduce.abort()  # not all threads may have started, and the others would wait
            raise
