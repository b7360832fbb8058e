"""What the newest known label says of the next."""

from typing import Any, ClassVar

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.blend.experts import MOST_CLASSES, Expert, Records, kernels

__all__ = ["Sequences"]

_FADE = 0.98
_SMOOTHING = 0.3  # of the counts, in labels


class Sequences(Expert):
    """How often each label followed the one that was the newest known when a record arrived.

    With late labels the newest known is not the one before: what followed it is counted by what
    was known on arrival. Of each label the counts fade as it comes again.
    """

    opinions: ClassVar[tuple[str, ...]] = ("sequence",)

    def __init__(self) -> None:
        self._counts = np.zeros((0, 0))
        self.newest = -1
        """The newest label's number, -1 before the first."""

    def say(self, records: Records, said: np.ndarray) -> None:
        """See `Expert`."""
        if self.newest >= 0:
            kernels().say_sequence(self._counts[self.newest], _SMOOTHING, said[0])

    def learn_after(self, before: int, k: int, weight: float) -> None:
        """Learn that a record is of class number `k`, `before` being the newest on its arrival."""
        if k >= len(self._counts) and k < MOST_CLASSES:
            more = min(k + 1, MOST_CLASSES) - len(self._counts)
            self._counts = np.pad(self._counts, (0, more))
        if max(before, k) < len(self._counts):
            if before >= 0:
                kernels().learn_sequence(self._counts, before, k, _FADE, weight)
            self.newest = k
        else:
            self.newest = -1

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """See `Expert`."""
        return {"newest": self.newest}, {"counts": self._counts.copy()}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """See `Expert`."""
        self.newest, self._counts = state["newest"], arrays["counts"].copy()
