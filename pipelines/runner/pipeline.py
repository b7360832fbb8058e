"""Pipeline state and its deterministic step: one batch of inputs gives one step result.

The step does no input or output and reads no clock. Equal batches give equal results, whether live
or in a replay.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.connectors.base import ForwardedPayloads, Message, MessageMetadata
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.labels import Labels
from streamboost.connectors.messages.outgoing import DeadLetter
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.values import encode_values_of_records
from streamboost.errors import ConfigurationError, StateError
from streamboost.evaluation.decisions import Decisions
from streamboost.evaluation.evaluation import Evaluation
from streamboost.features.fields import Field, as_field
from streamboost.learner.label_quality import RelabelRequests
from streamboost.learner.labelled_rows import VoteHistory
from streamboost.learner.learner import StreamLearner
from streamboost.learner.schedule import Training
from streamboost.pipelines.config.durations import RecordCountAndBatchTime
from streamboost.pipelines.models.models import ExternalModels
from streamboost.pipelines.models.recorded import RecordedPredictions
from streamboost.pipelines.runner.batch import (
    BatchInputs,
    OutputMessages,
    StepResult,
    chain_digest,
    encode_dead_letters,
    encode_predictions,
)
from streamboost.pipelines.runner.field_counts import UnknownFieldCounts
from streamboost.pipelines.runner.initial_data import decode_initial_data, defer_training
from streamboost.pipelines.runner.label_join import LabelJoin, LabelledBatch
from streamboost.pipelines.runner.label_mapping import LabelMapping
from streamboost.pipelines.runner.requests import build_requests
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.journal import JournalExtras
from streamboost.pipelines.state.versions import CommitteeStore
from streamboost.predictions import Scored
from streamboost.query.config import Requests
from streamboost.storage import Arrays, select_prefix

_log = logging.getLogger(__name__)

OWN_MODEL = "own model"
"""Name of the learner's own predictions next to those of another system."""


