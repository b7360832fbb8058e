"""Counters and sliding windows of the newest batches, updated as batches are committed."""

from collections import Counter, deque
from dataclasses import dataclass, field
from math import isnan
from typing import Any

import numpy as np

from streamboost.checks import Label
from streamboost.pipelines.runner.batch import StepResult
from streamboost.pipelines.status.feature_drift import RECORDS
from streamboost.pipelines.status.history import MOST_DEAD_LETTERS, MOST_MARKS, MOST_PREDICTIONS

RECENT_RECORDS = 2_000
"""Number of predictions in the class mix: the size of the evaluation's sliding window."""

_LOOKED_AT = max(RECENT_RECORDS, RECORDS, MOST_PREDICTIONS)
"""Maximum number of the newest records that any window needs."""

RECENT_ANSWERS = 1_000
"""Number of requested labels in the class mix and the confusion matrix."""

MOST_CLASSES = 50
"""Maximum number of classes in the class mix, confusion matrix and metrics: the most frequent."""

Mark = tuple[int, int, str, int | None, str]
"""Milliseconds since the epoch, the batch's sequence, kind, version, text."""


@dataclass(slots=True)
class IntervalStats:
    """Counts and the newest messages of the batches since the last publication.

    `busy` is the sum of the batches' durations in seconds, and `margins` the sum of the records'
    margins."""

    batches: int = 0
    records: int = 0
    labels: int = 0
    busy: float = 0.0
    margins: float = 0.0
    served: Counter[int] = field(default_factory=Counter)
    """Maps a version to the number of records that it predicted."""
    predictions: deque[bytes] = field(default_factory=lambda: deque(maxlen=MOST_PREDICTIONS))
    dead_letters: deque[bytes] = field(default_factory=lambda: deque(maxlen=MOST_DEAD_LETTERS))
    marks: deque[Mark] = field(default_factory=lambda: deque(maxlen=MOST_MARKS))


@dataclass(frozen=True, slots=True)
class RecentRecords:
    """Sliding windows of the newest predictions, requested labels and features.

    Attributes
    ----------
    predicted : the predicted labels
    answered : requested labels, each with the predicted label
    rows : features, float32 (n, D)
    reference_rows : rows with which feature drift compares `rows`; None until there are enough
    """

    predicted: list[Label | None]
    answered: list[tuple[Label, Label | None]]
    rows: np.ndarray
    reference_rows: np.ndarray | None

    def class_shares(self) -> dict[str, Any]:
        """Return the most frequent `labels`, and how often each was predicted and given as a label.

        The counts have the keys `predicted` and `labelled`.
        """
        predicted = Counter(label for label in self.predicted if label is not None)
        answered = Counter(label for label, _ in self.answered)
        labels = _most_frequent_labels(predicted + answered)
        return {
            "labels": labels,
            "predicted": [predicted[label] for label in labels],
            "labelled": [answered[label] for label in labels],
        }

    def confusion_matrix(self) -> dict[str, Any]:
        """Return the confusion matrix `counts` of requested labels, and its classes `labels`.

        Rows are true classes, and columns predicted ones.
        """
        pairs = [(true, said) for true, said in self.answered if said is not None]
        labels = _most_frequent_labels(Counter(label for pair in pairs for label in pair))
        codes = {label: code for code, label in enumerate(labels)}
        counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
        for true, said in pairs:
            if true in codes and said in codes:
                counts[codes[true], codes[said]] += 1
        return {"labels": labels, "counts": counts.tolist()}


def _most_frequent_labels(counts: Counter[Label]) -> list[Label]:
    return sorted(label for label, _ in counts.most_common(MOST_CLASSES))


class RecentRows:
    """The newest rows of a stream, in a ring buffer, and the reference rows of feature drift.

    Attributes
    ----------
    seen : number of rows added
    reference_rows : the first rows, or the first rows since `restart_reference`, float32 (n, D);
        None until there are enough
    """

    def __init__(
        self, n_features: int, n_rows: int = RECORDS, *, with_reference: bool = True
    ) -> None:
        self._rows = np.empty((n_rows, n_features), dtype=np.float32)
        self.seen = 0
        self.reference_rows: np.ndarray | None = None
        self._n_missing = n_rows if with_reference else 0

    def add(self, X: np.ndarray) -> None:
        """Append the rows `X` (n, D), the oldest first."""
        n_rows = len(self._rows)
        while self._n_missing and len(X):
            part, X = X[: self._n_missing], X[self._n_missing :]
            self._append_to_ring_buffer(part)
            self._n_missing -= len(part)
            if not self._n_missing:
                self.reference_rows = self._rows.copy()
        self._append_to_ring_buffer(X[-n_rows:])

    @property
    def needs_reference_rows(self) -> bool:
        """Whether there are too few reference rows yet, so that all rows must be added."""
        return self._n_missing > 0

    def restart_reference(self) -> None:
        """Drop the reference rows, and collect new ones from the next row on."""
        self.reference_rows, self._n_missing = None, len(self._rows)

    def newest_rows(self) -> np.ndarray:
        """Return a copy of the newest rows, in arrival order."""
        return np.roll(self._rows[: self.seen], -(self.seen % len(self._rows)), axis=0)

    def _append_to_ring_buffer(self, X: np.ndarray) -> None:
        start = self.seen % len(self._rows)
        end = min(start + len(X), len(self._rows))
        self._rows[start:end] = X[: end - start]
        self._rows[: len(X) - (end - start)] = X[end - start :]
        self.seen += len(X)


