"""Filter of class runs: improves predictions if successive records often have the same class."""

from collections.abc import Sequence
from functools import cache
from itertools import islice
from math import log
from typing import Any

import numpy as np

from streamboost.stacking.experts import stacking_kernels
from streamboost.storage import Arrays

_SIZE = 512
"""Number of newest records that are stored; labels of older records are not used."""

_REACH = 30
_REPEATED = 60
"""Largest distance, in records, of two labels that are compared; and number of newest records
that are filtered again after a label."""

_MOST_CLASSES = 64
"""Largest number of classes with which the filter is used, to limit its memory."""

_GRID = np.array(
    [(a, b) for a in (-1.0, 0.0, 1.0, 2.0, 3.5, 5.0) for b in (0.0, 1.0, 2.5, 5.0)]
).T.copy()
"""float64 (2, 24): a record continues a run with the probability sigmoid(a - b u), for the
standardized logarithm u of the distance between its features and those of the record before."""

_PRIOR = np.append(np.full(_GRID.shape[1], 0.5 / _GRID.shape[1]), 0.5)
"""Prior probabilities of the hypotheses, each a pair (a, b) of `_GRID`; the last: no runs."""

_SHARE = 0.02
_RATE = 0.5
_LEAST_LIKELIHOOD = 0.02
_FILTERED = 0.3
"""Fixed share: redistributed share, exponent of the likelihood, its lower bound, and the part of
the share that the filtered predictions get."""

_TRUSTED = 0.15
"""The filtered predictions are used if their weight is larger than this."""

_NO_RUNS = 0.1
"""The filtered predictions are used if the probability of no runs is less than this."""

_LEAST_LOG = log(0.003)
"""Lower bound of log probabilities in the mixture."""

_FADE = 0.998
"""Factor by which the class counts decay with each label."""


