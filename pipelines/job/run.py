"""From a configuration to a pipeline that is ready to run."""

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from streamboost.connectors.base import Committed, Transaction
from streamboost.connectors.messages.decoding import time_reader
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.environment import environment
from streamboost.pipelines.apart.learning import LearningPipeline
from streamboost.pipelines.config import toml
from streamboost.pipelines.config.binding import adopt, bound
from streamboost.pipelines.config.field_changes import added_fields, rules_for
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.engine.bootstrap import begin_with
from streamboost.pipelines.engine.in_step import APART
from streamboost.pipelines.engine.intake import Intake
from streamboost.pipelines.engine.join import Join
from streamboost.pipelines.engine.loop import Loop
from streamboost.pipelines.engine.pipeline import Pipeline
from streamboost.pipelines.engine.replay import recover
from streamboost.pipelines.engine.watchers import Watcher
from streamboost.pipelines.job.apart import begin_apart, records_themselves
from streamboost.pipelines.job.connect import Connectors, connect, refuse_missing_topics, sources
from streamboost.pipelines.job.factories import models_of, named
from streamboost.pipelines.job.first_records import settle_schema
from streamboost.pipelines.job.monitor import monitored
from streamboost.pipelines.job.recovery import (
    Beginning,
    begun_with,
    copied,
    copies_of,
    keep_beginning,
    refuse_lost,
)
from streamboost.pipelines.job.recovery import rebuild as make_again
from streamboost.pipelines.monitoring.last_error import LastError
from streamboost.pipelines.monitoring.logs import stamped
from streamboost.pipelines.span import Span
from streamboost.pipelines.state.damage import refuse_damage
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.journal import JournalExtras
from streamboost.pipelines.state.versions import Versions
from streamboost.pipelines.stop import Interrupted, Stop

__all__ = ["build_loop", "has_begun", "run"]

_log = logging.getLogger(__name__)

CHECKED_BYTES = 1_000_000_000
"""Of the log, whose structure is checked at the start; of a larger one by `inspect --verify`."""


def has_begun(state: State, transaction: Transaction, committed: Committed | None) -> bool:
    """Tell whether the state holds what some configuration has led to."""
    if committed is not None or state.checkpoints.sequences:
        return True
    # The log is the state's own, so a batch of any name is this pipeline's, or was.
    return isinstance(transaction, SqliteTransaction) and bool(transaction.pipelines())


def _take_over(config: Config, transaction: Transaction, stop: Stop) -> Committed | None:
    """Become the one who commits, and return the newest committed batch.

    A cluster that cannot be reached is waited for, unless asked to stop.
    """

    def take() -> Committed | None:
        if config.sections.kafka is not None:
            refuse_missing_topics(config)
        transaction.fence()
        return transaction.committed()

    if not config.commits_to_kafka:
        return take()
    return stop.patiently(take, config.sections.pipeline.poll_interval)


def run(
    config: Config,
    *,
    until_idle: bool = False,
    upgrade: bool = False,
    rebuild: bool = False,
    stop: Stop | None = None,
    watchers: Sequence[Watcher] = (),
) -> int:
    """Run the pipeline of `config` until asked to stop, from where its last run ended.

    Returns the sequence of the newest batch, 0 where there is none.

    It also goes on after a kill or a power cut, by replaying from the newest checkpoint; batches
    that another release made are replayed with `upgrade` alone. With `rebuild` it makes a state
    folder that was lost again. Every other end leaves a checkpoint, but for one within a batch.

    Where a signal handler ends its waits (`Stop.interrupt`), that is Interrupted.
    """
    state = State(config.state)
    stop = stop or Stop()
    with stop.interruptible(), state.locked(), closing(connect(config)) as connectors:
        refuse_damage(state.log, most=CHECKED_BYTES, stop=stop)
        committed = _take_over(config, connectors.transaction, stop)
        copies = copies_of(config)
        if rebuild:
            # Pickles are read where they were written, and nowhere else.
            kept = None if named(config) else copies
            committed = make_again(config, state, connectors.transaction, committed, kept)
        else:
            refuse_lost(config, committed, copies)
        newest = committed.sequence if committed else 0
        begun = has_begun(state, connectors.transaction, committed)
        adopt(config, state, begun=begun)
        keep_beginning(config, state, begun=begun)
        checkpoint = state.start_at(committed.sequence if committed else None)
        begin = f"going on after batch {newest}" if committed else "starting"
        _log.info("%s: %s; Ctrl-C stops", config.name, begin)
        last_error = LastError(state.last_error, config.mask, lambda: newest)
        with last_error.noted():
            with records_themselves(config, connectors.records) as records:
                schema = settle_schema(config, state, records, stop, until_idle=until_idle)
            if schema is None:
                return 0
            loop = build_loop(config, state, schema, connectors, stop, [*watchers, last_error])
            last_error.sequence = lambda: loop.pipeline.sequence
            with stamped(last_error.sequence), monitored(config, state, loop):
                on_gap = config.sections.pipeline.on_gap
                recover(loop, checkpoint, newest, on_gap=on_gap, upgrade=upgrade)
                if stop.requested:
                    return newest
                _follow_file(config, loop.pipeline)
                _go_on(loop, state, committed)
                if config.scores_apart:
                    begin_apart(config, loop)
                with stop.interruptible(False), copied(copies, loop):
                    return _work(loop, state, until_idle=until_idle)


