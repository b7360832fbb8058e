"""Predicted labels, probabilities and margins of records.

Before a committee is trained, the predictions are the shares of the labels so far.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from streamboost.checks import Label, labels_to_array
from streamboost.query.strategies import Needs

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee
    from streamboost.boosting.correction import CorrectedCommittee

_LEAST = -100.0
"""Lower bound of log probabilities, for probability 0."""

_LEAST_SURE = 0.5
"""Lower bound of the probability of another system's label."""


@dataclass(slots=True, eq=False)  # frozen, each would take two microseconds to make
class Scored:
    """Predictions for n records; treat as immutable.

    Attributes
    ----------
    labels
        object (n,), the predicted labels; None while no label is known.
    classes
        (K,), the labels of the columns of `probabilities`.
    probabilities
        float64 (n, K), the class probabilities; before the first committee, the relative
        frequencies of the labels learned so far.
    margins
        float64 (n,), the largest raw score minus the second largest; 0 before the first
        committee.
    version
        Version of the committee; 0 before the first.
    temperature
        The divisor of the log probabilities that calibrated `probabilities`; 1: not calibrated.
    experts
        float64 (E, n, L), the log probabilities of each of E experts for the first L of `classes`,
        which are those learned so far. None if the committee is the only expert.
    known
        bool (L,), whether the committee was trained on each of the L classes; None as for
        `experts`.
    scores
        float64 (n, classes of the committee), the committee's raw scores; None if it is the only
        expert.
    unfiltered
        The predictions before `ClassRunFilter`, which do not depend on preceding records, for
        queries and drift detection; None if they are equal to these predictions.
    """

    labels: np.ndarray
    classes: np.ndarray
    probabilities: np.ndarray
    margins: np.ndarray
    version: int
    temperature: float = 1.0
    experts: np.ndarray | None = None
    known: np.ndarray | None = None
    scores: np.ndarray | None = None
    unfiltered: "Scored | None" = None

    def __len__(self) -> int:
        return len(self.labels)


def score_with_committee(committee: "Committee | CorrectedCommittee", X: np.ndarray) -> Scored:
    """Return the committee's predictions for `X` (n, D).

    Columns beyond those that the committee was trained on are ignored.
    """
    scores = _raw_scores(committee, X)
    return Scored(
        labels=_labels_from_scores(committee, scores),
        classes=committee.classes,
        probabilities=committee.probabilities(scores),
        margins=top_two_gap(scores),
        version=committee.version,
    )


def score_by_class_shares(counts: Mapping[Label, int], n: int) -> Scored:
    """Return predictions for `n` records without a committee, from the labels per class.

    Each record gets the most frequent label, and the labels' relative frequencies as probabilities.
    """
    label = max(counts, key=counts.__getitem__) if counts else None
    shares = np.array(list(counts.values()), dtype=np.float64)
    return Scored(
        labels=np.full(n, label, dtype=object),
        classes=labels_to_array(counts),
        probabilities=np.tile(shares / max(shares.sum(), 1.0), (n, 1)),
        margins=np.zeros(n),
        version=0,
    )


def remove_calibration(scored: Scored) -> Scored:
    """Return `scored` with probabilities at temperature 1, without calibration."""
    P = scored.probabilities
    if scored.temperature == 1.0 or not P.size:
        return scored
    own = (P / P.max(axis=1, keepdims=True)) ** scored.temperature
    return replace(scored, probabilities=own / own.sum(axis=1, keepdims=True), temperature=1.0)


def rename_classes(scored: Scored, names: Mapping[Label, Label | None]) -> Scored:
    """Return `scored` with its classes renamed to their current names.

    `names` maps an earlier class to its current name, or to None if the class was dropped; other
    classes keep their names. Probabilities of classes with the same current name are added.

    This maps the predictions of a committee that was trained before classes were merged or dropped.
    """
    before = scored.classes.tolist() if names else []
    if names.keys().isdisjoint(before):
        return scored
    current = [names.get(label, label) for label in before]
    left = list(dict.fromkeys(label for label in current if label is not None))
    P = np.zeros((len(scored), len(left)))
    for column, label in enumerate(current):
        if label is not None:
            P[:, left.index(label)] += scored.probabilities[:, column]
    total = P.sum(axis=1, keepdims=True)
    P = np.where(total > 0.0, P / np.where(total > 0.0, total, 1.0), 1.0 / max(len(left), 1))
    labels = np.full(len(scored), None, dtype=object)
    if left:
        labels[:] = labels_to_array(left).astype(object)[P.argmax(axis=1)]
    with np.errstate(divide="ignore"):
        margins = top_two_gap(np.maximum(np.log(P), _LEAST))
    return replace(
        scored, labels=labels, classes=labels_to_array(left), probabilities=P, margins=margins
    )


