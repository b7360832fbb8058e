"""Data of the dashboard's charts."""

from dataclasses import replace

import pytest

from streamboost.pipelines.dashboard import charts as curves
from streamboost.pipelines.dashboard.panels import PANELS
from streamboost.pipelines.dashboard.time_range import downsample
from streamboost.pipelines.dashboard.view import StatusSnapshot
from streamboost.pipelines.status.file import COUNTED
from streamboost.pipelines.status.formatting import time_text
from tests.pipelines.publishing import run

MARKS = [
    {"id": 1, "time": 1_000, "sequence": 1, "kind": "promoted", "version": 1, "text": "serves"},
    {"id": 2, "time": 2_000, "sequence": 2, "kind": "drift", "version": 2, "text": "drift"},
    {"id": 3, "time": 3_000, "sequence": 3, "kind": "command", "version": None, "text": "pause"},
]


def estimate(value):
    return {"value": value, "low": value - 0.1, "high": value + 0.1}


def point(time, **values):
    usual = {
        "records_per_second": 50.0,
        "labels_per_second": 5.0,
        "batch_seconds": 0.123456,
        "accuracy": estimate(0.8),
        "anytime_accuracy": {"value": 0.8, "low": 0.6, "high": 0.95},
        "naive": estimate(0.5),
        "repeat_last": estimate(0.2),
        "requests": 30,
        "audits": 3,
        "answered": 20,
        "expired": 4,
        "open": 6,
        "budget_allowed": 31.4,
        "lag": {"records": 5, "labels": 2},
        "version": 2,
        "trees": 150,
        "experts": {"committee": 0.75, "transitions": 0.25},
    }
    return {"time": time, "sequence": time, **usual, **values}


def seen(points, **documents):
    return StatusSnapshot(points=points, marks=MARKS, documents=documents)


VIEW = seen([point(1_000), point(2_000)])


def test_points_have_what_charts_read(world, make_records, tmp_path, reader):
    world.feed(make_records(20)[0])
    run(world, tmp_path)
    assert point(1_000).keys() <= reader.chart_points()[-1].keys()


def test_what_became_of_the_labels_asked_for_adds_up():
    said = curves.label_budget_curves(VIEW).summary
    assert said.startswith(
        "30 labels requested of 31 allowed, 20 of them answered, 4 expired and 6"
    )


EVERY_CHART = [find for panels in PANELS.values() for _, _, kind, find in panels if kind == "chart"]


@pytest.mark.parametrize("chart", EVERY_CHART)
def test_every_series_has_a_value_at_every_time(chart):
    drawn = chart(VIEW)
    assert list(drawn.times) == [1_000, 2_000]
    for series in drawn.series:
        assert len(series.values) == 2


def test_the_honest_curve_has_its_interval_and_stands_beside_the_others():
    unbiased, interval, always, naive, repeated = curves.accuracy_curves(VIEW).series
    assert (always.low, always.high) == ([0.6, 0.6], [0.95, 0.95])
    assert (interval.low, interval.high) == ([0.7, 0.7], [0.9, 0.9])
    assert interval.values == always.values == unbiased.values
    assert (naive.values[0], repeated.values[0]) == (0.5, 0.2)
    assert naive.low is repeated.low is None


def test_only_what_changes_the_committee_is_marked():
    groups = curves.accuracy_curves(VIEW).marks
    assert [group.ticks for group in groups] == [False, True]
    assert {group.name: list(group.times) for group in groups} == {
        "drift": [2_000],
        "new version": [1_000],
    }


def test_where_more_happened_than_is_marked_the_legend_says_that_it_is_the_newest():
    n = curves.MOST_MARKS
    promoted = [{"kind": "promoted", "time": 1_000 + i} for i in range(n + 1)]
    (group,) = curves.accuracy_curves(replace(VIEW, marks=promoted)).marks
    assert (group.name, len(group.times)) == (f"new version (the newest {n})", n)
    (group,) = curves.accuracy_curves(replace(VIEW, marks=promoted[:n])).marks
    assert group.name == "new version"


def test_accuracy_says_when_most_records_are_not_judged_yet():
    def summary(judged):
        evaluation = {"since_start": {"records": judged}}
        view = seen(VIEW.points, evaluation=evaluation, ledger={"records": 100})
        return curves.accuracy_curves(view).summary

    assert "Covers 10 of 100" in summary(10)
    assert "Covers" not in summary(90)


def test_latency_has_gaps_where_no_batch_came():
    idle = curves.latency_curves(seen([point(1_000), point(2_000, batch_seconds=None)]))
    assert idle.series[0].values == [0.1235, None]
    assert "120 ms" in idle.summary


def test_the_lag_is_that_of_all_sources():
    assert curves.lag_curves(VIEW).series[0].values == [7.0, 7.0]
    assert not curves.lag_curves(seen([point(1_000, lag={})])).times


