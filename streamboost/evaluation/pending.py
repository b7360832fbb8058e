"""Pending predictions of an evaluation, and sums over records whose labels are final.

`PendingPredictions` stores the newest records with their predictions. `StrideSums` accumulates
final records in groups (strides), and stores predictions and labels, which label corrections need.
`ClassCounts` maps classes to indices and counts their labels.
"""

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from streamboost.checks import Label
from streamboost.evaluation.annotator_errors import UNKNOWN
from streamboost.evaluation.exclusion import exclusion_change, select_records
from streamboost.evaluation.learning_curve import AccuracyHistory
from streamboost.evaluation.sufficient_stats import PREDICTORS, EvaluatedRecords, SufficientStats
from streamboost.storage import Arrays, select_prefix


class ClassCounts:
    """Maps classes to indices in order of appearance; tracks the newest and most frequent label.

    Attributes
    ----------
    codes
        Class index of each label.
    counts
        Number of labels of each class, by class index.
    last, commonest
        Class indices of the newest and of the most frequent label, which the two baselines predict;
        -1 before the first label.
    """

    def __init__(self) -> None:
        self.codes: dict[Label, int] = {}
        self.counts: list[int] = []
        self.last = self.commonest = -1

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def label_type(self) -> type | None:
        """Type of the labels, str or int; None before the first label."""
        return type(next(iter(self.codes))) if self.codes else None

    def get_or_add_class_index(self, label: Label) -> int:
        """Return the class index of a label; a new label gets the next index."""
        if label not in self.codes:
            self.codes[label] = len(self.codes)
            self.counts.append(0)
        return self.codes[label]

    def add(self, label: Label) -> int:
        """Count an arriving label; return its class index."""
        code = self.last = self.get_or_add_class_index(label)
        self.counts[code] += 1
        if self.commonest < 0 or self.counts[code] > self.counts[self.commonest]:
            self.commonest = code
        return code

    def correct_label(self, before: Label, label: Label | None) -> int:
        """Replace the counted label `before` by `label`; return the class index of `label`.

        If `label` is None, one `before` is subtracted, and -1 is returned.
        """
        truth = -1 if label is None else self.get_or_add_class_index(label)
        self.counts[self.codes[before]] -= 1
        if truth >= 0:
            self.counts[truth] += 1
        self._update_most_frequent_label()
        return truth

    def rename_or_remove_class(self, label: Label, into: Label | None) -> None:
        """Add the count of class `label` to class `into`, which may be new; None drops it."""
        before = self.codes[label]
        counted, self.counts[before] = self.counts[before], 0
        code = -1 if into is None else self.get_or_add_class_index(into)
        if code >= 0:
            self.counts[code] += counted
        self._update_most_frequent_label()
        if self.last == before:
            self.last = code

    def _update_most_frequent_label(self) -> None:
        self.commonest = int(np.argmax(self.counts)) if any(self.counts) else -1

    def state(self) -> dict[str, Any]:
        """Return the complete state for `resume`, as JSON values."""
        return {
            "labels": list(self.codes),
            "counts": self.counts,
            "last": self.last,
            "commonest": self.commonest,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Set the state to one that the method `state` returned; ignore other keys."""
        self.codes = {label: code for code, label in enumerate(state["labels"])}
        self.counts = list(state["counts"])
        self.last, self.commonest = state["last"], state["commonest"]


PARTS = 10
"""Number of strides in a sliding window. A stride is a group of consecutive records."""

_MOST_BYTES = 8 * 2**20
_MOST = 20_000
"""Limits of the stored predictions in bytes and in number; the oldest are evicted first."""

_EACH = 100  # bytes in addition to the probabilities

_COMPLETE = 0.9
"""Least share of a group's labels that must be stored to exclude an annotator from its sums."""


DecisionCost = Callable[[np.ndarray], np.ndarray | None]
"""Computes costs of decisions from probabilities (n, K); see `EvaluatedRecords.decision_cost`."""


class EvaluatedPrediction(NamedTuple):
    """Prediction and label of one record that is included in accumulated sums."""

    stride: int
    """The number of the record's stride."""
    P: np.ndarray
    """Probabilities of the classes known on arrival, float64 (K,)."""
    predicted: tuple[int, ...]
    """Class index predicted by each of `PREDICTORS`."""
    truth: int
    """Class index of the label."""
    others: float
    """Number of further records that the record represents (`EvaluatedRecords.others`)."""
    waited: int
    """Delay of the label, in records."""
    source: int
    """Number of the annotator (`AnnotatorErrors.number_of`)."""

    def sums(
        self, class_index: int, n_classes: int, decision_cost: DecisionCost
    ) -> SufficientStats:
        """Return the sums over this record alone, with class index `class_index` (-1: no label)."""
        P = np.zeros((1, n_classes))
        P[0, : len(self.P)] = self.P
        tally = SufficientStats(n_classes)
        others = np.array([self.others])
        tally.add(
            EvaluatedRecords(
                P, np.array([self.predicted]), np.array([class_index]), others, decision_cost(P)
            )
        )
        return tally


class EvaluatedPredictionStore:
    """Store of the newest labelled predictions, by record id.

    With them, the accumulated sums of the evaluation are corrected if a label changes or is
    retracted.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, EvaluatedPrediction] = OrderedDict()
        self._bytes = 0

    def newest(self, n: int) -> list[EvaluatedPrediction]:
        """Return the newest `n` labelled predictions, or all if there are fewer."""
        return list(islice(reversed(self._kept.values()), n))

    def since_stride(self, first_stride: int) -> list[EvaluatedPrediction]:
        """Return the labelled predictions of the stride number `first_stride` and later ones."""
        return [one for one in self._kept.values() if one.stride >= first_stride]

    def add(
        self,
        ids: Sequence[str],
        evaluated: EvaluatedRecords,
        label_delays: np.ndarray,
        sources: np.ndarray,
        stride: int,
    ) -> None:
        """Add the labelled records of a stride; evict the oldest beyond the limit.

        `evaluated` are the stride's records, `ids` (n,) their ids, and `stride` is its number.
        `label_delays` (n,) is the delay of each label in records, and `sources` (n,) the number of
        each label's annotator.
        """
        for i in np.flatnonzero(evaluated.truth >= 0).tolist():
            self._store_prediction(
                ids[i],
                EvaluatedPrediction(
                    stride,
                    evaluated.P[i].copy(),
                    tuple(evaluated.predicted[i].tolist()),
                    int(evaluated.truth[i]),
                    float(evaluated.others[i]),
                    int(label_delays[i]),
                    int(sources[i]),
                ),
            )

    def _store_prediction(self, id: str, prediction: EvaluatedPrediction) -> None:
        self.pop(id)
        self._kept[id] = prediction
        self._bytes += prediction.P.nbytes + _EACH
        while len(self._kept) > _MOST or self._bytes > _MOST_BYTES:
            self.pop(next(iter(self._kept)))

    def pop(self, id: str) -> EvaluatedPrediction | None:
        """Remove and return the labelled prediction of the record `id`; None if not stored."""
        prediction = self._kept.pop(id, None)
        if prediction is not None:
            self._bytes -= prediction.P.nbytes + _EACH
        return prediction

    def remove(self, ids: Sequence[str]) -> None:
        """Remove the labelled predictions of the records `ids`; other ids are ignored."""
        for id in self._kept.keys() & ids:
            self.pop(id)

    def correct_label(
        self, id: str, class_index: int, n_classes: int, decision_cost: DecisionCost
    ) -> tuple[int, SufficientStats] | None:
        """Change the class index of the record `id` to `class_index`; -1 retracts the label.

        `decision_cost` computes `EvaluatedRecords.decision_cost`.

        Returns the number of the record's stride and the change of the sums; None if the record is
        not stored.
        """
        prediction = self._kept.get(id)
        if prediction is None:
            return None
        change = prediction.sums(class_index, n_classes, decision_cost)
        change.merge(prediction.sums(prediction.truth, n_classes, decision_cost), times=-1.0)
        if class_index < 0:
            self.pop(id)
        else:
            self._kept[id] = prediction._replace(truth=class_index)
        return prediction.stride, change

    def state(self) -> tuple[list[Any], Arrays]:
        """Return the complete state for `resume`: JSON values, and arrays by name."""
        about = [(id, one.stride, len(one.P), *one[2:]) for id, one in self._kept.items()]
        P = [one.P for one in self._kept.values()]
        return about, {"P": np.concatenate(P) if P else np.zeros(0)}

    def resume(self, about: list[Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        self._kept, self._bytes, start = OrderedDict(), 0, 0
        for id, stride, n, predicted, *rest in about:
            P = arrays["P"][start : start + n].copy()
            self._store_prediction(id, EvaluatedPrediction(stride, P, tuple(predicted), *rest))
            start += n


class StrideSums:
    """Sufficient statistics of all strides in total, and of the newest strides in groups.

    A stride has consecutive records: a tenth of the sliding window. A group has one stride, or
    several consecutive strides if they have few labels.

    Attributes
    ----------
    total
        The sums over the records of all strides.
    labelled_predictions
        Predictions and labels of the newest labelled records, to correct the sums if a label
        changes.
    history
        Sums for the accuracy since the start, by the number of labels known on arrival.
    """

    def __init__(self) -> None:
        self.total = SufficientStats()
        self.labelled_predictions = EvaluatedPredictionStore()
        self.history = AccuracyHistory()
        self._recent: deque[SufficientStats] = deque(maxlen=PARTS + 1)
        self._starts: deque[int] = deque(maxlen=PARTS + 1)  # number of each group's first stride
        self._added = 0
        self._decided_since = 0  # number of strides before the current decisions were set

    @property
    def n_strides(self) -> int:
        """Number of strides added."""
        return self._added

    def newest(
        self, n_records: float, n_labels: int, left_out: Collection[int]
    ) -> tuple[list[SufficientStats], int]:
        """Return the sums of each of the newest groups, and the number of their first stride.

        The groups have at most `n_records` records in total. If these records have fewer than
        `n_labels` labels by annotators other than `left_out`, more groups are returned.
        """
        first = len(self._recent)
        counts = self._count_labels(left_out)
        while first > 0:
            n_records -= self._recent[first - 1].n_records
            if n_records < 0 and n_labels <= 0:
                break
            first -= 1
            n_labels -= counts[first]
        return list(self._recent)[first:], [*self._starts, self._added][first]

    def _count_labels(self, left_out: Collection[int]) -> list[int]:
        """Return the number of labels in each group by annotators other than `left_out`."""
        counts = [tally.n_labels for tally in self._recent]
        if left_out and counts:
            for outcome in self.labelled_predictions.since_stride(self._starts[0]):
                if outcome.source in left_out:
                    counts[bisect_right(self._starts, outcome.stride) - 1] -= 1
        return counts

    def extend_classes(self, n_classes: int) -> None:
        """Extend the sums to `n_classes` classes; those of new classes are 0."""
        for tally in (self.total, *self._recent):
            tally.extend_classes(n_classes)

    def add(
        self,
        ids: Sequence[str],
        evaluated: EvaluatedRecords,
        label_delays: np.ndarray,
        sources: np.ndarray,
        external_sums: SufficientStats,
        n_known: float,
        min_labels: int,
        left_out: Collection[int],
    ) -> None:
        """Add a stride: the n records `ids`, and the records summed up in `external_sums`.

        `evaluated` are the predictions and final labels of the n records. `external_sums` are sums
        over records that other processes scored. `label_delays` (n,) is the delay of each label in
        records, and `sources` (n,) the number of its annotator. On arrival of the records,
        `n_known` labels were known on average. The stride is added to the newest group if that has
        fewer than `min_labels` labels by annotators other than `left_out`.
        """
        stride = SufficientStats(self.total.n_classes)
        stride.add(evaluated)
        stride.merge(external_sums)
        self.total.merge(stride)
        self.history.add(self._added, stride, n_known)
        if self._recent and self._count_labels(left_out)[-1] < min_labels:
            self._recent[-1].merge(stride)
        else:
            self._recent.append(stride)
            self._starts.append(self._added)
        self.labelled_predictions.add(ids, evaluated, label_delays, sources, self._added)
        self._added += 1

    def labelled_records(
        self, first_stride: int, decision_cost: DecisionCost
    ) -> tuple[EvaluatedRecords, np.ndarray]:
        """Return the stored records from `first_stride` on, and the number of each annotator (n,).

        `decision_cost` computes `EvaluatedRecords.decision_cost`.
        """
        found = self.labelled_predictions.since_stride(first_stride)
        P = np.zeros((len(found), self.total.n_classes))
        for row, outcome in zip(P, found, strict=True):
            row[: len(outcome.P)] = outcome.P
        cost = decision_cost(P)
        if cost is not None:
            cost[[one.stride < self._decided_since for one in found]] = np.nan
        predicted = np.array([one.predicted for one in found], dtype=np.int64)
        records = EvaluatedRecords(
            P,
            predicted.reshape(-1, len(PREDICTORS)),
            np.array([one.truth for one in found], dtype=np.int64),
            np.array([one.others for one in found], dtype=np.float64),
            cost,
        )
        return records, np.array([one.source for one in found], dtype=np.int64)

    def history_without_annotators(self, excluded: Collection[int]) -> AccuracyHistory:
        """Return a copy of `history` without the labels of the annotators `excluded`.

        The copy starts after the newest group of which more than a tenth of the labels is not
        stored any more.
        """
        records, annotators = self.labelled_records(0, lambda P: None)
        strides = [one.stride for one in self.labelled_predictions.since_stride(0)]
        group = np.searchsorted(self.history.first_strides, strides, side="right") - 1
        stored = np.bincount(group, minlength=len(self.history.sums))
        incomplete = np.flatnonzero(stored < _COMPLETE * self.history.sums[:, -2])
        start = int(incomplete[-1]) + 1 if len(incomplete) else 0
        found = AccuracyHistory()
        found.resume(self.history.first_strides[start:], self.history.sums[start:])
        for i, first_stride in enumerate(found.first_strides, start):
            own = group == i
            if np.isin(annotators[own], [*excluded]).any():
                part = select_records(records, own)
                change = exclusion_change(part, annotators[own], excluded, self.total.n_classes)
                found.correct(first_stride, change)
        return found

    def correct_label(self, id: str, class_index: int, decision_cost: DecisionCost) -> None:
        """Change the class index of the record `id` to `class_index`; -1 retracts the label.

        Records whose prediction is not stored are ignored.

        `decision_cost` computes `EvaluatedRecords.decision_cost`.
        """
        changed = self.labelled_predictions.correct_label(
            id, class_index, self.total.n_classes, decision_cost
        )
        if changed is None:
            return
        stride, change = changed
        if stride < self._decided_since:
            change.cost[:] = 0.0
        self.total.merge(change)
        self.history.correct(stride, change)
        if (group := bisect_right(self._starts, stride)) > 0:
            self._recent[group - 1].merge(change)

    def reset_costs(self) -> None:
        """Set the sums of decision costs to 0, because the decision rule has changed."""
        self._decided_since = self._added
        for tally in (self.total, *self._recent):
            tally.cost[:] = 0.0

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the complete state for `resume`: JSON values, and arrays by name."""
        outcomes, counted = self.labelled_predictions.state()
        state = {
            "outcomes": outcomes,
            "folded": self._added,
            "history": list(self.history.first_strides),
            "strides": list(self._starts),
            "decided_since": self._decided_since,
        }
        arrays = {f"outcomes.{name}": array for name, array in counted.items()}
        arrays |= {f"total.{name}": array for name, array in self.total.state().items()}
        arrays["history"] = self.history.sums.copy()
        for i, tally in enumerate(self._recent):
            arrays |= {f"stride{i}.{name}": array for name, array in tally.state().items()}
        return state, arrays

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned; ignore other keys."""
        self.total = SufficientStats.from_state(select_prefix(arrays, "total."))
        self.labelled_predictions.resume(state["outcomes"], select_prefix(arrays, "outcomes."))
        self.history.resume(state["history"], arrays["history"])
        self._added = state["folded"]
        self._decided_since = state["decided_since"]
        self._recent.clear()
        self._starts.clear()
        for i, start in enumerate(state["strides"]):
            self._starts.append(start)
            self._recent.append(SufficientStats.from_state(select_prefix(arrays, f"stride{i}.")))


_KEPT = ("predicted", "chance", "design", "waits", "truth", "waited", "source", "n_known")

_NEAR = 0.1
"""If the confidence of two records differs by this, the imputation weight is halved."""


class PendingPredictions:
    """Queue of the newest records in arrival order, with their predictions and labels.

    The records are stored in an array with free space at its end. When the space is used up, the
    records are copied to a new array, which is larger if they fill half of the old one. A record
    costs amortized constant time.

    Attributes
    ----------
    ids
        The ids of the records.
    first
        Number of records dropped so far, which is the number of the first record in the queue.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.first = 0
        self._start = 0
        self._rows = np.empty(0, dtype=_pending_record_dtype(0))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def rows(self) -> np.ndarray:
        """Writable structured array (n,) of the queued records (see `_pending_record_dtype`)."""
        return self._rows[self._start : self._start + len(self.ids)]

    def append(
        self,
        ids: Sequence[str],
        P: np.ndarray,
        predicted: Any,
        propensity: np.ndarray,
        inclusion_probability: np.ndarray,
        n_known: int,
    ) -> int:
        """Append n records to the queue; return the number of the first appended record.

        `P` (n, K) are the probabilities, and `predicted` (4,) or (n, 4) the class by each
        predictor. `propensity` (n,) is the inclusion probability of each requested record, NaN
        without a request; `inclusion_probability` (n,) is given for all records. `n_known` is the
        number of labels known now.
        """
        n = len(self.ids)
        self._reserve_capacity(len(ids), P.shape[1])
        self.ids += ids
        new = self.rows[n:]  # of zeros
        new["P"][:, : P.shape[1]] = P
        new["predicted"], new["chance"], new["truth"] = predicted, propensity, -1
        new["design"], new["source"] = inclusion_probability, UNKNOWN
        new["n_known"] = n_known
        return self.first + n

    def _reserve_capacity(self, n: int, n_classes: int) -> None:
        known = self._rows["P"].shape[1]
        if n_classes <= known and self._start + len(self) + n <= len(self._rows):
            return
        capacity = max(len(self._rows), 256)
        while capacity < 2 * (len(self) + n):
            capacity *= 2
        grown = np.zeros(capacity, dtype=_pending_record_dtype(max(n_classes, known)))
        for name in _KEPT:
            grown[name][: len(self)] = self.rows[name]
        grown["P"][: len(self), :known] = self.rows["P"]
        self._rows, self._start = grown, 0

    def drop_oldest(self, n: int) -> None:
        """Drop the `n` oldest records."""
        del self.ids[:n]
        self._start += n
        self.first += n

    def replace_class(self, old_index: int, new_index: int, n_classes: int) -> None:
        """Replace the class `old_index` by `new_index` in the queue's predictions and labels.

        `n_classes` is the number of classes after the replacement.
        """
        self._reserve_capacity(0, n_classes)
        rows = self.rows
        for name in ("predicted", "truth"):
            rows[name][rows[name] == old_index] = new_index
        rows["P"][:, new_index] += rows["P"][:, old_index]
        rows["P"][:, old_index] = 0.0

    def find_index(self, id: str) -> int | None:
        """Return the queue index of the newest record with this id, or None."""
        for place in range(len(self.ids) - 1, -1, -1):
            if self.ids[place] == id:
                return place
        return None

    def probabilities(self, n_classes: int, rows: slice = slice(None)) -> np.ndarray:
        """Return the probabilities (n, K) predicted for the records at `rows`.

        K is `n_classes`. Classes that were unknown on a record's arrival have probability 0.
        """
        known = self.rows["P"][rows]
        P = np.zeros((len(known), n_classes))
        P[:, : known.shape[1]] = known
        return P

    def state(self) -> tuple[list[str], Arrays]:
        """Return the ids, and arrays of all fields except the probabilities."""
        return list(self.ids), {name: self.rows[name].copy() for name in _KEPT}

    @classmethod
    def from_state(cls, ids: Sequence[str], arrays: Arrays, P: np.ndarray) -> "PendingPredictions":
        """Create a queue from the result of `state` and the probabilities `P` (n, K).

        The first record gets the number 0.
        """
        arrivals = cls()
        arrivals.append(ids, P, arrays["predicted"], arrays["chance"], arrays["design"], 0)
        for name in ("waits", "truth", "waited", "source", "n_known"):
            arrivals.rows[name] = arrays[name]
        return arrivals

    def n_records_up_to_newest_label(self) -> int:
        """Return the number of records up to the newest labelled record.

        Records directly after it whose label can no longer arrive are counted, too.
        """
        came = np.flatnonzero(self.rows["truth"] >= 0)
        reached = int(came[-1]) + 1 if len(came) else 0
        waits = np.flatnonzero(self.rows["waits"][reached:])
        return reached + int(waits[0]) if len(waits) else len(self)

    def evaluated_records(self, rows: slice, n_classes: int, block: int) -> EvaluatedRecords:
        """Return the records at `rows` with labels, and a weight for each labelled record.

        The weight is 1 / inclusion probability, at most `block`. Weights of requested records whose
        label will never arrive are added to those of similar labelled records.
        """
        found = self.rows[rows]
        known = found["truth"] >= 0
        inverse = self.inverse_inclusion_probabilities(rows, block)
        lost = (found["chance"] > 0.0) & ~known & ~found["waits"]
        P, predicted = self.probabilities(n_classes, rows), found["predicted"].copy()
        if lost.any() and known.any():
            sure = P.max(axis=1, initial=0.0)
            shares = similarity_weights(sure[lost], sure[known], inverse[known])
            inverse[known] += inverse[lost] @ (shares / shares.sum(axis=1, keepdims=True))
        truth = found["truth"].copy()
        return EvaluatedRecords(P=P, predicted=predicted, truth=truth, others=inverse - 1.0)

    def newest_labelled_predictions(self, n: int, block: int) -> list[EvaluatedPrediction]:
        """Return the newest `n` labelled predictions in the queue, the newest first.

        All are returned if there are fewer. `block` is the number of records in an audit block,
        and the upper limit of an inverse inclusion probability.
        """
        places = np.flatnonzero(self.rows["truth"] >= 0)[::-1][:n].tolist()
        found = []
        for i in places:
            row, inverse = (
                self.rows[i],
                self.inverse_inclusion_probabilities(slice(i, i + 1), block)[0],
            )
            told = (
                row["predicted"].tolist(),
                int(row["truth"]),
                inverse - 1.0,
            )
            found.append(
                EvaluatedPrediction(-1, row["P"], *told, int(row["waited"]), int(row["source"]))
            )
        return found

    def inverse_inclusion_probabilities(self, rows: slice, block: int) -> np.ndarray:
        """Return 1 / inclusion probability (n,) of the records at `rows`, at most `block`."""
        found = self.rows[rows]
        own = np.where(found["chance"] > 0.0, found["chance"], found["design"])
        return np.asarray(1.0 / np.maximum(own, 1.0 / max(block, 1)))


def similarity_weights(
    missing_confidence: np.ndarray, known_confidence: np.ndarray, known_weight: np.ndarray
) -> np.ndarray:
    """Return the weight (m, n) of each of n known labels for each of m missing labels.

    Annotators skip hard records. So a known label gets more weight the closer the predicted
    probabilities of both records are: `missing_confidence` (m,) and `known_confidence` (n,). The
    weights are multiplied by `known_weight` (n,).
    """
    return np.asarray(
        known_weight / (_NEAR + np.abs(missing_confidence[:, None] - known_confidence))
    )


def _pending_record_dtype(n_classes: int) -> np.dtype:
    """Return the structured dtype of a pending record, for `n_classes` classes.

    - P: the probabilities of the classes known on arrival.
    - predicted: the class index by each of `PREDICTORS`; -1: no prediction.
    - chance: the inclusion probability of a requested record; NaN without a request.
    - design: the inclusion probability of any record, requested or not.
    - truth: the class index of the label; -1 without a label.
    - waits: whether the label may still arrive, or the record may still be requested.
    - waited: the delay of the label in records.
    - source: the number of the label's annotator.
    - n_known: the number of labels known on arrival.
    """
    return np.dtype(
        [
            ("P", np.float64, (n_classes,)),
            ("predicted", np.int64, (len(PREDICTORS),)),
            ("chance", np.float64),
            ("design", np.float64),
            ("truth", np.int64),
            ("waits", np.bool_),
            ("waited", np.int64),
            ("source", np.int64),
            ("n_known", np.int64),
        ],
        align=True,
    )
