"""Feature drift by the population stability index (PSI) of each feature.

A feature's values are sorted into ten bins, cut at the deciles of a reference sample, and one bin
for missing values. With shares p in the reference and q in the sliding window,

    PSI = sum over bins of (q - p) ln(q / p),

which is 0 for equal shares. The usual rule (Siddiqi 2006, Credit Risk Scorecards, ch. 6) reads a
PSI below 0.1 as no change and above 0.25 as a large change. Without drift, the PSI of n and m
records is distributed as about (1/n + 1/m) times a chi-square variable. Its degrees of freedom are
the number of bins minus one (Yurdakul and Naranjo 2020, Journal of Risk Model Validation 14(4)).

The reference is the first 1,000 records of the pipeline. After a training caused by drift, the
reference is the first 1,000 records from there on.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import sqrt
from typing import Any

import msgspec
import numpy as np

from streamboost.pipelines.status.neighbours import quartiles

RECORDS = 1_000
"""Size of the reference and of the sliding window: noise alone rarely makes a PSI of 0.04."""

BINS = 10

_ABSENT = 0.5
"""Pseudo-count added to every bin, so that the logarithm of an empty bin is finite."""

SHIFTED = 0.2
"""PSI from which a feature counts as shifted."""

FOLLOWED = 64
"""Number of features whose PSI is recorded over time: those with the largest peaks."""

_NORMAL_95 = 1.645


def psi(before: np.ndarray, now: np.ndarray) -> float:
    """Return the population stability index (PSI) of two arrays of bin counts (B,).

    >>> round(psi(np.array([500, 500]), np.array([300, 700])), 2)
    0.17
    """
    p = (before + _ABSENT) / (before.sum() + _ABSENT * len(before))
    q = (now + _ABSENT) / (now.sum() + _ABSENT * len(now))
    return float(((q - p) * np.log(q / p)).sum())


def psi_quantile(n_bins: int, n_before: int, n_now: int) -> float:
    """Return the 95 % quantile that the PSI has in the absence of drift.

    `n_before` and `n_now` are the numbers of rows of the two samples. The chi-square quantile is
    approximated by Wilson and Hilferty (1931).
    """
    k = max(n_bins - 1, 1)
    quantile = k * (1.0 - 2.0 / (9.0 * k) + _NORMAL_95 * sqrt(2.0 / (9.0 * k))) ** 3
    return float(quantile * (1.0 / n_before + 1.0 / n_now))


@dataclass(frozen=True, slots=True)
class ReferenceSummary:
    """Summary of a reference sample of `n` records: bin edges, counts and mean of each feature."""

    n: int
    edges: list[list[float]]
    counts: list[list[int]]
    means: list[float | None]
    taken: int
    """Time of the sample, in milliseconds since the epoch."""

    @classmethod
    def from_rows(cls, X: np.ndarray, time_ms: int) -> "ReferenceSummary":
        """Summarize the rows `X` (n, D), n > 0, sampled `time_ms` milliseconds after the epoch."""
        shares = np.arange(1, BINS) / BINS
        edges = [
            np.unique(np.quantile(known, shares)).tolist() if len(known) else []
            for known in (column[~np.isnan(column)] for column in X.T.astype(np.float64))
        ]
        counts = [
            _bin_counts(column, cuts).tolist() for column, cuts in zip(X.T, edges, strict=True)
        ]
        return cls(len(X), edges, counts, [_column_mean(column) for column in X.T], time_ms)


def _bin_indices(column: np.ndarray, edges: Sequence[float]) -> np.ndarray:
    """Return the bin index (n,) of each value of a column; missing values are in the last bin."""
    bins = np.searchsorted(np.asarray(edges), column, side="right")
    bins[np.isnan(column)] = len(edges) + 1
    return bins


def _bin_counts(column: np.ndarray, edges: Sequence[float]) -> np.ndarray:
    """Count the values of a column (n,) in each bin; missing values are in the last bin."""
    return np.bincount(_bin_indices(column, edges), minlength=len(edges) + 2)


def change_point(bins: np.ndarray, n_bins: int) -> int:
    """Return the most likely position at which the distribution of bin indices (n,) changes.

    The result is the number of indices before the change. The indices before and after the change
    are multinomial, with different probabilities.

    >>> change_point(np.repeat([0, 1], [70, 30]), 2)
    70
    """
    before = np.cumsum(np.eye(n_bins)[bins], axis=0)[:-1]
    after = np.bincount(bins, minlength=n_bins) - before
    found = _max_log_likelihoods(before) + _max_log_likelihoods(after)
    return 1 + int(found.argmax())


def _max_log_likelihoods(counts: np.ndarray) -> np.ndarray:
    """Return the maximum log-likelihood (m,) of each row of multinomial counts (m, B)."""
    totals = counts.sum(axis=1, keepdims=True)
    found: np.ndarray = (counts * np.log(np.maximum(counts, 1.0) / totals)).sum(axis=1)
    return found


def _column_mean(column: np.ndarray) -> float | None:
    known = column[~np.isnan(column)]
    return float(known.mean(dtype=np.float64)) if len(known) else None


def _column_standard_deviation(column: np.ndarray) -> float | None:
    """Return the standard deviation of the known values; None if all are missing."""
    known = column[~np.isnan(column)]
    return float(known.std(dtype=np.float64)) if len(known) else None


@dataclass(slots=True)
class FeatureDrift:
    """Compares the newest records with a reference sample, feature by feature, by PSI.

    Examples
    --------
    >>> drift = FeatureDrift(["a"])
    >>> drift.reference = ReferenceSummary.from_rows(np.arange(1000.0).reshape(-1, 1), time_ms=0)
    >>> found = drift.measure_drift(np.arange(500.0, 1500.0).reshape(-1, 1))
    >>> found[0]["psi"] > 1
    True
    """

    names: Sequence[str]
    reference: ReferenceSummary | None = field(default=None)

    def measure_drift(self, X: np.ndarray) -> list[dict[str, Any]]:
        """Return statistics of the rows `X` (n, D), one dict per feature.

        `psi` is None without a reference or rows. `by_chance` is the 95 % quantile of the PSI in
        the absence of drift. `lower` and `upper` are quartiles.
        """
        parts = quartiles(X)
        return [
            self._feature_statistics(place, name, X[:, place])
            | dict(zip(("lower", "median", "upper"), parts[place] or (None,) * 3, strict=True))
            for place, name in enumerate(self.names)
        ]

    def histograms(self, X: np.ndarray, names: Iterable[str]) -> dict[str, dict[str, list[float]]]:
        """Return the histograms of the features `names`; an empty dict without reference or rows.

        Each histogram has bin `edges`, the counts in `X` (`now`) and those in the reference
        (`then`). k edges make k + 1 bins, followed by the bin of missing values.
        """
        reference, found = self.reference, {}
        if reference is None or not len(X):
            return {}
        for name in names:
            place = self.names.index(name)
            edges = reference.edges[place]
            found[name] = {
                "edges": [float(f"{cut:.6g}") for cut in edges],
                "now": _bin_counts(X[:, place], edges).tolist(),
                "then": list(reference.counts[place]),
            }
        return found

    def change_point(self, X: np.ndarray, name: str) -> int:
        """Return the row index in `X` (n, D) at which the feature's distribution likely changes."""
        assert self.reference is not None
        place = self.names.index(name)
        edges = self.reference.edges[place]
        return change_point(_bin_indices(X[:, place], edges), len(edges) + 2)

    def _feature_statistics(self, index: int, name: str, column: np.ndarray) -> dict[str, Any]:
        n, reference = len(column), self.reference
        found: dict[str, Any] = {
            "name": name,
            "psi": None,
            "by_chance": None,
            "missing": float(np.isnan(column).mean()) if n else None,
            "missing_reference": None,
            "mean": _column_mean(column),
            "deviation": _column_standard_deviation(column),
            "mean_reference": None,
        }
        if reference is None:
            return found
        before = np.array(reference.counts[index])
        found["missing_reference"] = float(before[-1] / reference.n)
        found["mean_reference"] = reference.means[index]
        if n:
            found["psi"] = psi(before, _bin_counts(column, reference.edges[index]))
            found["by_chance"] = psi_quantile(len(before), reference.n, n)
        return found


