"""Compares the labels of each annotator with the labels of the others.

Relabel requests are a biased sample, since a record is requested again when its label looks wrong.
A label is therefore compared only if the comparison does not depend on a relabel request: with a
confident prediction on arrival, or with another label given before any relabel request. Votes that
arrive later count for such labels, too.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from streamboost.checks import Label

SURE = 0.9
"""Probability from which a prediction counts as confident."""

COUNTED = ("compared", "against", "together", "outvoted")
"""Names of the counts of an annotator: compared labels; compared labels in conflict with the
others; records with labels of others; and such records on which a majority chose another class."""


class Vote(NamedTuple):
    """A label that an annotator (`source`, None if unnamed) gave to a record.

    `tick` is the batch time in milliseconds since the epoch.
    """

    tick: int
    label: str
    source: str | None


def current_votes(labels: Iterable[tuple[int, Label | None, str | None]]) -> list[Vote]:
    """Return the votes on a record from its labels, which are (tick, label, source) in time order.

    Only the last label of each named annotator counts. All labels without a name count. A label of
    None removes all labels before it.

    >>> found = current_votes([(1, "a", "ann"), (2, "b", None), (3, "b", "ann"), (4, 7, "bob")])
    >>> [(vote.source, vote.label) for vote in found]
    [(None, 'b'), ('ann', 'b'), ('bob', '7')]
    """
    votes: list[Vote] = []
    for tick, label, source in labels:
        if source is not None:
            votes = [vote for vote in votes if vote.source != source]
        if label is None:
            votes = []  # a retraction removes the labels of all annotators
        else:
            votes.append(Vote(tick, str(label), source))
    return votes


class AnnotatorAgreement:
    """Counts how often each annotator agrees and conflicts with the other annotators.

    >>> annotators = AnnotatorAgreement()
    >>> labels = [(1, "ok", "ann"), (2, "no", "bob"), (3, "no", "eve")]
    >>> annotators.add_record("7", {"labels": labels})
    >>> annotators.agreement_counts("ann")
    {'compared': 1, 'against': 1, 'together': 1, 'outvoted': 1}
    """

    def __init__(self) -> None:
        self._found: dict[str, list[tuple[str, str]]] = {}
        self._counts: Counter[tuple[str, str]] = Counter()

    def agreement_counts(self, source: str) -> dict[str, int]:
        """Map each name in `COUNTED` to the annotator's count of that name."""
        return {name: self._counts[source, name] for name in COUNTED}

    def add_record(self, id: str, record: Mapping[str, Any]) -> None:
        """Count the votes on a record. Earlier counts of the same `id` are removed first."""
        self.remove_record(id)
        if found := list(_counts_to_increment(record)):
            self._found[id] = found
            self._counts.update(found)

    def remove_record(self, id: str) -> None:
        """Subtract the counts of the record `id`, if it was added."""
        for one in self._found.pop(id, ()):
            self._counts[one] -= 1
            if not self._counts[one]:
                del self._counts[one]


def _counts_to_increment(record: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield a pair (annotator, name of the count) for each count that a record increases by one."""
    votes, again, guess = (
        current_votes(record["labels"]),
        record.get("again"),
        _confident_prediction(record),
    )
    for own in votes:
        if own.source is None:
            continue
        others = [vote for vote in votes if vote is not own]
        votes_by_label = Counter(vote.label for vote in others)
        same, other = (
            votes_by_label[own.label],
            _most_votes_for_another_label(votes_by_label, own.label),
        )
        if others:
            yield own.source, "together"
        if other > same + 1:
            yield own.source, "outvoted"
        if again is None or own.tick <= again:
            has_early_vote = any(again is None or vote.tick <= again for vote in others)
            is_against = _conflicts_with_other_votes(
                votes_by_label, own.label, guess, has_early_vote
            )
            if is_against is not None:
                yield own.source, "compared"
            if is_against:
                yield own.source, "against"


def _conflicts_with_other_votes(
    votes_by_label: Counter[str], own_label: str, prediction: str | None, has_early_vote: bool
) -> bool | None:
    """Return whether an annotator's label conflicts with the other votes; None if undecided.

    The label conflicts if another label has more votes. A confident `prediction` counts as a vote.
    Without a prediction, the result is None if no other vote is older than the relabel request
    (`has_early_vote`), or if the other label is ahead by a single vote.
    """
    if prediction is not None:
        voices = votes_by_label + Counter([prediction])
        return _most_votes_for_another_label(voices, own_label) > voices[own_label]
    same, other = (
        votes_by_label[own_label],
        _most_votes_for_another_label(votes_by_label, own_label),
    )
    return other > same if has_early_vote and other != same + 1 else None


def _most_votes_for_another_label(votes_by_label: Counter[str], label: str) -> int:
    return max((n for other, n in votes_by_label.items() if other != label), default=0)


def _confident_prediction(record: Mapping[str, Any]) -> str | None:
    """Return the label predicted on arrival; None if its probability was below `SURE`."""
    label = record.get("label")
    share = (record.get("probabilities") or {}).get(str(label))
    return str(label) if share is not None and share >= SURE else None
