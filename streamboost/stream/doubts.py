"""Which labels look wrong, so that somebody else is to be asked, and how much each is trusted."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streamboost.stream.checks import Label
from streamboost.stream.labelled_rows.annotators import Annotators
from streamboost.stream.labelled_rows.labelled import LabelledRows
from streamboost.stream.labelled_rows.named import NamedRow

__all__ = ["Doubts", "Relabels"]

_WRONG = 0.5
"""The trust below which a label looks wrong."""

_MOST_VOTES = 3
"""What so many people have said of a record is not asked again."""

_LEAST = 0.01
"""Probability of what a committee holds for impossible: it was young when the record came."""


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
    annotator's reliability is that of `Annotator`.
    """

    def __init__(self, rows: LabelledRows, annotators: Annotators) -> None:
        self._rows = rows
        self._annotators = annotators
        self._seen = -1  # labels known when nothing looked wrong

    def trust(self, row: NamedRow, label: Label) -> float:
        """Return the probability that the `label` a row has is right; 1 of one not learned yet."""
        if label not in self._rows.counts:
            return 1.0
        classes, prior = self._prior(row)
        logs = np.log(np.maximum(prior, _LEAST)) + self._annotators.weigh(row.votes, classes)
        P = np.exp(logs - logs.max())
        return float(P[classes.index(label)] / P.sum())

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
        trusted = {row.order: self.trust(row, label) for _, row, label in self._rows.named()}
        found = np.array([trusted.get(order, 1.0) for order in orders.tolist()])
        return np.asarray(found / max(found.mean(), _LEAST)) if len(found) else found

    def worst(self, n: int, may: Callable[[str], bool]) -> Relabels:
        """Return at most `n` records whose label looks wrong, the least trusted first.

        Only those of which `may` approves are looked at.
        """
        if self._seen == self._rows.total:
            return Relabels([], np.zeros(0), [])
        found: list[tuple[float, str, NamedRow]] = []
        for id, row, label in self._rows.named():
            if len(row.votes) < _MOST_VOTES and may(id):
                trust = self.trust(row, label)
                if trust < _WRONG:
                    found.append((trust, id, row))
        if not found:
            self._seen = self._rows.total
        found.sort(key=lambda one: one[:2])
        chosen = found[:n]
        return Relabels(
            [id for _, id, _ in chosen],
            np.array([1.0 - trust for trust, *_ in chosen]),
            [self._not_by(row) for *_, row in chosen],
        )

    def _not_by(self, row: NamedRow) -> list[str]:
        """Return who is not to be asked: who has answered, and whoever errs much."""
        answered = [source for source, _ in row.votes if source is not None]
        poor = [name for name in self._annotators.poor() if name not in answered]
        return answered + poor

    def state(self) -> int:
        """Return all that changes."""
        return self._seen

    def resume(self, state: int) -> None:
        """Go on from what `state` returned."""
        self._seen = state
