"""Holds records until their labels come, by the rules that the package states."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType

import numpy as np

from streamboost.connectors.base import Carried
from streamboost.connectors.messages.written import Time
from streamboost.pipelines.engine.join.again import (
    drop_again,
    labels_of,
    rename,
    restore_classes,
    take_again,
)
from streamboost.pipelines.engine.join.classes import Restored
from streamboost.pipelines.engine.join.held_records import HeldRecord, Label, Window
from streamboost.pipelines.engine.join.joined import (
    IGNORED,
    Gone,
    JoinCounts,
    Joined,
    Learned,
    Nothing,
    Request,
    Waiting,
    WaitingLabels,
    run_out,
)
from streamboost.pipelines.engine.join.leaving import expire_requests, shrink_window
from streamboost.pipelines.engine.join.snapshots import pack, unpack
from streamboost.pipelines.span import Lived, Moment, Span
from streamboost.pipelines.state.journal import JOINED
from streamboost.storage import Arrays

__all__ = ["Join"]

MOST_WAITING = 100_000
"""Labels that wait for their records; with so many, no more are to be read until records come.
When a window of records has come then and met none of them, the older half are unknown."""


class Join:
    """Hold records until their labels come; see the package's table for the rules.

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
        expired = expire_requests(self)
        shrink_window(self)
        for id in run_out(self._gone, self.window, self._held_at):
            del self._gone[id]
        surplus = 0
        if self.has_room:
            self._met = self._now
        elif self.window.over(self._met, self._now):
            surplus = MOST_WAITING // 2
        self.counts.unknown += self._waiting.expire(self.window, self._for_records.moment, surplus)
        return expired

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
            take_again(self, joined, id, label, source, learned)
        elif known is not None:
            drop_again(self, id, label, known)
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

    def rename(self, to: Callable[[Label], Label | None]) -> None:
        """Let the labels that are known, or wait, be what `to` has them be; None: nobody's."""
        rename(self, to)

    def labels_of(self, label: Label, learned: Learned) -> list[tuple[str, str | None]]:
        """Return ids and sources of the labels of a class that wait, or are known here alone."""
        return labels_of(self, label, learned)

    def restore_classes(self, restored: Restored, learned: Learned) -> None:
        """Give labels back the classes they had before a merge that is undone."""
        restore_classes(self, restored, learned)

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
        return pack(self)

    def restore(self, arrays: Arrays) -> None:
        """Become the join that wrote `arrays`."""
        unpack(self, arrays)