def committee_predictions(committee: "Committee", scored: Scored) -> Scored:
    """Return the predictions of `committee` without other experts and without calibration."""
    if scored.scores is None:
        return remove_calibration(scored)
    return replace(
        scored,
        labels=_labels_from_scores(committee, scored.scores),
        classes=committee.classes,
        probabilities=committee.probabilities(scored.scores),
        margins=top_two_gap(scored.scores),
        temperature=1.0,
    )


def fill_missing_probabilities(scored: Scored, other: Scored) -> Scored:
    """Return `scored` with the probabilities of `other` for the records whose own are NaN.

    `other` has predictions for the same records.
    """
    classes = list(dict.fromkeys([*scored.classes.tolist(), *other.classes.tolist()]))
    P, Q = np.zeros((2, len(scored), len(classes)))
    P[:, : len(scored.classes)] = scored.probabilities
    Q[:, [classes.index(label) for label in other.classes.tolist()]] = other.probabilities
    P = np.where(np.isnan(P).any(axis=1, keepdims=True), Q, P)
    return replace(scored, classes=labels_to_array(classes), probabilities=P)


def label_probabilities(scored: Scored) -> np.ndarray:
    """Return the probability (n,) of each label that another system predicted, at least 0.5.

    The probabilities may be the learner's own estimates. A small one is too uncertain to save a
    request. Records without a label have probability 1.
    """
    is_label = scored.labels[:, None] == scored.classes.astype(object)
    found: np.ndarray = np.where(is_label, scored.probabilities, 0.0).sum(axis=1)
    return np.where(is_label.any(axis=1), np.maximum(found, _LEAST_SURE), 1.0)


def predict_labels(committee: "Committee | CorrectedCommittee", X: np.ndarray) -> np.ndarray:
    """Return the predicted labels, object (n,), of `X` (n, D)."""
    return _labels_from_scores(committee, _raw_scores(committee, X))


def utility_inputs(
    needs: Needs,
    committee: "Committee | CorrectedCommittee",
    X: np.ndarray,
    scored: Scored | None = None,
) -> np.ndarray:
    """Return the array from which a query strategy computes the utilities of `X` (n, D).

    `needs` names the kind of array: margins (n,), probabilities (n, K), vote shares (n, K), or `X`
    itself for "nothing". If `scored` has the predictions for `X`, they are not computed again.
    """
    if needs == "nothing":
        return X
    if needs == "votes":
        return _vote_shares(committee, X)
    scored = scored or score_with_committee(committee, X)
    return scored.margins if needs == "margins" else scored.probabilities


def _vote_shares(committee: "Committee | CorrectedCommittee", X: np.ndarray) -> np.ndarray:
    """Return the share (n, K) of the committee's members that vote for each class.

    The members are the committees after 1, 2, ... rounds: the weak learner of a single round is too
    weak for its vote to measure uncertainty.
    """
    votes = np.zeros((len(X), len(committee.classes)))
    rows = np.arange(len(X))
    for scores in committee.staged_scores(X[:, : committee.n_features]):
        votes[rows, scores.argmax(axis=1)] += 1.0
    return votes / max(committee.n_rounds, 1)


def _raw_scores(committee: "Committee | CorrectedCommittee", X: np.ndarray) -> np.ndarray:
    # A committee that is older than the newest columns scores the columns it was trained on.
    return committee.class_scores(X[:, : committee.n_features])


def _labels_from_scores(
    committee: "Committee | CorrectedCommittee", scores: np.ndarray
) -> np.ndarray:
    return np.asarray(committee.classes[committee.predicted_indices(scores)].astype(object))


def top_two_gap(scores: np.ndarray) -> np.ndarray:
    """Return the largest minus the second largest value (n,) in each row of `scores` (n, K).

    With fewer than two columns, the difference is 0.
    """
    if not len(scores) or scores.shape[1] < 2:  # a single class has margin 0
        return np.zeros(len(scores))
    best = np.partition(scores, -2, axis=1)
    return np.asarray(best[:, -1] - best[:, -2])


def top_probabilities(scored: Scored) -> np.ndarray:
    """Return the uncalibrated probability (n,) of each record's most probable class.

    The probability is 0 if no class is known yet.
    """
    best: np.ndarray = remove_calibration(scored).probabilities.max(axis=1, initial=0.0)
    return best
