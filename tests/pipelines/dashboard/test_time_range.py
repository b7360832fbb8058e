"""The time range of charts: downsampled without loss of counts, and stable between updates."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.pipelines.dashboard.time_range import (
    ALL,
    MOST_POINTS,
    SPANS,
    TimeRange,
    downsample,
)
from streamboost.pipelines.status import history
from streamboost.pipelines.status.file import COUNTED
from streamboost.pipelines.status.history import HistoryBuffer

HOUR = 3_600_000


def points(times, **more):
    counts = dict.fromkeys(COUNTED, 1)
    return [{"time": time, "sequence": i, **counts, **more} for i, time in enumerate(times)]


@given(st.lists(st.integers(1, 50_000), min_size=1, max_size=1_000))
def test_of_many_points_few_are_drawn_and_none_of_what_they_count_is_lost(gaps):
    times = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    drawn = ALL.select_points(points(times))
    assert len(drawn) <= MOST_POINTS + 1
    for key in COUNTED:
        assert sum(one[key] for one in drawn) == len(times)
    assert drawn[-1]["time"] == times[-1]
    assert [one["time"] for one in drawn] == sorted({one["time"] for one in drawn})


def test_a_rate_over_merged_points_is_that_of_what_they_count_together():
    a, b = points([100, 900])
    a |= {"records": 30, "seconds": 1.0}
    b |= {"records": 10, "seconds": 3.0}
    (one,) = downsample([a, b], 0, 1_000)
    assert (one["records_per_second"], one["seconds"]) == (10.0, 4.0)


def test_from_look_to_look_only_the_newest_point_changes_as_a_rule():
    times = [1_000 * i for i in range(1_500)]
    before = {one["time"]: one for one in ALL.select_points(points(times[:-1]))}
    after = {one["time"]: one for one in ALL.select_points(points(times))}
    changed = [time for time in after if after[time] != before.get(time)]
    assert len(changed) <= 1
    assert len([time for time in before if time not in after]) <= 1


def test_a_stretch_that_ends_now_moves_on_and_one_that_was_chosen_stays():
    early, late = points(range(0, HOUR, 1_000)), points(range(0, 2 * HOUR, 1_000))
    newest = TimeRange(SPANS["5 min"])
    assert newest.bounds(late) == (2 * HOUR - 1_000 - 300_000, 2 * HOUR - 1_000)
    chosen = TimeRange(start=60_000, end=120_000)
    assert chosen.bounds(early) == chosen.bounds(late) == (60_000, 120_000)
    assert chosen.select_points(early) == chosen.select_points(late)
    assert chosen.shift(late, 0.5).bounds(late) == (90_000, 150_000)
    assert ALL.later_half(early).bounds(late) == (early[-1]["time"] // 2, early[-1]["time"])


@pytest.mark.parametrize("span", [ALL, TimeRange(SPANS["1 h"]), TimeRange(start=1, end=2)])
def test_where_there_is_nothing_nothing_is_drawn(span):
    assert span.select_points([]) == []


def test_a_day_is_read_back_from_what_is_kept_of_it(monkeypatch):
    monkeypatch.setattr(history, "MOST_POINTS", 600)
    board = HistoryBuffer()
    for second in range(0, 86_400, 100):
        board.add_point(1_000 * second, second, dict.fromkeys(COUNTED, 1) | {"lag": second})
    kept = [
        {"time": time, "sequence": sequence} | json.loads(text)
        for time, sequence, text in board.points.values()
    ]
    assert 100 < len(TimeRange(SPANS["24 h"]).select_points(kept)) <= MOST_POINTS + 1
    assert len(TimeRange(start=0, end=HOUR).select_points(kept)) >= 8
    assert sum(one["records"] for one in ALL.select_points(kept)) == 864
