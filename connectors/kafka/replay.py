"""Reading ranges of a topic once more, as a replay does, beside whoever reads it on.

A consumer of its own reads one partition at a time, so that none has to be paused, and keeps for
later ranges what a fetch brought beyond the one that was asked for.
"""

import time
from collections import deque

from kafka import KafkaConsumer, TopicPartition

from streamboost.connectors.base import Message
from streamboost.connectors.kafka.cluster import MOMENT_MS, KafkaCluster, told
from streamboost.connectors.kafka.reading import (
    as_message,
    check_place,
    fetched,
    find_damage,
    is_damaged,
    is_out_of_range,
    numbers_of,
    span_of,
)
from streamboost.errors import ConnectorError, UnavailableError

__all__ = ["KafkaReplay"]

_POLL_MS = 20


class KafkaReplay:
    """Gives the messages of ranges that go on from each other, partition by partition.

    Parameters
    ----------
    cluster, topic : what is read
    max_bytes : what of a payload is held, as `KafkaSource` has it
    fetch_bytes : what is read of a partition at once; twice that is held of each, at most
    """

    def __init__(self, cluster: KafkaCluster, topic: str, max_bytes: int, fetch_bytes: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._where = f"topic {topic!r} at {cluster.servers}"
        self._max_bytes = max_bytes
        # A fetch that waits at a partition's end would hold up that of the next partition.
        self._settings = {
            "max_partition_fetch_bytes": fetch_bytes,
            "fetch_max_wait_ms": _POLL_MS,
        }
        self._consumer: KafkaConsumer | None = None
        self._ahead: dict[str, deque[Message]] = {}
        self._reached: dict[str, int] = {}
        self._taken: dict[str, int] = {}

    def read(self, name: str, start: int, end: int) -> list[Message]:
        """Return the messages of partition `name` with offsets [start, end).

        Those that are damaged are one message, which says so.

        Raises
        ------
        ConnectorError
            When some are no longer there.
        UnavailableError
            When they do not come.
        """
        if self._taken.get(name) != start:
            self._ahead[name], self._reached[name] = deque(), start
        patience = time.monotonic() + MOMENT_MS / 1000
        while (before := self._reached[name]) < end:
            self._fetch(name)
            if self._reached[name] > before:
                patience = time.monotonic() + MOMENT_MS / 1000
            if time.monotonic() > patience:
                self.close()
                raise UnavailableError(f"{self._where} gives nothing, though it has more")
        self._taken[name] = end
        found, ahead = [], self._ahead[name]
        while ahead and ahead[0].offset < end:
            found.append(ahead.popleft())
        return found

    def close(self) -> None:
        """Let go of the cluster; reading connects again."""
        if self._consumer is not None:
            self._consumer.close(autocommit=False, timeout_ms=1_000)
            self._consumer = None

    def _fetch(self, name: str) -> None:
        """Read on in partition `name`, as far as one answer of the broker goes."""
        partition, place = TopicPartition(self._topic, int(name)), self._reached[name]
        consumer = self._at(partition, place)
        try:
            with told(self._where):
                found = fetched(consumer, _POLL_MS).get(partition, [])
                self._reached[name] = consumer.position(partition, timeout_ms=MOMENT_MS)
        except UnavailableError as error:
            self.close()
            if is_out_of_range(error):
                self._refuse(partition, place)
            if not is_damaged(error):
                raise
            damage = find_damage(self._cluster, self._topic, {name: place})
            if damage is None:
                raise
            self._ahead[name].append(damage.message())
            self._reached[name] = damage.end
            return
        self._ahead[name].extend(as_message(record, self._max_bytes) for record in found)

    def _at(self, partition: TopicPartition, place: int) -> KafkaConsumer:
        """Return the consumer, reading this partition alone, at `place`."""
        if self._consumer is None:
            self._consumer = self._cluster.consumer(**self._settings)
        consumer = self._consumer
        if consumer.assignment() != {partition}:
            if partition.partition not in numbers_of(consumer, self._topic, self._where):
                raise ConnectorError(
                    f"{self._where} has no partition {partition.partition}, which was read before: "
                    "it is not the same topic; put that one back, or begin anew with an empty state"
                )
            consumer.assign([partition])
            consumer.seek(partition, place)
        with told(self._where):
            if consumer.position(partition, timeout_ms=MOMENT_MS) != place:
                consumer.seek(partition, place)
        return consumer

    def _refuse(self, partition: TopicPartition, place: int) -> None:
        starts, ends = span_of(self._at(partition, place), [partition], self._where)
        number = partition.partition
        check_place(self._topic, number, place, starts[partition], ends[partition])
