"""Learner of distributed scoring: a pipeline that trains on the requests of scorers.

Instead of records, the learner reads the scoring log. The records of a batch are the records with
a label request, which are held until their labels arrive. For records without a request, the log
has only sums over their predictions. When a committee is deployed, the batch publishes a model
snapshot.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.checks import labels_to_array
from streamboost.connectors.base import ForwardedPayloads, Message, Sink
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.labels import Labels, label_to_json
from streamboost.connectors.messages.outgoing import DeadLetter, Request, Time
from streamboost.connectors.messages.values import encode_values_of_records
from streamboost.errors import GapError
from streamboost.learner.label_quality import RelabelRequests
from streamboost.pipelines.distributed.model_log import SnapshotEncoder
from streamboost.pipelines.distributed.scoring_log import (
    RequestEntry,
    ScoringLogEntry,
    requests_from_entries,
)
from streamboost.pipelines.models.recorded import score_recorded
from streamboost.pipelines.runner.batch import BatchInputs, OutputMessages, OutputSinks, StepResult
from streamboost.pipelines.runner.label_join import LabelledBatch
from streamboost.pipelines.runner.pipeline import Pipeline
from streamboost.pipelines.runner.requests import build_requests as requests_about
from streamboost.predictions import Scored, rename_classes
from streamboost.query.config import Requests
from streamboost.storage import Arrays, pack_json, unpack_json

_SEEN = "distributed"

_RATED_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class LearnerSinks(OutputSinks):
    """Sinks of the learner process: the sinks of a pipeline, and the model log for scorers."""

    committees: Sink

    def close(self) -> None:
        """Close all sinks."""
        for sink in (self.predictions, self.requests, self.dead_letters, self.committees):
            sink.close()


@dataclass(frozen=True, slots=True)
class _LearnerMessages(OutputMessages):
    """Output messages of a learner: dead letters, relabel requests and model snapshots.

    Scorers write the other requests. `publish` returns the messages of a model snapshot, which are
    built only for a commit; None: no snapshot is due.
    """

    relabel_requests: ForwardedPayloads
    publish: Callable[[], list[bytes]] | None

    def messages_by_sink(self, outputs: OutputSinks) -> list[tuple[Sink, list[bytes]]]:
        assert isinstance(outputs, LearnerSinks)
        editions = [] if self.publish is None else [(outputs.committees, self.publish())]
        again = [(outputs.requests, self.relabel_requests)] if self.relabel_requests else []
        return [(outputs.dead_letters, self.dead_letters), *again, *editions]


class LearningPipeline(Pipeline):
    """Pipeline that trains on the requests of scorers, instead of scoring records.

    Attributes
    ----------
    workers : maps a partition to its scorer with progress and lag, from the newest log entry
    """

    decides = False

    def __init__(self, *parts: Any, on_data_loss: str = "fail") -> None:
        super().__init__(*parts)
        self.workers: dict[str, dict[str, Any]] = {}
        self._on_data_loss = on_data_loss
        self._seen: dict[str, int] = {}
        self._publisher = SnapshotEncoder()
        self._is_published = False
        self._entries: list[ScoringLogEntry] = []
        self._kept: list[list[RequestEntry]] = []
        self._scored: list[Scored] = []

    def step(self, inputs: BatchInputs, trained_committee: Committee | None) -> StepResult:
        """Process one batch, as `Pipeline.step`, and publish a model snapshot if one is due.

        A snapshot is due in the first batch of a process, and if the committee, the fields or the
        classes changed.
        """
        is_new = not self._is_published or self.journal_extras.fields is not None
        is_new = is_new or any(command.label is not None for command in inputs.commands)
        effects = super().step(inputs, trained_committee)
        made, is_new = effects.messages, is_new or effects.promoted is not None
        publish = self.snapshot_messages if is_new else None
        n, asked = len(effects.asked), made.requests
        again = ForwardedPayloads(asked[n:], asked.about[n:])
        messages = _LearnerMessages(
            made.predictions, made.requests, made.dead_letters, again, publish
        )
        predicted = sum(entry.records for entry in self._entries)
        return replace(effects, messages=messages, unrequested=predicted - len(effects.records))

    def snapshot_messages(self) -> list[bytes]:
        """Return the encoded messages of a model snapshot of the current learner."""
        self._is_published = True
        return self._publisher.encode_snapshot(self.sequence, self.schema, self.learner)

    def snapshot(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the complete state of the pipeline: a dict of arrays, and the manifest."""
        arrays, manifest = super().snapshot()
        return arrays | {_SEEN: pack_json(self._seen)}, manifest

    def restore(self, arrays: Arrays, manifest: dict[str, Any]) -> None:
        """Restore the state that `snapshot` returned."""
        super().restore(arrays, manifest)
        self._seen = unpack_json(arrays[_SEEN])
        self.workers = manifest["workers"]

    def counters(self) -> dict[str, Any]:
        """Return the pipeline's counters; the entry "workers" has the counters of each scorer."""
        return super().counters() | {"workers": self.workers}

    def _decode_records(self, inputs: BatchInputs) -> tuple[Records, list[DeadLetter]]:
        """Return the requested records in the scoring log, without duplicates; no dead letters."""
        self._entries = [self._decode_log_entry(message) for message in inputs.records]
        asked = [one for entry in self._entries for one in entry.asked]
        fresh = iter(self.join.are_new_ids([one.id for one in asked]))
        self._kept = [[one for one in entry.asked if next(fresh)] for entry in self._entries]
        kept = [
            (one, message)
            for some, message in zip(self._kept, inputs.records, strict=True)
            for one in some
        ]
        names = self.schema.features
        rows = [one.values for one, _ in kept]
        is_mixed = self.learner.features is not None
        X = np.empty((len(rows), 0 if is_mixed else len(names)), dtype=np.float32)
        if rows and not is_mixed:
            X[:] = np.array(rows, dtype=np.float64)
        records = Records(
            ids=[one.id for one, _ in kept],
            times=[one.time for one, _ in kept],
            X=X,
            messages=[self._rebuild_record_message(one, message) for one, message in kept],
            values=[tuple(row) for row in rows] if is_mixed else None,
        )
        return records, []

    def _decode_log_entry(self, message: Message) -> ScoringLogEntry:
        """Decode a message of the scoring log, which must be the next of its partition.

        Updates the counters and the `workers` table. Raises GapError if entries are missing and
        `on_data_loss` is not "continue", or if the topic was recreated.
        """
        name = message.partition
        where = f"offset {message.offset} of partition {name} of the scoring log"
        entry = ScoringLogEntry.decode(message.payload, where)
        expected = self._seen.get(name, 0) + 1
        if entry.sequence < expected:
            raise GapError(
                f"{where} is batch {entry.sequence} instead of {expected}: the topic was "
                "recreated; give the pipeline another name and an empty state"
            )
        if entry.sequence > expected and self._on_data_loss != "continue":
            raise GapError(
                f"{where} is batch {entry.sequence} instead of {expected}: compaction removed the "
                "batches between before the learner read them, as it was stopped for too long; "
                'set [pipeline] on_data_loss = "continue" to continue without these batches'
            )
        self.lost_batches += entry.sequence - expected
        self._seen[name] = entry.sequence
        before = self.workers.get(name, {"records": 0, "dead_letters": 0, "deleted_unread": 0})
        self.dead_letters += entry.dead
        self.fields.add_counts(entry.unknown)
        deleted = entry.gap[1] - entry.gap[0] if entry.gap else 0
        self.deleted_unread += deleted
        self.workers[name] = {
            "worker": entry.worker,
            "version": entry.version,
            "sequence": entry.sequence,
            "offset": entry.end,
            "lag": entry.lag,
            "tick": entry.tick,
            "rate": _records_per_second(entry, before),
            "records": before["records"] + entry.records,
            "dead_letters": before["dead_letters"] + entry.dead,
            "deleted_unread": before["deleted_unread"] + deleted,
        }
        return entry

    def _rebuild_record_message(self, request: RequestEntry, message: Message) -> Message:
        """Rebuild a record's message, for the status pages, from its request in `message`."""
        names = self.schema.features
        shown = {self.schema.id: request.id} | dict(zip(names, request.values, strict=False))
        payload = msgspec.json.encode(shown)
        return Message(payload, message.partition, request.offset, len(payload), message.time)

    def _predict_and_query(self, records: Records, X: np.ndarray) -> tuple[Scored, Requests]:
        """Return the predictions of the requested records in the scoring log, and their requests.

        The learner reads only requested records, and does not predict them again. Labels of merged
        classes are mapped to their current classes. The predictions are those of another system, if
        these are evaluated.
        """
        self._scored = []
        for entry, kept in zip(self._entries, self._kept, strict=True):
            now = {label: self.classes.current_class(label) for label in entry.classes}
            mended = {label: into for label, into in now.items() if label != into}
            scored, asked = (
                rename_classes(entry.request_predictions(kept), mended),
                requests_from_entries(kept),
            )
            recorded = self._recorded_predictions(entry, kept)
            self._scored.append(scored if recorded is None else recorded)
            self.learner.observe_scored(scored, asked, entry.records, entry.decode_sums(), recorded)
        kept = [one for some in self._kept for one in some]
        classes = dict.fromkeys(k for each in self._scored for k in each.classes.tolist())
        place = {label: k for k, label in enumerate(classes)}
        P, row = np.zeros((len(kept), len(classes))), 0
        for each in self._scored:
            P[row : row + len(each), [place[label] for label in each.classes]] = each.probabilities
            row += len(each)
        version = max((each.version for each in self._scored), default=0)
        return Scored(
            np.concatenate([np.zeros(0, dtype=object), *(each.labels for each in self._scored)]),
            labels_to_array(list(classes)),
            P,
            np.concatenate([np.zeros(0), *(each.margins for each in self._scored)]),
            version,
        ), requests_from_entries(kept)

    def _recorded_predictions(
        self, entry: ScoringLogEntry, requests: Sequence[RequestEntry]
    ) -> Scored | None:
        """Return another system's predictions of `requests`, and count those of the whole `entry`.

        None: the learner's predictions are evaluated.
        """
        if self.recorded is None:
            return None
        self.recorded.add_counts(entry.recorded)
        if self.recorded.n_labels_alone:
            self.learner.evaluation.has_probabilities = False
        found = [dict(one.recorded) for one in requests]
        return score_recorded(found, self.schema.classes, self.classes.current_class)

    def _add_records_from_label_messages(
        self, labels: Labels, labelled_batch: LabelledBatch
    ) -> None:
        """Add records from the `features` of label messages, for records that the join lacks.

        Therefore, labels of records without a request are learned too. Pending labels of an added
        record are appended to `labelled_batch`.
        """
        for id, label, message in zip(labels.ids, labels.labels, labels.messages, strict=True):
            if label is not None and self.join.lacks_record(id) and not self.learner.has_row(id):
                self._add_record_from_label_message(id, message, labelled_batch)

    def _add_record_from_label_message(
        self, id: str, message: Message, labelled_batch: LabelledBatch
    ) -> None:
        if b'"features"' not in message.payload:
            return
        try:
            fields = msgspec.json.decode(message.payload)["features"]
        except (msgspec.MsgspecError, LookupError, TypeError, RecursionError):
            return  # the label itself is valid, and waits for its record
        if not isinstance(fields, dict):
            return
        record = msgspec.json.encode(fields | {self.schema.id: id})
        shown = msgspec.structs.replace(message, payload=record, size=len(record))
        records, _ = self.schema.decode([shown], source="labels")
        if not len(records):
            return
        records, X = self._encode_records(records)
        none = np.zeros(0)
        held = records.times, encode_values_of_records(records), self.learner, labelled_batch
        self.join.add_records(records.ids, X, [None], [], none, *held)

    def _encode_predictions(
        self, records: Records, scored: Scored, requests: Requests
    ) -> ForwardedPayloads:
        return ForwardedPayloads([], [])

    def _encode_requests(
        self,
        requests: Requests,
        relabel_requests: RelabelRequests,
        records: Records,
        scored: Scored,
    ) -> ForwardedPayloads:
        """Return the messages of relabel requests, and of the scorers' requests for the status."""
        names, expires = (
            self.schema.features,
            self.join.expires_after.end_time_ms(self.join.now),
        )
        known = self.join, self.learner, self.schema, self.sequence
        more = requests_about(requests_from_entries([]), relabel_requests, records, scored, *known)
        written = self._encode_scorer_requests(names, expires)
        return ForwardedPayloads([*written, *more], [*records.messages, *more.about])

    def _encode_scorer_requests(self, feature_names: Sequence[str], expires: Time) -> list[bytes]:
        return [
            Request(
                id=one.id,
                time=one.time,
                features=dict(zip(feature_names, one.values, strict=False)),
                label=label_to_json(label, self.schema.label_kind),
                probabilities=dict(zip(said.classes.tolist(), probabilities, strict=True)),
                utility=one.utility,
                propensity=one.propensity,
                expires=expires,
                sequence=entry.sequence,
            ).encode()
            for entry, some, said in zip(self._entries, self._kept, self._scored, strict=True)
            for one, label, probabilities in zip(
                some, said.labels, said.probabilities.tolist(), strict=True
            )
        ]


def _records_per_second(entry: ScoringLogEntry, previous_row: dict[str, Any]) -> float:
    """Return the exponential moving average of scored records per second.

    `previous_row` is the partition's previous row in `LearningPipeline.workers`.
    """
    seconds = max(entry.tick - previous_row.get("tick", entry.tick - 1_000), 1) / 1_000
    old = math.exp(-seconds / _RATED_SECONDS)
    return float(old * previous_row.get("rate", 0.0) + (1.0 - old) * entry.records / seconds)
