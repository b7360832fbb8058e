"""Honest evaluation: how good the predictions made on arrival were, from few labels.

Labels that were asked for are the hard ones, so their plain mean is far off; the chances with
which they were asked for make up for it. A record's truth may come late or never:

- figures cover the records before the oldest request that still waits for its label, so that
  labels which come fast are not counted ahead of those which come slowly;
- for a request that expires, those around it that were answered speak, which is fair if labels
  get lost whatever they are; `Evaluation.unanswered` says how many did;
- labels that nobody asked for are no fair sample of anything, and do not estimate; the two
  baselines know them;
- another label of a record takes the place of the one counted, of the newest 20,000 that were, or
  fewer where there are many classes; what the baselines said stays;
- records in a pool may be asked about until they leave it, and wait that long. Those that a round
  chose, and those whose label was known unasked, are no part of what the audit draws from: they
  stand for themselves alone, and the audited ones for all that nobody asked about.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from streamboost.active.settings import check_whole
from streamboost.storage import Arrays, part
from streamboost.stream.checks import Label, as_ids, as_labels, as_propensity
from streamboost.stream.evaluation.arrivals import Arrivals
from streamboost.stream.evaluation.decisions import Decisions
from streamboost.stream.evaluation.outcomes import Outcomes
from streamboost.stream.evaluation.report import Report, report
from streamboost.stream.evaluation.rest import Blocks, Rest
from streamboost.stream.evaluation.tally import Tally
from streamboost.stream.scoring import Scored

__all__ = ["Evaluation"]

STRIDES = 10
"""Parts of the window: it moves on by one of them at a time."""


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
        self._codes: dict[Label, int] = {}
        self._counts: list[int] = []  # labels that came, by class
        self._last = self._commonest = -1
        self._stride = -(-window // STRIDES)
        self._total = Tally()
        self._recent: deque[Tally] = deque(maxlen=STRIDES - 1)
        self._queue = Arrivals()
        self._blocks = Blocks()
        self._settled = 0  # arrivals at the queue's front that wait for nothing
        self._left = 0  # arrivals at the queue's front that have left the pool
        self._open: dict[str, int] = {}  # all that wait, by their numbers
        self._outcomes = Outcomes()
        self._strides = 0  # folded so far
        self._decisions: Decisions | None = None
        self._decided_since = 0  # strides folded before

    @property
    def decisions(self) -> Decisions | None:
        """Whose cost is estimated; None: nobody decides."""
        return self._decisions

    @decisions.setter
    def decisions(self, decisions: Decisions | None) -> None:
        self._decisions, self._decided_since = decisions, self._strides
        for tally in (self._total, *self._recent):
            tally.cost[:] = 0.0

    @property
    def pending(self) -> int:
        """Requests that wait for their labels."""
        rows = self._queue.rows
        return int(np.count_nonzero(rows["waits"] & (rows["chance"] > 0.0)))

    @property
    def labels(self) -> dict[Label, int]:
        """The labels known, numbered in the order first met."""
        return self._codes

    @property
    def counts(self) -> list[int]:
        """How often each of them came."""
        return self._counts

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
        P = np.zeros((len(ids), len(self._codes)))
        P[:, columns] = scored.probabilities
        predicted = np.empty((len(ids), 3), dtype=np.int64)
        predicted[:, 0] = [self._codes.get(label, -1) for label in labels]
        predicted[:, 1:] = self._last, self._commonest
        number = self._queue.append(ids, P, predicted, asked, chances)
        for id in ids:  # it names this record now
            self._outcomes.take(id)
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
        tally = rest.among(codes, len(self._codes), (self._last, self._commonest))
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
        kind = type(next(iter(self._codes))) if self._codes else None
        self.label_checked(ids, as_labels(labels, len(ids), kind, name="labels"))

    def label_checked(self, ids: Sequence[str], labels: Sequence[Label]) -> None:
        """Do what `label` does for labels that are of one kind, without looking at them first."""
        for id, label in zip(ids, labels, strict=True):
            code = self._last = self._code(label)
            self._counts[code] += 1
            if self._commonest < 0 or self._counts[code] > self._counts[self._commonest]:
                self._commonest = code
            if id in self._open:
                row = self._queue.rows[self._open.pop(id) - self._queue.first]
                row["truth"], row["waits"] = code, False
                if not row["chance"] > 0.0:
                    row["chance"] = 1.0
        self._settle()

    def correct(self, id: str, before: Label, label: Label | None) -> None:
        """Take in that a record's label, known as `before`, is another; None: it is not known.

        What estimates nothing counts for the baselines only. A label that comes after one was
        taken back estimates nothing.
        """
        truth = -1 if label is None else self._code(label)
        self._counts[self._codes[before]] -= 1
        if truth >= 0:
            self._counts[truth] += 1
        self._commonest = int(np.argmax(self._counts)) if any(self._counts) else -1
        place = self._queue.find(id)
        if place is not None:
            row = self._queue.rows[place]
            if row["truth"] >= 0:
                row["truth"] = truth
            return
        changed = self._outcomes.correct(id, truth, len(self._codes), self._paid)
        if changed is not None:
            stride, change = changed
            if stride < self._decided_since:
                change.cost[:] = 0.0
            self._total.merge(change)
            newest = stride - self._strides  # -1 is the last
            if -newest <= len(self._recent):
                self._recent[newest].merge(change)

    def rename(self, label: Label, into: Label | None) -> None:
        """Let one class be another from now on, or none.

        Records that are part of the sums stay as they were judged; of a class that is none any
        more, all do.
        """
        if label not in self._codes:
            return
        before, counted = self._codes[label], self._counts[self._codes[label]]
        self._counts[before] = 0
        if into is not None:
            self._counts[self._code(into)] += counted
            self._queue.recode(before, self._codes[into], len(self._codes))
        self._commonest = int(np.argmax(self._counts)) if any(self._counts) else -1
        if self._last == before:
            self._last = -1 if into is None else self._codes[into]

    def expire(self, ids: Sequence[str]) -> None:
        """Wait no longer for the labels of these requests."""
        for id in ids:
            self._give_up(id)
        self._settle()

    def since_start(self) -> Report:
        """Return the figures over all records that are settled."""
        return self._report([self._total])

    def recent(self) -> Report:
        """Return the figures over the newest records that are settled, at most a window of them."""
        return self._report(self._recent)

    def in_numbers(self) -> dict[str, Any]:
        """Return both reports and the requests without an answer, as JSON can hold them."""
        return {
            "since_start": asdict(self.since_start()),
            "recent": asdict(self.recent()),
            "pending": self.pending,
            "unanswered": self.unanswered,
        }

    def _report(self, tallies: Iterable[Tally]) -> Report:
        whole = self._fold(self._settled)
        whole.merge(self._blocks.sums(self._queue.first + self._settled, whole.n_classes))
        for tally in tallies:
            whole.merge(tally)
        return report(whole, list(self._codes))

    def _code(self, label: Label) -> int:
        """Return the label's number, making room for it where it is new."""
        if label not in self._codes:
            self._codes[label] = len(self._codes)
            self._counts.append(0)
            for tally in (self._total, *self._recent):
                tally.widen(len(self._codes))
        return self._codes[label]

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
        stride = self._fold(n, keep=True)
        end = self._queue.first + n
        stride.merge(self._blocks.sums(end, stride.n_classes, drop=True))
        self._total.merge(stride)
        self._recent.append(stride)
        self._queue.drop(n)
        self._settled, self._left = self._settled - n, max(self._left - n, 0)

    def _fold(self, n: int, *, keep: bool = False) -> Tally:
        """Return the sums of the queue's first `n` arrivals; `keep` what was counted of each."""
        tally = Tally(len(self._codes))
        judged = self._queue.judged(n, len(self._codes), self.block)
        tally.add(replace(judged, paid=self._paid(judged.P)))
        if keep:
            self._outcomes.add(self._queue.ids[:n], judged, self._strides)
            self._strides += 1
        return tally

    def _paid(self, P: np.ndarray) -> np.ndarray | None:
        return None if self._decisions is None else self._decisions.paid(P, list(self._codes))

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all that changes: one part as JSON can hold it, the other as arrays."""
        outcomes, counted = self._outcomes.state()
        state = {
            "outcomes": outcomes,
            "folded": self._strides,
            "labels": list(self._codes),
            "counts": self._counts,
            "last": self._last,
            "commonest": self._commonest,
            "unanswered": self.unanswered,
            "settled": self._settled,
            "queue": self._queue.state(),
            "strides": len(self._recent),
            "model": "weighed",
        }
        if self._decisions is not None:
            state["decisions"] = self._decisions.to_json()
            state["decided_since"] = self._decided_since
        ends, arrays = self._blocks.state(self._queue.first)
        if ends:
            state["blocks"] = ends
        arrays |= {"queue": self._queue.probabilities(len(self._codes))}
        arrays |= {f"outcomes.{name}": array for name, array in counted.items()}
        arrays |= {f"total.{name}": array for name, array in self._total.state().items()}
        for i, tally in enumerate(self._recent):
            arrays |= {f"stride{i}.{name}": array for name, array in tally.state().items()}
        return state, arrays

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned for an evaluation of the same settings."""
        self._codes = {label: code for code, label in enumerate(state["labels"])}
        self._counts = list(state["counts"])
        self._last, self._commonest = state["last"], state["commonest"]
        self.unanswered = state["unanswered"]
        self._settled = state["settled"]
        self._queue = Arrivals.resume(state["queue"], arrays["queue"], self.block)
        self._blocks.resume(state.get("blocks", ()), arrays)
        waits = self._queue.rows["waits"].tolist()
        self._open = {id: i for i, id in enumerate(self._queue.ids) if waits[i]}
        self._total = Tally.resume(part(arrays, "total."))
        self._recent.clear()
        # Of what earlier releases had counted nothing is remembered.
        self._outcomes.resume(state.get("outcomes", []), part(arrays, "outcomes."))
        self._strides = state.get("folded", 0)
        given = state.get("decisions")
        self._decisions = None if given is None else Decisions(**given)
        self._decided_since = state.get("decided_since", 0)
        for i in range(state["strides"]):
            self._recent.append(Tally.resume(part(arrays, f"stride{i}.")))
        if "model" not in state:  # of before records had chances of their own
            for tally in (self._total, *self._recent):
                tally.weigh_model(max(self.block - 1, 0))
