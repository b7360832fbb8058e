"""What a configuration comes to where scoring is apart from learning."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from streamboost.connectors.base import Sink, Source
from streamboost.errors import ConfigurationError, ConnectorError
from streamboost.pipelines.apart.topics import committees_topic, progress_topic
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.endpoints.kafka import KafkaTopic, cluster_of
from streamboost.pipelines.engine.batch import Outputs
from streamboost.pipelines.engine.watchers import Watcher
from streamboost.pipelines.span import Span

if TYPE_CHECKING:
    from streamboost.pipelines.engine.loop import Loop

__all__ = [
    "begin_apart",
    "follow_partitions",
    "learner_outputs",
    "progress",
    "records_themselves",
    "refuse_apart",
    "refuse_here",
    "shared_topics",
    "shares",
    "topic_of",
]

_log = logging.getLogger(__name__)

_EVERY = 10.0
"""Seconds from one look at how many partitions there are to the next."""

_MOST_BYTES = 32 * 2**20
"""Of an entry of progress, which holds the requests of a batch."""


def refuse_here(config: Config) -> None:
    """Raise ConfigurationError unless scoring is apart."""
    if not config.scores_apart:
        raise ConfigurationError(
            f'{config.name}: [pipeline] scoring is "here": start it with `streamboost run`, or '
            'write scoring = "apart"'
        )


def refuse_apart(config: Config) -> None:
    """Raise ConfigurationError where scoring is apart."""
    if config.scores_apart:
        raise ConfigurationError(
            f'{config.name}: [pipeline] scoring is "apart": start `streamboost learn` and '
            "`streamboost score`, or all of it on this machine with `streamboost run --workers 3`"
        )


def progress(config: Config) -> Source:
    """Return what a learner reads in the place of records."""
    from streamboost.connectors.kafka.topic import KafkaSource

    cluster, topic = cluster_of(config.surroundings), progress_topic(config.name)
    return KafkaSource(cluster, topic, _MOST_BYTES, on_gap=config.surroundings.on_gap)


def learner_outputs(
    config: Config, predictions: Sink, requests: Sink, dead_letters: Sink
) -> Outputs:
    """Return where a learner writes, which is also what scorers predict by."""
    from streamboost.connectors.kafka.table import KafkaTableSink
    from streamboost.pipelines.apart.learning import LearnerOutputs

    table = KafkaTableSink(cluster_of(config.surroundings), committees_topic(config.name))
    return LearnerOutputs(predictions, requests, dead_letters, table)


def shared_topics(config: Config) -> dict[str, Mapping[str, Any]]:
    """Return the topics that scorers and learner share, with what is to be set where created."""
    from streamboost.connectors.kafka.admin import MESSAGES, PROGRESS, TABLE, partitions_of

    records = topic_of(config, "source")
    there = partitions_of(cluster_of(config.surroundings), [records])
    n = {"num_partitions": there[records]} if records in there else {}
    return {
        progress_topic(config.name): {**PROGRESS, **n},
        committees_topic(config.name): TABLE,
        topic_of(config, "predictions"): {**MESSAGES, **n},
    }


def shares(config: Config) -> str:
    """Say how many scorers there may be, and what each partition may spend."""
    from streamboost.connectors.kafka.admin import partitions_of
    from streamboost.pipelines.apart.task import Settings

    records = topic_of(config, "source")
    n = partitions_of(cluster_of(config.surroundings), [records])[records]
    query = config.core.query
    each = Settings(query, 0, Span(records=1), "").of(n)
    return (
        f"up to {n} scorers, as many as topic {records} has partitions; each partition asks for "
        f"{float(query.budget):g} of its own records, in bursts of {each.burst}: where a key "
        "decides on the partition, the busy ones spend most"
    )


def follow_partitions(config: Config) -> None:
    """Let predictions and progress have as many partitions as records."""
    from streamboost.connectors.kafka.admin import add_partitions, partitions_of

    records, cluster = topic_of(config, "source"), cluster_of(config.surroundings)
    others = [topic_of(config, "predictions"), progress_topic(config.name)]
    there = partitions_of(cluster, [records, *others])
    n = there.get(records, 0)
    if fewer := {topic: n for topic in others if there.get(topic, n) < n}:
        add_partitions(cluster, fewer)
        _log.info("%s: %d partitions, as the records have", ", ".join(fewer), n)


@contextmanager
def records_themselves(config: Config, source: Source) -> Iterator[Source]:
    """Give the source of records: where scoring is apart, a pipeline's own is another."""
    if not config.scores_apart:
        yield source
        return
    with closing(config.sections.source.source(config.surroundings)) as records:
        yield records


def begin_apart(config: Config, loop: "Loop") -> None:
    """Let scorers have what they need: places to write to, and what to predict by."""
    follow = partial(follow_partitions, config)
    loop.stop.patiently(follow, loop.poll_interval)
    loop.watchers.append(_Partitions(follow))
    loop.commit(loop.step(loop.intake.empty(), None))


class _Partitions(Watcher):
    """Follows the records' partitions, so that those that join are scored, too."""

    def __init__(self, follow: Callable[[], None]) -> None:
        self._follow = follow
        self._due = time.monotonic() + _EVERY

    def between_batches(self) -> None:
        """See now and then whether there are more."""
        if time.monotonic() < self._due:
            return
        try:
            self._follow()
        except ConnectorError as error:
            _log.warning("partitions cannot be followed: %s", error)
        self._due = time.monotonic() + _EVERY


def topic_of(config: Config, name: str) -> str:
    """Return the topic that a section names."""
    section = getattr(config.sections, name)
    assert isinstance(section, KafkaTopic)
    return section.topic
