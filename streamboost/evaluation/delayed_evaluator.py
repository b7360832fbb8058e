"""Delayed evaluation of predictions with requested labels: metrics, calibration, label sets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from streamboost.checks import Label
from streamboost.evaluation.evaluation import Evaluation
from streamboost.evaluation.prediction_sets import PredictionSets, is_in_set, new_label_probability
from streamboost.evaluation.temperature import Temperature
from streamboost.predictions import Scored, uncalibrated
from streamboost.query.config import Requests
from streamboost.storage import Arrays, pack_json, part, unpack_json

__all__ = ["DelayedEvaluator"]


@dataclass(frozen=True, slots=True, eq=False)
class _PendingRequest:
    """Prediction of a record whose label was requested."""

    classes: list[Label]
    known: int  # labels known on arrival, including labels newer than the committee
    logits: np.ndarray  # of the committee itself, at temperature 1
    threshold: float
    unseen: float  # probability of a label that has not appeared yet
    weight: float
    expected: float  # probability that the set contains the label


class DelayedEvaluator:
    """Stores predictions until requested labels arrive; then updates metrics and calibration.

    Parameters
    ----------
    block
        m, the records in a block of the audit, 0 without audits.
    calibrate
        Scale probabilities by the temperature fitted to the labels; False: leave them unchanged.
    coverage
        The share of label sets that should contain the true label.
    pool
        Number of newest records that may be requested after their arrival.
    """

    def __init__(self, block: int, *, calibrate: bool, coverage: float, pool: int = 0) -> None:
        self.evaluation = Evaluation(block, pool=pool)
        self.temperature = Temperature()
        self.label_sets = PredictionSets(coverage)
        self.calibrate = calibrate
        self._pending: dict[str, _PendingRequest] = {}

    def calibrated(self, scored: Scored) -> Scored:
        """Return `scored` with calibrated probabilities; the other fields are unchanged."""
        if not self.calibrate or self.temperature.value == 1.0 or scored.version == 0:
            return scored
        probabilities = self.temperature.apply(scored.probabilities)
        return replace(scored, probabilities=probabilities, temperature=self.temperature.value)

    def prediction_sets_of(self, scored: Scored) -> list[list[Label | None]]:
        """Return each record's prediction set, a list of labels with the most probable first.

        Labels that the committee was not trained on have probability 0 and follow the others. None
        is the last entry and represents labels that have not appeared yet.
        """
        # Thresholds are drawn from uncalibrated probabilities: a changing temperature would make
        # newer probabilities incomparable.
        P = uncalibrated(scored).probabilities
        threshold, unseen = self._current_threshold()
        order = np.argsort(-P, axis=1, kind="stable")
        sizes = np.count_nonzero(is_in_set(P, threshold), axis=1)
        classes = scored.classes.tolist()
        others: list[Label | None] = []
        if is_in_set(0.0, threshold):
            others += [label for label in self.evaluation.labels if label not in classes]
        if is_in_set(unseen, threshold):
            others.append(None)
        return [
            [classes[k] for k in row[:size]] + others
            for row, size in zip(order.tolist(), sizes.tolist(), strict=True)
        ]

    def _current_threshold(self) -> tuple[float, float]:
        """Return the threshold of prediction sets, and the probability of a label not seen yet."""
        unseen = new_label_probability(self.evaluation.counts)
        return self.label_sets.threshold(unseen), unseen

    def arrive(self, ids: Sequence[str], scored: Scored, requests: Requests) -> None:
        """Store the predictions of arriving records, and the requests for some of them."""
        raw_probabilities = uncalibrated(scored).probabilities
        propensities = dict(zip(requests.ids, requests.propensity.tolist(), strict=True))
        in_pool = self.evaluation.pool > 0
        rows = [i for i, id in enumerate(ids) if in_pool or id in propensities]
        if scored.version:
            threshold_and_unseen = self._current_threshold()
            expected = self.label_sets.arrive(
                raw_probabilities, scored.probabilities, threshold_and_unseen[1]
            )
            self._store_predictions(
                rows,
                ids,
                raw_probabilities,
                scored.classes.tolist(),
                propensities,
                threshold_and_unseen,
                expected,
            )
        propensity = np.full(len(ids), np.nan)
        if not in_pool:
            propensity[rows] = [propensities[ids[i]] for i in rows]
        self.evaluation.arrive(ids, scored, propensity, requests.inclusion_probabilities)
        if in_pool:
            self.ask(requests)
        while len(self._pending) > self.evaluation.patience + self.evaluation.pool:
            del self._pending[next(iter(self._pending))]

    def _store_predictions(
        self,
        rows: list[int],
        ids: Sequence[str],
        raw_probabilities: np.ndarray,
        classes: list[Label],
        propensities: dict[str, float],
        threshold_and_unseen: tuple[float, float],
        expected: np.ndarray,
    ) -> None:
        """Store the committee's uncalibrated predictions of `rows` with a possible request."""
        if not rows:
            return
        known = len(self.evaluation.labels)
        least = 1.0 / max(self.evaluation.block, 1)
        with np.errstate(divide="ignore"):
            logits = np.log(raw_probabilities[rows])
        for i, row in zip(rows, logits, strict=True):
            weight = 1.0 / max(propensities.get(ids[i], 1.0), least)
            about = (*threshold_and_unseen, weight, float(expected[i]))
            self._pending[ids[i]] = _PendingRequest(classes, known, row, *about)

    def ask(self, requests: Requests) -> None:
        """Register label requests for records of the pool; each record is requested at most once.

        Records that a query round selected represent only themselves, however small their
        inclusion probability: the audit draws from the other records and compensates for them.
        """
        propensities = np.where(requests.selected, 1.0, requests.propensity)
        for id, chance in zip(requests.ids, propensities.tolist(), strict=True):
            if id in self._pending:
                self._pending[id] = replace(self._pending[id], weight=1.0 / chance)
        for id in self.evaluation.ask(requests.ids, propensities):
            self._pending.pop(id, None)

    def label(self, ids: Sequence[str], labels: Sequence[Label]) -> None:
        """Record labels in arrival order; labels without a request do not affect the estimates."""
        self.evaluation.label_validated(ids, labels)
        for id, label in zip(ids, labels, strict=True):
            if (request := self._pending.pop(id, None)) is not None:
                self._update_with_label(request, label)

    def prediction_of(self, id: str) -> tuple[list[Label], np.ndarray] | None:
        """Return classes and probabilities (K,) of a record with an open request, or None.

        These are the probabilities of its arrival, with the current temperature.
        """
        request = self._pending.get(id)
        if request is None:
            return None
        P = np.exp(request.logits - request.logits.max())[None]
        return request.classes, self.temperature.apply(P)[0] if self.calibrate else (P / P.sum())[0]

    def correct(self, id: str, before: Label, label: Label | None) -> None:
        """Replace the known label `before` of a record; None retracts the label.

        Temperature and label sets are not changed.
        """
        self.evaluation.correct(id, before, label)

    def rename_or_remove_class(self, label: Label, into: Label | None) -> None:
        """Map one class to another from now on; past estimates are unchanged."""
        self.evaluation.rename(label, into)

    def observe(self, scored: Scored, labels: Sequence[Label]) -> None:
        """Learn from the labels of records just scored, for streams where all labels arrive."""
        if not scored.version:
            return
        raw_probabilities = uncalibrated(scored).probabilities
        with np.errstate(divide="ignore"):
            logits = np.log(raw_probabilities)
        classes, known = scored.classes.tolist(), len(self.evaluation.labels)
        threshold_and_unseen = self._current_threshold()
        expected = self.label_sets.arrive(
            raw_probabilities, scored.probabilities, threshold_and_unseen[1]
        ).tolist()
        for row, chance, label in zip(logits, expected, labels, strict=True):
            self._update_with_label(
                _PendingRequest(classes, known, row, *threshold_and_unseen, 1.0, chance), label
            )

    def expire(self, ids: Sequence[str]) -> None:
        """Remove the open requests of these records, which stay unanswered."""
        self.evaluation.expire(ids)
        for id in ids:
            self._pending.pop(id, None)

    def _update_with_label(self, request: _PendingRequest, label: Label) -> None:
        if label in request.classes:
            k = request.classes.index(label)
            probability = float(np.exp(request.logits[k]))
            self.temperature.learn(request.logits, k, request.weight)
        else:
            known = self.evaluation.labels.get(label, request.known) < request.known
            probability = 0.0 if known else request.unseen
        held = bool(is_in_set(probability, request.threshold))
        self.label_sets.learn(held, request.expected, request.weight)

    def state(self) -> Arrays:
        """Return everything that changes after construction, as arrays for `resume`."""
        evaluation, arrays = self.evaluation.state()
        pending = [
            (id, one.classes, one.known, one.threshold, one.unseen, one.weight, one.expected)
            for id, one in self._pending.items()
        ]
        about = {
            "evaluation": evaluation,
            "temperature": self.temperature.state(),
            "label_sets": self.label_sets.state(),
            "asked": pending,
        }
        logits = [one.logits for one in self._pending.values()]
        return {
            "about": pack_json(about),
            "logits": np.concatenate(logits) if logits else np.zeros(0),
            **{f"evaluation.{name}": array for name, array in arrays.items()},
        }

    def resume(self, arrays: Arrays) -> None:
        """Restore the result of `state` of an evaluator with equal settings."""
        about = unpack_json(arrays["about"])
        self.evaluation.resume(about["evaluation"], part(arrays, "evaluation."))
        self.temperature.resume(about["temperature"])
        self.label_sets.resume(about["label_sets"])
        self._pending, start = {}, 0
        for id, classes, known, *rest in about["asked"]:
            logits = arrays["logits"][start : start + len(classes)].copy()
            self._pending[id] = _PendingRequest(classes, known, logits, *rest)
            start += len(classes)
