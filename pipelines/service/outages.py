"""Notifications of outages by `serve`: a pipeline that is killed or hangs cannot send them."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from streamboost.pipelines.config.sections import NotifySection
from streamboost.pipelines.monitoring.event_messages import Event, encode_events
from streamboost.pipelines.monitoring.webhook import Webhook
from streamboost.pipelines.service.labelling.served import ServedPipeline
from streamboost.pipelines.state.folder import OUTAGE
from streamboost.pipelines.status.liveness import heartbeat_time, outage_text

_log = logging.getLogger(__name__)

SILENCE = 60.0
"""Seconds without a heartbeat before a message: a training between two batches takes a while."""


class OutageNotifier:
    """Sends the events "down" and "up" of a pipeline to the webhook of [notify].

    The file ``outage`` of the state folder exists while the pipeline is down. The `serve` process
    that creates or deletes the file sends the event, so restarts and further processes of `serve`
    send no event twice.

    Parameters
    ----------
    served : the pipeline
    section : settings of [notify]
    clock : monotonic clock in seconds, which does not run while the machine is suspended
    """

    def __init__(
        self,
        served: ServedPipeline,
        section: NotifySection,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._served = served
        self._events = section.events
        self._clock = clock
        self._file = served.config.state / OUTAGE
        self._beat: float | None = None
        self._heard = clock()
        self._sequence = 0
        self._pending: deque[Event] = deque()
        self._has_failed = False
        self.webhook = Webhook(section.url, section.key, self._take_body, every=section.every)

    def check(self) -> None:
        """Send an event if an outage began or ended since the last check."""
        # A stop is published before the lock is released, so the lock is read first.
        is_running, status = self._served.is_running(), self._served.status
        documents = {name: status.document(name) or {} for name in ("pipeline", "heartbeat")}
        about, beat = documents["pipeline"], heartbeat_time(documents)
        if not about or beat is None:
            return
        if beat != self._beat:
            self._beat, self._heard = beat, self._clock()
        self._sequence = int(about.get("sequence") or 0)
        try:
            if self._file.exists():
                self._end_outage(beat, is_stopped=about.get("state") == "stopped")
            elif not is_running or self._clock() - self._heard >= SILENCE:
                points = status.chart_points()
                reason = outage_text(documents, points, time.time(), is_running=is_running)
                if reason is not None:
                    self._file.touch(mode=0o600, exist_ok=False)
                    self._send("down", error=reason)
        except (FileExistsError, FileNotFoundError):
            pass  # another process sends the event
        except OSError as error:
            if not self._has_failed:
                _log.warning(
                    "%s: outages cannot be reported: %s",
                    self._served.name,
                    error,
                    extra={"event": "outage_check_failed"},
                )
            self._has_failed = True

    def _end_outage(self, beat: float, *, is_stopped: bool) -> None:
        """End the outage after a heartbeat; a pipeline that was stopped sends no event."""
        if is_stopped:
            self._file.unlink()
        elif beat / 1000 > self._file.stat().st_mtime:
            self._file.unlink()
            self._send("up")

    def _send(self, kind: str, **event: str) -> None:
        if kind in self._events:
            self._pending.append({"type": kind} | event)
            self.webhook.send_soon()

    def _take_body(self) -> bytes | None:
        events = [self._pending.popleft() for _ in range(len(self._pending))]
        return encode_events(self._served.name, self._sequence, events) if events else None


def outage_notifiers(pipelines: Sequence[ServedPipeline]) -> Iterator[OutageNotifier]:
    """Yield a notifier for each pipeline that publishes its status and has a webhook for it."""
    for served in pipelines:
        sections = served.config.sections
        section = sections.notify
        if section and sections.monitor.publish_every and {"down", "up"} & set(section.events):
            yield OutageNotifier(served, section)
