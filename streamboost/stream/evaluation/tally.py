"""Sums over judged records, from which every honest figure and its interval follows.

For each record the committee's probabilities P say what to expect of its label, and for the
records whose label was asked for and came, d = onehot(y) - P says by how much that was wrong. A
record asked with probability pi stands, besides itself, for v = 1/pi - 1 records that nobody
asked about, so sums of v d estimate what is unknown of these; sums of v (v + 1) d dᵀ estimate the
variance of that (Horvitz and Thompson 1952). For every figure used here, a record's residual is

    r = t[a] d[a] - w . d,        a: the class predicted for it,

with t and w (K,) that depend on the figure alone, so that K x K sums serve all figures.

`Rest` holds the same sums over records that were scored elsewhere and not asked about. The figures
need of such records only what their probabilities lead to expect: O(K²) numbers a batch, however
many records it has. The baselines' predictions are added where the labels are known.
"""

import math
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Any

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.checks import Label
from streamboost.stream.scoring import Scored

__all__ = [
    "BINS",
    "LEAST_PROBABILITY",
    "MEAN_COLUMNS",
    "PREDICTORS",
    "Blocks",
    "Judged",
    "Rest",
    "Tally",
]

PREDICTORS = ("committee", "repeat_last", "majority")
"""Whose predictions are judged; the two latter say the newest and the commonest label known."""

BINS = 10
"""Bins of equal width in the reliability curve."""

LEAST_PROBABILITY = 1e-7
"""Log loss counts smaller probabilities as this, about what float32 can tell from 1."""

_J = len(PREDICTORS)
MEAN_COLUMNS = (
    "records",
    "rest",  # those of them whose label is not known
    "known",  # sum of the values, expected ones where the label is not known
    "weight",  # of the residuals: sum of v
    "weight_square",  # sum of v (v + 1)
    "shift",  # sum of v r
    "first",  # sum of v (v + 1) r
    "second",  # sum of v (v + 1) r²
    "model",  # sum of 1/pi - 1 times the variance of the value that P expects
    "confidence",  # sum of the predicted label's probability
    "doubt",  # sum of 1/pi - 1 times the square of r that a mistake gives
)

