"""Executor that runs one task at a time on a background thread."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

Action = Callable[[], object]

_CLOSING = 1.0
"""Timeout in seconds of `close` for a task whose result is no longer needed."""


class BackgroundExecutor:
    """Executor that runs one task at a time on a background thread.

    The first task starts the thread. All tasks run on the same thread, as database connections
    are bound to a thread.

    Parameters
    ----------
    name : name of the thread
    inline : whether tasks run without a thread, each when the caller waits for its end

    Examples
    --------
    >>> executor, done = BackgroundExecutor("example"), []
    >>> wait = executor.submit(lambda: done.append("this"))
    >>> wait(); done
    ['this']
    >>> executor.submit(lambda: {}["that"])()
    Traceback (most recent call last):
    KeyError: 'that'
    >>> executor.close()
    """

    def __init__(self, name: str, *, inline: bool = False) -> None:
        self._name = name
        self._inline = inline
        self._tasks: SimpleQueue[Action | None] = SimpleQueue()
        self._results: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread: Thread | None = None

    def submit(self, task: Action) -> Action:
        """Start `task`; return a function that waits for its end.

        The returned function raises the exception of a failed task. Call it before the next
        `submit`.
        """
        if self._inline:
            return task
        if self._thread is None:
            self._thread = Thread(target=self._run_tasks, name=self._name, daemon=True)
            self._thread.start()
        self._tasks.put(task)
        return self._await_result

    def close(self) -> None:
        """Stop the thread after its current task; wait at most one second for that."""
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join(_CLOSING)
            self._thread = None

    def _await_result(self) -> None:
        error = self._results.get()
        if error is not None:
            raise error

    def _run_tasks(self) -> None:
        while (action := self._tasks.get()) is not None:
            error = None
            try:
                action()
            except BaseException as raised:  # raised again in the waiting thread
                error = raised
            self._results.put(error)
