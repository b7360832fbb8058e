"""Graceful shutdown: a stop token, interruptible waits, and retries until success or stop."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TypeVar

from streamboost.errors import ConnectorError

_log = logging.getLogger(__name__)

T = TypeVar("T")

WAITING = "waiting: %s. It is tried again until it succeeds"
RECOVERED = "continuing: the operation that was retried has succeeded"
"""Log lines at the first retriable failure of an operation (`WAITING`), and at its success."""


class Interrupted(BaseException):
    """Interruption of a wait because a stop was requested.

    Like KeyboardInterrupt, it is a BaseException, so that handlers of Exception do not mistake the
    interruption for a failure of the operation.
    """


class StopToken:
    """Token to request a stop, also from a signal handler or another thread."""

    def __init__(self) -> None:
        self.requested = False
        self._is_interruptible = False
        # A SimpleQueue may be put to within a signal handler, which an Event's lock forbids.
        self._wake: SimpleQueue[None] = SimpleQueue()

    def request_stop(self) -> None:
        """Request a stop after the commit of the current batch."""
        self.requested = True
        self._wake.put(None)

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`, or until a stop is requested."""
        try:
            self._wake.get(timeout=seconds)
        except Empty:
            return

    def retry_until_success(self, action: Callable[[], T], interval: float) -> T:
        """Call `action`, and again after retriable errors, until success; return its result.

        `interval` is the time between retries in seconds. After a stop request, the next error is
        raised. The first failure and the success after failures are logged.
        """
        is_waiting = False
        while True:
            try:
                result = action()
                if is_waiting:
                    _log.info(RECOVERED, extra={"event": "retry_succeeded"})
                return result
            except ConnectorError as error:
                if not error.retriable or self.requested:
                    raise
                if not is_waiting:
                    _log.warning(WAITING, error, extra={"event": "retry_started"})
                is_waiting = True
                self.wait(interval)

    @contextmanager
    def interruptible(self, enabled: bool = True) -> Iterator[None]:
        """Allow `raise_if_interruptible` to raise Interrupted, for waits that may never end.

        If `enabled` is false, no exception is raised in the context, as its work always ends.
        """
        before, self._is_interruptible = self._is_interruptible, enabled
        try:
            yield
        finally:
            self._is_interruptible = before

    def raise_if_interruptible(self) -> None:
        """Raise Interrupted if the current context is interruptible; call from a signal handler."""
        if self._is_interruptible:
            raise Interrupted
