"""What came of labels: those that met their records, and how many did what."""

from dataclasses import dataclass, field

import numpy as np

from streamboost.pipelines.engine.held_records import Arrival, Label

__all__ = ["IGNORED", "JoinCounts", "Joined"]

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
    rows: list[np.ndarray] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    propensity: list[float] = field(default_factory=list)
    predicted: list[Label | None] = field(default_factory=list)

    def take(self, id: str, arrival: Arrival, label: Label, propensity: float) -> None:
        """Append one labelled record."""
        self.ids.append(id)
        self.rows.append(arrival.x)
        self.labels.append(label)
        self.propensity.append(propensity)
        self.predicted.append(arrival.predicted)
