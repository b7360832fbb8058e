"""What an evaluation holds, and the figures that follow from it."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np

from streamboost.storage import Arrays, part
from streamboost.stream.checks import Label
from streamboost.stream.evaluation.arrivals import Arrivals, alike
from streamboost.stream.evaluation.decisions import Decisions
from streamboost.stream.evaluation.known import KnownLabels
from streamboost.stream.evaluation.outcomes import PARTS, Outcome, Paid, Strides
from streamboost.stream.evaluation.report import Report, report
from streamboost.stream.evaluation.rest import Blocks
from streamboost.stream.evaluation.tally import Judged, Tally

__all__ = ["Accounts", "speak_for"]

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


class Accounts:
    """What is known of the records, settled or not, for `Evaluation`, which says what these are."""

    def __init__(self, block: int, window: int, pool: int) -> None:
        self.block = block
        self.window = window
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

    def _paid(self, P: np.ndarray) -> np.ndarray | None:
        return None if self._decisions is None else self._decisions.paid(P, list(self.labels))

    def _judged(self, rows: slice) -> Judged:
        """Return the queue's arrivals `rows` as judged, with what was decided about them."""
        judged = self._queue.judged(rows, len(self._known), self.block)
        return replace(judged, paid=self._paid(judged.P))

    @property
    def pending(self) -> int:
        """Requests that wait for their labels."""
        rows = self._queue.rows
        return int(np.count_nonzero(rows["waits"] & (rows["chance"] > 0.0)))

    @property
    def labels(self) -> dict[Label, int]:
        """The labels known, numbered in the order first met."""
        return self._known.codes

    @property
    def counts(self) -> list[int]:
        """How often each of them came."""
        return self._known.counts

    def since_start(self) -> Report:
        """Return the figures over all records that are judged."""
        return self._report([self._strides.total], self._waiting(0, 0))

    def recent(self) -> Report:
        """Return the figures over the newest records that are judged, at most a window of them."""
        newest, start, skipped = self._newest()
        return self._report(newest, self._waiting(start, skipped))

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
