"""Sufficient statistics of evaluated records, from which the unbiased estimates are computed.

For each record, the committee's probabilities P are the expectation of its label. If the label was
requested and arrived, d = onehot(y) - P is the error of that expectation. A record requested with
inclusion probability pi represents itself and v = 1/pi - 1 records without a request. So the sum of
v d estimates the sum of the unknown errors of these records. The sum of v (v + 1) d dᵀ estimates
the variance of this estimate (Horvitz and Thompson 1952). For every metric used here, a record's
residual is

    r = t[a] d[a] - w . d,        a: the class predicted for it,

with t and w (K,) that depend on the metric alone, so that the same K x K sums give all metrics.

`UnlabelledSums` has the same sums over records that another process scored and did not request. For
these records, metrics need only the expectations from the predicted probabilities: O(K²) numbers
per batch, regardless of the number of records. The process that has the labels adds the predictions
of the baselines.
"""

import math
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise, starmap, takewhile
from typing import Any

import numpy as np

from streamboost.checks import Label
from streamboost.predictions import Scored
from streamboost.storage import Arrays

PREDICTORS = ("committee", "repeat_last", "majority", "committee_alone")
"""Evaluated predictors: the learner's predictions; two baselines, which predict the newest and the
most frequent known label; and the committee without other experts."""

BINS = 10
"""Number of bins of equal width in the reliability curve."""

LEAST_PROBABILITY = 1e-7
"""Lower bound of probabilities in log loss, about the difference from 1 that float32 resolves."""

_J = len(PREDICTORS)
_ALONE = PREDICTORS.index("committee_alone")
MEAN_COLUMNS = (
    "records",
    "rest",  # records whose label is not known
    "known",  # sum of the values, expected values where the label is not known
    "weight",  # of the residuals: sum of v
    "weight_square",  # sum of v (v + 1)
    "shift",  # sum of v r
    "first",  # sum of v (v + 1) r
    "second",  # sum of v (v + 1) r²
    "model",  # sum of 1/pi - 1 times the variance of the value, expected from P
    "confidence",  # sum of the predicted label's probability
    "doubt",  # sum of 1/pi - 1 times r² if the prediction were wrong
)

_SHAPES = {
    "counts": "4",  # records, answered, sum of v, sum of v (v + 1)
    "hits": "J",  # number of correct predictions among the answered
    "seen": "K",  # labels among the answered
    "predicted": "JK",
    "cells": "JKK",  # predicted, true: counts where the label is known, sums of P elsewhere
    "cells_shift": "JKK",  # sums of v d
    "truth": "K",  # as cells, summed over all records, with or without a prediction
    "truth_shift": "K",
    "first": "K",  # sums of v (v + 1) d
    "first_own": "JK",  # sums of v (v + 1) d[a], by predicted class a
    "second": "KK",  # sums of v (v + 1) d dᵀ
    "second_own": "JKK",  # sums of v (v + 1) d[a] d, by a
    "model": "KK",  # sum of 1/pi - 1 times the covariance of d, expected from P
    "model_own": "JKK",
    "represented": "JKK",  # sums of (1/pi - 1) P, by a
}
_BY_LABEL = ("counts", "seen", "truth", "truth_shift", "first", "second", "model")
_BY_PREDICTED = (
    "hits",
    "predicted",
    "cells",
    "cells_shift",
    "first_own",
    "second_own",
    "represented",
    "model_own",
)


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatedRecords:
    """Records with predictions and final labels, in arrival order.

    Attributes
    ----------
    P
        float64 (n, K), the committee's probabilities on arrival; all 0 before the first label.
    predicted
        int64 (n, 4), the class index predicted by each of `PREDICTORS`; -1: no prediction.
    truth
        int64 (n,), the class index of the label; -1 if the label was not requested or will never
        arrive.
    others
        float64 (n,), how many records without a request each requested record represents: 1/pi - 1
        for inclusion probability pi.
    decision_cost
        float64 (n, K), the cost of each record's decision for each possible true class, NaN for
        records without a decision. None if no decisions are evaluated.
    """

    P: np.ndarray
    predicted: np.ndarray
    truth: np.ndarray
    others: np.ndarray
    decision_cost: np.ndarray | None = None


