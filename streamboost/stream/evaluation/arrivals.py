"""Records as they were predicted on arrival, and what has become known of them since."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.evaluation.outcomes import Outcome
from streamboost.stream.evaluation.tally import PREDICTORS, Judged

__all__ = ["Arrivals", "alike"]

_KEPT = ("predicted", "chance", "design", "waits", "truth", "waited")

_NEAR = 0.1
"""Difference in confidence at which a label speaks half as loudly as a like one."""


class Arrivals:
    """The newest records in the order they came.

    They stand in an array with room at its end; when that is used up, they move to the front, or
    into one of twice the size if they fill half of it: a constant cost per record.

    Attributes
    ----------
    ids
        Those of the records.
    first
        How many came before them and are dropped.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.first = 0
        self._start = 0
        self._rows = np.empty(0, dtype=_row(0))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def rows(self) -> np.ndarray:
        """What is known of each, (n,), to be read and written: `_row` says what there is."""
        return self._rows[self._start : self._start + len(self.ids)]

    def append(
        self,
        ids: Sequence[str],
        P: np.ndarray,
        predicted: Any,
        chance: np.ndarray,
        design: np.ndarray,
    ) -> int:
        """Add records with their probabilities (n, K), the class (3,) or (n, 3) that each predictor
        gave them, the chance (n,) with which they were asked about, NaN where they were not, and
        the chance (n,) that they had of it; return the first one's number.
        """
        n = len(self.ids)
        self._make_room(len(ids), P.shape[1])
        self.ids += ids
        new = self.rows[n:]  # of zeros
        new["P"][:, : P.shape[1]] = P
        new["predicted"], new["chance"], new["truth"] = predicted, chance, -1
        new["design"] = design
        return self.first + n

    def _make_room(self, n: int, n_classes: int) -> None:
        known = self._rows["P"].shape[1]
        if n_classes <= known and self._start + len(self) + n <= len(self._rows):
            return
        capacity = max(len(self._rows), 256)
        while capacity < 2 * (len(self) + n):
            capacity *= 2
        grown = np.zeros(capacity, dtype=_row(max(n_classes, known)))
        for name in _KEPT:
            grown[name][: len(self)] = self.rows[name]
        grown["P"][: len(self), :known] = self.rows["P"]
        self._rows, self._start = grown, 0

    def drop(self, n: int) -> None:
        """Forget the `n` oldest."""
        del self.ids[:n]
        self._start += n
        self.first += n

    def recode(self, before: int, code: int, n_classes: int) -> None:
        """Let class number `before` be `code`, in what was said and what came."""
        self._make_room(0, n_classes)
        rows = self.rows
        for name in ("predicted", "truth"):
            rows[name][rows[name] == before] = code
        rows["P"][:, code] += rows["P"][:, before]
        rows["P"][:, before] = 0.0

    def find(self, id: str) -> int | None:
        """Return the place of the newest record of that id; None where there is none."""
        for place in range(len(self.ids) - 1, -1, -1):
            if self.ids[place] == id:
                return place
        return None

    def probabilities(self, n_classes: int, rows: slice = slice(None)) -> np.ndarray:
        """Return those of the records at `rows`, (n, K); classes not known then had none."""
        known = self.rows["P"][rows]
        P = np.zeros((len(known), n_classes))
        P[:, : known.shape[1]] = known
        return P

    def state(self) -> tuple[list[str], Arrays]:
        """Return all that is known of each but its probabilities: the ids, the rest as arrays."""
        return list(self.ids), {name: self.rows[name].copy() for name in _KEPT}

    @classmethod
    def resume(cls, ids: Sequence[str], known: Arrays, P: np.ndarray) -> "Arrivals":
        """Return what `state` was returned by, with probabilities `P` (n, K), numbered from 0."""
        arrivals = cls()
        arrivals.append(ids, P, known["predicted"], known["chance"], known["design"])
        for name in ("waits", "truth", "waited"):
            arrivals.rows[name] = known[name]
        return arrivals

    def horizon(self) -> int:
        """Return how many of the oldest have been reached by labels.

        They are those up to the newest whose label came, and those behind it that wait for nothing.
        """
        came = np.flatnonzero(self.rows["truth"] >= 0)
        reached = int(came[-1]) + 1 if len(came) else 0
        waits = np.flatnonzero(self.rows["waits"][reached:])
        return reached + int(waits[0]) if len(waits) else len(self)

    def judged(self, rows: slice, n_classes: int, block: int) -> Judged:
        """Return the records at `rows`, with what each answered one stands for besides.

        That is at most the `block` records of which the audit picks one, and its part of what
        those whose label will not come would have stood for.
        """
        found = self.rows[rows]
        known = found["truth"] >= 0
        stands_for = self.stand_for(rows, block)
        lost = (found["chance"] > 0.0) & ~known & ~found["waits"]
        P, predicted = self.probabilities(n_classes, rows), found["predicted"].copy()
        if lost.any() and known.any():
            sure = P.max(axis=1, initial=0.0)
            shares = alike(sure[lost], sure[known], stands_for[known])
            stands_for[known] += stands_for[lost] @ (shares / shares.sum(axis=1, keepdims=True))
        truth = found["truth"].copy()
        return Judged(P=P, predicted=predicted, truth=truth, others=stands_for - 1.0)

    def newest(self, n: int, block: int) -> list[Outcome]:
        """Return what is known of the newest `n` whose label came, or of as many as there are."""
        places = np.flatnonzero(self.rows["truth"] >= 0)[::-1][:n].tolist()
        found = []
        for i in places:
            row, stands_for = self.rows[i], self.stand_for(slice(i, i + 1), block)[0]
            told = row["predicted"].tolist(), int(row["truth"]), stands_for - 1.0
            found.append(Outcome(-1, row["P"], *told, int(row["waited"])))
        return found

    def stand_for(self, rows: slice, block: int) -> np.ndarray:
        """Return 1 / pi (n,) of the records at `rows`, at most `block`."""
        found = self.rows[rows]
        own = np.where(found["chance"] > 0.0, found["chance"], found["design"])
        return np.asarray(1.0 / np.maximum(own, 1.0 / max(block, 1)))


def alike(missing: np.ndarray, known: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return in which shares (m, n) labels that are known speak for those that are missing.

    Whoever leaves a question open leaves the hard ones open: labels of records predicted with a
    like probability, `missing` (m,) and `known` (n,), speak louder, and so do those of more
    `weight` (n,).
    """
    return np.asarray(weight / (_NEAR + np.abs(missing[:, None] - known)))


def _row(n_classes: int) -> np.dtype:
    """Return what is known of a record.

    P: the probabilities of the classes known on arrival. predicted: the class that each of
    `PREDICTORS` gave, -1 for none. chance: that of being asked about, NaN where it was not, and
    where it is above 0 its label was asked for. design: that chance, asked about or not. truth:
    its class, -1 where that is not known. waits: whether more may become known of it. waited: how
    many records came until it was.
    """
    return np.dtype(
        [
            ("P", np.float64, (n_classes,)),
            ("predicted", np.int64, (len(PREDICTORS),)),
            ("chance", np.float64),
            ("design", np.float64),
            ("truth", np.int64),
            ("waits", np.bool_),
            ("waited", np.int64),
        ],
        align=True,
    )