def _follow_file(config: Config, pipeline: Pipeline) -> None:
    """Have the next batch, and its journal entry, take on what the file says anew."""
    if fields := added_fields(config, pipeline.schema):
        pipeline.journal_extras.fields = {name: field.given() for name, field in fields.items()}
    if (rules := rules_for(config, pipeline.schema)) != pipeline.schema.rules:
        pipeline.journal_extras.rules = rules
    if (decision := config.sections.decided_by) != pipeline.decision:
        pipeline.journal_extras.decision = decision


def _work(loop: Loop, state: State, *, until_idle: bool) -> int:
    """Run a recovered pipeline, and leave a checkpoint behind; return the newest batch."""
    try:
        loop.run(until_idle=until_idle)
    except Interrupted:
        if not loop.is_settled:
            _log.warning("stopped while a commit waits: the next run finds what came of it")
    finally:
        if loop.is_settled and loop.pipeline.sequence > loop.checkpointed:
            with state.told():
                loop.checkpoint()
    return loop.pipeline.sequence


def _go_on(loop: Loop, state: State, committed: Committed | None) -> None:
    """Have a recovered pipeline read on, and nothing left of what may have come after."""
    if committed is None:
        return
    loop.intake.seek(committed.positions)
    state.checkpoints.drop_after(committed.sequence)
    loop.pipeline.versions.forget_after(loop.pipeline.learner.trainer.made)
    extras = loop.pipeline.journal_extras
    if extras.gap is None and extras != JournalExtras():
        loop.try_checkpoint()


def build_loop(
    config: Config,
    state: State,
    schema: Schema,
    connectors: Connectors,
    stop: Stop | None = None,
    watchers: Sequence[Watcher] = (),
) -> Loop:
    """Make the loop of `config` over `connectors`; its pipeline knows nothing yet."""
    section, begun = config.sections.pipeline, begun_with(config, state)
    loop = Loop(
        _pipeline(config, state, schema, begun),
        _intake(config, schema, connectors),
        connectors.outputs,
        connectors.transaction,
        checkpoints=state.checkpoints,
        checkpoint_every=section.checkpoint_every,
        stop=stop,
        poll_interval=section.poll_interval,
        watchers=watchers,
        watched=partial(sources, config),
        ahead=not config.sections.labels.listens_to,
    )
    fingerprint = state.fingerprint()
    configuration = toml.write(bound(config))
    loop.about = {
        "fingerprint": fingerprint,
        "environment": environment(),
        "origin": {
            "schema": schema.to_json(),
            "configuration": configuration,
            "fingerprint": fingerprint,
        }
        | ({} if begun is None else {"committee": begun.digest}),
    }
    return loop


def _pipeline(config: Config, state: State, schema: Schema, begun: Beginning | None) -> Pipeline:
    section, expires_after = config.sections.pipeline, config.sections.requests.expires_after
    core, models = config.core, models_of(config, schema, state)
    if models is not None and models.serving is not None:
        core = replace(core, experts=("committee",))  # nobody else is asked
    learner = core.learner(schema, section.seed, config.sections.labels.on_conflict)
    if begun is not None:
        schema = begin_with(begun.committee, schema, learner)
    join = Join(Span.parse(section.join_window), Span.parse(expires_after), learner.n_features or 0)
    versions = Versions(state.versions, section.keep_versions)
    if config.scores_apart:
        return LearningPipeline(schema, learner, join, versions, on_gap=section.on_gap)
    return Pipeline(schema, learner, join, versions, models)


def _intake(config: Config, schema: Schema, connectors: Connectors) -> Intake:
    section = config.sections.pipeline
    window = Span.parse(section.join_window).records
    return Intake(
        connectors.records,
        connectors.labels,
        connectors.commands,
        connectors.bootstrap,
        most_records=section.batch_records,
        most_labels=section.batch_labels,
        record_time=time_reader(None if config.scores_apart else schema.time),
        label_time=time_reader("time"),
        apart=APART if window is None else max(window // 2, 1),
    )
