"""Apache Kafka: which topics there are, and making those that are missing."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from streamboost.connectors.kafka.cluster import KafkaCluster, told
from streamboost.errors import ConnectorError

__all__ = [
    "JOURNAL",
    "MESSAGES",
    "PROGRESS",
    "REPLAYED",
    "TABLE",
    "add_partitions",
    "create_topics",
    "missing_topics",
    "partitions_of",
    "refuse_members",
]

_THERE_ALREADY = 36
"""The broker's code for a topic that exists."""

_MONTH_MS = 30 * 24 * 3600 * 1000

REPLAYED: Mapping[str, Any] = {"configs": {"retention.ms": str(_MONTH_MS)}}
"""A topic that a restart reads again from where its checkpoint is; so long may one take."""

MESSAGES: Mapping[str, Any] = {}
"""A topic that nobody reads again: the cluster's own defaults suit it."""

PROGRESS: Mapping[str, Any] = {
    # Entries are read again by a replay of what was learned of them.
    "configs": {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": str(_MONTH_MS),
        "max.message.bytes": str(16 * 2**20),
    },
}
"""The topic of what scorers have done: the newest entry of a partition holds for ever."""

TABLE: Mapping[str, Any] = {
    "num_partitions": 1,
    # Whoever starts reads all of it: what is outdated is to go soon.
    "configs": {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.1",
        "segment.ms": "600000",
        "segment.bytes": str(64 * 2**20),
    },
}
"""A topic of which the newest message under each key holds."""

JOURNAL: Mapping[str, Any] = {
    "num_partitions": 1,
    # Its end says how far the pipeline has come, and must outlast any pause.
    "configs": {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"},
}
"""The topic of a journal."""


def missing_topics(cluster: KafkaCluster, topics: Sequence[str]) -> list[str]:
    """Return those of `topics` that the cluster does not have."""
    with closing(cluster.admin()) as admin, told(cluster.servers):
        there = set(admin.list_topics())
    return [topic for topic in topics if topic not in there]


def create_topics(cluster: KafkaCluster, topics: Mapping[str, Mapping[str, Any]]) -> None:
    """Create topics, given for each what is not to be as the cluster's defaults are.

    One that is there already is left as it is. Raises ConnectorError where the cluster refuses.
    """
    if not topics:
        return
    with closing(cluster.admin()) as admin, told(cluster.servers):
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


def partitions_of(cluster: KafkaCluster, topics: Sequence[str]) -> dict[str, int]:
    """Return how many partitions each of `topics` has; those that are not there are left out."""
    with closing(cluster.admin()) as admin, told(cluster.servers):
        found = admin.describe_topics(list(topics))
    return {one["name"]: len(one["partitions"]) for one in found if one["error_code"] == 0}


def add_partitions(cluster: KafkaCluster, topics: Mapping[str, int]) -> None:
    """Let topics have so many partitions each; ConnectorError where the cluster refuses."""
    with closing(cluster.admin()) as admin, told(cluster.servers):
        admin.create_partitions(dict(topics))


def refuse_members(cluster: KafkaCluster, group: str) -> None:
    """Raise ConnectorError where somebody reads as a member of consumer group `group`."""
    with closing(cluster.admin()) as admin, told(cluster.servers):
        found = admin.describe_groups([group])
    members = found[group]["members"]
    if members:
        raise ConnectorError(
            f"the consumer group {group!r} at {cluster.servers} has {len(members)} members, and "
            "the pipeline keeps its positions under this name: stop what reads there, or give the "
            "pipeline another name"
        )
