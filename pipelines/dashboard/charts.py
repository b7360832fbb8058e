"""Charts of the dashboard: curves over time with events, built from a pipeline's status."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from streamboost.pipelines.dashboard import lag as lags
from streamboost.pipelines.dashboard.time_range import point_lag
from streamboost.pipelines.dashboard.view import StatusSnapshot
from streamboost.pipelines.status.formatting import (
    count_text,
    duration_text,
    estimate_text,
    number_text,
    percent_text,
    time_text,
)

MOST_MARKS = 60

FLAT_FROM = 30
"""Minimum number of points of a constant chart that is shown as a sentence only."""

BEHIND = 0.8
"""Share of evaluated records below which the summary reports their number."""

NAMED_CHANGES = 3
"""Maximum number of stream changes in the summary, the newest."""

Dash = Literal["solid", "dashed", "dotted"]
Unit = Literal["percent", "count", "seconds"]


@dataclass(frozen=True, slots=True)
class Series:
    """One curve of a chart, with a confidence band from `low` to `high` if these are given.

    If `band_only` is true, the band is drawn without the curve.
    """

    name: str
    values: Sequence[float | None]
    colour: str
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    dash: Dash = "solid"
    stepped: bool = False
    band_only: bool = False

    def without_values(self) -> "Series":
        """Return a copy of the curve without values."""
        band = None if self.low is None else ()
        return replace(self, values=(), low=band, high=band)


@dataclass(frozen=True, slots=True)
class EventGroup:
    """Events of one kind, shown as vertical lines.

    If `ticks` is true, they are shown as ticks below the axis. `times` are in milliseconds since
    the epoch.
    """

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
    marks: Sequence[EventGroup] = ()
    low: float | None = 0.0
    high: float | None = None
    whole: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Options of the chart, as JSON data: unit, axis ends, and name and style of each curve."""
        series = [
            {
                "name": one.name,
                "colour": one.colour,
                "dash": one.dash,
                "stepped": one.stepped,
                "band": one.low is not None,
                "line": not one.band_only,
            }
            for one in self.series
        ]
        ends = {"low": self.low, "high": self.high}
        return {"unit": self.unit, "whole": self.whole, "series": series, **ends}

    @property
    def data_rows(self) -> list[list[float | None]]:
        """One row per time: the time, then each curve's value and the ends of its band, if any."""
        columns: list[Sequence[float | None]] = [self.times]
        for one in self.series:
            columns.append(one.values)
            if one.low is not None and one.high is not None:
                columns += [one.low, one.high]
        return [list(row) for row in zip(*columns, strict=True)]

    def without_values(self, summary: str) -> "Curves":
        """Return a copy with the same series and axis, without values and with a new `summary`."""
        series = [one.without_values() for one in self.series]
        return replace(self, summary=summary, times=(), series=series, marks=())

    @property
    def is_flat(self) -> bool:
        """Whether there are at least `FLAT_FROM` points and each curve is constant."""
        if len(self.times) < FLAT_FROM or any(one.low is not None for one in self.series):
            return False
        return all(len({*one.values} - {None}) <= 1 for one in self.series)


def accuracy_curves(view: StatusSnapshot) -> Curves:
    """Build the curves of the unbiased and naive accuracy, and the repeat-last-label baseline.

    The unbiased accuracy has two bands: its confidence sequence, which holds the accuracy at all
    times together, and within it the interval, which holds the accuracy at each time.
    """
    found, anytime = _metric_values(view, "accuracy"), _metric_values(view, "anytime_accuracy")
    unbiased = [_rounded_estimate_value(one, "value") for one in found]
    naive = [_rounded_metric_value(one) for one in _metric_values(view, "naive")]
    repeated = [_rounded_metric_value(one) for one in _metric_values(view, "repeat_last")]
    if not any(one is not None for one in (*unbiased, *naive, *repeated)):
        return Curves(_missing_accuracy_text(view))
    low, high = _lower_and_upper_bounds(found)
    lowest, highest = _lower_and_upper_bounds(anytime)
    series = (
        Series("unbiased", unbiased, "series-1"),
        Series("95 % interval", unbiased, "series-1", low, high, band_only=True),
        Series("95 % at all times", unbiased, "series-1", lowest, highest, band_only=True),
        Series("naive", naive, "series-2", dash="dashed"),
        Series("baseline", repeated, "grey", dash="dotted"),
    )
    newest = next((one for one in reversed(found) if one is not None), None)
    summary = (
        f"Unbiased {estimate_text(newest)}, naive {percent_text(_last_known_value(naive))}, "
        f"baseline (repeating the last label) {percent_text(_last_known_value(repeated))}."
        f"{_unevaluated_records_text(view)}{_stream_changes_text(view)}"
    )
    return Curves(
        summary, "percent", _point_times(view), series, _newest_event_groups(view), high=1.0
    )


