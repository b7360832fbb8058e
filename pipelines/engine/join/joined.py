"""What a join says of labels, and what it remembers of records and requests."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamboost.pipelines.engine.join.held_records import HeldRecord
from streamboost.pipelines.engine.join.values import unpacked
from streamboost.pipelines.span import Moment
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
        """Return the label of a record that may still get another; None: of no such record."""


class Nothing:
    """Nobody has learned anything."""

    on_conflict = None

    def label_of(self, id: str) -> Label | None:
        """Return None."""
        return None


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

    def take_again(
        self, id: str, label: Label | None, source: str | None, values: bytes | None
    ) -> None:
        """Append another label of a record, of which `values` may still be held."""
        self.again.append(Again(id, label, source, values))

    def keeps(self, id: str) -> bool:
        """Tell whether a record's label was to be taken back; it is not, now that another came."""
        left = [one for one in self.again if one.id != id or one.label is not None]
        was_to_leave = len(left) < len(self.again)
        self.again = left
        return was_to_leave

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
    """A label that waits for its record since `since`, and who gave it."""

    since: Moment
    label: Label
    source: str | None = None
