"""Publisher of a pipeline's status to ``status.db``, for `streamboost serve`.

The runner's thread counts the effects of each batch, and reads the pipeline's state at most once
per interval. A separate thread encodes and writes the status. Errors and delays of the file never
block or stop the runner.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamboost.pipelines.runner.batch import StepResult
from streamboost.pipelines.runner.batch_reader import current_time_ms
from streamboost.pipelines.runner.observers import Observer
from streamboost.pipelines.runner.runner import Runner
from streamboost.pipelines.status.documents import (
    chart_point,
    runner_state,
    schema_document,
    static_columns,
    status_documents,
)
from streamboost.pipelines.status.labelled_records import LabelledRecordLog
from streamboost.pipelines.status.neighbours import LABELLED, LabelledIndex
from streamboost.pipelines.status.recent import IntervalCollector, IntervalStats
from streamboost.pipelines.status.requests import OpenRequests
from streamboost.pipelines.status.writer import Publication, Writer

_log = logging.getLogger(__name__)

_SHARE = 0.02
"""Maximum share of the runner's time for reading the pipeline's state."""

_WRITTEN = 0.03
"""Maximum share of a core for writing, as the writer and the runner share the interpreter lock."""

BEAT = 5.0
"""Seconds between heartbeats of an idle pipeline."""

_CLOSING = 5.0
"""Seconds to wait for the last publications."""


class Publisher(Observer):
    """Observer of a runner that publishes the pipeline's status.

    Parameters
    ----------
    runner : the pipeline's runner
    folder : the pipeline's state folder
    constant_document : the part of the document ``pipeline`` that does not change during a run
    every : minimum seconds between two publications; reading the pipeline's state takes at most
        2 % of the runner's time, and writing at most 3 % of a core
    mask : removes secrets from a text
    clock : monotonic clock, in seconds
    """

    def __init__(
        self,
        runner: Runner,
        folder: Path,
        constant_document: dict[str, Any],
        *,
        every: float = 1.0,
        mask: Callable[[str], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = runner
        self._about = constant_document
        self._every = every
        self._mask = mask
        self._clock = clock
        self._started = current_time_ms()
        self._committed: int | None = None
        self._sequence = 0
        self._trouble: dict[str, Any] = {}
        self._due, self._published, self._said = 0.0, clock(), clock()
        self._labels = 0
        self._state, self._is_still, self._has_failed = "", False, False
        self._lag: dict[str, int] = {}
        steady = static_columns(runner.pipeline)
        self._writer = Writer(folder, list(steady))
        self._notes = IntervalCollector(
            list(steady.values()), has_drift_reference=self._writer.has_drift_reference
        )
        self._requests = OpenRequests(runner.pipeline, self._writer.requests.rows)
        self._judged = LabelledRecordLog(runner.pipeline)

    def on_commit(self, effects: StepResult) -> None:
        """Collect the results of a committed batch for the next publication."""
        with self._catch_and_log_errors():
            self._committed = current_time_ms()
            self._notes(effects, self._committed)
            self._judged(effects, self._requests(effects))

    def on_replay(self, effects: StepResult) -> None:
        """Collect the requests of a batch that is replayed after a restart."""
        with self._catch_and_log_errors():
            self._requests(effects)

    @property
    def is_work_due(self) -> bool:
        """Whether a publication is due and the writer is idle."""
        if not self._writer.is_idle:
            return False
        pause = min(self._writer.cost / _WRITTEN, BEAT)
        return self._clock() >= max(self._due, self._said + pause)

    def between_batches(self) -> None:
        """Publish the status if a publication is due and the status has changed."""
        if self.is_work_due:
            with self._catch_and_log_errors():
                self._publish_if_changed()

    def _publish_if_changed(self) -> None:
        state = runner_state(self._loop)
        is_still = state == self._state and not self._notes.since.batches
        # The lag is measured every ten seconds, so it may become known after the last batch.
        is_still = is_still and self._loop.backlog.lag == self._lag
        is_still = is_still and not self._writer.has_failed
        if is_still and self._is_still:
            self._due = self._clock() + self._every
            if self._clock() - self._said >= BEAT:
                self._publish_heartbeat()
            return
        self._is_still = is_still  # one more publication without batches sets the rates to 0
        self._publish_status(state)

    def on_error(self, text: str) -> None:
        """Include the error message `text`, without its secrets, in the next publication."""
        now, sequence, text = current_time_ms(), self._loop.pipeline.sequence, self._mask(text)
        self._trouble = {"time": now, "sequence": sequence, "text": text}
        self._notes.since.marks.append((now, sequence, "trouble", None, text))
        self._state = ""  # forces a publication even without a batch

    def close(self) -> None:
        """Publish the state "stopped", and wait up to `_CLOSING` seconds for each write."""
        self._writer.wait_until_idle(_CLOSING)
        with self._catch_and_log_errors():
            if self._writer.is_idle:
                self._publish_status("stopped")
        self._writer.close(_CLOSING)

    @contextmanager
    def _catch_and_log_errors(self) -> Iterator[None]:
        """Catch all errors of the block, so that none stops the pipeline; log only the first."""
        try:
            yield
        except Exception:
            if not self._has_failed:
                _log.exception(
                    "the status cannot be published; the pipeline continues",
                    extra={"event": "status_failed"},
                )
            self._has_failed = True

    def _publish_heartbeat(self) -> None:
        self._said, now = self._clock(), current_time_ms()
        documents = {"heartbeat": {"time": now}}
        of = self._loop.pipeline
        about = now, of.sequence, of.schema
        self._writer.submit(Publication(*about, documents, None, IntervalStats(), None, None))

    def _labelled_index_if_changed(self) -> LabelledIndex | None:
        """Return the newest labelled records; None if none was learned since the last call."""
        pipeline = self._loop.pipeline
        if pipeline.learner.n_labels == self._labels:
            return None
        self._labels = pipeline.learner.n_labels
        lags = pipeline.learner.n_label_lags
        steady = {name: lags + column for name, column in static_columns(pipeline).items()}
        return LabelledIndex(*pipeline.learner.newest_labelled(LABELLED), steady)

    def _publish_status(self, state: str) -> None:
        before, loop = time.thread_time(), self._loop
        self._state, self._lag = state, dict(loop.backlog.lag)
        documents: dict[str, dict[str, Any]] = {}
        point, recent, asked, labelled = None, None, None, None
        if loop.is_running and loop.is_committed:
            asked = self._requests.drain_changes()
            documents, recent = status_documents(loop), self._notes.recent_records()
            labelled = self._labelled_index_if_changed()
            seconds, self._published = self._clock() - self._published, self._clock()
            point = chart_point(documents, self._notes.since, seconds)
            self._sequence = loop.pipeline.sequence
        # Requests of a batch that was not read yet must not look closed: the sequence stays older.
        documents["pipeline"] = (
            self._about
            | schema_document(loop.pipeline.schema)
            | {
                "sequence": self._sequence,
                "started": self._started,
                "time": self._committed,
                "state": state,
            }
        )
        documents["trouble"] = self._trouble
        since, now = self._notes.drain_interval_stats(), current_time_ms()
        judged = self._judged.drain_changes()
        documents["heartbeat"] = {"time": now}
        self._said = self._clock()
        self._writer.submit(
            Publication(
                now,
                loop.pipeline.sequence,
                loop.pipeline.schema,
                documents,
                point,
                since,
                recent,
                asked,
                judged,
                loop.pipeline.learner.committee if recent else None,
                labelled,
            )
        )
        cost = time.thread_time() - before
        self._due = self._clock() + max(self._every, cost / _SHARE)
