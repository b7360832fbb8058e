"""How far somebody has come with labelling, and what it has brought, in a line."""

from typing import Any

from streamboost.pipelines.service.labelling.progress import Progress
from streamboost.pipelines.status.reader import StatusReader

__all__ = ["Gain", "in_words"]


class Gain:
    """Tells how the accuracy has changed since somebody's first label."""

    def __init__(self, status: StatusReader) -> None:
        self._status = status
        self._first: int | None = None
        self._before: float | None = None

    def since(self, first: int | None, now: float | None) -> float | None:
        """Return the change up to `now` as a share of all records; None where nobody knows.

        `first` is when the first label was given, in milliseconds since 1970. It counts from the
        newest accuracy that was known then, or from the first that was known afterwards.
        """
        if first is None or now is None:
            return None
        if self._before is None or first != self._first:
            self._first, self._before = first, None
            for point in self._status.points():
                accuracy: Any = point.get("accuracy")
                if accuracy is not None and (self._before is None or point["time"] <= first):
                    self._before = accuracy["value"]
        return None if self._before is None else now - self._before


def in_words(progress: Progress, n_open: int, gain: float | None) -> str:
    """Return what to say of it.

    >>> in_words(Progress(8, 12.2, 0), 29, 0.041)
    '8 today · 29 open · 12 s a label · +4 points since your first label'
    >>> in_words(Progress(), 0, None)
    '0 today · 0 open'
    """
    parts = [f"{progress.today:,} today", f"{n_open:,} open"]
    if progress.seconds is not None:
        parts.append(f"{progress.seconds:.0f} s a label")
    if gain is not None:
        points = round(100 * gain)
        unit = "point" if abs(points) == 1 else "points"
        parts.append(f"{points:+d} {unit} since your first label")
    return " · ".join(parts)
