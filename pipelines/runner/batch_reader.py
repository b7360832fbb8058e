"""Batch reader: polls records, labels and commands, and rereads batches for a replay."""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, Protocol

from streamboost.connectors.base import Message, Position, Source
from streamboost.errors import DeletedError, GapError
from streamboost.pipelines.runner.batch import READ, BatchInputs
from streamboost.pipelines.runner.timestamp_aligner import (
    RECORDS_WITHOUT_LABELS,
    BufferedSource,
    TimeOf,
    TimestampAligner,
)
from streamboost.pipelines.state.commands import decode_commands
from streamboost.pipelines.state.journal import JOINED, Ranges

_log = logging.getLogger(__name__)

_PAGE = 1000


def current_time_ms() -> int:
    """Return the current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class _SourceReader(Protocol):
    """Interface for polling a source, with or without a buffer."""

    def poll(self, limit: int) -> list[Message]: ...
    def position(self) -> Position: ...
    def seek(self, position: Position) -> None: ...
    @property
    def has_more_messages(self) -> bool: ...


class BatchReader:
    """Reader that polls the records, then the labels and commands, and tracks their positions.

    The initial data set is read first, and alone. Records and labels are aligned by timestamp (see
    `timestamp_aligner`).

    Parameters
    ----------
    records, labels : the two sources
    commands : the queue of commands; None: no commands
    initial_data : source of labelled records to begin with; None: no initial data
    most_records, most_labels : maximum number of messages of a batch
    clock : returns the processing time in milliseconds since the epoch
    timer : returns seconds that never decrease, from an arbitrary origin
    record_time, label_time : return the timestamp of a message; default: the time at which the
        message was written, if the source reports it
    max_records_without_labels : maximum number of records read without a label while labels are
        unread

    Attributes
    ----------
    n_polled : number of messages of the newest poll, keyed by source; sources not polled are
        missing
    short : sources whose newest poll returned fewer messages than its limit
    """

    def __init__(
        self,
        records: Source,
        labels: Source,
        commands: Source | None = None,
        initial_data: Source | None = None,
        *,
        most_records: int,
        most_labels: int,
        clock: Callable[[], int] = current_time_ms,
        timer: Callable[[], float] = time.monotonic,
        record_time: TimeOf = attrgetter("time"),
        label_time: TimeOf = attrgetter("time"),
        max_records_without_labels: int = RECORDS_WITHOUT_LABELS,
    ) -> None:
        self.sources = {} if initial_data is None else {"initial_data": initial_data}
        self.sources |= {"records": records, "labels": labels}
        if commands is not None:
            self.sources["commands"] = commands
        # A source without replay is not buffered: a buffered message could not be read again.
        self._held = BufferedSource(labels, label_time if labels.is_replayable else _no_timestamp)
        self._readers: dict[str, _SourceReader] = self.sources | {"labels": self._held}
        self._limits = {"records": most_records, "commands": _PAGE}
        self._limits |= dict.fromkeys(("labels", "initial_data"), most_labels)
        self._aligner = TimestampAligner(self._held, record_time, max_records_without_labels)
        self._clock = clock
        self._timer = timer
        self.last_batch_time_ms = 0
        self.n_polled: dict[str, int] = {}
        self.short: set[str] = set()
        self._caught_up = set(JOINED)
        self._resumed = True
        self._journalled: dict[str, str] = {}

    @property
    def last_batch_time_ms(self) -> int:
        """Processing time of the newest batch, in milliseconds."""
        return self._last_batch_time_ms

    @last_batch_time_ms.setter
    def last_batch_time_ms(self, batch_time_ms: int) -> None:
        self._last_batch_time_ms, self._timer_at_batch = batch_time_ms, self._timer()

    @property
    def is_open(self) -> bool:
        """Whether messages may still arrive although the newest poll returned none.

        True if a source is open, if labels are buffered, or if the newest poll skipped the records.
        """
        waits = self._held.has_buffered_messages or "records" not in self.n_polled
        return waits or any(source.is_open for source in self.sources.values())

    def poll(self, *, has_room: bool = True) -> BatchInputs | None:
        """Return the next batch, or None if no source has messages.

        If a source fails, the positions of all sources are restored. `has_room` is whether the join
        has space for pending labels; without room, no labels are read.
        """
        batch_time_ms, starts = self._next_batch_time_ms(), self.positions()
        before, self._caught_up = self._caught_up, set()
        messages: dict[str, list[Message]] = {}
        try:
            for name, reader in self._readers.items():
                if messages.get("initial_data"):
                    break
                if self._aligner.should_poll(name, has_room=has_room):
                    messages[name] = reader.poll(self._limits[name])
                    self._update_aligner_after_poll(name, messages[name])
                elif name == "labels":
                    self._aligner.on_labels_not_polled()
            ends = self.positions()
        except BaseException:
            self.seek(starts)
            self._aligner.subtract_rolled_back_records(len(messages.get("records", ())))
            self._resumed = True
            raise
        self.n_polled = {name: len(found) for name, found in messages.items()}
        self.short = {name for name, n in self.n_polled.items() if n < self._limits[name]}
        if self._held.has_buffered_messages:
            self.short.discard("labels")
        deleted = {
            name: dict(gaps) for name in messages if (gaps := self.sources[name].skipped_ranges)
        }
        if not any(messages.values()) and not deleted:
            self._caught_up |= before
            self._resumed = False
            for source in self.sources.values():
                source.release_resources()
            return None
        self.last_batch_time_ms = batch_time_ms
        return self._build_inputs(
            _offset_ranges(starts, ends, messages),
            before,
            commands=decode_commands(messages.get("commands", []), log_rejected_command),
            deleted=deleted,
            **{name: messages.get(name, []) for name in READ},
        )

    def _update_aligner_after_poll(self, source: str, messages: list[Message]) -> None:
        """Pass polled messages to the aligner; note whether the source was read to its end."""
        behind = len(messages) == self._limits[source] or self._readers[source].has_more_messages
        self._aligner.observe(source, messages, has_more_messages=behind)
        if source in JOINED and not behind:
            self._caught_up.add(source)

    @property
    def has_read_all(self) -> bool:
        """Whether each source that was polled last returned fewer messages than its limit."""
        return self.short == self.n_polled.keys()

    def build_empty_batch(self) -> BatchInputs:
        """Return a batch without messages, for example to deploy a trained committee."""
        self.last_batch_time_ms = self._next_batch_time_ms()
        before, self._caught_up = self._caught_up, set()
        return self._build_inputs(
            {name: {} for name in self.sources}, before, records=[], labels=[]
        )

    def _build_inputs(self, ranges: Ranges, caught_up: set[str], **messages: Any) -> BatchInputs:
        resumed, self._resumed = self._resumed, False
        known = JOINED if caught_up == set(JOINED) else sorted(caught_up)
        now, before = self.bookmarks(), self._journalled
        self._journalled = now
        changed = {name: mark for name, mark in now.items() if mark != before.get(name)}
        return BatchInputs(
            self.last_batch_time_ms,
            ranges,
            caught_up=known,
            resumed=resumed,
            bookmarks=changed,
            **messages,
        )

    def _next_batch_time_ms(self) -> int:
        """Return the processing time, which never decreases.

        If the system clock was set back, the batch time advances at half speed until the clock
        catches up. Expiry is late during that time, but by less than the clock was set back.
        """
        passed = int((self._timer() - self._timer_at_batch) * 1_000)
        return max(self._clock(), self._last_batch_time_ms + passed // 2)

    def reread_batch(self, inputs: BatchInputs, n_messages: Mapping[str, int]) -> BatchInputs:
        """Read the messages of a journalled batch again; return the complete batch.

        Parameters
        ----------
        inputs : the batch without its messages, from the journal entry
        n_messages : number of messages to read, keyed by source

        Raises
        ------
        GapError
            If a source no longer has the messages.
        """
        self.set_expected_bookmarks(inputs.bookmarks)
        messages = {}
        for name, source in self.sources.items():
            if name not in READ:
                continue
            n = n_messages.get(name, 0)
            if n and not source.is_replayable:
                raise GapError(f"{name}: messages from standard input cannot be read again")
            ranges = _without_deleted_offsets(
                inputs.ranges.get(name, {}), inputs.deleted.get(name, {})
            )
            messages[name] = _reread_messages(source, name, ranges, n)
        if "commands" in self.sources:  # the journal has the commands themselves
            _seek_to_end_of_ranges(self.sources["commands"], inputs.ranges.get("commands", {}))
        self.last_batch_time_ms = inputs.batch_time_ms
        return replace(
            inputs,
            records=messages["records"],
            labels=messages["labels"],
            initial_data=messages.get("initial_data", []),
        )

    def positions(self) -> dict[str, Position]:
        """Return the position of the next message in each source, keyed by source name."""
        return {name: reader.position() for name, reader in self._readers.items()}

    def source_identities(self) -> dict[str, str]:
        """Return the stable ids of the underlying resources (topic ids), keyed by source."""
        found = {name: source.input_id for name, source in self.sources.items()}
        return {name: identity for name, identity in found.items() if identity is not None}

    def bookmarks(self) -> dict[str, str]:
        """Return the bookmarks, which identify the content read so far, keyed by source name."""
        found = {name: source.content_fingerprint for name, source in self.sources.items()}
        return {name: bookmark for name, bookmark in found.items() if bookmark is not None}

    def set_expected_bookmarks(self, bookmarks: Mapping[str, str]) -> None:
        """Set the bookmarks of the content that each source must have; call `seek` afterwards.

        Raises ConnectorError if a bookmark is from another kind of source.
        """
        for name, bookmark in bookmarks.items():
            if name in self.sources:
                self.sources[name].set_expected_content(bookmark)
        self._journalled |= bookmarks

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Seek each source to its position in `positions`."""
        for name, reader in self._readers.items():
            reader.seek(positions.get(name, {}))


