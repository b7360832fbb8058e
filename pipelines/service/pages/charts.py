"""What the dashboard's charts show, from the points and marks of a status."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from streamboost.pipelines.service.pages.tables import Column, Table
from streamboost.pipelines.wording import (
    amount,
    clock,
    estimate,
    percent,
    plural,
    seconds,
)

__all__ = [
    "Curves",
    "Group",
    "Series",
    "accuracy",
    "committee_size",
    "lag",
    "latency",
    "spending",
    "thinned",
    "throughput",
]

MOST_POINTS = 300
"""Points of a curve: a screen has hardly more places for them."""

MOST_MARKS = 40

BEHIND = 0.8
"""Share of the records below which it is said that not all are judged yet."""

TABLE_ROWS = 12

Point = Mapping[str, Any]
Dash = Literal["solid", "dashed", "dotted"]
Unit = Literal["percent", "count", "seconds"]

_IN_WORDS: dict[Unit, Callable[[float | None], str]] = {
    "percent": percent,
    "count": amount,
    "seconds": seconds,
}


@dataclass(frozen=True, slots=True)
class Series:
    """One curve, and the band around it where `low` and `high` are there."""

    name: str
    values: Sequence[float | None]
    colour: str
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    dash: Dash = "solid"
    stepped: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Upright lines, each at one of `times`."""

    name: str
    times: Sequence[int]
    colour: str
    dash: Dash
    width: float


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves over the same times, in milliseconds since the epoch, and what they come to.

    Without times `summary` says what to wait for. `low` and `high` are the axis' ends, None where
    they follow from the values.
    """

    title: str
    unit: Unit
    times: Sequence[int]
    series: Sequence[Series]
    summary: str
    marks: Sequence[Group] = ()
    low: float | None = 0.0
    high: float | None = None
    whole: bool = False

    def spec(self) -> dict[str, Any]:
        """Return what the browser draws, as JSON can hold it."""
        found = asdict(self)
        del found["title"], found["summary"]
        return found

    def as_table(self) -> Table:
        """Return the same in a few rows, the newest first."""
        n = len(self.times)
        kept = sorted({round(i * (n - 1) / (TABLE_ROWS - 1)) for i in range(TABLE_ROWS)})
        in_words = _IN_WORDS[self.unit]
        columns = [Column("Time", "words"), *(Column(one.name) for one in self.series)]
        rows = [
            [clock(self.times[i]), *(_in_row(one, i, in_words) for one in self.series)]
            for i in reversed(kept)
            if 0 <= i < n
        ]
        return Table(self.title, columns, rows, self.summary)


def _in_row(series: Series, i: int, in_words: Callable[[float | None], str]) -> str:
    text = in_words(series.values[i])
    if series.low is None or series.high is None or series.low[i] is None:
        return text
    return f"{text} ({in_words(series.low[i])} to {in_words(series.high[i])})"


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """Return at most `most` of the points, evenly spaced, the first and the last among them.

    >>> [point["time"] for point in thinned([{"time": i} for i in range(9)], 3)]
    [0, 4, 8]
    """
    n = len(points)
    if n <= most:
        return list(points)
    return [points[round(i * (n - 1) / (most - 1))] for i in range(most)]


def accuracy(
    points: Sequence[Point],
    marks: Sequence[Mapping[str, Any]],
    judged: int | None = None,
    arrived: int | None = None,
) -> Curves:
    """Show the accuracy, honest and naive, beside that of repeating the last label.

    So many of the records that `arrived` are `judged`; the others wait for the oldest request.
    """
    found = _column(points, "accuracy")
    honest = [_part(one, "value") for one in found]
    naive = [_value(one) for one in _column(points, "naive")]
    repeated = [_value(one) for one in _column(points, "repeat_last")]
    if not any(one is not None for one in (*honest, *naive, *repeated)):
        text = "No label has come back yet. Answer requests on the Labelling page."
        return Curves("Accuracy", "percent", (), (), text)
    series = (
        Series(
            "honest",
            honest,
            "series-1",
            [_part(one, "low") for one in found],
            [_part(one, "high") for one in found],
        ),
        Series("naive", naive, "series-2", dash="dashed"),
        Series("repeat last", repeated, "grey", dash="dotted"),
    )
    newest = next((one for one in reversed(found) if one is not None), None)
    summary = (
        f"Honest {estimate(newest)}, naive {percent(_last(naive))}, repeating the last label "
        f"{percent(_last(repeated))}."
    )
    if judged is not None and arrived and judged < BEHIND * arrived:
        summary += (
            f" Only {judged:,} of {arrived:,} records are judged yet: the others wait for the "
            "oldest request to be answered or to expire."
        )
    return Curves("Accuracy", "percent", _times(points), series, summary, _groups(marks), high=1.0)


def spending(points: Sequence[Point]) -> Curves:
    """Show how many labels were asked for and came, against how many the budget allows."""
    series = (
        Series("allowed", _column(points, "budget_allowed"), "grey", dash="dotted"),
        Series("asked", _column(points, "requests"), "series-1"),
        Series("answered", _column(points, "answered"), "series-2", dash="dashed"),
        Series("audits", _column(points, "audits"), "series-3", dash="dotted"),
    )
    last = points[-1] if points else {}
    asked, allowed = last.get("requests"), last.get("budget_allowed")
    summary = f"{amount(asked)} labels asked for"
    if allowed is not None:
        summary += f" of {amount(int(allowed))} allowed"
    summary += f", {amount(last.get('answered'))} of them answered; {amount(last.get('audits'))}"
    summary += " were asked at random, for the honest figure."
    return _counts("Labels against budget", points, series, summary)


def throughput(points: Sequence[Point]) -> Curves:
    """Show how many records and labels come a second."""
    records, labels = _rates(points, "records_per_second"), _rates(points, "labels_per_second")
    series = (
        Series("records", records, "series-1"),
        Series("labels", labels, "series-2", dash="dashed"),
    )
    summary = f"{amount(_last(records))} records and {amount(_last(labels))} labels a second."
    return _counts("Throughput", points, series, summary, whole=False)


def latency(points: Sequence[Point]) -> Curves:
    """Show how long a batch takes, from its reading to its commit."""
    taken = _rates(points, "batch_seconds")
    if not any(one is not None for one in taken):
        return Curves("Latency", "seconds", (), (), "Shown once a batch has been committed.")
    series = (Series("batch", taken, "series-1"),)
    summary = f"The newest batches took {seconds(_last(taken))} from reading to commit."
    return Curves("Latency", "seconds", _times(points), series, summary)


def lag(points: Sequence[Point]) -> Curves:
    """Show how many messages wait to be read."""
    waiting = [_total(one) for one in _column(points, "lag")]
    if not any(one is not None for one in waiting):
        return Curves(
            "Lag", "count", (), (), "Shown once the pipeline runs, where its sources can tell."
        )
    last = _last(waiting)
    summary = (
        "Nothing waits to be read." if not last else f"{plural(int(last), 'message')} to read."
    )
    series = (Series("messages", waiting, "series-1"),)
    return Curves("Lag", "count", _times(points), series, summary, whole=True)


def committee_size(points: Sequence[Point], marks: Sequence[Mapping[str, Any]]) -> Curves:
    """Show how many trees the committee has, and when it was replaced."""
    trees, versions = _column(points, "trees"), _column(points, "version")
    if not any(trees):
        text = "No committee yet: the first is trained as soon as two classes have a label."
        return Curves("Committee", "count", (), (), text)
    series = (Series("trees", trees, "series-1", stepped=True),)
    summary = f"Version {amount(_last(versions))} serves, with {amount(_last(trees))} trees."
    return Curves("Committee", "count", _times(points), series, summary, _groups(marks), whole=True)


def _counts(
    title: str,
    points: Sequence[Point],
    series: Sequence[Series],
    summary: str,
    *,
    whole: bool = True,
) -> Curves:
    if not points:
        return Curves(title, "count", (), (), "Nothing yet: shown once the pipeline runs.")
    return Curves(title, "count", _times(points), series, summary, whole=whole)


def _groups(marks: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Return the lines for what changed the committee; too many would hide the curves."""
    groups = []
    for kind, group in (
        ("drift", Group("drift", (), "bad", "solid", 2)),
        ("promoted", Group("new version", (), "grey", "dotted", 1)),
    ):
        times = [int(mark["time"]) for mark in marks if mark["kind"] == kind][-MOST_MARKS:]
        if times:
            groups.append(replace(group, times=times))
    return groups


def _times(points: Sequence[Point]) -> list[int]:
    return [int(point["time"]) for point in points]


def _rates(points: Sequence[Point], name: str) -> list[float | None]:
    """Return a column to as many digits as a curve can show."""
    return [None if one is None else float(f"{one:.4g}") for one in _column(points, name)]


def _column(points: Sequence[Point], name: str) -> list[Any]:
    return [point.get(name) for point in points]


def _part(found: Mapping[str, Any] | None, name: str) -> float | None:
    return None if found is None else round(float(found[name]), 4)


def _value(found: Any) -> float | None:
    """Return a figure that comes alone or with its interval."""
    if isinstance(found, Mapping):
        found = found.get("value")
    return None if found is None else round(float(found), 4)


def _total(found: Any) -> float | None:
    """Return a lag that comes alone or by source."""
    if isinstance(found, Mapping):
        known = [value for value in found.values() if value is not None]
        return float(sum(known)) if known else None
    return found if found is None else float(found)


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)
