"""Composition of a runner from a configuration, and the `run` command."""

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from streamboost.connectors.base import CommittedBatch, Transaction
from streamboost.connectors.messages.decoding import make_time_reader
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.environment import environment
from streamboost.pipelines.app.connect import (
    Connectors,
    create_connectors,
    create_sources,
    refuse_missing_topics,
)
from streamboost.pipelines.app.distributed import open_records_source, prepare_distributed_scoring
from streamboost.pipelines.app.encoders import encoder_digests
from streamboost.pipelines.app.factories import create_models
from streamboost.pipelines.app.first_records import infer_schema
from streamboost.pipelines.app.monitor import monitor_runner, open_notifier
from streamboost.pipelines.app.recovery import (
    InitialModel,
    copy_checkpoints,
    copy_store_for_rebuild,
    create_copy_store,
    load_initial_model,
    rebuild_state,
    refuse_lost_state,
    save_initial_model,
)
from streamboost.pipelines.app.retention import create_log_retention, delete_old_journal_entries
from streamboost.pipelines.config import toml
from streamboost.pipelines.config.compatibility import store_config, unchangeable_settings
from streamboost.pipelines.config.durations import WindowSize
from streamboost.pipelines.config.field_changes import added_fields, configured_changeable_settings
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.distributed.learning import LearningPipeline
from streamboost.pipelines.models.recorded import RecordedPredictions
from streamboost.pipelines.monitoring.last_error import LastErrorFile
from streamboost.pipelines.monitoring.log_format import add_sequence_to_log
from streamboost.pipelines.runner.batch_reader import BatchReader
from streamboost.pipelines.runner.initial_data import deploy_initial_committee
from streamboost.pipelines.runner.label_join import LabelJoin
from streamboost.pipelines.runner.observers import Observer
from streamboost.pipelines.runner.pipeline import Pipeline
from streamboost.pipelines.runner.replay import recover
from streamboost.pipelines.runner.runner import Runner
from streamboost.pipelines.runner.timestamp_aligner import RECORDS_WITHOUT_LABELS
from streamboost.pipelines.shutdown import Interrupted, StopToken
from streamboost.pipelines.state.damage import refuse_damaged_log
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.journal import JournalExtras
from streamboost.pipelines.state.versions import CommitteeStore

_log = logging.getLogger(__name__)

CHECKED_BYTES = 1_000_000_000
"""Maximum size in bytes of a log that is checked at the start; `inspect --verify` checks all."""


def has_run_before(
    state: State, transaction: Transaction, committed: CommittedBatch | None
) -> bool:
    """Return whether the pipeline has run before: a batch is committed, or a checkpoint exists."""
    if committed is not None or state.checkpoints.sequences:
        return True
    # The log belongs to the state folder, so batches of any name are from this pipeline.
    return isinstance(transaction, SqliteTransaction) and bool(transaction.pipeline_names())


def _fence_other_processes(
    config: Config, transaction: Transaction, stop: StopToken
) -> CommittedBatch | None:
    """Prevent older processes of the pipeline from committing; return the newest committed batch.

    If the Kafka cluster is unavailable, the call is repeated until a stop request.
    """

    def fence_once() -> CommittedBatch | None:
        if config.sections.kafka is not None:
            refuse_missing_topics(config)
        transaction.fence()
        return transaction.last_committed_batch()

    if not config.commits_to_kafka:
        return fence_once()
    return stop.retry_until_success(fence_once, config.sections.pipeline.poll_interval)


def run(
    config: Config,
    *,
    until_idle: bool = False,
    upgrade: bool = False,
    rebuild: bool = False,
    stop: StopToken | None = None,
    observers: Sequence[Observer] = (),
) -> int:
    """Run the pipeline of `config` until a stop request, continuing after its last run.

    After a kill or a power failure, the run recovers by a replay from the newest checkpoint.
    Batches of another release are replayed only with `upgrade`. With `rebuild`, a lost state folder
    is rebuilt first. Except for a kill or an error within a batch, each run ends with a checkpoint.

    Returns the number of the newest batch, or 0 if there is none. Raises Interrupted if a signal
    handler ends a wait (`StopToken.raise_if_interruptible`).
    """
    state = State(config.state)
    stop = stop or StopToken()
    with stop.interruptible(), state.hold_lock(), closing(create_connectors(config)) as connectors:
        refuse_damaged_log(state.log, max_bytes=CHECKED_BYTES, stop=stop)
        committed = _fence_other_processes(config, connectors.transaction, stop)
        copies = create_copy_store(config)
        if rebuild:
            kept = copy_store_for_rebuild(config)
            committed = rebuild_state(config, state, connectors.transaction, committed, kept)
        else:
            refuse_lost_state(config, committed, copies)
        newest = committed.sequence if committed else 0
        has_begun = has_run_before(state, connectors.transaction, committed)
        store_config(config, state, state_has_begun=has_begun)
        save_initial_model(config, state, state_has_begun=has_begun)
        checkpoint = state.checkpoint_to_restore(committed.sequence if committed else None)
        begin = f"continuing after batch {newest}" if committed else "starting"
        _log.info("%s: %s; Ctrl-C stops", config.name, begin, extra={"event": "run_started"})
        last_error = LastErrorFile(state.last_error, config.mask, lambda: newest)
        with last_error.record_errors(), open_notifier(config, state, last_error) as notifier:
            with open_records_source(config, connectors.records) as records:
                schema = infer_schema(config, state, records, stop, until_idle=until_idle)
            if schema is None:
                return 0
            runner = build_runner(config, state, schema, connectors, stop, [*observers, last_error])
            last_error.sequence = lambda: runner.pipeline.sequence
            with (
                add_sequence_to_log(last_error.sequence),
                monitor_runner(config, state, runner, notifier),
            ):
                on_data_loss = config.sections.pipeline.on_data_loss
                recover(runner, checkpoint, newest, on_data_loss=on_data_loss, upgrade=upgrade)
                if stop.requested:
                    return newest
                _add_config_changes_to_journal(config, runner.pipeline)
                _seek_sources_to_committed_positions(runner, state, committed)
                if config.is_distributed:
                    prepare_distributed_scoring(config, runner)
                with (
                    stop.interruptible(False),
                    delete_old_journal_entries(config, runner),
                    copy_checkpoints(copies, runner),
                ):
                    return _run_and_save_checkpoint(runner, state, until_idle=until_idle)