def _unevaluated_records_text(view: StatusSnapshot) -> str:
    """Return a text with the number of evaluated records; empty if almost all are evaluated."""
    judged = (view.document("evaluation").get("since_start") or {}).get("records")
    arrived = view.document("ledger").get("records")
    if judged is None or not arrived or judged >= BEHIND * arrived:
        return ""
    return f" Covers {judged:,} of {arrived:,} records: later records have no label yet."


def _stream_changes_text(view: StatusSnapshot) -> str:
    """Return when the newest `NAMED_CHANGES` stream changes in the time range were detected."""
    start, end = view.span.bounds(view.points)
    found = [one for one in view.marks if one["kind"] == "change" and start <= one["time"] <= end]
    texts = [f" Detected at {time_text(one['time'])}: {one['text']}." for one in found]
    return "".join(texts[-NAMED_CHANGES:])


def label_budget_curves(view: StatusSnapshot) -> Curves:
    """Build the curves of allowed, requested and answered labels, and of audit requests."""
    # The allowed labels are drawn last: most of them are requested, and the curves coincide.
    series: tuple[Series, ...] = (
        Series("requested", _metric_values(view, "requests"), "series-1"),
        Series("answered", _metric_values(view, "answered"), "series-2", dash="dashed"),
        Series("allowed", _metric_values(view, "budget_allowed"), "text", dash="dotted"),
    )
    last = view.points[-1] if view.points else {}
    audits = last.get("audits")
    if audits:
        series = (
            *series,
            Series("random audits", _metric_values(view, "audits"), "series-3", dash="dotted"),
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
    return _count_curves(view, series, summary, integer_axis=True)


def throughput_curves(view: StatusSnapshot) -> Curves:
    """Build the curves of records and labels per second."""
    records = _rounded_metric_values(view, "records_per_second")
    labels = _rounded_metric_values(view, "labels_per_second")
    series = (
        Series("records", records, "series-1"),
        Series("labels", labels, "series-2", dash="dashed"),
    )
    seconds, n_records, n_labels = (
        sum(point.get(key) or 0 for point in view.points)
        for key in ("seconds", "records", "labels")
    )
    means = (number_text(float(f"{n / (seconds or 1):.2g}")) for n in (n_records, n_labels))
    summary = "Mean in the time range: {} records and {} labels per second.".format(*means)
    return _count_curves(view, series, summary, integer_axis=False)


def latency_curves(view: StatusSnapshot) -> Curves:
    """Build the curve of the time from reading a batch to its commit."""
    taken = _rounded_metric_values(view, "batch_seconds")
    if not any(one is not None for one in taken):
        return Curves("Shown once a batch has been committed.")
    series = (Series("batch", taken, "series-1"),)
    summary = (
        f"The newest batches took {_last_value_text(taken, duration_text)} from reading to commit."
    )
    return Curves(summary, "seconds", _point_times(view), series)


def lag_curves(view: StatusSnapshot) -> Curves:
    """Build the curve of the consumer lag in messages, or in bytes for line-based files."""
    waiting = [point_lag(one) for one in view.points]
    if not any(one is not None for one in waiting):
        return Curves("Shown once the pipeline runs, if its sources report a lag.")
    series = (Series("lag", waiting, "series-1"),)
    return Curves(lags.lag_summary(view), "count", _point_times(view), series, whole=True)


def committee_size_curves(view: StatusSnapshot) -> Curves:
    """Build the curve of the committee's number of trees, and mark new versions."""
    trees, versions = _metric_values(view, "trees"), _metric_values(view, "version")
    if not any(trees):
        n = int(view.document("learner").get("labels") or 0)
        so_far = f"; {count_text(n, 'label')} so far" if n else ""
        return Curves(f"No committee yet: the first needs labels of two classes{so_far}.")
    series = (Series("trees", trees, "series-1", stepped=True),)
    version, n_trees = (number_text(_last_known_value(counts)) for counts in (versions, trees))
    summary = f"Version {version} is active, with {n_trees} trees."
    return Curves(
        summary, "count", _point_times(view), series, _newest_event_groups(view), whole=True
    )


_COLOURS = (*(f"series-{i}" for i in range(1, 8)), "text", "grey")
_DASHES: tuple[Dash, ...] = get_args(Dash)
_LOOKS: tuple[tuple[str, Dash], ...] = tuple(
    (colour, _DASHES[(i + shift) % len(_DASHES)])
    for shift in range(len(_DASHES))
    for i, colour in enumerate(_COLOURS)
)
"""Colour and dash of each curve; similar colours differ in their dash."""


def expert_weight_curves(view: StatusSnapshot) -> Curves:
    """Build the curves of the weights of the experts."""
    found: list[Mapping[str, float]] = [one or {} for one in _metric_values(view, "experts")]
    names = list(dict.fromkeys(name for one in found for name in one))
    if not names:
        return Curves("Shown if experts are configured (key experts in [committee]).")
    series = [
        Series(name, [_rounded_metric_value(one.get(name)) for one in found], colour, dash=dash)
        for name, (colour, dash) in zip(names, _LOOKS, strict=False)
    ]
    last = next(one for one in reversed(found) if one)
    first = max(last, key=lambda name: last[name])
    summary = f"{first} has the largest weight now: {percent_text(last[first])}."
    return Curves(summary, "percent", _point_times(view), series, _newest_event_groups(view))


def _count_curves(
    view: StatusSnapshot, series: Sequence[Series], summary: str, *, integer_axis: bool
) -> Curves:
    if not view.points:
        return Curves("Nothing yet: shown once the pipeline runs.")
    return Curves(summary, "count", _point_times(view), series, whole=integer_axis)


def _newest_event_groups(view: StatusSnapshot) -> list[EventGroup]:
    """Return the newest drifts and deployments in the time range, `MOST_MARKS` of each at most."""
    (start, end), groups = view.span.bounds(view.points), []
    for kind, group in (
        ("change", EventGroup("change of the stream", (), "bad")),
        ("drift", EventGroup("drift", (), "bad")),
        ("promoted", EventGroup("new version", (), "grey", ticks=True)),
    ):
        times = [int(mark["time"]) for mark in view.marks if mark["kind"] == kind]
        times = [one for one in times if start <= one <= end]
        if times:
            told = f" (the newest {MOST_MARKS})" if len(times) > MOST_MARKS else ""
            groups.append(replace(group, name=group.name + told, times=times[-MOST_MARKS:]))
    return groups


def _point_times(view: StatusSnapshot) -> list[int]:
    return [int(point["time"]) for point in view.points]


def _rounded_metric_values(view: StatusSnapshot, metric: str) -> list[float | None]:
    """Return a metric's value at each point, rounded to four significant digits."""
    return [None if one is None else float(f"{one:.4g}") for one in _metric_values(view, metric)]


def _last_value_text(
    values: Sequence[float | None], format_value: Callable[[float | None], str] = number_text
) -> str:
    """Format the last value that is not None, rounded to two significant digits."""
    value = _last_known_value(values)
    return format_value(None if value is None else float(f"{value:.2g}"))


def _metric_values(view: StatusSnapshot, metric: str) -> list[Any]:
    return [point.get(metric) for point in view.points]


def _lower_and_upper_bounds(
    estimates: Sequence[Mapping[str, Any] | None],
) -> tuple[list[float | None], list[float | None]]:
    """Return the lower and the upper bounds of `estimates`, with four decimals."""
    low, high = (
        [_rounded_estimate_value(one, end) for one in estimates] for end in ("low", "high")
    )
    return low, high


def _rounded_estimate_value(estimate: Mapping[str, Any] | None, key: str) -> float | None:
    return None if estimate is None else round(float(estimate[key]), 4)


def _rounded_metric_value(metric: Any) -> float | None:
    """Return a metric's value with four decimals; `metric` is a number or has the key `value`."""
    if isinstance(metric, Mapping):
        metric = metric.get("value")
    return None if metric is None else round(float(metric), 4)


def _missing_accuracy_text(view: StatusSnapshot) -> str:
    """Explain why there is no accuracy yet: no label, or too few labels."""
    answered = int((view.points[-1] if view.points else {}).get("answered") or 0)
    answered = max(answered, int(view.document("ledger").get("answered") or 0))
    if not answered:
        return "No label has come back yet. Answer requests on the Labelling page."
    has = "has" if answered == 1 else "have"
    told = f"{count_text(answered, 'label')} {has} come back"
    return f"{told}: the accuracy is shown once there are enough labels."


def _last_known_value(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)
