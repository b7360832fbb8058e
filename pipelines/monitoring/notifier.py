"""Notifications of a pipeline's events to a webhook, by [notify]."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from streamboost.evaluation.report import accuracy_drop
from streamboost.pipelines.config.sections import NotifySection
from streamboost.pipelines.monitoring.event_messages import Event, encode_events
from streamboost.pipelines.monitoring.last_error import ErrorRecord, error_text
from streamboost.pipelines.monitoring.webhook import Webhook
from streamboost.pipelines.runner.batch import StepResult
from streamboost.pipelines.runner.observers import Observer
from streamboost.pipelines.runner.runner import Runner

_log = logging.getLogger(__name__)

CHECK_EVERY = 5.0
"""Seconds between two checks of the estimates and the budget."""

MAX_EVENTS = 100
"""Maximum number of events that wait for a message; further events are dropped."""

_ALL = "\0"
"""Key of a regression of the accuracy, which no class has."""


class Notifier(Observer):
    """Observer that sends events to a webhook: at most one message per batch.

    Events are sent at most once: batches of a replay send nothing, and conditions that hold at the
    start of a run are no events of this run. Events that wait for a message are merged.

    Parameters
    ----------
    section : settings of [notify]
    name : name of the pipeline
    mask : removes secrets from a text
    """

    def __init__(
        self,
        section: NotifySection,
        name: str,
        mask: Callable[[str], str] = str,
    ) -> None:
        self._events = section.events
        self._name = name
        self._mask = mask
        self._runner: Runner | None = None
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, str], Event] = {}
        self._sequence = 0
        self._checked: float | None = None
        self._is_stale = True
        self._regressed: set[str] = set()
        self._is_budget_saved = self._has_failed = False
        self.webhook = Webhook(section.url, section.key, self._take_body, every=section.every)

    def watch(self, runner: Runner) -> None:
        """Observe `runner`, whose state the checks read."""
        self._runner = runner
        runner.observers.append(self)

    def on_commit(self, effects: StepResult) -> None:
        """Add the requests and stream changes of a committed batch."""
        self._sequence, self._is_stale = effects.sequence, True
        if n := len(effects.asked) + len(effects.relabels):
            assert self._runner is not None
            n_open = len(self._runner.pipeline.join.open_requests)
            self._add("requests", requested=n, open=n_open)
        for change in effects.changes:
            self._add("drift", label=change.labels, since_label=change.since_labels + 1)
        for training in effects.trainings:
            if training.kind == "drift":
                self._add("drift", label=training.labels)

    @property
    def is_work_due(self) -> bool:
        """Whether the estimates and the budget must be checked, after new batches."""
        if not {"regression", "budget"} & set(self._events):
            return False
        return self._checked is None or (
            self._is_stale and time.monotonic() - self._checked >= CHECK_EVERY
        )

    def between_batches(self) -> None:
        """Check the estimates and the budget if due, and let the thread send waiting events."""
        if self.is_work_due:
            self._check()
        if self._pending:
            self.webhook.send_soon()

    def _check(self) -> None:
        """Add events for conditions that began since the last check, or only note them at first."""
        runner = self._runner
        if runner is None or not (runner.is_running and runner.is_committed):
            return
        is_first = self._checked is None
        self._is_stale, self._checked = False, time.monotonic()
        try:
            found = [*self._regressions(runner), *self._spent_budget(runner)]
        except Exception:
            if not self._has_failed:
                _log.exception(
                    "events for notifications cannot be found; the pipeline continues",
                    extra={"event": "notification_check_failed"},
                )
            self._has_failed = True
            return
        for kind, event in found if not is_first else ():
            self._add(kind, **event)

    def _regressions(self, runner: Runner) -> Iterator[tuple[str, Event]]:
        """Yield the regressions that began: of a class's recall, and of the accuracy.

        A class has regressed once the recent interval of its recall is below the interval since the
        start, by more than `_noise`. The regression ends when the recent recall is within that
        interval again.
        """
        since_start, recent = runner.pipeline.learner.evaluation.both_reports()
        before = {one.label: one.recall for one in since_start.classes}
        for one in recent.classes:
            name, whole, now = str(one.label), before.get(one.label), one.recall
            if whole is None or now is None or one.share is None or now.value >= whole.low:
                self._regressed.discard(name)
                continue
            noise = _noise((whole.value + now.value) / 2, one.share.value * recent.records)
            if whole.low - now.high > noise and name not in self._regressed:
                self._regressed.add(name)
                yield "regression", {"class": name, "recall": now.value, "before": whole.value}
        drop, accuracy = accuracy_drop(since_start, recent), recent.committee.accuracy
        if drop is None or accuracy is None or drop.value <= 0.0:
            self._regressed.discard(_ALL)
        elif drop.low > _noise(accuracy.value, recent.records) and _ALL not in self._regressed:
            self._regressed.add(_ALL)
            yield "regression", {"accuracy_drop": drop.value}

    def _spent_budget(self, runner: Runner) -> Iterator[tuple[str, Event]]:
        """Yield an event if the budget is used up, after half of the burst had been saved."""
        learner = runner.pipeline.learner
        tokens = learner.ledger.tokens
        if tokens < 1.0 and self._is_budget_saved:
            yield "budget", {"tokens": tokens}
        is_saved = tokens >= learner.query_config.burst / 2
        self._is_budget_saved = is_saved or (self._is_budget_saved and tokens >= 1.0)

    @contextmanager
    def notify_failure(
        self, sequence: Callable[[], int], read_last_error: Callable[[], ErrorRecord | None]
    ) -> Iterator[None]:
        """Context manager that sends an exception of its body as event "down", and closes.

        The same error after the same batch, as of a pipeline that is restarted over and over, is
        sent once: it is the error that `read_last_error` returns.
        """
        try:
            yield
            self._check()
        except Exception as error:
            text, self._sequence = self._mask(error_text(error)), sequence()
            last = read_last_error()
            if last is None or (last.sequence, last.text) != (self._sequence, text):
                self._add("down", error=text)
            raise
        finally:
            self.webhook.close()

    def _add(self, kind: str, **event: Any) -> None:
        if kind not in self._events:
            return
        key = kind, str(event.get("class", ""))
        with self._lock:
            if kind == "requests" and (waiting := self._pending.get(key)):
                event["requested"] += waiting["requested"]
            if key in self._pending or len(self._pending) < MAX_EVENTS or kind == "down":
                self._pending[key] = {"type": kind} | event

    def _take_body(self) -> bytes | None:
        with self._lock:
            events, self._pending = list(self._pending.values()), {}
        return encode_events(self._name, self._sequence, events) if events else None


def _noise(share: float, n: float) -> float:
    """Return three standard errors of a share of `n` records; infinity without records.

    If all labels are known, the intervals have no width, as they describe these records alone.
    """
    return 3.0 * math.sqrt(share * (1.0 - share) / n) if n > 0.0 else math.inf
