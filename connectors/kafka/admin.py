"""Apache Kafka: lists, creates and configures topics."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from streamboost.connectors.kafka.cluster import KafkaCluster, translate_errors
from streamboost.errors import ConnectorError

_THERE_ALREADY = 36
"""Error code of the broker if a topic to create already exists."""

_MONTH_MS = 30 * 24 * 3600 * 1000

REPLAYED: Mapping[str, Any] = {"configs": {"retention.ms": str(_MONTH_MS)}}
"""Settings of a topic that is replayed after a restart: retention of a month, the maximum age of a
checkpoint."""

MESSAGES: Mapping[str, Any] = {}
"""Settings of a topic that is not replayed: the cluster's defaults."""

PROGRESS: Mapping[str, Any] = {
    # Entries are read again by a replay of the learner.
    "configs": {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": str(_MONTH_MS),
        "max.message.bytes": str(16 * 2**20),
    },
}
"""Settings of the scoring log: the newest entry of a partition is retained without limit."""

TABLE: Mapping[str, Any] = {
    "num_partitions": 1,
    # Each start reads the whole topic, so outdated messages are removed soon.
    "configs": {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.1",
        "segment.ms": "600000",
        "segment.bytes": str(64 * 2**20),
    },
}
"""Settings of a compacted topic, in which only the newest message of each key is used."""

JOURNAL: Mapping[str, Any] = {
    "num_partitions": 1,
    # Its end is the committed progress of the pipeline, and must outlast any pause. The pipeline
    # deletes old entries (`KafkaJournal.delete_before`), which frees whole segments.
    "configs": {
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "cleanup.policy": "delete",
        "segment.bytes": str(64 * 2**20),
    },
}
"""Settings of a journal topic."""


def missing_topics(cluster: KafkaCluster, topics: Sequence[str]) -> list[str]:
    """Return the names in `topics` that do not exist in the cluster."""
    with closing(cluster.create_admin_client()) as admin, translate_errors(cluster.servers):
        there = set(admin.list_topics())
    return [topic for topic in topics if topic not in there]


def create_topics(cluster: KafkaCluster, topics: Mapping[str, Mapping[str, Any]]) -> None:
    """Create `topics`, a mapping from name to the settings that differ from the cluster's defaults.

    Existing topics are not changed. Raises ConnectorError if the cluster refuses.
    """
    if not topics:
        return
    with closing(cluster.create_admin_client()) as admin, translate_errors(cluster.servers):
        answer = admin.create_topics(
            {name: dict(settings) for name, settings in topics.items()},
            raise_errors=False,
        )
        for topic in answer["topics"]:
            if topic["error_code"] not in (0, _THERE_ALREADY):
                raise ConnectorError(
                    f"{cluster.servers} does not create topic {topic['name']!r}: "
                    f"{topic['error_message']}"
                )
        admin.wait_for_topics(list(topics))


def partition_counts(cluster: KafkaCluster, topics: Sequence[str]) -> dict[str, int]:
    """Return the number of partitions of each existing topic in `topics`, keyed by topic."""
    with closing(cluster.create_admin_client()) as admin, translate_errors(cluster.servers):
        found = admin.describe_topics(list(topics))
    return {one["name"]: len(one["partitions"]) for one in found if one["error_code"] == 0}


def retention_ms(cluster: KafkaCluster, topics: Sequence[str]) -> dict[str, int]:
    """Return the retention time (ms) of each existing topic in `topics`, keyed by topic.

    The value is -1 if messages of the topic are not deleted by age.
    """
    return {topic: limits.ms for topic, limits in retention_limits(cluster, topics).items()}


class RetentionLimits(NamedTuple):
    """Limits after which brokers delete messages of a topic; -1: no limit.

    Attributes
    ----------
    ms : age in milliseconds
    bytes : size of a partition
    is_compacted : whether brokers also delete messages if a newer message has the same key
    """

    ms: int
    bytes: int
    is_compacted: bool


def retention_limits(cluster: KafkaCluster, topics: Sequence[str]) -> dict[str, RetentionLimits]:
    """Return the retention limits of each existing topic in `topics`, keyed by topic."""
    from kafka.admin import ConfigResource, ConfigResourceType

    there = list(partition_counts(cluster, topics))
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in there]
    with closing(cluster.create_admin_client()) as admin, translate_errors(cluster.servers):
        found = admin.describe_configs(resources, config_filter="all")["topic"] if there else {}
    limits = {}
    for topic in there:
        settings = {name: setting["value"] for name, setting in found[topic].items()}
        policies = settings["cleanup.policy"]
        ms, size = (
            (int(settings["retention.ms"]), int(settings["retention.bytes"]))
            if "delete" in policies
            else (-1, -1)
        )
        limits[topic] = RetentionLimits(ms, size, "compact" in policies)
    return limits


def add_partitions(cluster: KafkaCluster, topics: Mapping[str, int]) -> None:
    """Increase the partition count of each topic to its number in `topics`.

    Raises ConnectorError if the cluster refuses.
    """
    with closing(cluster.create_admin_client()) as admin, translate_errors(cluster.servers):
        admin.create_partitions(dict(topics))


def check_group_is_empty(cluster: KafkaCluster, group: str) -> None:
    """Raise ConnectorError if the consumer group `group` has members."""
    with closing(cluster.create_admin_client()) as admin, translate_errors(cluster.servers):
        found = admin.describe_groups([group])
    members = found[group]["members"]
    if members:
        raise ConnectorError(
            f"the consumer group {group!r} at {cluster.servers} has {len(members)} members, and "
            "the pipeline keeps its positions under this name: stop what reads there, or give the "
            "pipeline another name"
        )
