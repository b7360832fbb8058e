"""Requirements on every panel of the dashboard."""

import pytest
from nicegui import Client, ui

from streamboost.pipelines.dashboard.charts import Curves
from streamboost.pipelines.dashboard.panels import NO_VALUES, PANELS, Panel, panel_id
from streamboost.pipelines.dashboard.time_range import TimeRange
from streamboost.pipelines.dashboard.view import StatusSnapshot
from streamboost.pipelines.dashboard.widgets import Chart
from tests.pipelines.dashboard.test_charts import point

EVERY = {panel[0]: panel for panels in PANELS.values() for panel in panels}
EACH_CHART = [pytest.param(panel, id=name) for name, panel in EVERY.items() if panel[2] == "chart"]


def test_each_panel_has_a_title_of_its_own_and_says_what_it_shows():
    for panels in PANELS.values():
        assert len({panel_id(title) for title, *_ in panels}) == len(panels)
    assert len({panel_id(title) for title in EVERY}) == len(EVERY)
    assert all(about.endswith(".") for _, about, *_ in EVERY.values())


@pytest.mark.parametrize(
    ("kind", "find"),
    [pytest.param(kind, find, id=title) for title, _, kind, find in EVERY.values()],
)
def test_a_panel_without_a_status_says_what_it_waits_for(kind, find):
    empty = find(StatusSnapshot())
    assert kind == ("chart" if isinstance(empty, Curves) else "table")
    assert not (empty.times if isinstance(empty, Curves) else empty.rows)
    assert empty.summary.endswith(".")


def shown(panel, points, *ranges):
    """Return the summary and each chart's spec after a panel has shown a time range or several."""
    whole = StatusSnapshot(points=points)
    with Client(ui.page("/")) as client:
        made = Panel(*panel)
        for span in ranges:
            made.show(whole.in_range(span), whole)
        parts = client.elements.values()
        (said,) = [one for one in parts if "summary" in one.classes]
        return said.text, [one._shown["spec"] for one in parts if isinstance(one, Chart)]


COUNTS = {"records": 1, "labels": 1, "seconds": 1.0}
POINTS = [point(time, **COUNTS) for time in (60_000, 120_000, 180_000)]
BETWEEN = TimeRange(start=70_000, end=80_000)


@pytest.mark.parametrize("panel", EACH_CHART)
@pytest.mark.parametrize("before", [(), (TimeRange(),)])
def test_chart_is_kept_and_empty_if_the_time_range_has_no_points(panel, before):
    summary, (spec,) = shown(panel, POINTS, *before, BETWEEN)
    assert (summary, spec["rows"], spec["ends"]) == (NO_VALUES, [], [70_000, 80_000])
    _, (all_time,) = shown(panel, POINTS, TimeRange())
    assert spec["frame"] == all_time["frame"]
    _, (later,) = shown(panel, POINTS, *before, BETWEEN, TimeRange())
    assert later == all_time


def test_chart_is_kept_if_the_time_range_has_points_without_values():
    latency = EVERY["Latency"]
    idle = [point(time, batch_seconds=None, **COUNTS) for time in (240_000, 300_000)]
    for span in (TimeRange(start=200_000, end=300_000), TimeRange(length=100_000)):
        summary, (spec,) = shown(latency, POINTS + idle, span)
        assert (summary, spec["rows"], spec["ends"][1]) == (NO_VALUES, [], 300_000)


@pytest.mark.parametrize("panel", EACH_CHART)
def test_panel_without_any_values_says_what_it_waits_for_in_each_time_range(panel):
    for points in ([], [{"time": 60_000, **COUNTS}]):
        waiting = shown(panel, points, TimeRange())
        if not waiting[1]:
            assert shown(panel, points, BETWEEN) == waiting
