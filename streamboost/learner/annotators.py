"""Annotators and the estimated reliability of their labels."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

import numpy as np

from streamboost.checks import Label
from streamboost.evaluation.annotator_errors import MOST_SOURCES
from streamboost.learner.labelled_rows import AnnotatedRow

_OTHERS = "further names"

_SURE = 0.9
"""Lowest probability of a confident prediction."""

_PRIOR, _PRIOR_RIGHT = 5.0, 4.5
"""Prior counts added to each annotator's: number of labels, and of correct labels."""

_WORST, _BEST = 0.05, 0.98


@dataclass(slots=True)
class AnnotatorCounts:
    """Counts of one annotator's labels, and of agreements with other annotators and predictions.

    Attributes
    ----------
    labels
        Number of labels learned, including second labels of a record.
    shared, agreed
        Number of comparisons with another annotator's label of the same record, and of comparisons
        with equal labels.
    judged, confirmed
        Number of labels that are their record's only label and whose record was predicted with a
        probability of 0.9 or more on arrival; and how many of these labels equal the prediction.
    """

    labels: int = 0
    shared: int = 0
    agreed: int = 0
    judged: int = 0
    confirmed: int = 0

    @property
    def reliability(self) -> float:
        """Estimated share of the annotator's labels that are correct, between 0.05 and 0.98."""
        return float(estimate_reliability(self.agreed + self.confirmed, self.shared + self.judged))


class AnnotatorStatistics:
    """Statistics of all annotators; labels without a source count as one unnamed annotator's.

    >>> annotators, row = AnnotatorStatistics(), AnnotatedRow(1, [("ann", "ok")])
    >>> annotators.observe(row)
    >>> row.add_vote("bob", "fraud"); annotators.observe(row)
    >>> annotators.to_json()["bob"]
    {'labels': 1, 'shared': 1, 'agreed': 0, 'judged': 0, 'confirmed': 0}
    """

    def __init__(self) -> None:
        self._known: dict[str, AnnotatorCounts] = {}

    def get_or_create(self, source: str | None) -> AnnotatorCounts:
        """Return the statistics of the annotator `source`; a new annotator is added."""
        name = source or ""
        if name not in self._known:
            if len(self._known) >= MOST_SOURCES:
                name = _OTHERS
            self._known.setdefault(name, AnnotatorCounts())
        return self._known[name]

    def observe(self, row: AnnotatedRow) -> None:
        """Count the newest vote of `row`. The row's earlier votes must have been counted before."""
        source, label = row.votes[-1]
        who, others = self.get_or_create(source), row.votes[:-1]
        who.labels += 1
        if not others and row.guess is not None:
            who.judged += 1
            who.confirmed += label == row.guess
        for other, said in others:
            for one in (who, self.get_or_create(other)):
                one.shared += 1
                one.agreed += label == said
        if len(others) == 1 and row.guess is not None:  # now it counts as shared
            first, said = others[0]
            self.get_or_create(first).judged -= 1
            self.get_or_create(first).confirmed -= said == row.guess

    def to_json(self) -> dict[str, dict[str, int]]:
        """Return the statistics of each named annotator, as JSON values."""
        return {name: asdict(one) for name, one in self._known.items() if name}

    def state(self) -> list[Any]:
        """Return the mutable state for `resume`, as JSON values."""
        return [(name, *astuple(one)) for name, one in self._known.items()]

    def resume(self, state: Iterable[Any]) -> None:
        """Set the state to one that the method `state` returned."""
        self._known = {name: AnnotatorCounts(*counts) for name, *counts in state}


def estimate_reliability(n_right: Any, n_labels: Any) -> Any:
    """Return the estimated share of correct labels if `n_right` of `n_labels` were correct."""
    return np.clip((n_right + _PRIOR_RIGHT) / (n_labels + _PRIOR), _WORST, _BEST)


def confident_label(classes: Sequence[Label], probabilities: np.ndarray) -> Label | None:
    """Return the class of the largest probability (K,) if it is at least 0.9, else None."""
    k = int(probabilities.argmax())
    return classes[k] if probabilities[k] >= _SURE else None
