"""Observers of a runner, and the timer that measures the stages of a batch."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from streamboost.pipelines.config.durations import RecordCountAndBatchTime
from streamboost.pipelines.runner.batch import StepResult

BATCHES = 500
"""Size of the sliding window, in batches, for the quantiles of stage durations."""


class Observer:
    """Base class of observers; the runner calls the methods in its own thread."""

    def on_commit(self, effects: StepResult) -> None:
        """Handle the result of a batch after its commit."""

    def on_checkpoint(self, now: RecordCountAndBatchTime, manifest: Mapping[str, Any]) -> None:
        """Handle a durable checkpoint, which was taken at `now`."""

    def on_replay(self, effects: StepResult) -> None:
        """Handle the result of a batch that an earlier run committed and this run replayed."""

    @property
    def is_work_due(self) -> bool:
        """Whether the next call of `between_batches` will read the pipeline state.

        The runner then completes the pending commit first.
        """
        return False

    def between_batches(self) -> None:
        """Do periodic work, such as publishing status.

        Called between batches, while no source has messages, and before a failed poll or commit is
        retried. If `is_work_due`, the last batch is committed, or its commit is being retried.
        """

    def on_error(self, text: str) -> None:
        """Handle an error that does not end the run."""


class StageTimer:
    """Timer of the stages of a batch, with quantiles over the newest batches.

    Parameters
    ----------
    clock : returns seconds that never decrease

    Examples
    --------
    >>> times = iter([0.0, 0.5, 2.5])
    >>> stage_timer = StageTimer(clock=times.__next__)
    >>> stage_timer.begin_batch(); stage_timer.on_stage_end("score")
    >>> stage_timer.on_stage_end("learn")
    >>> stage_timer.quantiles()["learn"]
    {'median': 2.0, 'p99': 2.0}
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._last = 0.0
        self._durations: dict[str, deque[float]] = {}

    def begin_batch(self) -> None:
        """Start timing a batch."""
        self._last = self._clock()

    def on_stage_end(self, stage: str) -> None:
        """Record the time since the previous stage end as the duration of `stage`, in seconds."""
        now = self._clock()
        if stage not in self._durations:
            self._durations[stage] = deque(maxlen=BATCHES)
        self._durations[stage].append(now - self._last)
        self._last = now

    def quantiles(self) -> dict[str, dict[str, float]]:
        """Return median and 99th percentile of the duration of each stage, in seconds."""
        found = {}
        for part, seconds in self._durations.items():
            ordered = sorted(seconds)
            median, p99 = (ordered[int(share * len(ordered))] for share in (0.5, 0.99))
            found[part] = {"median": median, "p99": p99}
        return found
