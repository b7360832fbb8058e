"""What a join says of labels, and what it remembers of records and requests."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from streamboost.pipelines.engine.join.held_records import HeldRecord, unpacked
from streamboost.pipelines.span import Moment
from streamboost.stream.checks import Label
from streamboost.stream.learner import StreamLearner
from streamboost.stream.training.schedule import Training

__all__ = ["IGNORED", "Gone", "JoinCounts", "Joined", "Request"]

IGNORED = ("late", "expired", "duplicate", "conflicting", "unknown")
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


@dataclass(slots=True)
class Joined:
    """Labels that met their records, in the order to learn them."""

    ids: list[str] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    propensity: list[float] = field(default_factory=list)
    predicted: list[Label | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)

    def take(self, id: str, record: HeldRecord, label: Label, propensity: float) -> None:
        """Append one labelled record."""
        self.ids.append(id)
        self.rows.append(record.x if record.x.size or record.values is None else None)
        self.labels.append(label)
        self.propensity.append(propensity)
        self.predicted.append(record.predicted)
        self.values.append(record.values)

    def teach(self, learner: StreamLearner, tick: int) -> tuple[Training, ...]:
        """Let `learner` learn them; return the trainings that were started."""
        if not self.ids:
            return ()
        mixed = learner.features is not None
        return learner.learn(
            self.ids,
            self.rows if mixed else np.stack(self.rows),
            self.labels,
            tick=tick,
            propensity=np.array(self.propensity),
            predicted=self.predicted,
            records=[unpacked(held or b"[]") for held in self.values] if mixed else None,
        )


class Gone(NamedTuple):
    """What is remembered of a record that is no longer held."""

    since: Moment
    label: Label | None
    expired: bool


class Request(NamedTuple):
    """A label that was asked for and has not come; `since` is what it expires by."""

    since: Moment
    propensity: float
    asked: Moment
