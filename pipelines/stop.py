"""Asking a pipeline to stop."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TypeVar

from streamboost.errors import ConnectorError

__all__ = ["GOING_ON", "WAITING", "Interrupted", "Stop"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

WAITING = "waiting: %s. It is tried again until it succeeds"
GOING_ON = "going on: what was waited for has succeeded"
"""What is logged where something failed that may pass, and where it has passed."""


class Interrupted(BaseException):
    """A wait was given up, since it was time to stop.

    Like KeyboardInterrupt it is no Exception, so that nobody takes it for a failure of what was
    waited for.
    """


class Stop:
    """Asks a pipeline to stop after its batch; also from a signal handler or another thread."""

    def __init__(self) -> None:
        self.requested = False
        self._is_interruptible = False
        # A SimpleQueue may be put to within a signal handler, which an Event's lock forbids.
        self._wake: SimpleQueue[None] = SimpleQueue()

    def request(self) -> None:
        """Stop as soon as the batch at hand is committed."""
        self.requested = True
        self._wake.put(None)

    def rest(self, seconds: float) -> None:
        """Wait, but not longer than until somebody asks to stop."""
        try:
            self._wake.get(timeout=seconds)
        except Empty:
            return

    def patiently(self, action: Callable[[], T], interval: float) -> T:
        """Return what `action` does, once it does not fail any more in a way that may pass.

        It is tried every `interval` seconds, until somebody asks to stop. That it waits is said
        once, and that it goes on.
        """
        is_waiting = False
        while True:
            try:
                found = action()
                if is_waiting:
                    _log.info(GOING_ON)
                return found
            except ConnectorError as error:
                if not error.retriable or self.requested:
                    raise
                if not is_waiting:
                    _log.warning(WAITING, error)
                is_waiting = True
                self.rest(interval)

    @contextmanager
    def interruptible(self, on: bool = True) -> Iterator[None]:
        """Within it something is waited for that may never come: Interrupted may end it.

        With `on` False it is not, as what is done has an end.
        """
        before, self._is_interruptible = self._is_interruptible, on
        try:
            yield
        finally:
            self._is_interruptible = before

    def interrupt(self) -> None:
        """Raise Interrupted where a wait is under way that may never end; for a signal handler."""
        if self._is_interruptible:
            raise Interrupted
