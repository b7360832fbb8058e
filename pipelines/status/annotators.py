"""Compares the labels of each annotator with the labels of the others.

A record is asked about again because its label looks wrong, so what comes of that is no fair
sample: neither of those whose labels are looked at, nor of those who answer then. Labels are
compared that something tells of whether they look wrong or not: a confident prediction on arrival,
or another label that nobody had asked for again. What is said of these, also later on, decides.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from streamboost.stream.checks import Label

__all__ = ["Annotators", "votes_of"]

SURE = 0.9
"""The probability from which on a prediction is confident."""

COUNTED = ("compared", "against", "together", "outvoted")
"""Labels that are compared, and those of them that are against the others; records that others
labelled, too, and those of them of which more people said one other thing than said the same."""


class Vote(NamedTuple):
    """What somebody said of a record, and at what tick."""

    tick: int
    label: str
    source: str | None


def votes_of(labels: Iterable[tuple[int, Label | None, str | None]]) -> list[Vote]:
    """Return what each who is known by name said last of a record, and all that others said.

    >>> found = votes_of([(1, "a", "ann"), (2, "b", None), (3, "b", "ann"), (4, 7, "bob")])
    >>> [(vote.source, vote.label) for vote in found]
    [(None, 'b'), ('ann', 'b'), ('bob', '7')]
    """
    votes: list[Vote] = []
    for tick, label, source in labels:
        if source is not None:
            votes = [vote for vote in votes if vote.source != source]
        if label is None:
            votes = []  # it was taken back, whoever had said it
        else:
            votes.append(Vote(tick, str(label), source))
    return votes


class Annotators:
    """Counts what others say of the labels of records that are noted.

    >>> annotators = Annotators()
    >>> annotators.note("7", {"labels": [(1, "ok", "ann"), (2, "no", "bob"), (3, "no", "eve")]})
    >>> annotators.of("ann")
    {'compared': 1, 'against': 1, 'together': 1, 'outvoted': 1}
    """

    def __init__(self) -> None:
        self._found: dict[str, list[tuple[str, str]]] = {}
        self._counts: Counter[tuple[str, str]] = Counter()

    def of(self, source: str) -> dict[str, int]:
        """Return what is counted of somebody, by the names of `COUNTED`."""
        return {name: self._counts[source, name] for name in COUNTED}

    def note(self, id: str, record: Mapping[str, Any]) -> None:
        """Count what is known of the record `id` by now, in the place of what was."""
        self.forget(id)
        if found := list(_counted(record)):
            self._found[id] = found
            self._counts.update(found)

    def forget(self, id: str) -> None:
        """Count the record `id` no more."""
        for one in self._found.pop(id, ()):
            self._counts[one] -= 1
            if not self._counts[one]:
                del self._counts[one]


def _counted(record: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Give each source and the names of what is to be counted of it."""
    votes, again, guess = votes_of(record["labels"]), record.get("again"), _guess(record)
    for own in votes:
        if own.source is None:
            continue
        others = [vote for vote in votes if vote is not own]
        said = Counter(vote.label for vote in others)
        same, other = said[own.label], _most(said, own.label)
        if others:
            yield own.source, "together"
        if other > same + 1:
            yield own.source, "outvoted"
        if again is None or own.tick <= again:
            unbidden = any(again is None or vote.tick <= again for vote in others)
            is_against = _against(said, own.label, guess, unbidden)
            if is_against is not None:
                yield own.source, "compared"
            if is_against:
                yield own.source, "against"


def _against(said: Counter[str], own: str, guess: str | None, unbidden: bool) -> bool | None:
    """Tell whether a label is against what others `said`; None: nothing tells, or they are even."""
    if guess is not None:
        voices = said + Counter([guess])
        return _most(voices, own) > voices[own]
    same, other = said[own], _most(said, own)
    return other > same if unbidden and other != same + 1 else None


def _most(said: Counter[str], but: str) -> int:
    """Return how often the commonest was said of all but one."""
    return max((n for label, n in said.items() if label != but), default=0)


def _guess(record: Mapping[str, Any]) -> str | None:
    """Return what was predicted of a record on arrival, if that was confident."""
    label = record.get("label")
    share = (record.get("probabilities") or {}).get(str(label))
    return str(label) if share is not None and share >= SURE else None
