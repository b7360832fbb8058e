"""From a configuration to a pipeline that is ready to run."""

import logging
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamboost.connectors.base import Message, Sink, Source
from streamboost.connectors.files import JsonLinesSink, JsonLinesSource
from streamboost.connectors.river import RiverOracle, RiverSource
from streamboost.connectors.schema import Schema
from streamboost.connectors.sqlite import SqliteSink, SqliteSource, SqliteTransaction
from streamboost.pipelines.config import Config
from streamboost.pipelines.effects import Outputs
from streamboost.pipelines.inputs import Intake
from streamboost.pipelines.join import Join
from streamboost.pipelines.runtime import Observer, Pipeline, Stop
from streamboost.pipelines.sections import FilesInput, FilesOutput, SqliteInput
from streamboost.pipelines.sections import RiverOracle as OracleSection
from streamboost.pipelines.span import Span
from streamboost.pipelines.state import State

__all__ = ["Connectors", "connect", "first_messages", "run"]

_log = logging.getLogger(__name__)

INFERRED_FROM = 200
"""Records looked at to find the numeric fields."""


@dataclass(frozen=True, slots=True)
class Connectors:
    """What a configuration connects."""

    records: Source
    labels: Source
    outputs: Outputs
    transaction: SqliteTransaction

    def close(self) -> None:
        """Close all of it."""
        for part in (self.records, self.labels, self.outputs, self.transaction):
            part.close()


def connect(config: Config, log: Path) -> Connectors:
    """Make the connectors of `config`; `log` is where streams without a path are.

    Nothing is opened or written before it is used.
    """
    sections = config.sections
    records = _source(config, sections.source, log)
    if isinstance(sections.labels, OracleSection):
        requests = _source(config, sections.requests, log)
        oracle = sections.labels
        labels: Source = RiverOracle(oracle.dataset, requests, oracle.delay, records)
    else:
        labels = _source(config, sections.labels, log)
    outputs = Outputs(
        _sink(config, sections.predictions, log),
        _sink(config, sections.requests, log),
        _sink(config, sections.dead_letters, log),
    )
    return Connectors(records, labels, outputs, SqliteTransaction(log, config.name))


def _source(config: Config, section: Any, log: Path) -> Source:
    most = config.sections.schema_.max_record_bytes
    if isinstance(section, SqliteInput):
        return SqliteSource(_log_of(config, section, log), section.stream, most)
    if isinstance(section, FilesInput):
        return JsonLinesSource(config.resolve(section.path), most, section.follow)
    return RiverSource(section.dataset)


def _sink(config: Config, section: SqliteInput | FilesOutput, log: Path) -> Sink:
    if isinstance(section, FilesOutput):
        return JsonLinesSink(config.resolve(section.path))
    return SqliteSink(_log_of(config, section, log), section.stream)


def _log_of(config: Config, section: SqliteInput, log: Path) -> Path:
    return log if section.path is None else config.resolve(section.path).absolute()


def first_messages(source: Source, most: int = INFERRED_FROM) -> list[Message]:
    """Return what the source begins with, leaving it where it was."""
    position = source.position()
    messages = source.poll(most)
    source.seek(position)
    return messages


def _settle_schema(
    config: Config, state: State, records: Source, stop: Stop, *, until_idle: bool
) -> Schema | None:
    """Return the schema with its features, waiting for the first records if they must be seen.

    None says that no record came before it was time to stop.
    """
    known = state.schema()
    if known is not None:
        return known
    schema = config.sections.schema_.build()
    while not schema.resolved:
        if messages := first_messages(records):
            schema, sentence = schema.infer(messages)
            _log.info("%s", sentence)
        elif until_idle or stop.requested:
            return None
        else:
            stop.rest(config.sections.pipeline.poll_interval)
    state.keep_schema(schema)
    return schema


def run(
    config: Config,
    *,
    until_idle: bool = False,
    stop: Stop | None = None,
    observer: Observer | None = None,
) -> None:
    """Run the pipeline of `config` until asked to stop, from where its last run ended.

    Every end leaves a snapshot, but for one within a batch: what was learned and what was
    committed have parted then.
    """
    state = State(config.state)
    stop = stop or Stop()
    with state.locked(), closing(connect(config, state.log)) as connectors:
        committed = connectors.transaction.committed()
        state.adopt(config, begun=_has_begun(state))
        saved = state.load_at(committed.sequence if committed else None)
        schema = _settle_schema(config, state, connectors.records, stop, until_idle=until_idle)
        if schema is None:
            return
        pipeline = _pipeline(config, schema, connectors, stop, observer)
        if committed and saved:
            pipeline.restore(*saved)
            pipeline.intake.seek(committed.positions)
        before = pipeline.sequence
        try:
            pipeline.run(until_idle=until_idle)
        finally:
            if pipeline.is_settled and pipeline.sequence > before:
                state.save(*pipeline.snapshot())
        _log.info("stopped after batch %d", pipeline.sequence)


def _has_begun(state: State) -> bool:
    """Tell whether the state holds more than what a run writes before its first batch."""
    name = state.name()
    if name is None:
        return False
    with closing(SqliteTransaction(state.log, name)) as transaction:
        return state.snapshot.exists() or transaction.committed() is not None


def _pipeline(
    config: Config,
    schema: Schema,
    connectors: Connectors,
    stop: Stop,
    observer: Observer | None,
) -> Pipeline:
    section, requests = config.sections.pipeline, config.sections.requests
    width = len(schema.features)
    return Pipeline(
        schema,
        config.core.learner(width, section.seed),
        Join(Span.parse(section.join_window), Span.parse(requests.expires_after), width),
        Intake(
            connectors.records,
            connectors.labels,
            most_records=section.batch_records,
            most_labels=section.batch_labels,
        ),
        connectors.outputs,
        connectors.transaction,
        stop=stop,
        poll_interval=section.poll_interval,
        observer=observer,
    )
