"""Those who give labels, and how far their labels can be relied on."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

import numpy as np

from streamboost.stream.checks import Label
from streamboost.stream.labelled_rows.labelled import NamedRow

__all__ = ["MOST_SOURCES", "Annotator", "Annotators", "guess_of", "reliable"]

MOST_SOURCES = 1_000
"""Names that are told apart: labels whose names never come again cannot fill the memory."""

_OTHERS = "further names"

_SURE = 0.9
"""The probability from which on a prediction is confident."""

_PRIOR, _PRIOR_RIGHT = 5.0, 4.5
"""Labels that a stranger is thought to have given, and how many of them right."""

_WORST, _BEST = 0.05, 0.98


@dataclass(slots=True)
class Annotator:
    """What somebody's labels came to.

    Attributes
    ----------
    labels
        How many were learned, also of records that others had labelled before.
    shared, agreed
        Pairs with a label of somebody else of the same record, and those of them that were alike.
    judged, confirmed
        Labels of records that nobody else labelled, where the prediction on arrival was confident
        (0.9 or more), and those of them that it was.
    """

    labels: int = 0
    shared: int = 0
    agreed: int = 0
    judged: int = 0
    confirmed: int = 0

    @property
    def reliability(self) -> float:
        """The share of right labels that this makes likely, between 0.05 and 0.98."""
        return float(reliable(self.agreed + self.confirmed, self.shared + self.judged))


class Annotators:
    """Counts what everybody's labels came to. Labels of unknown origin are all one's, without name.

    >>> annotators, row = Annotators(), NamedRow(1, [("ann", "ok")])
    >>> annotators.note(row)
    >>> row.say("bob", "fraud"); annotators.note(row)
    >>> annotators.in_numbers()["bob"]
    {'labels': 1, 'shared': 1, 'agreed': 0, 'judged': 0, 'confirmed': 0}
    """

    def __init__(self) -> None:
        self._known: dict[str, Annotator] = {}

    def of(self, source: str | None) -> Annotator:
        """Return what is counted of somebody."""
        name = source or ""
        if name not in self._known:
            if len(self._known) >= MOST_SOURCES:
                name = _OTHERS
            self._known.setdefault(name, Annotator())
        return self._known[name]

    def note(self, row: NamedRow) -> None:
        """Count the newest label of a row; what its sources had said before is counted."""
        source, label = row.votes[-1]
        who, others = self.of(source), row.votes[:-1]
        who.labels += 1
        if not others and row.guess is not None:
            who.judged += 1
            who.confirmed += label == row.guess
        for other, said in others:
            for one in (who, self.of(other)):
                one.shared += 1
                one.agreed += label == said
        if len(others) == 1 and row.guess is not None:  # it is shared from now on
            first, said = others[0]
            self.of(first).judged -= 1
            self.of(first).confirmed -= said == row.guess

    def in_numbers(self) -> dict[str, dict[str, int]]:
        """Return what is counted of each who is known by name, as JSON can hold it."""
        return {name: asdict(one) for name, one in self._known.items() if name}

    def state(self) -> list[Any]:
        """Return all that changes, as JSON can hold it."""
        return [(name, *astuple(one)) for name, one in self._known.items()]

    def resume(self, state: Iterable[Any]) -> None:
        """Go on from what `state` returned."""
        self._known = {name: Annotator(*counts) for name, *counts in state}


def reliable(right: Any, given: Any) -> Any:
    """Return the share of right labels that so many `right` of those `given` make likely."""
    return np.clip((right + _PRIOR_RIGHT) / (given + _PRIOR), _WORST, _BEST)


def guess_of(classes: Sequence[Label], probabilities: np.ndarray) -> Label | None:
    """Return the label that probabilities (K,) say with confidence; None: they do not."""
    k = int(probabilities.argmax())
    return classes[k] if probabilities[k] >= _SURE else None
