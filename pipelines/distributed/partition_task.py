"""Partition task: scores one partition, with its own label budget and window of utilities.

The state is restored from the newest entry of the scoring log, the records of the window, and the
model snapshot. After a rebalance, another scorer continues with the same state. Kafka Streams calls
such a unit a task.
"""

import base64
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from streamboost.connectors.base import ForwardedPayloads, Message
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.outgoing import DeadLetter
from streamboost.connectors.messages.values import encode_values_of_records
from streamboost.errors import ConnectorError
from streamboost.evaluation.sufficient_stats import UnlabelledSums
from streamboost.pipelines.config.durations import RecordCountAndBatchTime, WindowSize
from streamboost.pipelines.distributed.model_log import ModelSnapshot
from streamboost.pipelines.distributed.scoring_log import (
    RequestEntry,
    ScoringLogEntry,
    ScoringStepResult,
)
from streamboost.pipelines.models.recorded import ClassShares, RecordedPredictions, score_recorded
from streamboost.pipelines.runner.batch import (
    BatchInputs,
    OutputMessages,
    chain_digest,
    encode_dead_letters,
    encode_predictions,
)
from streamboost.pipelines.runner.field_counts import UnknownFieldCounts
from streamboost.pipelines.runner.label_join import LabelledBatch
from streamboost.pipelines.runner.record_window import HeldRecord
from streamboost.pipelines.runner.requests import build_request, feature_values
from streamboost.predictions import (
    Scored,
    fill_missing_probabilities,
    label_probabilities,
    top_probabilities,
)
from streamboost.query.config import QueryConfig, Requests
from streamboost.query.querier import Querier

_OF_QUERIER = ("budget", "draws", "places", "lots", "selection", "doubt")


