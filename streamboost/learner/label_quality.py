"""Label quality: probability that labels are right, and relabel requests for suspect labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from streamboost.checks import Label
from streamboost.learner.annotators import AnnotatorStatistics, estimate_reliability
from streamboost.learner.labelled_rows import AnnotatedRow, LabelledRows

_WRONG = 0.5
"""If the probability that a label is right is lower, the label may be requested again."""

_MOST_VOTES = 3
"""Records with this number of votes or more are not relabelled."""

_LEAST = 0.01
"""Lower bound of the prior probability of a class, as early predictions are unreliable."""

_OFTEN = 0.2
"""Annotators with at most this error rate are not excluded from relabel requests."""

_MOST_SURE = 50.0
"""Upper limit of the log odds that votes give a label."""

_ROUNDS = 10
"""Iterations of expectation maximization between reliabilities and posteriors."""


@dataclass(frozen=True, slots=True, eq=False)
class RelabelRequests:
    """Requests for another label of m records; all sequences have length m.

    Attributes
    ----------
    ids
        The records' ids.
    doubt
        float64 (m,), the probability that the current label is wrong.
    excluded_annotators
        For each record, names of annotators that must not answer: unreliable ones, and those that
        gave a label for the record.
    """

    ids: list[str]
    doubt: np.ndarray
    excluded_annotators: list[list[str]]

    def __len__(self) -> int:
        return len(self.ids)


class LabelQuality:
    """Estimates the probability that a label is right, from votes and the prediction on arrival.

    The probability is the posterior of Dawid and Skene (1979). Its prior is the prediction on
    arrival, which does not depend on the label. CROWDLAB (Goh, Tkachenko and Mueller 2022) combines
    votes and predictions in the same way. For a single label, an annotator's reliability is
    `AnnotatorCounts.reliability`. For all labels together, expectation maximization improves these
    reliabilities.
    """

    def __init__(self, rows: LabelledRows, annotators: AnnotatorStatistics) -> None:
        self._rows = rows
        self._annotators = annotators
        self._seen = -1  # number of labels when no label looked wrong

    def label_probability(self, row: AnnotatedRow, label: Label) -> float:
        """Return the probability that `label` is right for the record of `row`.

        The result is 1 if `label` has not been learned before.
        """
        if label not in self._rows.counts:
            return 1.0
        about = self._build_candidate_labels([(row, label)])
        return float(about.posterior(self._annotator_reliabilities(about.names))[0])

    def _annotator_reliabilities(self, names: Sequence[str]) -> np.ndarray:
        """Return the reliability (n,) of each annotator, from `AnnotatorCounts.reliability`."""
        return np.array([self._annotators.get_or_create(name).reliability for name in names])

    def _prior_probabilities(self, row: AnnotatedRow) -> tuple[list[Label], np.ndarray]:
        """Return all K classes, and the probability (K,) of each in the prediction on arrival.

        The probabilities need not sum to 1. All are 1 if no prediction is stored.
        """
        known = list(self._rows.counts)
        if row.arrival_prediction is None:
            return known, np.ones(len(known))
        place = {name: k for k, name in enumerate(known)}
        prior = np.zeros(len(known))
        for name, p in zip(
            row.arrival_prediction[0], row.arrival_prediction[1].tolist(), strict=True
        ):
            if name in place:
                prior[place[name]] = p
        return known, prior

    def training_weights(self, orders: np.ndarray) -> np.ndarray:
        """Return training weights (n,), proportional to the trust in each label, with mean 1.

        The trust is the probability that a label is right, and 1 for rows without an id. `orders`
        (n,) identify the rows (`AnnotatedRow.order`).
        """
        rows, trusts, _ = self._estimate_label_trust_and_reliabilities()
        trusted = {row.order: one for (_, row, _), one in zip(rows, trusts.tolist(), strict=True)}
        found = np.array([trusted.get(order, 1.0) for order in orders.tolist()])
        return np.asarray(found / max(found.mean(), _LEAST)) if len(found) else found

    def find_suspect_labels(self, n: int, is_eligible: Callable[[str], bool]) -> RelabelRequests:
        """Return at most `n` records whose label looks wrong, the least trusted first.

        Only records whose id passes the predicate `is_eligible` are considered.
        """
        if self._seen == self._rows.total:
            return RelabelRequests([], np.zeros(0), [])
        rows, trusts, known = self._estimate_label_trust_and_reliabilities()
        found = [
            (trusts[i], id, row)
            for i, (id, row, _) in enumerate(rows)
            if trusts[i] < _WRONG and len(row.votes) < _MOST_VOTES and is_eligible(id)
        ]
        if not found:
            self._seen = self._rows.total
        found.sort(key=lambda one: one[:2])
        chosen, unreliable = found[:n], _unreliable_annotators(known)
        return RelabelRequests(
            [id for _, id, _ in chosen],
            np.array([1.0 - trust for trust, *_ in chosen]),
            [_excluded_annotators(row, unreliable) for *_, row in chosen],
        )

    def _estimate_label_trust_and_reliabilities(
        self,
    ) -> tuple[list[tuple[str, AnnotatedRow, Label]], np.ndarray, dict[str, float]]:
        """Return all rows that have an id, the trust in each label, and annotators' reliabilities.

        A row is a tuple of id, row and label. The trust (n,) is the probability that a row's label
        is right. The mapping is from each annotator's name to the reliability.
        """
        rows = list(self._rows.annotated_rows())
        about = self._build_candidate_labels([(row, label) for _, row, label in rows])
        known = self._annotator_reliabilities(about.names)
        cell, who = about.votes
        for _ in range(_ROUNDS):
            known = estimate_reliability(
                np.bincount(who, about.posterior(known)[cell]), np.bincount(who)
            )
        reliability = dict(zip(about.names, known.tolist(), strict=True))
        return rows, about.posterior(known)[about.own], reliability

    def _build_candidate_labels(
        self, rows: Sequence[tuple[AnnotatedRow, Label]]
    ) -> "_CandidateLabels":
        """Return each row's current label and the labels voted for, with their priors."""
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
            prior = np.maximum(self._prior_probabilities(row)[1], _LEAST)
            priors += (prior[[place[said] for said in cells]] / prior.sum()).tolist()
            row_of += [i] * len(cells)
        return _CandidateLabels(
            own=np.array(own, dtype=np.intp),
            row=np.array(row_of, dtype=np.intp),
            prior=np.array(priors),
            votes=np.array(votes, dtype=np.intp).reshape(-1, 2).T,
            names=list(names),
            n_classes=len(place),
        )

    def state(self) -> int:
        """Return the mutable state for `resume`: the number of labels at the last check."""
        return self._seen

    def resume(self, state: int) -> None:
        """Set the state to one that the method `state` returned."""
        self._seen = state


