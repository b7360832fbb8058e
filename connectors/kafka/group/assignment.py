"""Partition assignment of a consumer group member, updated by rebalances.

Also defines the results of a poll, and the writes that a member commits.
"""

from collections.abc import Mapping
from threading import Lock
from typing import Any, NamedTuple

from kafka import ConsumerRebalanceListener
from kafka.structs import ConsumerGroupMetadata

from streamboost.connectors.base import Message, MessageMetadata


class Assignment(NamedTuple):
    """Partitions that are assigned to a member of a consumer group.

    `partitions` are all assigned partitions. `changed` are the partitions that were assigned or
    revoked since the last poll. `n_rebalances` is the number of rebalance callbacks so far.
    """

    partitions: frozenset[int]
    changed: frozenset[int]
    n_rebalances: int


class RebalanceListener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """Tracks the partitions that rebalances assign to this member; used by several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ours: set[int] = set()
        self._changed: set[int] = set()
        self._changes = 0

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Remove partitions that are reassigned to other members."""
        self._record_partition_change(revoked, is_assigned=False)

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Add partitions that are assigned to this member."""
        self._record_partition_change(assigned, is_assigned=True)

    def on_partitions_lost(self, lost: Any) -> None:
        """Remove partitions that were lost: other members may own them already."""
        self._record_partition_change(lost, is_assigned=False)

    def _record_partition_change(self, partitions: Any, *, is_assigned: bool) -> None:
        with self._lock:
            numbers = {partition.partition for partition in partitions}
            self._ours = self._ours | numbers if is_assigned else self._ours - numbers
            self._changed |= numbers
            self._changes += 1

    def pop_assignment_changes(self, *, all_changed: bool) -> Assignment:
        """Return the assignment, with the partitions changed since the last call; clear changes.

        With `all_changed`, all partitions are reported as changed.
        """
        with self._lock:
            changed = self._changed | (self._ours if all_changed else set())
            self._changed = set()
            return Assignment(frozenset(self._ours), frozenset(changed), self._changes)

    @property
    def n_rebalances(self) -> int:
        """Number of rebalance callbacks so far."""
        with self._lock:
            return self._changes


class PolledBatch(NamedTuple):
    """Result of a poll: for each partition, the messages in the order of their offsets.

    `ends` maps a partition to the offset after these messages. `ownership` and `member` are the
    assignment and the group membership at the time of the poll.
    """

    messages: Mapping[int, list[Message]]
    ends: Mapping[int, int]
    ownership: Assignment
    member: ConsumerGroupMetadata


class TopicMessage(NamedTuple):
    """Message to write to a topic; with `partition` None, the client chooses the partition."""

    topic: str
    partition: int | None
    payload: bytes
    about: Message | MessageMetadata = MessageMetadata()