_SHAPES = {
    "counts": "4",  # records, answered, sum of v, sum of v (v + 1)
    "hits": "J",  # right among the answered
    "seen": "K",  # labels among the answered
    "predicted": "JK",
    "cells": "JKK",  # predicted, true: counts where the label is known, sums of P elsewhere
    "cells_shift": "JKK",  # sums of v d
    "truth": "K",  # cells, also where nothing was predicted
    "truth_shift": "K",
    "first": "K",  # sums of v (v + 1) d
    "first_own": "JK",  # the same of d[a] alone, by a
    "second": "KK",  # sums of v (v + 1) d dᵀ
    "second_own": "JKK",  # sums of v (v + 1) d[a] d, by a
    "model": "KK",  # sum of 1/pi - 1 times the covariance of d that P expects
    "model_own": "JKK",
    "stands": "JKK",  # sums of (1/pi - 1) P, by a
}
_BY_LABEL = ("counts", "seen", "truth", "truth_shift", "first", "second", "model")
_BY_PREDICTED = (
    "hits",
    "predicted",
    "cells",
    "cells_shift",
    "first_own",
    "second_own",
    "stands",
    "model_own",
)


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A run of records that are settled: no more is going to be known of them.

    Attributes
    ----------
    P
        float64 (n, K), the committee's probabilities on arrival; all 0 before the first label.
    predicted
        int64 (n, 3), the class that each of `PREDICTORS` gave, -1 for none.
    truth
        int64 (n,), the class, -1 where the label was not asked for or never came.
    others
        float64 (n,), 1/pi - 1: how many further records each stands for, if it is asked about.
    paid
        float64 (n, K), what was decided costs by true class, NaN where nothing was; None: nobody
        decides.
    """

    P: np.ndarray
    predicted: np.ndarray
    truth: np.ndarray
    others: np.ndarray
    paid: np.ndarray | None = None


class Tally:
    """Additive sums over records with K classes: O(K²) numbers, whatever the records' number."""

    def __init__(self, n_classes: int = 0) -> None:
        self._lay_out(n_classes)

    def _lay_out(self, n_classes: int) -> None:
        """Have all numbers be 0, in one array that is added up at once; the rest are its parts."""
        self.n_classes = n_classes
        self._all = np.zeros(sum(math.prod(shape) for shape in _shapes(n_classes).values()))
        self.sums: Arrays = {}
        start = 0
        for name, shape in _shapes(n_classes).items():
            end = start + math.prod(shape)
            self.sums[name] = self._all[start:end].reshape(shape)
            start = end
        # Rows: the reliability curve's bins, log loss, and being right by predicted class.
        self.means = self.sums.pop("means")
        self.cost = self.sums.pop("cost")  # of decisions

    @property
    def records(self) -> float:
        """Records added."""
        return float(self.sums["counts"][0])

    @property
    def rest(self) -> float:
        """Those of them whose label is not known."""
        return float(self.sums["counts"][0] - self.sums["counts"][1])

    @property
    def weight(self) -> float:
        """Sum of v."""
        return float(self.sums["counts"][2])

    @property
    def weight_square(self) -> float:
        """Sum of v (v + 1)."""
        return float(self.sums["counts"][3])

    def widen(self, n_classes: int) -> None:
        """Make room for `n_classes` classes."""
        before = self.state()
        self._lay_out(n_classes)
        self._take(before)

    def merge(self, other: "Tally", times: float = 1.0) -> None:
        """Add so many `times` the sums of `other`, which has as many classes."""
        self._all += other._all if times == 1.0 else times * other._all

    def add(self, judged: Judged) -> None:
        """Add a run of records."""
        truth, others = judged.truth, np.ascontiguousarray(judged.others)
        P, predicted = np.ascontiguousarray(judged.P), np.ascontiguousarray(judged.predicted)
        committee = np.ascontiguousarray(predicted[:, 0])
        sums, kernels = self.sums, _kernels()
        kernels.add_judged(P, truth, others, *(sums[name] for name in _BY_LABEL))
        kernels.add_predicted(P, predicted, truth, others, *(sums[name] for name in _BY_PREDICTED))
        kernels.add_means(P, committee, truth, others, LEAST_PROBABILITY, self.means)
        if judged.paid is not None:
            kernels.add_costs(P, np.ascontiguousarray(judged.paid), truth, others, self.cost[0])

    def state(self) -> Arrays:
        """Return the sums; `resume` is the inverse."""
        return {**self.sums, "means": self.means, "cost": self.cost}

    @classmethod
    def resume(cls, arrays: Arrays) -> "Tally":
        """Go on from what `state` returned."""
        tally = cls(len(arrays["truth"]))
        tally._take(arrays)
        return tally

    def __reduce__(self) -> Any:
        return Tally.resume, (self.state(),)  # copied one by one, the parts would be parts no more

    def _take(self, arrays: Arrays) -> None:
        """Take the sums of at most as many classes over; what is not among them stays 0."""
        for name, total in self.state().items():
            total[tuple(slice(length) for length in arrays[name].shape)] = arrays[name]


@cache
def _kernels() -> Any:
    """Return the kernels, which take long to import and are not needed to read sums."""
    from streamboost.kernels.stream import tallying

    return tallying


@cache
def _shapes(n_classes: int) -> dict[str, tuple[int, ...]]:
    sizes = {"4": 4, "J": _J, "K": n_classes}
    shapes = {name: tuple(sizes[kind] for kind in kinds) for name, kinds in _SHAPES.items()}
    width = len(MEAN_COLUMNS)
    return {**shapes, "means": (BINS + 1 + n_classes, width), "cost": (1, width)}


MOST = 256
"""Batches that wait before neighbours are put together."""

FINEST = 10
"""Neighbours are put together to at most this part of the records that came after them: the newest
stay apart, so that a window can begin between them."""

