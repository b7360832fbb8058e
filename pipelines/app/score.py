"""Composition of a scorer from a configuration, and the `score` command."""

import os
import socket
from collections.abc import Callable
from contextlib import closing
from secrets import token_hex
from typing import TYPE_CHECKING

from streamboost.connectors.messages.schema import Schema
from streamboost.pipelines.app.connect import refuse_missing_topics
from streamboost.pipelines.app.distributed import require_distributed_scoring, section_topic
from streamboost.pipelines.config.connectors.kafka import KafkaInput, kafka_cluster
from streamboost.pipelines.config.durations import WindowSize
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.distributed.topics import (
    models_topic,
    scorer_group_id,
    scoring_log_topic,
)
from streamboost.pipelines.shutdown import StopToken

if TYPE_CHECKING:
    from streamboost.learner.learner import StreamLearner
    from streamboost.pipelines.distributed.scorer import Scorer


def run_scorer(config: Config, stop: StopToken) -> int:
    """Run a scorer until a stop request; return the number of records that it scored."""
    require_distributed_scoring(config)
    section = config.sections.pipeline
    with stop.interruptible():
        stop.retry_until_success(lambda: refuse_missing_topics(config), section.poll_interval)
    with closing(build_scorer(config, stop)) as scorer:
        scorer.run()
    return scorer.records


def build_scorer(config: Config, stop: StopToken) -> "Scorer":
    """Build a scorer of `config`; the scorer joins the consumer group at its first poll."""
    from streamboost.connectors.kafka.compacted_topic import CompactedTopicReader
    from streamboost.connectors.kafka.group.committed_reader import CommittedReader
    from streamboost.connectors.kafka.group.member import KafkaMember
    from streamboost.pipelines.distributed.model_log import ModelLogReader
    from streamboost.pipelines.distributed.partition_task import TaskSettings
    from streamboost.pipelines.distributed.scorer import Scorer, ScorerTopics

    section, cluster = config.sections.pipeline, kafka_cluster(config.connector_context)
    topics = ScorerTopics(
        section_topic(config, "source"),
        section_topic(config, "predictions"),
        section_topic(config, "requests"),
        section_topic(config, "dead_letters"),
        scoring_log_topic(config.name),
    )
    worker = f"{socket.gethostname()}:{os.getpid()}:{token_hex(3)}"
    settings = TaskSettings(
        config.learner_config.query,
        section.seed,
        WindowSize.parse(config.sections.requests.expires_after),
        worker,
        config.sections.prediction_field,
    )
    table = models_topic(config.name)
    source = config.sections.source
    assert isinstance(source, KafkaInput)
    member = KafkaMember(
        cluster,
        scorer_group_id(config.name),
        topics.records,
        config.sections.schema_.max_record_bytes,
        source.on_corrupt,
    )
    return Scorer(
        member,
        CommittedReader(cluster),
        topics,
        CompactedTopicReader(cluster, table),
        ModelLogReader(_learner_factory(config), f"topic {table!r}"),
        settings,
        max_records=section.batch_records,
        stop=stop,
        poll_interval=section.poll_interval,
        on_data_loss=section.on_data_loss,
    )


def _learner_factory(config: Config) -> "Callable[[Schema], StreamLearner]":
    core, seed = config.learner_config, config.sections.pipeline.seed
    return lambda schema: core.build_learner(schema, seed, encoders=config.encoders)
