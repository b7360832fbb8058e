"""Which labels look wrong, so that somebody else is to be asked, and how much each is trusted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from streamboost.stream.checks import Label
from streamboost.stream.labelled_rows.annotators import Annotators, reliable
from streamboost.stream.labelled_rows.labelled import LabelledRows, NamedRow

__all__ = ["Doubts", "Relabels"]

_WRONG = 0.5
"""The trust below which a label looks wrong."""

_MOST_VOTES = 3
"""What so many people have said of a record is not asked again."""

_LEAST = 0.01
"""Probability of what a committee holds for impossible: it was young when the record came."""

_OFTEN = 0.2
"""Nobody who errs less often is too poor to be asked again."""

_MOST_SURE = 50.0
"""Log odds beyond which votes count no more."""

_ROUNDS = 10
"""Times that reliabilities and posteriors are made of each other."""


@dataclass(frozen=True, slots=True, eq=False)
class Relabels:
    """Records that are asked about again; all of one length m.

    Attributes
    ----------
    ids
        The records' ids.
    doubt
        float64 (m,), how likely the label that each has is wrong.
    not_by
        Who must not answer, as they have already, where they are known by name.
    """

    ids: list[str]
    doubt: np.ndarray
    not_by: list[list[str]]

    def __len__(self) -> int:
        return len(self.ids)


class Doubts:
    """Weighs what people said of a record with what was predicted of it on arrival.

    The posterior of Dawid and Skene (1979), with the prediction for its prior, which knew nothing
    of the label: CROWDLAB (Goh, Tkachenko and Mueller 2022) weighs the two in the same way. An
    annotator's reliability is that of `Annotator` where one label is looked at, and where all are,
    what these posteriors expect it to be, by expectation maximization from there: predictions that
    are not confident tell of it, too.
    """

    def __init__(self, rows: LabelledRows, annotators: Annotators) -> None:
        self._rows = rows
        self._annotators = annotators
        self._seen = -1  # labels known when nothing looked wrong

    def trust(self, row: NamedRow, label: Label) -> float:
        """Return the probability that the `label` a row has is right; 1 of one not learned yet."""
        if label not in self._rows.counts:
            return 1.0
        about = self._cells([(row, label)])
        return float(about.posterior(self._counted(about.names))[0])

    def _counted(self, names: Sequence[str]) -> np.ndarray:
        return np.array([self._annotators.of(name).reliability for name in names])

    def _prior(self, row: NamedRow) -> tuple[list[Label], np.ndarray]:
        """Return the labels that a record may have, and the probability of each on arrival."""
        known = list(self._rows.counts)
        if row.said is None:
            return known, np.ones(len(known))
        place = {name: k for k, name in enumerate(known)}
        prior = np.zeros(len(known))
        for name, p in zip(row.said[0], row.said[1].tolist(), strict=True):
            if name in place:
                prior[place[name]] = p
        return known, prior

    def weights(self, orders: np.ndarray) -> np.ndarray:
        """Return how far each row of these `orders` is trusted, (n,), with mean 1."""
        rows, trusts, _ = self._all()
        trusted = {row.order: one for (_, row, _), one in zip(rows, trusts.tolist(), strict=True)}
        found = np.array([trusted.get(order, 1.0) for order in orders.tolist()])
        return np.asarray(found / max(found.mean(), _LEAST)) if len(found) else found

    def worst(self, n: int, may: Callable[[str], bool]) -> Relabels:
        """Return at most `n` records whose label looks wrong, the least trusted first.

        Only those of which `may` approves are looked at.
        """
        if self._seen == self._rows.total:
            return Relabels([], np.zeros(0), [])
        rows, trusts, known = self._all()
        found = [
            (trusts[i], id, row)
            for i, (id, row, _) in enumerate(rows)
            if trusts[i] < _WRONG and len(row.votes) < _MOST_VOTES and may(id)
        ]
        if not found:
            self._seen = self._rows.total
        found.sort(key=lambda one: one[:2])
        chosen, poor = found[:n], _poor(known)
        return Relabels(
            [id for _, id, _ in chosen],
            np.array([1.0 - trust for trust, *_ in chosen]),
            [_not_by(row, poor) for *_, row in chosen],
        )

    def _all(self) -> tuple[list[tuple[str, NamedRow, Label]], np.ndarray, dict[str, float]]:
        """Return the n rows with an id, the trust (n,) in their labels, and who is how reliable."""
        rows = list(self._rows.named())
        about = self._cells([(row, label) for _, row, label in rows])
        known = self._counted(about.names)
        cell, who = about.votes
        for _ in range(_ROUNDS):
            known = reliable(np.bincount(who, about.posterior(known)[cell]), np.bincount(who))
        reliability = dict(zip(about.names, known.tolist(), strict=True))
        return rows, about.posterior(known)[about.own], reliability

    def _cells(self, rows: Sequence[tuple[NamedRow, Label]]) -> "_Cells":
        place = {name: k for k, name in enumerate(self._rows.counts)}
        own: list[int] = []
        votes: list[tuple[int, int]] = []
        priors: list[float] = []
        row_of: list[int] = []
        names: dict[str, int] = {}
        for i, (row, label) in enumerate(rows):
            cells = {label: len(priors)}
            own.append(len(priors))
            for source, said in row.votes:
                if said in place:
                    cell = cells.setdefault(said, len(priors) + len(cells))
                    votes.append((cell, names.setdefault(source or "", len(names))))
            prior = np.maximum(self._prior(row)[1], _LEAST)
            priors += (prior[[place[said] for said in cells]] / prior.sum()).tolist()
            row_of += [i] * len(cells)
        return _Cells(
            own=np.array(own, dtype=np.intp),
            row=np.array(row_of, dtype=np.intp),
            prior=np.array(priors),
            votes=np.array(votes, dtype=np.intp).reshape(-1, 2).T,
            names=list(names),
            n_classes=len(place),
        )

    def state(self) -> int:
        """Return all that changes."""
        return self._seen

    def resume(self, state: int) -> None:
        """Go on from what `state` returned."""
        self._seen = state


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """What labels n rows have, and m cells: these, and whatever else was said of a row.

    Attributes
    ----------
    own
        (n,), the cell of the label that each row has.
    row, prior
        (m,), whose it is, and its prior probability.
    votes
        (2, v), the cell that each is for, and by whom of `names`.
    n_classes
        Whoever errs is taken to say any of the other ones.
    """

    own: np.ndarray
    row: np.ndarray
    prior: np.ndarray
    votes: np.ndarray
    names: list[str]
    n_classes: int

    def posterior(self, known: np.ndarray) -> np.ndarray:
        """Return the probability (m,) of each cell, by the reliability `known` (a,) of `names`."""
        cell, who = self.votes
        gain = np.log(known / (1.0 - known) * max(self.n_classes - 1, 1))
        said = np.bincount(cell, gain[who], len(self.prior))
        odds = np.exp(np.minimum(said, _MOST_SURE))
        others = np.bincount(self.row, self.prior * (odds - 1.0))
        return np.asarray(self.prior * odds / (1.0 + others[self.row]))


def _poor(reliability: dict[str, float]) -> list[str]:
    """Return those known by name who err more than twice as often as half of all do."""
    errs = {name: 1.0 - right for name, right in reliability.items() if name}
    usual = float(np.median(list(errs.values()))) if errs else 0.0
    return [name for name, often in errs.items() if often > max(2.0 * usual, _OFTEN)]


def _not_by(row: NamedRow, poor: list[str]) -> list[str]:
    """Return who is not to be asked: who has answered, and whoever errs much."""
    answered = [source for source, _ in row.votes if source is not None]
    return answered + [name for name in poor if name not in answered]
