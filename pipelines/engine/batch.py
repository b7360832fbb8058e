"""One batch: what enters it, and what it changed."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from streamboost.active.query import Requests
from streamboost.connectors.base import Following, Message, Sink
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.labels import as_json
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.written import DeadLetter, Prediction, encode_all
from streamboost.features.paths import getter
from streamboost.pipelines.engine.join import Joined
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.journal import JOINED, JournalEntry, Ranges
from streamboost.stream.doubts import Relabels
from streamboost.stream.scoring import Scored
from streamboost.stream.training.schedule import Training

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = [
    "READ",
    "Effects",
    "Inputs",
    "Messages",
    "Outputs",
    "chain",
    "letters",
    "predictions",
]

READ = ("records", "labels", "bootstrap")
"""The sources that a replay reads again."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """One batch, complete: what a step works on, live or replayed.

    Messages stand in canonical order: by partition, then offset. `bootstrap` are records with
    their labels, known beforehand: a batch of them has no others.

    `caught_up` names those of records and labels of which everything had been read at some time
    since the batch before was polled; `resumed` says that nobody looked for a while: it is the
    first batch of a run. `deleted` are the offsets that retention took away before they were read.
    `bookmarks` are those of sources that changed with the batch.
    """

    tick: int
    ranges: Ranges
    records: list[Message]
    labels: list[Message]
    commands: list[Command] = field(default_factory=list)
    bootstrap: list[Message] = field(default_factory=list)
    caught_up: Sequence[str] = JOINED
    resumed: bool = False
    deleted: Ranges = field(default_factory=dict)
    bookmarks: dict[str, str] = field(default_factory=dict)

    def count(self) -> dict[str, int]:
        """Return how many messages there are of each kind that a replay reads again."""
        counts = {name: len(getattr(self, name)) for name in READ}
        return {name: n for name, n in counts.items() if n or name != "bootstrap"}

    def count_deleted(self) -> int:
        """Return how many offsets were deleted before they were read."""
        return sum(end - start for gaps in self.deleted.values() for start, end in gaps.values())

    def entry(self, **done: Any) -> JournalEntry:
        """Return what the journal says of the batch, and of what was `done` with it."""
        return JournalEntry(
            format=3,
            ranges=self.ranges,
            read=self.count(),
            tick=self.tick,
            commands=self.commands,
            caught_up=self.caught_up,
            resumed=self.resumed,
            deleted=self.deleted,
            bookmarks=self.bookmarks,
            **done,
        )


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

    predictions: Following
    requests: Following
    dead_letters: Following

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
    `again` those about labels that look wrong, whose messages stand behind the others',
    `joined` the labels that were learned, `bootstrapped` how many of them were known beforehand,
    `ignored` how many of each kind were dropped, `commands` those it obeyed,
    `gap` the batches before it (first, last) whose labels are lost,
    `trainings` those that were started, `committee` the one that serves now, `promoted` its
    version where it began to in this batch, `dead` the dead letters, `read` how many messages it
    took in. `digest` chains it all to the batches before. Where scoring is apart, `records` are
    those that were asked about, and `unasked` says how many others there were.
    """

    sequence: int
    tick: int
    records: Records
    scored: Scored
    asked: Requests
    again: Relabels
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
    unasked: int = 0

    @property
    def n_predicted(self) -> int:
        """How many records were predicted, here or by scorers apart."""
        return len(self.records) + self.unasked


def predictions(
    records: Records,
    scored: Scored,
    asked: Requests,
    sequence: int,
    schema: Schema,
    partition: int | None = None,
    decided: np.ndarray | None = None,
) -> Following:
    """Return the predictions of a batch, in the order of its records, with what `schema` adds.

    `decided` (n,) are the classes decided on; None: nobody decides.
    """
    kind = schema.labels_are
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
    version = scored.version
    bare = [
        Prediction(id, time, label, probability, margin, version, id in known, sequence, partition)
        for id, time, label, probability, margin in rows
    ]
    whole = _filled(bare, records, scored, schema)
    if decided is not None:
        whole = [
            msgspec.structs.replace(one, decision=as_json(label, kind))
            for one, label in zip(whole, decided.tolist(), strict=True)
        ]
    return Following(encode_all(whole), records.messages)


def _filled(
    bare: list[Prediction], records: Records, scored: Scored, schema: Schema
) -> list[Prediction]:
    """Return predictions with the fields and the probabilities that the file asks for."""
    filled = bare
    if schema.include:
        fields = [_repeated(message.payload, schema.include) for message in records.messages]
        filled = [
            msgspec.structs.replace(one, fields=some)
            for one, some in zip(filled, fields, strict=True)
        ]
    if schema.probabilities:
        classes = scored.classes.tolist()
        filled = [
            msgspec.structs.replace(one, probabilities=dict(zip(classes, row, strict=True)))
            for one, row in zip(filled, scored.probabilities.tolist(), strict=True)
        ]
    return filled


def _repeated(payload: bytes, paths: Sequence[str]) -> dict[str, Any]:
    """Return what stands in a record at `paths`, as JSON."""
    try:
        record = msgspec.json.decode(payload)
        return {path: msgspec.Raw(msgspec.json.encode(getter(path)(record))) for path in paths}
    except RecursionError:  # it could be decoded, just
        return dict.fromkeys(paths)


def letters(dead: Sequence[DeadLetter], inputs: "Inputs") -> Following:
    """Return the messages of dead letters, each about the one that could not be used."""
    if not dead:
        return Following([], [])
    found = {
        (source, message.partition, message.offset): message
        for source in READ
        for message in getattr(inputs, source)
    }
    places = [(letter.source, *next(iter(letter.position.items()))) for letter in dead]
    return Following([letter.encode() for letter in dead], [found[place] for place in places])


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
        hashed.update(b"\n".join([*written, b""]))
    learned: list[Any] = [joined.ids, joined.labels, joined.propensity]
    if joined.again:
        learned.append([one[:3] for one in joined.again])
    hashed.update(msgspec.json.encode([learned, [asdict(training) for training in trainings]]))
    return hashed.hexdigest()
