"""SketchLogitBoost: multi-class log-loss boosting along one class direction per tree."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs

from streamboost.boosting.log_loss.parameters import LogLossClassifier
from streamboost.boosting.log_loss.sharded import ShardRounds, in_threads
from streamboost.boosting.log_loss.softmax import CLAMP, SoftmaxAlgorithm
from streamboost.boosting.loop import Algorithm, BoostingParameters, Sampling
from streamboost.boosting.training_data import TrainingData
from streamboost.kernels.growing.nodes import NODE
from streamboost.kernels.growing.sketch import Drawn, Grown, Room, Rows, boost
from streamboost.kernels.softmax import softmax
from streamboost.trees.forest import ForestBuilder
from streamboost.trees.grower import Grower
from streamboost.trees.statistics import newton_form
from streamboost.trees.sums import Together, in_units

__all__ = ["SketchLogitBoostClassifier"]

_ROWS_A_CALL = 2**17
"""Rows times rounds in one call of the kernel: milliseconds, beside which Python is a trifle, and
what is drawn for them stays small."""


@dataclass(frozen=True, slots=True)
class _State:
    """Where a training starts: codes of classes, weights float32 (n,), probabilities (n, K).

    `records` are the weights in whole numbers of 1/`scale`, int64, (1,) where they are alike, and
    `total` is that of all rows, here or in other shards.
    """

    y: np.ndarray
    weight: np.ndarray
    probabilities: np.ndarray
    records: np.ndarray
    scale: float
    total: float


_ROWS_A_THREAD = 100_000
"""Of fewer rows a round is over sooner than threads have met some twenty times."""


class _SketchLogitBoost(SoftmaxAlgorithm):
    """One round: a random class direction, a Newton tree along it, K-vector leaves."""

    def __init__(self, learning_rate: float, l2_regularization: float, n_jobs: int) -> None:
        super().__init__(learning_rate, l2_regularization)
        self._n_jobs = n_jobs

    def start(self, data: TrainingData, scores: np.ndarray, rng: np.random.Generator) -> Any:
        """Return the softmax of the scores, which trainings go on from."""
        P = scores.astype(np.float32)
        softmax(P, P)
        records, scale = in_units(data.weight, data.total)
        n_alike = len(P) // max(len(records), 1)  # (1,) stand for all
        total = np.array([records.sum() * n_alike])
        data.total.add(total)
        return _State(data.y, data.weight.astype(np.float32), P, records, scale, total[0] / scale)

    def train(
        self, state: _State, sampling: Sampling, n_rounds: int, builder: ForestBuilder
    ) -> None:
        """Grow `n_rounds` rounds into `builder`, many in one call of a kernel."""
        grow, n, n_classes = sampling.grow, sampling.n_rows, state.probabilities.shape[1]
        weight, lot, kind, channels = newton_form(state.weight, state.total, n)
        most = min(grow.max_leaf_nodes, n)  # no tree has more leaves than rows
        limits = grow.limits(kind, channels)
        limits["max_leaf_nodes"] = most
        limits["min_child"] /= lot
        limits["l2"] /= lot
        leaf = np.zeros(len(weight), dtype=np.uint16)
        factors = np.ones((most, n_classes), dtype=np.float32)
        rows = Rows(state.y, weight, state.probabilities, leaf, factors, state.records)
        with self._rounds(rows, sampling, limits) as grown_of:
            for n_next, features, chosen in sampling.batches(n_rounds, max(1, _ROWS_A_CALL // n)):
                directions = class_directions(n_next, n_classes, sampling.rng)
                grown = grown_of(Drawn(directions, features, chosen))
                weights = grown.weights / (state.scale * lot)
                builder.append_rounds(grown.nodes, grown.sizes, grown.values, weights)

    @contextmanager
    def _rounds(
        self, rows: Rows, sampling: Sampling, limits: np.ndarray
    ) -> Iterator[Callable[[Drawn], Grown]]:
        """Give what grows rounds: one kernel, or where there are shards one of those."""
        n, coded, shard = len(rows.y), sampling.grow.coded, sampling.shard
        n_threads = min(self._n_jobs, n // _ROWS_A_THREAD)
        given = limits, self._learning_rate, CLAMP
        if shard is not None:
            rounds = ShardRounds(rows, coded, *given, shard.total)
            yield rounds
            sampling.grow.n_adds += rounds.n_adds
        elif n_threads > 1:
            together = Together(n_threads)
            cuts = [slice(n * i // n_threads, n * (i + 1) // n_threads) for i in range(n_threads)]
            of_each = [
                ShardRounds(rows.cut(at), coded.cut(at), *given, together.part(i))
                for i, at in enumerate(cuts)
            ]
            with in_threads(of_each, cuts, together) as grow:
                yield grow
            sampling.grow.n_adds += sum(rounds.n_adds for rounds in of_each)
        else:
            yield partial(self._grow, rows, sampling.grow, limits)

    def _grow(self, rows: Rows, grow: Grower, limits: np.ndarray, drawn: Drawn) -> Grown:
        n, n_classes = drawn.directions.shape
        limits = limits.copy()
        most = int(limits["max_leaf_nodes"][0])
        grown = Grown(
            np.empty(n * (2 * most - 1), dtype=NODE),
            np.empty(n, dtype=np.int64),
            np.empty((n * most, n_classes), dtype=np.float32),
            np.empty(n * most, dtype=np.int64),
        )
        work = _room(rows, grow, drawn.features, most, int(limits["channels"][0]))
        grow.n_adds += boost(
            grow.coded, rows, drawn, limits, self._learning_rate, CLAMP, work, grown
        )
        n_nodes = int(grown.sizes.sum())
        n_leaves = (n_nodes + n) // 2  # each tree has one more than it has inner nodes
        nodes, values = grown.nodes[:n_nodes].copy(), grown.values[:n_leaves].copy()
        return Grown(nodes, grown.sizes, values, grown.weights[:n_leaves].copy())


def _room(rows: Rows, grow: Grower, features: np.ndarray, most: int, channels: int) -> Room:
    n, n_classes = rows.probabilities.shape
    widths = (grow.coded.n_bins + grow.coded.missing)[features].sum(axis=1)
    return Room(
        np.empty(n, dtype=np.uint32),
        np.empty(n, dtype=np.float32),
        np.empty(n, dtype=np.float32),
        np.empty(n * channels, dtype=np.int64),
        grow.histograms(most, channels * int(widths.max())),
        np.empty((4, most), dtype=np.int64),
        np.empty((2, most, n_classes), dtype=np.int64),
    )


def class_directions(n: int, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """Draw centred random directions over the classes, float32 (n, K), their largest entries ±1."""
    u = rng.standard_normal((n, n_classes))
    u -= u.mean(axis=1, keepdims=True)
    return np.asarray(u / np.abs(u).max(axis=1, keepdims=True), dtype=np.float32)


@dataclass(kw_only=True, eq=False, repr=False)
class SketchLogitBoostClassifier(LogLossClassifier):
    """Multi-class LogitBoost with one tree a round, split along a random class direction.

    Each round draws a centred direction u over the classes. The tree's splits maximise the Newton
    gain of the log loss along u (gradient u_y - u.p, Hessian sum u_k^2 p_k - (u.p)^2), and each
    leaf takes the diagonal Newton step in all K classes, centred and clamped to ±4. One histogram
    serves all classes, whatever their number. The idea of sketching the class gradients is that of
    SketchBoost (Iosipoi and Vakhrushev, 2022); the single Newton direction and the leaf are ours.

    Parameters
    ----------
    n_estimators
    learning_rate
        Scales every leaf value, in (0, 1]. None: 0.07 for 400 rounds, and more for fewer, that they
        come as far: 0.07 √(400 / n_estimators), at most 0.2. `extend` takes it as `fit` does,
        however many rounds it adds.
    max_leaf_nodes
        Most leaves of a tree, which grows the best leaf first. None: one for every 50 rows, at
        least 31 and at most 80, or five a class (up to 250) where that is more. Of few rows small
        trees learn as well, and are grown faster.
    max_depth
        Most splits above a leaf. None: no bound.
    max_bins
        Bins per feature of numbers, at most 255, missing values aside. None: one for every 125
        rows, at least 64.
    min_child_weight
        Least sum of Hessians (along u) in a child. With a few hundred labels use 0.01 to 0.03.
    l2_regularization
    max_features
        Share of the features offered to a tree. None: all of D up to 20, of more 4 √D, and at
        least a fifth.
    subsample
    categorical_features
        Which columns hold categories: ``"from_dtype"``, those of a frame whose type says so; a
        mask (D,), indices, or column names; None: none does. In arrays their values are whole
        numbers from 0 on. A split sends a set of categories left; those not met in training are
        missing, and beyond 254 the rare ones are as one. See `streamboost.boosting.categorical`.
    class_weight
    early_stopping, validation_fraction, n_iter_no_change, tol
    random_state
    n_jobs
        Threads that score rows, and that train where each has 100,000 rows or more: of fewer, a
        round is over before threads have met some twenty times. The results do not depend on it.

    Attributes
    ----------
    classes_
    n_features_in_
    committee_
    validation_score_
    feature_importances_

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import SketchLogitBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SketchLogitBoostClassifier(n_estimators=50, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LogLossClassifier._parameter_constraints,
        "learning_rate": [*LogLossClassifier._parameter_constraints["learning_rate"], None],
        "max_leaf_nodes": [*LogLossClassifier._parameter_constraints["max_leaf_nodes"], None],
        "max_bins": [*LogLossClassifier._parameter_constraints["max_bins"], None],
    }

    n_estimators: int = 400
    learning_rate: float | None = None  # type: ignore[assignment]
    max_leaf_nodes: int | None = None  # type: ignore[assignment]
    max_bins: int | None = None  # type: ignore[assignment]
    min_child_weight: float = 0.1

    def _parameters(self, data: TrainingData) -> BoostingParameters:
        decided = copy(self)
        n, n_features = data.n_rows, data.X.shape[1]
        if self.max_leaf_nodes is None:
            decided.max_leaf_nodes = min(max(31, n // 50), max(80, min(5 * len(data.classes), 250)))
        if self.max_features is None:
            few = n_features <= 20
            decided.max_features = 1.0 if few else max(0.2, 4 / math.sqrt(n_features))
        return super(SketchLogitBoostClassifier, decided)._parameters(data)

    def _algorithm(self) -> Algorithm:
        rate = self.learning_rate
        if rate is None:
            rate = min(0.2, 0.07 * math.sqrt(400 / self.n_estimators))
        return _SketchLogitBoost(rate, self.l2_regularization, effective_n_jobs(self.n_jobs))
