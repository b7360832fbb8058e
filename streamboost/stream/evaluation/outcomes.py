"""Sums over settled records, and what was counted of each, as labels may change."""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from streamboost.storage import Arrays, part
from streamboost.stream.evaluation.tally import Judged, Tally

__all__ = ["PARTS", "Outcome", "Outcomes", "Strides"]

PARTS = 10
"""Strides of a window: it moves on by one of them at a time."""

_MOST_BYTES = 8 * 2**20
_MOST = 20_000
"""Records that are remembered, and what they may take; the oldest are forgotten first."""

_EACH = 100  # bytes, beside the probabilities


Paid = Callable[[np.ndarray], np.ndarray | None]
"""Gives what decisions cost by probabilities (n, K); see `Judged.paid`."""


class Outcome(NamedTuple):
    """What was counted of one record."""

    stride: int
    """The number of the stride it is part of."""
    P: np.ndarray
    """Float64 (K,), of the classes known then."""
    predicted: tuple[int, ...]
    truth: int
    others: float
    """How many further records it stands for, as `Judged.others`."""
    waited: int
    """How many records came until its label did."""

    def counted(self, truth: int, n_classes: int, paid: Paid) -> Tally:
        """Return the sums of this record alone, had it been of class `truth`; -1: not known."""
        P = np.zeros((1, n_classes))
        P[0, : len(self.P)] = self.P
        tally = Tally(n_classes)
        others = np.array([self.others])
        tally.add(Judged(P, np.array([self.predicted]), np.array([truth]), others, paid(P)))
        return tally


class Outcomes:
    """Remembers by their ids the records that are part of the sums with a label."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Outcome] = OrderedDict()
        self._bytes = 0

    def newest(self, n: int) -> list[Outcome]:
        """Return what was counted of the newest `n`, or of all there are."""
        return list(islice(reversed(self._kept.values()), n))

    def add(self, ids: Sequence[str], judged: Judged, waited: np.ndarray, stride: int) -> None:
        """Take on the labelled ones of the records of a stride; the oldest may be forgotten."""
        for i in np.flatnonzero(judged.truth >= 0).tolist():
            self._put(
                ids[i],
                Outcome(
                    stride,
                    judged.P[i].copy(),
                    tuple(judged.predicted[i].tolist()),
                    int(judged.truth[i]),
                    float(judged.others[i]),
                    int(waited[i]),
                ),
            )

    def _put(self, id: str, outcome: Outcome) -> None:
        self.take(id)
        self._kept[id] = outcome
        self._bytes += outcome.P.nbytes + _EACH
        while len(self._kept) > _MOST or self._bytes > _MOST_BYTES:
            self.take(next(iter(self._kept)))

    def take(self, id: str) -> Outcome | None:
        """Return, and forget, what was counted of a record; None where nothing is known."""
        outcome = self._kept.pop(id, None)
        if outcome is not None:
            self._bytes -= outcome.P.nbytes + _EACH
        return outcome

    def forget(self, ids: Sequence[str]) -> None:
        """Forget what was counted of records, as far as anything is known of them."""
        for id in self._kept.keys() & ids:
            self.take(id)

    def correct(self, id: str, truth: int, n_classes: int, paid: Paid) -> tuple[int, Tally] | None:
        """Let a record be of class `truth`; -1: nobody knows. `paid` gives `Judged.paid`.

        Returns its stride and what is to be added to the sums there; None where it is not known.
        """
        outcome = self._kept.get(id)
        if outcome is None:
            return None
        change = outcome.counted(truth, n_classes, paid)
        change.merge(outcome.counted(outcome.truth, n_classes, paid), times=-1.0)
        if truth < 0:
            self.take(id)
        else:
            self._kept[id] = outcome._replace(truth=truth)
        return outcome.stride, change

    def state(self) -> tuple[list[Any], Arrays]:
        """Return all there is: one part as JSON can hold it, the other as arrays."""
        about = [(id, one.stride, len(one.P), *one[2:]) for id, one in self._kept.items()]
        P = [one.P for one in self._kept.values()]
        return about, {"P": np.concatenate(P) if P else np.zeros(0)}

    def resume(self, about: list[Any], arrays: Arrays) -> None:
        """Go on from what `state` returned."""
        self._kept, self._bytes, start = OrderedDict(), 0, 0
        for id, stride, n, predicted, *rest in about:
            P = arrays["P"][start : start + n].copy()
            self._put(id, Outcome(stride, P, tuple(predicted), *rest))
            start += n


class Strides:
    """Adds up strides of records: all of them, and the newest each for itself.

    Attributes
    ----------
    total
        The sums over all.
    outcomes
        What was counted of the records that have a label.
    """

    def __init__(self) -> None:
        self.total = Tally()
        self.outcomes = Outcomes()
        self._recent: deque[Tally] = deque(maxlen=PARTS - 1)
        self._added = 0
        self._decided_since = 0  # strides added before

    def newest(self, n: int) -> list[Tally]:
        """Return the sums of the newest `n` strides, or of as many as are kept."""
        return list(self._recent)[max(len(self._recent) - n, 0) :]

    def widen(self, n_classes: int) -> None:
        """Make room for `n_classes` classes."""
        for tally in (self.total, *self._recent):
            tally.widen(n_classes)

    def add(self, ids: Sequence[str], judged: Judged, waited: np.ndarray, others: Tally) -> None:
        """Add a stride: the records `ids` as they were `judged`, and sums of `others`.

        `waited` (n,) is how many records came until each one's label did.
        """
        stride = Tally(self.total.n_classes)
        stride.add(judged)
        stride.merge(others)
        self.outcomes.add(ids, judged, waited, self._added)
        self.total.merge(stride)
        self._recent.append(stride)
        self._added += 1

    def correct(self, id: str, truth: int, paid: Paid) -> None:
        """Let a record be of class `truth`, -1: nobody knows, if it is remembered.

        `paid` gives `Judged.paid`.
        """
        changed = self.outcomes.correct(id, truth, self.total.n_classes, paid)
        if changed is None:
            return
        stride, change = changed
        if stride < self._decided_since:
            change.cost[:] = 0.0
        self.total.merge(change)
        newest = stride - self._added  # -1 is the last
        if -newest <= len(self._recent):
            self._recent[newest].merge(change)

    def forget_costs(self) -> None:
        """Forget what decisions have cost: others are made from now on."""
        self._decided_since = self._added
        for tally in (self.total, *self._recent):
            tally.cost[:] = 0.0

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all there is: one part as JSON can hold it, the other as arrays."""
        outcomes, counted = self.outcomes.state()
        state = {
            "outcomes": outcomes,
            "folded": self._added,
            "strides": len(self._recent),
            "decided_since": self._decided_since,
        }
        arrays = {f"outcomes.{name}": array for name, array in counted.items()}
        arrays |= {f"total.{name}": array for name, array in self.total.state().items()}
        for i, tally in enumerate(self._recent):
            arrays |= {f"stride{i}.{name}": array for name, array in tally.state().items()}
        return state, arrays

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned, among others."""
        self.total = Tally.resume(part(arrays, "total."))
        self.outcomes.resume(state["outcomes"], part(arrays, "outcomes."))
        self._added = state["folded"]
        self._decided_since = state["decided_since"]
        self._recent.clear()
        for i in range(state["strides"]):
            self._recent.append(Tally.resume(part(arrays, f"stride{i}.")))
