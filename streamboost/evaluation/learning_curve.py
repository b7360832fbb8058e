"""Learning curve: forecasts the accuracy after further labels, from the estimates so far.

The estimate y of a group of consecutive records, predicted with n labels known, is modelled as

    y = level + gain (1 - ((n + 50) / (now + 50))^-c) + drift + error,

an inverse power law (Figueroa, Zeng-Treitler, Kandula and Ngo 2012) through the `level` of the
present number of labels, `now`. Its plateau is level + gain. As the law has no finite accuracy
without labels, 50 are added.

- The error has the variance of the difference estimator (`report`), pooled over the groups. The
  variance of one group depends on the group's mistakes, and would favour groups without any.
- The drift is a random walk that is 0 now, with a jump at each detected change of the stream
  (local level model, Durbin and Koopman 2012). So estimates count less the older they are, and as
  the past varied around the curve, so may the future.

The posterior is computed on a grid over gain, exponent c and the sizes of walk and jumps; the level
is normal given these. As Domhan, Springenberg and Hutter (2015) do, forecasts average over all
curves, not only the best one.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from streamboost.evaluation.report import Estimate
from streamboost.evaluation.sufficient_stats import BINS, MEAN_COLUMNS, SufficientStats

FEWEST_LABELS = 300
"""Number of labels from which on there are forecasts."""

MOST_RECORDS_PER_LABEL = 15
"""With fewer labels there are no forecasts: their intervals held in 81 % of the cases at a label
for one record in 20 (`benchmarks.forecast`)."""

WIDEST = 0.1
"""Forecasts whose interval is wider are not given."""

STEPS = (200, 1_000)
"""Numbers of further labels of the forecasts."""

LEVEL = 0.9
"""Nominal coverage of the intervals."""

_TARGETS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
_MOST_TARGETS, _COMMON_TARGET = 2, 0.95
_FARTHEST = 10.0
"""Forecasts end at this multiple of the number of labels."""

_MOST_GROUPS = 64
_GROUP_LABELS = 100
_FEWEST_EFFECTIVE = 5.0
_OFFSET = 50.0
"""Labels added in the power law."""

_OLDEST = 0.05
"""Groups predicted with fewer labels than this share of the present ones do not count: the power
law holds over a limited range."""

_SMOOTHED = 6
"""Number of groups on each side over which accuracies are averaged for the variance."""

_EXPONENTS = np.array([0.15, 0.3, 0.5, 0.7, 1.0, 1.5])
_GAINS = np.linspace(0.0, 1.0, 16)  # shares of the present error
_WALKS = np.array([0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.5, 2.5, 4.0, 8.0]) / 1_000.0
"""Standard deviations of the random walk over one label: 0.001 is one point in 100 labels."""

_JUMPS = np.array([0.0, 0.03, 0.1, 0.25])
_GAIN_RATE, _MEAN_WALK, _MEAN_JUMP = 2.0, 0.0004, 0.05
"""Of the exponential priors of gain, walk and jump."""

_LEAST_WEIGHT = 1e-3  # relative to the likeliest curve
_TAILS = (0.5 - LEVEL / 2.0, 0.5 + LEVEL / 2.0)
_NORMAL_NODES, _BISECTIONS = 15, 18
_CURVE = np.dtype(
    [
        (name, np.float64)
        for name in ("log_weight", "level", "variance", "gain", "exponent", "drift")
    ]
)


class AccuracyHistory:
    """Sums for the accuracy over consecutive groups of strides, since the start.

    Of more than 64 groups, neighbours among the older half are merged. So the memory is bounded,
    and older groups are larger.

    Attributes
    ----------
    sums
        float64 (n, 13), by group: `MEAN_COLUMNS` of being right, the number of labels, and the sum
        over the records of the number of labels known on arrival.
    first_strides
        Number of each group's first stride.
    """

    def __init__(self) -> None:
        self.sums = np.empty((0, len(MEAN_COLUMNS) + 2))
        self.first_strides: list[int] = []

    def add(self, stride: int, tally: SufficientStats, n_known: float) -> None:
        """Add the sums of a stride whose records were predicted with `n_known` labels on average.

        `stride` is the number of the stride.
        """
        sums = _accuracy_sums(tally)
        self.sums = np.vstack([self.sums, np.append(sums, n_known * sums[0])])
        self.first_strides.append(stride)
        if len(self.sums) > _MOST_GROUPS:
            older = _MOST_GROUPS // 2
            merged = self.sums[:older:2] + self.sums[1:older:2]
            self.sums = np.vstack([merged, self.sums[older:]])
            del self.first_strides[1:older:2]

    def correct(self, stride: int, change: SufficientStats) -> None:
        """Add the `change` of the sums of a stride after a label correction."""
        self.sums[bisect_right(self.first_strides, stride) - 1, :-1] += _accuracy_sums(change)

    def groups(self) -> np.ndarray:
        """Return `sums` merged into groups of at least 100 labels each, the oldest first."""
        found: list[np.ndarray] = []
        for sums in self.sums[self.sums[:, 0] > 0.0][::-1]:
            if not found or _is_complete(found[-1]):
                found.append(sums.copy())
            else:
                found[-1] += sums
        if len(found) > 1 and not _is_complete(found[-1]):
            oldest = found.pop()
            found[-1] += oldest
        return np.array(found[::-1]).reshape(-1, self.sums.shape[1])

    def resume(self, first_strides: Sequence[int], sums: np.ndarray) -> None:
        """Set the attributes to those of another history."""
        self.first_strides, self.sums = list(first_strides), sums.copy()


def records_per_label(groups: np.ndarray) -> float:
    """Return the number of records for each requested label in the newest of the groups."""
    return float(groups[-1, 0] / max(groups[-1, -2], 1.0))


def _accuracy_sums(tally: SufficientStats) -> np.ndarray:
    """Return `MEAN_COLUMNS` of being right, and the number of labels."""
    return np.append(tally.means[:BINS].sum(axis=0), float(tally.n_labels))


def _is_complete(sums: np.ndarray) -> bool:
    columns = dict(zip(MEAN_COLUMNS, sums.tolist(), strict=False))
    weight, square = columns["weight"], columns["weight_square"]
    effective = weight**2 / max(square - weight, 1e-9)
    return sums[-2] >= _GROUP_LABELS and (not columns["rest"] or effective >= _FEWEST_EFFECTIVE)


@dataclass(frozen=True, slots=True)
class ForecastStep:
    """Forecast after `labels` more labels: accuracy, and its difference from now (`gain`).

    The accuracy is that of a sliding window then; the gain is that of its expectation.
    """

    labels: int
    accuracy: Estimate
    gain: Estimate


@dataclass(frozen=True, slots=True)
class ForecastTarget:
    """Number of further `labels` after which an accuracy is reached, with its interval.

    None: not within ten times the present labels. Drift is not part of this interval.
    """

    accuracy: float
    labels: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Forecast of the accuracy over further labels, with 90 % intervals.

    Attributes
    ----------
    labels
        Number of labels known now.
    accuracy
        Accuracy of the learning curve now.
    steps
        Accuracies after 200 and 1,000 more labels, but not more than the labels known, and except
        those of too wide an interval.
    targets
        The next two round accuracies above the interval of `accuracy`, and 95 % if it is above,
        and when the curve reaches them; empty without `steps`.
    n_missing_labels
        Approximate number of further labels until `steps` is not empty; 0 if it is not.
    ceiling
        Accuracy that the curve exceeds within ten times the labels with a probability of 5 %.
    records_per_label
        Records for each requested label.
    """

    labels: int
    accuracy: Estimate
    steps: tuple[ForecastStep, ...]
    targets: tuple[ForecastTarget, ...]
    n_missing_labels: int
    ceiling: float
    records_per_label: float


