"""What a join says of labels, and what it remembers of records and requests."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamboost.pipelines.engine.join.held_records import HeldRecord
from streamboost.pipelines.engine.join.values import unpacked
from streamboost.pipelines.span import Moment, Span
from streamboost.stream.checks import Label
from streamboost.stream.learner import StreamLearner
from streamboost.stream.training.schedule import Training

__all__ = [
    "IGNORED",
    "Gone",
    "JoinCounts",
    "Joined",
    "Learned",
    "Nothing",
    "Request",
    "Waiting",
    "WaitingLabels",
    "run_out",
]

IGNORED = ("late", "expired", "duplicate", "conflicting", "unknown", "void")
"""The kinds of labels that are dropped."""


@dataclass(slots=True)
class JoinCounts:
    """What the join has seen since the pipeline began."""

    records: int = 0
    duplicate_ids: int = 0
    labels: int = 0
    answered: int = 0
    unasked: int = 0
    early: int = 0
    late: int = 0
    expired: int = 0
    duplicate: int = 0
    conflicting: int = 0
    unknown: int = 0
    corrected: int = 0
    taken_back: int = 0
    void: int = 0


class Learned(Protocol):
    """What a join has to know of those who learn."""

    @property
    def on_conflict(self) -> str | None:
        """Which of several labels of a record holds; None: only the first comes there."""

    def label_of(self, id: str) -> Label | None:
        """Return the label of a record that may still get another; None: it has none."""

    def has_row(self, id: str) -> bool:
        """Tell whether a record was learned and may still get another label."""


class Nothing:
    """Nobody has learned anything."""

    on_conflict = None

    def label_of(self, id: str) -> Label | None:
        """Return None."""
        return None

    def has_row(self, id: str) -> bool:
        """Return False."""
        return False


class Again(NamedTuple):
    """Another label of a record that was learned before; None takes its label back."""

    id: str
    label: Label | None
    source: str | None
    values: bytes | None


@dataclass(slots=True)
class Joined:
    """Labels that met their records, in the order to learn them."""

    ids: list[str] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    propensity: list[float] = field(default_factory=list)
    predicted: list[Label | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    sources: list[str | None] = field(default_factory=list)
    again: list[Again] = field(default_factory=list)
    """Labels of records learned before, to be taken in after the others."""
    standing: dict[str, Label | None] = field(default_factory=dict)
    """Labels of records as of these, None where a label was taken back."""

    def take_again(
        self, id: str, label: Label | None, source: str | None, values: bytes | None
    ) -> None:
        """Append another label of a record, of which `values` may still be held."""
        self.again.append(Again(id, label, source, values))

    def take(
        self,
        id: str,
        record: HeldRecord,
        label: Label,
        propensity: float,
        source: str | None = None,
    ) -> None:
        """Append one labelled record."""
        self.ids.append(id)
        self.standing[id] = label
        self.sources.append(source)
        self.rows.append(record.x if record.x.size or record.values is None else None)
        self.labels.append(label)
        self.propensity.append(propensity)
        self.predicted.append(record.predicted)
        self.values.append(record.values)

    def teach(self, learner: StreamLearner, tick: int) -> tuple[Training, ...]:
        """Let `learner` learn them; return the trainings that were started."""
        started = self._teach_new(learner, tick) if self.ids else ()
        return started + self._teach_again(learner, tick) if self.again else started

    def _teach_again(self, learner: StreamLearner, tick: int) -> tuple[Training, ...]:
        return learner.correct(
            [one.id for one in self.again],
            [one.label for one in self.again],
            tick=tick,
            sources=[one.source for one in self.again],
            records=[None if one.values is None else unpacked(one.values) for one in self.again],
        )

    def _teach_new(self, learner: StreamLearner, tick: int) -> tuple[Training, ...]:
        mixed = learner.features is not None
        return learner.learn(
            self.ids,
            self.rows if mixed else np.stack(self.rows),
            self.labels,
            tick=tick,
            propensity=np.array(self.propensity),
            predicted=self.predicted,
            records=[unpacked(held or b"[]") for held in self.values] if mixed else None,
            sources=self.sources,
        )


class Gone(NamedTuple):
    """What is remembered of a record that is no longer held."""

    since: Moment
    label: Label | None
    expired: bool


class Request(NamedTuple):
    """A label that was asked for and has not come; `since` is what it expires by.

    Who must not answer is named where it was asked for again.
    """

    since: Moment
    propensity: float
    asked: Moment
    not_by: Sequence[str] | None = None


class Waiting(NamedTuple):
    """A label that waits for the record `id` since `since`, and who gave it."""

    since: Moment
    id: str
    label: Label
    source: str | None = None


class WaitingLabels:
    """Labels that wait for their records, in the order in which they came.

    >>> waiting = WaitingLabels()
    >>> for label in ("grass", "sky"):
    ...     waiting.add(Waiting(Moment(0, 0), "a", label))
    >>> len(waiting), [one.label for one in waiting.pop("a")], "a" in waiting
    (2, ['grass', 'sky'], False)
    """

    def __init__(self, labels: Iterable[Waiting] = ()) -> None:
        self._labels: dict[int, Waiting] = {}
        self._numbers: dict[str, list[int]] = {}  # of the labels of each record
        self._n_added = 0
        for one in labels:
            self.add(one)

    def __len__(self) -> int:
        return len(self._labels)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._labels.values())

    def __contains__(self, id: str) -> bool:
        return id in self._numbers

    def add(self, label: Waiting) -> None:
        """Let a label wait; it is the newest."""
        self._labels[self._n_added] = label
        self._numbers.setdefault(label.id, []).append(self._n_added)
        self._n_added += 1

    def pop(self, id: str) -> list[Waiting]:
        """Return the labels of a record, the oldest first; none of them waits any more."""
        return [self._labels.pop(number) for number in self._numbers.pop(id, [])]

    def expire(self, span: Span, now: Moment, at_least: int = 0) -> int:
        """Drop the labels whose `span` is over, and the oldest `at_least`; return how many."""
        n = max(len(run_out(self._labels, span, now)), min(at_least, len(self)))
        for number in list(islice(self._labels, n)):
            id = self._labels.pop(number).id
            self._numbers[id].remove(number)
            if not self._numbers[id]:
                del self._numbers[id]
        return n


def run_out(table: Mapping[Any, Any], span: Span, now: Moment) -> list[Any]:
    """Return the keys at the front of `table` whose `span`, from their first field, is over."""
    over, seen = [], None
    for key, entry in table.items():
        since = entry[0]
        if since is not seen:  # those of a batch have the same
            if not span.over(since, now):
                break
            seen = since
        over.append(key)
    return over
