"""Sums over judged records, from which every honest figure and its interval follows.

For each record the committee's probabilities P say what to expect of its label, and for the
records whose label was asked for and came, d = onehot(y) - P says by how much that was wrong. A
record asked with probability pi stands, besides itself, for v = 1/pi - 1 records that nobody
asked about, so sums of v d estimate what is unknown of these; sums of v (v + 1) d dᵀ estimate the
variance of that (Horvitz and Thompson 1952). For every figure used here, a record's residual is

    r = t[a] d[a] - w . d,        a: the class predicted for it,

with t and w (K,) that depend on the figure alone, so that K x K sums serve all figures.
"""

from dataclasses import dataclass

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
        self.n_classes = n_classes
        self.sums: Arrays = {
            name: np.zeros(_shape(kinds, n_classes)) for name, kinds in _SHAPES.items()
        }
        # Rows: the reliability curve's bins, log loss, and being right by predicted class.
        self.means = np.zeros((BINS + 1 + n_classes, len(MEAN_COLUMNS)))
        self.cost = np.zeros((1, len(MEAN_COLUMNS)))  # of decisions

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
        for name, kinds in _SHAPES.items():
            grown = np.zeros(_shape(kinds, n_classes))
            grown[tuple(slice(length) for length in self.sums[name].shape)] = self.sums[name]
            self.sums[name] = grown
        self.means = np.pad(self.means, [(0, n_classes - self.n_classes), (0, 0)])
        self.n_classes = n_classes

    def merge(self, other: "Tally", times: float = 1.0) -> None:
        """Add so many `times` the sums of `other`, which has as many classes."""
        for name, total in self.sums.items():
            total += times * other.sums[name]
        self.means += times * other.means
        self.cost += times * other.cost

    def weigh_model(self, others: float) -> None:
        """Let the records added so far stand for so many `others` each, in what P expects."""
        for name in ("model", "model_own"):
            self.sums[name] *= others
        self.means[:, MEAN_COLUMNS.index("model")] *= others
        # What stands for what was not kept apart from the records themselves.
        self.sums["stands"] = others * self.sums["cells"]

    def add(self, judged: Judged) -> None:
        """Add a run of records."""
        P, truth, others = judged.P, judged.truth, judged.others
        sums, known = self.sums, truth >= 0
        values = P.copy()
        values[known] = 0.0
        values[known, truth[known]] = 1.0
        d = (values - P)[known]
        v, u = others[known], others[known] * (others[known] + 1.0)
        sums["counts"] += (len(P), len(d), v.sum(), u.sum())
        np.add.at(sums["seen"], truth[known], 1.0)
        sums["truth"] += values.sum(axis=0)
        sums["truth_shift"] += v @ d
        sums["first"] += u @ d
        sums["second"] += np.einsum("i,ij,ik->jk", u, d, d)
        sums["model"] += np.diag(others @ P) - np.einsum("i,ij,ik->jk", others, P, P)
        self._add_predicted(judged, values, d)
        self._add_means(judged)
        if judged.paid is not None:
            self._add_cost(judged, judged.paid)

    def _add_cost(self, judged: Judged, paid: np.ndarray) -> None:
        """Add what decisions cost, by records about which something was decided."""
        decided = ~np.isnan(paid[:, :1]).any(axis=1)
        P, paid, truth = judged.P[decided], paid[decided], judged.truth[decided]
        n, mean = len(P), (P * paid).sum(axis=1)
        value = np.full(n, np.nan)
        value[truth >= 0] = paid[truth >= 0, truth[truth >= 0]]
        spread = np.maximum((P * paid**2).sum(axis=1) - mean**2, 0.0)
        doubt = self._mistaken(paid, mean)
        others, slots = judged.others[decided], np.zeros(n, dtype=np.intp)
        self._add_mean(self.cost, slots, value, mean, spread, doubt, others, np.zeros(n))

    def _add_predicted(self, judged: Judged, values: np.ndarray, d: np.ndarray) -> None:
        """Add what is counted by the class that each predictor gave."""
        sums, known, K = self.sums, judged.truth >= 0, self.n_classes
        rows, by = np.nonzero(judged.predicted >= 0)
        own = judged.predicted[rows, by]
        slots = by * K + own
        _add_at(sums["predicted"], slots, np.ones(len(slots)))
        _add_at(sums["cells"], slots, values[rows])
        hits = known[:, None] & (judged.predicted == judged.truth[:, None])
        sums["hits"] += np.count_nonzero(hits, axis=0)
        found = known[rows]
        answered = rows[found]
        v = judged.others[answered]
        at, wrong, d = slots[found], own[found], d[(np.cumsum(known) - 1)[answered]]
        shift = v * (v + 1.0) * d[np.arange(len(d)), wrong]
        _add_at(sums["cells_shift"], at, v[:, None] * d)
        _add_at(sums["first_own"], at, shift)
        _add_at(sums["second_own"], at, shift[:, None] * d)
        others, P = judged.others[rows], judged.P[rows]
        chance = others * P[np.arange(len(rows)), own]
        _add_at(sums["stands"], slots, others[:, None] * P)
        _add_at(sums["model_own"], slots, -chance[:, None] * P)
        _add_at(sums["model_own"], slots * K + own, chance)

    def _add_means(self, judged: Judged) -> None:
        """Add the accuracies by bin and by class, and the log loss, of records with predictions."""
        scored = (judged.predicted[:, 0] >= 0) & (judged.P.sum(axis=1) > 0)
        P, truth, a = judged.P[scored], judged.truth[scored], judged.predicted[scored, 0]
        others, rows = judged.others[scored], np.arange(len(P))
        if not len(P):
            return
        sure = P[rows, a]
        bins = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
        right = np.where(truth >= 0, truth == a, np.nan)
        # A class that the committee does not know has probability 0 and no part in its entropy.
        cost = -np.log(np.clip(P, LEAST_PROBABILITY, 1.0))
        entropy = (P * cost).sum(axis=1)
        spread = (P * cost**2).sum(axis=1) - entropy**2
        loss = np.where(truth >= 0, cost[rows, truth], np.nan)
        unsure = sure * (1.0 - sure)
        self._add_mean(
            self.means,
            slots=np.concatenate([bins, BINS + 1 + a, np.full(len(P), BINS)]),
            value=np.concatenate([right, right, loss]),
            expected=np.concatenate([sure, sure, entropy]),
            spread=np.concatenate([unsure, unsure, spread]),
            doubt=np.concatenate([sure**2, sure**2, self._mistaken(cost, entropy)]),
            others=np.concatenate([others] * 3),
            sure=np.concatenate([sure] * 3),
        )

    @staticmethod
    def _mistaken(value: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """Return r² (n,) of a mistake: any class (n, K) does, one of which is none."""
        K = value.shape[1]
        return np.asarray(((value - expected[:, None]) ** 2).sum(axis=1) / max(K - 1, 1))

    @staticmethod
    def _add_mean(
        means: np.ndarray,
        slots: np.ndarray,
        value: np.ndarray,
        expected: np.ndarray,
        spread: np.ndarray,
        doubt: np.ndarray,
        others: np.ndarray,
        sure: np.ndarray,
    ) -> None:
        rest = np.isnan(value)
        residual = np.where(rest, 0.0, value - expected)
        v = np.where(rest, 0.0, others)
        u = v * (v + 1.0)
        known = np.where(rest, expected, value)
        columns = (
            np.ones(len(v)),
            rest.astype(np.float64),
            known,
            v,
            u,
            v * residual,
            u * residual,
            u * residual**2,
            others * spread,
            sure,
            others * doubt,
        )
        for total, values in zip(means.T, columns, strict=True):
            np.add.at(total, slots, values)

    def state(self) -> Arrays:
        """Return the sums; `resume` is the inverse."""
        return {**self.sums, "means": self.means, "cost": self.cost}

    @classmethod
    def resume(cls, arrays: Arrays) -> "Tally":
        """Go on from what `state` returned."""
        tally = cls(len(arrays["truth"]))
        tally.sums |= {name: arrays[name].copy() for name in _SHAPES if name in arrays}
        for name, total in (("means", tally.means), ("cost", tally.cost)):
            if name in arrays:  # earlier releases had no costs, and fewer columns
                total[:, : arrays[name].shape[1]] = arrays[name]
        return tally


def _add_at(total: np.ndarray, slots: np.ndarray, values: np.ndarray) -> None:
    """Add `values` (n, ...) to the slots (n,) of `total`, one after the other.

    What has a slot is as large as one of the values. numpy adds single numbers several times as
    fast as rows.
    """
    size = values[:1].size
    flat = slots if values.ndim == 1 else (slots[:, None] * size + np.arange(size)).ravel()
    np.add.at(total.reshape(-1), flat, values.ravel())


def _shape(kinds: str, n_classes: int) -> tuple[int, ...]:
    sizes = {"4": 4, "J": _J, "K": n_classes}
    return tuple(sizes[kind] for kind in kinds)
