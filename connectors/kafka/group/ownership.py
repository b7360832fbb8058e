"""Which partitions are a member's: from when it hears that they came until that they went.

And what it takes from them and gives for it.
"""

from collections.abc import Mapping
from threading import Lock
from typing import Any, NamedTuple

from kafka import ConsumerRebalanceListener
from kafka.structs import ConsumerGroupMetadata

from streamboost.connectors.base import Carried, Message

__all__ = ["Listener", "Ownership", "Polled", "Write"]


class Ownership(NamedTuple):
    """What is ours, as of so many changes; `changed` came or went since the poll before."""

    partitions: frozenset[int]
    changed: frozenset[int]
    changes: int


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """Notes which partitions are ours; the client's thread calls it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ours: set[int] = set()
        self._changed: set[int] = set()
        self._changes = 0

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Note those that are others' now."""
        self._note(revoked, ours=False)

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Note those that are ours now."""
        self._note(assigned, ours=True)

    def on_partitions_lost(self, lost: Any) -> None:
        """Note those that others may have had for a while."""
        self._note(lost, ours=False)

    def _note(self, partitions: Any, *, ours: bool) -> None:
        with self._lock:
            numbers = {partition.partition for partition in partitions}
            self._ours = self._ours | numbers if ours else self._ours - numbers
            self._changed |= numbers
            self._changes += 1

    def take(self, *, unsure: bool) -> Ownership:
        """Return what is ours, and forget what has changed; where `unsure`, all of it has."""
        with self._lock:
            changed = self._changed | (self._ours if unsure else set())
            self._changed = set()
            return Ownership(frozenset(self._ours), frozenset(changed), self._changes)

    @property
    def changes(self) -> int:
        """How often something has changed."""
        with self._lock:
            return self._changes


class Polled(NamedTuple):
    """What a poll gave: by partition, in order, what was ours then, and as which member.

    `ends` says where each partition goes on after its messages.
    """

    messages: Mapping[int, list[Message]]
    ends: Mapping[int, int]
    ownership: Ownership
    member: ConsumerGroupMetadata


class Write(NamedTuple):
    """A message to be written to a partition of a topic; None lets the client choose one."""

    topic: str
    partition: int | None
    payload: bytes
    about: Message | Carried = Carried()
