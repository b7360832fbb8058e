"""Connectors of a configuration: sources, sinks, transaction and topics.

Kafka's client library is imported only if the configuration uses Kafka.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamboost.connectors.base import Source, Transaction
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import ConnectorError
from streamboost.pipelines.app.distributed import (
    create_scoring_log_source,
    learner_outputs,
    shared_topic_settings,
)
from streamboost.pipelines.config.connectors.base import Endpoint
from streamboost.pipelines.config.connectors.kafka import KafkaTopic, kafka_cluster
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.distributed.topics import scoring_log_topic
from streamboost.pipelines.runner.batch import OutputSinks
from streamboost.pipelines.state.commands import CommandSource


@dataclass(frozen=True, slots=True)
class Connectors:
    """Sources, outputs and transaction of a pipeline."""

    records: Source
    labels: Source
    commands: Source
    initial_data: Source | None
    outputs: OutputSinks
    transaction: Transaction

    def close(self) -> None:
        """Close all connectors."""
        for part in (self.records, self.labels, self.commands, self.outputs, self.transaction):
            part.close()
        if self.initial_data is not None:
            self.initial_data.close()


def create_connectors(config: Config) -> Connectors:
    """Return the connectors of `config`; they open files and connections at their first use."""
    sections, around, found = config.sections, config.connector_context, create_sources(config)
    sinks = (
        sections.predictions.create_sink(around),
        sections.requests.create_sink(around),
        sections.dead_letters.create_sink(around),
    )
    outputs = OutputSinks(*sinks)
    if config.is_distributed:
        outputs = learner_outputs(config, *sinks)
    return Connectors(
        found["records"],
        found["labels"],
        found["commands"],
        found.get("initial_data"),
        outputs,
        create_transaction(config),
    )


def create_sources(config: Config) -> dict[str, Source]:
    """Return new sources by name ("records", "labels", ...), each with its own connection."""
    sections, around = config.sections, config.connector_context
    records = (
        create_scoring_log_source(config)
        if config.is_distributed
        else sections.source.create_source(around)
    )
    outputs = {name: getattr(sections, name) for name in sections.labels.outputs_read_by_oracle}
    labels = sections.labels.create_label_source(around, records, outputs)
    found = {"records": records, "labels": labels, "commands": CommandSource(config.state)}
    if sections.initial_data.file_input is not None:
        found["initial_data"] = sections.initial_data.file_input.create_source(around)
    return found


def create_transaction(config: Config) -> Transaction:
    """Return the transaction that commits batches: to Kafka, or to the SQLite log of the state."""
    if not config.commits_to_kafka:
        return SqliteTransaction(config.connector_context.log, config.name)
    from streamboost.connectors.kafka.transaction import KafkaTransaction

    read: dict[str, Endpoint] = {
        "records": config.sections.source,
        "labels": config.sections.labels,
    }
    topics = {name: s.topic for name, s in read.items() if isinstance(s, KafkaTopic)}
    if config.is_distributed:
        topics["records"] = scoring_log_topic(config.name)
    return KafkaTransaction(kafka_cluster(config.connector_context), config.name, topics)


def refuse_missing_topics(config: Config) -> str:
    """Raise ConnectorError if Kafka topics of `config` are missing; return their number as text."""
    from streamboost.connectors.kafka.admin import missing_topics

    wanted, cluster = _topic_settings(config), kafka_cluster(config.connector_context)
    if missing := missing_topics(cluster, list(wanted)):
        raise ConnectorError(
            f"{cluster.servers} has no topic {', '.join(missing)}: correct the name, or create "
            "topics with `streamboost check --create-topics`"
        )
    return f"{len(wanted)} topics are there"


def create_topics(config: Config) -> list[str]:
    """Create the missing Kafka topics of `config`; return the names of the new topics."""
    from streamboost.connectors.kafka import admin

    wanted, cluster = _topic_settings(config), kafka_cluster(config.connector_context)
    missing = admin.missing_topics(cluster, list(wanted))
    outputs, records = _output_topics(config), _records_topic(config)
    kept = admin.retention_ms(cluster, records)
    for topic in outputs if records else ():
        # Outputs keep the timestamp of their record, and must not be deleted before it.
        retention = {"retention.ms": str(kept[records[0]])} if kept else admin.REPLAYED["configs"]
        wanted[topic] = {**wanted[topic], "configs": retention}
    admin.create_topics(cluster, {topic: wanted[topic] for topic in missing})
    return missing


def _records_topic(config: Config) -> list[str]:
    source = config.sections.source
    return [source.topic] if isinstance(source, KafkaTopic) else []


def _output_topics(config: Config) -> list[str]:
    sections = config.sections
    outputs: tuple[Any, ...] = (sections.predictions, sections.requests, sections.dead_letters)
    return [section.topic for section in outputs if isinstance(section, KafkaTopic)]


def describe_topics(config: Config) -> str:
    """Return the number of topics, and a warning if outputs are deleted earlier than records.

    Raises ConnectorError if Kafka topics of `config` are missing.
    """
    from streamboost.connectors.kafka.admin import retention_ms

    number = refuse_missing_topics(config)
    records, outputs = _records_topic(config), _output_topics(config)
    if not (records and outputs):
        return number
    kept = retention_ms(kafka_cluster(config.connector_context), [*records, *outputs])
    limit = kept[records[0]]
    short = [topic for topic in outputs if kept[topic] >= 0 and not 0 <= limit <= kept[topic]]
    if not short:
        return number
    return (
        f"{number}; {', '.join(short)}: messages have the timestamp of their record, and are "
        f"deleted earlier than the record; set retention.ms = {limit}"
    )


def describe_retention_of_topics(config: Config) -> str:
    """Return a text with the maximum downtime before unread messages are deleted.

    The text has a warning if the cluster itself deletes entries of the journal. Raises
    ConnectorError if the cluster is unavailable.
    """
    from streamboost.connectors.kafka.admin import retention_limits
    from streamboost.connectors.kafka.journal import journal_topic

    sections: tuple[Any, ...] = (config.sections.source, config.sections.labels)
    read = [section.topic for section in sections if isinstance(section, KafkaTopic)]
    journal = journal_topic(config.name)
    found = retention_limits(kafka_cluster(config.connector_context), [*read, journal])
    kept = found.pop(journal, None)
    text = "the topics that are read keep their messages"
    if times := {topic: limits.ms for topic, limits in found.items() if limits.ms >= 0}:
        shortest = min(times, key=times.__getitem__)
        text = (
            f"restart within {times[shortest] / 3_600_000:,.4g} hours of the newest checkpoint: "
            f"topic {shortest} then deletes messages that the restart reads"
        )
    for topic, limits in found.items():
        if limits.bytes >= 0:
            text += (
                f"; topic {topic} keeps at most {limits.bytes:,} bytes of a partition "
                "(retention.bytes), of any age"
            )
    if kept is not None and (kept.ms >= 0 or kept.bytes >= 0 or kept.is_compacted):
        text += (
            f"; topic {journal}: the cluster deletes entries that a restart needs, or refuses "
            "them: set cleanup.policy = delete, retention.ms = -1 and retention.bytes = -1"
        )
    return text


def _topic_settings(config: Config) -> dict[str, Mapping[str, Any]]:
    from streamboost.connectors.kafka.admin import JOURNAL, MESSAGES, REPLAYED
    from streamboost.connectors.kafka.journal import journal_topic

    sections = config.sections
    kinds = [
        (sections.source, REPLAYED),
        (sections.labels, REPLAYED),
        (sections.predictions, MESSAGES),
        (sections.requests, MESSAGES),
        (sections.dead_letters, MESSAGES),
    ]
    wanted = {section.topic: kind for section, kind in kinds if isinstance(section, KafkaTopic)}
    if config.commits_to_kafka:
        wanted[journal_topic(config.name)] = JOURNAL
    return wanted | (shared_topic_settings(config) if config.is_distributed else {})
