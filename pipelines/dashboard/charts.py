"""Charts of the dashboard as curves and marks, built from the points and marks of a status."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from streamboost.pipelines.dashboard import lag as lags
from streamboost.pipelines.dashboard.time_range import lag_of
from streamboost.pipelines.dashboard.view import View
from streamboost.pipelines.status.formatting import (
    duration_text,
    estimate_text,
    number_text,
    percent_text,
    plural,
)

__all__ = [
    "Curves",
    "Group",
    "Series",
    "Unit",
    "accuracy",
    "committee_size",
    "expert_weights",
    "lag",
    "latency",
    "spending",
    "throughput",
]

MOST_MARKS = 60

FLAT_FROM = 30
"""Minimum number of points of a constant chart that is shown as a sentence only."""

BEHIND = 0.8
"""Share of evaluated records below which the summary reports their number."""

Dash = Literal["solid", "dashed", "dotted"]
Unit = Literal["percent", "count", "seconds"]


@dataclass(frozen=True, slots=True)
class Series:
    """One curve, with a band from `low` to `high` if these are given."""

    name: str
    values: Sequence[float | None]
    colour: str
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    dash: Dash = "solid"
    stepped: bool = False

    def without_values(self) -> "Series":
        """Return the same curve without values."""
        band = None if self.low is None else ()
        return replace(self, values=(), low=band, high=band)


@dataclass(frozen=True, slots=True)
class Group:
    """Events: vertical lines, or strokes below the axis if `ticks` is true."""

    name: str
    times: Sequence[int]
    colour: str
    ticks: bool = False


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves over the same times, in milliseconds since the epoch, with a summary.

    Without times, `summary` explains when the chart is shown. `low` and `high` are the ends of the
    axis; None derives an end from the values.
    """

    summary: str
    unit: Unit = "count"
    times: Sequence[int] = ()
    series: Sequence[Series] = ()
    marks: Sequence[Group] = ()
    low: float | None = 0.0
    high: float | None = None
    whole: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Options of the chart without its values, for JSON."""
        series = [
            {
                "name": one.name,
                "colour": one.colour,
                "dash": one.dash,
                "stepped": one.stepped,
                "band": one.low is not None,
            }
            for one in self.series
        ]
        ends = {"low": self.low, "high": self.high}
        return {"unit": self.unit, "whole": self.whole, "series": series, **ends}

    @property
    def rows(self) -> list[list[float | None]]:
        """Rows of the chart: a time, then the value of each series and the ends of its interval."""
        columns: list[Sequence[float | None]] = [self.times]
        for one in self.series:
            columns.append(one.values)
            if one.low is not None and one.high is not None:
                columns += [one.low, one.high]
        return [list(row) for row in zip(*columns, strict=True)]

    def without_values(self, summary: str) -> "Curves":
        """Return the same curves without values, so that a chart keeps its frame."""
        series = [one.without_values() for one in self.series]
        return replace(self, summary=summary, times=(), series=series, marks=())

    @property
    def is_flat(self) -> bool:
        """Whether all curves are constant over at least `FLAT_FROM` points."""
        if len(self.times) < FLAT_FROM or any(one.low is not None for one in self.series):
            return False
        return all(len({*one.values} - {None}) <= 1 for one in self.series)


def accuracy(view: View) -> Curves:
    """Build the curves of the unbiased and naive accuracy, and the repeat-last-label baseline."""
    found = _column(view, "accuracy")
    unbiased = [_part(one, "value") for one in found]
    naive = [_value(one) for one in _column(view, "naive")]
    repeated = [_value(one) for one in _column(view, "repeat_last")]
    if not any(one is not None for one in (*unbiased, *naive, *repeated)):
        return Curves(_missing_accuracy(view))
    low, high = ([_part(one, end) for one in found] for end in ("low", "high"))
    series = (
        Series("unbiased", unbiased, "series-1", low, high),
        Series("naive", naive, "series-2", dash="dashed"),
        Series("repeat last", repeated, "grey", dash="dotted"),
    )
    newest = next((one for one in reversed(found) if one is not None), None)
    summary = (
        f"Unbiased {estimate_text(newest)}, naive {percent_text(_last(naive))}, repeating the last "
        f"label {percent_text(_last(repeated))}.{_evaluation_lag(view)}"
    )
    return Curves(summary, "percent", _times(view), series, _groups(view), high=1.0)


def _evaluation_lag(view: View) -> str:
    """Report the number of evaluated records if it is below `BEHIND` of all; else empty."""
    judged = (view.document("evaluation").get("since_start") or {}).get("records")
    arrived = view.document("ledger").get("records")
    if judged is None or not arrived or judged >= BEHIND * arrived:
        return ""
    return f" Covers {judged:,} of {arrived:,} records: later records have no label yet."


def spending(view: View) -> Curves:
    """Build the curves of allowed, requested and answered labels, and of audit requests."""
    series: tuple[Series, ...] = (
        Series("allowed", _column(view, "budget_allowed"), "grey", dash="dotted"),
        Series("requested", _column(view, "requests"), "series-1"),
        Series("answered", _column(view, "answered"), "series-2", dash="dashed"),
    )
    last = view.points[-1] if view.points else {}
    audits = last.get("audits")
    if audits:
        series = (
            *series,
            Series("audit requests", _column(view, "audits"), "series-3", dash="dotted"),
        )
    asked, allowed = last.get("requests"), last.get("budget_allowed")
    summary = f"{number_text(asked)} labels requested"
    if allowed is not None:
        summary += f" of {number_text(int(allowed))} allowed"
    summary += f", {number_text(last.get('answered'))} of them answered"
    if (expired := last.get("expired")) is not None:
        summary += f", {number_text(expired)} expired and {number_text(last.get('open'))} open"
    summary += (
        f"; {number_text(audits)} were requested at random, for the unbiased estimate."
        if audits
        else "."
    )
    return _counts(view, series, summary, whole=True)


def throughput(view: View) -> Curves:
    """Build the curves of records and labels per second."""
    records, labels = _rates(view, "records_per_second"), _rates(view, "labels_per_second")
    series = (
        Series("records", records, "series-1"),
        Series("labels", labels, "series-2", dash="dashed"),
    )
    summary = f"{_rounded(records)} records and {_rounded(labels)} labels per second."
    return _counts(view, series, summary, whole=False)


def latency(view: View) -> Curves:
    """Build the curve of the time from reading a batch to its commit."""
    taken = _rates(view, "batch_seconds")
    if not any(one is not None for one in taken):
        return Curves("Shown once a batch has been committed.")
    series = (Series("batch", taken, "series-1"),)
    summary = f"The newest batches took {_rounded(taken, duration_text)} from reading to commit."
    return Curves(summary, "seconds", _times(view), series)


def lag(view: View) -> Curves:
    """Build the curve of the lag in messages, or in bytes of line-based files."""
    waiting = [lag_of(one) for one in view.points]
    if not any(one is not None for one in waiting):
        return Curves("Shown once the pipeline runs, if its sources report a lag.")
    series = (Series("lag", waiting, "series-1"),)
    return Curves(lags.told(view), "count", _times(view), series, whole=True)


def committee_size(view: View) -> Curves:
    """Build the curve of the number of trees, with the deployments of versions."""
    trees, versions = _column(view, "trees"), _column(view, "version")
    if not any(trees):
        n = int(view.document("learner").get("labels") or 0)
        so_far = f"; {plural(n, 'label')} so far" if n else ""
        return Curves(f"No committee yet: the first needs labels of two classes{so_far}.")
    series = (Series("trees", trees, "series-1", stepped=True),)
    summary = (
        f"Version {number_text(_last(versions))} is active, with {number_text(_last(trees))} trees."
    )
    return Curves(summary, "count", _times(view), series, _groups(view), whole=True)


_LOOKS: tuple[tuple[str, Dash], ...] = tuple(
    (colour, dash)
    for dash in get_args(Dash)
    for colour in (*(f"series-{i}" for i in range(1, 7)), "grey", "text")
)


def expert_weights(view: View) -> Curves:
    """Build the curves of the weights of the experts."""
    found: list[Mapping[str, float]] = [one or {} for one in _column(view, "experts")]
    names = list(dict.fromkeys(name for one in found for name in one))
    if not names:
        return Curves("Shown if experts are configured (key experts in [committee]).")
    series = [
        Series(name, [_value(one.get(name)) for one in found], colour, dash=dash)
        for name, (colour, dash) in zip(names, _LOOKS, strict=False)
    ]
    last = next(one for one in reversed(found) if one)
    first = max(last, key=lambda name: last[name])
    summary = f"{first} has the largest weight now: {percent_text(last[first])}."
    return Curves(summary, "percent", _times(view), series, _groups(view), high=1.0)


def _counts(view: View, series: Sequence[Series], summary: str, *, whole: bool) -> Curves:
    if not view.points:
        return Curves("Nothing yet: shown once the pipeline runs.")
    return Curves(summary, "count", _times(view), series, whole=whole)


def _groups(view: View) -> list[Group]:
    """Return the newest drifts and deployments; more than `MOST_MARKS` would hide the curves."""
    (start, end), groups = view.span.ends(view.points), []
    for kind, group in (
        ("drift", Group("drift", (), "bad")),
        ("promoted", Group("new version", (), "grey", ticks=True)),
    ):
        times = [int(mark["time"]) for mark in view.marks if mark["kind"] == kind]
        times = [one for one in times if start <= one <= end]
        if times:
            told = f" (the newest {MOST_MARKS})" if len(times) > MOST_MARKS else ""
            groups.append(replace(group, name=group.name + told, times=times[-MOST_MARKS:]))
    return groups


def _times(view: View) -> list[int]:
    return [int(point["time"]) for point in view.points]


def _rates(view: View, name: str) -> list[float | None]:
    """Return a column with four significant digits, enough for a curve."""
    return [None if one is None else float(f"{one:.4g}") for one in _column(view, name)]


def _rounded(
    values: Sequence[float | None], said: Callable[[float | None], str] = number_text
) -> str:
    """Format the last value with two significant digits, as more digits vary between batches."""
    value = _last(values)
    return said(None if value is None else float(f"{value:.2g}"))


def _column(view: View, name: str) -> list[Any]:
    return [point.get(name) for point in view.points]


def _part(found: Mapping[str, Any] | None, name: str) -> float | None:
    return None if found is None else round(float(found[name]), 4)


def _value(found: Any) -> float | None:
    """Return a metric stored as a number, or as a value with an interval."""
    if isinstance(found, Mapping):
        found = found.get("value")
    return None if found is None else round(float(found), 4)


def _missing_accuracy(view: View) -> str:
    """Explain why there is no accuracy yet: no label, or too few labels."""
    answered = int((view.points[-1] if view.points else {}).get("answered") or 0)
    answered = max(answered, int(view.document("ledger").get("answered") or 0))
    if not answered:
        return "No label has come back yet. Answer requests on the Labelling page."
    has = "has" if answered == 1 else "have"
    told = f"{plural(answered, 'label')} {has} come back"
    return f"{told}: the accuracy is shown once there are enough labels."


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)
