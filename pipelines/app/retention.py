"""Retention of a pipeline's log or journal: deletes old entries that no restart needs."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

from streamboost.connectors.base import PARTITION, Position
from streamboost.connectors.sqlite.retention import StreamRetention
from streamboost.errors import ConnectorError, ModelFileError
from streamboost.pipelines.app.recovery import copy_store_for_rebuild, wait_for_thread
from streamboost.pipelines.config.connectors.kafka import kafka_cluster
from streamboost.pipelines.config.connectors.sqlite import SqliteStream
from streamboost.pipelines.config.durations import RecordCountAndBatchTime, WindowSize
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.runner.observers import Observer
from streamboost.pipelines.runner.runner import Runner
from streamboost.pipelines.shutdown import StopToken
from streamboost.pipelines.state.checkpoints import Checkpoints
from streamboost.pipelines.state.copies import CopyStore

if TYPE_CHECKING:
    from streamboost.connectors.kafka.journal import KafkaJournal

_log = logging.getLogger(__name__)

_MOMENTS = 50
"""Number of times per retention at which offsets are stored, so that messages are deleted at most
1/50 of the retention late."""

_PATIENCE = 10.0
"""Timeout in seconds for the last deletion from a journal in Kafka, at the end of a run."""


class LogRetention(Observer):
    """Observer that deletes messages and journal entries of a log after the retention.

    A restart may begin at the oldest checkpoint. Messages that it then reads are not deleted.

    Parameters
    ----------
    log : the streams of the log, and its journal
    checkpoints : the pipeline's checkpoints
    retention : minimum age of the messages that are deleted, in records or time
    sources : maps a stream to the name of the source that reads the stream

    Attributes
    ----------
    source_names : names of the sources whose messages are deleted
    """

    def __init__(
        self,
        log: StreamRetention,
        checkpoints: Checkpoints,
        retention: WindowSize,
        sources: Mapping[str, str],
    ) -> None:
        self._log = log
        self._checkpoints = checkpoints
        self._retention = retention
        self._sources = sources
        self.source_names = set(sources.values())
        self._positions: dict[int, Mapping[str, Position]] = {}

    def on_checkpoint(self, now: RecordCountAndBatchTime, manifest: Mapping[str, Any]) -> None:
        """Delete expired messages and entries; log a failure, which the next call retries."""
        try:
            kept = self._checkpoints.sequences
            self._positions = {n: one for n, one in self._positions.items() if n in kept}
            self._positions[manifest["sequence"]] = manifest["positions"]
            moments = [RecordCountAndBatchTime(*moment) for moment in self._log.stored_moments(now)]
            expired = [one for one in moments if self._retention.has_elapsed(one, now)]
            if not moments or self._should_store_ends(moments[-1], now):
                self._log.store_end_offsets(now)
            if expired:
                self._delete_before(expired[-1])
        except (ConnectorError, ModelFileError, OSError) as error:
            _log.warning(
                "old messages cannot be deleted from the log: %s. Deletion is retried",
                error,
                extra={"event": "retention_failed"},
            )
        finally:
            self._log.close()

    def _should_store_ends(
        self, last: RecordCountAndBatchTime, now: RecordCountAndBatchTime
    ) -> bool:
        """Return whether 1 / `_MOMENTS` of the retention has passed since the moment `last`."""
        if self._retention.records is not None:
            return (now.records - last.records) * _MOMENTS >= self._retention.records
        passed = now.batch_time_ms - last.batch_time_ms
        return passed * _MOMENTS >= (self._retention.milliseconds or 0)

    def _delete_before(self, moment: RecordCountAndBatchTime) -> None:
        oldest = min(self._checkpoints.sequences, default=0)  # 0: somebody has removed them
        if oldest not in self._positions:  # of an earlier run
            self._positions[oldest] = self._checkpoints.load(oldest)[1]["positions"]
        needed = {
            stream: self._positions[oldest].get(source, {}).get(PARTITION, 0)
            for stream, source in self._sources.items()
        }
        n = self._log.delete_before(moment, needed, oldest)
        _log.debug(
            "%d messages and journal entries were deleted from the log",
            n,
            extra={"event": "retention_applied"},
        )


class JournalRetention(Observer):
    """Observer that deletes entries of a journal in Kafka after the retention.

    An entry is kept if a replay from the oldest checkpoint or from the oldest copy needs it. If
    copies are configured, nothing is deleted until a copy of this state can be read. A thread
    deletes, so that a slow broker or store of copies delays no batch.

    Parameters
    ----------
    journal : the journal
    checkpoints : the pipeline's checkpoints
    copies : store of the copies of checkpoints; None: a lost state folder cannot be rebuilt
    retention_ms : minimum age in milliseconds of the entries that are deleted
    """

    def __init__(
        self,
        journal: "KafkaJournal",
        checkpoints: Checkpoints,
        copies: CopyStore | None,
        retention_ms: int,
    ) -> None:
        self._journal = journal
        self._checkpoints = checkpoints
        self._copies = copies
        self._retention_ms = retention_ms
        self._due_ms = 0
        self._request: tuple[int, int, str] | None = None
        self._thread: Thread | None = None

    def on_checkpoint(self, now: RecordCountAndBatchTime, manifest: Mapping[str, Any]) -> None:
        """Start to delete expired entries. A failure is logged, and a later call tries again."""
        if now.batch_time_ms >= self._due_ms:
            self._request = (now.batch_time_ms, manifest["sequence"], manifest["fingerprint"])
            self._start_requested_deletion()

    def close(self, stop: StopToken) -> None:
        """Wait for the last deletion, at most `_PATIENCE` seconds, or less after a stop request.

        The next run repeats a deletion that takes longer.
        """
        self._start_requested_deletion()
        while self._thread is not None and wait_for_thread(self._thread, stop, _PATIENCE):
            self._thread = None
            self._start_requested_deletion()

    def _start_requested_deletion(self) -> None:
        if self._request is None or (self._thread is not None and self._thread.is_alive()):
            return
        request, self._request = self._request, None
        self._thread = Thread(
            target=self._delete_expired, args=request, name="retention", daemon=True
        )
        self._thread.start()

    def _delete_expired(self, now_ms: int, sequence: int, fingerprint: str) -> None:
        """Delete the entries that are expired at `now_ms`.

        `sequence` is the batch of the newest checkpoint, and `fingerprint` that of the state.
        """
        try:
            needed = [*self._checkpoints.sequences, *self._copied_batches(sequence, fingerprint)]
            # Kafka has no times before 1970.
            expired_ms = max(0, now_ms - self._retention_ms)
            if self._journal.delete_before(min(needed, default=0), expired_ms):
                _log.debug("old journal entries were deleted", extra={"event": "retention_applied"})
            self._due_ms = now_ms + self._retention_ms // _MOMENTS
        # An uncaught exception of a thread would not be logged.
        except Exception as error:
            _log.warning(
                "old entries cannot be deleted from the journal: %s. Deletion is retried",
                str(error) or repr(error),
                extra={"event": "retention_failed"},
            )

    def _copied_batches(self, sequence: int, fingerprint: str) -> list[int]:
        """Return the batches with a copy; [0] if no copy of this state can be read.

        Copies that another state left under the pipeline's name cannot rebuild this state.
        """
        if self._copies is None:
            return []
        newest = self._copies.newest()
        if (
            newest is None
            or newest.manifest["fingerprint"] != fingerprint
            or newest.sequence > sequence
        ):
            return [0]
        return [newest.sequence, *self._copies.sequences]


@contextmanager
def delete_old_journal_entries(config: Config, runner: Runner) -> Iterator[None]:
    """Context manager that applies [pipeline] retention to a journal in Kafka.

    Entries are deleted at each checkpoint that `runner` saves.
    """
    retention = (
        None if runner.checkpoints is None else create_journal_retention(config, runner.checkpoints)
    )
    if retention is None:
        yield
        return
    runner.observers.append(retention)
    try:
        yield
    finally:
        retention.close(runner.stop)


def create_journal_retention(config: Config, checkpoints: Checkpoints) -> JournalRetention | None:
    """Return the retention of a journal in Kafka, by [pipeline] retention.

    Returns None if nothing is deleted: without copies of checkpoints, a lost state folder is
    rebuilt from the whole journal, so that the retention must be given in the file.
    """
    section = config.sections.pipeline
    retention, copies = section.retention_window, copy_store_for_rebuild(config)
    is_wanted = copies is not None or "retention" in section.model_fields_set
    if not config.commits_to_kafka or retention is None or not is_wanted:
        return None
    from streamboost.connectors.kafka.journal import KafkaJournal

    journal = KafkaJournal(kafka_cluster(config.connector_context), config.name)
    return JournalRetention(journal, checkpoints, copies, retention.milliseconds or 0)


def create_log_retention(config: Config, checkpoints: Checkpoints) -> LogRetention | None:
    """Return the retention of the log in the state folder, by [pipeline] retention.

    Returns None if nothing is deleted. A journal in Kafka is not deleted.
    """
    retention, context = config.sections.pipeline.retention_window, config.connector_context
    if retention is None or config.commits_to_kafka:
        return None
    sections, log = config.sections, os.path.realpath(context.log)
    answered, *delaying = sections.labels.outputs_read_by_oracle or ("labels",)
    sources = {"source": "records", "labels": "labels", answered: "labels"}
    streams = {
        section.stream: sources.get(name)
        for name in ("predictions", "requests", "dead_letters", "source", "labels")
        if name not in delaying  # an oracle counts them from the first
        and isinstance(section := getattr(sections, name), SqliteStream)
        and section.location(context).system == log
    }
    return LogRetention(
        StreamRetention(context.log, config.name, list(streams)),
        checkpoints,
        retention,
        {stream: source for stream, source in streams.items() if source is not None},
    )
