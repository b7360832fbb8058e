"""Input and output of one batch: inputs, step result, output messages, and a hash of them."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from streamboost.connectors.base import ForwardedPayloads, Message, Sink
from streamboost.connectors.messages.decoding import Records, decode_json_object
from streamboost.connectors.messages.labels import label_to_json
from streamboost.connectors.messages.outgoing import DeadLetter, Prediction, encode_messages
from streamboost.connectors.messages.schema import Schema
from streamboost.features.paths import path_getter
from streamboost.learner.changes import DetectedChange
from streamboost.learner.label_quality import RelabelRequests
from streamboost.learner.schedule import Training
from streamboost.pipelines.runner.label_join import LabelledBatch
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.journal import JOINED, JournalEntry, Ranges
from streamboost.predictions import Scored
from streamboost.query.config import Requests

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

READ = ("records", "labels", "initial_data")
"""The sources that a replay reads again."""


@dataclass(frozen=True, slots=True)
class BatchInputs:
    """Input of one pipeline step: the messages of a batch, live or replayed.

    Messages are sorted by partition, then by offset. `initial_data` are labelled records of the
    initial data set; a batch that has such records has no others.

    `caught_up` names the sources (records, labels) that were read to their end at some time since
    the previous batch was polled. `resumed` is True for the first batch of a run. `deleted`
    contains the offset ranges that retention deleted before the pipeline read them.

    `bookmarks` maps a source name to a token that identifies the source's content, such as the
    current file. Only tokens that changed with this batch are listed.
    """

    batch_time_ms: int
    ranges: Ranges
    records: list[Message]
    labels: list[Message]
    commands: list[Command] = field(default_factory=list)
    initial_data: list[Message] = field(default_factory=list)
    caught_up: Sequence[str] = JOINED
    resumed: bool = False
    deleted: Ranges = field(default_factory=dict)
    bookmarks: dict[str, str] = field(default_factory=dict)

    def message_counts(self) -> dict[str, int]:
        """Return the number of messages from each source, keyed by source name, without commands.

        A replay reads this number of messages again; the journal entry contains the commands.
        """
        counts = {name: len(getattr(self, name)) for name in READ}
        return {name: n for name, n in counts.items() if n or name != "initial_data"}

    def count_deleted_offsets(self) -> int:
        """Return the number of offsets that retention deleted before they were read."""
        return sum(end - start for gaps in self.deleted.values() for start, end in gaps.values())

    def build_journal_entry(self, **result_fields: Any) -> JournalEntry:
        """Return the journal entry of the batch; `result_fields` are results of the step."""
        return JournalEntry(
            format=3,
            ranges=self.ranges,
            read=self.message_counts(),
            tick=self.batch_time_ms,
            commands=self.commands,
            caught_up=self.caught_up,
            resumed=self.resumed,
            deleted=self.deleted,
            bookmarks=self.bookmarks,
            **result_fields,
        )


@dataclass(frozen=True, slots=True)
class OutputSinks:
    """Sinks for the predictions, label requests and dead letters of a pipeline."""

    predictions: Sink
    requests: Sink
    dead_letters: Sink

    def close(self) -> None:
        """Close the three sinks."""
        for sink in (self.predictions, self.requests, self.dead_letters):
            sink.close()


@dataclass(frozen=True, slots=True)
class OutputMessages:
    """Encoded output messages of a batch for each sink."""

    predictions: ForwardedPayloads
    requests: ForwardedPayloads
    dead_letters: ForwardedPayloads

    def messages_by_sink(self, outputs: OutputSinks) -> list[tuple[Sink, list[bytes]]]:
        """Return a list of pairs: a sink, and the encoded messages to write to this sink."""
        return [
            (outputs.predictions, self.predictions),
            (outputs.requests, self.requests),
            (outputs.dead_letters, self.dead_letters),
        ]


@dataclass(frozen=True, slots=True)
class StepResult:
    """Result of one step, for the commit and for observers.

    Attributes
    ----------
    records, scored : predicted records and their predictions
    asked : label requests
    relabels : relabel requests for labels that look wrong; their messages follow those of `asked`
    joined : labels that were learned
    initial_labels : number of learned labels from the initial data set
    ignored : maps each kind of dropped label (`IGNORED`) to the number of these labels
    commands : commands that were applied
    gap : batches (first, last) before this one whose labels are lost; None: no gap
    trainings : trainings that were started
    changes : changes of the stream that were detected
    committee : the active committee
    promoted : version of the active committee if it was deployed in this batch
    dead : dead letters
    read : maps a source name to the number of messages read
    digest : hash chained over this batch and all before
    unrequested : with distributed scoring, the number of scored records without a label request;
        `records` does not contain them
    """

    sequence: int
    batch_time_ms: int
    records: Records
    scored: Scored
    asked: Requests
    relabels: RelabelRequests
    joined: LabelledBatch
    initial_labels: int
    ignored: dict[str, int]
    commands: Sequence[Command]
    gap: tuple[int, int] | None
    trainings: Sequence[Training]
    changes: Sequence[DetectedChange]
    committee: "Committee | None"
    promoted: int | None
    messages: OutputMessages
    dead: Sequence[DeadLetter]
    read: dict[str, int]
    digest: str
    journal: bytes
    unrequested: int = 0

    @property
    def n_predicted(self) -> int:
        """Number of records that were predicted, by this process or by scorers."""
        return len(self.records) + self.unrequested


def encode_predictions(
    records: Records,
    scored: Scored,
    requests: Requests,
    sequence: int,
    schema: Schema,
    partition: int | None = None,
    decisions: np.ndarray | None = None,
) -> ForwardedPayloads:
    """Return the prediction messages of a batch, in record order, with the fields set in `schema`.

    `requests` are the label requests of the batch. `partition` is the records' partition with
    distributed scoring, else None. `decisions` (n,) are the decided classes; None: no decisions are
    configured.
    """
    kind = schema.label_kind
    best = scored.probabilities.max(axis=1, initial=-np.inf)
    known = set(requests.ids)
    rows = zip(
        records.ids,
        records.times,
        [label_to_json(label, kind) for label in scored.labels.tolist()],
        np.where(best < 0, np.nan, best).tolist(),
        scored.margins.tolist(),
        strict=True,
    )
    version = scored.version
    bare = [
        Prediction(id, time, label, probability, margin, version, id in known, sequence, partition)
        for id, time, label, probability, margin in rows
    ]
    whole = _add_optional_fields(bare, records, scored, schema)
    if decisions is not None:
        whole = [
            msgspec.structs.replace(one, decision=label_to_json(label, kind))
            for one, label in zip(whole, decisions.tolist(), strict=True)
        ]
    return ForwardedPayloads(encode_messages(whole), records.messages)


def _add_optional_fields(
    predictions: list[Prediction], records: Records, scored: Scored, schema: Schema
) -> list[Prediction]:
    """Return the predictions with the record fields and probabilities that `schema` includes."""
    if schema.include:
        fields = [
            _included_field_values(message.payload, schema.include) for message in records.messages
        ]
        predictions = [
            msgspec.structs.replace(one, fields=some)
            for one, some in zip(predictions, fields, strict=True)
        ]
    if schema.probabilities:
        classes = scored.classes.tolist()
        predictions = [
            msgspec.structs.replace(one, probabilities=dict(zip(classes, row, strict=True)))
            for one, row in zip(predictions, scored.probabilities.tolist(), strict=True)
        ]
    return predictions


def _included_field_values(payload: bytes, paths: Sequence[str]) -> dict[str, Any]:
    """Return a mapping from each of `paths` to the record's value there, as raw JSON.

    `payload` is the record as JSON. If it is nested too deeply, all values are None.
    """
    try:
        record = decode_json_object(payload)
        return {path: msgspec.Raw(msgspec.json.encode(path_getter(path)(record))) for path in paths}
    except RecursionError:  # nested too deeply to encode, although decoding succeeded
        return dict.fromkeys(paths)


def encode_dead_letters(
    dead_letters: Sequence[DeadLetter], inputs: "BatchInputs"
) -> ForwardedPayloads:
    """Return the encoded dead letters; each keeps the key and headers of its rejected message."""
    if not dead_letters:
        return ForwardedPayloads([], [])
    found = {
        (source, message.partition, message.offset): message
        for source in READ
        for message in getattr(inputs, source)
    }
    places = [(letter.source, *next(iter(letter.position.items()))) for letter in dead_letters]
    return ForwardedPayloads(
        [letter.encode() for letter in dead_letters], [found[place] for place in places]
    )


def chain_digest(
    previous_digest: str,
    records: Records,
    messages: OutputMessages,
    labelled_batch: LabelledBatch,
    trainings: Sequence[Training],
) -> str:
    """Return the BLAKE2b hash (hex) of the previous digest and the changes of this batch.

    The changes are the features of its records, all output messages, the labels that were learned,
    and the trainings that were started.
    """
    hashed = hashlib.blake2b(bytes.fromhex(previous_digest), digest_size=32)
    hashed.update(records.X.tobytes())
    for written in (messages.predictions, messages.requests, messages.dead_letters):
        hashed.update(f"{len(written)}\n".encode())
        hashed.update(b"\n".join([*written, b""]))
    learned: list[Any] = [labelled_batch.ids, labelled_batch.labels, labelled_batch.propensity]
    if labelled_batch.corrections:
        learned.append([one[:3] for one in labelled_batch.corrections])
    hashed.update(msgspec.json.encode([learned, [asdict(training) for training in trainings]]))
    return hashed.hexdigest()
