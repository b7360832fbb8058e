"""The topics of a pipeline: what its file says of Kafka, as connectors.

Only those who use Kafka import this: it loads the client library.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from streamboost.connectors.base import Sink, Source, Transaction
from streamboost.connectors.kafka.admin import (
    JOURNAL,
    MESSAGES,
    REPLAYED,
    create_topics,
    missing_topics,
)
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.journal import journal_topic
from streamboost.connectors.kafka.options import FILES
from streamboost.connectors.kafka.sink import KafkaSink
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.connectors.kafka.transaction import KafkaTransaction
from streamboost.errors import ConfigurationError, ConnectorError
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.config.sections import KafkaInput, KafkaSection, KafkaTopic, Section

__all__ = ["create", "refuse_missing", "refused", "sink", "source", "transaction"]


def refused(section: KafkaSection) -> Iterator[tuple[str, str]]:
    """Give each option that cannot be set, and why."""
    for name, value in (section.model_extra or {}).items():
        try:
            KafkaCluster(section.bootstrap_servers, {name: value})
        except ConfigurationError as error:
            yield name, str(error)


def source(config: Config, section: KafkaTopic) -> Source:
    """Return the source of a section."""
    return KafkaSource(
        _cluster(config),
        section.topic,
        config.sections.schema_.max_record_bytes,
        on_gap=config.sections.pipeline.on_gap,
        on_corrupt=section.on_corrupt if isinstance(section, KafkaInput) else "stop",
    )


def sink(config: Config, section: KafkaTopic) -> Sink:
    """Return the sink of a section."""
    return KafkaSink(_cluster(config), section.topic)


def transaction(config: Config) -> Transaction:
    """Return what commits the pipeline's batches to the cluster."""
    read = {"records": config.sections.source, "labels": config.sections.labels}
    topics = {name: s.topic for name, s in read.items() if isinstance(s, KafkaTopic)}
    return KafkaTransaction(_cluster(config), config.name, topics)


def refuse_missing(config: Config) -> str:
    """Say that all topics are there; ConnectorError names those that are not."""
    wanted = _wanted(config)
    cluster = _cluster(config)
    if missing := missing_topics(cluster, list(wanted)):
        raise ConnectorError(
            f"{cluster.servers} has no topic {', '.join(missing)}: correct the name, or create "
            "with `streamboost check --create-topics`"
        )
    return f"{len(wanted)} topics are there"


def create(config: Config) -> list[str]:
    """Create the topics that are missing; return their names."""
    cluster, wanted = _cluster(config), _wanted(config)
    missing = missing_topics(cluster, list(wanted))
    create_topics(cluster, {topic: wanted[topic] for topic in missing})
    return missing


def _cluster(config: Config) -> KafkaCluster:
    section = config.sections.kafka
    assert section is not None
    options = dict(section.model_extra or {})
    for name in FILES:
        if isinstance(options.get(name), str):
            options[name] = str(config.resolve(options[name]))
    return KafkaCluster(section.bootstrap_servers, options)


def _wanted(config: Config) -> dict[str, Mapping[str, Any]]:
    """Return the pipeline's topics, with what is to be set where they are created."""
    sections = config.sections
    kinds: list[tuple[Section, Mapping[str, Any]]] = [
        (sections.source, REPLAYED),
        (sections.labels, REPLAYED),
        (sections.predictions, MESSAGES),
        (sections.requests, MESSAGES),
        (sections.dead_letters, MESSAGES),
    ]
    wanted = {section.topic: kind for section, kind in kinds if isinstance(section, KafkaTopic)}
    if sections.kafka is not None and sections.kafka.transactions:
        wanted[journal_topic(config.name)] = JOURNAL
    return wanted
