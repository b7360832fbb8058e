"""Reports accuracy and related figures from one tally, with 95 % intervals.

The difference estimator (Särndal, Swensson and Wretman 1992, §6.3): of the records without a label
the committee's own probabilities tell what to expect, and the labels asked for tell by how much
they are wrong on average,

    total = sum over labelled z + sum over the rest E[z] + n_rest sum v r / sum v,

with r = z - E[z] and v = 1/pi - 1. Where a record was sure to be asked about, pi = 1 and v = 0: it
speaks for itself only; where all had the same chance, the last factor is the plain mean residual.

Its variance is that of Horvitz and Thompson (1952), sum v (v + 1) r² over the labelled. With few
labels that is uncertain, and small where none of them happened to be wrong; what the committee's
probabilities expect of it, sum v E[r²] over all records, each of which has its v, asked about or
not, counts as `PSEUDO` labels more and is the least it can be.

Where a committee is too sure of itself, neither shows it until one of its few mistakes is asked
about. To what it expects is therefore added what `MISTAKES` mistakes more among the labels would
have come to, over records of all chances, as Agresti and Coull (1998) add to what was counted: e
labels of one chance, none of them wrong, leave room for about 2 / e, and as labels come it fades
beside what they show.

Mistakes that nobody has caught can only lower an accuracy, recall or the like. On that side such
figures have the interval just described, and on the other the plain one, of the variance that the
labels show and as `PSEUDO` labels the probabilities expect: a figure that is too low was made so by
mistakes that were asked about, and these show.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.checks import Label
from streamboost.stream.evaluation.tally import BINS, MEAN_COLUMNS, PREDICTORS, Tally

__all__ = [
    "Bin",
    "ClassFigures",
    "Estimate",
    "Figures",
    "Question",
    "Report",
    "difference",
    "estimate",
    "estimates_by_class",
    "naive",
    "report",
]

PSEUDO = 10.0
"""Labels by whose number the variance that the probabilities expect counts beside the one seen."""

MISTAKES = 1.0
"""Mistakes, beside those that the probabilities expect, among as many labels as are effective."""

FEWEST = 5.0
"""Residuals, by Kish's effective number (sum v)² / sum v², without which there is no figure."""

_TAIL = 0.975

_NO_WEIGHT = 1e-9
"""Labels that were taken back leave the rounding of their weights."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    def within(self, low: float, high: float) -> "Estimate":
        """Return the figure cut to the range it can have."""
        value, a, b = (float(min(max(x, low), high)) for x in (self.value, self.low, self.high))
        return Estimate(value, a, b)

    def moved_to(self, value: float) -> "Estimate":
        """Return another figure with as wide an interval."""
        by = value - self.value
        return Estimate(value, self.low + by, self.high + by)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A figure as a function of the sums: its value, and t and w (K,) of `Tally`'s residual.

    `falls` says that every mistake lowers it.
    """

    value: float
    t: np.ndarray
    w: np.ndarray
    falls: bool = False


def difference(
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
    falls: bool = False,
) -> Estimate | None:
    """Return a total's estimate; see `Tally` for what the sums are.

    `doubt` is the sum of v r² over all records, were each predicted wrongly, and `falls` says that
    each mistake lowers the total. None where there are too few residuals to tell.
    """
    from scipy.special import stdtrit  # longer to load than all else that a short command needs

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
    above = quantile * sqrt(max(plain, 0.0)) if falls else below
    value = known + rest * mean
    return Estimate(value, value - below, value + above)


def estimate(tally: Tally, predictor: int, question: Question) -> Estimate | None:
    """Return the figure with an interval from its linearization (Särndal et al., §5.5)."""
    sums, t, w = tally.sums, question.t, question.w
    model = _squares(t, w, sums["model"], sums["model_own"][predictor])
    found = difference(
        rest=tally.rest,
        known=0.0,
        weight=tally.weight,
        weight_square=tally.weight_square,
        shift=float(t @ np.einsum("aa->a", sums["cells_shift"][predictor]))
        - float(w @ sums["truth_shift"]),
        first=float(t @ sums["first_own"][predictor] - w @ sums["first"]),
        second=_squares(t, w, sums["second"], sums["second_own"][predictor]),
        model=model,
        doubt=_doubt(sums, predictor, t, w, model),
        falls=question.falls,
    )
    return found and found.moved_to(question.value)


