"""What a learner says about records, with a committee and before there is one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from streamboost.active.utilities import Needs
from streamboost.stream.checks import Label, as_array

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee
    from streamboost.boosting.correction import Corrected

__all__ = [
    "Scored",
    "evidence",
    "gap_of",
    "labels_of",
    "score_with_committee",
    "score_with_shares",
    "uncalibrated",
]


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Predictions for n records.

    Attributes
    ----------
    labels
        object (n,), the predicted labels; None while no label is known.
    classes
        (K,), the labels that the columns of `probabilities` stand for.
    probabilities
        float64 (n, K); before there is a committee, the shares of the labels so far.
    margins
        float64 (n,), the largest raw score less the second largest; 0 before there is a
        committee.
    version
        The committee that scored; 0 before there is one.
    temperature
        By what the log probabilities were divided.
    experts
        float64 (E, n, K), the log probabilities of each expert, where there are several.
    known
        bool (K,), whether the committee knows the class; None: all of them.
    """

    labels: np.ndarray
    classes: np.ndarray
    probabilities: np.ndarray
    margins: np.ndarray
    version: int
    temperature: float = 1.0
    experts: np.ndarray | None = None
    known: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.labels)


def score_with_committee(committee: "Committee | Corrected", X: np.ndarray) -> Scored:
    """Score `X` (n, D); columns the committee does not know are left out."""
    scores = _decision(committee, X)
    return Scored(
        labels=_best(committee, scores),
        classes=committee.classes,
        probabilities=committee.probabilities(scores),
        margins=gap_of(scores),
        version=committee.version,
    )


def score_with_shares(counts: Mapping[Label, int], n: int) -> Scored:
    """Give `n` records the commonest label of `counts`, the first seen where several tie."""
    label = max(counts, key=counts.__getitem__) if counts else None
    shares = np.array(list(counts.values()), dtype=np.float64)
    return Scored(
        labels=np.full(n, label, dtype=object),
        classes=as_array(counts),
        probabilities=np.tile(shares / max(shares.sum(), 1.0), (n, 1)),
        margins=np.zeros(n),
        version=0,
    )


def uncalibrated(scored: Scored) -> Scored:
    """Return `scored` with the probabilities that the committee gave, at temperature 1."""
    P = scored.probabilities
    if scored.temperature == 1.0 or not P.size:
        return scored
    own = (P / P.max(axis=1, keepdims=True)) ** scored.temperature
    return replace(scored, probabilities=own / own.sum(axis=1, keepdims=True), temperature=1.0)


def labels_of(committee: "Committee | Corrected", X: np.ndarray) -> np.ndarray:
    """Return the predicted labels, object (n,), of `X` (n, D)."""
    return _best(committee, _decision(committee, X))


def evidence(
    needs: Needs, committee: "Committee | Corrected", X: np.ndarray, scored: Scored | None = None
) -> np.ndarray:
    """Return what a utility needs to know of `X` (n, D), `scored` by `committee` if given.

    Margins are (n,), probabilities and shares of the votes (n, K).
    """
    if needs == "nothing":
        return X
    if needs == "votes":
        return _votes(committee, X)
    scored = scored or score_with_committee(committee, X)
    return scored.margins if needs == "margins" else scored.probabilities


def _votes(committee: "Committee | Corrected", X: np.ndarray) -> np.ndarray:
    """Return the share (n, K) of the stages that vote for each class.

    The members are the committees after 1, 2, ... rounds: a single round's weak learner is too
    weak for its vote to tell doubt from ignorance.
    """
    votes = np.zeros((len(X), len(committee.classes)))
    rows = np.arange(len(X))
    for scores in committee.staged_decision(X[:, : committee.n_features]):
        votes[rows, scores.argmax(axis=1)] += 1.0
    return votes / max(committee.n_rounds, 1)


def _decision(committee: "Committee | Corrected", X: np.ndarray) -> np.ndarray:
    # A committee made before the newest columns appeared scores those it was trained on.
    return committee.decision(X[:, : committee.n_features])


def _best(committee: "Committee | Corrected", scores: np.ndarray) -> np.ndarray:
    return np.asarray(committee.classes[committee.best(scores)].astype(object))


def gap_of(scores: np.ndarray) -> np.ndarray:
    """Return the largest of each row of `scores` (n, K) less the second largest, (n,)."""
    if not len(scores) or scores.shape[1] < 2:  # one class has no rival
        return np.zeros(len(scores))
    best = np.partition(scores, -2, axis=1)
    return np.asarray(best[:, -1] - best[:, -2])
