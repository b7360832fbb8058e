"""What honest evaluation reports: accuracy and its kin, with intervals, from one tally."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamboost.stream.checks import Label
from streamboost.stream.evaluation.intervals import (
    Estimate,
    Question,
    difference,
    estimate,
    estimates_by_class,
    naive,
)
from streamboost.stream.evaluation.tally import BINS, MEAN_COLUMNS, PREDICTORS, Tally

__all__ = ["Bin", "ClassFigures", "Figures", "Report", "report"]


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
        >>> from streamboost.stream.evaluation.windows import Evaluation
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
