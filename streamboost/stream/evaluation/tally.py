"""Sums over judged records, from which every honest figure and its interval follows.

For each record the committee's probabilities P say what to expect of its label, and for the
records whose label was asked for and came, d = onehot(y) - P says by how much that was wrong. A
record asked with probability pi stands, besides itself, for v = 1/pi - 1 records that nobody
asked about, so sums of v d estimate what is unknown of these; sums of v (v + 1) d dᵀ estimate the
variance of that (Horvitz and Thompson 1952). For every figure used here, a record's residual is

    r = t[a] d[a] - w . d,        a: the class predicted for it,

with t and w (K,) that depend on the figure alone, so that K x K sums serve all figures.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from streamboost.storage import Arrays

__all__ = ["BINS", "LEAST_PROBABILITY", "MEAN_COLUMNS", "PREDICTORS", "Judged", "Tally"]

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
