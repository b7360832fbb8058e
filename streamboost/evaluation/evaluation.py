"""Unbiased evaluation of the predictions made on arrival, from few and delayed labels.

Requests select hard records, so the plain mean over their labels is biased. The inclusion
probabilities of the requests correct this bias. A record's label may arrive late or never:

- The estimates cover the records up to the newest record whose label arrived, including records
  with open requests. Open requests are imputed from answered requests whose delay is at least the
  time that the request has been open (`impute_open_requests`). So labels that arrive fast do not
  replace labels that arrive slowly. Records after the oldest open request are not yet added to the
  accumulated sums.
- Expired requests are imputed from answered requests around them, with more weight for similar
  confidence: annotators skip hard records. This is unbiased if labels are missing at random among
  records of similar confidence. No reweighting can do better; bounds without that assumption are
  as wide as the share of lost labels, which `Evaluation.unanswered` reports.
- Unsolicited labels are no random sample and do not affect the estimates. Only the two baselines,
  which predict the newest and the most frequent label, use them.
- A label correction replaces the counted label, for the newest 20,000 counted records, or fewer
  with many classes. The predictions of the baselines do not change.
- In pool mode, records may be requested until they leave the pool, and are not evaluated before.
  Records selected by a query round, and records with an unsolicited label, are not in the sampling
  frame of the audit, so that they represent only themselves. Audited records represent all others.
"""

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from itertools import repeat
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from streamboost.checks import Label, as_ids, as_labels, as_propensity
from streamboost.evaluation.annotator_errors import LARGEST_SHARE, AnnotatorErrors
from streamboost.evaluation.confidence_sequence import (
    relative_width_of_window,
    relative_width_since_start,
)
from streamboost.evaluation.decisions import Decisions
from streamboost.evaluation.exclusion import concatenate_records, exclusion_change
from streamboost.evaluation.learning_curve import (
    FEWEST_LABELS,
    MOST_RECORDS_PER_LABEL,
    Forecast,
    LearningCurve,
    records_per_label,
)
from streamboost.evaluation.pending import (
    PARTS,
    ClassCounts,
    DecisionCost,
    EvaluatedPrediction,
    PendingPredictions,
    StrideSums,
    similarity_weights,
)
from streamboost.evaluation.report import Report, accuracy_drop, make_report
from streamboost.evaluation.sufficient_stats import (
    PREDICTORS,
    BatchSums,
    EvaluatedRecords,
    SufficientStats,
    UnlabelledSums,
)
from streamboost.predictions import Scored
from streamboost.query.settings import check_integer
from streamboost.storage import Arrays, select_prefix

_MAX_DONORS = 200
"""Number of newest labels from which open requests are imputed."""

_FEWEST = 10
"""Minimum number of labels from which an open request is imputed."""

_AT_ONCE = 2**16
"""Number of records times classes per call of a kernel: smaller calls take longer in total."""


class _QueueStats(NamedTuple):
    """Sums over evaluated records in the queue, and imputed sums for their open requests."""

    evaluated: SufficientStats
    imputed: list[SufficientStats]
    """One element, or none without open requests."""
    n_open: int


class _Window(NamedTuple):
    """Window of records: its accumulated sums, and the indices at which its other records start."""

    tallies: list[SufficientStats]
    first_stride: int
    first_row: int
    """Index in the queue."""
    first_batch: int
    """Index in the sums over records that were scored by other processes."""


