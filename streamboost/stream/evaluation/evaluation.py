"""Honest evaluation: how good the predictions made on arrival were, from few labels.

Labels that were asked for are the hard ones, so their plain mean is far off; the chances with
which they were asked for make up for it. A record's truth may come late or never:

- figures cover the records up to the newest whose label came, past requests that are still open:
  for one of these those speak that took longer than it has waited (`speak_for`), so that labels
  which come fast are not counted in the place of those which come slowly, until its own comes and
  counts; sums that are kept go no further than the oldest open request;
- for a request that expires, those around it that were answered speak, the louder the more like
  its own the probability predicted: people pass over the hard ones. That is fair if, among
  records that look as hard, labels get lost whatever they are. No reweighting can know of more; the
  bounds without that assumption are as wide as the share lost, which `Evaluation.unanswered` tells;
- labels that nobody asked for are no fair sample of anything, and do not estimate; the two
  baselines know them;
- another label of a record takes the place of the one counted, of the newest 20,000 that were, or
  fewer where there are many classes; what the baselines said stays;
- records in a pool may be asked about until they leave it, and wait that long. Those that a round
  chose, and those whose label was known unasked, are no part of what the audit draws from: they
  stand for themselves alone, and the audited ones for all that nobody asked about.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np

from streamboost.active.settings import check_whole
from streamboost.storage import Arrays, part
from streamboost.stream.checks import Label, as_ids, as_labels, as_propensity
from streamboost.stream.evaluation.decisions import Decisions
from streamboost.stream.evaluation.records import (
    PARTS,
    Arrivals,
    KnownLabels,
    Outcome,
    Paid,
    Strides,
    alike,
)
from streamboost.stream.evaluation.report import Report, report
from streamboost.stream.evaluation.tally import Blocks, Judged, Rest, Tally
from streamboost.stream.scoring import Scored

__all__ = ["Evaluation", "speak_for"]

_SPEAKERS = 200
"""Labels, the newest ones, that may speak for open requests."""

_FEWEST = 10
"""Labels that speak for what is still open, at least."""

_AT_ONCE = 2**16
"""Records times classes that are summed up at once: one stride each takes three times as long."""


class _Waiting(NamedTuple):
    """Sums over arrivals that are not folded yet, and what speaks for those that are open."""

    judged: Tally
    open: list[Tally]
    n_open: int


class Evaluation:
    """Judges the predictions made on arrival by the labels that were asked for.

    Parameters
    ----------
    block
        m, the records in an audit's block: every record's chance of being asked about is at
        least 1/m. 0 where nothing is audited: then only streams whose every label is asked for
        have figures.
    window
        Records of the sliding window's figures; it moves on by tenths.
    patience
        Records to wait for an answer; a request left open longer counts as unanswered. Bounds
        the memory, with O(K²) numbers for K classes.
    pool
        So many of the newest records may be asked about after their arrival, by `ask`; 0 where
        arrival decides.

    Attributes
    ----------
    unanswered
        Requests given up.
    decisions
        Whose cost is estimated; None: nobody decides. What other decisions had cost is forgotten,
        and records that are not yet part of the sums count as if these had been made of them.

    Examples
    --------
    A classifier that is always 90 % sure and right two times in three, with one record in ten
    asked about:

    >>> import numpy as np
    >>> from streamboost.stream import Scored
    >>> rng = np.random.default_rng(7)
    >>> ids, classes = [str(i) for i in range(900)], np.array(["no", "yes"], dtype=object)
    >>> labels, P = np.full(900, "yes", dtype=object), np.tile([0.1, 0.9], (900, 1))
    >>> scored = Scored(labels, classes, P, margins=np.ones(900), version=1)
    >>> truth = classes[(np.arange(900) % 3 > 0).astype(int)]
    >>> evaluation = Evaluation(block=10)
    >>> asked = rng.random(900) < 0.1
    >>> evaluation.arrive(ids, scored, np.where(asked, 0.1, np.nan))
    >>> evaluation.label([ids[i] for i in np.flatnonzero(asked)], truth[asked])
    >>> accuracy = evaluation.since_start().committee.accuracy
    >>> accuracy.low < 2 / 3 < accuracy.high
    True
    """

    def __init__(
        self, block: int = 0, window: int = 2_000, patience: int = 10_000, pool: int = 0
    ) -> None:
        check_whole("evaluation block", block, at_least=0)
        check_whole("evaluation pool", pool, at_least=0)
        check_whole("evaluation window", window)
        check_whole("evaluation patience", patience, at_least=0)
        self.block = block
        self.window = window
        self.patience = patience
        self.pool = pool
        self.unanswered = 0
        self._known = KnownLabels()
        self._stride = -(-window // PARTS)
        self._strides = Strides()
        self._queue = Arrivals()
        self._blocks = Blocks()
        self._settled = 0  # arrivals at the queue's front that wait for nothing
        self._left = 0  # arrivals at the queue's front that have left the pool
        self._open: dict[str, int] = {}  # all that wait, by their numbers
        self._decisions: Decisions | None = None

    @property
    def decisions(self) -> Decisions | None:
        """Whose cost is estimated; None: nobody decides."""
        return self._decisions

    @decisions.setter
    def decisions(self, decisions: Decisions | None) -> None:
        self._decisions = decisions
        self._strides.forget_costs()

    @property
    def labels(self) -> dict[Label, int]:
        """The labels known, numbered in the order first met."""
        return self._known.codes

    @property
    def counts(self) -> list[int]:
        """How often each of them came."""
        return self._known.counts

    @property
    def pending(self) -> int:
        """Requests that wait for their labels."""
        rows = self._queue.rows
        return int(np.count_nonzero(rows["waits"] & (rows["chance"] > 0.0)))

    def arrive(
        self, ids: Sequence[str], scored: Scored, propensity: Any, chances: Any = None
    ) -> None:
        """Take in n records as they were `scored` on arrival.

        Parameters
        ----------
        ids
            Their ids.
        scored
            Their predictions.
        propensity
            (n,), the chance with which each was asked about; NaN where it was not.
        chances
            (n,), the chance that each had of it, asked about or not; None: one in a block.

        Raises
        ------
        DataError
            When these are not of one length, or a propensity is not a chance.
        """
        ids = as_ids(ids, len(scored))
        asked = as_propensity(propensity, len(scored))
        if chances is None:
            chances = np.full(len(ids), 1.0 / max(self.block, 1))
        columns = [self._code(label) for label in scored.classes.tolist()]
        labels = scored.labels.tolist()
        for label in dict.fromkeys(labels):
            if label is not None:
                self._code(label)
        known = self._known
        P = np.zeros((len(ids), len(known)))
        P[:, columns] = scored.probabilities
        predicted = np.empty((len(ids), 3), dtype=np.int64)
        predicted[:, 0] = [known.codes.get(label, -1) for label in labels]
        predicted[:, 1:] = known.last, known.commonest
        number = self._queue.append(ids, P, predicted, asked, chances)
        self._strides.outcomes.forget(ids)  # they name these records now
        waits = range(len(ids)) if self.pool else np.flatnonzero(asked > 0.0).tolist()
        for i in waits:
            self._give_up(ids[i])
            self._open[ids[i]] = number + i
            self._queue.rows["waits"][number + i - self._queue.first] = True
        self._settle()

    def arrive_unasked(self, rest: Rest) -> None:
        """Take in the sums of records that others scored beside those that arrived just now.

        With `arrive` of those alone that were asked about, the figures are those of all of them.
        """
        codes = [self._code(label) for label in rest.classes]
        tally = rest.among(codes, len(self._known), (self._known.last, self._known.commonest))
        self._blocks.add(self._queue.first + len(self._queue), tally)
        self._settle()

    def ask(self, ids: Sequence[str], propensity: Any) -> list[str]:
        """Take in which records of the pool are asked about; return those that nobody will ask.

        It is called after every `arrive`, as records leave the pool then, and after every round.

        Parameters
        ----------
        ids
            Their ids.
        propensity
            (n,), the audit's chance where it asked, and 1 where a round did.
        """
        for id, chance in zip(ids, as_propensity(propensity, len(ids)).tolist(), strict=True):
            if id in self._open:
                self._queue.rows["chance"][self._open[id] - self._queue.first] = chance
        left = max(len(self._queue) - self.pool, self._left)
        rows = self._queue.rows[self._left : left]
        places = np.flatnonzero(rows["waits"] & ~(rows["chance"] > 0.0)) + self._left
        gone = [self._queue.ids[i] for i in places.tolist()]
        self._left = left
        for id in gone:
            self._give_up(id)
        self._settle()
        return gone

    def label(self, ids: Sequence[str], labels: Any) -> None:
        """Take in labels (n,) of any records, asked for or not, in the order they came.

        Raises
        ------
        DataError
            When the labels are not all text or all whole numbers.
        """
        self.label_checked(ids, as_labels(labels, len(ids), self._known.kind, name="labels"))

    def label_checked(self, ids: Sequence[str], labels: Sequence[Label]) -> None:
        """Do what `label` does for labels that are of one kind, without looking at them first."""
        for id, label in zip(ids, labels, strict=True):
            self._code(label)
            code = self._known.come(label)
            if id in self._open:
                number = self._open.pop(id)
                row = self._queue.rows[number - self._queue.first]
                row["truth"], row["waits"] = code, False
                row["waited"] = self._queue.first + len(self._queue) - number
                if not row["chance"] > 0.0:
                    row["chance"] = 1.0
        self._settle()

    def correct(self, id: str, before: Label, label: Label | None) -> None:
        """Take in that a record's label, known as `before`, is another; None: it is not known.

        What estimates nothing counts for the baselines only. A label that comes after one was
        taken back estimates nothing.
        """
        if label is not None:
            self._code(label)
        truth = self._known.correct(before, label)
        place = self._queue.find(id)
        if place is None:
            self._strides.correct(id, truth, self._paid)
        elif self._queue.rows[place]["truth"] >= 0:
            self._queue.rows[place]["truth"] = truth

    def rename(self, label: Label, into: Label | None) -> None:
        """Let one class be another from now on, or none.

        Records that are part of the sums stay as they were judged; of a class that is none any
        more, all do.
        """
        if label not in self.labels:
            return
        if into is not None:
            code = self._code(into)
            self._queue.recode(self.labels[label], code, len(self._known))
        self._known.rename(label, into)

    def expire(self, ids: Sequence[str]) -> None:
        """Wait no longer for the labels of these requests."""
        for id in ids:
            self._give_up(id)
        self._settle()

    def since_start(self) -> Report:
        """Return the figures over all records that are judged."""
        return self._report([self._strides.total], self._waiting(0, 0))

    def recent(self) -> Report:
        """Return the figures over the newest records that are judged, at most a window of them."""
        newest, start, skipped = self._newest()
        return self._report(newest, self._waiting(start, skipped))

    def both(self) -> tuple[Report, Report]:
        """Return `since_start` and `recent`, mostly by the same sums."""
        whole, (newest, *since) = self._waiting(0, 0), self._newest()
        part = self._waiting(*since) if any(since) else whole
        return self._report([self._strides.total], whole), self._report(newest, part)

    def in_numbers(self) -> dict[str, Any]:
        """Return both reports and the requests without an answer, as JSON can hold them."""
        since_start, recent = self.both()
        return {
            "since_start": asdict(since_start),
            "recent": asdict(recent),
            "pending": self.pending,
            "unanswered": self.unanswered,
        }

    def _code(self, label: Label) -> int:
        """Return the label's number, making room for it where it is new."""
        if label not in self.labels:
            self._known.code(label)
            self._strides.widen(len(self._known))
        return self.labels[label]

    def _give_up(self, id: str) -> None:
        number = self._open.pop(id, None)
        if number is not None:
            row = self._queue.rows[number - self._queue.first]
            row["waits"] = False
            self.unanswered += bool(row["chance"] > 0.0)

    def _settle(self) -> None:
        """Fold whole strides of arrivals that wait for nothing into the sums."""
        queue = self._queue
        while self._settled < len(queue):
            waits = queue.rows["waits"][self._settled : self._stride]
            n = int(waits.argmax())
            n = n if waits[n] else len(waits)
            if n == 0 and len(queue) - self._settled <= self.patience + self.pool:
                break
            if n == 0:
                self._give_up(queue.ids[self._settled])
            self._settled += max(n, 1)
            if self._settled == self._stride:
                self._move_on(self._stride)
        while self._blocks:
            end, others = self._blocks.whole(queue.first + self._settled)
            if others + end - queue.first < self._stride:
                break
            self._move_on(end - queue.first)

    def _move_on(self, n: int) -> None:
        """Fold a stride of the queue's first `n` arrivals, and the sums that belong to them."""
        queue, rows, n_classes = self._queue, slice(n), len(self._known)
        others = self._blocks.sums(queue.first + n, n_classes, drop=True)
        judged, waited = self._judged(rows), queue.rows["waited"][rows]
        self._strides.add(queue.ids[rows], judged, waited, others)
        queue.drop(n)
        self._settled, self._left = self._settled - n, max(self._left - n, 0)

    def _paid(self, P: np.ndarray) -> np.ndarray | None:
        return None if self._decisions is None else self._decisions.paid(P, list(self.labels))

    def _judged(self, rows: slice) -> Judged:
        """Return the queue's arrivals `rows` as judged, with what was decided about them."""
        judged = self._queue.judged(rows, len(self._known), self.block)
        return replace(judged, paid=self._paid(judged.P))

    def _newest(self) -> tuple[list[Tally], int, int]:
        """Return what a window of records is: sums, and from where on queue and blocks count."""
        covered, first = self._covered(), self._queue.first
        records = covered + int(self._blocks.whole(first + covered)[1])
        if records <= self.window:
            newest = self._strides.newest((self.window - records) // self._stride)
            return newest, 0, 0
        if self._blocks:
            skipped, number = self._blocks.skip(first, records - self.window)
            return [], number - first, skipped
        strides = -(-(records - self.window) // self._stride)
        return [], strides * self._stride, 0

    def _covered(self) -> int:
        """Return how many arrivals at the queue's front the figures cover."""
        reached = self._queue.horizon()
        if self.pool:  # others may be asked about yet
            reached = min(reached, self._left)
        reached = max(reached, self._settled)
        return max(self._blocks.reached(self._queue.first + reached) - self._queue.first, 0)

    def _report(self, tallies: Iterable[Tally], waiting: "_Waiting") -> Report:
        """Return the figures of `tallies` and of what waits."""
        whole = Tally(len(self._known))
        for tally in (waiting.judged, *tallies, *waiting.open):
            whole.merge(tally)
        return report(whole, list(self.labels), waiting.n_open)

    def _waiting(self, start: int, skipped: int) -> "_Waiting":
        """Return what waits in queue and blocks, from there on."""
        queue, covered, n_classes = self._queue, self._covered(), len(self._known)
        whole = self._blocks.sums(queue.first + covered, n_classes, skip=skipped)
        strides = [
            slice(at, min(at + self._stride, covered)) for at in range(start, covered, self._stride)
        ]
        n = max(_AT_ONCE // (self._stride * max(n_classes, 1)), 1)
        for at in range(0, len(strides), n):
            whole.add(_joined([self._judged(rows) for rows in strides[at : at + n]]))
        places = np.flatnonzero(queue.rows["waits"][start:covered]) + start
        return _Waiting(whole, [self._open_ones(places)] if len(places) else [], len(places))

    def _open_ones(self, places: np.ndarray) -> Tally:
        """Return what labels that came add in the place of those still open at `places`."""
        queue, n_classes = self._queue, len(self._known)
        labels = queue.newest(_SPEAKERS, self.block)
        labels += self._strides.outcomes.newest(_SPEAKERS - len(labels))
        sure = queue.rows["P"][places].max(axis=1, initial=0.0)
        stand_for = queue.stand_for(slice(None), self.block)[places]
        waited = len(queue) - places
        return speak_for(sure, stand_for, waited, labels, n_classes, self._paid)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all that changes: one part as JSON can hold it, the other as arrays."""
        state, arrays = self._strides.state()
        ids, queue = self._queue.state()
        arrays |= {"queue": self._queue.probabilities(len(self._known))}
        arrays |= {f"queue.{name}": array for name, array in queue.items()}
        state |= self._known.state() | {
            "unanswered": self.unanswered,
            "settled": self._settled,
            "queue": ids,
            "decisions": None if self._decisions is None else self._decisions.to_json(),
        }
        state["blocks"], waiting = self._blocks.state(self._queue.first)
        return state, arrays | waiting

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned for an evaluation of the same settings."""
        self._known.resume(state)
        self._strides.resume(state, arrays)
        self.unanswered = state["unanswered"]
        self._settled = state["settled"]
        given = state["decisions"]
        self._decisions = None if given is None else Decisions(**given)
        self._queue = Arrivals.resume(state["queue"], part(arrays, "queue."), arrays["queue"])
        self._left = max(len(self._queue) - self.pool, 0)
        self._blocks.resume(state["blocks"], arrays)
        waits = self._queue.rows["waits"].tolist()
        self._open = {id: i for i, id in enumerate(self._queue.ids) if waits[i]}


def _joined(runs: Sequence[Judged]) -> Judged:
    """Return runs that follow one another, at least one, as one."""
    P, predicted, truth, others = (
        np.concatenate([getattr(one, name) for one in runs])
        for name in ("P", "predicted", "truth", "others")
    )
    paid = [one.paid for one in runs if one.paid is not None]
    return Judged(P, predicted, truth, others, np.concatenate(paid) if paid else None)


def speak_for(
    sure: np.ndarray,
    stand_for: np.ndarray,
    waited: np.ndarray,
    labels: list[Outcome],
    K: int,
    paid: Paid,
) -> Tally:
    """Return what `labels` add to the sums in the place of requests that are still open.

    A request that has been open for so long is like those that took longer: to these its weight
    goes (Efron 1967, redistribution to the right), or to the slowest there are. Labels that come
    fast do not speak for those that come slowly.

    Parameters
    ----------
    sure, stand_for, waited
        (m,), of the requests: the predicted label's probability, 1 / pi, and the records that came
        since.
    labels
        What is known of others that were answered.
    K
        Classes there are.
    paid
        Gives `Judged.paid` of probabilities.
    """
    P, tally = np.zeros((len(labels), K)), Tally(K)
    if not len(labels) or not len(sure):
        return tally
    for i, one in enumerate(labels):
        P[i, : len(one.P)] = one.P
    took, others = (np.array([one[i] for one in labels], np.float64) for i in (5, 4))
    slowest = np.sort(took)[-min(_FEWEST, len(took))]
    slower = (took > waited[:, None]) | (took >= slowest)
    shares = alike(sure, P.max(axis=1, initial=0.0), others + 1.0) * slower
    given = stand_for @ (shares / shares.sum(axis=1, keepdims=True))
    predicted = np.array([one.predicted for one in labels])
    truth = np.array([one.truth for one in labels])
    judged = Judged(P, predicted, truth, others, paid(P))
    tally.add(replace(judged, others=others + given))
    alone = Tally(K)
    alone.add(judged)
    tally.merge(alone, times=-1.0)
    return tally
