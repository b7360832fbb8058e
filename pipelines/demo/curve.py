"""Learning curves: accuracy of each strategy over the labels bought, drawn in a terminal."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.text import Text

from streamboost.pipelines.demo.compare import STRATEGIES, RunProgress
from streamboost.pipelines.demo.table import display_name

Point = tuple[int, float]
"""Number of labels bought, and the accuracy in the sliding window at that time."""

_MARKS = {"margin": "*", "random": "o", "repeat_last": ".", "all": "+"}
_COLOURS = {"margin": "bold blue", "random": "yellow", "repeat_last": "dim", "all": "magenta"}
_ON_TOP = ("repeat_last", "all", "random", "margin")
_HEIGHT, _MARGIN = 15, 6


@dataclass(slots=True)
class LearningCurves:
    """Collector of learning curves: for each strategy and number of labels, the last accuracy."""

    _points: dict[str, dict[int, float]] = field(default_factory=dict)

    def add(self, progress: RunProgress) -> None:
        """Add the accuracy at the current number of labels of a run."""
        known = {progress.strategy: progress.recent}
        if progress.strategy == "margin":
            known["repeat_last"] = progress.repeated
        for name, accuracy in known.items():
            if accuracy is not None and progress.labels:
                self._points.setdefault(name, {})[progress.labels] = accuracy

    def points_by_strategy(
        self, strategies: Sequence[str], limit: int = 200
    ) -> dict[str, list[Point]]:
        """Return at most `limit` points of each strategy, spread evenly over the log axis."""
        wanted = [name for name in STRATEGIES if name in strategies and name in self._points]
        return {
            name: _downsample_points(list(self._points[name].items()), limit) for name in wanted
        }


@dataclass(frozen=True, slots=True)
class Axes:
    """Axes that map labels (logarithmic) and accuracies (linear) to positions from 0 to 1."""

    first: int
    last: int
    low: float
    high: float

    @classmethod
    def from_curves(cls, curves: dict[str, list[Point]]) -> "Axes":
        """Return axes that cover all `curves`, which must have at least one point."""
        points = [point for curve in curves.values() for point in curve]
        labels, heights = [n for n, _ in points], [height for _, height in points]
        low = math.floor(min(heights) * 10) / 10
        return cls(
            min(labels), max(labels), min(low, 0.9), max(math.ceil(max(heights) * 10), 1) / 10
        )

    def x_position(self, labels: int) -> float:
        """Return the horizontal position, 0 to 1, of a number of labels."""
        if self.last == self.first:
            return 0.5
        return math.log(labels / self.first) / math.log(self.last / self.first)

    def y_position(self, accuracy: float) -> float:
        """Return the vertical position, 0 (bottom) to 1, of an accuracy."""
        return (accuracy - self.low) / max(self.high - self.low, 0.1)

    def ticks(self) -> Iterator[int]:
        """Yield the ticks of the label axis: round numbers, or its end if it has none of them."""
        found = [
            step * 10**power
            for power in range(len(str(self.last)))
            for step in (1, 2, 5)
            if self.first <= step * 10**power <= self.last
        ]
        tens = [n for n in found if str(n)[0] == "1"]
        yield from tens if len(tens) > 2 else found or [self.last]


def render_curves(curves: dict[str, list[Point]], width: int) -> Text:
    """Return a drawing of `curves` (points by strategy) as text of at most `width` columns."""
    axes = Axes.from_curves(curves)
    columns = max(width - _MARGIN - 2, 20)
    cells: dict[tuple[int, int], str] = {}
    for name in _ON_TOP:
        for labels, accuracy in _columns_of_curve(curves.get(name, []), axes, columns):
            row = round((1 - axes.y_position(accuracy)) * (_HEIGHT - 1))
            cells[row, labels] = name
    text = Text("accuracy on the newest records, by labels bought\n")
    for row in range(_HEIGHT):
        height = axes.high - (axes.high - axes.low) * row / (_HEIGHT - 1)
        named = row in (0, _HEIGHT // 2, _HEIGHT - 1)
        text.append(f"{height:>{_MARGIN - 1}.0%} |" if named else f"{'':>{_MARGIN}}|")
        for column in range(columns):
            name = cells.get((row, column), "")
            text.append(_MARKS.get(name, " "), style=_COLOURS.get(name))
        text.append("\n")
    text.append(
        f"{'':>{_MARGIN}}+{'-' * columns}\n"
        f"{'':>{_MARGIN + 1}}{_format_tick_labels(axes, columns)}\n"
    )
    for name in curves:
        text.append(f"{'':>{_MARGIN + 1}}")
        text.append(_MARKS[name], style=_COLOURS[name])
        text.append(f" {display_name(name)}\n")
    return text


def _columns_of_curve(
    curve: Sequence[Point], axes: Axes, n_columns: int
) -> Iterator[tuple[int, float]]:
    """Yield (column, accuracy) for all columns from the first point of a curve to the last."""
    for (labels, accuracy), (until, _) in zip(curve, [*curve[1:], *curve[-1:]], strict=True):
        start, end = (round(axes.x_position(n) * (n_columns - 1)) for n in (labels, until))
        for column in range(start, max(end, start + 1)):
            yield column, accuracy


def _format_tick_labels(axes: Axes, n_columns: int) -> str:
    """Return the line of tick labels below the axis, `n_columns` characters at most."""
    line = ""
    for tick in axes.ticks():
        word = f"{tick:,}"
        start = min(
            max(round(axes.x_position(tick) * (n_columns - 1)) - len(word) // 2, 0),
            n_columns - len(word),
        )
        if start > len(line) or not line:
            line = line.ljust(start) + word
    return line.rstrip()


def _downsample_points(points: list[Point], limit: int) -> list[Point]:
    """Return at most `limit` points: the last point in each of `limit` equal parts of the axis."""
    if len(points) <= limit:
        return points
    axes = Axes(points[0][0], points[-1][0], 0.0, 1.0)
    return list({int(axes.x_position(point[0]) * (limit - 1)): point for point in points}.values())
