"""Delayed evaluation of predictions with requested labels, calibration and prediction sets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from streamboost.checks import Label
from streamboost.evaluation.evaluation import Evaluation
from streamboost.evaluation.prediction_sets import PredictionSets, is_in_set, new_label_probability
from streamboost.evaluation.temperature import TemperatureScaling
from streamboost.predictions import Scored, remove_calibration
from streamboost.query.config import Requests
from streamboost.storage import Arrays, pack_json, select_prefix, unpack_json


@dataclass(frozen=True, slots=True, eq=False)
class _PendingRequest:
    """Stored prediction for an unlabelled record whose label was or can still be requested."""

    classes: list[Label]
    known: int  # number of classes known on arrival, including those new to the committee
    logits: np.ndarray  # uncalibrated log probabilities of `classes`
    threshold: float  # lowest probability in the prediction set
    unseen: float  # probability of a label that has not appeared yet
    weight: float  # 1 / propensity
    expected: float  # probability that the set contains the label


class DelayedEvaluator:
    """Stores predictions until their labels arrive; then updates metrics and calibration.

    Parameters
    ----------
    block
        Number of records in an audit block, of which one is requested at random; 0 without audits.
    calibrate
        Whether to scale probabilities by a temperature fitted to the labels.
    coverage
        Share of prediction sets that should contain the true label.
    pool
        Number of newest records that may be requested after their arrival; 0: none.
    min_labels
        Minimum number of labels in the sliding window of the recent estimates.
    """

    def __init__(
        self, block: int, *, calibrate: bool, coverage: float, pool: int = 0, min_labels: int = 200
    ) -> None:
        self.evaluation = Evaluation(block, pool=pool, min_labels=min_labels)
        self.temperature = TemperatureScaling()
        self.label_sets = PredictionSets(coverage)
        self.calibrate = calibrate
        self._pending: dict[str, _PendingRequest] = {}

    def calibrate_probabilities(self, scored: Scored) -> Scored:
        """Return a copy of `scored` with calibrated probabilities."""
        if not self.calibrate or self.temperature.value == 1.0 or scored.version == 0:
            return scored
        probabilities = self.temperature.apply(scored.probabilities)
        return replace(scored, probabilities=probabilities, temperature=self.temperature.value)

    def make_prediction_sets(self, scored: Scored) -> list[list[Label | None]]:
        """Return each record's prediction set, a list of labels with the most probable first.

        Labels that the committee was not trained on have probability 0, and follow the others. If
        the last entry is None, the true label may be one that has not appeared yet.
        """
        # Sets are formed from uncalibrated probabilities: with a changing temperature, newer
        # probabilities would not be comparable with older ones.
        P = remove_calibration(scored).probabilities
        threshold, unseen = self._prediction_set_threshold_and_new_label_probability()
        order = np.argsort(-P, axis=1, kind="stable")
        sizes = np.count_nonzero(is_in_set(P, threshold), axis=1)
        classes = scored.classes.tolist()
        others: list[Label | None] = []
        if is_in_set(0.0, threshold):
            others += [label for label in self.evaluation.class_indices if label not in classes]
        if is_in_set(unseen, threshold):
            others.append(None)
        return [
            [classes[k] for k in row[:size]] + others
            for row, size in zip(order.tolist(), sizes.tolist(), strict=True)
        ]

    def _prediction_set_threshold_and_new_label_probability(self) -> tuple[float, float]:
        """Return the lowest probability in prediction sets, and the probability of a new label.

        The second number is the probability that the label of a record has not appeared yet.
        """
        unseen = new_label_probability(self.evaluation.label_counts)
        return self.label_sets.threshold(unseen), unseen

    def add_predictions(
        self,
        ids: Sequence[str],
        scored: Scored,
        requests: Requests,
        committee_labels: np.ndarray | None = None,
        evaluated: Scored | None = None,
    ) -> None:
        """Store the predictions for arriving records, and the label requests for some of them.

        `committee_labels` (n,) are the labels that the committee predicts without other experts;
        None: those of `scored`. `evaluated` are the predictions that `evaluation` estimates the
        quality of; None: `scored`.
        """
        raw_probabilities = remove_calibration(scored).probabilities
        propensities = dict(zip(requests.ids, requests.propensity.tolist(), strict=True))
        in_pool = self.evaluation.pool > 0
        rows = [i for i, id in enumerate(ids) if in_pool or id in propensities]
        if scored.version:
            threshold_and_unseen = self._prediction_set_threshold_and_new_label_probability()
            expected = self.label_sets.add_records(
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
        self.evaluation.add_records(
            ids,
            scored if evaluated is None else evaluated,
            propensity,
            requests.inclusion_probabilities,
            committee_labels,
        )
        if in_pool:
            self.add_requests(requests)
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
        """Store uncalibrated predictions of the records at `rows`, until their labels arrive.

        `propensities` maps the ids of the records requested now to inclusion probabilities.
        `threshold_and_unseen` and `expected` (n,) are the values in `_PendingRequest`.
        """
        if not rows:
            return
        known = len(self.evaluation.class_indices)
        least = 1.0 / max(self.evaluation.block, 1)
        with np.errstate(divide="ignore"):
            logits = np.log(raw_probabilities[rows])
        for i, row in zip(rows, logits, strict=True):
            weight = 1.0 / max(propensities.get(ids[i], 1.0), least)
            about = (*threshold_and_unseen, weight, float(expected[i]))
            self._pending[ids[i]] = _PendingRequest(classes, known, row, *about)

    def add_requests(self, requests: Requests) -> None:
        """Register label requests for records of the pool, at most one for each record.

        A record that was selected for its utility represents only itself in the estimates, whatever
        its inclusion probability. Audited records represent all other records.
        """
        propensities = np.where(requests.selected, 1.0, requests.propensity)
        for id, chance in zip(requests.ids, propensities.tolist(), strict=True):
            if id in self._pending:
                self._pending[id] = replace(self._pending[id], weight=1.0 / chance)
        for id in self.evaluation.add_requests(requests.ids, propensities):
            self._pending.pop(id, None)

    def add_labels(
        self,
        ids: Sequence[str],
        labels: Sequence[Label],
        sources: Sequence[str | None] | None = None,
    ) -> None:
        """Learn the labels that the annotators `sources` gave the records `ids`, in arrival order.

        Only labels that were requested affect the unbiased estimates.
        """
        self.evaluation.add_labels_unchecked(ids, labels, sources)
        for id, label in zip(ids, labels, strict=True):
            if (request := self._pending.pop(id, None)) is not None:
                self._update_with_label(request, label)

    def pending_prediction(self, id: str) -> tuple[list[Label], np.ndarray] | None:
        """Return the classes and probabilities (K,) predicted for a record with an open request.

        The probabilities were predicted on arrival, and are scaled by the current temperature.
        Returns None if the record has no open request.
        """
        request = self._pending.get(id)
        if request is None:
            return None
        P = np.exp(request.logits - request.logits.max())[None]
        return request.classes, self.temperature.apply(P)[0] if self.calibrate else (P / P.sum())[0]

    def pending_weight(self, id: str) -> float | None:
        """Return the inverse inclusion probability of a record whose request is open, or None."""
        request = self._pending.get(id)
        return None if request is None else request.weight

    def correct_label(self, id: str, before: Label, label: Label | None) -> None:
        """Replace the known label `before` of a record; None retracts the label.

        Temperature and prediction sets do not change.
        """
        self.evaluation.correct_label(id, before, label)

    def rename_or_remove_class(self, label: Label, into: Label | None) -> None:
        """Replace the class `label` by `into` from now on; past estimates are unchanged."""
        self.evaluation.rename_or_remove_class(label, into)

    def add_labelled_records(self, scored: Scored, labels: Sequence[Label]) -> None:
        """Update temperature and prediction sets with labels of records that were just scored.

        For streams in which every label arrives; the unbiased estimates do not change.
        """
        if not scored.version:
            return
        raw_probabilities = remove_calibration(scored).probabilities
        with np.errstate(divide="ignore"):
            logits = np.log(raw_probabilities)
        classes, known = scored.classes.tolist(), len(self.evaluation.class_indices)
        threshold_and_unseen = self._prediction_set_threshold_and_new_label_probability()
        expected = self.label_sets.add_records(
            raw_probabilities, scored.probabilities, threshold_and_unseen[1]
        ).tolist()
        for row, chance, label in zip(logits, expected, labels, strict=True):
            self._update_with_label(
                _PendingRequest(classes, known, row, *threshold_and_unseen, 1.0, chance), label
            )

    def expire_requests(self, ids: Sequence[str]) -> None:
        """Close the open requests of these records as unanswered."""
        self.evaluation.expire_requests(ids)
        for id in ids:
            self._pending.pop(id, None)

    def _update_with_label(self, request: _PendingRequest, label: Label) -> None:
        if label in request.classes:
            k = request.classes.index(label)
            probability = float(np.exp(request.logits[k]))
            self.temperature.update(request.logits, k, request.weight)
        else:
            known = self.evaluation.class_indices.get(label, request.known) < request.known
            probability = 0.0 if known else request.unseen
        held = bool(is_in_set(probability, request.threshold))
        self.label_sets.update_level(held, request.expected, request.weight)

    def state(self) -> Arrays:
        """Return the mutable state for `resume`, as arrays by name."""
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
        """Set the state to one that `state` returned for an evaluator with equal settings."""
        about = unpack_json(arrays["about"])
        self.evaluation.resume(about["evaluation"], select_prefix(arrays, "evaluation."))
        self.temperature.resume(about["temperature"])
        self.label_sets.resume(about["label_sets"])
        self._pending, start = {}, 0
        for id, classes, known, *rest in about["asked"]:
            logits = arrays["logits"][start : start + len(classes)].copy()
            self._pending[id] = _PendingRequest(classes, known, logits, *rest)
            start += len(classes)
