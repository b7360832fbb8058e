"""Partition assignment of a consumer group member, updated by rebalances.

Also defines the results of a poll, and the writes that a member commits.
"""

from collections.abc import Mapping
from threading import Lock
from typing import Any, NamedTuple

from kafka import ConsumerRebalanceListener
from kafka.structs import ConsumerGroupMetadata

from streamboost.connectors.base import Message, MessageMetadata

__all__ = ["Assignment", "OutgoingWrite", "PolledBatch", "RebalanceListener"]


class Assignment(NamedTuple):
    """Assigned partitions, partitions `changed` since the last poll, and a counter of changes."""

    partitions: frozenset[int]
    changed: frozenset[int]
    changes: int


class RebalanceListener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """Records assigned and revoked partitions; called by the client's thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ours: set[int] = set()
        self._changed: set[int] = set()
        self._changes = 0

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Record partitions that now belong to other members."""
        self._note(revoked, ours=False)

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Record partitions that now belong to this member."""
        self._note(assigned, ours=True)

    def on_partitions_lost(self, lost: Any) -> None:
        """Record lost partitions, which may have belonged to other members for a while."""
        self._note(lost, ours=False)

    def _note(self, partitions: Any, *, ours: bool) -> None:
        with self._lock:
            numbers = {partition.partition for partition in partitions}
            self._ours = self._ours | numbers if ours else self._ours - numbers
            self._changed |= numbers
            self._changes += 1

    def take(self, *, unsure: bool) -> Assignment:
        """Return the assignment and reset its changes; if `unsure`, all partitions changed."""
        with self._lock:
            changed = self._changed | (self._ours if unsure else set())
            self._changed = set()
            return Assignment(frozenset(self._ours), frozenset(changed), self._changes)

    @property
    def changes(self) -> int:
        """Number of rebalance callbacks so far."""
        with self._lock:
            return self._changes


class PolledBatch(NamedTuple):
    """Messages of a poll by partition, in order, with the assignment and member at that time.

    `ends` are the next offsets of the partitions after these messages.
    """

    messages: Mapping[int, list[Message]]
    ends: Mapping[int, int]
    ownership: Assignment
    member: ConsumerGroupMetadata


class OutgoingWrite(NamedTuple):
    """Message to write to a partition of a topic; None lets the client choose one."""

    topic: str
    partition: int | None
    payload: bytes
    about: Message | MessageMetadata = MessageMetadata()
