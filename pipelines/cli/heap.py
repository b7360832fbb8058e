"""Settings of Python's garbage collector for a process that runs one pipeline."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from streamboost.pipelines.runner.observers import Observer

_YOUNG = 50_000
"""Allocations between two collections of the youngest generation; a batch makes fewer."""


class _GarbageCollectorFreezer(Observer):
    def __init__(self) -> None:
        self._has_frozen = False

    def between_batches(self) -> None:
        if not self._has_frozen:
            self._has_frozen = True
            gc.freeze()
            gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])


@contextmanager
def freeze_gc_after_recovery() -> Iterator[Observer]:
    """Context manager that yields an observer, which calls `gc.freeze` before the first batch.

    The collector then ignores the modules, the kernels and the recovered state. This saves time, as
    these objects live until the process ends. On exit, the collector's settings are restored.
    """
    thresholds = gc.get_threshold()
    try:
        yield _GarbageCollectorFreezer()
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
