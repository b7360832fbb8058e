"""Runs one task at a time on a background thread."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

__all__ = ["Action", "Beside"]

Action = Callable[[], object]

_CLOSING = 1.0
"""Seconds to wait at the end for what nobody waits for any more."""


class Beside:
    """A thread that does one thing at a time; it begins with the first.

    It is the same thread for all of them, as a database has a connection for each.

    Parameters
    ----------
    name : that of the thread
    at_once : whether there is no thread, and a thing is done by whoever waits for it

    Examples
    --------
    >>> beside, done = Beside("example"), []
    >>> wait = beside.begin(lambda: done.append("this"))
    >>> wait(); done
    ['this']
    >>> beside.begin(lambda: {}["that"])()
    Traceback (most recent call last):
    KeyError: 'that'
    >>> beside.close()
    """

    def __init__(self, name: str, *, at_once: bool = False) -> None:
        self._name = name
        self._at_once = at_once
        self._given: SimpleQueue[Action | None] = SimpleQueue()
        self._ended: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread: Thread | None = None

    def begin(self, action: Action) -> Action:
        """Have `action` done; return what waits for its end, and raises what it has raised.

        That is to be called before the next one begins.
        """
        if self._at_once:
            return action
        if self._thread is None:
            self._thread = Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._given.put(action)
        return self._wait

    def close(self) -> None:
        """End once nothing is done any more, which is waited for, but not for long."""
        if self._thread is not None:
            self._given.put(None)
            self._thread.join(_CLOSING)
            self._thread = None

    def _wait(self) -> None:
        error = self._ended.get()
        if error is not None:
            raise error

    def _work(self) -> None:
        while (action := self._given.get()) is not None:
            error = None
            try:
                action()
            except BaseException as raised:  # it belongs to whoever waits
                error = raised
            self._ended.put(error)