class LearningCurve:
    """Posterior distribution of learning curves, as a mixture of normal distributions.

    Parameters
    ----------
    groups
        Sums of at least one group, from `AccuracyHistory.groups`.
    now
        Number of labels known now.
    changes
        Numbers of labels known when the stream changed.
    n_records_per_label
        Records for each requested label; None: that of the newest group. The groups have fewer
        labels if those of an annotator are left out.
    """

    def __init__(
        self,
        groups: np.ndarray,
        now: int,
        changes: Sequence[int] = (),
        n_records_per_label: float | None = None,
    ) -> None:
        known = groups[:, -1] / groups[:, 0]
        recent = known >= min(_OLDEST * now, known[-1])
        self.now, known = float(now), np.minimum(known[recent], now)
        self.records_per_label = n_records_per_label or records_per_label(groups)
        y, variance = _accuracies(groups[recent])
        happened = [one for one in changes if one > known[0]]
        error = float(np.clip(1.0 - y[-2:].mean(), 0.03, 0.95))
        after = sum(np.outer(known < one, known < one).astype(float) for one in happened)
        age = self.now - known
        shape = 1.0 - ((known + _OFFSET)[:, None] / (self.now + _OFFSET)) ** -_EXPONENTS
        whole = []
        for jump in _JUMPS if happened else _JUMPS[:1]:
            for walk in _WALKS:
                covariance = walk**2 * np.minimum.outer(age, age) + jump**2 * after
                fitted = _fit_curves(y, covariance + np.diag(variance), shape, error * _GAINS)
                fitted["log_weight"] -= walk / _MEAN_WALK + jump / _MEAN_JUMP
                fitted["drift"] = walk**2 + jump**2 * len(happened) / max(age[0], 1.0)
                whole.append(fitted)
        curves = np.concatenate(whole, axis=None)
        weight = np.exp(curves["log_weight"] - curves["log_weight"].max())
        kept = weight > _LEAST_WEIGHT
        self._curves, self._weight = curves[kept], weight[kept] / weight[kept].sum()

    def accuracy_after(self, labels: float, window: int = 0) -> Estimate:
        """Return the accuracy after `labels` more labels, over a window of `window` records.

        0: its expectation.
        """
        mean = self._curves["level"] + self._gain_after(labels)
        variance = self._curves["variance"] + self._curves["drift"] * labels
        if window:
            p = np.clip(mean, 0.02, 0.98)
            variance = variance + p * (1.0 - p) / window
        return self._interval(mean, variance).clipped_to(0.0, 1.0)

    def gain_after(self, labels: float) -> Estimate:
        """Return the change of the expected accuracy with `labels` more labels."""
        return self._interval(self._gain_after(labels), self._curves["drift"] * labels)

    def labels_until(self, accuracy: float) -> ForecastTarget:
        """Return the number of further labels after which the curve reaches `accuracy`."""
        from scipy.special import ndtri  # imported here: a slow import delays short commands

        nodes = ndtri((np.arange(_NORMAL_NODES) + 0.5) / _NORMAL_NODES)
        level = self._curves["level"][:, None] + np.sqrt(self._curves["variance"])[:, None] * nodes
        gain, exponent = (self._curves[name][:, None] for name in ("gain", "exponent"))
        missing = np.maximum(accuracy - level, 0.0)
        share = np.maximum(1.0 - missing / np.maximum(gain, 1e-9), 1e-9)
        needed = (self.now + _OFFSET) * (share ** (-1.0 / exponent) - 1.0)
        needed[needed > (_FARTHEST - 1.0) * self.now] = np.inf
        order = np.argsort(needed, axis=None)
        reached = np.cumsum(np.repeat(self._weight, _NORMAL_NODES)[order])
        at = np.searchsorted(reached, np.array([0.5, *_TAILS]) * reached[-1])
        found = [float(one) if np.isfinite(one) else None for one in needed.ravel()[order][at]]
        return ForecastTarget(accuracy, *found)

    def forecast(self, window: int) -> Forecast:
        """Return the forecast, with accuracies over windows of `window` records."""
        present = self.accuracy_after(0.0)
        steps = [
            ForecastStep(n, self.accuracy_after(n, window), self.gain_after(n))
            for n in STEPS
            if n <= self.now
        ]
        width = 2.0 * self.accuracy_after(STEPS[0], window).half_width
        steps = [one for one in steps if 2.0 * one.accuracy.half_width <= WIDEST]
        above = [one for one in _TARGETS if one > present.high]
        above = [x for i, x in enumerate(above) if i < _MOST_TARGETS or x == _COMMON_TARGET]
        return Forecast(
            labels=int(self.now),
            accuracy=present,
            steps=tuple(steps),
            targets=tuple(self.labels_until(one) for one in above) if steps else (),
            n_missing_labels=_n_missing_labels(width, self.now),
            ceiling=self._highest(),
            records_per_label=self.records_per_label,
        )

    def _gain_after(self, labels: float) -> np.ndarray:
        ratio = 1.0 + labels / (self.now + _OFFSET)
        return np.asarray(self._curves["gain"] * (1.0 - ratio ** -self._curves["exponent"]))

    def _highest(self) -> float:
        mean = self._curves["level"] + self._gain_after((_FARTHEST - 1.0) * self.now)
        return self._interval(mean, self._curves["variance"]).clipped_to(0.0, 1.0).high

    def _interval(self, mean: np.ndarray, variance: np.ndarray) -> Estimate:
        """Return median and interval of the mixture of normal distributions."""
        from scipy.special import ndtr

        deviation = np.sqrt(np.maximum(variance, 1e-12))
        low = np.full(3, (mean - 5.0 * deviation).min())
        high = np.full(3, (mean + 5.0 * deviation).max())
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2.0
            below = ndtr((middle[:, None] - mean) / deviation) @ self._weight
            is_left = below < np.array([0.5, *_TAILS])
            low, high = np.where(is_left, middle, low), np.where(is_left, high, middle)
        return Estimate(*((low + high) / 2.0).tolist())


