"""Label join: matches labels with their records within a sliding window.

The join holds each record for `window` records (or seconds), with its features and the prediction
made on arrival. A record with a label request is held until the request expires. A label that
arrives before its record waits for one window. Flink calls this an interval join.

While a backlog is read, expiry is paused. Pending labels expire only while all records have been
read, and requests expire only while all records and labels have been read. Annotators cannot answer
requests while the backlog is being read, and labels within the backlog are not late.

==============================================  ============================  ===============
label arrives                                   effect                        counted as
==============================================  ============================  ===============
for a record with an open request               learned, with its propensity  ``answered``
for a held record without a request             learned, propensity NaN       ``unsolicited``
before its record                               waits; learned when the       ``early``, and then
                                                record arrives                as above
after a record without a request was evicted    dropped: the features are     ``late``
                                                gone
after the request expired                       dropped                       ``expired``
a second time, with equal value                 dropped                       ``duplicate``
a second time, with another value, for a        by `on_conflict`: replaces    ``corrected``
record of the working set                       the label, or adds a vote
likewise, but `on_conflict` is "first", or the  dropped                       ``conflicting``
working set no longer has the record
null, for a record that has a label             retracts the label            ``retracted``
null, for a record without a label; and each    dropped                       ``empty_label``
pending label that a null label retracts
and no record arrived while it waited           dropped                       ``unknown``
==============================================  ============================  ===============

After an eviction, the join remembers the record's label, or that its request expired, for one more
window. Labels after that window are looked up by id in the working set. If the working set lacks
the record, the label is treated as early, waits, and ends as ``unknown``. Pending labels of a
record are applied in order of arrival. Labels of new classes are learned like others. A record
whose id is still held is a duplicate: it is not predicted again, and goes to the dead letters.

A step calls, in this order, `expire_and_evict`, `are_new_ids` (deduplication), `add_records` and
`match_labels`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamboost.checks import pad_missing_columns
from streamboost.connectors.base import Message, MessageMetadata
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.outgoing import DeadLetter, Time
from streamboost.connectors.messages.values import (
    decode_values,
    values_from_arrays,
    values_to_arrays,
)
from streamboost.learner.labelled_rows import Vote, VoteHistory
from streamboost.learner.learner import StreamLearner
from streamboost.learner.schedule import Training
from streamboost.pipelines.config.durations import (
    PausableClock,
    RecordCountAndBatchTime,
    WindowSize,
)
from streamboost.pipelines.runner.label_mapping import Restored
from streamboost.pipelines.runner.record_window import HeldRecord, Label, RecordWindow
from streamboost.pipelines.state.journal import JOINED
from streamboost.storage import Arrays, pack_json, unpack_json

MOST_REQUESTS = 100_000
"""Maximum number of open requests; beyond it the oldest expire, as a backlog may add any number."""

MOST_WAITING = 100_000
"""Maximum number of pending labels; at the limit, no labels are read until records arrive. If no
record of one window matches a pending label, the older half is dropped as ``unknown``."""

IGNORED = ("late", "expired", "duplicate", "conflicting", "unknown", "empty_label")
"""The kinds of labels that are dropped."""


@dataclass(slots=True)
class JoinCounts:
    """Counts since the pipeline began: records, and labels by kind (see the module docstring)."""

    records: int = 0
    duplicate_ids: int = 0
    labels: int = 0
    answered: int = 0
    unsolicited: int = 0
    early: int = 0
    late: int = 0
    expired: int = 0
    duplicate: int = 0
    conflicting: int = 0
    unknown: int = 0
    corrected: int = 0
    retracted: int = 0
    empty_label: int = 0


class LearnedLabels(Protocol):
    """Interface through which the join looks up the labels that a learner has learned."""

    @property
    def on_conflict(self) -> str | None:
        """Rule for further labels of a record; None: the learner accepts only the first label."""

    def label_of(self, id: str) -> Label | None:
        """Return the label of a record in the working set; None: the record has no label."""

    def has_row(self, id: str) -> bool:
        """Return whether the working set has a record, so that its label can be corrected."""


class NoLearnedLabels:
    """Null object of `LearnedLabels`: a learner without any record."""

    on_conflict = None

    def label_of(self, id: str) -> Label | None:
        """Return None, as no record has a label."""
        return None

    def has_row(self, id: str) -> bool:
        """Return False, as the learner has no records."""
        return False


class Correction(NamedTuple):
    """New label of a record that was learned before; a None label retracts the earlier label.

    `values` are the record's encoded field values."""

    id: str
    label: Label | None
    source: str | None
    values: bytes | None


