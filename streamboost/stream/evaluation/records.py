"""Records of an evaluation: those that wait for labels, and the sums over those that are settled.

`Arrivals` holds the newest records as they were predicted. `Strides` adds up settled records and
keeps what was counted of each, as labels may change. `KnownLabels` numbers the labels.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from streamboost.storage import Arrays, part
from streamboost.stream.checks import Label
from streamboost.stream.evaluation.tally import PREDICTORS, Judged, Tally

__all__ = ["PARTS", "Arrivals", "KnownLabels", "Outcome", "Outcomes", "Strides", "alike"]


class KnownLabels:
    """Numbers labels in the order first met, and says what the two baselines say.

    Attributes
    ----------
    codes
        The number of each.
    counts
        How often each of them came.
    last, commonest
        The number of the newest that came, and of the one that came most often; -1: none.
    """

    def __init__(self) -> None:
        self.codes: dict[Label, int] = {}
        self.counts: list[int] = []
        self.last = self.commonest = -1

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def kind(self) -> type | None:
        """What the labels are: text or whole numbers; None before the first."""
        return type(next(iter(self.codes))) if self.codes else None

    def code(self, label: Label) -> int:
        """Return the label's number, a new one where it is new."""
        if label not in self.codes:
            self.codes[label] = len(self.codes)
            self.counts.append(0)
        return self.codes[label]

    def come(self, label: Label) -> int:
        """Take in that a label came; return its number."""
        code = self.last = self.code(label)
        self.counts[code] += 1
        if self.commonest < 0 or self.counts[code] > self.counts[self.commonest]:
            self.commonest = code
        return code

    def correct(self, before: Label, label: Label | None) -> int:
        """Let one that came be another, None: none; return that one's number, -1 for none."""
        truth = -1 if label is None else self.code(label)
        self.counts[self.codes[before]] -= 1
        if truth >= 0:
            self.counts[truth] += 1
        self._count_anew()
        return truth

    def rename(self, label: Label, into: Label | None) -> None:
        """Let all that came of one class be of another, which may be new; None: of none."""
        before = self.codes[label]
        counted, self.counts[before] = self.counts[before], 0
        code = -1 if into is None else self.code(into)
        if code >= 0:
            self.counts[code] += counted
        self._count_anew()
        if self.last == before:
            self.last = code

    def _count_anew(self) -> None:
        self.commonest = int(np.argmax(self.counts)) if any(self.counts) else -1

    def state(self) -> dict[str, Any]:
        """Return all there is, as JSON can hold it."""
        return {
            "labels": list(self.codes),
            "counts": self.counts,
            "last": self.last,
            "commonest": self.commonest,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned, among others."""
        self.codes = {label: code for code, label in enumerate(state["labels"])}
        self.counts = list(state["counts"])
        self.last, self.commonest = state["last"], state["commonest"]


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