def estimates_by_class(
    tally: Tally, values: np.ndarray, t: np.ndarray, w: np.ndarray, *, falls: bool = False
) -> list[Estimate | None]:
    """Return what `estimate` says of the committee's figures on each class, all at once.

    That of class k has the value `values[k]`, and t and w (K,) that are `t[k]` and `w[k]` there and
    0 elsewhere, so that diagonals are all there is to its sums of squares.
    """
    sums = tally.sums

    def own(name: str) -> np.ndarray:
        return np.asarray(np.einsum("aa->a", sums[name][0]))

    def squares(name: str) -> np.ndarray:
        whole, alone = np.einsum("aa->a", sums[name]), own(f"{name}_own")
        return np.asarray(w**2 * whole - 2.0 * t * w * alone + t**2 * alone)

    K, model, stands = len(t), squares("model"), sums["stands"][0]
    P = stands.sum(axis=0)
    alone = stands.sum(axis=1) / K + (1.0 - 2.0 / K) * own("stands")
    doubt = w**2 * (P.sum() / K + (1.0 - 2.0 / K) * P) + (t**2 - 2.0 * t * w) * alone - model
    columns = {
        "shift": t * own("cells_shift") - w * sums["truth_shift"],
        "first": t * sums["first_own"][0] - w * sums["first"],
        "second": squares("second"),
        "model": model,
        "doubt": doubt * K / max(K - 1, 1),
    }
    whole = {"weight": tally.weight, "weight_square": tally.weight_square}
    found: list[Estimate | None] = []
    for value, *row in zip(
        values.tolist(), *(one.tolist() for one in columns.values()), strict=True
    ):
        about = dict(zip(columns, row, strict=True))
        one = difference(rest=tally.rest, known=0.0, **whole, **about, falls=falls)
        found.append(one and one.moved_to(value))
    return found


def _squares(t: np.ndarray, w: np.ndarray, whole: np.ndarray, own: np.ndarray) -> float:
    """Return the sum of r², of sums of d dᵀ and, by the class a predicted, of d[a] d."""
    return float(w @ whole @ w - 2.0 * t @ own @ w + t**2 @ np.einsum("aa->a", own))


def _doubt(sums: Arrays, predictor: int, t: np.ndarray, w: np.ndarray, model: float) -> float:
    """Return the sum of v r² over all records, were all labels mistakes; see `difference`.

    A label that is any class with the same chance U = 1/K is a mistake K - 1 times in K, and has
    E[d dᵀ] = diag(U) - U Pᵀ - P Uᵀ + P Pᵀ. What `Tally` holds of P Pᵀ is diag(P) less the model.
    """
    K, stands = len(t), sums["stands"][predictor]
    P, own, size = sums["stands"][0].sum(axis=0), np.einsum("aa->a", stands), stands.sum(axis=1)
    whole = (P.sum() / K + P) @ w**2 - 2.0 * w.sum() * (P @ w) / K
    cross = t @ ((size / K + own) * w - (stands @ w + own * w.sum()) / K)
    alone = t**2 @ (size / K + own - 2.0 * own / K)
    return float(whole - 2.0 * cross + alone - model) * K / max(K - 1, 1)


def naive(hits: float, answered: float) -> Estimate | None:
    """Return the share `hits` / `answered` with the interval of a fair sample, which it is not."""
    if not answered:
        return None
    share = hits / answered
    half = 1.96 * sqrt(share * (1.0 - share) / answered)
    return Estimate(share, share - half, share + half)


@dataclass(frozen=True, slots=True)
class Figures:
    """How good one predictor's answers are; None where too few labels tell.

    Attributes
    ----------
    accuracy
        Share of the records whose label was predicted; before the first label nothing is
        predicted, which counts as wrong.
    balanced_accuracy
        Mean recall over the classes that answers have named.
    kappa
        Cohen's kappa: 0 is what chance gives with the same shares of predictions and labels.
    naive_accuracy
        Share right among the labels that were asked for, as if these were a fair sample: they
        are the hard ones, so this is not the accuracy, and its interval misses that as a rule.
    """

    accuracy: Estimate | None
    balanced_accuracy: Estimate | None
    kappa: Estimate | None
    naive_accuracy: Estimate | None


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """How the committee does on one class: its share of the records, recall and precision."""

    label: Label
    share: Estimate | None
    recall: Estimate | None
    precision: Estimate | None


