"""Joins labels with their records: what is held, for how long, and what each label does.

Every record is held with its features and the prediction made on its arrival for `window`
records (or seconds). A record whose label was asked for stays until its request expires. A label
that comes before its record waits for one window. Waits go on only while all records there are
have been read, and requests expire only while all records and labels have: nobody can answer what
a backlog asks while it is read, and what is to be found in it was not late.

==============================================  ============================  ===============
a label arrives                                 what happens                  counted as
==============================================  ============================  ===============
for a record whose label was asked for          learnt, with its propensity   ``answered``
for a held record that nobody asked for         learnt, propensity NaN        ``unasked``
before its record                               waits; learnt with the record ``early``, and then
                                                when that comes               as above
after an unasked record left the window         dropped: its features are     ``late``
                                                gone
after its request expired                       dropped                       ``expired``
again, with the value it had                    dropped                       ``duplicate``
again, with another value, for a record of the  by `on_conflict`: the newest  ``corrected``
working set                                     holds, or it has a vote
so, but the first is to stay, or the working    dropped                       ``conflicting``
set has the record no more
null, for a record that has a label             takes it back                 ``taken_back``
null, for another; or it waited and was taken   dropped                       ``void``
back
and no record came while it waited              dropped                       ``unknown``
==============================================  ============================  ===============

What a record's label was, or why it is gone, is remembered for one more window after the record
left. A label later than that is found by its id in the working set; where that has it not, it
cannot be told from an early one, waits like it, and ends as ``unknown``. Labels that wait for one
record are applied in the order in which they came. A label of a class never seen before is simply
learnt. A record whose id is still held is a duplicate: it is not predicted again, and goes to the
dead letters.

A step calls, in this order, `advance` (what has run out leaves), `fresh` (duplicates out), `add`
(the batch's records) and `resolve` (the batch's labels).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamboost.connectors.base import Carried, Message
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.written import DeadLetter, Time
from streamboost.pipelines.engine.classes import Restored
from streamboost.pipelines.engine.held_records import HeldRecord, Label, Window
from streamboost.pipelines.engine.values import unpacked, values_from_arrays, values_in_arrays
from streamboost.pipelines.span import Lived, Moment, Span
from streamboost.pipelines.state.journal import JOINED
from streamboost.storage import Arrays, pack_json, unpack_json
from streamboost.stream.checks import as_wide
from streamboost.stream.learner import StreamLearner
from streamboost.stream.training.schedule import Training

__all__ = ["IGNORED", "MOST_WAITING", "Join", "JoinCounts", "Joined", "Learned", "Request"]

MOST_REQUESTS = 100_000
"""Requests that are open; beyond it the oldest expire, as a backlog may ask for any number."""

MOST_WAITING = 100_000
"""Labels that wait for their records; with so many, no more are to be read until records come.
When a window of records has come then and met none of them, the older half are unknown."""

IGNORED = ("late", "expired", "duplicate", "conflicting", "unknown", "void")
"""The kinds of labels that are dropped."""


@dataclass(slots=True)
class JoinCounts:
    """What the join has seen since the pipeline began."""

    records: int = 0
    duplicate_ids: int = 0
    labels: int = 0
    answered: int = 0
    unasked: int = 0
    early: int = 0
    late: int = 0
    expired: int = 0
    duplicate: int = 0
    conflicting: int = 0
    unknown: int = 0
    corrected: int = 0
    taken_back: int = 0
    void: int = 0


class Learned(Protocol):
    """What a join has to know of those who learn."""

    @property
    def on_conflict(self) -> str | None:
        """Which of several labels of a record holds; None: only the first comes there."""

    def label_of(self, id: str) -> Label | None:
        """Return the label of a record that may still get another; None: it has none."""

    def has_row(self, id: str) -> bool:
        """Tell whether a record was learned and may still get another label."""


class Nothing:
    """Nobody has learned anything."""

    on_conflict = None

    def label_of(self, id: str) -> Label | None:
        """Return None."""
        return None

    def has_row(self, id: str) -> bool:
        """Return False."""
        return False


class Again(NamedTuple):
    """Another label of a record that was learned before; None takes its label back."""

    id: str
    label: Label | None
    source: str | None
    values: bytes | None


@dataclass(slots=True)
class Joined:
    """Labels that met their records, in the order to learn them."""

    ids: list[str] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    propensity: list[float] = field(default_factory=list)
    predicted: list[Label | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    sources: list[str | None] = field(default_factory=list)
    again: list[Again] = field(default_factory=list)
    """Labels of records learned before, to be taken in after the others."""
    standing: dict[str, Label | None] = field(default_factory=dict)
    """Labels of records as of these, None where a label was taken back."""

    def take_again(
        self, id: str, label: Label | None, source: str | None, values: bytes | None
    ) -> None:
        """Append another label of a record, of which `values` may still be held."""
        self.again.append(Again(id, label, source, values))

    def take(
        self,
        id: str,
        record: HeldRecord,
        label: Label,
        propensity: float,
        source: str | None = None,
    ) -> None:
        """Append one labelled record."""
        self.ids.append(id)
        self.standing[id] = label
        self.sources.append(source)
        self.rows.append(record.x if record.x.size or record.values is None else None)
        self.labels.append(label)
        self.propensity.append(propensity)
        self.predicted.append(record.predicted)
        self.values.append(record.values)

    def teach(self, learner: StreamLearner, tick: int) -> tuple[Training, ...]:
        """Let `learner` learn them; return the trainings that were started."""
        started = self._teach_new(learner, tick) if self.ids else ()
        return started + self._teach_again(learner, tick) if self.again else started

    def _teach_again(self, learner: StreamLearner, tick: int) -> tuple[Training, ...]:
        return learner.correct(
            [one.id for one in self.again],
            [one.label for one in self.again],
            tick=tick,
            sources=[one.source for one in self.again],
            records=[None if one.values is None else unpacked(one.values) for one in self.again],
        )

    def _teach_new(self, learner: StreamLearner, tick: int) -> tuple[Training, ...]:
        mixed = learner.features is not None
        return learner.learn(
            self.ids,
            self.rows if mixed else np.stack(self.rows),
            self.labels,
            tick=tick,
            propensity=np.array(self.propensity),
            predicted=self.predicted,
            records=[unpacked(held or b"[]") for held in self.values] if mixed else None,
            sources=self.sources,
        )


class Gone(NamedTuple):
    """What is remembered of a record that is no longer held."""

    since: Moment
    label: Label | None
    expired: bool


class Request(NamedTuple):
    """A label that was asked for and has not come; `since` is what it expires by.

    Who must not answer is named where it was asked for again.
    """

    since: Moment
    propensity: float
    asked: Moment
    not_by: Sequence[str] | None = None


class Waiting(NamedTuple):
    """A label that waits for the record `id` since `since`, and who gave it."""

    since: Moment
    id: str
    label: Label
    source: str | None = None


class WaitingLabels:
    """Labels that wait for their records, in the order in which they came.

    >>> waiting = WaitingLabels()
    >>> for label in ("grass", "sky"):
    ...     waiting.add(Waiting(Moment(0, 0), "a", label))
    >>> len(waiting), [one.label for one in waiting.pop("a")], "a" in waiting
    (2, ['grass', 'sky'], False)
    """

    def __init__(self, labels: Iterable[Waiting] = ()) -> None:
        self._labels: dict[int, Waiting] = {}
        self._numbers: dict[str, list[int]] = {}  # of the labels of each record
        self._n_added = 0
        for one in labels:
            self.add(one)

    def __len__(self) -> int:
        return len(self._labels)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._labels.values())

    def __contains__(self, id: str) -> bool:
        return id in self._numbers

    def add(self, label: Waiting) -> None:
        """Let a label wait; it is the newest."""
        self._labels[self._n_added] = label
        self._numbers.setdefault(label.id, []).append(self._n_added)
        self._n_added += 1

    def pop(self, id: str) -> list[Waiting]:
        """Return the labels of a record, the oldest first; none of them waits any more."""
        return [self._labels.pop(number) for number in self._numbers.pop(id, [])]

    def expire(self, span: Span, now: Moment, at_least: int = 0) -> int:
        """Drop the labels whose `span` is over, and the oldest `at_least`; return how many."""
        n = max(len(run_out(self._labels, span, now)), min(at_least, len(self)))
        for number in list(islice(self._labels, n)):
            id = self._labels.pop(number).id
            self._numbers[id].remove(number)
            if not self._numbers[id]:
                del self._numbers[id]
        return n


def run_out(table: Mapping[Any, Any], span: Span, now: Moment) -> list[Any]:
    """Return the keys at the front of `table` whose `span`, from their first field, is over."""
    over, seen = [], None
    for key, entry in table.items():
        since = entry[0]
        if since is not seen:  # those of a batch have the same
            if not span.over(since, now):
                break
            seen = since
        over.append(key)
    return over


class Join:
    """Hold records until their labels come; the module's table has the rules.

    Parameters
    ----------
    window : how long every record is held, and how long an early label waits
    expires_after : how long a requested record is held, counted from the request
    n_features : length of a record's row

    Memory is bounded by the records of two windows, plus the requests that are open (at most the
    budget's share of `expires_after`, and its burst).
    """

    def __init__(self, window: Span, expires_after: Span, n_features: int) -> None:
        self.window = window
        self.expires_after = expires_after
        self.counts = JoinCounts()
        self._now = Moment(0, 0)
        self._window = Window(n_features)
        self._pinned: dict[str, HeldRecord] = {}
        self._requests: dict[str, Request] = {}
        self._answers: dict[str, Label] = {}  # labels of the records that are held
        self._lapsed: set[str] = set()  # records in the window whose request has expired
        self._gone: dict[str, Gone] = {}
        self._waiting = WaitingLabels()
        self._met = self._now  # the last time at which a label that waited was of use
        self._for_records = Lived(self._now, self._now)
        self._for_labels = Lived(self._now, self._now)

    @property
    def now(self) -> Moment:
        """The records that have come, and the newest tick."""
        return self._now

    @property
    def _held_at(self) -> Moment:
        """What a record is held by: the records that have come, and the time that was lived."""
        return Moment(self._now.records, self._for_labels.moment.tick)

    @property
    def has_room(self) -> bool:
        """Whether more labels may wait for their records."""
        return len(self._waiting) < MOST_WAITING

    def in_numbers(self) -> dict[str, int]:
        """Return the counts so far, and how much is held at this moment."""
        return asdict(self.counts) | {
            "held_records": len(self._window) + len(self._pinned),
            "open_requests": len(self._requests),
            "waiting_labels": len(self._waiting),
        }

    def ignored(self) -> dict[str, int]:
        """Return how many labels of each kind were dropped so far."""
        return {kind: getattr(self.counts, kind) for kind in IGNORED}

    def advance(
        self, tick: int, caught_up: Collection[str] = JOINED, *, resumed: bool = False
    ) -> list[str]:
        """Let what has run out at `tick` leave; return the ids whose request expired.

        `caught_up` names those of "records" and "labels" of which everything had been read at some
        time since the batch before was; with `resumed`, nobody looked in all that time.
        """
        self._now = Moment(self.counts.records, tick)
        for lived, is_counted in (
            (self._for_records, "records" in caught_up),
            (self._for_labels, len(caught_up) == len(JOINED)),
        ):
            lived.advance(self._now, records=is_counted, time=is_counted and not resumed)
        expired = self._expire_requests()
        self._shrink_window()
        for id in run_out(self._gone, self.window, self._held_at):
            del self._gone[id]
        surplus = 0
        if self.has_room:
            self._met = self._now
        elif self.window.over(self._met, self._now):
            surplus = MOST_WAITING // 2
        self.counts.unknown += self._waiting.expire(self.window, self._for_records.moment, surplus)
        return expired

    def _expire_requests(self) -> list[str]:
        """Expire the oldest requests, by time or number; return the ids of their records."""
        expired = run_out(self._requests, self.expires_after, self._for_labels.moment)
        surplus = len(self._requests) - len(expired) - MOST_REQUESTS
        expired += islice(islice(self._requests, len(expired), None), max(surplus, 0))
        for id in expired:
            del self._requests[id]
            if self._pinned.pop(id, None) is not None:
                label = self._answers.pop(id, None)  # there is one where it was asked for again
                self._gone[id] = Gone(self._held_at, label, expired=label is None)
            elif id not in self._answers:
                self._lapsed.add(id)
        return expired

    def _shrink_window(self) -> None:
        """Evict records from the window, and pin those with an open request."""
        now = self._held_at
        unasked = Gone(now, None, expired=False)
        for id in self._window.leave(self.window, now):
            if id in self._requests:
                self._pinned[id] = self._window[id]
            elif id in self._answers or id in self._lapsed:
                label = self._answers.pop(id, None)
                self._gone[id] = Gone(now, label, expired=id in self._lapsed)
                self._lapsed.discard(id)
            else:
                self._gone[id] = unasked

    def fresh(self, ids: Sequence[str]) -> list[bool]:
        """Tell for each id whether no held record, nor an earlier one of `ids`, has it."""
        seen = set(ids)
        is_held = self._window.has_any(seen) or not self._pinned.keys().isdisjoint(seen)
        if len(seen) == len(ids) and not is_held:
            return [True] * len(ids)
        seen, fresh = set(), []
        for id in ids:
            fresh.append(not (id in self._window or id in self._pinned or id in seen))
            seen.add(id)
        self.counts.duplicate_ids += len(ids) - sum(fresh)
        return fresh

    def drop_duplicates(
        self, records: Records, labels: Sequence[Message], time: int
    ) -> tuple[Records, list[DeadLetter]]:
        """Return the records whose ids are not held, and dead letters of the others.

        Those are passed over that are `labels`, too. `time` is that of the batch, in milliseconds.
        """
        fresh = self.fresh(records.ids)
        if all(fresh):
            return records, []
        told = {(message.partition, message.offset) for message in labels}
        dead = []
        for name, message, is_first in zip(records.ids, records.messages, fresh, strict=True):
            if not is_first and (message.partition, message.offset) not in told:
                detail = (
                    f"a record with the id {name!r} is held already: ids must not come again "
                    f"within join_window ({self.window})"
                )
                letter = DeadLetter.of(message, "duplicate_id", detail, source="records", time=time)
                dead.append(letter)
        return records.take([row for row, is_first in enumerate(fresh) if is_first]), dead

    def add(
        self,
        ids: Sequence[str],
        X: np.ndarray,
        predicted: Sequence[Label | None],
        asked: Sequence[str],
        propensity: np.ndarray,
        times: Sequence[Time] | None = None,
        values: Sequence[bytes | None] | None = None,
        learned: Learned = Nothing(),  # noqa: B008 - it holds nothing
        joined: Joined | None = None,
    ) -> Joined:
        """Hold a batch's records, note its requests, and return the labels that waited for them.

        Each of these is resolved as if it had come after its record.

        Parameters
        ----------
        ids, X, predicted : the batch's records, features of shape (n, D), and predictions
        asked, propensity : whose labels are asked for now, and with what probability each was;
            these may be records of earlier batches that are still held
        times, values : what the batch's records bear besides, if anything: see `HeldRecord`
        learned : as for `resolve`
        joined : labels of the batch so far, to which the others are appended; None: there are none
        """
        self._window.add(ids, X, predicted, self._held_at, times, values)
        self.counts.records += len(ids)
        self._now = Moment(self.counts.records, self._now.tick)
        for id, p in zip(asked, propensity, strict=True):
            self._requests[id] = Request(self._for_labels.at(self._now), float(p), self._now)
        joined = Joined() if joined is None else joined
        for id in self._gone.keys() & ids:
            del self._gone[id]
        for id in ids if self._waiting else ():
            if id in self._waiting:
                self._met = self._now
                for one in self._waiting.pop(id):
                    self._resolve(joined, *one[1:], learned)
        return joined

    def carry(self, carried: Mapping[str, Carried]) -> None:
        """Keep what the messages of the newest records bore, as they may be asked about later."""
        self._window.carry(carried)

    def holds(self, id: str) -> bool:
        """Tell whether the record `id` is at hand, labelled, and not asked about."""
        return id in self._answers and id in self._window and id not in self._requests

    def ask_again(self, ids: Sequence[str], not_by: Sequence[Sequence[str]]) -> None:
        """Note requests about records that `holds` approves of, and who must not answer them."""
        since = self._for_labels.at(self._now)
        for id, names in zip(ids, not_by, strict=True):
            self._requests[id] = Request(since, 1.0, self._now, names)

    def lacks(self, id: str) -> bool:
        """Tell whether a label of this `id` would need its record to be learned.

        A record that is held is not needed, nor is that of a request that expired or of a label
        that is remembered.
        """
        gone = self._gone.get(id)
        is_settled = gone is not None and (gone.expired or gone.label is not None)
        return not (is_settled or id in self._window or id in self._pinned)

    def knows(self, id: str) -> bool:
        """Tell whether a record or a label of this `id` was met, as far as is remembered."""
        there = (self._window, self._pinned, self._gone, self._waiting)
        return any(id in one for one in there)

    def held(self, id: str) -> HeldRecord:
        """Return the record `id`, which must have arrived within the window."""
        return self._window[id]

    def held_values(self, id: str) -> bytes | None:
        """Return the values of the record `id`; None where it is not in the window, or has none."""
        return self._window[id].values if id in self._window else None

    @property
    def open_requests(self) -> Mapping[str, Request]:
        """The requests that wait for an answer, by their record's id, the oldest first."""
        return MappingProxyType(self._requests)

    def requested(self, id: str) -> HeldRecord:
        """Return the record `id`, whose request is open."""
        return self._window[id] if id in self._window else self._pinned[id]

    def resolve(
        self,
        labels: Sequence[tuple[str, Label | None]],
        joined: Joined,
        sources: Sequence[str | None] | None = None,
        learned: Learned = Nothing(),  # noqa: B008 - it holds nothing
    ) -> None:
        """Give each label to its record, appending to `joined`, or count why it is dropped.

        A label None takes one back. `sources` say who gave each, and `learned` which label a record
        has that was learned.
        """
        self.counts.labels += len(labels)
        for (id, label), source in zip(labels, sources or [None] * len(labels), strict=True):
            self._resolve(joined, id, label, source, learned)

    def _resolve(
        self, joined: Joined, id: str, label: Label | None, source: str | None, learned: Learned
    ) -> None:
        counts = self.counts
        is_learned = id in joined.standing or learned.has_row(id)
        known = self._known(id)
        if is_learned and learned.on_conflict is not None:
            self._take_again(joined, id, label, source, learned)
        elif known is not None:
            self._drop_again(id, label, known)
        elif label is None and id in self._waiting:
            counts.taken_back += 1
            counts.void += len(self._waiting.pop(id))
        elif label is None:
            counts.void += 1
        elif id in self._lapsed:
            counts.expired += 1
        elif id in self._window or id in self._pinned:
            self._learn(joined, id, label, source)
        elif id in self._gone:
            counts.expired += self._gone[id].expired
            counts.late += not self._gone[id].expired
        else:
            counts.early += 1
            self._waiting.add(Waiting(self._for_records.at(self._now), id, label, source))

    def _take_again(
        self,
        joined: Joined,
        id: str,
        label: Label | None,
        source: str | None,
        learned: Learned,
    ) -> None:
        """Apply another label to a record that the learner has, or will have after this batch.

        `standing` is the record's label in the learner; None: the label was taken back.
        """
        counts, rule = self.counts, learned.on_conflict
        self._close_again(id)
        standing = joined.standing[id] if id in joined.standing else learned.label_of(id)
        if label is None and standing is None:
            counts.void += 1
            return
        joined.take_again(id, label, source, self.held_values(id))
        if label is None:
            counts.taken_back += 1
        elif label == standing:
            counts.duplicate += 1
        elif standing is not None and rule == "first":
            counts.conflicting += 1
            return
        else:
            counts.corrected += 1
        joined.standing[id] = label
        self._answer(id, label)

    def _drop_again(self, id: str, label: Label | None, known: Label) -> None:
        """Count another label of a record whose label was `known`, and which the learner lacks."""
        self._close_again(id)
        kind = "void" if label is None else "duplicate" if label == known else "conflicting"
        setattr(self.counts, kind, getattr(self.counts, kind) + 1)

    def _close_again(self, id: str) -> None:
        """Let a record go on that was asked about again, if it was, as one that was not."""
        if self._requests.pop(id, None) and self._pinned.pop(id, None):
            self._gone[id] = Gone(self._held_at, self._answers.pop(id), expired=False)

    def _answer(self, id: str, label: Label | None) -> None:
        """Remember another label of a record that had one; None: it has none."""
        if id in self._gone:
            self._gone[id] = self._gone[id]._replace(label=label)
        elif label is None:
            self._answers.pop(id, None)
        elif id in self._window:
            self._answers[id] = label

    def rename(self, to: Callable[[Label], Label | None]) -> None:
        """Let the labels that are known, or wait, be what `to` has them be; None: nobody's."""
        answers = {id: to(label) for id, label in self._answers.items()}
        self._answers = {id: label for id, label in answers.items() if label is not None}
        for id, gone in self._gone.items():
            if gone.label is not None:
                self._gone[id] = gone._replace(label=to(gone.label))
        renamed = [(one, to(one.label)) for one in self._waiting]
        kept = [one._replace(label=label) for one, label in renamed if label is not None]
        self.counts.unknown += len(renamed) - len(kept)
        self._waiting = WaitingLabels(kept)

    def labels_of(self, label: Label, learned: Learned) -> list[tuple[str, str | None]]:
        """Return ids and sources of the labels of a class that wait, or are known here alone."""
        found = [(one.id, one.source) for one in self._waiting if one.label == label]
        here = self._answers | {id: gone.label for id, gone in self._gone.items()}
        alone = [id for id, one in here.items() if one == label and learned.label_of(id) is None]
        return [*found, *((id, None) for id in alone)]

    def restore_classes(self, restored: Restored, learned: Learned) -> None:
        """Give labels back the classes they had before a merge that is undone."""
        waiting = [_given_back(one, restored) for one in self._waiting]
        self._waiting = WaitingLabels(waiting)
        for id, changes in restored.items():
            _, was, now = changes[-1]
            known = self._known(id)
            if id not in self._waiting and known is not None:
                label = learned.label_of(id)
                self._answer(id, label if label is not None else now if known == was else known)

    def waits(self, id: str) -> bool:
        """Return whether a label waits for the record `id`."""
        return id in self._waiting

    def waiting_labels(self) -> list[Label]:
        """Return the labels that wait for their records, each once."""
        return list(dict.fromkeys(waiting.label for waiting in self._waiting))

    def _known(self, id: str) -> Label | None:
        """Return the label that `id` already has, but for one that waits."""
        if id in self._answers:
            return self._answers[id]
        gone = self._gone.get(id)
        return gone.label if gone else None

    def _learn(self, joined: Joined, id: str, label: Label, source: str | None) -> None:
        request = self._requests.pop(id, None)
        if request is None:
            self.counts.unasked += 1
        else:
            self.counts.answered += 1
        propensity = request.propensity if request else float("nan")
        if id in self._window:
            joined.take(id, self._window[id], label, propensity, source)
            self._answers[id] = label
        else:
            joined.take(id, self._pinned.pop(id), label, propensity, source)
            self._gone[id] = Gone(self._held_at, label, expired=False)

    def to_arrays(self) -> Arrays:
        """Return everything the join holds, for `restore`; the two are exact inverses."""
        state = {
            "counts": asdict(self.counts),
            "now": self._now,
            "met": self._met,
            "lived": [(x.moment, x.counted) for x in (self._for_records, self._for_labels)],
            "window": self._window.to_json(),
            "pinned": [(id, a.arrived, a.predicted, a.time) for id, a in self._pinned.items()],
            "requests": [(id, *request) for id, request in self._requests.items()],
            "answers": list(self._answers.items()),
            "lapsed": sorted(self._lapsed),
            "gone": [(id, *gone) for id, gone in self._gone.items()],
            "waiting": [(one.id, one.since, *one[2:]) for one in self._waiting],
        }
        pinned = list(self._pinned.values())
        held = [*self._window.values(), *(record.values for record in pinned)]
        return {
            "state": pack_json(state),
            "window": self._window.rows(),
            "pinned": as_wide([record.x for record in pinned], self._window.n_features),
            **values_in_arrays(held),
        }

    def restore(self, arrays: Arrays) -> None:
        """Become the join that wrote `arrays`."""
        state = unpack_json(arrays["state"])
        self.counts = JoinCounts(**state["counts"])
        self._now = Moment(*state["now"])
        n = len(arrays["window"])
        values = values_from_arrays(arrays, n + len(state["pinned"]))
        self._window = Window.restore(state["window"], arrays["window"], values[:n])
        self._pinned = {
            id: HeldRecord(x, Moment(*arrived), predicted, time, held)
            for (id, arrived, predicted, time), x, held in zip(
                state["pinned"], arrays["pinned"], values[n:], strict=True
            )
        }
        self._met = Moment(*state["met"])
        self._for_records, self._for_labels = (
            Lived(*(Moment(*moment) for moment in lived)) for lived in state["lived"]
        )
        self._requests = {
            id: Request(Moment(*at), p, Moment(*asked), not_by)
            for id, at, p, asked, not_by in state["requests"]
        }
        self._answers = dict(state["answers"])
        self._lapsed = set(state["lapsed"])
        self._gone = {id: Gone(Moment(*at), *rest) for id, at, *rest in state["gone"]}
        self._waiting = WaitingLabels(
            Waiting(Moment(*at), id, *rest) for id, at, *rest in state["waiting"]
        )


def _given_back(one: Waiting, restored: Restored) -> Waiting:
    for source, was, now in reversed(restored.get(one.id, ())):
        if (one.source, one.label) == (source, was):
            return one._replace(label=now)
    return one
