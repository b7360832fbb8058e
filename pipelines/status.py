"""Publishing how a pipeline does into ``status.db``, for `streamboost serve` to show.

The loop's thread notes what each batch did, and reads off the pipeline at most once per interval;
a thread of its own turns that into text and writes it. Whatever becomes of the file, the loop
neither waits nor fails.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamboost.pipelines.board import (
    MOST_DEAD_LETTERS,
    MOST_MARKS,
    MOST_PREDICTIONS,
    Board,
    text_of,
)
from streamboost.pipelines.effects import Effects
from streamboost.pipelines.inputs import wall_clock
from streamboost.pipelines.open_requests import OpenRequests
from streamboost.pipelines.runtime import Pipeline
from streamboost.pipelines.status_documents import accuracy_of, standing, state_of
from streamboost.pipelines.status_file import FILE, Row, StatusFile
from streamboost.pipelines.status_reader import StatusReader

__all__ = ["Publisher"]

_log = logging.getLogger(__name__)

_SHARE = 0.02
"""The share of its time that the loop may spend on reading off the pipeline."""

_CLOSING = 5.0
"""Seconds to wait for the last publication."""


@dataclass(slots=True)
class _Noted:
    """What batches did since the last publication, within bounds."""

    batches: int = 0
    records: int = 0
    labels: int = 0
    seconds: float = 0.0
    predictions: deque[bytes] = field(default_factory=lambda: deque(maxlen=MOST_PREDICTIONS))
    dead_letters: deque[bytes] = field(default_factory=lambda: deque(maxlen=MOST_DEAD_LETTERS))
    marks: deque[tuple[int, int, str, int | None, str]] = field(
        default_factory=lambda: deque(maxlen=MOST_MARKS)
    )


@dataclass(frozen=True, slots=True)
class _Publication:
    """What the loop hands to the thread that writes."""

    time: int
    sequence: int
    documents: dict[str, dict[str, Any]]
    point: dict[str, Any] | None
    noted: _Noted
    requests: dict[str, Row]


class Publisher:
    """Tells the world how a pipeline does; called with the effects of each batch.

    Parameters
    ----------
    pipeline : the one it watches
    folder : that of the pipeline's state
    about : what stays the same in the document ``pipeline``
    every : seconds from one publication to the next
    clock : gives seconds that never go back
    """

    def __init__(
        self,
        pipeline: Pipeline,
        folder: Path,
        about: dict[str, Any],
        *,
        every: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pipeline = pipeline
        self._about = about
        self._every = every
        self._clock = clock
        self._started = wall_clock()
        self._committed: int | None = None
        self._due = 0.0
        self._before = clock()
        self._noted = _Noted()
        self._is_still = False
        self._state = ""
        self._trouble: dict[str, Any] | None = None
        self._requests: OpenRequests | None = None
        self._writer = _Writer(folder)

    def __call__(self, effects: Effects) -> None:
        """Note what one batch did."""
        noted, now = self._noted, wall_clock()
        self._committed = now
        noted.batches += 1
        noted.records += len(effects.records)
        noted.labels += len(effects.joined.ids)
        noted.seconds += max(now - effects.tick, 0) / 1000
        noted.predictions.extend(effects.messages.predictions[-MOST_PREDICTIONS:])
        noted.dead_letters.extend(effects.messages.dead_letters[-MOST_DEAD_LETTERS:])
        self._mark(effects)
        self._open_requests()(effects)

    def turn(self) -> None:
        """Publish if it is time and there is something new; the loop calls it between batches."""
        if self._clock() < self._due or not self._writer.is_idle:
            return
        state = state_of(self._pipeline)
        is_still = not self._noted.batches and state == self._state
        if is_still and self._is_still:
            self._due = self._clock() + self._every
            return
        # One more publication without anything new lets the curves fall to nothing.
        self._is_still = is_still
        self._publish(state)

    def trouble(self, text: str) -> None:
        """Note what went wrong."""
        now = wall_clock()
        self._trouble = {"time": now, "sequence": self._pipeline.sequence, "text": text}
        self._noted.marks.append((now, self._pipeline.sequence, "trouble", None, text))
        self._state = ""

    def close(self) -> None:
        """Publish for the last time, and wait a little for it to be written."""
        self._writer.wait(_CLOSING)
        with suppress(Exception):
            self._publish("stopped")
        self._writer.close(_CLOSING)

    def _mark(self, effects: Effects) -> None:
        tick, sequence, marks = effects.tick, effects.sequence, self._noted.marks
        for command in effects.commands:
            marks.append((tick, sequence, "command", command.version, str(command)))
        for training in effects.trainings:
            kind = "drift" if training.kind == "drift" else "trained"
            text = f"{training.kind}, {training.labels} labels learned"
            marks.append((tick, sequence, kind, training.version, text))
        if effects.promoted is not None:
            marks.append((tick, sequence, "promoted", effects.promoted, "serves"))

    def _open_requests(self) -> OpenRequests:
        if self._requests is None:
            self._requests = OpenRequests(self._pipeline, self._writer.requests)
        return self._requests

    def _publish(self, state: str) -> None:
        before, pipeline = time.thread_time(), self._pipeline
        self._state = state
        documents: dict[str, dict[str, Any]] = {}
        point = None
        requests: dict[str, Row] = self._writer.requests
        if pipeline.is_settled and pipeline.is_running:
            requests = self._open_requests().rows()
            documents = standing(pipeline)
            point = self._point(documents)
        documents["pipeline"] = self._about | {
            "sequence": pipeline.sequence,
            "started": self._started,
            "time": self._committed,
            "state": state,
            "fields": self._requests.fields if self._requests else {},
        }
        documents["trouble"] = self._trouble or {}
        noted, self._noted = self._noted, _Noted()
        self._writer.take(
            _Publication(wall_clock(), pipeline.sequence, documents, point, noted, requests)
        )
        cost = time.thread_time() - before
        self._due = self._clock() + max(self._every, cost / _SHARE)

    def _point(self, documents: dict[str, dict[str, Any]]) -> dict[str, Any]:
        noted, now = self._noted, self._clock()
        seconds, self._before = now - self._before, now
        ledger, learner = documents["ledger"], documents["learner"]
        evaluation = documents["evaluation"]
        return {
            "seconds": seconds,
            "batches": noted.batches,
            "records": noted.records,
            "labels": noted.labels,
            "batch_seconds": noted.seconds / noted.batches if noted.batches else None,
            "accuracy": accuracy_of(evaluation, "recent"),
            "accuracy_total": accuracy_of(evaluation, "since_start"),
            "naive": evaluation["recent"]["committee"]["naive_accuracy"],
            "repeat_last": accuracy_of(evaluation, "recent", "repeat_last"),
            "requests": ledger["requests"],
            "audits": ledger["audits"],
            "answered": ledger["answered"],
            "budget_allowed": ledger["allowed"],
            "lag": documents["lag"],
            "version": learner["version"],
            "trees": learner["trees"],
        }


class _Writer:
    """Writes publications in a thread of its own, the newest and none else.

    Attributes
    ----------
    requests : those that an earlier run has left
    """

    def __init__(self, folder: Path) -> None:
        self._file = StatusFile(folder / FILE)
        self._board = Board()
        self._documents: dict[str, Row] = {}
        reader = StatusReader(folder)
        self._board.resume(reader)
        self.requests: dict[str, Row] = {
            one["id"]: (one["utility"], one["expires"], text_of(one)) for one in reader.requests()
        }
        reader.close()
        self._condition = threading.Condition()
        self._pending: _Publication | None = None
        self._is_closed = False
        self._has_failed = False
        self._thread = threading.Thread(target=self._run, name="streamboost-status", daemon=True)
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        """Whether it has written all it was given."""
        return self._pending is None

    def take(self, publication: _Publication) -> None:
        """Have a publication written."""
        with self._condition:
            self._pending = publication
            self._condition.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until it is idle, but not for long."""
        with self._condition:
            self._condition.wait_for(lambda: self.is_idle, seconds)

    def close(self, seconds: float) -> None:
        """Write what is pending, and end."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
        self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._pending or self._is_closed)
                publication = self._pending
            if publication is None:
                self._file.close()
                return
            self._try(publication)
            with self._condition:
                self._pending = None
                self._condition.notify_all()

    def _try(self, publication: _Publication) -> None:
        try:
            self._write(publication)
            self._has_failed = False
        except Exception as error:  # whatever it is, the pipeline has to go on
            if not self._has_failed:
                _log.warning("no status is published: %s. It is tried again", error)
            self._has_failed = True

    def _write(self, publication: _Publication) -> None:
        board, noted = self._board, publication.noted
        for mark in noted.marks:
            board.mark(*mark)
        board.predicted(noted.predictions)
        board.buried(noted.dead_letters)
        if publication.point is not None:
            board.point(publication.time, publication.sequence, publication.point)
        for name, value in publication.documents.items():
            self._documents[name] = (publication.time, text_of(value))
        self._file.write(
            {"documents": self._documents, "requests": publication.requests, **board.content()}
        )