@dataclass(frozen=True, slots=True)
class Bin:
    """One point of the reliability curve: predictions whose probability lies in [low, high).

    Attributes
    ----------
    records
        How many there are.
    confidence
        Their mean probability; None where there are none.
    accuracy
        The share of them that is right.
    """

    low: float
    high: float
    records: int
    confidence: float | None
    accuracy: Estimate | None


@dataclass(frozen=True, slots=True)
class Report:
    """Figures over a run of records.

    Attributes
    ----------
    records
        Records judged: those before the newest request whose label came.
    answered
        Those of them whose label was asked for and came; in a pool, also those whose label was
        known before they could be asked about.
    waiting
        Those of them whose label was asked for and may still come: others speak for them.
    committee, repeat_last, majority
        The learner's predictions, and beside them what repeating the newest known label and
        what always giving the commonest would have come to.
    log_loss
        The committee's, in nats, over the records after the first label; a probability under
        1e-7 counts as that.
    classes
        One entry per label known.
    reliability
        Ten bins of the predicted label's probability.
    confusion
        Estimated records by predicted (row) and true label, in the order of `classes`; the rows
        lack records that were predicted before the first label. None where too few labels tell.
    cost
        What a decision has cost in the mean (`Decisions`); None where there are no costs.
    """

    records: int
    answered: int
    waiting: int
    committee: Figures
    repeat_last: Figures
    majority: Figures
    log_loss: Estimate | None
    classes: tuple[ClassFigures, ...]
    reliability: tuple[Bin, ...]
    confusion: tuple[tuple[float, ...], ...] | None
    cost: Estimate | None = None

    def measure(self, metric: Any) -> Any:
        """Update a fresh River `metric` with the estimated confusion matrix, and return it.

        Any metric of predicted labels will do, River's or one with the same
        ``update(y_true, y_pred, w)``. What cells lack is rounded off at 0.

        Examples
        --------
        >>> import numpy as np
        >>> from river import metrics
        >>> from streamboost.stream.evaluation.evaluation import Evaluation
        >>> from streamboost.stream.scoring import Scored
        >>> evaluation = Evaluation()
        >>> scored = Scored(np.array(["a", "b"], object), np.array(["a", "b"], object),
        ...                 np.array([[0.8, 0.2], [0.4, 0.6]]), np.zeros(2), 1)
        >>> evaluation.arrive(["1", "2"], scored, np.ones(2))
        >>> evaluation.label(["1", "2"], ["a", "a"])
        >>> evaluation.since_start().measure(metrics.MicroF1()).get()
        0.5
        """
        labels = [one.label for one in self.classes]
        for predicted, row in zip(labels, self.confusion or (), strict=False):
            for truth, n in zip(labels, row, strict=True):
                if n > 0.0:
                    metric.update(truth, predicted, w=n)
        return metric


def report(tally: Tally, labels: Sequence[Label], waiting: int) -> Report:
    """Return the figures of `tally`, whose classes are `labels`; so many requests are open."""
    answered = tally.records - tally.rest
    judged = [_figures(tally, j, answered) for j in range(len(PREDICTORS))]
    bins, loss = tally.means[:BINS], tally.means[BINS]
    cells = _cells(tally, 0)
    return Report(
        records=int(tally.records),
        answered=int(answered),
        waiting=waiting,
        committee=judged[0],
        repeat_last=judged[1],
        majority=judged[2],
        log_loss=_mean(loss, 0.0, np.inf),
        classes=_classes(tally, labels),
        reliability=tuple(_bin(i, row) for i, row in enumerate(bins)),
        confusion=None if cells is None else tuple(tuple(row) for row in cells.tolist()),
        cost=_mean(tally.cost[0], 0.0, np.inf),
    )


def _cells(tally: Tally, j: int) -> np.ndarray | None:
    """Return the estimated records (K, K) by predicted and true class."""
    return _totals(tally, tally.sums["cells"][j], tally.sums["cells_shift"][j])


def _truth(tally: Tally) -> np.ndarray | None:
    return _totals(tally, tally.sums["truth"], tally.sums["truth_shift"])


