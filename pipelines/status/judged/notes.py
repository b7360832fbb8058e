"""What batches ask about and learn, noted at little cost to the loop."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from streamboost.pipelines.engine.batch import Effects
from streamboost.pipelines.engine.pipeline import Pipeline
from streamboost.pipelines.status.requests import Sent
from streamboost.stream.checks import Label

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Judged", "JudgedNotes", "Seen", "Told"]

MOST_AT_ONCE = 500
"""Kept of those that were asked about, or labelled, between two publications."""


class Seen(msgspec.Struct, frozen=True):
    """A record that was asked about: as it was sent, and the row (D,) and committee behind that."""

    sent: Sent
    tick: int
    version: int
    margin: float | None
    x: np.ndarray
    committee: "Committee | None"


class Told(msgspec.Struct, frozen=True):
    """A label that was learned, at `tick`, and of what record; None: it was taken back."""

    id: str
    label: Label | None
    tick: int
    source: str | None = None
    predicted: Label | None = None
    x: np.ndarray | None = None
    values: bytes | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """What came since the last publication, in its order; `columns` are those of the rows.

    `on_conflict` says which of several labels of a record holds.
    """

    events: Sequence[tuple[str, Seen | Told]]
    columns: Sequence[str] = ()
    on_conflict: str | None = None


@dataclass(slots=True)
class JudgedNotes:
    """Notes what batches ask about and learn, at little cost to the loop."""

    pipeline: Pipeline
    _events: deque[tuple[str, Seen | Told]] = field(
        default_factory=lambda: deque(maxlen=2 * MOST_AT_ONCE)
    )

    def __call__(self, effects: Effects, asked: Mapping[str, Sent]) -> None:
        """Take in a batch, and what was sent of the records it asked about."""
        scored, tick, join = effects.scored, effects.tick, self.pipeline.join
        are_open = join.open_requests
        committee = self.pipeline.versions.held(scored.version) if asked else None
        ids = effects.records.ids if asked else ()
        rows = {id: row for row, id in enumerate(ids) if id in asked}
        for id, sent in list(asked.items())[-MOST_AT_ONCE:]:
            if id not in are_open:
                continue  # its label stood in the same batch, and says what there is to say
            margin = float(scored.margins[rows[id]]) if id in rows else None
            x = join.requested(id).x
            seen = Seen(sent, tick, scored.version, margin, x, committee)
            self._events.append((id, seen))
        joined = effects.joined
        for at in range(max(len(joined.ids) - MOST_AT_ONCE, 0), len(joined.ids)):
            id = joined.ids[at]
            told = Told(
                id,
                joined.labels[at],
                tick,
                joined.sources[at],
                joined.predicted[at],
                joined.rows[at],
                joined.values[at],
            )
            self._events.append((id, told))
        for again in joined.again[-MOST_AT_ONCE:]:
            self._events.append((again.id, Told(again.id, again.label, tick, again.source)))

    def take(self) -> Judged:
        """Return what came since this was called last."""
        events, self._events = list(self._events), deque(maxlen=2 * MOST_AT_ONCE)
        pipeline = self.pipeline
        learner = pipeline.learner
        return Judged(events, learner.columns(pipeline.schema.features), learner.on_conflict)
