"""Records as they were predicted on arrival, and what has become known of them since."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamboost.stream.evaluation.tally import PREDICTORS, Judged

__all__ = ["Arrival", "as_judged", "probabilities_of"]


@dataclass(slots=True, eq=False)
class Arrival:
    """A record and what was predicted for it.

    Attributes
    ----------
    id
        The record's.
    P
        float64 (K,), the probabilities of the classes known on arrival.
    predicted
        The class that each of `PREDICTORS` gave, -1 for none.
    chance
        That of being asked about, NaN where it was not.
    waits
        Whether more may become known of it.
    truth
        Its class, -1 where that is not known.
    """

    id: str
    P: np.ndarray
    predicted: tuple[int, ...]
    chance: float
    waits: bool
    truth: int = -1

    @property
    def is_asked(self) -> bool:
        """Whether its label was asked for."""
        return self.chance > 0.0


def as_judged(arrivals: Sequence[Arrival], n_classes: int, block: int) -> Judged:
    """Return arrivals that wait for nothing, with what each answered one stands for besides.

    Nothing stands for more than the `block` records of which the audit picks one.
    """
    predicted = np.array([one.predicted for one in arrivals], dtype=np.int64)
    truth = np.array([one.truth for one in arrivals], dtype=np.int64)
    chance = np.array([one.chance for one in arrivals], dtype=np.float64)
    stands_for = np.minimum(1.0 / chance, max(block, 1))
    known = truth >= 0
    answered, asked = int(known.sum()), int((chance > 0.0).sum())
    stands_for *= asked / max(answered, 1)  # the answered ones stand for the others, too
    return Judged(
        P=probabilities_of(arrivals, n_classes),
        predicted=predicted.reshape(-1, len(PREDICTORS)),
        truth=truth,
        extra=np.where(known, stands_for - 1.0, 0.0),
    )


def probabilities_of(arrivals: Sequence[Arrival], n_classes: int) -> np.ndarray:
    """Return the probabilities (n, K); classes not known on arrival had none."""
    rows = np.zeros((len(arrivals), n_classes))
    for row, arrival in zip(rows, arrivals, strict=True):
        row[: len(arrival.P)] = arrival.P
    return rows
