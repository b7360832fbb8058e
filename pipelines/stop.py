"""Asking a pipeline to stop."""

from queue import Empty, SimpleQueue

__all__ = ["Stop"]


class Stop:
    """Asks a pipeline to stop after its batch; also from a signal handler or another thread."""

    def __init__(self) -> None:
        self.requested = False
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