class _Recorded(NamedTuple):
    """Predictions of another system for the records of a batch.

    `evaluated` has the learner's probabilities for the records without probabilities in `scored`.
    `counts` is the change of `RecordedPredictions.to_json`.
    """

    found: Sequence[ClassShares]
    scored: Scored
    evaluated: Scored
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """Settings that all partitions of a pipeline share.

    Attributes
    ----------
    query : query settings; `burst` is the total of all partitions
    seed : seed of the pipeline
    expires_after : time until a request expires
    worker : name of the scorer process
    prediction_field : field with the prediction of another system, which is evaluated; or None
    """

    query: QueryConfig
    seed: int
    expires_after: WindowSize
    worker: str
    prediction_field: str | None = None

    def query_config_per_partition(self, n_partitions: int) -> QueryConfig:
        """Return the query settings of one partition: an equal share of `burst`, with a minimum."""
        query = self.query
        by_chance = 4 if query.relabel else 3
        least = by_chance if query.selection == "probability" else 1 + (query.audit_share > 0)
        return replace(query, burst=max(least, query.burst // n_partitions))


class PartitionTask:
    """Task that predicts the records of one partition, and selects records for label requests.

    After a step whose commit failed, create a new task from the committed log entry.

    Parameters
    ----------
    partition : number of the partition
    settings : TaskSettings
    n_partitions : number of partitions of the records topic
    newest_entry : newest entry in the scoring log; None: a new partition
    topic : id of the records topic; None: the broker reports none

    Raises
    ------
    ConnectorError
        If the entry belongs to a topic with another id.
    """

    def __init__(
        self,
        partition: int,
        settings: TaskSettings,
        n_partitions: int,
        newest_entry: ScoringLogEntry | None,
        topic: str | None = None,
    ) -> None:
        if (
            newest_entry is not None
            and None not in (topic, newest_entry.topic)
            and topic != newest_entry.topic
        ):
            raise ConnectorError(
                "the topic of the records was deleted and recreated, so its messages are others. "
                "Restore the old topic from a copy, or, to read the new topic from its beginning, "
                "give the pipeline another name and an empty state"
            )
        self._topic = topic
        self.partition = partition
        self.next = newest_entry.end if newest_entry else None
        self.gap: list[int] | None = None
        self._settings = settings
        self._newest = newest_entry
        query = settings.query_config_per_partition(n_partitions)
        seeds = np.random.SeedSequence([settings.seed, partition])
        self._querier = Querier(query, seeds)
        self._window: deque[tuple[int, str]] = deque(maxlen=query.window)
        self._n_features = 0
        self._sequence = newest_entry.sequence if newest_entry else 0
        self._digest = newest_entry.digest if newest_entry else ""
        field = settings.prediction_field
        self._recorded = None if field is None else RecordedPredictions(field)

    @property
    def replay_range(self) -> tuple[int, int] | None:
        """Offsets [start, end) of the records that `restore` needs; None: a new partition."""
        return None if self._newest is None else (self._newest.window, self._newest.end)

    @property
    def snapshot_number(self) -> int:
        """Number of the snapshot that predicted the newest batch; older ones must not be used."""
        return self._newest.edition if self._newest else 0

    def restore(self, messages: Sequence[Message], snapshot: ModelSnapshot) -> None:
        """Restore the state after the newest log entry.

        `messages` are the records with offsets in `replay_range`. If some were deleted, the
        utility window has fewer records.
        """
        if self._newest is None:
            return
        records, _ = self._decode_records(messages, snapshot, 0)
        records = records.take(
            range(max(len(records) - (self._window.maxlen or 0), 0), len(records))
        )
        X = self._encode_feature_rows(records, snapshot)
        self._add_records_to_utility_window(records)
        state = self._newest.querier | {"window_version": -1, "pool": []}
        self._querier.resume(state, {"X": X, "utility": np.zeros(len(X))})
        self._n_features = X.shape[1]

    def step(
        self,
        messages: Sequence[Message],
        snapshot: ModelSnapshot,
        batch_time_ms: int,
        lag: int,
        next_offset: int | None = None,
    ) -> ScoringStepResult:
        """Predict the records of `messages`, and select records for label requests.

        `lag` is the number of unread messages. `next_offset` is the next offset of the partition;
        None: the offset after the last message.
        """
        next_offset = messages[-1].offset + 1 if next_offset is None else next_offset
        learner, schema = snapshot.learner, snapshot.schema
        self._sequence += 1
        records, dead = self._decode_records(messages, snapshot, batch_time_ms)
        X = self._encode_feature_rows(records, snapshot)
        scored = learner.score(X)
        recorded = self._read_recorded(records, scored, snapshot)
        given = scored if recorded is None else recorded.scored
        asked = self._select_requests(records, X, scored, recorded, snapshot)
        predicted = encode_predictions(
            records, given, asked, self._sequence, schema, self.partition
        )
        row_of = {id: row for row, id in enumerate(records.ids)}
        rows = [row_of[id] for id in asked.ids]
        held = self._requested_records(records, X, given, rows, batch_time_ms)
        requests = self._encode_requests(asked, held, given, rows, snapshot, batch_time_ms)
        about = ForwardedPayloads(requests, [records.messages[row] for row in rows])
        written = OutputMessages(
            predicted,
            about,
            encode_dead_letters(dead, BatchInputs(batch_time_ms, {}, [*messages], [])),
        )
        self._digest = chain_digest(
            self._digest, replace(records, X=X), written, LabelledBatch(), []
        )
        self._add_records_to_utility_window(records)
        block = self._querier.budget.block
        entry = self._build_log_entry(
            start=messages[0].offset,
            end=next_offset,
            records=len(records),
            dead=len(dead),
            edition=snapshot.number,
            version=scored.version,
            temperature=scored.temperature,
            classes=scored.classes.tolist(),
            tick=batch_time_ms,
            lag=lag,
            window=self._window[0][0] if self._window else next_offset,
            sums=base64.b64encode(
                UnlabelledSums.from_scored(
                    scored if recorded is None else recorded.evaluated,
                    rows,
                    block,
                    asked.inclusion_probabilities,
                    None if recorded is None else scored.labels,
                ).pack()
            ).decode(),
            asked=self._build_request_entries(
                asked, held, scored, recorded, rows, records, snapshot
            ),
            unknown=dict(UnknownFieldCounts(records.unknown).unknown),
            recorded={} if recorded is None else recorded.counts,
            sums_classes=None if recorded is None else recorded.evaluated.classes.tolist(),
        )
        self._newest = entry
        self.next = next_offset
        return ScoringStepResult(written, entry.encode(), next_offset, len(records))

    def _decode_records(
        self, messages: Sequence[Message], snapshot: ModelSnapshot, batch_time_ms: int
    ) -> tuple[Records, list[DeadLetter]]:
        """Decode the records of a batch; return the records, and dead letters in message order.

        A record whose id is already in the utility window or the batch becomes a dead letter.
        """
        sound, dead = snapshot.schema.decode(messages, source="records", time=batch_time_ms)
        known, fresh = {id for _, id in self._window}, []
        for row, id in enumerate(sound.ids):
            if id not in known:
                fresh.append(row)
                known.add(id)
            else:
                text = (
                    f"another record has the id {id!r}: ids must be unique within the newest "
                    f"{self._window.maxlen} records of a partition"
                )
                message = sound.messages[row]
                letter = DeadLetter.from_message(
                    message, "duplicate_id", text, source="records", time=batch_time_ms
                )
                dead = [*dead, letter]
        if len(fresh) == len(sound):
            return sound, dead
        return sound.take(fresh), sorted(dead, key=lambda one: next(iter(one.position.values())))

    def _encode_feature_rows(self, records: Records, snapshot: ModelSnapshot) -> np.ndarray:
        """Return the feature rows of records, float32 (n, D), for a model snapshot's committee."""
        learner = snapshot.learner
        X = records.X if records.values is None else learner.encode_records(records.values)
        if X.shape[1] > self._n_features:
            self._n_features = X.shape[1]
            self._querier.set_n_features(self._n_features)
        return X

    def _read_recorded(
        self, records: Records, scored: Scored, snapshot: ModelSnapshot
    ) -> "_Recorded | None":
        if self._recorded is None:
            return None
        before, renamed = self._recorded.to_json(), snapshot.learner.renamed_classes
        found = self._recorded.parse(records.messages, snapshot.schema)
        given = score_recorded(found, snapshot.schema.classes, lambda k: renamed.get(k, k))
        counts = {name: n - before[name] for name, n in self._recorded.to_json().items()}
        return _Recorded(found, given, fill_missing_probabilities(given, scored), counts)

    def _add_records_to_utility_window(self, records: Records) -> None:
        places = [message.offset for message in records.messages]
        self._window.extend(zip(places, records.ids, strict=True))

    def _select_requests(
        self,
        records: Records,
        X: np.ndarray,
        scored: Scored,
        recorded: "_Recorded | None",
        snapshot: ModelSnapshot,
    ) -> Requests:
        learner = snapshot.learner
        self._querier.rescore(snapshot.version, learner.utility)
        cold = learner.committee is None or learner.n_missing_random_labels > 0
        utility = learner.utility(X, scored)
        if recorded is not None:
            sure = label_probabilities(recorded.evaluated)
            return self._querier.select_requests(
                records.ids, X, utility, sure, at_random=False, use_ranks=False
            )
        return self._querier.select_requests(
            records.ids, X, utility, top_probabilities(scored), at_random=cold
        )

    def _requested_records(
        self,
        records: Records,
        X: np.ndarray,
        scored: Scored,
        rows: Sequence[int],
        batch_time_ms: int,
    ) -> list[HeldRecord]:
        some = records.take(rows)
        labels = scored.labels[list(rows)].tolist()
        given = zip(X[list(rows)], labels, some.times, encode_values_of_records(some), strict=True)
        now = RecordCountAndBatchTime(0, batch_time_ms)
        return [HeldRecord(x, now, label, time, values) for x, label, time, values in given]

    def _encode_requests(
        self,
        requests: Requests,
        held_records: Sequence[HeldRecord],
        scored: Scored,
        rows: Sequence[int],
        snapshot: ModelSnapshot,
        batch_time_ms: int,
    ) -> list[bytes]:
        expires = self._settings.expires_after.end_time_ms(
            RecordCountAndBatchTime(0, batch_time_ms)
        )
        return [
            build_request(
                id,
                held_records[i],
                scored,
                rows[i],
                schema=snapshot.schema,
                utility=float(requests.utility[i]),
                propensity=float(requests.propensity[i]),
                expires=expires,
                sequence=self._sequence,
                partition=self.partition,
            ).encode()
            for i, id in enumerate(requests.ids)
        ]

    def _build_request_entries(
        self,
        requests: Requests,
        held_records: Sequence[HeldRecord],
        scored: Scored,
        recorded: "_Recorded | None",
        rows: Sequence[int],
        records: Records,
        snapshot: ModelSnapshot,
    ) -> list[RequestEntry]:
        return [
            RequestEntry(
                id=id,
                time=held_records[i].time,
                offset=records.messages[row].offset,
                values=list(feature_values(snapshot.schema.features, held_records[i]).values()),
                label=scored.labels[row],
                probabilities=scored.probabilities[row].tolist(),
                margin=float(scored.margins[row]),
                utility=float(requests.utility[i]),
                propensity=float(requests.propensity[i]),
                audit=bool(requests.audit[i]),
                selected=bool(requests.selected[i]),
                recorded=[] if recorded is None else [*recorded.found[row].items()],
            )
            for i, (id, row) in enumerate(zip(requests.ids, rows, strict=True))
        ]

    def _build_log_entry(self, **batch_fields: Any) -> ScoringLogEntry:
        state, _ = self._querier.state()
        gap, self.gap = self.gap, None
        return ScoringLogEntry(
            sequence=self._sequence,
            worker=self._settings.worker,
            querier={name: state[name] for name in _OF_QUERIER},
            digest=self._digest,
            topic=self._topic,
            gap=gap,
            **batch_fields,
        )
