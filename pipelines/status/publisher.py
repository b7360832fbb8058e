"""Publishing how a pipeline does into ``status.db``, for `streamboost serve` to show.

The loop notes what each batch did, and reads off the pipeline at most once per interval; a thread
of its own turns that into text and writes it. Whatever becomes of the file, the loop neither waits
nor fails.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamboost.pipelines.engine.batch import Effects
from streamboost.pipelines.engine.intake import wall_clock
from streamboost.pipelines.engine.loop import Loop
from streamboost.pipelines.engine.watchers import Watcher
from streamboost.pipelines.status.documents import (
    of_schema,
    point_of,
    standing,
    state_of,
    steady_of,
)
from streamboost.pipelines.status.judged import JudgedNotes
from streamboost.pipelines.status.labelled import LABELLED, LabelledNow
from streamboost.pipelines.status.recent import Notes, Since
from streamboost.pipelines.status.requests import OpenRequests
from streamboost.pipelines.status.writer import Publication, Writer

__all__ = ["Publisher"]

_log = logging.getLogger(__name__)

_SHARE = 0.02
"""The share of its time that the loop spends on reading off the pipeline, at most."""

_WRITTEN = 0.03
"""The share of a core that writing takes: its thread and the loop's hold each other up."""

BEAT = 5.0
"""Seconds after which a pipeline to which nothing comes says that it is there."""

_CLOSING = 5.0
"""Seconds to wait for the last publications."""


class Publisher(Watcher):
    """Tells the world how a pipeline does.

    Parameters
    ----------
    loop : that of the pipeline
    folder : that of the pipeline's state
    about : what stays the same in the document ``pipeline``
    every : seconds from one publication to the next; it takes longer where reading off the pipeline
        would otherwise cost the loop more than a fiftieth of its time, or writing more than three
        hundredths of a core's
    mask : takes secrets out of a text
    clock : gives seconds that never go back
    """

    def __init__(
        self,
        loop: Loop,
        folder: Path,
        about: dict[str, Any],
        *,
        every: float = 1.0,
        mask: Callable[[str], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = loop
        self._about = about
        self._every = every
        self._mask = mask
        self._clock = clock
        self._started = wall_clock()
        self._committed: int | None = None
        self._sequence = 0
        self._trouble: dict[str, Any] = {}
        self._due, self._published, self._said = 0.0, clock(), clock()
        self._labels = 0
        self._state, self._is_still, self._has_failed = "", False, False
        steady = steady_of(loop.pipeline)
        self._writer = Writer(folder, list(steady))
        self._notes = Notes(list(steady.values()), known=self._writer.has_reference)
        self._requests = OpenRequests(loop.pipeline, self._writer.requests.rows)
        self._judged = JudgedNotes(loop.pipeline)

    def committed(self, effects: Effects) -> None:
        """Note what one batch did."""
        with self._unfelt():
            self._committed = wall_clock()
            self._notes(effects, self._committed)
            self._judged(effects, self._requests(effects))

    def replayed(self, effects: Effects) -> None:
        """Note what is open of a batch that was committed by an earlier run."""
        with self._unfelt():
            self._requests(effects)

    @property
    def is_due(self) -> bool:
        """Whether it is time to publish, and nothing is being written."""
        if not self._writer.is_idle:
            return False
        pause = min(self._writer.cost / _WRITTEN, BEAT)
        return self._clock() >= max(self._due, self._said + pause)

    def between_batches(self) -> None:
        """Publish if it is time and there is something new."""
        if self.is_due:
            with self._unfelt():
                self._look()

    def _look(self) -> None:
        state = state_of(self._loop)
        is_still = state == self._state and not self._notes.since.batches
        is_still = is_still and not self._writer.has_failed
        if is_still and self._is_still:
            self._due = self._clock() + self._every
            if self._clock() - self._said >= BEAT:
                self._beat()
            return
        self._is_still = is_still  # one more without anything new lets the rates fall to nothing
        self._publish(state)

    def trouble(self, text: str) -> None:
        """Note what went wrong."""
        now, sequence, text = wall_clock(), self._loop.pipeline.sequence, self._mask(text)
        self._trouble = {"time": now, "sequence": sequence, "text": text}
        self._notes.since.marks.append((now, sequence, "trouble", None, text))
        self._state = ""  # so that it is published although no batch comes

    def close(self) -> None:
        """Publish for the last time, and wait a little for it to be written."""
        self._writer.wait(_CLOSING)
        with self._unfelt():
            if self._writer.is_idle:
                self._publish("stopped")
        self._writer.close(_CLOSING)

    @contextmanager
    def _unfelt(self) -> Iterator[None]:
        """Let nothing that goes wrong here reach the pipeline."""
        try:
            yield
        except Exception:
            if not self._has_failed:
                _log.exception("the status cannot be told; the pipeline goes on")
            self._has_failed = True

    def _beat(self) -> None:
        self._said, now = self._clock(), wall_clock()
        documents = {"beat": {"time": now}}
        of = self._loop.pipeline
        about = now, of.sequence, of.schema
        self._writer.take(Publication(*about, documents, None, Since(), None, None))

    def _newly_labelled(self) -> LabelledNow | None:
        """Return the newest labelled records, None where they are those of the last time."""
        pipeline = self._loop.pipeline
        if pipeline.learner.n_labels == self._labels:
            return None
        self._labels = pipeline.learner.n_labels
        lags = pipeline.learner.label_lags
        steady = {name: lags + column for name, column in steady_of(pipeline).items()}
        return LabelledNow(*pipeline.learner.newest_labelled(LABELLED), steady)

    def _publish(self, state: str) -> None:
        before, loop = time.thread_time(), self._loop
        self._state = state
        documents: dict[str, dict[str, Any]] = {}
        point, recent, asked, labelled = None, None, None, None
        if loop.is_running and loop.is_settled:
            asked = self._requests.take()
            documents, recent = standing(loop), self._notes.recent()
            labelled = self._newly_labelled()
            seconds, self._published = self._clock() - self._published, self._clock()
            point = point_of(documents, self._notes.since, seconds)
            self._sequence = loop.pipeline.sequence
        # What a batch asked that was not read off yet must not look as if it were closed.
        documents["pipeline"] = (
            self._about
            | of_schema(loop.pipeline.schema)
            | {
                "sequence": self._sequence,
                "started": self._started,
                "time": self._committed,
                "state": state,
            }
        )
        documents["trouble"] = self._trouble
        since, now = self._notes.take(), wall_clock()
        judged = self._judged.take()
        documents["beat"] = {"time": now}
        self._said = self._clock()
        self._writer.take(
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