class SufficientStats:
    """Sums over records from which all metrics follow: O(K²) numbers for K classes."""

    def __init__(self, n_classes: int = 0) -> None:
        self._allocate_sums(n_classes)

    def _allocate_sums(self, n_classes: int) -> None:
        """Set all sums to 0, as views of one flat array, so that `merge` is one addition."""
        self.n_classes = n_classes
        n_numbers, places = _places_of_sums(n_classes)
        self._all = np.zeros(n_numbers)
        self.sums: Arrays = {name: self._all[place].reshape(shape) for name, shape, place in places}
        # Rows: the reliability curve's bins, log loss, and being right by predicted class.
        self.means = self.sums.pop("means")
        self.cost = self.sums.pop("cost")  # of decisions
        self.gain = self.sums.pop("gain")  # of being right alone over being right

    @property
    def n_records(self) -> float:
        """Number of records added."""
        return float(self.sums["counts"][0])

    @property
    def n_labels(self) -> int:
        """Number of records with a known label."""
        return int(self.sums["counts"][1])

    @property
    def n_unlabelled(self) -> float:
        """Number of records without a known label."""
        return float(self.sums["counts"][0] - self.sums["counts"][1])

    @property
    def total_represented(self) -> float:
        """Sum of v = 1/pi - 1 over labelled records; pi is the inclusion probability.

        v is the number of records without a request that a labelled record represents, so the sum
        estimates the number of all of them.
        """
        return float(self.sums["counts"][2])

    @property
    def total_represented_square(self) -> float:
        """Sum of v (v + 1) over labelled records, with v = 1/pi - 1."""
        return float(self.sums["counts"][3])

    def extend_classes(self, n_classes: int) -> None:
        """Extend the sums to `n_classes` classes; those of new classes are 0."""
        before = self._named_sums()
        self._allocate_sums(n_classes)
        self._copy_sums(before)

    def merge(self, other: "SufficientStats", times: float = 1.0) -> None:
        """Add the sums of `other`, multiplied by `times`; both must have the same classes."""
        self._all += other._all if times == 1.0 else times * other._all

    def add(self, evaluated: EvaluatedRecords) -> None:
        """Add the records `evaluated`, with their predictions and labels, to all sums."""
        truth, others = evaluated.truth, np.ascontiguousarray(evaluated.others)
        P, predicted = np.ascontiguousarray(evaluated.P), np.ascontiguousarray(evaluated.predicted)
        committee = np.ascontiguousarray(predicted[:, 0])
        sums, kernels = self.sums, _evaluation_kernels()
        kernels.add_to_label_sums(P, truth, others, *(sums[name] for name in _BY_LABEL))
        kernels.add_to_class_sums(
            P, predicted, truth, others, *(sums[name] for name in _BY_PREDICTED)
        )
        kernels.add_to_accuracy_sums(P, committee, truth, others, LEAST_PROBABILITY, self.means)
        if evaluated.decision_cost is not None:
            kernels.add_to_cost_sums(
                P, np.ascontiguousarray(evaluated.decision_cost), truth, others, self.cost[0]
            )
        alone = predicted[:, _ALONE]
        gain = _one_hot(alone, self.n_classes) - _one_hot(committee, self.n_classes)
        kernels.add_to_cost_sums(P, gain, truth, others, self.gain[0])

    def state(self) -> Arrays:
        """Return copies of all sums, as arrays by name, for `from_state`."""
        return {name: array.copy() for name, array in self._named_sums().items()}

    @classmethod
    def from_state(cls, arrays: Arrays) -> "SufficientStats":
        """Restore the sums from the result of `state`."""
        tally = cls(len(arrays["truth"]))
        tally._copy_sums(arrays)
        return tally

    def __reduce__(self) -> Any:
        # Copied separately, the arrays would no longer be views of one array.
        return SufficientStats.from_state, (self.state(),)

    def _named_sums(self) -> Arrays:
        return {**self.sums, "means": self.means, "cost": self.cost, "gain": self.gain}

    def _copy_sums(self, arrays: Arrays) -> None:
        """Copy sums from `arrays`, which may have fewer classes; the other sums stay 0."""
        for name, total in self._named_sums().items():
            total[tuple(slice(length) for length in arrays[name].shape)] = arrays[name]