class IntervalCollector:
    """Collects counts and messages of each committed batch, and updates sliding windows.

    The sliding windows are updated only when they are read. At full speed, most records have left
    the windows by then and are never processed.

    `columns` are the indices of the monitored columns of `Records.X`. If `has_drift_reference` is
    true, a reference sample exists already, and no reference rows are collected.
    """

    def __init__(self, columns: list[int], *, has_drift_reference: bool = False) -> None:
        self.since = IntervalStats()
        self.rows = RecentRows(len(columns), with_reference=not has_drift_reference)
        self._columns = columns
        self._predicted: deque[Label | None] = deque(maxlen=RECENT_RECORDS)
        self._answered: deque[tuple[Label, Label | None]] = deque(maxlen=RECENT_ANSWERS)
        self._late: deque[tuple[np.ndarray, np.ndarray, list[bytes]]] = deque()
        self._n_late = 0

    def __call__(self, effects: StepResult, now: int) -> None:
        """Count one batch, committed at `now`, in milliseconds since the epoch."""
        since, joined, messages = self.since, effects.joined, effects.messages
        since.batches += 1
        since.records += effects.n_predicted
        since.served[effects.scored.version] += effects.n_predicted
        since.labels += len(joined.ids)
        since.busy += max(now - effects.batch_time_ms, 0) / 1000
        since.margins += float(effects.scored.margins.sum())
        since.dead_letters.extend(messages.dead_letters[-MOST_DEAD_LETTERS:])
        answers = zip(joined.labels, joined.predicted, joined.propensity, strict=True)
        self._answered.extend((true, said) for true, said, p in answers if not isnan(p))
        if any(training.kind == "drift" for training in effects.trainings):
            self._apply_deferred_batches()
            self.rows.restart_reference()
        if len(effects.records):
            self._defer_batch(effects)
        self._add_chart_events(effects)

    def drain_interval_stats(self) -> IntervalStats:
        """Return the counts and messages since the last call, and reset them."""
        self._apply_deferred_batches()
        since, self.since = self.since, IntervalStats()
        return since

    def recent_records(self) -> RecentRecords:
        """Return a copy of the sliding windows, which another thread may read."""
        self._apply_deferred_batches()
        return RecentRecords(
            list(self._predicted),
            list(self._answered),
            self.rows.newest_rows(),
            self.rows.reference_rows,
        )

    def _defer_batch(self, effects: StepResult) -> None:
        """Queue a batch for the windows; drop queued batches that are too old for all windows."""
        late, labels = self._late, effects.scored.labels
        late.append((labels, effects.records.X, effects.messages.predictions))
        self._n_late += len(labels)
        if self.rows.needs_reference_rows:
            self._apply_deferred_batches()
        while late and self._n_late - len(late[0][0]) >= _LOOKED_AT:
            self._n_late -= len(late.popleft()[0])

    def _apply_deferred_batches(self) -> None:
        for labels, X, predictions in self._late:
            self._predicted.extend(labels.tolist())
            self.rows.add(X[:, self._columns])
            self.since.predictions.extend(predictions[-MOST_PREDICTIONS:])
        self._late.clear()
        self._n_late = 0

    def _add_chart_events(self, effects: StepResult) -> None:
        batch_time_ms, sequence, marks = effects.batch_time_ms, effects.sequence, self.since.marks
        if effects.gap is not None:
            first, last = effects.gap
            text = f"nothing was learned from batches {first} to {last}, which are lost"
            marks.append((batch_time_ms, sequence, "gap", None, text))
        for command in effects.commands:
            marks.append((batch_time_ms, sequence, "command", command.version, str(command)))
        for change in effects.changes:
            text = f"the stream changed before label {change.since_labels + 1:,}"
            marks.append((batch_time_ms, sequence, "change", None, text))
        for training in effects.trainings:
            kind = "drift" if training.kind == "drift" else "trained"
            text = f"{training.kind}, {training.labels:,} labels when training began"
            marks.append((batch_time_ms, sequence, kind, training.version, text))
        if effects.promoted is not None:
            marks.append((batch_time_ms, sequence, "promoted", effects.promoted, "deployed"))
