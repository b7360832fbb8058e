"""Outbox of labels: holds each label for its undo window, then writes it to the pipeline."""

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from sqlite3 import Connection

from streamboost.connectors.messages.outgoing import Label
from streamboost.errors import ConnectorError, UnavailableError
from streamboost.pipelines.service.labelling.store import (
    LabellingEntry,
    LabellingStore,
    entries_to_write,
    undoable_entries,
    written_answers,
)
from streamboost.pipelines.service.labelling.writers import PATIENCE, LabelWriter
from streamboost.pipelines.state.folder import try_lock
from streamboost.pipelines.status.reader import StatusReader

_log = logging.getLogger(__name__)

MARGIN = 2_000
"""Milliseconds before the expiry of a request at which its label is written. The pipeline polls the
label with its next batch, and may still be processing the batch before."""

_LOCK_FILE = "labelling.lock"

WATCHED = 100
"""Number of the newest entries that are checked for labels that arrived too late."""

WATCHED_EVERY = 1_000
"""Milliseconds between two such checks; the pipeline does not publish its status more often."""


class LabelOutbox:
    """Writes the labels of annotators to the pipeline's labels source after the undo window.

    Parameters
    ----------
    store : database with the held labels
    requests : reader of the requests and their outcomes
    labels : writer to the labels source
    grace : undo window in milliseconds; it ends earlier if the request expires
    clock : current time, in milliseconds since 1970
    mask : removes secrets from a text
    """

    def __init__(
        self,
        store: LabellingStore,
        requests: StatusReader,
        labels: LabelWriter,
        grace: int,
        clock: Callable[[], int],
        mask: Callable[[str], str],
    ) -> None:
        self._store = store
        self._requests = requests
        self._labels = labels
        self._grace = grace
        self._clock = clock
        self._mask = mask
        self._settled: set[int] = set()
        self._looked = 0
        self.trouble: str | None = None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Context manager that excludes other writers of labels of this state folder.

        Labels are thus written in the order in which they were given. Raises UnavailableError if
        another write does not end within a second: a longer wait would occupy the threads that
        serve requests.
        """
        # A descriptor of its own excludes the other threads of this process, too.
        descriptor = self._open_lock_file()
        try:
            deadline = time.monotonic() + PATIENCE
            while not try_lock(descriptor, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise UnavailableError(
                        "an earlier write of labels has not ended yet: try again later"
                    )
                time.sleep(0.01)
            yield
        finally:
            os.close(descriptor)

    def _open_lock_file(self) -> int:
        path = self._store.path.with_name(_LOCK_FILE)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConnectorError(
                self._mask(f"cannot write {path}: {error}; make its folder writable")
            ) from error

    def write_due_labels(self, *, at_once: bool = False) -> int:
        """Write the labels whose undo window has ended (`at_once`: all); return their number.

        If the write fails, 0 is returned, `trouble` is set to the error text, and a later call
        retries.
        """
        try:
            due: list[LabellingEntry] = []
            if self._has_waiting_labels():
                with self.lock():
                    due = self._move_due_labels_to_writing(at_once=at_once)
                    if due:
                        self._labels.append_validated([label_message(entry) for entry in due])
                        self._set_stage_of_entries(due, "written")
            if late := self._find_late_labels():
                self._set_stage_of_entries(late, "late")
        except Exception as error:  # after any error, the pending labels must be retried
            trouble = self._mask(str(error) or type(error).__name__)
            if self.trouble != trouble:
                _log.warning(
                    "labels cannot be written yet, which is retried: %s",
                    trouble,
                    extra={"event": "labels_undelivered"},
                )
            self.trouble = trouble
            return 0
        self.trouble = None
        return len(due)

    def _has_waiting_labels(self) -> bool:
        query = "SELECT 1 FROM entries WHERE stage IN ('held', 'writing') LIMIT 1"
        with self._store.read_transaction() as connection:
            return connection is not None and connection.execute(query).fetchone() is not None

    def _move_due_labels_to_writing(self, *, at_once: bool) -> list[LabellingEntry]:
        """Set the stage of due labels (`at_once`: of all) to "writing"; return these labels.

        A label is due when its undo window has ended.
        """
        with self._store.read_transaction() as connection:
            waiting = [] if connection is None else undoable_entries(connection)
        now = self._clock()
        due = [entry.number for entry in waiting if at_once or self._is_label_due(entry, now)]
        with self._store.write_transaction() as connection:
            # The label may have been undone meanwhile.
            set_stage(connection, due, "writing", "AND stage = 'held'")
            return entries_to_write(connection)

    def _is_label_due(self, entry: LabellingEntry, now: int) -> bool:
        # A clock that was set back must not prolong the undo window.
        if not now - self._grace < entry.time <= now:
            return True
        expires = (self._requests.request(entry.id) or {}).get("expires")
        return isinstance(expires, int | float) and now >= expires - MARGIN

    def _find_late_labels(self) -> list[LabellingEntry]:
        """Return the written labels that arrived after their requests had expired.

        A request that is no longer open was answered (its record has a label) or expired.
        """
        now = self._clock()
        if 0 <= now - self._looked < WATCHED_EVERY:
            return []
        self._looked = now
        with self._store.read_transaction() as connection:
            entries = [] if connection is None else written_answers(connection, WATCHED)
        self._settled &= {entry.number for entry in entries}
        late = []
        for entry in entries:
            if entry.number in self._settled or self._requests.request(entry.id) is not None:
                continue
            found = self._requests.labelled_record(entry.id)
            if found is None:
                continue
            expires = found.get("expires")
            is_over = not isinstance(expires, int | float) or expires <= now
            if not found.get("asked") or found["labels"]:
                self._settled.add(entry.number)
            elif is_over:
                late.append(entry)
        return late

    def _set_stage_of_entries(self, entries: list[LabellingEntry], stage: str) -> None:
        with self._store.write_transaction() as connection:
            set_stage(connection, [entry.number for entry in entries], stage)


def set_stage(
    connection: Connection, entry_numbers: list[int], stage: str, condition: str = ""
) -> None:
    """Set the stage of entries; `condition` is SQL that limits them further."""
    connection.executemany(
        f"UPDATE entries SET stage = ? WHERE number = ? {condition}",
        [(stage, number) for number in entry_numbers],
    )


def label_message(entry: LabellingEntry) -> Label:
    """Return the message of an answer, with the time at which it was given."""
    assert entry.label is not None
    given = datetime.fromtimestamp(entry.time / 1000, UTC).isoformat(timespec="milliseconds")
    return Label(entry.id, entry.label, given, entry.person)
