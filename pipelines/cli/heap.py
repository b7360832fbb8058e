"""Settings of the garbage collector for a process that runs one pipeline."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from streamboost.pipelines.runner.observers import Observer

__all__ = ["frozen_heap"]

_YOUNG = 50_000
"""Allocations between two collections of the youngest generation; a batch makes fewer."""


class _GarbageCollectorFreezer(Observer):
    """Observer that calls `gc.freeze` once, before the first batch of a recovered pipeline."""

    def __init__(self) -> None:
        self._is_frozen = False

    def between_batches(self) -> None:
        if not self._is_frozen:
            self._is_frozen = True
            gc.freeze()
            gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])


@contextmanager
def frozen_heap() -> Iterator[Observer]:
    """Yield an observer that excludes the recovered state from garbage collection (`gc.freeze`).

    Few objects of modules, kernels and a recovered state are released, and the objects of a batch
    are released without the collector. Traversing both several times a batch takes as long as
    sending its messages. On exit the settings are restored.
    """
    thresholds = gc.get_threshold()
    try:
        yield _GarbageCollectorFreezer()
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
