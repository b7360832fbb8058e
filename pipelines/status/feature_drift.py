"""Whether the records look as they did: each feature's population stability index.

A feature's values are sorted into ten bins, cut at the deciles of a reference, and one for those
that are missing. With shares p in the reference and q among the newest records,

    PSI = sum over bins of (q - p) ln(q / p),

which is 0 for equal shares. By the usual rule (Siddiqi 2006, Credit Risk Scorecards, ch. 6) below
0.1 nothing of note has changed, and above 0.25 much has. Chance alone makes it about
(1/n + 1/m) times a chi-square with as many degrees of freedom as there are bins, less one, for
n and m records (Yurdakul and Naranjo 2020, Journal of Risk Model Validation 14(4)).

The reference is the first 1,000 records of the pipeline; after a training that drift called for,
which no longer sees what came before, the first 1,000 from there on.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import sqrt
from typing import Any

import msgspec
import numpy as np

from streamboost.pipelines.status.labelled import quartiles

__all__ = [
    "RECORDS",
    "SHIFTED",
    "Course",
    "Farthest",
    "FeatureDrift",
    "Moment",
    "Reference",
    "changed_at",
    "moved_most",
    "stability",
]

RECORDS = 1_000
"""In the reference, and among the newest: enough that chance alone seldom makes a PSI of 0.04."""

BINS = 10

_ABSENT = 0.5
"""Added to every count, so that an empty bin has a logarithm."""

SHIFTED = 0.2
"""Index from which a feature counts as shifted."""

FOLLOWED = 64
"""Features whose index is followed over time: those that moved most since the start."""

_NORMAL_95 = 1.645


def stability(before: np.ndarray, now: np.ndarray) -> float:
    """Return the PSI of two arrays of counts (B,) over the same bins.

    >>> round(stability(np.array([500, 500]), np.array([300, 700])), 2)
    0.17
    """
    p = (before + _ABSENT) / (before.sum() + _ABSENT * len(before))
    q = (now + _ABSENT) / (now.sum() + _ABSENT * len(now))
    return float(((q - p) * np.log(q / p)).sum())


def by_chance(bins: int, before: int, now: int) -> float:
    """Return the PSI that chance alone exceeds for one feature in twenty.

    The quantile of the chi-square is Wilson and Hilferty's (1931).
    """
    k = max(bins - 1, 1)
    quantile = k * (1.0 - 2.0 / (9.0 * k) + _NORMAL_95 * sqrt(2.0 / (9.0 * k))) ** 3
    return float(quantile * (1.0 / before + 1.0 / now))


@dataclass(frozen=True, slots=True)
class Reference:
    """What the features of n records looked like."""

    n: int
    edges: list[list[float]]
    counts: list[list[int]]
    means: list[float | None]
    taken: int
    """When it was taken, in milliseconds since the epoch."""

    @classmethod
    def of(cls, X: np.ndarray, taken: int) -> "Reference":
        """Take the reference of the rows `X` (n, D), at least one."""
        shares = np.arange(1, BINS) / BINS
        edges = [
            np.unique(np.quantile(known, shares)).tolist() if len(known) else []
            for known in (column[~np.isnan(column)] for column in X.T.astype(np.float64))
        ]
        counts = [_counts(column, cuts).tolist() for column, cuts in zip(X.T, edges, strict=True)]
        return cls(len(X), edges, counts, [_mean(column) for column in X.T], taken)


def _bins(column: np.ndarray, edges: Sequence[float]) -> np.ndarray:
    """Return the bin of each value of a column (n,), the last one for those that are missing."""
    bins = np.searchsorted(np.asarray(edges), column, side="right")
    bins[np.isnan(column)] = len(edges) + 1
    return bins


def _counts(column: np.ndarray, edges: Sequence[float]) -> np.ndarray:
    """Return how many values of a column (n,) lie in each bin, the missing ones at the end."""
    return np.bincount(_bins(column, edges), minlength=len(edges) + 2)


def changed_at(bins: np.ndarray, n_bins: int) -> int:
    """Return the place in `bins` (n,), each from 0 on below `n_bins`, from which on they differ.

    It is the split into two parts, each with shares of its own, that makes them most likely.

    >>> changed_at(np.repeat([0, 1], [70, 30]), 2)
    70
    """
    before = np.cumsum(np.eye(n_bins)[bins], axis=0)[:-1]
    after = np.bincount(bins, minlength=n_bins) - before
    found = _likelihood(before) + _likelihood(after)
    return 1 + int(found.argmax())


def _likelihood(counts: np.ndarray) -> np.ndarray:
    """Return the logarithm of the likelihood (m,) of counts (m, B), at the shares they have."""
    totals = counts.sum(axis=1, keepdims=True)
    found: np.ndarray = (counts * np.log(np.maximum(counts, 1.0) / totals)).sum(axis=1)
    return found


def _mean(column: np.ndarray) -> float | None:
    known = column[~np.isnan(column)]
    return float(known.mean(dtype=np.float64)) if len(known) else None


def _deviation(column: np.ndarray) -> float | None:
    """Return the standard deviation of the known values."""
    known = column[~np.isnan(column)]
    return float(known.std(dtype=np.float64)) if len(known) else None


@dataclass(slots=True)
class FeatureDrift:
    """Compares the newest records with a reference.

    Examples
    --------
    >>> drift = FeatureDrift(["a"])
    >>> drift.reference = Reference.of(np.arange(1000.0).reshape(-1, 1), taken=0)
    >>> found = drift.measure(np.arange(500.0, 1500.0).reshape(-1, 1))
    >>> found[0]["psi"] > 1
    True
    """

    names: Sequence[str]
    reference: Reference | None = field(default=None)

    def measure(self, X: np.ndarray) -> list[dict[str, Any]]:
        """Return what the features of the rows `X` (n, D) look like, one entry per feature.

        `psi` is None where there is no reference or no row; `by_chance` is what chance alone
        exceeds for one feature in twenty; `lower` and `upper` are quartiles.
        """
        parts = quartiles(X)
        return [
            self._one(place, name, X[:, place])
            | dict(zip(("lower", "median", "upper"), parts[place] or (None,) * 3, strict=True))
            for place, name in enumerate(self.names)
        ]

    def bins(self, X: np.ndarray, names: Iterable[str]) -> dict[str, dict[str, list[float]]]:
        """Return how the values of some features fall between `edges`, `now` and `then`.

        The counts have one bin more than there are edges, and at their end that of missing values.
        """
        reference, found = self.reference, {}
        if reference is None or not len(X):
            return {}
        for name in names:
            place = self.names.index(name)
            edges = reference.edges[place]
            found[name] = {
                "edges": [float(f"{cut:.6g}") for cut in edges],
                "now": _counts(X[:, place], edges).tolist(),
                "then": list(reference.counts[place]),
            }
        return found

    def changed_at(self, X: np.ndarray, name: str) -> int:
        """Return the row of `X` (n, D), in the order they came, from which on a feature differs."""
        assert self.reference is not None
        place = self.names.index(name)
        edges = self.reference.edges[place]
        return changed_at(_bins(X[:, place], edges), len(edges) + 2)

    def _one(self, place: int, name: str, column: np.ndarray) -> dict[str, Any]:
        n, reference = len(column), self.reference
        found: dict[str, Any] = {
            "name": name,
            "psi": None,
            "by_chance": None,
            "missing": float(np.isnan(column).mean()) if n else None,
            "missing_reference": None,
            "mean": _mean(column),
            "deviation": _deviation(column),
            "mean_reference": None,
        }
        if reference is None:
            return found
        before = np.array(reference.counts[place])
        found["missing_reference"] = float(before[-1] / reference.n)
        found["mean_reference"] = reference.means[place]
        if n:
            found["psi"] = stability(before, _counts(column, reference.edges[place]))
            found["by_chance"] = by_chance(len(before), reference.n, n)
        return found


Moment = tuple[int, int]
"""How many records had come, and the time in milliseconds since the epoch."""


@dataclass(slots=True)
class Course:
    """How a feature's index went: where it was largest, and how it came to count as shifted.

    `calm` is when it was below half of `SHIFTED` last, before it first was `SHIFTED`; `shifted`
    says whether it is that now, as far as `RECORDS` rows told last.
    """

    peak: float = -1.0
    peaked: int = 0
    began: int | None = None
    started: Moment | None = None
    calm: Moment | None = None
    shifted: bool = False


_COURSE = tuple(one.name for one in fields(Course))


@dataclass(slots=True)
class Farthest:
    """How far each feature was from its reference at most, and since when it differed.

    It is told of windows of `RECORDS` rows alone: fewer move by chance.
    """

    known: dict[str, Course] = field(default_factory=dict)

    def resume(self, features: Iterable[Mapping[str, Any]]) -> None:
        """Take up what `note` said in an earlier run."""
        for one in features:
            if one.get("peak") is not None:
                told = {key: one[key] for key in _COURSE}
                self.known[one["name"]] = msgspec.convert(told, Course)

    def note(
        self,
        features: Sequence[dict[str, Any]],
        n: int,
        now: Moment,
        changed: Callable[[str], Moment],
    ) -> None:
        """Take in what was measured `now` of `n` rows, and tell of each feature what is known.

        `peak` is its largest index since the start, `peaked` when that was, `began` when it first
        was `SHIFTED`, which the window makes later than the shift, and `started` when the shift
        itself began, with the records by then; None: never. Where a shift comes at once it began
        where its rows `changed`, and one that creeps in where the index was last small.
        """
        for one in features:
            if n >= RECORDS and (index := one["psi"]) is not None:
                course = self.known.setdefault(one["name"], Course())
                course.shifted = index >= SHIFTED
                if index > course.peak:
                    course.peak, course.peaked = round(index, 4), now[1]
                if course.began is None and index < SHIFTED / 2:
                    course.calm = now
                if course.began is None and index >= SHIFTED:
                    course.began = now[1]
                    course.started = min(changed(one["name"]), course.calm or now)
            if one["name"] in self.known:
                one |= {key: getattr(self.known[one["name"]], key) for key in _COURSE}


def moved_most(features: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the index of those of `features`, as `measure` has them, that moved most.

    As far as `Farthest` tells that goes by the whole time, so that the same ones are followed.

    >>> moved_most([{"name": "a", "psi": 0.123456}, {"name": "b", "psi": None}])
    {'a': 0.1235}
    """
    known = [one for one in features if one["psi"] is not None]
    known.sort(key=lambda one: (-one.get("peak", -1.0), -one["psi"]))
    return {one["name"]: round(one["psi"], 4) for one in known[:FOLLOWED]}