class ClassRunFilter:
    """Forward filter of a hidden Markov model over runs: successive records of the same class.

    A record either continues the run of the record before, or starts a run, whose class is drawn
    from the class shares. The probability of continuing depends on the distance between the
    features of the two records. It is the mean over 25 hypotheses, one of which is that there are
    no runs. The hypotheses are weighted by the labels: within a run, two labels are equal.

    The filtered predictions are mixed with those of the stack by fixed share (Herbster and Warmuth,
    1998), depending on the probabilities that both gave the labels. If there are no runs, the
    filtered predictions are not used.
    """

    def __init__(self) -> None:
        self._n_records = 0
        self._ids: dict[str, int] = {}  # of the newest records, numbers of arrival
        self._evidence = np.zeros(len(_PRIOR))
        self._counts = np.zeros(0)
        self._weight = 0.0  # of the filtered predictions
        self._last = np.zeros(0, dtype=np.float32)
        self._columns = np.zeros((3, 0))
        self._distance = np.zeros(3)
        self._deviations = np.zeros(_SIZE)
        self._labels = np.full(_SIZE, -1)
        self._own = np.zeros((_SIZE, 0), dtype=np.float32)
        self._filtered, self._states = self._own.copy(), self._own.copy()
        self._n_unnamed = 0

    @property
    def _hypothesis_probabilities(self) -> np.ndarray:
        """Probabilities of the hypotheses, float64 (25,); the last: there are no runs."""
        weights = _PRIOR * np.exp(self._evidence - self._evidence.max())
        return np.asarray(weights / weights.sum())

    @property
    def mixture_weight(self) -> float:
        """Weight of the filtered predictions in the mixture; 0 while they are not used."""
        is_used = self._weight > _TRUSTED and self._hypothesis_probabilities[-1] < _NO_RUNS
        return self._weight if is_used else 0.0

    def filter_predictions(
        self,
        X: np.ndarray,
        own: np.ndarray,
        probabilities: np.ndarray,
        best: np.ndarray,
        margins: np.ndarray,
    ) -> bool:
        """Add arriving records `X` (n, D) in order; filter their predictions if runs are likely.

        Returns whether filtered predictions are used. `own` float64 (n, K) are the stack's
        probabilities. If the filter is used, `probabilities` float64 (n, K), the indices `best`
        int64 (n,) of the most probable classes and `margins` float64 (n,) are overwritten.
        """
        n, n_classes = own.shape
        self._n_unnamed = 0
        if not n or n_classes > _MOST_CLASSES:
            return False
        self._extend_arrays(X.shape[1], n_classes)
        weight, logs = self.mixture_weight, np.empty((2, n, n_classes))
        for start in range(0, n, _SIZE):
            rows = slice(start, start + _SIZE)
            _run_filter_kernels().filter_class_probabilities(
                np.ascontiguousarray(X[rows]),  # other layouts would compile the kernel again
                np.ascontiguousarray(own[rows]),
                self._n_records,
                self._class_shares,
                _GRID,
                self._hypothesis_probabilities[:-1],
                self._last,
                self._columns,
                self._distance,
                self._deviations,
                self._labels,
                self._own,
                self._filtered,
                self._states,
            )
            places = np.arange(self._n_records, self._n_records + len(X[rows])) % _SIZE
            self._n_records += len(places)
            logs[1, rows] = self._filtered[places]
        self._n_unnamed = n
        if not weight:
            return False
        logs[0] = own
        with np.errstate(divide="ignore"):
            np.log(logs, out=logs)
        weights = np.array([1.0 - weight, weight])
        stacking_kernels().combine_experts(weights, logs, _LEAST_LOG, probabilities, best, margins)
        return True

    @property
    def _class_shares(self) -> np.ndarray:
        counts = self._counts + 1.0
        return np.asarray(counts / counts.sum())

    def _extend_arrays(self, n_features: int, n_classes: int) -> None:
        """Extend the arrays to at least `n_features` columns and `n_classes` classes."""
        if n_features > len(self._last):
            more = n_features - len(self._last)
            self._last = np.append(self._last, np.full(more, np.nan, dtype=np.float32))
            self._columns = np.hstack([self._columns, np.zeros((3, more))])
        more = n_classes - self._own.shape[1]
        if more > 0:
            self._counts = np.append(self._counts, np.zeros(more))
            empty = np.full((_SIZE, more), 1e-4, dtype=np.float32)
            self._own = np.hstack([self._own, empty])
            self._filtered = np.hstack([self._filtered, empty])
            self._states = np.hstack([self._states, empty])

    def set_ids_of_filtered_records(self, ids: Sequence[str]) -> None:
        """Store the ids of the records of the last `filter_predictions`.

        Ignored if the number of `ids` differs from the number of these records.
        """
        n, self._n_unnamed = self._n_unnamed, 0
        if len(ids) != n:
            return
        if not self._ids.keys().isdisjoint(ids):
            for id in ids:
                self._ids.pop(id, None)
        self._ids.update(zip(ids, range(self._n_records - n, self._n_records), strict=True))
        for id in list(islice(self._ids, max(len(self._ids) - _SIZE, 0))):
            del self._ids[id]

    def learn(self, id: str, class_index: int) -> None:
        """Learn that the record `id` has the class `class_index`."""
        if class_index >= _MOST_CLASSES:
            return
        self._extend_arrays(0, class_index + 1)
        self._counts *= _FADE
        self._counts[class_index] += 1.0
        position = self._ids.get(id)
        if position is None or position < self._n_records - _SIZE:
            return
        place = position % _SIZE
        own = max(self._own[place, class_index], _LEAST_LIKELIHOOD) ** _RATE
        filtered = max(self._filtered[place, class_index], _LEAST_LIKELIHOOD) ** _RATE
        weight = (1 - _SHARE) * self._weight + _SHARE * _FILTERED
        self._weight = float(weight * filtered / (weight * filtered + (1 - weight) * own))
        n, shares = self._n_records, self._class_shares
        about_runs = self._deviations, self._labels
        _run_filter_kernels().update_run_evidence(
            position,
            class_index,
            n,
            shares[class_index],
            _GRID,
            _REACH,
            *about_runs,
            self._evidence,
        )
        first, posterior = max(position, n - _REPEATED), self._hypothesis_probabilities[:-1]
        _run_filter_kernels().recompute_states(
            first, n, shares, _GRID, posterior, *about_runs, self._own, self._states
        )

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        about = {
            "n_records": self._n_records,
            "ids": list(self._ids.items()),
            "n_unnamed": self._n_unnamed,
            "weight": self._weight,
        }
        return about, {name: getattr(self, f"_{name}").copy() for name in _ARRAYS}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        self._n_records, self._weight = state["n_records"], state["weight"]
        self._ids, self._n_unnamed = dict(state["ids"]), state["n_unnamed"]
        for name in _ARRAYS:
            setattr(self, f"_{name}", arrays[name].copy())


_ARRAYS = (
    "evidence",
    "counts",
    "last",
    "columns",
    "distance",
    "deviations",
    "labels",
    "own",
    "filtered",
    "states",
)


@cache
def _run_filter_kernels() -> Any:
    """Return the kernels of the filter, imported on first use."""
    from streamboost.kernels import runs

    return runs
