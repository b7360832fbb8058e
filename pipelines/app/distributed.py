"""Connectors, topics and partitions of a configuration with distributed scoring."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from streamboost.connectors.base import Sink, Source
from streamboost.errors import ConfigurationError, ConnectorError
from streamboost.pipelines.config.connectors.kafka import KafkaTopic, kafka_cluster
from streamboost.pipelines.config.durations import WindowSize
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.distributed.topics import models_topic, scoring_log_topic
from streamboost.pipelines.runner.batch import OutputSinks
from streamboost.pipelines.runner.observers import Observer

if TYPE_CHECKING:
    from streamboost.pipelines.runner.runner import Runner

_log = logging.getLogger(__name__)

_EVERY = 10.0
"""Seconds between two queries of the number of partitions."""

_MOST_BYTES = 32 * 2**20
"""Maximum size in bytes of a scoring log entry, which has the requests of a batch."""


def require_distributed_scoring(config: Config) -> None:
    """Raise ConfigurationError unless `config` has scoring = "distributed"."""
    if not config.is_distributed:
        raise ConfigurationError(
            f'{config.name}: [pipeline] scoring is "local": start it with `streamboost run`, or '
            'set scoring = "distributed"'
        )


def require_local_scoring(config: Config) -> None:
    """Raise ConfigurationError if `config` has scoring = "distributed"."""
    if config.is_distributed:
        raise ConfigurationError(
            f'{config.name}: [pipeline] scoring is "distributed": start `streamboost learn` and '
            "`streamboost score`, or both on this machine with `streamboost run --workers 3`"
        )


def create_scoring_log_source(config: Config) -> Source:
    """Return the source of the scoring log; with distributed scoring, the learner reads it."""
    from streamboost.connectors.kafka.topic import KafkaSource

    cluster, topic = kafka_cluster(config.connector_context), scoring_log_topic(config.name)
    return KafkaSource(
        cluster, topic, _MOST_BYTES, on_data_loss=config.connector_context.on_data_loss
    )


def learner_outputs(
    config: Config, predictions: Sink, requests: Sink, dead_letters: Sink
) -> OutputSinks:
    """Return the sinks of a learner, including the topic of model snapshots."""
    from streamboost.connectors.kafka.compacted_topic import CompactedTopicSink
    from streamboost.pipelines.distributed.learning import LearnerSinks

    table = CompactedTopicSink(kafka_cluster(config.connector_context), models_topic(config.name))
    return LearnerSinks(predictions, requests, dead_letters, table)


def shared_topic_settings(config: Config) -> dict[str, Mapping[str, Any]]:
    """Return a mapping from each topic that scorers and learner share to its Kafka settings."""
    from streamboost.connectors.kafka.admin import MESSAGES, PROGRESS, TABLE, partition_counts

    records = section_topic(config, "source")
    there = partition_counts(kafka_cluster(config.connector_context), [records])
    n = {"num_partitions": there[records]} if records in there else {}
    return {
        scoring_log_topic(config.name): {**PROGRESS, **n},
        models_topic(config.name): TABLE,
        section_topic(config, "predictions"): {**MESSAGES, **n},
    }


def scorer_limits_text(config: Config) -> str:
    """Return a text with the maximum number of scorers, and the label budget of each partition."""
    from streamboost.connectors.kafka.admin import partition_counts
    from streamboost.pipelines.distributed.partition_task import TaskSettings

    records = section_topic(config, "source")
    n = partition_counts(kafka_cluster(config.connector_context), [records])[records]
    query = config.learner_config.query
    each = TaskSettings(query, 0, WindowSize(records=1), "").query_config_per_partition(n)
    return (
        f"up to {n} scorers, one for each partition of topic {records}; each partition requests "
        f"labels for {float(query.budget):g} of its own records, in bursts of {each.burst}: "
        "partitions with more records request more labels"
    )


def add_missing_partitions(config: Config) -> None:
    """Add partitions to the predictions and scoring log topics to match the records topic."""
    from streamboost.connectors.kafka.admin import add_partitions, partition_counts

    records, cluster = section_topic(config, "source"), kafka_cluster(config.connector_context)
    others = [section_topic(config, "predictions"), scoring_log_topic(config.name)]
    there = partition_counts(cluster, [records, *others])
    n = there.get(records, 0)
    if fewer := {topic: n for topic in others if there.get(topic, n) < n}:
        add_partitions(cluster, fewer)
        _log.info(
            "%s: extended to %d partitions, the number of the records topic",
            ", ".join(fewer),
            n,
            extra={"event": "partitions_added"},
        )


@contextmanager
def open_records_source(config: Config, source: Source) -> Iterator[Source]:
    """Context manager that yields a source of the records.

    With local scoring, this is `source`. With distributed scoring, `source` reads the scoring log,
    so a new source of the records is opened, and closed at the end.
    """
    if not config.is_distributed:
        yield source
        return
    with closing(config.sections.source.create_source(config.connector_context)) as records:
        yield records


def prepare_distributed_scoring(config: Config, runner: "Runner") -> None:
    """Publish the first model snapshot; add missing partitions, now and between batches."""
    synchronize = partial(add_missing_partitions, config)
    runner.stop.retry_until_success(synchronize, runner.poll_interval)
    runner.observers.append(_PartitionSynchronizer(synchronize))
    runner.commit(runner.step(runner.intake.build_empty_batch(), None))


class _PartitionSynchronizer(Observer):
    def __init__(self, synchronize: Callable[[], None]) -> None:
        self._synchronize = synchronize
        self._due = time.monotonic() + _EVERY

    def between_batches(self) -> None:
        """Call `synchronize` every `_EVERY` seconds; log a warning if the call fails."""
        if time.monotonic() < self._due:
            return
        try:
            self._synchronize()
        except ConnectorError as error:
            _log.warning(
                "the number of partitions cannot be checked: %s",
                error,
                extra={"event": "partitions_unreadable"},
            )
        self._due = time.monotonic() + _EVERY


def section_topic(config: Config, section_name: str) -> str:
    """Return the Kafka topic of a connector section, such as "source" or "predictions"."""
    section = getattr(config.sections, section_name)
    assert isinstance(section, KafkaTopic)
    return section.topic