@cache
def _evaluation_kernels() -> Any:
    """Return the module of the evaluation kernels; the slow import happens on first use."""
    from streamboost.kernels import evaluation

    return evaluation


@cache
def _places_of_sums(n_classes: int) -> tuple[int, list[tuple[str, tuple[int, ...], slice]]]:
    """Return the number of all sums; and name, shape and place of each array in the flat array."""
    sizes = {"4": 4, "J": _J, "K": n_classes}
    shapes = {name: tuple(sizes[kind] for kind in kinds) for name, kinds in _SHAPES.items()}
    width = len(MEAN_COLUMNS)
    shapes |= {"means": (BINS + 1 + n_classes, width), "cost": (1, width), "gain": (1, width)}
    ends = list(accumulate(map(math.prod, shapes.values()), initial=0))
    return ends[-1], list(zip(shapes, shapes.values(), starmap(slice, pairwise(ends)), strict=True))


def _one_hot(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Return float64 (n, `n_classes`) with a 1 at each code (n,); -1 gives zeros."""
    return np.asarray(codes[:, None] == np.arange(n_classes), dtype=np.float64)


MOST = 256
"""If more batches than this wait for labels, neighbouring batches are merged."""

FINEST = 10
"""Two neighbouring batches are merged if all newer batches have at least this many times as many
records."""

_MEANS = [
    MEAN_COLUMNS.index(name)
    for name in ("records", "rest", "known", "model", "doubt", "confidence")
]

_PACKED = ("predicted", "cells", "model_own", "represented")
"""Sums in `UnlabelledSums.pack` that are kept for each predictor."""


@dataclass(frozen=True, slots=True, eq=False)
class UnlabelledSums:
    """Sums over records that another process scored and whose labels were not requested.

    Attributes
    ----------
    classes
        The labels of the classes, in the order of `tally`.
    tally
        Sums for the evaluated predictions and, if another system made them, for the learner's own
        as "committee_alone". Sums of the other `PREDICTORS` are 0.
    """

    classes: list[Label]
    tally: SufficientStats

    @classmethod
    def from_scored(
        cls,
        scored: Scored,
        requested: Sequence[int],
        block: int,
        inclusion_probabilities: np.ndarray | None = None,
        own_labels: np.ndarray | None = None,
    ) -> "UnlabelledSums":
        """Return the sums over the records of `scored` without a request.

        `requested` are the indices of the requested records. `inclusion_probabilities` (n,) are
        those of all records; None: 1 / `block` for each. A record represents at most `block`
        records. `own_labels` (n,) are the labels that the learner predicts, if `scored` are
        predictions of another system.
        """
        classes: list[Label] = scored.classes.tolist()
        rows = np.ones(len(scored), dtype=bool)
        rows[list(requested)] = False
        code = {label: k for k, label in enumerate(classes)}
        predicted = np.full((int(rows.sum()), len(PREDICTORS)), -1)
        for j, labels in ((0, scored.labels), (_ALONE, own_labels)):
            if labels is not None:
                predicted[:, j] = [code.get(label, -1) for label in labels[rows].tolist()]
        n, tally = len(predicted), SufficientStats(len(classes))
        P = scored.probabilities[rows]
        most = max(block, 1)
        stands = (
            np.full(n, float(most))
            if inclusion_probabilities is None
            else 1.0 / np.maximum(inclusion_probabilities[rows], 1.0 / most)
        )
        tally.add(EvaluatedRecords(P, predicted, truth=np.full(n, -1), others=stands - 1.0))
        if own_labels is None:
            tally.gain[:] = 0.0
        return cls(classes, tally)

    def pack(self) -> bytes:
        """Return the sums as compressed float32 numbers, for `unpack`.

        float32 suffices, as the scores have that precision.
        """
        sums = self.tally.sums
        parts = [
            np.array([self.tally.n_records]),
            sums["truth"],
            sums["predicted"][0],
            sums["cells"][0],
            sums["model"],
            sums["model_own"][0],
            sums["represented"][0],
            self.tally.means[:, _MEANS],
        ]
        if self.tally.gain.any():
            parts += [*(sums[name][_ALONE] for name in _PACKED), self.tally.gain[:, _MEANS]]
        return zlib.compress(np.concatenate([p.ravel() for p in parts]).astype("<f4").tobytes(), 1)

    @classmethod
    def unpack(cls, classes: Sequence[Label], packed: bytes) -> "UnlabelledSums":
        """Return the sums from the bytes that `pack` returned; raise ValueError for others."""
        K = len(classes)
        shapes: dict[str, tuple[int, ...]] = {
            "records": (1,),
            "truth": (K,),
            "predicted": (K,),
            "cells": (K, K),
            "model": (K, K),
            "model_own": (K, K),
            "represented": (K, K),
            "means": (BINS + 1 + K, len(_MEANS)),
        }
        own = {f"own {name}": shapes[name] for name in _PACKED} | {"gain": (1, len(_MEANS))}
        try:
            flat = np.frombuffer(zlib.decompress(packed), dtype="<f4").astype(np.float64)
        except zlib.error as error:
            raise ValueError(f"sums that cannot be read: {error}") from error
        if len(flat) > sum(map(math.prod, shapes.values())):
            shapes |= own
        ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
        if len(flat) != ends[-1]:
            raise ValueError(f"{len(flat)} sums, and of {K} classes there are {ends[-1]}")
        parts = np.split(flat, ends[:-1])
        found = {n: p.reshape(s) for (n, s), p in zip(shapes.items(), parts, strict=True)}
        tally = SufficientStats(K)
        tally.sums["counts"][0] = found["records"][0]
        tally.sums["truth"] += found["truth"]
        tally.sums["model"] += found["model"]
        for name in _PACKED:
            tally.sums[name][0] += found[name]
            tally.sums[name][_ALONE] += found.get(f"own {name}", 0.0)
        tally.means[:, _MEANS] = found["means"]
        tally.gain[:, _MEANS] = found.get("gain", 0.0)
        return cls(list(classes), tally)

    def renumber_classes(
        self, new_indices: Sequence[int], n_classes: int, baselines: Sequence[int]
    ) -> SufficientStats:
        """Return the sums with class i renumbered to `codes[i]`, for `n_classes` classes.

        `baselines` are the class indices that the two baselines predict for all these records; -1:
        no prediction.
        """
        places, K = np.asarray(new_indices, dtype=np.intp), len(new_indices)
        whole, own = SufficientStats(n_classes), self.tally
        square = np.ix_(places, places)
        whole.sums["counts"] += own.sums["counts"]
        whole.sums["truth"][places] = own.sums["truth"]
        whole.sums["model"][square] = own.sums["model"]
        for j in (0, _ALONE):
            whole.sums["predicted"][j, places] = own.sums["predicted"][j]
            for name in ("cells", "model_own", "represented"):
                whole.sums[name][j][square] = own.sums[name][j]
        stands = whole.sums["represented"][0].sum(axis=0)
        for j, label in enumerate(baselines, start=1):
            if label >= 0:
                whole.sums["predicted"][j, label] = own.n_records
                whole.sums["cells"][j, label] = whole.sums["truth"]
                whole.sums["model_own"][j, label] = whole.sums["model"][label]
                whole.sums["represented"][j, label] = stands
        rows = np.concatenate([np.arange(BINS + 1), BINS + 1 + places])
        whole.means[rows] = own.means[: BINS + 1 + K]
        whole.gain += own.gain
        return whole


class BatchSums:
    """Queue of sums over the records of each batch, which wait until the batch is complete.

    A batch is complete when all its label requests are answered or expired. An open request also
    delays all later batches. If many batches wait, neighbours are merged, older ones into larger
    groups. So n batches take O(log n) sums (exponential histograms, Datar, Gionis, Indyk and
    Motwani 2002).
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, SufficientStats]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, end: int, tally: SufficientStats) -> None:
        """Add the sums `tally` of a batch whose last requested record has the number `end` - 1."""
        self._waiting.append((end, tally))
        if len(self._waiting) > MOST:
            self._merge_old_batches()

    def _merge_old_batches(self) -> None:
        """Merge neighbouring batches that are small compared with all newer batches together."""
        kept: deque[tuple[int, SufficientStats]] = deque()
        newer = 0.0  # records after the oldest batch that is kept so far
        while self._waiting:
            end, tally = self._waiting.pop()
            if kept and FINEST * (kept[0][1].n_records + tally.n_records) <= newer:
                tally.extend_classes(kept[0][1].n_classes)
                kept[0][1].merge(tally)
                continue
            newer += kept[0][1].n_records if kept else 0.0
            kept.appendleft((end, tally))
        self._waiting = kept

    def measure_complete_batches(self, n_final: int) -> tuple[int, float]:
        """Return the `end` of the newest complete batch, and the number of records in the sums.

        The sums are those of all complete batches. `end` is described in `add`; it is 0 without a
        complete batch. `n_final` is the number of the first record whose label may still arrive.
        """
        number, records = 0, 0.0
        for end, tally in self._iterate_complete_batches(n_final):
            number, records = end, records + tally.n_records
        return number, records

    def first_record_outside_estimates(self, n_final: int) -> int:
        """Return the number of the first record that cannot be part of the estimates yet.

        The requested records of a batch become part of the estimates together with its other
        records, once the batch is complete. `n_final` is as in `measure_complete_batches`.
        """
        ends = [end for end, _ in self._waiting]
        if not ends or ends[-1] <= n_final:
            return n_final
        return self.measure_complete_batches(n_final)[0]

    def count_oldest_batches(self, first: int, records: float, limit: int) -> tuple[int, int]:
        """Return how many oldest batches have `records` records in total, and the last one's `end`.

        `first` is the number of the first record of these batches. Batches that end after the
        record number `limit` are not counted.
        """
        start, n = first, 0
        for end, tally in self._waiting:
            if records <= 0.0 or end > limit:
                break
            records -= tally.n_records + end - start
            start, n = end, n + 1
        return n, start

    def sum_complete_batches(
        self, n_final: int, n_classes: int, *, skip: int = 0, drop: bool = False
    ) -> SufficientStats:
        """Return the sums over the complete batches except the oldest `skip` batches.

        With `drop`, all complete batches are removed.
        """
        total, found = SufficientStats(n_classes), list(self._iterate_complete_batches(n_final))
        for _, tally in found[skip:]:
            tally.extend_classes(n_classes)
            total.merge(tally)
        for _ in found if drop else ():
            self._waiting.popleft()
        return total

    def _iterate_complete_batches(self, n_final: int) -> Iterator[tuple[int, SufficientStats]]:
        return takewhile(lambda one: one[0] <= n_final, self._waiting)

    def state(self, first: int) -> tuple[list[int], Arrays]:
        """Return the state for `resume`: batch ends relative to `first`, and arrays by name."""
        arrays = {
            f"block{i}.{name}": array
            for i, (_, tally) in enumerate(self._waiting)
            for name, array in tally.state().items()
        }
        return [end - first for end, _ in self._waiting], arrays

    def resume(self, ends: Sequence[int], arrays: Arrays) -> None:
        """Restore the state that `state(first)` returned.

        `ends` are the record numbers at which the batches end, relative to `first`: the record
        `first` has the number 0 afterwards.
        """
        self._waiting.clear()
        for i, end in enumerate(ends):
            own: dict[str, Any] = {
                name.removeprefix(f"block{i}."): array
                for name, array in arrays.items()
                if name.startswith(f"block{i}.")
            }
            self._waiting.append((end, SufficientStats.from_state(own)))