_MEANS = [
    MEAN_COLUMNS.index(name)
    for name in ("records", "rest", "known", "model", "doubt", "confidence")
]


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """The sums over records that were scored elsewhere, and that nobody asked about.

    Attributes
    ----------
    classes
        The labels that the classes of `tally` stand for.
    tally
        Of the committee's predictions; the baselines gave none.
    """

    classes: list[Label]
    tally: Tally

    @classmethod
    def of(
        cls, scored: Scored, asked: Sequence[int], block: int, chances: np.ndarray | None = None
    ) -> "Rest":
        """Sum up the records of `scored` but for those at the rows `asked`.

        They had the `chances` (n,) of being asked about; None: one in a `block`. Fewer than a
        block nobody stands for.
        """
        classes: list[Label] = scored.classes.tolist()
        rows = np.ones(len(scored), dtype=bool)
        rows[list(asked)] = False
        code = {label: k for k, label in enumerate(classes)}
        predicted = np.full((int(rows.sum()), 3), -1)
        predicted[:, 0] = [code.get(label, -1) for label in scored.labels[rows].tolist()]
        n, tally = len(predicted), Tally(len(classes))
        P = scored.probabilities[rows]
        most = max(block, 1)
        stands = (
            np.full(n, float(most))
            if chances is None
            else 1.0 / np.maximum(chances[rows], 1.0 / most)
        )
        tally.add(Judged(P, predicted, truth=np.full(n, -1), others=stands - 1.0))
        return cls(classes, tally)

    def pack(self) -> bytes:
        """Return the sums, compressed; float32, which is as exact as the scores are."""
        sums = self.tally.sums
        parts = [
            np.array([self.tally.records]),
            sums["truth"],
            sums["predicted"][0],
            sums["cells"][0],
            sums["model"],
            sums["model_own"][0],
            sums["stands"][0],
            self.tally.means[:, _MEANS],
        ]
        return zlib.compress(np.concatenate([p.ravel() for p in parts]).astype("<f4").tobytes(), 1)

    @classmethod
    def unpack(cls, classes: Sequence[Label], packed: bytes) -> "Rest":
        """Return what `pack` packed; ValueError where it is something else."""
        K = len(classes)
        shapes: dict[str, tuple[int, ...]] = {
            "records": (1,),
            "truth": (K,),
            "predicted": (K,),
            "cells": (K, K),
            "model": (K, K),
            "model_own": (K, K),
            "stands": (K, K),
            "means": (BINS + 1 + K, len(_MEANS)),
        }
        try:
            flat = np.frombuffer(zlib.decompress(packed), dtype="<f4").astype(np.float64)
        except zlib.error as error:
            raise ValueError(f"sums that cannot be read: {error}") from error
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
        if len(flat) != ends[-1]:
            raise ValueError(f"{len(flat)} sums, and of {K} classes there are {ends[-1]}")
        parts = np.split(flat, ends[:-1])
        found = {n: p.reshape(s) for (n, s), p in zip(shapes.items(), parts, strict=True)}
        tally = Tally(K)
        tally.sums["counts"][0] = found["records"][0]
        tally.sums["truth"] += found["truth"]
        tally.sums["model"] += found["model"]
        for name in ("predicted", "cells", "model_own", "stands"):
            tally.sums[name][0] += found[name]
        tally.means[:, _MEANS] = found["means"]
        return cls(list(classes), tally)

    def among(self, codes: Sequence[int], n_classes: int, baselines: Sequence[int]) -> Tally:
        """Return the sums with the classes numbered `codes` of `n_classes`.

        `baselines` are the classes that the two of them say of all these records; -1: none.
        """
        places, K = np.asarray(codes, dtype=np.intp), len(codes)
        whole, own = Tally(n_classes), self.tally
        square = np.ix_(places, places)
        whole.sums["counts"] += own.sums["counts"]
        whole.sums["truth"][places] = own.sums["truth"]
        whole.sums["model"][square] = own.sums["model"]
        whole.sums["predicted"][0, places] = own.sums["predicted"][0]
        whole.sums["cells"][0][square] = own.sums["cells"][0]
        whole.sums["model_own"][0][square] = own.sums["model_own"][0]
        whole.sums["stands"][0][square] = own.sums["stands"][0]
        stands = whole.sums["stands"][0].sum(axis=0)
        for j, label in enumerate(baselines, start=1):
            if label >= 0:
                whole.sums["predicted"][j, label] = own.records
                whole.sums["cells"][j, label] = whole.sums["truth"]
                whole.sums["model_own"][j, label] = whole.sums["model"][label]
                whole.sums["stands"][j, label] = stands
        rows = np.concatenate([np.arange(BINS + 1), BINS + 1 + places])
        whole.means[rows] = own.means[: BINS + 1 + K]
        return whole