def _n_missing_labels(width: float, now: float) -> int:
    """Return the number of further labels, in hundreds, until an interval is narrow enough.

    `width` is its width with `now` labels. Widths are about proportional to 1 / sqrt(labels).
    """
    return 100 * ceil(max(now * ((width / WIDEST) ** 2 - 1.0), 0.0) / 100.0)


def _fit_curves(
    y: np.ndarray, covariance: np.ndarray, shape: np.ndarray, gains: np.ndarray
) -> np.ndarray:
    """Return the curves (`_CURVE`, one for each exponent and gain) with their log likelihoods.

    `shape` (n, exponents) are the curves of gain 1 and level 0. The level has a flat prior, and is
    integrated out (generalized least squares).
    """
    whiten = np.linalg.inv(np.linalg.cholesky(covariance))
    ones, y, shape = whiten.sum(axis=1), whiten @ y, whiten @ shape
    precision = ones @ ones
    residual = y[:, None, None] - shape[:, :, None] * gains  # (n, exponents, gains)
    level = np.einsum("n,nkg->kg", ones, residual) / precision
    squares = np.einsum("nkg,nkg->kg", residual, residual) - level**2 * precision
    curves = np.empty(level.shape, dtype=_CURVE)
    determinant = np.log(np.diag(whiten)).sum() - 0.5 * np.log(precision)
    curves["log_weight"] = determinant - 0.5 * squares - _GAIN_RATE * _GAINS
    curves["level"], curves["variance"] = level, 1.0 / precision
    curves["gain"], curves["exponent"] = gains, _EXPONENTS[:, None]
    return curves


def _accuracies(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the estimated accuracy of each group (n,), and its variance (n,)."""
    columns = dict(zip(MEAN_COLUMNS, groups.T, strict=False))
    n, rest = columns["records"], columns["rest"]
    weight, square = np.maximum(columns["weight"], 1e-9), columns["weight_square"]
    mean = columns["shift"] / weight
    y = (columns["known"] + rest * mean) / n
    squares = columns["second"] - 2.0 * mean * columns["first"] + mean**2 * square
    near = np.abs(np.subtract.outer(np.arange(len(n)), np.arange(len(n)))) <= _SMOOTHED
    smooth = np.clip((near @ (y * n)) / (near @ n), 0.02, 0.98)
    binomial = smooth * (1.0 - smooth)
    # As if at least one of the labels were a mistake: a few labels may be all right by chance.
    least = min(1.0 / (groups[:, -2] @ binomial), 1.0)
    ratio = max(np.maximum(squares, 0.0).sum() / max(square @ binomial, 1e-9), least)
    design = square * (rest / weight) ** 2 / n**2
    return y, binomial * (ratio * design + 1.0 / n)
