"""Shows labelling progress: the labels of a person and the change in accuracy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any

from streamboost.pipelines.dashboard.view import View
from streamboost.pipelines.service.labelling.progress import LabellingProgress
from streamboost.pipelines.status.reader import Status

__all__ = [
    "Gain",
    "Gains",
    "progress_text",
]

Estimate = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Gain:
    """A change of the accuracy, and the margin of error of its 95 % interval.

    >>> print(Gain(0.041, 0.032))
    +4 points (± 3) since your first label
    >>> print(Gain(-0.012, 0.03))
    no clear change since your first label (-1 point, ± 3)
    """

    change: float
    margin: float

    @classmethod
    def between(cls, before: Estimate, now: Estimate) -> "Gain":
        """Return the gain from one estimate to another.

        The margins are combined as for independent estimates. This is an upper bound: records that
        both estimates cover make the difference more precise.
        """
        margins = ((one["high"] - one["low"]) / 2 for one in (before, now))
        return cls(now["value"] - before["value"], hypot(*margins))

    def __str__(self) -> str:
        points, margin = round(100 * self.change), round(100 * self.margin)
        unit = "point" if abs(points) == 1 else "points"
        if abs(self.change) <= self.margin:
            return f"no clear change since your first label ({points:+d} {unit}, ± {margin})"
        return f"{points:+d} {unit} (± {margin}) since your first label"


class Gains:
    """Tracker of the change of accuracy since an annotator's first label."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._before: Estimate | None = None

    def since(self, first: int | None, view: View) -> Gain | None:
        """Return the change up to `view`; None if an accuracy is unknown.

        `first` is the time of the first label, in milliseconds since 1970. The baseline is the
        newest accuracy at that time, or else the first one after it.
        """
        if first is None or view.accuracy is None:
            return None
        if self._before is None or first != self._first:
            self._first, self._before = first, _accuracy_at(first, view.points)
        return None if self._before is None else Gain.between(self._before, view.accuracy)


def _accuracy_at(time: int, points: Sequence[Status]) -> Estimate | None:
    known = [point for point in points if point.get("accuracy") is not None]
    until = [point for point in known if point["time"] <= time]
    chosen = until[-1:] or known[:1]
    return chosen[0]["accuracy"] if chosen else None


def progress_text(
    progress: LabellingProgress, n_open: int, gain: Gain | None, *, has_record: bool | None = None
) -> str:
    """Describe the progress; `has_record` is true if the page shows an open record.

    `n_open` is older and may not count that record yet. If the page shows no record, the counted
    requests are leased by others, or answered and not yet read by the pipeline.

    >>> progress_text(LabellingProgress(8, 12.2, 0), 29, Gain(0.041, 0.032), has_record=True)
    '8 today · 29 open · 12 s a label · +4 points (± 3) since your first label'
    >>> progress_text(LabellingProgress(), 0, None, has_record=True)
    '0 today · 1 open'
    >>> progress_text(LabellingProgress(3), 1, None, has_record=False)
    '3 today · none open for you'
    """
    n_open = max(n_open, int(has_record is True))
    waiting = "none open for you" if has_record is False else f"{n_open:,} open"
    parts = [f"{progress.today:,} today", waiting]
    if progress.seconds is not None:
        parts.append(f"{progress.seconds:.0f} s a label")
    if gain is not None:
        parts.append(str(gain))
    return " · ".join(parts)
