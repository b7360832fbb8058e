"""Compiling each kernel in one process, although several want it at once."""

import fcntl
import threading

from numba.core import event


class OneAtATime(event.Listener):
    """Holds a lock on a file, which processes share, while this one compiles or loads a kernel.

    Who comes second finds the kernel on disk, rather than to compile it on the other core.
    """

    def __init__(self, file):
        self._file, self._depth, self._own = file, 0, threading.Lock()

    def on_start(self, event):
        with self._own:
            self._depth += 1
            if self._depth == 1:
                fcntl.flock(self._file, fcntl.LOCK_EX)

    def on_end(self, event):
        with self._own:
            self._depth -= 1
            if not self._depth:
                fcntl.flock(self._file, fcntl.LOCK_UN)