def log_rejected_command(command: str, error: Exception) -> None:
    """Log that `command` was rejected because of `error`."""
    _log.error(
        "the command %s is rejected: %s", command, error, extra={"event": "command_rejected"}
    )


def _no_timestamp(message: Message) -> None:
    """Return None for any message, so that `BufferedSource` buffers no message."""


def _offset_ranges(
    start_positions: Mapping[str, Position],
    end_positions: Mapping[str, Position],
    sources_read: Collection[str],
) -> Ranges:
    """Return the nonempty offset ranges [start, end), keyed by source name and then partition."""
    return {
        name: {
            partition: (start_positions[name].get(partition, 0), end)
            for partition, end in end_positions[name].items()
            if end != start_positions[name].get(partition, 0)
        }
        for name in sources_read
    }


def _without_deleted_offsets(
    ranges: Mapping[str, tuple[int, int]], deleted: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Return the offset ranges [start, end) without the deleted offsets at their start."""
    return {p: (max(start, deleted.get(p, (0, 0))[1]), end) for p, (start, end) in ranges.items()}


def _reread_messages(
    source: Source, source_name: str, ranges: Mapping[str, tuple[int, int]], n_messages: int
) -> list[Message]:
    """Read the `n_messages` messages in the offset ranges again.

    The source is then at the end of the ranges. Raises GapError if messages are missing.
    """
    try:
        found = source.read_range(ranges, n_messages)
    except DeletedError as error:
        raise GapError(f"{source_name}: {error}") from error
    if len(found) != n_messages:
        places = "; ".join(f"partition {p}, offsets {a} to {b}" for p, (a, b) in ranges.items())
        raise GapError(
            f"only {len(found)} of the {n_messages} {source_name} of a batch are left ({places}): "
            "restore the missing messages from a copy"
        )
    return found


def _seek_to_end_of_ranges(source: Source, ranges: Mapping[str, tuple[int, int]]) -> None:
    """Seek `source` to the end of the offset ranges."""
    source.seek(source.position() | {partition: end for partition, (_, end) in ranges.items()})
