"""What was counted of records whose label came, so that another label can be counted instead."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.evaluation.tally import Judged, Tally

__all__ = ["Outcome", "Outcomes"]

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

    def add(self, ids: list[str], judged: Judged, stride: int) -> None:
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
        about = [
            (id, one.stride, len(one.P), one.predicted, one.truth, one.others)
            for id, one in self._kept.items()
        ]
        P = [one.P for one in self._kept.values()]
        return about, {"P": np.concatenate(P) if P else np.zeros(0)}

    def resume(self, about: list[Any], arrays: Arrays) -> None:
        """Go on from what `state` returned."""
        self._kept, self._bytes, start = OrderedDict(), 0, 0
        for id, stride, n, predicted, truth, others in about:
            P = arrays["P"][start : start + n].copy()
            self._put(id, Outcome(stride, P, tuple(predicted), truth, others))
            start += n
