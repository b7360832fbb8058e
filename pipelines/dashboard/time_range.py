"""Time range of the charts of a page, and the downsampling of its points."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamboost.pipelines.status.file import COUNTED, RATES, point_rates
from streamboost.pipelines.status.formatting import time_text
from streamboost.pipelines.status.reader import Status

MOST_POINTS = 300
"""Maximum number of points of a curve: a screen hardly resolves more."""

SPANS = {"5 min": 300_000, "1 h": 3_600_000, "24 h": 86_400_000, "All": 0}
"""Length in milliseconds of each time range that ends now; 0: everything."""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A time range: the newest `length` milliseconds (0: all), or from `start` to `end`."""

    length: int = 0
    start: int = 0
    end: int = 0

    def bounds(self, points: Sequence[Status]) -> tuple[int, int]:
        """Return start and end in milliseconds; `points` are all stored points, in time order."""
        if self.end:
            return self.start, self.end
        if not points:
            return 0, 0
        first, last = int(points[0]["time"]), int(points[-1]["time"])
        return (max(first, last - self.length) if self.length else first), last

    def select_points(self, points: Sequence[Status]) -> list[Status]:
        """Return the `points` within the range, downsampled if there are too many."""
        start, end = self.bounds(points)
        return downsample([one for one in points if start <= one["time"] <= end], start, end)

    def shift(self, points: Sequence[Status], n_lengths: float) -> "TimeRange":
        """Return the range moved by `n_lengths` times its length, to later times if positive."""
        start, end = self.bounds(points)
        step = int(n_lengths * (end - start))
        return TimeRange(start=start + step, end=end + step)

    def later_half(self, points: Sequence[Status]) -> "TimeRange":
        """Return the later half of the range."""
        start, end = self.bounds(points)
        return TimeRange(start=(start + end) // 2, end=end)

    @property
    def is_fixed(self) -> bool:
        """Whether the range has a fixed start and end, instead of following the newest point."""
        return bool(self.end)

    def __str__(self) -> str:
        return f"{time_text(self.start)} to {time_text(self.end)}" if self.end else ""


ALL = TimeRange()


def downsample(
    points: Sequence[Status], start: int, end: int, max_points: int = MOST_POINTS
) -> list[Status]:
    """Merge the points of each time interval into one; about `max_points` remain at most.

    Counts are added up, rates are computed from the counts, and other values are those of the last
    point. Interval lengths are powers of two, in seconds. While a range grows, only its newest
    point changes until the length is doubled.

    >>> points = [{"time": 500 * i, "records": 1, "seconds": 0.5} for i in range(9)]
    >>> [(one["time"], one["records"]) for one in downsample(points, 0, 4000, 3)]
    [(1500, 4), (3500, 4), (4000, 1)]
    """
    width = 1_000
    while (end - start) // width >= max_points:
        width *= 2
    found: list[Status] = []
    place = None
    for point in points:
        if point["time"] // width == place:
            found[-1] = _merge_points(found[-1], point)
        else:
            found.append(point)
            place = point["time"] // width
    return found


def total_lag(lag: Any) -> float | None:
    """Return the total of `lag`, which is a number or maps sources to numbers; None if unknown."""
    if isinstance(lag, Mapping):
        known = [value for value in lag.values() if value is not None]
        return float(sum(known)) if known else None
    return lag if lag is None else float(lag)


def point_lag(point: Mapping[str, Any]) -> float | None:
    """Return a point's total lag (in a merged point, the largest lag); None if unknown."""
    return total_lag(point.get("most_lag", point.get("lag")))


def _merge_points(a: Status, b: Status) -> Status:
    counts = {key: a.get(key, 0) + b.get(key, 0) for key in COUNTED}
    waited = [lag for one in (a, b) if (lag := point_lag(one)) is not None]
    made = b | counts | ({"most_lag": max(waited)} if waited else {})
    return made | dict(zip(RATES, point_rates(**counts), strict=True))