def _add_config_changes_to_journal(config: Config, pipeline: Pipeline) -> None:
    """Add settings that differ from the pipeline's to the journal entry of its next batch.

    These settings are added fields, rules for labels, and the decision rule. The pipeline applies
    them with the batch. Changes of an earlier run that no batch has applied are removed.
    """
    extras = pipeline.journal_extras
    extras.fields = extras.rules = extras.decision = None
    if fields := added_fields(config, pipeline.schema):
        extras.fields = {name: field.to_config() for name, field in fields.items()}
    if (
        rules := configured_changeable_settings(config, pipeline.schema)
    ) != pipeline.schema.changeable_settings:
        extras.rules = rules
    if (decision := config.sections.decision_parameters) != pipeline.decision:
        extras.decision = decision


def _run_and_save_checkpoint(runner: Runner, state: State, *, until_idle: bool) -> int:
    try:
        runner.run(until_idle=until_idle)
    except Interrupted:
        if not runner.is_committed:
            _log.warning(
                "stopped while a commit waits: the next run checks whether it succeeded",
                extra={"event": "stopped_during_commit"},
            )
    finally:
        if runner.is_committed and runner.pipeline.sequence > runner.checkpointed:
            with state.translate_errors():
                runner.save_checkpoint()
    return runner.pipeline.sequence


def _seek_sources_to_committed_positions(
    runner: Runner, state: State, committed: CommittedBatch | None
) -> None:
    """Seek the sources to the committed positions; delete newer checkpoints and versions."""
    if committed is None:
        return
    runner.intake.seek(committed.positions)
    state.checkpoints.remove_after(committed.sequence)
    runner.pipeline.versions.remove_after(runner.pipeline.learner.trainer.newest_version)
    extras = runner.pipeline.journal_extras
    if extras.gap is None and extras != JournalExtras():
        runner.try_checkpoint()


def build_runner(
    config: Config,
    state: State,
    schema: Schema,
    connectors: Connectors,
    stop: StopToken | None = None,
    observers: Sequence[Observer] = (),
) -> Runner:
    """Build a runner of `config` that reads and writes `connectors`, with an untrained pipeline."""
    section, initial = config.sections.pipeline, load_initial_model(config, state)
    retention = create_log_retention(config, state.checkpoints)
    runner = Runner(
        _build_pipeline(config, state, schema, initial),
        _build_batch_reader(config, schema, connectors),
        connectors.outputs,
        connectors.transaction,
        checkpoints=state.checkpoints,
        checkpoint_every=section.checkpoint_every,
        stop=stop,
        poll_interval=section.poll_interval,
        observers=[*observers, *([] if retention is None else [retention])],
        open_sources=partial(create_sources, config),
        pipelined_commits=not config.sections.labels.outputs_read_by_oracle,
        self_deleting=set() if retention is None else retention.source_names,
    )
    fingerprint = state.fingerprint()
    configuration = toml.format_sections(unchangeable_settings(config))
    runner.about = {
        "fingerprint": fingerprint,
        "environment": environment() | encoder_digests(config, schema),
        "origin": {
            "schema": schema.to_json(),
            "configuration": configuration,
            "fingerprint": fingerprint,
        }
        | ({} if initial is None else {"committee": initial.digest}),
    }
    return runner


def _build_pipeline(
    config: Config, state: State, schema: Schema, initial: InitialModel | None
) -> Pipeline:
    section, expires_after = config.sections.pipeline, config.sections.requests.expires_after
    core, models = config.learner_config, create_models(config, schema, state)
    if models is not None and models.serving is not None:
        core = replace(core, experts=("committee",))  # the external model predicts instead
    learner = core.build_learner(
        schema, section.seed, config.sections.labels.on_conflict, config.encoders
    )
    if initial is not None:
        schema = deploy_initial_committee(initial.committee, schema, learner)
    join = LabelJoin(
        WindowSize.parse(section.join_window),
        WindowSize.parse(expires_after),
        learner.n_features or 0,
    )
    versions = CommitteeStore(state.versions, section.keep_versions)
    field = config.sections.prediction_field
    recorded = None if field is None else RecordedPredictions(field)
    parts = schema, learner, join, versions, models, recorded
    if config.is_distributed:
        return LearningPipeline(*parts, on_data_loss=section.on_data_loss)
    return Pipeline(*parts)


def _build_batch_reader(config: Config, schema: Schema, connectors: Connectors) -> BatchReader:
    section = config.sections.pipeline
    window = WindowSize.parse(section.join_window).records
    return BatchReader(
        connectors.records,
        connectors.labels,
        connectors.commands,
        connectors.initial_data,
        most_records=section.batch_records,
        most_labels=section.batch_labels,
        record_time=make_time_reader(None if config.is_distributed else schema.time),
        label_time=make_time_reader("time"),
        max_records_without_labels=(
            RECORDS_WITHOUT_LABELS if window is None else max(window // 2, 1)
        ),
    )
