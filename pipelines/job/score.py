"""Scores as one process of a pipeline whose scoring is separate from learning."""

import os
import socket
from collections.abc import Callable
from contextlib import closing
from secrets import token_hex
from typing import TYPE_CHECKING

from streamboost.connectors.messages.schema import Schema
from streamboost.pipelines.apart.topics import committees_topic, progress_topic, scorers_group
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.endpoints.kafka import KafkaInput, cluster_of
from streamboost.pipelines.job.apart import refuse_here, topic_of
from streamboost.pipelines.job.connect import refuse_missing_topics
from streamboost.pipelines.span import Span
from streamboost.pipelines.stop import Stop

if TYPE_CHECKING:
    from streamboost.pipelines.apart.scorer import Scorer
    from streamboost.stream.learner import StreamLearner

__all__ = ["score", "scorer_of"]


def score(config: Config, stop: Stop) -> int:
    """Score as a member of the pipeline's group until asked to stop; return how many records."""
    refuse_here(config)
    section = config.sections.pipeline
    with stop.interruptible():
        stop.patiently(lambda: refuse_missing_topics(config), section.poll_interval)
    with closing(scorer_of(config, stop)) as scorer:
        scorer.run()
    return scorer.records


def scorer_of(config: Config, stop: Stop) -> "Scorer":
    """Make a scorer of `config`; it joins the group with its first turn."""
    from streamboost.connectors.kafka.group.beside import Beside
    from streamboost.connectors.kafka.group.member import KafkaMember
    from streamboost.connectors.kafka.table import KafkaTable
    from streamboost.pipelines.apart.committees import Editions
    from streamboost.pipelines.apart.scorer import Scorer, Topics
    from streamboost.pipelines.apart.task import Settings

    section, cluster = config.sections.pipeline, cluster_of(config.surroundings)
    topics = Topics(
        topic_of(config, "source"),
        topic_of(config, "predictions"),
        topic_of(config, "requests"),
        topic_of(config, "dead_letters"),
        progress_topic(config.name),
    )
    worker = f"{socket.gethostname()}:{os.getpid()}:{token_hex(3)}"
    settings = Settings(
        config.core.query,
        section.seed,
        Span.parse(config.sections.requests.expires_after),
        worker,
    )
    table = committees_topic(config.name)
    source = config.sections.source
    assert isinstance(source, KafkaInput)
    member = KafkaMember(
        cluster,
        scorers_group(config.name),
        topics.records,
        config.sections.schema_.max_record_bytes,
        source.on_corrupt,
    )
    return Scorer(
        member,
        Beside(cluster),
        topics,
        KafkaTable(cluster, table),
        Editions(_maker(config), f"topic {table!r}"),
        settings,
        most=section.batch_records,
        stop=stop,
        poll_interval=section.poll_interval,
        on_gap=section.on_gap,
    )


def _maker(config: Config) -> "Callable[[Schema], StreamLearner]":
    """Return what makes learners of the pipeline's settings that know nothing."""
    core, seed = config.core, config.sections.pipeline.seed
    return lambda schema: core.learner(schema, seed)
