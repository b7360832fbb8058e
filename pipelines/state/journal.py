"""What the journal says of a batch."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from streamboost.errors import StateError
from streamboost.pipelines.state.commands import Command
from streamboost.stream.training.schedule import Training

__all__ = ["JOINED", "JournalEntry", "JournalExtras", "Ranges"]

JOINED = ("labels", "records")
"""The sources that meet in the join."""

Ranges = dict[str, dict[str, tuple[int, int]]]
"""For each source and partition, the offsets [start, end) that a batch read."""


class JournalExtras(msgspec.Struct, omit_defaults=True):
    """Collects what the next journal entry says in addition to its batch; see `JournalEntry`."""

    environment: dict[str, str] | None = None
    gap: tuple[int, int] | None = None
    identities: dict[str, str] | None = None
    origin: dict[str, str] | None = None
    fields: dict[str, Any] | None = None
    rules: dict[str, Any] | None = None
    decision: dict[str, Any] | None = None


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the journal says of a batch: all that a replay needs beside the messages themselves.

    Attributes
    ----------
    format
        The version of what entries hold; those of another one are refused.
    sequence
        The batch's number; the first is 1.
    ranges
        For each source and partition, the offsets [start, end) that it read.
    read
        How many records and labels these held, and how many of them known beforehand.
    tick
        The clock at its start, in milliseconds since the epoch.
    commands
        Those it obeyed.
    swap
        The version a thread had trained and that came in with it.
    promoted
        The version that began to serve.
    trainings
        Those that were started.
    digest
        Chains what the batch changed to the batches before.
    environment
        The releases and processor at work; given where they are not those of the batch before.
    gap
        Batches (first, last) before this one whose labels it has not learned: they were given up.
    caught_up
        The sources, of records and labels, of which everything had been read since the batch
        before.
    resumed
        Whether it is the first batch of a run.
    deleted
        The offsets within `ranges` that were deleted before they were read.
    bookmarks
        The bookmarks of sources after the batch (`Source.bookmark`), where they changed.
    identities
        What tells the sources from others of their names; given where they are not those before.
    origin
        What a lost state folder is made again from: `schema`, `configuration` (what of it binds,
        secrets masked), its `fingerprint`, and the SHA-256 of the file of the `committee` it began
        with, if any; given with `environment`.
    fields
        Those that were added to the file, learned from with this batch on, each with what it holds.
    rules
        What labels and ids have to obey from this batch on (`Schema.rules`), where that changed.
    decision
        What the file says of decisions from this batch on, where that changed; empty: nothing.
    """

    format: Literal[3]
    sequence: int
    ranges: Ranges
    read: dict[str, int]
    tick: int
    commands: list[Command]
    swap: int | None
    promoted: int | None
    trainings: list[Training]
    digest: str
    environment: dict[str, str] | None = None
    gap: tuple[int, int] | None = None
    caught_up: Sequence[str] = JOINED
    resumed: bool = False
    deleted: Ranges = {}
    identities: dict[str, str] | None = None
    bookmarks: dict[str, str] = {}
    origin: dict[str, str] | None = None
    fields: dict[str, Any] | None = None
    rules: dict[str, Any] | None = None
    decision: dict[str, Any] | None = None

    def encode(self) -> bytes:
        """Return it as JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, message: bytes) -> "JournalEntry":
        """Read what `encode` wrote; StateError where this release cannot."""
        try:
            return _decode(message)
        except msgspec.MsgspecError as error:
            raise StateError(
                f"the journal entry {message[:80]!r} cannot be read: {error}; start with an empty "
                "state folder and another [pipeline] name"
            ) from error


_decode = msgspec.json.Decoder(JournalEntry).decode
