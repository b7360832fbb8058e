"""Estimates of accuracy and related metrics from a `SufficientStats`, with 95 % intervals.

The difference estimator (Särndal, Swensson and Wretman 1992, §6.3): for records without a label,
the committee's own probabilities give the expectation. The requested labels correct its mean error,

    total = sum over labelled z + sum over the rest E[z] + n_rest sum v r / sum v,

with r = z - E[z] and v = 1/pi - 1 for inclusion probability pi. z is the value of a record in the
metric, such as 1 for a correct prediction. E[z] is the expectation of z by the committee's
probabilities, and n_rest is the number of records without a label. If a record was certain to be
requested, pi = 1 and v = 0: the record represents itself only. If all inclusion probabilities are
equal, the last factor is the plain mean residual.

The variance of the total is estimated by sum v (v + 1) r² over labelled records (Horvitz and
Thompson 1952). With few labels this estimate is uncertain, and too small if no label happens to
disagree with its prediction. So the expected variance, computed from the committee's probabilities
as sum v E[r²] over all records, is averaged in with the weight of `PSEUDO` labels. It is also a
lower bound of the variance.

If a committee is overconfident, both variances are too small until one of its few mistakes is
requested. So the expected variance includes the effect of `MISTAKES` further mistakes among the
labels, over all inclusion probabilities, as Agresti and Coull (1998) add to counts. For e labels of
equal inclusion probability, none of them wrong, the upper bound of the error is about 2 / e. The
effect vanishes as labels arrive.

Undetected mistakes can only lower an accuracy, a recall or a similar metric. So only the lower
bound of such metrics includes `MISTAKES`. The upper bound uses the interval without `MISTAKES`: an
estimate can only be too low because of requested mistakes, and the variance of the labels includes
these.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from streamboost.checks import Label
from streamboost.evaluation.sufficient_stats import BINS, MEAN_COLUMNS, PREDICTORS, SufficientStats
from streamboost.storage import Arrays

PSEUDO = 10.0
"""Weight, in labels, of the variance that is computed from the probabilities."""

MISTAKES = 1.0
"""Number of assumed mistakes among the effective labels, in addition to the expected mistakes."""

FEWEST = 5.0
"""Minimum effective number of labels for an estimate, (sum v)² / sum v² (Kish)."""

FEWEST_OF_DROP = 50
"""Least number of labels before the sliding window, and in it, for a drop of the accuracy."""

_TAIL = 0.975  # upper quantile of a 95 % interval

_NO_WEIGHT = 1e-9
"""Total weights up to this count as 0: retracted labels leave rounding errors."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated metric with its 95 % interval."""

    value: float
    low: float
    high: float

    def clipped_to(self, low: float, high: float) -> "Estimate":
        """Return a copy with value and interval clipped to [low, high]."""
        value, a, b = (float(min(max(x, low), high)) for x in (self.value, self.low, self.high))
        return Estimate(value, a, b)

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2.0

    def widened_by(self, factor: float) -> "Estimate":
        """Return a copy whose interval is `factor` times as wide, within [0, 1]."""
        below, above = self.value - self.low, self.high - self.value
        found = Estimate(self.value, self.value - factor * below, self.value + factor * above)
        return found.clipped_to(0.0, 1.0)

    def extended_to(self, other: "Estimate | None") -> "Estimate":
        """Return a copy with the interval extended to contain that of `other`; None: unchanged."""
        if other is None:
            return self
        return Estimate(self.value, min(self.low, other.low), max(self.high, other.high))

    def shifted_to(self, value: float) -> "Estimate":
        """Return a copy with `value`, and with the interval shifted by the difference."""
        by = value - self.value
        return Estimate(value, self.low + by, self.high + by)


@dataclass(frozen=True, slots=True, eq=False)
class LinearizedMetric:
    """Linearized metric: its value, and the coefficients t and w (K,) of its residual.

    The residual of a record is t[a] d[a] - w . d: a is the predicted class, and d (K,) is the
    indicator of the true class minus the probabilities. `falls` means that every mistake lowers the
    metric.
    """

    value: float
    t: np.ndarray
    w: np.ndarray
    falls: bool = False