class Pipeline:
    """Pipeline state: predicts the records of a batch, requests labels, and trains on labels.

    Parameters
    ----------
    schema : Schema with features; later extended by fields added to the configuration, and by the
        label type of the first label
    learner, join : StreamLearner and label join
    versions : store of the committees that a rollback may deploy
    models : external models, active or as shadow models; None: no external models
    recorded : reads the predictions of another system, which are evaluated instead of the learner's

    Attributes
    ----------
    sequence : number of the newest batch; the first is 1
    digest : hash chained over the changes of all batches
    batch_time_ms : processing time at the start of the newest batch, in ms since the epoch
    dead_letters : number of dead letters
    initial_labels : number of learned labels from the initial data set
    lost_batches : number of batches not learned from, because of a gap in the journal
    deleted_unread : number of messages that retention deleted before they were read
    on_stage_end : callback with the name of each stage of a step at its end; does not affect the
        result
    fields : counters of unknown fields
    classes : mapping of merged and dropped classes
    decision : newest decision options of the configuration (see `build_decisions`); commands may
        have changed the learner's decisions since
    journal_extras : additional content of the next journal entry
    """

    decides = True
    """Whether this pipeline makes the predictions, and therefore the decisions."""

    def __init__(
        self,
        schema: Schema,
        learner: StreamLearner,
        join: LabelJoin,
        versions: CommitteeStore,
        models: ExternalModels | None = None,
        recorded: RecordedPredictions | None = None,
    ) -> None:
        self.schema = schema
        self.learner = learner
        self.join = join
        self.versions = versions
        self.models = models
        self.recorded = recorded
        self._use_active_external_model()
        self.sequence = 0
        self.digest = ""
        self.batch_time_ms = 0
        self.dead_letters = 0
        self.initial_labels = 0
        self.lost_batches = 0
        self.deleted_unread = 0
        self.fields = UnknownFieldCounts()
        self.classes = LabelMapping()
        self.decision: dict[str, Any] = {}
        self.journal_extras = JournalExtras()
        self.on_stage_end: Callable[[str], None] = _no_op_on_stage_end

    def step(self, inputs: BatchInputs, trained_committee: Committee | None) -> StepResult:
        """Process one batch; return its step result, which is not committed yet.

        A `trained_committee` from a background training is deployed before the batch.
        """
        before = self._start_batch(inputs)
        started = [*self.learner.deploy(trained_committee), *self._apply_commands(inputs.commands)]
        expired = self.join.expire_and_evict(
            inputs.batch_time_ms, inputs.caught_up, resumed=inputs.resumed
        )
        self.learner.expire_requests(expired)
        if self.models is not None:
            self.models.expire_requests(expired)
        came = self._split_inline_labels(inputs)
        records, damaged = self._decode_records(came)
        self.on_stage_end("decode")
        records, X = self._encode_records(records)
        scored, asked = self._predict_and_query(records, X)
        self.on_stage_end("query")
        joined = self._add_records_to_join(records, X, scored, asked)
        unusable = self._add_initial_data(inputs, joined)
        again = self._open_relabel_requests()
        requested = self._encode_requests(asked, again, records, scored)
        is_retracted = self._retract_labels(inputs.commands, joined)
        unread = self._join_labels(came, joined, damaged)
        self.on_stage_end("join")
        with (
            defer_training(self.learner.trainer, started) if inputs.initial_data else nullcontext()
        ):
            started += self._learn_labels(joined)
            if is_retracted:
                started += self.learner.retrain_on_changed_labels()
        self.on_stage_end("learn")
        dead = [*unusable, *damaged, *unread]
        self.dead_letters += len(dead)
        predicted = self._encode_predictions(records, scored, asked)
        messages = OutputMessages(predicted, requested, encode_dead_letters(dead, inputs))
        self.digest = chain_digest(self.digest, records, messages, joined, started)
        promoted = self._store_committee_versions(trained_committee, before.committee)
        effects = StepResult(
            sequence=self.sequence,
            batch_time_ms=self.batch_time_ms,
            records=records,
            scored=scored,
            asked=asked,
            relabels=again,
            joined=joined,
            initial_labels=self.initial_labels - before.initial_labels,
            ignored={
                kind: n - before.ignored[kind] for kind, n in self.join.ignored_counts().items()
            },
            commands=inputs.commands,
            gap=self.journal_extras.gap,
            trainings=started,
            changes=self.learner.changes.detected_after(before.n_changes),
            committee=self.learner.committee,
            promoted=promoted,
            messages=messages,
            dead=dead,
            read=inputs.message_counts(),
            digest=self.digest,
            journal=self._encode_journal_entry(inputs, trained_committee, promoted, started),
        )
        self.on_stage_end("messages")
        return effects

    def _learn_labels(self, joined: LabelledBatch) -> tuple[Training, ...]:
        """Train learner and external models with the labels of a batch; return the trainings."""
        started = joined.train(self.learner, self.batch_time_ms)
        if self.models is not None:
            labels = joined.ids, joined.labels, joined.sources
            self.models.learn(*labels, joined.values, self.schema.label_kind)
        return started

    def snapshot(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the complete state of the pipeline: a dict of arrays, and the manifest."""
        arrays = {f"learner.{name}": a for name, a in self.learner.snapshot().items()}
        arrays |= {f"join.{name}": a for name, a in self.join.to_arrays().items()}
        about: dict[str, Any] = {}
        if self.models is not None:
            state, tables = self.models.snapshot()
            about = {"models": state}
            arrays |= {f"models.{name}": a for name, a in tables.items()}
        manifest = self.counters() | {
            "digest": self.digest,
            "tick": self.batch_time_ms,
            "journal_extras": msgspec.to_builtins(self.journal_extras),
            "schema": self.schema.to_json(),
            "classes": self.classes.to_json(),
            "decision": self.decision,
            "evaluation": self.learner.evaluation.to_json(),
            "forecast": self.forecast(),
            "comparisons": self.learner.trainer.shadow.to_json(),
        }
        return arrays, manifest | about

    def forecast(self) -> dict[str, Any]:
        """Return the learner's forecast over labels (`Forecast`); empty if there is none.

        There is none for predictions of another system: labels do not change these.
        """
        found = self.learner.forecast() if self.recorded is None else None
        return {} if found is None else asdict(found)

    def counters(self) -> dict[str, Any]:
        """Return the counters of pipeline, committee, annotators, budget, join and models."""
        learner = self.learner
        return {
            "sequence": self.sequence,
            "dead_letters": self.dead_letters,
            "initial_labels": self.initial_labels,
            "lost_batches": self.lost_batches,
            "deleted_unread": self.deleted_unread,
            "fields": self.fields.to_json(learner.features),
            "committee": _committee_counters(learner, self.models),
            "experts": learner.expert_weights,
            "changes": learner.changes.to_json(),
            "annotators": learner.annotators.to_json(),
            "ledger": asdict(learner.ledger),
            "join": self.join.counters(),
        } | self._external_model_metrics()

    def _external_model_metrics(self) -> dict[str, Any]:
        if self.recorded is not None:
            shadow_models = {} if self.models is None else self.models.shadow_metrics()
            shadow_models[OWN_MODEL] = _learner_prediction_metrics(self.learner.evaluation)
            return {"recorded": self.recorded.to_json(), "shadow_models": shadow_models}
        if self.models is None:
            return {}
        serving = self.models.serving
        failures = {} if serving is None else {"model": {"failures": serving.failures}}
        if self.models.transformer is not None:
            failures["transformer"] = {"failures": self.models.transformer.failures}
        return failures | {"shadow_models": self.models.shadow_metrics()}

    def restore(self, arrays: Arrays, manifest: dict[str, Any]) -> None:
        """Restore the state that `snapshot` returned."""
        features = self.learner.features
        self.learner = StreamLearner.restore(
            select_prefix(arrays, "learner."),
            None if features is None else features.sentence_encoders,
        )
        if self.models is not None:
            self.models.restore(manifest["models"], select_prefix(arrays, "models."))
        self.join.restore(select_prefix(arrays, "join."))
        self.sequence = manifest["sequence"]
        self.digest = manifest["digest"]
        self.batch_time_ms = manifest["tick"]
        self.dead_letters = manifest["dead_letters"]
        self.initial_labels = manifest["initial_labels"]
        self.lost_batches = manifest["lost_batches"]
        self.deleted_unread = manifest["deleted_unread"]
        self.fields = UnknownFieldCounts(manifest["fields"]["unknown"])
        self.schema = Schema.from_json(manifest["schema"])
        self.classes = LabelMapping.restore(manifest["classes"])
        self.decision = manifest["decision"]
        self.journal_extras = msgspec.convert(manifest["journal_extras"], JournalExtras)
        if self.recorded is not None:
            self.recorded.restore(manifest["recorded"])
        self._use_active_external_model()

    def _use_active_external_model(self) -> None:
        if self.models is not None and self.models.serving is not None:
            self.learner.use_external_scores()

    def _start_batch(self, inputs: BatchInputs) -> "_CountsBeforeBatch":
        """Begin a batch; return counters and committee before the batch, for the step result."""
        self.sequence += 1
        self.batch_time_ms = inputs.batch_time_ms
        self.deleted_unread += inputs.count_deleted_offsets()
        self._apply_config_changes()
        return _CountsBeforeBatch(
            self.join.ignored_counts(),
            self.learner.committee,
            self.initial_labels,
            self.learner.changes.n_detected,
        )

    def _apply_commands(self, commands: Sequence[Command]) -> list[Training]:
        """Apply `commands`; return the trainings that they started."""
        started: list[Training] = []
        for command in commands:
            _log.info(
                "batch %d applies: %s", self.sequence, command, extra={"event": "command_applied"}
            )
            if command.annotator is not None:  # the learned labels follow with those of the batch
                self.join.drop_pending_labels_of(command.annotator)
            elif command.label is None:
                started += _apply_model_command(command, self.learner, self.versions)
            else:
                started += self._apply_class_command(command)
        return started

    def _retract_labels(self, commands: Sequence[Command], labelled_batch: LabelledBatch) -> bool:
        """Retract the labels of annotators named in `commands`; return whether they had labels."""
        sources = [one.annotator for one in commands if one.annotator is not None]
        counts = [self._retract_labels_of(source, labelled_batch) for source in sources]
        return any(counts)

    def _retract_labels_of(self, source: str, labelled_batch: LabelledBatch) -> int:
        """Retract the learned labels of annotator `source`; return the number of their records."""
        self.classes.remove_votes_of(source)
        votes = self.learner.annotator_votes_where(lambda voter, _: voter == source)
        n = self.join.retract_labels_of(source, votes, labelled_batch, self.learner)
        _log.info(
            "batch %d: the labels of %r on %d records are retracted",
            self.sequence,
            source,
            n,
            extra={"event": "labels_retracted"},
        )
        return n

    def _apply_class_command(self, command: Command) -> tuple[Training, ...]:
        """Merge or drop a class, or undo a merge; return the trainings started."""
        classes, join, learner = self.classes, self.join, self.learner
        try:
            label, into = classes.resolve_command_classes(command, self.schema.label_kind)
        except StateError:  # an earlier command of the batch has made this command invalid
            return ()
        if command.command == "unmerge":
            restored = classes.unmerge(label)
            started = learner.restore_classes(restored, classes.current_class)
            join.restore_classes(restored, learner)
            n = sum(now == label for one in restored.values() for _, now in one.votes)
            _log.info(
                "batch %d: %d labels are of the class %r again",
                self.sequence,
                n,
                label,
                extra={"event": "class_unmerged"},
            )
            return started
        if into is not None:
            votes = learner.annotator_votes_where(lambda _, voted: voted == label)
            classes.store_original_labels(votes)
            classes.store_original_labels(join.unlearned_votes(label, learner))
        classes.apply_class_command(command, self.schema.label_kind)
        started = learner.rename_class(label, into)
        # Afterwards: the learner may choose another label among the votes on a record.
        join.rename_labels(classes.current_class, learner)
        return started

    def _apply_config_changes(self) -> None:
        """Apply the configuration changes in `journal_extras`: rules, decisions and new fields."""
        extras, learner = self.journal_extras, self.learner
        if extras.rules is not None:
            self.schema = replace(self.schema, **extras.rules)
        if extras.decision is not None:
            self.decision = extras.decision
            learner.decisions = build_decisions(self.decision)
        if extras.fields is not None:
            fields = _add_fields_to_learner(learner, extras.fields)
            self.schema = self.schema.with_fields(fields)
            self.fields.remove_known_fields(fields)
            if self.models is not None:
                self.models.set_field_names(self.schema.features)
            names = ", ".join(fields)
            _log.info(
                "batch %d: fields are learned from now on: %s",
                self.sequence,
                names,
                extra={"event": "fields_added"},
            )

    def _split_inline_labels(self, inputs: BatchInputs) -> BatchInputs:
        """Return the batch with the inline labels of its records as separate label messages.

        Without inline labels in the schema, the batch is unchanged.
        """
        if not self.schema.inline_labels:
            return inputs
        is_transformed = self.models is not None and self.models.transformer is not None
        records, labels = self.schema.split_inline_labels(
            inputs.records, is_transformed=is_transformed
        )
        return replace(inputs, records=records, labels=labels)

    def _decode_records(self, inputs: BatchInputs) -> tuple[Records, list[DeadLetter]]:
        """Decode the records of a batch; return records with new ids, and dead letters.

        The dead letters are sorted by partition and offset."""
        sound, damaged = self.schema.decode(
            inputs.records, source="records", time=self.batch_time_ms
        )
        if self.models is None or self.models.transformer is None:
            self.fields.add_counts(sound.unknown)
        # A duplicate record with an inline label is a label of the held record, no dead letter.
        labels = inputs.labels if self.schema.inline_labels else ()
        records, repeated = self.join.drop_duplicates(sound, labels, self.batch_time_ms)
        return records, sorted([*damaged, *repeated], key=_partition_and_offset) if len(
            records
        ) < len(sound) else damaged

    def _predict_and_query(self, records: Records, X: np.ndarray) -> tuple[Scored, Requests]:
        """Return the predictions of the records, and the label requests."""
        models, recorded = self.models, None
        is_ours = models is None or models.serving is None
        if is_ours or models is None:
            scored = self.learner.score_arrivals(X)
        else:
            scored = models.score(records)
        if self.recorded is not None:
            current_class = self.classes.current_class
            recorded = self.recorded.read(records.messages, self.schema, current_class)
        self.on_stage_end("score")
        asked = self.learner.query(X, scored, records.ids, recorded)
        if models is not None:
            models.predict_with_shadow_models(records, asked)
        return scored if recorded is None else recorded, asked

    def _encode_predictions(
        self, records: Records, scored: Scored, requests: Requests
    ) -> ForwardedPayloads:
        decided = None if self.learner.decisions is None else self.learner.decide_classes(scored)
        return encode_predictions(
            records, scored, requests, self.sequence, self.schema, decisions=decided
        )

    def _encode_requests(
        self,
        requests: Requests,
        relabel_requests: RelabelRequests,
        records: Records,
        scored: Scored,
    ) -> ForwardedPayloads:
        known = self.join, self.learner, self.schema, self.sequence
        return build_requests(requests, relabel_requests, records, scored, *known)

    def _add_records_to_join(
        self, records: Records, X: np.ndarray, scored: Scored, requests: Requests
    ) -> LabelledBatch:
        """Add the records of a batch to the join; return those that have pending labels."""
        predicted, values = scored.labels.tolist(), encode_values_of_records(records)
        requested = requests.ids, requests.propensity
        self.classes.remove_original_labels(records.ids, self.join.n_pending_labels)
        joined = self.join.add_records(
            records.ids, X, predicted, *requested, records.times, values, self.learner
        )
        if self.learner.query_config.allows_late_requests:
            pairs = zip(records.ids, records.messages, strict=True)
            self.join.add_metadata(
                {id: MessageMetadata(m.key, m.headers, m.time) for id, m in pairs}
            )
        return joined

    def _open_relabel_requests(self) -> RelabelRequests:
        """Open and return relabel requests, for held records whose labels look wrong."""
        again = self.learner.query_relabels(self.join.can_relabel)
        self.join.request_relabel(again.ids, again.excluded_annotators)
        return again

    def _join_labels(
        self,
        inputs: BatchInputs,
        labelled_batch: LabelledBatch,
        record_dead_letters: Sequence[DeadLetter],
    ) -> list[DeadLetter]:
        """Decode the labels of a batch, and match them in the join; return their dead letters.

        Matched labels are appended to `labelled_batch`. `record_dead_letters` are the dead letters
        of the records. If a record is damaged, its inline label is part of its dead letter, and is
        not decoded separately.
        """
        given: Sequence[Message] = inputs.labels
        source = "labels"
        if self.schema.inline_labels:
            given, source = _labels_of_valid_records(given, record_dead_letters), "records"
        labels, unread = self.schema.decode_labels(
            given, source=source, time=self.batch_time_ms, allow_nulls=True
        )
        self.schema = self.schema.with_label_type(labels.kind)
        labels, dropped = self.classes.map_labels(
            labels, source, self.batch_time_ms, partial(self._votes_on, labelled_batch)
        )
        self._add_records_from_label_messages(labels, labelled_batch)
        pairs = list(zip(labels.ids, labels.labels, strict=True))
        self.join.match_labels(pairs, labelled_batch, labels.sources, self.learner)
        self.classes.prune_original_labels(self._is_known_id)
        return sorted([*unread, *dropped], key=_partition_and_offset) if dropped else unread

    def _votes_on(self, labelled_batch: LabelledBatch, id: str) -> VoteHistory | None:
        """Return the votes on a record so far; None if further labels of it have no effect."""
        history = self.learner.annotator_votes(id) or labelled_batch.annotator_votes(id)
        return self.join.pending_votes_on(id) if history is None else history

    def _is_known_id(self, id: str) -> bool:
        return self.join.is_known_id(id) or self.learner.label_of(id) is not None

    def _add_records_from_label_messages(
        self, labels: Labels, labelled_batch: LabelledBatch
    ) -> None:
        """Hook to add records from label messages; does nothing, as records have a source."""

    def _add_initial_data(
        self, inputs: BatchInputs, labelled_batch: LabelledBatch
    ) -> list[DeadLetter]:
        """Append the initial data of a batch to the labelled records; return dead letters."""
        if not inputs.initial_data:
            return []
        known, unusable = decode_initial_data(
            self.schema,
            inputs.initial_data,
            inputs.batch_time_ms,
            self.classes,
            self._transform_records,
        )
        self.schema = self.schema.with_label_type(known.kind)
        known.append_to(
            labelled_batch,
            self.learner,
            RecordCountAndBatchTime(self.join.counts.records, inputs.batch_time_ms),
        )
        self.initial_labels += len(known.ids)
        return unusable

    def _encode_records(self, records: Records) -> tuple[Records, np.ndarray]:
        """Encode the fields of records; return the records, and their feature rows, float32 (n, D).

        The first columns of the rows are the newest labels, if the learner has lagged labels.
        """
        features = self.learner.features
        records = self._transform_records(records)
        if features is not None and records.values is not None:
            records = replace(records, X=features.encode_arrivals(records.values))
        return records, self.learner.add_label_lags(records.X)

    @property
    def can_encode_ahead(self) -> bool:
        """Whether `encode_ahead` helps: vectors are cached, and no transformer changes texts."""
        features = self.learner.features
        has_transformer = self.models is not None and self.models.transformer is not None
        return features is not None and features.caches_vectors and not has_transformer

    def encode_ahead(self, inputs: BatchInputs) -> None:
        """Encode the texts of a batch, so that its step finds their vectors in the cache.

        May be called on another thread. Errors are left to the step.
        """
        features = self.learner.features
        with suppress(Exception):
            records, _ = self.schema.decode(inputs.records)
            if features is not None and records.values is not None:
                features.cache_vectors(records.values)

    def _transform_records(self, records: Records) -> Records:
        """Return records after the transformer; without a transformer, the records unchanged."""
        return records if self.models is None else self.models.transform(records, self.schema)

    def _store_committee_versions(
        self, trained_committee: Committee | None, previous_committee: Committee | None
    ) -> int | None:
        """Store the committees of this batch for rollback; return the version deployed, or None.

        An initial committee counts as deployed in the first batch.
        """
        committee = self.learner.committee
        previous_committee = previous_committee if self.sequence > 1 else None
        self.versions.add([trained_committee, self.learner.trainer.challenger, committee])
        return committee.version if committee and committee is not previous_committee else None

    def _encode_journal_entry(
        self,
        inputs: BatchInputs,
        trained_committee: Committee | None,
        promoted_version: int | None,
        trainings: list[Training],
    ) -> bytes:
        return inputs.build_journal_entry(
            sequence=self.sequence,
            swap=trained_committee.version if trained_committee else None,
            promoted=promoted_version,
            trainings=trainings,
            digest=self.digest,
            **msgspec.structs.asdict(self.journal_extras),
        ).encode()


class _CountsBeforeBatch(NamedTuple):
    """Counters and active committee before a batch."""

    ignored: dict[str, int]
    committee: Committee | None
    initial_labels: int
    n_changes: int


def _no_op_on_stage_end(stage: str) -> None:
    """Do nothing at the end of a stage."""


def _labels_of_valid_records(
    label_messages: Sequence[Message], dead_letters: Sequence[DeadLetter]
) -> Sequence[Message]:
    """Return the messages of inline labels whose records are not among the dead letters."""
    places = {_partition_and_offset(letter) for letter in dead_letters}
    return [one for one in label_messages if (one.partition, one.offset) not in places]


def _partition_and_offset(letter: DeadLetter) -> tuple[str, int]:
    return next(iter(letter.position.items()))


def _apply_model_command(
    command: Command, learner: StreamLearner, versions: CommitteeStore
) -> tuple[Training, ...]:
    trainer = learner.trainer
    if command.version is not None:
        return learner.deploy(versions[command.version])
    if command.decision is not None:
        learner.decisions = build_decisions(command.decision)
        return ()
    if command.command == "promote":
        return trainer.promote()
    if command.command == "pause":
        trainer.pause_training()
        return ()
    return trainer.resume_training() if command.command == "resume" else trainer.retrain()


def build_decisions(options: Mapping[str, Any]) -> Decisions | None:
    """Return `Decisions` with the given options (costs, threshold); None if there are none.

    Raises ConfigurationError if `options` is invalid.
    """
    if unknown := sorted(options.keys() - {"costs", "threshold"}):
        raise ConfigurationError(
            f"unknown decision option {unknown[0]!r}: set costs or threshold instead"
        )
    return Decisions(**options) if options else None


def _learner_prediction_metrics(evaluation: Evaluation) -> dict[str, Any]:
    """Return metrics of the learner's own predictions, in the form of a shadow model's metrics."""
    reports = dict(zip(("since_start", "recent"), evaluation.both_reports(), strict=True))
    return {
        name: {
            "records": one.records,
            "committee": one.committee_alone and asdict(one.committee_alone),
            "gain": one.gain_alone and asdict(one.gain_alone),
        }
        for name, one in reports.items()
    }


def _add_fields_to_learner(
    learner: StreamLearner, field_options: Mapping[str, Any]
) -> dict[str, Field]:
    """Add new fields to the learner's features; return these fields, keyed by name.

    Records that were learned earlier have missing values in these fields.
    """
    assert learner.features is not None
    fields = {name: as_field(name, field) for name, field in field_options.items()}
    for name, field in fields.items():
        learner.features.add_field(name, field)
    learner.update_columns()
    return fields


def _committee_counters(
    learner: StreamLearner, models: ExternalModels | None
) -> dict[str, int | None]:
    """Return counters: labels, and the version, rounds, trees and classes of the committee.

    "running" is the version that the training in progress will get, and "challenger" that of the
    challenger; 0: there is none. "paused" is 1 if a command paused training, and "until_training"
    is the number of further labels until the next training; None: training is off.
    """
    trainer = learner.trainer
    numbers: dict[str, int | None] = {
        "labels": learner.n_labelled,
        "version": 0,
        "rounds": 0,
        "trees": 0,
        "classes": 0,
        "running": trainer.running_training.version if trainer.running_training else 0,
        "challenger": trainer.challenger.version if trainer.challenger else 0,
        # With an active external model, training is always off: this is no pause by a command.
        "paused": int(trainer.paused and (models is None or models.serving is None)),
        "until_training": None if trainer.paused else trainer.n_labels_until_training,
    }
    if (committee := learner.committee) is not None:
        numbers |= {
            "version": committee.version,
            "rounds": committee.n_rounds,
            "trees": committee.n_trees,
            "classes": len(committee.classes),
        }
    return numbers