class Evaluation:
    """Evaluates the predictions made on arrival with the requested labels.

    Parameters
    ----------
    block
        m, the number of records per audit block. One record of each block, drawn at random, is
        requested (audit), so the inclusion probability of each record is at least 1/m. 0: no
        audits; then there are estimates only if every record is requested.
    window
        Size in records of the sliding window, which advances by tenths.
    min_labels
        Minimum number of labels in the sliding window, which is extended beyond `window` records if
        these have fewer labels.
    patience
        Number of further records after which an open request counts as unanswered. The memory is
        proportional to this number, plus O(K²) for K classes.
    pool
        Number of newest records that `add_requests` may request after their arrival. 0: all
        requests are made on arrival.

    Attributes
    ----------
    unanswered
        Number of expired requests.
    annotator_errors
        Finds unreliable annotators, whose labels are excluded from the estimates.
    has_probabilities
        Whether the probabilities are those of the predictions. If not, reports have no log loss and
        no reliability curve.
    decision_rule
        Rule that decides on a class for each record; the cost of its decisions is estimated. None:
        no decisions. Setting this attribute discards the costs so far. The new rule also applies to
        records that are not yet part of the sums.

    Examples
    --------
    A classifier that always predicts with probability 0.9 is right two times in three. One label in
    ten is requested:

    >>> import numpy as np
    >>> from streamboost.learner import Scored
    >>> rng = np.random.default_rng(7)
    >>> ids, classes = [str(i) for i in range(900)], np.array(["no", "yes"], dtype=object)
    >>> labels, P = np.full(900, "yes", dtype=object), np.tile([0.1, 0.9], (900, 1))
    >>> scored = Scored(labels, classes, P, margins=np.ones(900), version=1)
    >>> truth = classes[(np.arange(900) % 3 > 0).astype(int)]
    >>> evaluation = Evaluation(block=10)
    >>> asked = rng.random(900) < 0.1
    >>> evaluation.add_records(ids, scored, np.where(asked, 0.1, np.nan))
    >>> evaluation.add_labels([ids[i] for i in np.flatnonzero(asked)], truth[asked])
    >>> accuracy = evaluation.since_start().committee.accuracy
    >>> accuracy.low < 2 / 3 < accuracy.high
    True
    """

    def __init__(
        self,
        block: int = 0,
        window: int = 2_000,
        patience: int = 10_000,
        pool: int = 0,
        min_labels: int = 200,
    ) -> None:
        check_integer("evaluation block", block, at_least=0)
        check_integer("evaluation pool", pool, at_least=0)
        check_integer("evaluation window", window)
        check_integer("evaluation patience", patience, at_least=0)
        check_integer("evaluation min_labels", min_labels, at_least=0)
        self.block = block
        self.window = window
        self.min_labels = min_labels
        self.patience = patience
        self.pool = pool
        self.unanswered = 0
        self.annotator_errors = AnnotatorErrors()
        self._known = ClassCounts()
        self._stride = -(-window // PARTS)
        self._strides = StrideSums()
        self._queue = PendingPredictions()
        self._blocks = BatchSums()
        self._n_final = 0  # oldest records in the queue whose label can no longer arrive
        self._n_left_pool = 0  # oldest records in the queue that have left the pool
        self._open: dict[str, int] = {}  # numbers of the waiting records by id
        self._decision_rule: Decisions | None = None
        self.has_probabilities = True

    @property
    def decision_rule(self) -> Decisions | None:
        """Rule that decides on each record's class, to estimate its cost; None: no decisions."""
        return self._decision_rule

    @decision_rule.setter
    def decision_rule(self, decision_rule: Decisions | None) -> None:
        self._decision_rule = decision_rule
        self._strides.reset_costs()

    @property
    def class_indices(self) -> dict[Label, int]:
        """The index of each known label; labels are numbered in order of appearance."""
        return self._known.codes

    @property
    def label_counts(self) -> list[int]:
        """Number of labelled records of each class, in the order of `class_indices`."""
        return self._known.counts

    @property
    def n_open_requests(self) -> int:
        """Number of label requests without an answer yet."""
        rows = self._queue.rows
        return int(np.count_nonzero(rows["waits"] & (rows["chance"] > 0.0)))

    def add_records(
        self,
        ids: Sequence[str],
        scored: Scored,
        propensity: Any,
        inclusion_probabilities: Any = None,
        committee_labels: Any = None,
    ) -> None:
        """Add n records with their predictions on arrival.

        Parameters
        ----------
        ids
            The record ids.
        scored
            The predictions of the n records.
        propensity
            (n,), the inclusion probability of each requested record; NaN without a request.
        inclusion_probabilities
            (n,), the inclusion probability of each record, requested or not; None: 1 / `block`.
        committee_labels
            (n,), the labels that the committee predicts without other experts; None: those of
            `scored`.

        Raises
        ------
        DataError
            When the arguments differ in length, or a propensity is not a probability.
        """
        ids = as_ids(ids, len(scored))
        asked = as_propensity(propensity, len(scored))
        if inclusion_probabilities is None:
            inclusion_probabilities = np.full(len(ids), 1.0 / max(self.block, 1))
        columns = [self._get_or_add_class_index(label) for label in scored.classes.tolist()]
        labels = scored.labels.tolist()
        alone = labels if committee_labels is None else list(committee_labels)
        for label in dict.fromkeys([*labels, *alone]):
            if label is not None:
                self._get_or_add_class_index(label)
        known = self._known
        P = np.zeros((len(ids), len(known)))
        P[:, columns] = scored.probabilities
        predicted = np.empty((len(ids), len(PREDICTORS)), dtype=np.int64)
        predicted[:, 0] = list(map(known.codes.get, labels, repeat(-1)))
        predicted[:, 1:3] = known.last, known.commonest
        predicted[:, 3] = list(map(known.codes.get, alone, repeat(-1)))
        n_known = sum(known.counts)
        number = self._queue.append(ids, P, predicted, asked, inclusion_probabilities, n_known)
        self._strides.labelled_predictions.remove(ids)  # from now on, new records have these ids
        waits = range(len(ids)) if self.pool else np.flatnonzero(asked > 0.0).tolist()
        for i in waits:
            self._close_request_unanswered(ids[i])
            self._open[ids[i]] = number + i
            self._queue.rows["waits"][number + i - self._queue.first] = True
        self._move_final_records_to_sums()

    def add_unlabelled_sums(self, unlabelled: UnlabelledSums) -> None:
        """Add sums over records without requests that another process scored.

        First call `add_records` with the requested records of the same batch, so that the estimates
        cover all records of the batch.
        """
        codes = [self._get_or_add_class_index(label) for label in unlabelled.classes]
        baselines = self._known.last, self._known.commonest
        tally = unlabelled.renumber_classes(codes, len(self._known), baselines)
        self._blocks.add(self._queue.first + len(self._queue), tally)
        self._move_final_records_to_sums()

    def add_requests(self, ids: Sequence[str], propensity: Any) -> list[str]:
        """Register requests for pool records; return the ids that left the pool without a request.

        Call this after each query round and each `add_records`, as records then leave the pool.

        Parameters
        ----------
        ids
            The ids of the requested records.
        propensity
            (n,), the inclusion probability of audited records; 1 for records selected by a query
            round.
        """
        for id, chance in zip(ids, as_propensity(propensity, len(ids)).tolist(), strict=True):
            if id in self._open:
                self._queue.rows["chance"][self._open[id] - self._queue.first] = chance
        left = max(len(self._queue) - self.pool, self._n_left_pool)
        rows = self._queue.rows[self._n_left_pool : left]
        places = np.flatnonzero(rows["waits"] & ~(rows["chance"] > 0.0)) + self._n_left_pool
        left_ids = [self._queue.ids[i] for i in places.tolist()]
        self._n_left_pool = left
        for id in left_ids:
            self._close_request_unanswered(id)
        self._move_final_records_to_sums()
        return left_ids

    def add_labels(
        self, ids: Sequence[str], labels: Any, sources: Sequence[str | None] | None = None
    ) -> None:
        """Record the `labels` (n,) of records, requested or not, in arrival order.

        `sources` (n,) are the annotators, None where unknown; None for all.

        Raises
        ------
        DataError
            When the labels are not all text or all whole numbers.
        """
        self.add_labels_unchecked(
            ids, as_labels(labels, len(ids), self._known.label_type, name="labels"), sources
        )

    def add_labels_unchecked(
        self,
        ids: Sequence[str],
        labels: Sequence[Label],
        sources: Sequence[str | None] | None = None,
    ) -> None:
        """Record labels as `add_labels` does, without validation; all labels must have one type."""
        sources = sources or [None] * len(ids)
        for id, label, source in zip(ids, labels, sources, strict=True):
            self._get_or_add_class_index(label)
            code = self._known.add(label)
            if id in self._open:
                number = self._open.pop(id)
                row = self._queue.rows[number - self._queue.first]
                row["truth"], row["waits"] = code, False
                row["waited"] = self._queue.first + len(self._queue) - number
                if not row["chance"] > 0.0:
                    row["chance"] = 1.0
                row["source"] = self.annotator_errors.number_of(source)
                if row["P"].any():  # there was a prediction
                    right = float(row["P"][code]) if code < len(row["P"]) else 0.0
                    self.annotator_errors.observe(int(row["source"]), right, len(self._known))
        self._move_final_records_to_sums()

    def correct_label(self, id: str, before: Label, label: Label | None) -> None:
        """Replace the known label `before` of a record; None retracts the label.

        If `before` is not part of the estimates, only the baselines change. A new label after a
        retraction is not part of the estimates.
        """
        if label is not None:
            self._get_or_add_class_index(label)
        truth = self._known.correct_label(before, label)
        place = self._queue.find_index(id)
        if place is None:
            self._strides.correct_label(id, truth, self._decision_costs)
        elif self._queue.rows[place]["truth"] >= 0:
            self._queue.rows[place]["truth"] = truth

    def rename_or_remove_class(self, label: Label, into: Label | None) -> None:
        """Replace the class `label` by `into` from now on; None drops the class.

        Records in the accumulated sums keep their class. If the class is dropped, records in the
        queue keep their class, too.
        """
        if label not in self.class_indices:
            return
        if into is not None:
            code = self._get_or_add_class_index(into)
            self._queue.replace_class(self.class_indices[label], code, len(self._known))
        self._known.rename_or_remove_class(label, into)

    def expire_requests(self, ids: Sequence[str]) -> None:
        """Close the open requests of the records `ids`, which count as unanswered."""
        for id in ids:
            self._close_request_unanswered(id)
        self._move_final_records_to_sums()

    def since_start(self) -> Report:
        """Return the report over all evaluated records."""
        whole = _Window([self._strides.total], 0, 0, 0)
        return self._make_report(whole, self._sum_pending_records(0, 0), is_whole=True)

    def recent(self) -> Report:
        """Return the report over the sliding window of the newest evaluated records."""
        newest = self._window()
        return self._make_report(newest, self._sum_pending_records(*newest[2:]))

    def both_reports(self) -> tuple[Report, Report]:
        """Return the reports `since_start()` and `recent()`; faster than two calls."""
        whole, newest = self._sum_pending_records(0, 0), self._window()
        part = self._sum_pending_records(*newest[2:]) if any(newest[2:]) else whole
        everything = _Window([self._strides.total], 0, 0, 0)
        return self._make_report(everything, whole, is_whole=True), self._make_report(newest, part)

    def forecast(self, changes: Sequence[int] = ()) -> Forecast | None:
        """Return a forecast of the accuracy over further labels; None with too few labels.

        `changes` are the numbers of labels at which the stream changed. Labels of annotators that
        are left out do not count for the accuracy. But they count as learned labels, as further
        labels come from the same annotators.
        """
        history, left_out = self._strides.history, self.annotator_errors.left_out
        groups = used = history.groups()
        n_labels = n_used = sum(self._known.counts)
        if left_out:
            used = self._strides.history_without_annotators(left_out).groups()
            n_used = int(used[:, -2].sum())
        if n_used < FEWEST_LABELS or len(used) < 2:
            return None
        curve = LearningCurve(used, n_labels, changes, records_per_label(groups))
        if curve.records_per_label > MOST_RECORDS_PER_LABEL:
            return None
        return curve.forecast(self.window)

    def to_json(self) -> dict[str, Any]:
        """Return both reports and the numbers of open and unanswered requests, as JSON values."""
        since_start, recent = self.both_reports()
        drop = accuracy_drop(since_start, recent)
        return {
            "since_start": asdict(since_start),
            "recent": asdict(recent),
            "drop": drop and asdict(drop),
            "pending": self.n_open_requests,
            "unanswered": self.unanswered,
        }

    def _get_or_add_class_index(self, label: Label) -> int:
        """Return the class index of `label`; a new label gets the next index, with sums of 0."""
        if label not in self.class_indices:
            self._known.get_or_add_class_index(label)
            self._strides.extend_classes(len(self._known))
        return self.class_indices[label]

    def _close_request_unanswered(self, id: str) -> None:
        number = self._open.pop(id, None)
        if number is not None:
            row = self._queue.rows[number - self._queue.first]
            row["waits"] = False
            self.unanswered += bool(row["chance"] > 0.0)

    def _move_final_records_to_sums(self) -> None:
        """Add records to the sums once their requests are answered or expired.

        Records are added in complete strides, groups by which the sliding window advances.
        """
        queue = self._queue
        while self._n_final < len(queue):
            waits = queue.rows["waits"][self._n_final : self._stride]
            n = int(waits.argmax())
            n = n if waits[n] else len(waits)
            if n == 0 and len(queue) - self._n_final <= self.patience + self.pool:
                break
            if n == 0:
                self._close_request_unanswered(queue.ids[self._n_final])
            self._n_final += max(n, 1)
            if self._n_final == self._stride:
                self._move_oldest_records_to_sums(self._stride)
        while self._blocks:
            end, others = self._blocks.measure_complete_batches(queue.first + self._n_final)
            if others + end - queue.first < self._stride:
                break
            self._move_oldest_records_to_sums(end - queue.first)

    def _move_oldest_records_to_sums(self, n_records: int) -> None:
        """Move the oldest `n_records` records of the queue to the accumulated sums.

        Together with the batches of `_blocks` up to their last record, they form one stride of the
        sliding window.
        """
        queue, rows, n_classes = self._queue, slice(n_records), len(self._known)
        others = self._blocks.sum_complete_batches(queue.first + n_records, n_classes, drop=True)
        judged, found = self._evaluated_records(rows), queue.rows[rows]
        labelled = judged, found["waited"], found["source"]
        errors = self.annotator_errors
        per_group = -(-self.min_labels // PARTS)
        if len(errors.names) > 1:  # some of the labels may be left out later
            per_group = ceil(per_group / (1.0 - LARGEST_SHARE))
        n_known = float(found["n_known"].mean()) if n_records else float(sum(self._known.counts))
        self._strides.add(queue.ids[rows], *labelled, others, n_known, per_group, errors.left_out)
        queue.drop_oldest(n_records)
        self._n_final, self._n_left_pool = (
            self._n_final - n_records,
            max(self._n_left_pool - n_records, 0),
        )

    def _decision_costs(self, P: np.ndarray) -> np.ndarray | None:
        """Return the decision costs (n, K) for probabilities `P` (n, K); None without a rule."""
        return (
            None
            if self._decision_rule is None
            else self._decision_rule.decision_cost(P, list(self.class_indices))
        )

    def _evaluated_records(self, rows: slice) -> EvaluatedRecords:
        """Return the records at `rows` of the queue with labels, weights and decision costs."""
        judged = self._queue.evaluated_records(rows, len(self._known), self.block)
        return replace(judged, decision_cost=self._decision_costs(judged.P))

    def _window(self) -> _Window:
        """Return the sliding window of the newest evaluated records."""
        covered, first = self._n_records_in_estimates(), self._queue.first
        records = covered + int(self._blocks.measure_complete_batches(first + covered)[1])
        rows, left_out = self._queue.rows[:covered], self.annotator_errors.left_out
        labelled = np.flatnonzero((rows["truth"] >= 0) & ~np.isin(rows["source"], [*left_out]))
        if records <= self.window or len(labelled) < self.min_labels:
            missing = self.window - records, self.min_labels - len(labelled)
            return _Window(*self._strides.newest(*missing, left_out), 0, 0)
        last = int(labelled[-self.min_labels]) if self.min_labels else covered
        surplus, next_stride = records - self.window, self._strides.n_strides
        if self._blocks:
            skipped, number = self._blocks.count_oldest_batches(first, surplus, first + last)
            return _Window([], next_stride, number - first, skipped)
        strides = min(-(-surplus // self._stride), last // self._stride)
        return _Window([], next_stride, strides * self._stride, 0)

    def _n_records_in_estimates(self) -> int:
        """Return the number of oldest records in the queue that are part of the estimates."""
        reached = self._queue.n_records_up_to_newest_label()
        if self.pool:  # the other records may still be requested
            reached = min(reached, self._n_left_pool)
        reached = max(reached, self._n_final)
        return max(
            self._blocks.first_record_outside_estimates(self._queue.first + reached)
            - self._queue.first,
            0,
        )

    def _make_report(
        self, window: _Window, pending: "_QueueStats", *, is_whole: bool = False
    ) -> Report:
        """Return the report over `window`.

        `pending` has the statistics of the window's records that are still in the queue, as labels
        may arrive for them or for earlier records. `is_whole` means that the window contains all
        records since the start.
        """
        total = SufficientStats(len(self._known))
        for tally in (pending.evaluated, *window.tallies, *pending.imputed):
            total.merge(tally)
        n_since_start = self._strides.total.n_labels + int(
            np.count_nonzero(self._queue.rows["truth"] >= 0)
        )
        if is_whole:
            factor = relative_width_since_start(n_since_start)
        else:
            factor = relative_width_of_window(n_since_start, total.n_labels)
        make = partial(
            make_report,
            labels=list(self.class_indices),
            waiting=pending.n_open,
            anytime_factor=factor,
        )
        errors, report = self.annotator_errors, make(total)
        if errors.left_out:
            report = replace(
                make(self._sums_without_annotators(errors.left_out, total, window)),
                left_out=tuple(errors.names[i] for i in sorted(errors.left_out)),
                accuracy_with_left_out=report.committee.accuracy,
            )
        if errors.suspect is not None:
            doubtful = {*errors.left_out, errors.suspect}
            report = report.with_accuracy_intervals_extended_to(
                make(self._sums_without_annotators(doubtful, total, window))
            )
        if not self.has_probabilities:
            report = replace(report, log_loss=None, reliability=())
        return report

    def _sums_without_annotators(
        self, annotator_numbers: Collection[int], total: SufficientStats, window: _Window
    ) -> SufficientStats:
        """Return the sums `total` over `window` without the labels of some annotators.

        Records labelled by the annotators `annotator_numbers` count as records without a label. The
        other labelled records represent them: their inclusion probabilities are multiplied by the
        share of the labels that remain.
        """
        stored, annotators = self._strides.labelled_records(
            window.first_stride, self._decision_costs
        )
        groups, who = [stored], [annotators]
        covered = self._n_records_in_estimates()
        for at in range(window.first_row, covered, self._stride):
            rows = slice(at, min(at + self._stride, covered))
            groups.append(self._evaluated_records(rows))
            who.append(self._queue.rows["source"][rows])
        records = concatenate_records(groups)
        rest = copy(total)
        rest.merge(
            exclusion_change(records, np.concatenate(who), annotator_numbers, len(self._known))
        )
        return rest

    def _sum_pending_records(self, first_row: int, first_batch: int) -> "_QueueStats":
        """Return statistics of records and batches that are not yet in the accumulated sums.

        These are the records of the queue from index `first_row` on, and the batches from index
        `first_batch` on.
        """
        queue, covered, n_classes = self._queue, self._n_records_in_estimates(), len(self._known)
        whole = self._blocks.sum_complete_batches(
            queue.first + covered, n_classes, skip=first_batch
        )
        strides = [
            slice(at, min(at + self._stride, covered))
            for at in range(first_row, covered, self._stride)
        ]
        n = max(_AT_ONCE // (self._stride * max(n_classes, 1)), 1)
        for at in range(0, len(strides), n):
            whole.add(
                concatenate_records(
                    [self._evaluated_records(rows) for rows in strides[at : at + n]]
                )
            )
        places = np.flatnonzero(queue.rows["waits"][first_row:covered]) + first_row
        return _QueueStats(
            whole, [self._impute_open_requests(places)] if len(places) else [], len(places)
        )

    def _impute_open_requests(self, queue_indices: np.ndarray) -> SufficientStats:
        """Return the sums that impute the labels of the open requests at `queue_indices`."""
        queue, n_classes = self._queue, len(self._known)
        labels = queue.newest_labelled_predictions(_MAX_DONORS, self.block)
        labels += self._strides.labelled_predictions.newest(_MAX_DONORS - len(labels))
        labels = [one for one in labels if one.source not in self.annotator_errors.left_out]
        sure = queue.rows["P"][queue_indices].max(axis=1, initial=0.0)
        inverse = queue.inverse_inclusion_probabilities(slice(None), self.block)[queue_indices]
        waited = len(queue) - queue_indices
        return impute_open_requests(sure, inverse, waited, labels, n_classes, self._decision_costs)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        state, arrays = self._strides.state()
        ids, queue = self._queue.state()
        arrays |= {"queue": self._queue.probabilities(len(self._known))}
        arrays |= {f"queue.{name}": array for name, array in queue.items()}
        state |= self._known.state() | {
            "unanswered": self.unanswered,
            "annotator_errors": self.annotator_errors.state(),
            "settled": self._n_final,
            "queue": ids,
            "decisions": None if self._decision_rule is None else self._decision_rule.to_json(),
            "has_probabilities": self.has_probabilities,
        }
        state["blocks"], waiting = self._blocks.state(self._queue.first)
        return state, arrays | waiting

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that `state` returned for an evaluation that has equal settings."""
        self._known.resume(state)
        self._strides.resume(state, arrays)
        self.unanswered = state["unanswered"]
        self.annotator_errors.resume(state["annotator_errors"])
        self._n_final = state["settled"]
        self.has_probabilities = state["has_probabilities"]
        given = state["decisions"]
        self._decision_rule = None if given is None else Decisions(**given)
        self._queue = PendingPredictions.from_state(
            state["queue"], select_prefix(arrays, "queue."), arrays["queue"]
        )
        self._n_left_pool = max(len(self._queue) - self.pool, 0)
        self._blocks.resume(state["blocks"], arrays)
        waits = self._queue.rows["waits"].tolist()
        self._open = {id: i for i, id in enumerate(self._queue.ids) if waits[i]}


def impute_open_requests(
    confidence: np.ndarray,
    inverse_inclusion_probabilities: np.ndarray,
    n_records_since: np.ndarray,
    answered: list[EvaluatedPrediction],
    K: int,
    decision_cost: DecisionCost,
) -> SufficientStats:
    """Return sums that impute the labels of open requests from the `answered` requests.

    The weight of an open request is distributed to requests whose answer took at least as long as
    the request has been open (redistribution to the right, Efron 1967). If there are none, it goes
    to the slowest answers. So fast answers do not replace slow ones.

    Parameters
    ----------
    confidence, inverse_inclusion_probabilities, n_records_since
        (m,), for each of m open requests: the probability of the predicted label, 1 / inclusion
        probability, and the number of records that arrived since the record.
    answered
        Predictions and labels of answered requests.
    K
        Number of classes.
    decision_cost
        Computes `EvaluatedRecords.decision_cost` from probabilities.
    """
    P, tally = np.zeros((len(answered), K)), SufficientStats(K)
    if not len(answered) or not len(confidence):
        return tally
    for i, one in enumerate(answered):
        P[i, : len(one.P)] = one.P
    took, others = (np.array([one[i] for one in answered], np.float64) for i in (5, 4))
    slowest = np.sort(took)[-min(_FEWEST, len(took))]
    slower = (took > n_records_since[:, None]) | (took >= slowest)
    shares = similarity_weights(confidence, P.max(axis=1, initial=0.0), others + 1.0) * slower
    given = inverse_inclusion_probabilities @ (shares / shares.sum(axis=1, keepdims=True))
    predicted = np.array([one.predicted for one in answered])
    truth = np.array([one.truth for one in answered])
    judged = EvaluatedRecords(P, predicted, truth, others, decision_cost(P))
    tally.add(replace(judged, others=others + given))
    alone = SufficientStats(K)
    alone.add(judged)
    tally.merge(alone, times=-1.0)
    return tally