def difference_estimate(
    *,
    rest: float,
    known: float,
    weight: float,
    weight_square: float,
    shift: float,
    first: float,
    second: float,
    model: float,
    doubt: float,
    mistakes_lower: bool = False,
) -> Estimate | None:
    """Return the difference estimate of a total with its 95 % interval.

    With v, r and z as in the module's formula: `rest` is the number of records without a label, and
    `known` the total of z, with E[z] for these records. `weight`, `weight_square`, `shift`, `first`
    and `second` are the sums of v, v (v + 1), v r, v (v + 1) r and v (v + 1) r² over labelled
    records. `model` is the expected sum of v r² over all records, and `doubt` is this sum if every
    prediction were wrong. If `mistakes_lower`, each mistake lowers the total, so that only the
    lower side of the interval is widened for undetected mistakes. Returns None if there are too few
    labels.
    """
    from scipy.special import stdtrit  # imported here: a slow import delays short commands

    if rest == 0.0:
        return Estimate(known, known, known)
    if weight <= _NO_WEIGHT:
        return None
    effective = weight**2 / (weight_square - weight)
    if effective < FEWEST:
        return None
    mean = shift / weight
    squares = max(second - 2.0 * mean * first + mean**2 * weight_square, 0.0) / weight_square
    seen = squares * weight_square * (rest / weight) ** 2
    with_more = model + MISTAKES / effective * doubt
    plain, wide = (
        (effective * seen + PSEUDO * expected) / (effective + PSEUDO)
        for expected in (model, with_more)
    )
    quantile = stdtrit(effective + PSEUDO - 1.0, _TAIL)
    below = quantile * sqrt(max(wide, with_more, 0.0))
    above = quantile * sqrt(max(plain, 0.0)) if mistakes_lower else below
    value = known + rest * mean
    return Estimate(value, value - below, value + above)


def estimate_metric(
    tally: SufficientStats, predictor: int, linearized: LinearizedMetric
) -> Estimate | None:
    """Return a metric with an interval by linearization (Särndal et al., §5.5).

    `predictor` is an index in `PREDICTORS`, and `linearized` describes the metric. Returns None if
    there are too few labels.
    """
    sums, t, w = tally.sums, linearized.t, linearized.w
    model = _sum_squared_residuals(t, w, sums["model"], sums["model_own"][predictor])
    found = difference_estimate(
        rest=tally.n_unlabelled,
        known=0.0,
        weight=tally.total_represented,
        weight_square=tally.total_represented_square,
        shift=float(t @ np.einsum("aa->a", sums["cells_shift"][predictor]))
        - float(w @ sums["truth_shift"]),
        first=float(t @ sums["first_own"][predictor] - w @ sums["first"]),
        second=_sum_squared_residuals(t, w, sums["second"], sums["second_own"][predictor]),
        model=model,
        doubt=_worst_case_squares(sums, predictor, t, w, model),
        mistakes_lower=linearized.falls,
    )
    return found and found.shifted_to(linearized.value)


def estimate_metric_by_class(
    tally: SufficientStats,
    values: np.ndarray,
    predicted_class_coefs: np.ndarray,
    true_class_coefs: np.ndarray,
    *,
    mistakes_lower: bool = False,
) -> list[Estimate | None]:
    """Return the committee's metric on each class, such as its recall, with intervals.

    `values` (K,) are the values of the metric. The coefficients (K,) are those of
    `LinearizedMetric`: for class k, its t and w have the k-th coefficient at k and 0 elsewhere, so
    that only diagonals of the sums of squares are needed. If `mistakes_lower`, each mistake lowers
    the metric.
    """
    sums, t, w = tally.sums, predicted_class_coefs, true_class_coefs

    def committee_diagonal(sum_name: str) -> np.ndarray:
        return np.asarray(np.einsum("aa->a", sums[sum_name][0]))

    def squared_residuals(sum_name: str) -> np.ndarray:
        whole, alone = np.einsum("aa->a", sums[sum_name]), committee_diagonal(f"{sum_name}_own")
        return np.asarray(w**2 * whole - 2.0 * t * w * alone + t**2 * alone)

    K, model, stands = len(t), squared_residuals("model"), sums["represented"][0]
    P = stands.sum(axis=0)
    alone = stands.sum(axis=1) / K + (1.0 - 2.0 / K) * committee_diagonal("represented")
    doubt = w**2 * (P.sum() / K + (1.0 - 2.0 / K) * P) + (t**2 - 2.0 * t * w) * alone - model
    columns = {
        "shift": t * committee_diagonal("cells_shift") - w * sums["truth_shift"],
        "first": t * sums["first_own"][0] - w * sums["first"],
        "second": squared_residuals("second"),
        "model": model,
        "doubt": doubt * K / max(K - 1, 1),
    }
    whole = {"weight": tally.total_represented, "weight_square": tally.total_represented_square}
    found: list[Estimate | None] = []
    for value, *row in zip(
        values.tolist(), *(one.tolist() for one in columns.values()), strict=True
    ):
        about = dict(zip(columns, row, strict=True))
        one = difference_estimate(
            rest=tally.n_unlabelled, known=0.0, **whole, **about, mistakes_lower=mistakes_lower
        )
        found.append(one and one.shifted_to(value))
    return found