class Blocks:
    """Sums of batches, each to be counted once the records asked about in it are settled.

    One answer that is long in coming holds up all batches since. Of many, neighbours are put
    together, the coarser the older they are: so there are O(log n) of n that wait (exponential
    histograms, Datar, Gionis, Indyk and Motwani, 2002).
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Tally]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, end: int, tally: Tally) -> None:
        """Add a batch whose last record that was asked about is the one before number `end`."""
        self._waiting.append((end, tally))
        if len(self._waiting) > MOST:
            self._put_together()

    def _put_together(self) -> None:
        """Put neighbours together, where what results is small beside what came after it."""
        kept: deque[tuple[int, Tally]] = deque()
        newer = 0.0  # records after the oldest batch that is kept so far
        while self._waiting:
            end, tally = self._waiting.pop()
            if kept and FINEST * (kept[0][1].records + tally.records) <= newer:
                tally.widen(kept[0][1].n_classes)
                kept[0][1].merge(tally)
                continue
            newer += kept[0][1].records if kept else 0.0
            kept.appendleft((end, tally))
        self._waiting = kept

    def whole(self, settled: int) -> tuple[int, float]:
        """Return up to which number batches are settled as a whole, and how many records' sums.

        All records before number `settled` are.
        """
        number, records = 0, 0.0
        for end, tally in self._settled(settled):
            number, records = end, records + tally.records
        return number, records

    def reached(self, settled: int) -> int:
        """Return `settled`, or where the newest batch ends that is settled as a whole, if one is
        not: its records that were asked about do not count without the others.
        """
        ends = [end for end, _ in self._waiting]
        return settled if not ends or ends[-1] <= settled else self.whole(settled)[0]

    def skip(self, first: int, records: float) -> tuple[int, int]:
        """Return how many batches hold at least so many `records`, and where the last one ends.

        Numbers start with `first`.
        """
        start, n = first, 0
        for end, tally in self._waiting:
            if records <= 0.0:
                break
            records -= tally.records + end - start
            start, n = end, n + 1
        return n, start

    def sums(self, settled: int, n_classes: int, *, skip: int = 0, drop: bool = False) -> Tally:
        """Return the sums of the batches settled as a whole, and forget them with `drop`.

        The oldest `skip` do not count.
        """
        total, found = Tally(n_classes), list(self._settled(settled))
        for _, tally in found[skip:]:
            tally.widen(n_classes)
            total.merge(tally)
        for _ in found if drop else ():
            self._waiting.popleft()
        return total

    def _settled(self, settled: int) -> Iterator[tuple[int, Tally]]:
        return takewhile(lambda one: one[0] <= settled, self._waiting)

    def state(self, first: int) -> tuple[list[int], Arrays]:
        """Return all of it, with numbers from `first` on: one part as JSON can hold it."""
        arrays = {
            f"block{i}.{name}": array
            for i, (_, tally) in enumerate(self._waiting)
            for name, array in tally.state().items()
        }
        return [end - first for end, _ in self._waiting], arrays

    def resume(self, ends: Sequence[int], arrays: Arrays) -> None:
        """Go on from what `state` returned, with numbers from 0 on."""
        self._waiting.clear()
        for i, end in enumerate(ends):
            own: dict[str, Any] = {
                name.removeprefix(f"block{i}."): array
                for name, array in arrays.items()
                if name.startswith(f"block{i}.")
            }
            self._waiting.append((end, Tally.resume(own)))
