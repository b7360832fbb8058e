"""From a configuration to its connectors.

Kafka's client library is loaded for those alone who use it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamboost.connectors.base import Sink, Source, Transaction
from streamboost.connectors.files.json_lines import JsonLinesSink
from streamboost.connectors.files.open import STDIN, file_source, is_json_lines
from streamboost.connectors.river import RiverOracle, RiverSource
from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import ConfigurationError
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.config.sections import (
    FilesInput,
    FilesOutput,
    KafkaTopic,
    RiverInput,
    SqliteInput,
)
from streamboost.pipelines.config.sections import RiverOracle as OracleSection
from streamboost.pipelines.engine.batch import Outputs
from streamboost.pipelines.state.commands import CommandSource

__all__ = ["Connectors", "connect", "feeder", "follower", "sources"]


@dataclass(frozen=True, slots=True)
class Connectors:
    """What a configuration connects."""

    records: Source
    labels: Source
    commands: Source
    bootstrap: Source | None
    outputs: Outputs
    transaction: Transaction

    def close(self) -> None:
        """Close all of it."""
        for part in (self.records, self.labels, self.commands, self.outputs, self.transaction):
            part.close()
        if self.bootstrap is not None:
            self.bootstrap.close()


def connect(config: Config, log: Path) -> Connectors:
    """Make the connectors of `config`; `log` is where streams without a path are.

    Nothing is opened or written before it is used.
    """
    sections, found = config.sections, sources(config, log)
    outputs = Outputs(
        _sink(config, sections.predictions, log),
        _sink(config, sections.requests, log),
        _sink(config, sections.dead_letters, log),
    )
    transaction = _transaction(config, log)
    return Connectors(
        found["records"],
        found["labels"],
        found["commands"],
        found.get("bootstrap"),
        outputs,
        transaction,
    )


def sources(config: Config, log: Path) -> dict[str, Source]:
    """Make the sources of `config` by their names, sharing nothing with those made before."""
    sections = config.sections
    records = _source(config, sections.source, log)
    if isinstance(sections.labels, OracleSection):
        requests = _source(config, sections.requests, log)
        oracle = sections.labels
        labels: Source = RiverOracle(oracle.dataset, requests, oracle.delay, records)
    else:
        labels = _source(config, sections.labels, log)
    found = {"records": records, "labels": labels, "commands": CommandSource(config.state)}
    if sections.bootstrap.path is not None:
        found["bootstrap"] = _file(config, sections.bootstrap.path)
    return found


def feeder(config: Config, name: str, log: Path) -> Sink:
    """Return what appends to the source of section `name`, "source" or "labels".

    Raises ConfigurationError where nothing can be appended to it while the pipeline reads.
    """
    section = getattr(config.sections, name)
    if isinstance(section, RiverInput):
        why = "its dataset cannot be added to"
    elif not isinstance(section, FilesInput):
        return _sink(config, section, log)
    elif section.path == STDIN:
        why = "standard input belongs to the process that reads it"
    elif not is_json_lines(section.path):
        why = "only files of JSON Lines can be appended to"
    elif not section.follow:
        why = "its file is said to be complete (follow = false)"
    else:
        return JsonLinesSink(config.resolve(section.path))
    raise ConfigurationError(
        f"[{name}] cannot be written to: {why}; use SQLite, Kafka, or a JSON Lines file with "
        "follow = true"
    )


def follower(config: Config, name: str, log: Path) -> Source:
    """Return what reads along the messages of section `name`, "requests" or "labels"."""
    section = getattr(config.sections, name)
    if isinstance(section, FilesInput | FilesOutput):
        return file_source(config.resolve(section.path), follow=True)
    return _source(config, section, log)


def _source(config: Config, section: Any, log: Path) -> Source:
    most = config.sections.schema_.max_record_bytes
    if isinstance(section, SqliteInput):
        return SqliteSource(_log_of(config, section, log), section.stream, most)
    if isinstance(section, KafkaTopic):
        from streamboost.pipelines.job import topics

        return topics.source(config, section)
    if isinstance(section, FilesInput):
        return _file(config, section.path, section.follow)
    return RiverSource(section.dataset)


def _file(config: Config, path: str, follow: bool = False) -> Source:
    """Return the source of a file; in a table, ids and labels that should be are text."""
    schema = config.sections.schema_
    text = {schema.id, "id", "source"} | ({"label"} if schema.label == "string" else set())
    place = path if path == STDIN else config.resolve(path)
    return file_source(place, text, schema.max_record_bytes, follow)


def _sink(config: Config, section: SqliteInput | FilesOutput | KafkaTopic, log: Path) -> Sink:
    if isinstance(section, KafkaTopic):
        from streamboost.pipelines.job import topics

        return topics.sink(config, section)
    if isinstance(section, FilesOutput):
        return JsonLinesSink(config.resolve(section.path))
    return SqliteSink(_log_of(config, section, log), section.stream)


def _log_of(config: Config, section: SqliteInput, log: Path) -> Path:
    return log if section.path is None else config.resolve(section.path).absolute()


def _transaction(config: Config, log: Path) -> Transaction:
    if config.commits_to_kafka:
        from streamboost.pipelines.job import topics

        return topics.transaction(config)
    return SqliteTransaction(log, config.name)