Moment = tuple[int, int]
"""Number of records so far, and the time in milliseconds since the epoch."""


@dataclass(slots=True)
class FeatureDriftHistory:
    """Drift history of a feature: its largest PSI, and the start of its first shift.

    `peak` is the largest PSI, and `peaked` its time. `began` is the time at which the PSI first
    reached `SHIFTED`, and `started` the estimated start of that shift. `calm` is the last moment
    before `began` with a PSI below half of `SHIFTED`. `shifted` is true if the last full window of
    `RECORDS` rows had a PSI of at least `SHIFTED`. Times are in milliseconds since the epoch.
    """

    peak: float = -1.0
    peaked: int = 0
    began: int | None = None
    started: Moment | None = None
    calm: Moment | None = None
    shifted: bool = False


_COURSE = tuple(one.name for one in fields(FeatureDriftHistory))


@dataclass(slots=True)
class DriftHistory:
    """Drift histories of all features; `known` maps each feature's name to its history.

    Only full windows of `RECORDS` rows are used, as the PSI of fewer rows is mostly noise.
    """

    known: dict[str, FeatureDriftHistory] = field(default_factory=dict)

    def restore(self, features: Iterable[Mapping[str, Any]]) -> None:
        """Restore the histories from the statistics of features that an earlier run published."""
        for one in features:
            if one.get("peak") is not None:
                told = {key: one[key] for key in _COURSE}
                self.known[one["name"]] = msgspec.convert(told, FeatureDriftHistory)

    def update(
        self,
        features: Sequence[dict[str, Any]],
        n: int,
        now: Moment,
        change_time: Callable[[str], Moment],
    ) -> None:
        """Update the histories with the statistics of `n` rows, and add their values to `features`.

        `features` has one dict per feature, from `FeatureDrift.measure_drift`. Fewer than `RECORDS`
        rows do not change a history. `began` is later than the shift itself, as the PSI rises only
        when the window has enough records after the shift. `started` is the change point of the
        rows (`change_time` of the feature) or the last moment with a small PSI, whichever is
        earlier. It is None if there was no shift.
        """
        for one in features:
            if n >= RECORDS and (index := one["psi"]) is not None:
                course = self.known.setdefault(one["name"], FeatureDriftHistory())
                course.shifted = index >= SHIFTED
                if index > course.peak:
                    course.peak, course.peaked = round(index, 4), now[1]
                if course.began is None and index < SHIFTED / 2:
                    course.calm = now
                if course.began is None and index >= SHIFTED:
                    course.began = now[1]
                    course.started = min(change_time(one["name"]), course.calm or now)
            if one["name"] in self.known:
                one |= {key: getattr(self.known[one["name"]], key) for key in _COURSE}


def psi_of_top_features(features: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Map the names of the `FOLLOWED` features with the largest peaks to their current PSI.

    `features` are the results of `FeatureDrift.measure_drift`. A peak is the largest PSI since the
    start. Features without a peak come last.

    >>> psi_of_top_features([{"name": "a", "psi": 0.123456}, {"name": "b", "psi": None}])
    {'a': 0.1235}
    """
    known = [one for one in features if one["psi"] is not None]
    known.sort(key=lambda one: (-one.get("peak", -1.0), -one["psi"]))
    return {one["name"]: round(one["psi"], 4) for one in known[:FOLLOWED]}
