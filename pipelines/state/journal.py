"""Journal entries: the write-ahead log of batches, from which a replay restores the state."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from streamboost.errors import StateError
from streamboost.learner.schedule import Training
from streamboost.pipelines.state.commands import Command

JOINED = ("labels", "records")
"""Names of the sources of the label join."""

Ranges = dict[str, dict[str, tuple[int, int]]]
"""For each source and partition, the offsets [start, end) that a batch read."""


class JournalExtras(msgspec.Struct, omit_defaults=True):
    """Additional fields of the next journal entry, for changes that its messages do not make."""

    environment: dict[str, str] | None = None
    gap: tuple[int, int] | None = None
    identities: dict[str, str] | None = None
    origin: dict[str, str] | None = None
    fields: dict[str, Any] | None = None
    rules: dict[str, Any] | None = None
    decision: dict[str, Any] | None = None


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Journal entry of a batch; a replay needs only the entry and the messages of the batch.

    Attributes
    ----------
    format : format version of the entry; entries of other versions are rejected
    sequence : number of the batch; the first is 1
    ranges : for each source and partition, the offsets [start, end) that the batch read
    read : for each source (records, labels, initial data), the number of messages in `ranges`
    tick : processing time at the start of the batch, in milliseconds since the epoch
    commands : commands that were applied
    swap : version that was trained in the background and delivered with this batch, or None
    promoted : version that was deployed in this batch, or None
    trainings : trainings that were started
    digest : hash chained over the changes of this batch and all before
    environment : releases and processor; given if they changed since the previous batch
    gap : batches (first, last) before this one that were lost, without learning from their labels
    caught_up : sources (records, labels) that were read to their end since the previous batch
    resumed : whether this is the first batch of a run
    deleted : offsets within `ranges` that were deleted before they were read
    bookmarks : bookmarks of the sources after the batch (`Source.content_fingerprint`), if changed
    identities : stable ids of the sources (topic ids), if changed
    origin : data to rebuild a lost state folder: `schema`, `configuration` (its binding keys,
        secrets masked), its `fingerprint`, and the SHA-256 of the file of the initial `committee`,
        if any; given with `environment`
    fields : fields added to the configuration and learned from this batch on, with their options
    rules : rules for labels and ids from this batch on (`Schema.changeable_settings`), if changed
    decision : decisions of the configuration from this batch on, if changed; empty: no decisions
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
        """Return the entry as JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, message: bytes) -> "JournalEntry":
        """Decode an entry; StateError if it is invalid or of another format version."""
        try:
            return _decode(message)
        except msgspec.MsgspecError as error:
            raise StateError(
                f"the journal entry {message[:80]!r} cannot be read: {error}; start with an empty "
                "state folder and another [pipeline] name"
            ) from error


_decode = msgspec.json.Decoder(JournalEntry).decode