def _sum_squared_residuals(
    t: np.ndarray, w: np.ndarray, moments: np.ndarray, moments_by_prediction: np.ndarray
) -> float:
    """Return the sum of squared residuals r² of a linearized metric.

    `t` and `w` are the coefficients in `LinearizedMetric`. `moments` (K, K) is the sum of d dᵀ. Row
    a of `moments_by_prediction` (K, K) is the sum of d[a] d over records of predicted class a.
    """
    return float(
        w @ moments @ w
        - 2.0 * t @ moments_by_prediction @ w
        + t**2 @ np.einsum("aa->a", moments_by_prediction)
    )


def _worst_case_squares(
    sums: Arrays, predictor: int, t: np.ndarray, w: np.ndarray, model: float
) -> float:
    """Return the sum of v r² over all records if every prediction were wrong.

    P are the predicted probabilities. A label that is uniform over the classes, U = 1/K, is a
    mistake with probability (K - 1)/K, and E[d dᵀ] = diag(U) - U Pᵀ - P Uᵀ + P Pᵀ.
    `SufficientStats` holds P Pᵀ as diag(P) minus the model.
    """
    K, stands = len(t), sums["represented"][predictor]
    P, own, size = (
        sums["represented"][0].sum(axis=0),
        np.einsum("aa->a", stands),
        stands.sum(axis=1),
    )
    whole = (P.sum() / K + P) @ w**2 - 2.0 * w.sum() * (P @ w) / K
    cross = t @ ((size / K + own) * w - (stands @ w + own * w.sum()) / K)
    alone = t**2 @ (size / K + own - 2.0 * own / K)
    return float(whole - 2.0 * cross + alone - model) * K / max(K - 1, 1)


def naive_accuracy(n_correct: float, n_answered: float) -> Estimate | None:
    """Return the accuracy on requested labels, with the interval of a simple random sample.

    Requested labels are no simple random sample, so the accuracy is biased and the interval is not
    valid. Returns None without labels.
    """
    if not n_answered:
        return None
    share = n_correct / n_answered
    half = 1.96 * sqrt(share * (1.0 - share) / n_answered)
    return Estimate(share, share - half, share + half)


@dataclass(frozen=True, slots=True)
class PredictorMetrics:
    """Metrics of one predictor; None without any prediction, or with too few labels.

    Attributes
    ----------
    accuracy
        Share of records with a correct prediction. Records before the first prediction count as
        wrong.
    balanced_accuracy
        Mean recall over the classes that requested labels have.
    kappa
        Cohen's kappa: 0 for a random predictor with the same shares of predictions and labels.
    naive_accuracy
        Share of correct predictions among the requested labels, as if they were a random sample.
        Requests select hard records, so this is biased, and its interval usually misses the
        accuracy.
    """

    accuracy: Estimate | None
    balanced_accuracy: Estimate | None
    kappa: Estimate | None
    naive_accuracy: Estimate | None