@dataclass(slots=True)
class LabelledBatch:
    """Labelled records of a batch, in the order to learn them, and label corrections.

    `rows` are the records' features, `predicted` their predictions on arrival, and `values` their
    encoded field values."""

    ids: list[str] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    propensity: list[float] = field(default_factory=list)
    predicted: list[Label | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    sources: list[str | None] = field(default_factory=list)
    corrections: list[Correction] = field(default_factory=list)
    """Corrections of labels learned before, to apply after the new labels."""
    current_labels: dict[str, Label | None] = field(default_factory=dict)
    """Labels of records after this batch, by id; None: the label was retracted."""
    _votes: dict[str, list[Vote]] = field(default_factory=dict, init=False)

    def add_correction(
        self, id: str, label: Label | None, source: str | None, values: bytes | None
    ) -> None:
        """Append a label correction; `values` are the record's encoded field values, or None."""
        self._add_vote(id, label, source)
        self.corrections.append(Correction(id, label, source, values))

    def add(
        self,
        id: str,
        record: HeldRecord,
        label: Label,
        propensity: float,
        source: str | None = None,
    ) -> None:
        """Append a record with its label; `propensity` is NaN without a request."""
        self._add_vote(id, label, source)
        self.ids.append(id)
        self.current_labels[id] = label
        self.sources.append(source)
        self.rows.append(record.x if record.x.size or record.values is None else None)
        self.labels.append(label)
        self.propensity.append(propensity)
        self.predicted.append(record.predicted_label)
        self.values.append(record.values)

    def annotator_votes(self, id: str) -> VoteHistory | None:
        """Return the votes on a record in this batch; None if it has none."""
        votes = self._votes.get(id)
        return None if votes is None else VoteHistory([*votes])

    def _add_vote(self, id: str, label: Label | None, source: str | None) -> None:
        # None retracts all labels.
        self._votes[id] = [] if label is None else [*self._votes.get(id, ()), (source, label)]

    def train(self, learner: StreamLearner, batch_time_ms: int) -> tuple[Training, ...]:
        """Train `learner` with the labels and corrections; return the trainings started."""
        started = self._learn_new_labels(learner, batch_time_ms) if self.ids else ()
        return (
            started + self._learn_corrections(learner, batch_time_ms)
            if self.corrections
            else started
        )

    def _learn_corrections(
        self, learner: StreamLearner, batch_time_ms: int
    ) -> tuple[Training, ...]:
        return learner.correct(
            [one.id for one in self.corrections],
            [one.label for one in self.corrections],
            tick=batch_time_ms,
            sources=[one.source for one in self.corrections],
            records=[
                None if one.values is None else decode_values(one.values)
                for one in self.corrections
            ],
        )

    def _learn_new_labels(self, learner: StreamLearner, batch_time_ms: int) -> tuple[Training, ...]:
        mixed = learner.features is not None
        return learner.learn(
            self.ids,
            self.rows if mixed else np.stack(self.rows),
            self.labels,
            tick=batch_time_ms,
            propensity=np.array(self.propensity),
            predicted=self.predicted,
            records=[decode_values(held or b"[]") for held in self.values] if mixed else None,
            sources=self.sources,
        )


class EvictedRecord(NamedTuple):
    """Entry for a record evicted at time `since`: its label, and whether its request expired."""

    since: RecordCountAndBatchTime
    label: Label | None
    expired: bool


class OpenRequest(NamedTuple):
    """Label request without an answer yet, sent at the time `asked`.

    Its expiry is counted from `since`, a time without pauses. `propensity` is the record's
    inclusion probability. For relabel requests, `excluded_annotators`
    names the annotators who must not answer.
    """

    since: RecordCountAndBatchTime
    propensity: float
    asked: RecordCountAndBatchTime
    excluded_annotators: Sequence[str] | None = None


class PendingLabel(NamedTuple):
    """Label that has waited since time `since` for the record `id`; `source` is its annotator."""

    since: RecordCountAndBatchTime
    id: str
    label: Label
    source: str | None = None


class PendingLabels:
    """Labels that wait for their records, in order of arrival.

    >>> waiting = PendingLabels()
    >>> for label in ("grass", "sky"):
    ...     waiting.add(PendingLabel(RecordCountAndBatchTime(0, 0), "a", label))
    >>> len(waiting), [one.label for one in waiting.pop("a")], "a" in waiting
    (2, ['grass', 'sky'], False)
    """

    def __init__(self, labels: Iterable[PendingLabel] = ()) -> None:
        self._labels: dict[int, PendingLabel] = {}
        self._numbers: dict[str, list[int]] = {}  # of the labels of each record
        self._n_added = 0
        for one in labels:
            self.add(one)

    def __len__(self) -> int:
        return len(self._labels)

    def __iter__(self) -> Iterator[PendingLabel]:
        return iter(self._labels.values())

    def __contains__(self, id: str) -> bool:
        return id in self._numbers

    def add(self, label: PendingLabel) -> None:
        """Append a pending label."""
        self._labels[self._n_added] = label
        self._numbers.setdefault(label.id, []).append(self._n_added)
        self._n_added += 1

    def annotator_votes(self, id: str) -> list[Vote]:
        """Return (annotator, label) of each pending label of a record, the oldest first."""
        pending = (self._labels[number] for number in self._numbers.get(id, ()))
        return [(one.source, one.label) for one in pending]

    def pop(self, id: str) -> list[PendingLabel]:
        """Remove and return the pending labels of a record, the oldest first."""
        return [self._labels.pop(number) for number in self._numbers.pop(id, [])]

    def expire(
        self, max_age: WindowSize, now: RecordCountAndBatchTime, min_dropped: int = 0
    ) -> int:
        """Drop the labels older than `max_age`, and return the number of dropped labels.

        The `min_dropped` oldest labels are dropped whatever their age.
        """
        n = max(len(expired_keys(self._labels, max_age, now)), min(min_dropped, len(self)))
        for number in list(islice(self._labels, n)):
            id = self._labels.pop(number).id
            self._numbers[id].remove(number)
            if not self._numbers[id]:
                del self._numbers[id]
        return n


def expired_keys(
    table: Mapping[Any, Any], max_age: WindowSize, now: RecordCountAndBatchTime
) -> list[Any]:
    """Return the keys of the entries in `table` that are older than `max_age`, oldest first.

    The first element of an entry is its start time; `table` is in the order of start times.
    """
    over, seen = [], None
    for key, entry in table.items():
        since = entry[0]
        if since is not seen:  # entries of a batch share the start time
            if not max_age.has_elapsed(since, now):
                break
            seen = since
        over.append(key)
    return over


class LabelJoin:
    """Join that matches labels with held records, as in the table of the module docstring.

    Parameters
    ----------
    window : number of records, or duration, for which a record is held and an early label waits
    expires_after : time that a record with a request is held, counted from the request
    n_features : number of features of a record

    Memory is bounded by the records of two windows plus the open requests, whose number the
    label budget limits.
    """

    def __init__(self, window: WindowSize, expires_after: WindowSize, n_features: int) -> None:
        self.window = window
        self.expires_after = expires_after
        self.counts = JoinCounts()
        self._now = RecordCountAndBatchTime(0, 0)
        self._window = RecordWindow(n_features)
        self._retained_for_request: dict[str, HeldRecord] = {}
        self._requests: dict[str, OpenRequest] = {}
        self._known_labels: dict[str, Label] = {}  # labels of the records that are held
        self._expired_requests: set[str] = set()  # records in the window whose request has expired
        self._evicted: dict[str, EvictedRecord] = {}
        self._pending_labels = PendingLabels()
        self._last_match = self._now  # the last time at which a pending label matched a record
        self._for_records = PausableClock(self._now, self._now)
        self._for_labels = PausableClock(self._now, self._now)

    @property
    def now(self) -> RecordCountAndBatchTime:
        """Number of records so far, and time of the newest batch."""
        return self._now

    @property
    def _eviction_time(self) -> RecordCountAndBatchTime:
        """Record count, and batch time without expiry pauses, from which evictions are counted."""
        return RecordCountAndBatchTime(
            self._now.records, self._for_labels.active_time.batch_time_ms
        )

    @property
    def has_room_for_labels(self) -> bool:
        """Whether the number of pending labels is below its limit."""
        return len(self._pending_labels) < MOST_WAITING

    def counters(self) -> dict[str, int]:
        """Return `counts`, and the numbers of held records, open requests and pending labels."""
        return asdict(self.counts) | {
            "held_records": len(self._window) + len(self._retained_for_request),
            "open_requests": len(self._requests),
            "waiting_labels": len(self._pending_labels),
        }

    def ignored_counts(self) -> dict[str, int]:
        """Return the number of dropped labels of each kind in `IGNORED`."""
        return {kind: getattr(self.counts, kind) for kind in IGNORED}

    def expire_and_evict(
        self, batch_time_ms: int, caught_up: Collection[str] = JOINED, *, resumed: bool = False
    ) -> list[str]:
        """Expire requests and labels, and evict records; return the ids of expired requests.

        `caught_up` names the sources ("records", "labels") that were read to their end at some time
        since the previous batch. `resumed` marks the first batch of a run: the downtime before that
        batch does not count.
        """
        self._now = RecordCountAndBatchTime(self.counts.records, batch_time_ms)
        for lived, is_counted in (
            (self._for_records, "records" in caught_up),
            (self._for_labels, len(caught_up) == len(JOINED)),
        ):
            lived.advance(
                self._now, records_advance=is_counted, time_advances=is_counted and not resumed
            )
        expired = self._expire_requests()
        self._evict_old_records()
        for id in expired_keys(self._evicted, self.window, self._eviction_time):
            del self._evicted[id]
        surplus = 0
        if self.has_room_for_labels:
            self._last_match = self._now
        elif self.window.has_elapsed(self._last_match, self._now):
            surplus = MOST_WAITING // 2
        self.counts.unknown += self._pending_labels.expire(
            self.window, self._for_records.active_time, surplus
        )
        return expired

    def _expire_requests(self) -> list[str]:
        """Expire requests that are too old or too many; return the ids of their records."""
        expired = expired_keys(self._requests, self.expires_after, self._for_labels.active_time)
        surplus = len(self._requests) - len(expired) - MOST_REQUESTS
        expired += islice(islice(self._requests, len(expired), None), max(surplus, 0))
        for id in expired:
            del self._requests[id]
            if self._retained_for_request.pop(id, None) is not None:
                label = self._known_labels.pop(
                    id, None
                )  # present if the request was a relabel request
                self._evicted[id] = EvictedRecord(self._eviction_time, label, expired=label is None)
            elif id not in self._known_labels:
                self._expired_requests.add(id)
        return expired

    def _evict_old_records(self) -> None:
        """Evict old records from the window; retain those with an open request."""
        now = self._eviction_time
        unasked = EvictedRecord(now, None, expired=False)
        for id in self._window.evict(self.window, now):
            if id in self._requests:
                self._retained_for_request[id] = self._window[id]
            elif id in self._known_labels or id in self._expired_requests:
                label = self._known_labels.pop(id, None)
                self._evicted[id] = EvictedRecord(now, label, expired=id in self._expired_requests)
                self._expired_requests.discard(id)
            else:
                self._evicted[id] = unasked

    def are_new_ids(self, ids: Sequence[str]) -> list[bool]:
        """Return for each id whether it is new: not that of a held record, nor earlier in `ids`."""
        seen = set(ids)
        is_held = self._window.has_any(seen) or not self._retained_for_request.keys().isdisjoint(
            seen
        )
        if len(seen) == len(ids) and not is_held:
            return [True] * len(ids)
        seen, fresh = set(), []
        for id in ids:
            fresh.append(not (id in self._window or id in self._retained_for_request or id in seen))
            seen.add(id)
        self.counts.duplicate_ids += len(ids) - sum(fresh)
        return fresh

    def drop_duplicates(
        self, records: Records, labels: Sequence[Message], batch_time_ms: int
    ) -> tuple[Records, list[DeadLetter]]:
        """Remove records with duplicate ids; return the other records, and dead letters.

        If the message of a duplicate is in `labels` (an inline label), it gives no dead letter.
        `batch_time_ms` is the processing time of the batch.
        """
        fresh = self.are_new_ids(records.ids)
        if all(fresh):
            return records, []
        told = {(message.partition, message.offset) for message in labels}
        dead = []
        for name, message, is_first in zip(records.ids, records.messages, fresh, strict=True):
            if not is_first and (message.partition, message.offset) not in told:
                detail = (
                    f"another record has the id {name!r}: ids must be unique within "
                    f"join_window ({self.window})"
                )
                letter = DeadLetter.from_message(
                    message, "duplicate_id", detail, source="records", time=batch_time_ms
                )
                dead.append(letter)
        return records.take([row for row, is_first in enumerate(fresh) if is_first]), dead

    def add_records(
        self,
        ids: Sequence[str],
        X: np.ndarray,
        predicted_labels: Sequence[Label | None],
        requested_ids: Sequence[str],
        propensity: np.ndarray,
        times: Sequence[Time] | None = None,
        values: Sequence[bytes | None] | None = None,
        learned: LearnedLabels = NoLearnedLabels(),  # noqa: B008 - it holds nothing
        labelled_batch: LabelledBatch | None = None,
    ) -> LabelledBatch:
        """Add the records and requests of a batch; return the records whose labels arrived before.

        Such a pending label is matched as if it had arrived after its record.

        Parameters
        ----------
        ids, X, predicted_labels : record ids, features (n, D), and predictions of the batch
        requested_ids, propensity : ids of the records whose labels are requested, and their
            inclusion probabilities; these may be held records of earlier batches
        times, values : timestamps and encoded field values of the records: see `HeldRecord`
        learned : as for `match_labels`
        labelled_batch : labels of the batch so far, to append to; None: no labels so far
        """
        self._window.add(ids, X, predicted_labels, self._eviction_time, times, values)
        self.counts.records += len(ids)
        self._now = RecordCountAndBatchTime(self.counts.records, self._now.batch_time_ms)
        for id, p in zip(requested_ids, propensity, strict=True):
            self._requests[id] = OpenRequest(
                self._for_labels.active_time_at(self._now), float(p), self._now
            )
        labelled_batch = LabelledBatch() if labelled_batch is None else labelled_batch
        for id in self._evicted.keys() & ids:
            del self._evicted[id]
        for id in ids if self._pending_labels else ():
            if id in self._pending_labels:
                self._last_match = self._now
                for one in self._pending_labels.pop(id):
                    self._match_label(labelled_batch, *one[1:], learned)
        return labelled_batch

    def add_metadata(self, metadata: Mapping[str, MessageMetadata]) -> None:
        """Store the message metadata of the newest records, for requests in later batches."""
        self._window.add_metadata(metadata)

    def can_relabel(self, id: str) -> bool:
        """Return whether the record `id` is in the window, has a label, and no open request."""
        return id in self._known_labels and id in self._window and id not in self._requests

    def request_relabel(
        self, ids: Sequence[str], excluded_annotators: Sequence[Sequence[str]]
    ) -> None:
        """Open relabel requests, each with its excluded annotators.

        `can_relabel` must be True for each of `ids`.
        """
        since = self._for_labels.active_time_at(self._now)
        for id, names in zip(ids, excluded_annotators, strict=True):
            self._requests[id] = OpenRequest(since, 1.0, self._now, names)

    def lacks_record(self, id: str) -> bool:
        """Return whether a label of record `id` can only be learned if the record is added.

        False if the join holds the record, or remembers its label or the expiry of its request.
        """
        gone = self._evicted.get(id)
        is_settled = gone is not None and (gone.expired or gone.label is not None)
        return not (is_settled or id in self._window or id in self._retained_for_request)

    def is_known_id(self, id: str) -> bool:
        """Return whether the join holds or remembers a record with this id, or a label for it."""
        there = (self._window, self._retained_for_request, self._evicted, self._pending_labels)
        return any(id in one for one in there)

    def held_record(self, id: str) -> HeldRecord:
        """Return the record `id`, which must have arrived within the window."""
        return self._window[id]

    def record_values(self, id: str) -> bytes | None:
        """Return the encoded field values of the record `id`.

        None is returned if the record is not in the window, or has no stored values.
        """
        return self._window[id].values if id in self._window else None

    @property
    def open_requests(self) -> Mapping[str, OpenRequest]:
        """Requests without an answer, keyed by record id, the oldest first (read-only)."""
        return MappingProxyType(self._requests)

    def requested_record(self, id: str) -> HeldRecord:
        """Return the record `id`, which must have an open request, but may have left the window."""
        return self._window[id] if id in self._window else self._retained_for_request[id]

    def match_labels(
        self,
        labels: Sequence[tuple[str, Label | None]],
        labelled_batch: LabelledBatch,
        sources: Sequence[str | None] | None = None,
        learned: LearnedLabels = NoLearnedLabels(),  # noqa: B008 - it holds nothing
    ) -> None:
        """Match labels with records, and append the matches to `labelled_batch`.

        Other labels wait, or are dropped and counted. `labels` are pairs of record id and label; a
        None label is a retraction. `sources` are the sources of the labels. `learned` returns the
        labels of records that were learned.
        """
        self.counts.labels += len(labels)
        for (id, label), source in zip(labels, sources or [None] * len(labels), strict=True):
            self._match_label(labelled_batch, id, label, source, learned)

    def _match_label(
        self,
        labelled_batch: LabelledBatch,
        id: str,
        label: Label | None,
        source: str | None,
        learned: LearnedLabels,
    ) -> None:
        counts = self.counts
        is_learned = id in labelled_batch.current_labels or learned.has_row(id)
        known = self._remembered_label(id)
        if is_learned and learned.on_conflict is not None:
            self._apply_correction(labelled_batch, id, label, source, learned)
        elif known is not None:
            self._count_repeated_label(id, label, known)
        elif label is None and id in self._pending_labels:
            counts.retracted += 1
            counts.empty_label += len(self._pending_labels.pop(id))
        elif label is None:
            counts.empty_label += 1
        elif id in self._expired_requests:
            counts.expired += 1
        elif id in self._window or id in self._retained_for_request:
            self._add_labelled_record(labelled_batch, id, label, source)
        elif id in self._evicted:
            counts.expired += self._evicted[id].expired
            counts.late += not self._evicted[id].expired
        else:
            counts.early += 1
            self._pending_labels.add(
                PendingLabel(self._for_records.active_time_at(self._now), id, label, source)
            )

    def _apply_correction(
        self,
        labelled_batch: LabelledBatch,
        id: str,
        label: Label | None,
        source: str | None,
        learned: LearnedLabels,
    ) -> None:
        """Apply a second label or a retraction (None) to a record that was learned before.

        Records that are learned in this batch count, too. `learned.on_conflict` is the rule for
        second labels.
        """
        counts, rule = self.counts, learned.on_conflict
        current = (
            labelled_batch.current_labels[id]
            if id in labelled_batch.current_labels
            else learned.label_of(id)
        )
        if label is not None and label == current and self._is_excluded_annotator(id, source):
            counts.duplicate += 1  # no second opinion: the request stays open
            return
        self._close_relabel_request(id)
        if label is None and current is None:
            counts.empty_label += 1
            return
        labelled_batch.add_correction(id, label, source, self.record_values(id))
        if label is None:
            counts.retracted += 1
        elif label == current:
            counts.duplicate += 1
        elif current is not None and rule == "first":
            counts.conflicting += 1
            return
        else:
            counts.corrected += 1
        labelled_batch.current_labels[id] = label
        self._set_remembered_label(id, label)

    def retract_labels_of(
        self,
        source: str,
        votes: Mapping[str, VoteHistory],
        labelled_batch: LabelledBatch,
        learned: LearnedLabels,
    ) -> int:
        """Retract the learned labels of annotator `source`; return the number of their records.

        `votes` maps a record id to all votes on the record, if `source` voted on it. Votes of other
        annotators are applied again, in their order.
        """
        found = {id: one.votes for id, one in votes.items() if learned.label_of(id) is not None}
        for id, here in found.items():
            self._apply_correction(labelled_batch, id, None, None, learned)
            for other, label in here:
                if other != source:
                    self._apply_correction(labelled_batch, id, label, other, learned)
        return len(found)

    def drop_pending_labels_of(self, source: str) -> None:
        """Drop the pending labels of an annotator; they count as retracted."""
        kept = [one for one in self._pending_labels if one.source != source]
        self.counts.retracted += len(self._pending_labels) - len(kept)
        self._pending_labels = PendingLabels(kept)

    def _is_excluded_annotator(self, id: str, source: str | None) -> bool:
        request = self._requests.get(id)
        return request is not None and source in (request.excluded_annotators or ())

    def _count_repeated_label(self, id: str, label: Label | None, first_label: Label) -> None:
        """Count a second label, which is dropped because the learner does not have its record."""
        self._close_relabel_request(id)
        kind = (
            "empty_label"
            if label is None
            else "duplicate"
            if label == first_label
            else "conflicting"
        )
        setattr(self.counts, kind, getattr(self.counts, kind) + 1)

    def _close_relabel_request(self, id: str) -> None:
        """Close the relabel request of a record, if any, and evict a record retained for it."""
        if self._requests.pop(id, None) and self._retained_for_request.pop(id, None):
            self._evicted[id] = EvictedRecord(
                self._eviction_time, self._known_labels.pop(id), expired=False
            )

    def _set_remembered_label(self, id: str, label: Label | None) -> None:
        """Replace the remembered label of a record; None: the label was retracted."""
        if id in self._evicted:
            self._evicted[id] = self._evicted[id]._replace(label=label)
        elif label is None:
            self._known_labels.pop(id, None)
        elif id in self._window:
            self._known_labels[id] = label

    def rename_labels(
        self, current_class: Callable[[Label], Label | None], learned: LearnedLabels
    ) -> None:
        """Replace each remembered or pending label by `current_class(label)`; None removes it."""

        def current_label(id: str, remembered: Label) -> Label | None:
            own = learned.label_of(id)  # differs from the newest label where votes decide
            return current_class(remembered if own is None else own)

        answers = {id: current_label(id, label) for id, label in self._known_labels.items()}
        self._known_labels = {id: label for id, label in answers.items() if label is not None}
        for id, gone in self._evicted.items():
            if gone.label is not None:
                self._evicted[id] = gone._replace(label=current_label(id, gone.label))
        renamed = [(one, current_class(one.label)) for one in self._pending_labels]
        kept = [one._replace(label=label) for one, label in renamed if label is not None]
        self.counts.unknown += len(renamed) - len(kept)
        self._pending_labels = PendingLabels(kept)

    def unlearned_votes(self, label: Label, learned: LearnedLabels) -> dict[str, VoteHistory]:
        """Return all votes on the records that have a vote for class `label` that was not learned.

        The votes are keyed by record id. They are pending labels, and remembered labels that
        `learned` does not have.
        """
        ids = dict.fromkeys(one.id for one in self._pending_labels if one.label == label)
        found = {id: VoteHistory(self._pending_labels.annotator_votes(id)) for id in ids}
        here = self._known_labels | {id: gone.label for id, gone in self._evicted.items()}
        alone = [id for id, one in here.items() if one == label and learned.label_of(id) is None]
        return found | {id: VoteHistory([(None, label)]) for id in alone}

    def pending_votes_on(self, id: str) -> VoteHistory | None:
        """Return the pending votes on a record; None if the join remembers a label of it."""
        if self._remembered_label(id) is not None:
            return None
        return VoteHistory(self._pending_labels.annotator_votes(id))

    def restore_classes(self, restored: Restored, learned: LearnedLabels) -> None:
        """Restore the classes of remembered and pending labels after a merge was undone.

        `restored` is the result of `LabelMapping.unmerge`.
        """
        left = {id: [*one.votes] for id, one in restored.items() if id in self._pending_labels}
        waiting = []
        for one in reversed(list(self._pending_labels)):  # the oldest labels may have expired
            votes = left.get(one.id)
            waiting.append(one._replace(label=votes.pop()[1]) if votes else one)
        self._pending_labels = PendingLabels(reversed(waiting))
        for id, history in restored.items():
            if not history.votes or id in self._pending_labels:
                continue
            if self._remembered_label(id) is not None:
                label = learned.label_of(id)
                if label is None:
                    label = history.replay(learned.on_conflict or "first")[1]
                self._set_remembered_label(id, label)

    def n_pending_labels(self, id: str) -> int:
        """Return the number of labels that wait for the record `id`."""
        return len(self._pending_labels.annotator_votes(id))

    def distinct_pending_labels(self) -> list[Label]:
        """Return the distinct values of the pending labels."""
        return list(dict.fromkeys(waiting.label for waiting in self._pending_labels))

    def _remembered_label(self, id: str) -> Label | None:
        """Return the remembered label of `id`, without pending labels."""
        if id in self._known_labels:
            return self._known_labels[id]
        gone = self._evicted.get(id)
        return gone.label if gone else None

    def _add_labelled_record(
        self, labelled_batch: LabelledBatch, id: str, label: Label, source: str | None
    ) -> None:
        request = self._requests.pop(id, None)
        if request is None:
            self.counts.unsolicited += 1
        else:
            self.counts.answered += 1
        propensity = request.propensity if request else float("nan")
        if id in self._window:
            labelled_batch.add(id, self._window[id], label, propensity, source)
            self._known_labels[id] = label
        else:
            labelled_batch.add(id, self._retained_for_request.pop(id), label, propensity, source)
            self._evicted[id] = EvictedRecord(self._eviction_time, label, expired=False)

    def to_arrays(self) -> Arrays:
        """Return the complete state of the join as arrays; `restore` is the exact inverse."""
        state = {
            "counts": asdict(self.counts),
            "now": self._now,
            "met": self._last_match,
            "lived": [
                (x.active_time, x.advanced_at) for x in (self._for_records, self._for_labels)
            ],
            "window": self._window.to_json(),
            "pinned": [
                (id, a.arrival_time, a.predicted_label, a.time)
                for id, a in self._retained_for_request.items()
            ],
            "requests": [(id, *request) for id, request in self._requests.items()],
            "answers": list(self._known_labels.items()),
            "lapsed": sorted(self._expired_requests),
            "gone": [(id, *gone) for id, gone in self._evicted.items()],
            "waiting": [(one.id, one.since, *one[2:]) for one in self._pending_labels],
        }
        pinned = list(self._retained_for_request.values())
        held = [*self._window.field_values(), *(record.values for record in pinned)]
        return {
            "state": pack_json(state),
            "window": self._window.feature_rows(),
            "pinned": pad_missing_columns([record.x for record in pinned], self._window.n_features),
            **values_to_arrays(held),
        }

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `to_arrays` returned."""
        state = unpack_json(arrays["state"])
        self.counts = JoinCounts(**state["counts"])
        self._now = RecordCountAndBatchTime(*state["now"])
        n = len(arrays["window"])
        values = values_from_arrays(arrays, n + len(state["pinned"]))
        self._window = RecordWindow.restore(state["window"], arrays["window"], values[:n])
        self._retained_for_request = {
            id: HeldRecord(x, RecordCountAndBatchTime(*arrived), predicted, time, held)
            for (id, arrived, predicted, time), x, held in zip(
                state["pinned"], arrays["pinned"], values[n:], strict=True
            )
        }
        self._last_match = RecordCountAndBatchTime(*state["met"])
        self._for_records, self._for_labels = (
            PausableClock(*(RecordCountAndBatchTime(*moment) for moment in lived))
            for lived in state["lived"]
        )
        self._requests = {
            id: OpenRequest(
                RecordCountAndBatchTime(*at),
                p,
                RecordCountAndBatchTime(*asked),
                excluded_annotators,
            )
            for id, at, p, asked, excluded_annotators in state["requests"]
        }
        self._known_labels = dict(state["answers"])
        self._expired_requests = set(state["lapsed"])
        self._evicted = {
            id: EvictedRecord(RecordCountAndBatchTime(*at), *rest)
            for id, at, *rest in state["gone"]
        }
        self._pending_labels = PendingLabels(
            PendingLabel(RecordCountAndBatchTime(*at), id, *rest)
            for id, at, *rest in state["waiting"]
        )