def _totals(tally: Tally, known: np.ndarray, shift: np.ndarray) -> np.ndarray | None:
    if not tally.rest:
        return known
    return known + tally.rest * shift / tally.weight if tally.weight else None


def _figures(tally: Tally, j: int, answered: float) -> Figures:
    sums = tally.sums
    n, K = tally.records, tally.n_classes
    cells, truth = _cells(tally, j), _truth(tally)
    share = naive(float(sums["hits"][j]), answered)
    if cells is None or truth is None or not n or not answered:
        return Figures(None, None, None, share)
    right = np.diag(cells)
    falls = j == 0  # the committee's mistakes are no other predictor's
    accuracy = Question(float(right.sum()) / n, np.full(K, 1.0 / n), np.zeros(K), falls)
    # Classes that no answer has named have but the committee's own guess for a size.
    counted = (sums["seen"] > 0) & (truth > 0)
    size = np.where(counted, truth, 1.0)
    recall = np.where(counted, np.clip(right / size, 0.0, 1.0), 0.0)
    t = counted / size / max(counted.sum(), 1)
    balanced = Question(float(recall.sum()) / max(counted.sum(), 1), t, recall * t, falls)
    return Figures(
        accuracy=_bounded(tally, j, accuracy),
        balanced_accuracy=_bounded(tally, j, balanced),
        kappa=_kappa(tally, j, accuracy, truth / n),
        naive_accuracy=share and share.within(0.0, 1.0),
    )


def _kappa(tally: Tally, j: int, accuracy: Question, truth: np.ndarray) -> Estimate | None:
    """(p_o - p_e) / (1 - p_e), with p_e = sum over classes of predicted share x true share."""
    n = tally.records
    predicted = tally.sums["predicted"][j] / n
    chance = float(predicted @ truth)
    if chance >= 1.0:
        return None
    slope = (1.0 - accuracy.value) / (1.0 - chance) ** 2
    value = (accuracy.value - chance) / (1.0 - chance)
    t = accuracy.t / (1.0 - chance)
    found = estimate(tally, j, Question(value, t, slope * predicted / n, accuracy.falls))
    return found and found.within(-1.0, 1.0)


def _classes(tally: Tally, labels: Sequence[Label]) -> tuple[ClassFigures, ...]:
    """Return how the committee does on each class."""
    cells, truth, n = _cells(tally, 0), _truth(tally), tally.records
    if cells is None or truth is None or not n:
        return tuple(ClassFigures(label, None, None, None) for label in labels)
    none = np.zeros(tally.n_classes)
    shares = estimates_by_class(tally, truth / n, none, none - 1.0 / n)
    has_recall = (truth > 0.0) & (tally.sums["seen"] > 0)
    size = np.where(has_recall, truth, 1.0)
    recall = np.clip(np.diag(cells) / size, 0.0, 1.0)
    recalls = estimates_by_class(tally, recall, 1.0 / size, recall / size, falls=True)
    # Of the records predicted as one class the number is known: they are judged by themselves.
    precisions = [_mean(row, 0.0, 1.0, falls=True) for row in tally.means[BINS + 1 :]]
    return tuple(
        ClassFigures(label, _share(shares[k]), _share(recalls[k]) if told else None, precisions[k])
        for k, (label, told) in enumerate(zip(labels, has_recall.tolist(), strict=True))
    )


def _share(found: Estimate | None) -> Estimate | None:
    return found and found.within(0.0, 1.0)


def _bounded(tally: Tally, j: int, question: Question) -> Estimate | None:
    return _share(estimate(tally, j, question))


def _bin(i: int, row: np.ndarray) -> Bin:
    columns = dict(zip(MEAN_COLUMNS, row.tolist(), strict=True))
    n = columns["records"]
    return Bin(
        low=i / BINS,
        high=(i + 1) / BINS,
        records=int(n),
        confidence=columns["confidence"] / n if n else None,
        accuracy=_mean(row, 0.0, 1.0, falls=True),
    )


def _mean(row: np.ndarray, low: float, high: float, falls: bool = False) -> Estimate | None:
    """Return the mean that a row of `Tally.means` stands for."""
    columns = dict(zip(MEAN_COLUMNS, row.tolist(), strict=True))
    n = columns.pop("records")
    columns.pop("confidence")
    found = difference(**columns, falls=falls) if n else None
    return found and Estimate(found.value / n, found.low / n, found.high / n).within(low, high)