def test_the_lag_says_since_when_there_is_none_or_how_long_it_takes():
    def at(time, lag, rate=10.0):
        return point(time, lag={"records": lag, "labels": 0}) | {"records_per_second": rate}

    said = curves.lag_curves(
        seen([at(1_000, 4), at(2_000, 203), at(3_000, 0), at(4_000, 0)])
    ).summary
    assert said == (
        f"Lag 0 since {time_text(3_000)}; largest lag in the time range: 203, "
        f"at {time_text(2_000)}."
    )
    assert curves.lag_curves(seen([at(1_000, 0)])).summary == "Lag 0 in the whole time range."
    behind = curves.lag_curves(seen([at(1_000, 0), at(2_000, 203)])).summary
    assert behind == "Lag 203, about 20 s to catch up at the present rate."
    still = curves.lag_curves(seen([at(1_000, 203, rate=0.0)])).summary
    assert still == "Lag 203."


def test_no_two_of_nine_experts_share_a_colour_and_no_two_of_eleven_a_look():
    names = {f"expert {i}": 0.1 for i in range(11)}
    drawn = curves.expert_weight_curves(seen([point(1_000, experts=names)])).series
    assert len({one.colour for one in drawn[:9]}) == 9
    assert len({(one.colour, one.dash) for one in drawn}) == 11


def test_the_lag_of_files_of_lines_is_said_in_bytes():
    def said(source, labels):
        about = {"name": "p", "connectors": {"source": source, "labels": labels}}
        waits = point(1_000, lag={"records": 85_621, "labels": 79})
        return curves.lag_curves(seen([waits], pipeline=about)).summary

    assert said("files", "files") == "Lag 85.7 kB."
    assert said("files", "sqlite").startswith("Lag 85,700"), "it is of both"
    assert said("sqlite", "sqlite").startswith("Lag 85,700")


def test_the_largest_lag_stays_where_points_are_made_one():
    counts = dict.fromkeys(COUNTED, 1)
    points = [
        {"time": i, "lag": {"records": lag}, **counts} for i, lag in enumerate((0, 203, 4), 1)
    ]
    (one,) = downsample(points, 0, 10)
    assert curves.lag_curves(seen([one])).series[0].values == [203.0]


def test_a_row_has_its_time_each_value_and_the_ends_of_its_interval():
    drawn = curves.accuracy_curves(VIEW)
    assert [one["band"] for one in drawn.options["series"]] == [*(False, True, True, False, False)]
    assert drawn.data_rows[0] == [1_000, 0.8, 0.8, 0.7, 0.9, 0.8, 0.6, 0.95, 0.5, 0.2]


def test_points_of_the_past_without_the_sequence_are_drawn():
    old = {key: value for key, value in point(1_000).items() if key != "anytime_accuracy"}
    assert curves.accuracy_curves(seen([old, point(2_000)])).series[2].low == [None, 0.6]


def test_a_chart_is_flat_when_nothing_in_it_changes():
    def at(n, **last):
        return seen([*(point(1_000 * i) for i in range(n - 1)), point(1_000 * n, **last)])

    assert curves.lag_curves(at(curves.FLAT_FROM)).is_flat
    assert not curves.lag_curves(at(curves.FLAT_FROM - 1)).is_flat
    assert not curves.lag_curves(at(curves.FLAT_FROM, lag={"records": 6})).is_flat
    assert not curves.accuracy_curves(at(curves.FLAT_FROM)).is_flat, (
        "its interval says how sure it is"
    )


def test_every_expert_has_a_curve_of_its_own():
    view = seen([point(1_000), point(2_000, experts={"transitions": 0.6, "text": 0.4})])
    drawn = curves.expert_weight_curves(view)
    assert {one.name: list(one.values) for one in drawn.series} == {
        "committee": [0.75, None],
        "transitions": [0.25, 0.6],
        "text": [None, 0.4],
    }
    assert len({(one.colour, one.dash) for one in drawn.series}) == 3
    assert "transitions has the largest weight now: 60.0 %" in drawn.summary


@pytest.mark.parametrize("chart", EVERY_CHART)
def test_emptied_chart_keeps_its_frame_and_has_no_rows(chart):
    drawn = chart(VIEW)
    empty = drawn.without_values("None.")
    assert (empty.options, empty.data_rows, empty.summary) == (drawn.options, [], "None.")
    assert not empty.is_flat


def test_the_summary_of_throughput_is_the_mean_of_the_time_range():
    counts = ((4.0, 100, 2), (1.0, 0, 0), (5.0, 170, 3))
    points = [
        {"time": i, "seconds": seconds, "records": n, "labels": labels}
        for i, (seconds, n, labels) in enumerate(counts)
    ]
    said = curves.throughput_curves(StatusSnapshot(points=points)).summary
    assert said == "Mean in the time range: 27 records and 0.5 labels per second."


def test_accuracy_chart_gives_the_time_of_each_change_of_the_stream():
    changes = [
        {**MARKS[0], "kind": "change", "time": time, "text": f"the stream changed before label {n}"}
        for time, n in ((1_000, 436), (2_000, 1_097))
    ]
    summary = curves.accuracy_curves(replace(VIEW, marks=[*MARKS, *changes])).summary
    for time, n in ((1_000, 436), (2_000, 1_097)):
        assert f" Detected at {time_text(time)}: the stream changed before label {n}." in summary
    summary = curves.accuracy_curves(replace(VIEW, marks=changes * 2)).summary
    assert summary.count("Detected at") == curves.NAMED_CHANGES
    assert "Detected at" not in curves.accuracy_curves(VIEW).summary