@dataclass(frozen=True, slots=True, eq=False)
class _CandidateLabels:
    """Candidate labels of n rows: m pairs of a row and a label that is current or has a vote.

    Attributes
    ----------
    own
        (n,), for each row the index of the candidate that is its current label.
    row, prior
        (m,), the index of each candidate's row, and the candidate's prior probability.
    votes
        (2, v), for each vote the index of its candidate, and the index of its annotator in `names`.
    names
        Names of the annotators; "" for votes of unknown annotators.
    n_classes
        Number of classes. An annotator's error is assumed to be any other class equally often.
    """

    own: np.ndarray
    row: np.ndarray
    prior: np.ndarray
    votes: np.ndarray
    names: list[str]
    n_classes: int

    def posterior(self, reliability: np.ndarray) -> np.ndarray:
        """Return the probability (m,) that each candidate label is right.

        `reliability` is the reliability of each annotator in `names`.
        """
        cell, who = self.votes
        gain = np.log(reliability / (1.0 - reliability) * max(self.n_classes - 1, 1))
        said = np.bincount(cell, gain[who], len(self.prior))
        odds = np.exp(np.minimum(said, _MOST_SURE))
        others = np.bincount(self.row, self.prior * (odds - 1.0))
        return np.asarray(self.prior * odds / (1.0 + others[self.row]))


def _unreliable_annotators(reliability: dict[str, float]) -> list[str]:
    """Return the names of annotators whose error rate is above 0.2 and twice the median.

    `reliability` maps each annotator's name to the estimated share of correct labels.
    """
    errs = {name: 1.0 - right for name, right in reliability.items() if name}
    usual = float(np.median(list(errs.values()))) if errs else 0.0
    return [name for name, often in errs.items() if often > max(2.0 * usual, _OFTEN)]


def _excluded_annotators(row: AnnotatedRow, unreliable: list[str]) -> list[str]:
    """Return the annotators with a label for this record, and the `unreliable` ones."""
    answered = [source for source, _ in row.votes if source is not None]
    return answered + [name for name in unreliable if name not in answered]
