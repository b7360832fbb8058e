"""What a batch changed: its messages, and what was learned."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from streamboost.active.query import Requests
from streamboost.connectors.base import Sink
from streamboost.connectors.messages.decoded import Records
from streamboost.connectors.messages.labels import LabelKind, as_json
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.written import DeadLetter, Prediction, Request, features_of
from streamboost.pipelines.engine.join.held_records import HeldRecord, unpacked
from streamboost.pipelines.engine.join.joined import Joined
from streamboost.pipelines.state.commands import Command
from streamboost.stream.scoring import Scored
from streamboost.stream.training.schedule import Training

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = [
    "Effects",
    "Messages",
    "Outputs",
    "chain",
    "predictions",
    "request_of",
]


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where a pipeline's messages go."""

    predictions: Sink
    requests: Sink
    dead_letters: Sink

    def close(self) -> None:
        """Close the three."""
        for sink in (self.predictions, self.requests, self.dead_letters):
            sink.close()


@dataclass(frozen=True, slots=True)
class Messages:
    """What a batch writes."""

    predictions: list[bytes]
    requests: list[bytes]
    dead_letters: list[bytes]

    def writes(self, outputs: Outputs) -> list[tuple[Sink, list[bytes]]]:
        """Return which messages go where."""
        return [
            (outputs.predictions, self.predictions),
            (outputs.requests, self.requests),
            (outputs.dead_letters, self.dead_letters),
        ]


@dataclass(frozen=True, slots=True)
class Effects:
    """All that one step did, for the commit and for whoever watches.

    `records` are those that were predicted, `scored` their predictions, `asked` the requests,
    `joined` the labels that were learned, `bootstrapped` how many of them were known beforehand,
    `ignored` how many of each kind were dropped, `commands` those it obeyed,
    `gap` the batches before it (first, last) whose labels are lost,
    `trainings` those that were started, `committee` the one that serves now, `promoted` its
    version where it began to in this batch, `dead` the dead letters, `read` how many messages it
    took in. `digest` chains it all to the batches before.
    """

    sequence: int
    tick: int
    records: Records
    scored: Scored
    asked: Requests
    joined: Joined
    bootstrapped: int
    ignored: dict[str, int]
    commands: Sequence[Command]
    gap: tuple[int, int] | None
    trainings: Sequence[Training]
    committee: "Committee | None"
    promoted: int | None
    messages: Messages
    dead: Sequence[DeadLetter]
    read: dict[str, int]
    digest: str
    journal: bytes


def predictions(
    records: Records, scored: Scored, asked: Requests, sequence: int, kind: LabelKind | None = None
) -> list[bytes]:
    """Return the predictions of a batch, in the order of its records; labels are of `kind`."""
    best = scored.probabilities.max(axis=1, initial=-np.inf)
    known = set(asked.ids)
    rows = zip(
        records.ids,
        records.times,
        [as_json(label, kind) for label in scored.labels.tolist()],
        np.where(best < 0, np.nan, best).tolist(),
        scored.margins.tolist(),
        strict=True,
    )
    return [
        Prediction(
            id,
            time,
            as_json(label, kind),
            probability,
            margin,
            scored.version,
            id in known,
            sequence,
        ).encode()
        for id, time, label, probability, margin in rows
    ]


def request_of(
    id: str,
    record: HeldRecord,
    scored: Scored,
    row: int,
    *,
    schema: Schema,
    utility: float,
    propensity: float,
    expires: int | None,
    sequence: int,
) -> Request:
    """Return the request of a record, with all that somebody needs to answer it.

    Row `row` of `scored` is what is predicted for it now.
    """
    probabilities = scored.probabilities[row].tolist()
    return Request(
        id=id,
        time=record.time,
        features=shown(schema.features, record),
        label=as_json(scored.labels[row], schema.labels_are),
        probabilities=dict(zip(scored.classes.tolist(), probabilities, strict=True)),
        utility=utility,
        propensity=propensity,
        expires=expires,
        sequence=sequence,
    )


def shown(features: Sequence[str], record: HeldRecord) -> dict[str, Any]:
    """Return what a record holds, as it came, or by its row where nothing else is kept."""
    if record.values is not None:
        return dict(zip(features, unpacked(record.values), strict=False))
    return features_of(features, record.x[-len(features) :])  # behind the labels' lags


def chain(
    digest: str,
    records: Records,
    messages: Messages,
    joined: Joined,
    trainings: Sequence[Training],
) -> str:
    """Return the BLAKE2b of the digest before and what this batch changed.

    That is the features it took in, every message it wrote, the labels it learned and the
    trainings it started.
    """
    hashed = hashlib.blake2b(bytes.fromhex(digest), digest_size=32)
    hashed.update(records.X.tobytes())
    for written in (messages.predictions, messages.requests, messages.dead_letters):
        hashed.update(f"{len(written)}\n".encode())
        for message in written:
            hashed.update(message + b"\n")
    learned = [joined.ids, joined.labels, joined.propensity]
    hashed.update(msgspec.json.encode([learned, [asdict(training) for training in trainings]]))
    return hashed.hexdigest()