@dataclass(frozen=True, slots=True)
class ClassMetrics:
    """Metrics of the committee on one class: its share of the records, recall and precision."""

    label: Label
    share: Estimate | None
    recall: Estimate | None
    precision: Estimate | None


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Bin of the reliability curve: predictions with a probability in [low, high).

    Attributes
    ----------
    records
        Number of predictions in the bin.
    confidence
        Mean probability of the predicted labels; None for an empty bin.
    accuracy
        Share of correct predictions.
    """

    low: float
    high: float
    records: int
    confidence: float | None
    accuracy: Estimate | None


@dataclass(frozen=True, slots=True)
class Report:
    """Metrics over consecutive records.

    Attributes
    ----------
    records
        Number of evaluated records: all records up to the newest one whose requested label arrived.
    answered
        Number of evaluated records whose requested label arrived. With `mode="pool"`, also records
        whose label was known before a request.
    waiting
        Number of evaluated records with an open request, imputed from answered requests.
    committee, repeat_last, majority
        Metrics of the learner's predictions, and of two baselines: repeating the newest known
        label, and always predicting the most frequent one.
    log_loss
        Log loss of the committee in nats, over the records after the first label. Probabilities
        below 1e-7 count as 1e-7. None if a prediction of another system was a label alone.
    classes
        One entry for each known label.
    reliability
        Ten bins of the predicted label's probability; empty if `log_loss` is None for that reason.
    confusion
        Estimated number of records by predicted (row) and true label, in the order of `classes`.
        The rows exclude records predicted before the first label. None with too few labels.
    cost
        Mean cost of a decision (`Decisions`); None without costs.
    committee_alone
        Metrics of the committee's own predictions, before stacking with other experts; of the
        learner, if predictions of another system are evaluated. None if these predictions are
        unavailable, as with distributed scoring of the learner's predictions.
    gain_alone
        Accuracy of `committee_alone` minus that of `committee`, with the interval of the paired
        difference.
    anytime_accuracy
        The accuracy with its confidence sequence. In 95 % of all runs, the intervals at all times
        contain the true accuracy simultaneously.
    left_out
        Annotators whose labels are excluded from the metrics, because these labels disagree with
        the predictions more often than those of others (`AnnotatorErrors`).
    accuracy_with_left_out
        The accuracy from the labels of all annotators; None if no annotator is excluded.
    """

    records: int
    answered: int
    waiting: int
    committee: PredictorMetrics
    repeat_last: PredictorMetrics
    majority: PredictorMetrics
    log_loss: Estimate | None
    classes: tuple[ClassMetrics, ...]
    reliability: tuple[ReliabilityBin, ...]
    confusion: tuple[tuple[float, ...], ...] | None
    cost: Estimate | None = None
    committee_alone: PredictorMetrics | None = None
    anytime_accuracy: Estimate | None = None
    left_out: tuple[str, ...] = ()
    accuracy_with_left_out: Estimate | None = None
    gain_alone: Estimate | None = None

    def with_accuracy_intervals_extended_to(self, other: "Report") -> "Report":
        """Return a copy whose accuracy intervals also contain the accuracy intervals of `other`."""
        accuracy, anytime = self.committee.accuracy, self.anytime_accuracy
        if accuracy is None or anytime is None:
            return self
        accuracy = accuracy.extended_to(other.committee.accuracy)
        return replace(
            self,
            committee=replace(self.committee, accuracy=accuracy),
            anytime_accuracy=anytime.extended_to(other.anytime_accuracy),
        )

    def update_river_metric(self, metric: Any) -> Any:
        """Update a fresh River `metric` with the estimated confusion matrix, and return it.

        Accepts any metric of predicted labels, River's or one with the same
        ``update(y_true, y_pred, w)``. Negative cells count as 0.

        Examples
        --------
        >>> import numpy as np
        >>> from river import metrics
        >>> from streamboost.evaluation.evaluation import Evaluation
        >>> from streamboost.predictions import Scored
        >>> evaluation = Evaluation()
        >>> scored = Scored(np.array(["a", "b"], object), np.array(["a", "b"], object),
        ...                 np.array([[0.8, 0.2], [0.4, 0.6]]), np.zeros(2), 1)
        >>> evaluation.add_records(["1", "2"], scored, np.ones(2))
        >>> evaluation.add_labels(["1", "2"], ["a", "a"])
        >>> evaluation.since_start().update_river_metric(metrics.MicroF1()).get()
        0.5
        """
        labels = [one.label for one in self.classes]
        for predicted, row in zip(labels, self.confusion or (), strict=False):
            for truth, n in zip(labels, row, strict=True):
                if n > 0.0:
                    metric.update(truth, predicted, w=n)
        return metric


def accuracy_drop(since_start: Report, recent: Report) -> Estimate | None:
    """Return the accuracy before the window of `recent` minus that in the window.

    The interval has a level of 95 %: the accuracy has dropped if its lower end is above 0. Returns
    None if either part has fewer than `FEWEST_OF_DROP` labels.
    """
    whole, late = since_start.committee.accuracy, recent.committee.accuracy
    earlier = since_start.records - recent.records
    n_labels = min(since_start.answered - recent.answered, recent.answered)
    if whole is None or late is None or earlier <= 0 or n_labels < FEWEST_OF_DROP:
        return None
    # The parts are independent, so the squares of the total's interval are the sum of theirs.
    n, half = since_start.records / earlier, whole.half_width
    before = max((n * half) ** 2 - (recent.records / earlier * late.half_width) ** 2, 0.0)
    value, half = n * (whole.value - late.value), sqrt(before + late.half_width**2)
    return Estimate(value, value - half, value + half).clipped_to(-1.0, 1.0)


def make_report(
    tally: SufficientStats, labels: Sequence[Label], waiting: int, anytime_factor: float
) -> Report:
    """Return the report computed from the sums `tally`.

    `labels` are the classes, and `waiting` is the number of open requests. The confidence sequence
    of the accuracy is `anytime_factor` times as wide as its interval.
    """
    answered = tally.n_records - tally.n_unlabelled
    judged = [_predictor_metrics(tally, j, answered) for j in range(len(PREDICTORS))]
    alone = PREDICTORS.index("committee_alone")
    bins, loss = tally.means[:BINS], tally.means[BINS]
    accuracy = judged[0].accuracy
    cells, is_known = _confusion_totals(tally, 0), _has_all_committee_labels(tally)
    return Report(
        records=int(tally.n_records),
        answered=int(answered),
        waiting=waiting,
        committee=judged[0],
        repeat_last=judged[1],
        majority=judged[2],
        log_loss=_estimate_mean(loss, 0.0, np.inf),
        classes=_class_metrics(tally, labels),
        reliability=tuple(_make_reliability_bin(i, row) for i, row in enumerate(bins)),
        confusion=None if cells is None else tuple(tuple(row) for row in cells.tolist()),
        cost=_estimate_mean(tally.cost[0], 0.0, np.inf),
        committee_alone=judged[alone] if is_known else None,
        gain_alone=_estimate_mean(tally.gain[0], -1.0, 1.0) if is_known else None,
        anytime_accuracy=accuracy and accuracy.widened_by(anytime_factor),
    )


def _has_all_committee_labels(tally: SufficientStats) -> bool:
    """Return whether the committee's own labels are known for all records.

    They are unknown for records that another process summed up.
    """
    return bool(np.isclose(tally.gain[0, MEAN_COLUMNS.index("records")], tally.n_records))


def _confusion_totals(tally: SufficientStats, predictor: int) -> np.ndarray | None:
    """Return the estimated confusion matrix (K, K): predicted classes are rows."""
    return _estimated_totals(
        tally, tally.sums["cells"][predictor], tally.sums["cells_shift"][predictor]
    )


def _true_class_totals(tally: SufficientStats) -> np.ndarray | None:
    """Return the estimated number of records (K,) of each true class."""
    return _estimated_totals(tally, tally.sums["truth"], tally.sums["truth_shift"])


def _estimated_totals(
    tally: SufficientStats, known: np.ndarray, shift: np.ndarray
) -> np.ndarray | None:
    """Return totals over all records: the expected totals `known`, corrected by the labels.

    `shift` are the sums of v d over labelled records. Returns None if these represent no others.
    """
    if not tally.n_unlabelled:
        return known
    if not tally.total_represented:
        return None
    return known + tally.n_unlabelled * shift / tally.total_represented


def _predictor_metrics(tally: SufficientStats, predictor: int, answered: float) -> PredictorMetrics:
    sums = tally.sums
    if not sums["predicted"][predictor].any():  # no record had a prediction
        return PredictorMetrics(None, None, None, None)
    n, K = tally.n_records, tally.n_classes
    cells, truth = _confusion_totals(tally, predictor), _true_class_totals(tally)
    share = naive_accuracy(float(sums["hits"][predictor]), answered)
    if cells is None or truth is None or not n or not answered:
        return PredictorMetrics(None, None, None, share)
    right = np.diag(cells)
    falls = predictor == 0  # another predictor may be right where the committee is wrong
    accuracy = LinearizedMetric(float(right.sum()) / n, np.full(K, 1.0 / n), np.zeros(K), falls)
    # For classes without an answered request, the size is only the committee's own guess.
    counted = (sums["seen"] > 0) & (truth > 0)
    size = np.where(counted, truth, 1.0)
    recall = np.where(counted, np.clip(right / size, 0.0, 1.0), 0.0)
    t = counted / size / max(counted.sum(), 1)
    balanced = LinearizedMetric(float(recall.sum()) / max(counted.sum(), 1), t, recall * t, falls)
    return PredictorMetrics(
        accuracy=_estimate_clipped_metric(tally, predictor, accuracy),
        balanced_accuracy=_estimate_clipped_metric(tally, predictor, balanced),
        kappa=_estimate_kappa(tally, predictor, accuracy, truth / n),
        naive_accuracy=share and share.clipped_to(0.0, 1.0),
    )


def _estimate_kappa(
    tally: SufficientStats, predictor: int, accuracy: LinearizedMetric, truth: np.ndarray
) -> Estimate | None:
    """Return Cohen's kappa, (p_o - p_e) / (1 - p_e), for the accuracy p_o.

    p_e is the sum over classes of predicted share times true share; `truth` (K,) are the true
    shares.
    """
    n = tally.n_records
    predicted = tally.sums["predicted"][predictor] / n
    chance = float(predicted @ truth)
    if chance >= 1.0:
        return None
    slope = (1.0 - accuracy.value) / (1.0 - chance) ** 2
    value = (accuracy.value - chance) / (1.0 - chance)
    t = accuracy.t / (1.0 - chance)
    found = estimate_metric(
        tally, predictor, LinearizedMetric(value, t, slope * predicted / n, accuracy.falls)
    )
    return found and found.clipped_to(-1.0, 1.0)


def _class_metrics(tally: SufficientStats, labels: Sequence[Label]) -> tuple[ClassMetrics, ...]:
    """Return the committee's metrics on each class."""
    cells, truth, n = _confusion_totals(tally, 0), _true_class_totals(tally), tally.n_records
    if cells is None or truth is None or not n:
        return tuple(ClassMetrics(label, None, None, None) for label in labels)
    none = np.zeros(tally.n_classes)
    shares = estimate_metric_by_class(tally, truth / n, none, none - 1.0 / n)
    has_recall = (truth > 0.0) & (tally.sums["seen"] > 0) & tally.sums["predicted"][0].any()
    size = np.where(has_recall, truth, 1.0)
    recall = np.clip(np.diag(cells) / size, 0.0, 1.0)
    recalls = estimate_metric_by_class(
        tally, recall, 1.0 / size, recall / size, mistakes_lower=True
    )
    # The number of records predicted as a class is known, so precision is a mean over these.
    precisions = [
        _estimate_mean(row, 0.0, 1.0, mistakes_lower=True) for row in tally.means[BINS + 1 :]
    ]
    return tuple(
        ClassMetrics(
            label,
            _clip_to_unit_interval(shares[k]),
            _clip_to_unit_interval(recalls[k]) if told else None,
            precisions[k],
        )
        for k, (label, told) in enumerate(zip(labels, has_recall.tolist(), strict=True))
    )


def _clip_to_unit_interval(found: Estimate | None) -> Estimate | None:
    return found and found.clipped_to(0.0, 1.0)


def _estimate_clipped_metric(
    tally: SufficientStats, predictor: int, linearized: LinearizedMetric
) -> Estimate | None:
    return _clip_to_unit_interval(estimate_metric(tally, predictor, linearized))


def _make_reliability_bin(index: int, means: np.ndarray) -> ReliabilityBin:
    columns = dict(zip(MEAN_COLUMNS, means.tolist(), strict=True))
    n = columns["records"]
    return ReliabilityBin(
        low=index / BINS,
        high=(index + 1) / BINS,
        records=int(n),
        confidence=columns["confidence"] / n if n else None,
        accuracy=_estimate_mean(means, 0.0, 1.0, mistakes_lower=True),
    )


def _estimate_mean(
    means: np.ndarray, low: float, high: float, mistakes_lower: bool = False
) -> Estimate | None:
    """Return the estimated mean from `means`, a row of `SufficientStats.means`, in [low, high]."""
    columns = dict(zip(MEAN_COLUMNS, means.tolist(), strict=True))
    n = columns.pop("records")
    columns.pop("confidence")
    found = difference_estimate(**columns, mistakes_lower=mistakes_lower) if n else None
    return found and Estimate(found.value / n, found.low / n, found.high / n).clipped_to(low, high)
